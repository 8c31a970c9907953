package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// The sizes of the adversarial network: colour pictures of tiny × tiny pixels from noises numbers.
const (
	tiny   = 16
	noises = 32
)

// gan makes emoji. Both networks learn at once, each from losses of its own (the simultaneous
// gradients of Nowozin et al. 2016, algorithm 1, with the loss of Goodfellow et al. 2014 that does
// not saturate).
func (b *bench) gan() (t task, err error) {
	var of struct{ Samples int }
	out, err := b.run(prepareScript, nil, "emoji", b.emoji, b.dir)
	if err == nil {
		err = json.Unmarshal(out, &of)
	}
	if err == nil {
		err = writeGAN(b.path("gan.onnx"))
	}
	const part = 0.2
	t = task{name: "GAN", metric: "sliced Wasserstein distance", part: part, count: of.Samples,
		judge: judgePictures, gives: []string{"made"}, noise: "z",
		peer: request{Task: "GAN", Batch: 64, Epochs: 12, Rate: 5e-4, Divide: 1,
			Inputs: []string{b.path("emoji.npy")}, Labels: b.path("emoji.npy")}}
	t.recipe = fmt.Sprintf(`model: %s/gan.onnx
start: random
data:
  inputs: {real: %[1]s/emoji.npy, z: {noise: normal}}
  batch: 64
  eval: {part: %v}
loss:
  - binary-cross-entropy: {scores: yes, value: 1, train: ["d*"]}
  - binary-cross-entropy: {scores: no, value: 0, train: ["d*"]}
  - binary-cross-entropy: {scores: no, value: 1, train: ["g*"]}
optimizer: {adam: {rate: 5e-4, beta1: 0.5}}
epochs: 12
`, b.dir, part)
	return t, err
}

// writeGAN writes a generator, and a discriminator of what it makes and of what is real (Radford et
// al. 2016, small and without normalisation).
func writeGAN(path string) error {
	n := &network{g: &graph.Graph{Name: "gan", Opsets: map[string]int{"": 17}}}
	in := func(name string, sizes ...int) *graph.Value {
		dims := []op.Dim{op.Sym("n")}
		for _, s := range sizes {
			dims = append(dims, op.Known(s))
		}
		v := &graph.Value{Name: name, Type: op.Ranked(tensor.Float32, dims...)}
		n.g.Inputs = append(n.g.Inputs, v)
		return v
	}
	real, z := in("real", 3, tiny, tiny), in("z", noises)
	x := n.op("Gemm", "g0", op.Attrs{op.IntAttr("transB", 1)}, z,
		n.weight("g0.weight", 64*16, noises), n.weight("g0.bias", 64*16))
	x = n.op("Relu", "grelu0", nil, x)
	x = n.op("Reshape", "gshape", nil, x, ints("gsizes", 0, 64, 4, 4))
	twice := op.Attrs{op.IntsAttr("strides", 2, 2), op.IntsAttr("pads", 1, 1, 1, 1)}
	x = n.op("ConvTranspose", "g1", twice, x, n.weight("g1.weight", 64, 32, 4, 4),
		n.weight("g1.bias", 32))
	x = n.op("Relu", "grelu1", nil, x)
	x = n.op("ConvTranspose", "g2", twice, x, n.weight("g2.weight", 32, 3, 4, 4),
		n.weight("g2.bias", 3))
	made := n.op("Tanh", "made", nil, x)
	w := [][2]*graph.Value{{n.weight("d0.weight", 32, 3, 4, 4), n.weight("d0.bias", 32)},
		{n.weight("d1.weight", 64, 32, 4, 4), n.weight("d1.bias", 64)},
		{n.weight("d2.weight", 1, 64*16), n.weight("d2.bias", 1)}}
	judged := func(name string, x *graph.Value) *graph.Value {
		leak := op.Attrs{op.FloatAttr("alpha", 0.2)}
		for i := range 2 {
			x = n.op("Conv", fmt.Sprint("judge", name, i), twice, x, w[i][0], w[i][1])
			x = n.op("LeakyRelu", fmt.Sprint("leak", name, i), leak, x)
		}
		x = n.op("Reshape", "flat"+name, nil, x, ints("flat"+name+".sizes", 0, 64*16))
		return n.op("Gemm", name, op.Attrs{op.IntAttr("transB", 1)}, x, w[2][0], w[2][1])
	}
	n.g.Outputs = []*graph.Value{judged("yes", real), judged("no", made), made}
	if n.err != nil {
		return n.err
	}
	return onnx.WriteFile(path, n.g, onnx.WriteOptions{})
}

// judgePictures is how far pictures that were made are from those that are real: the mean distance
// of their sorted projections on random directions (Rabin et al. 2011).
func judgePictures(given map[string][]float32, labels [][]float32) (float64, error) {
	const pixels, directions = 3 * tiny * tiny, 128
	r := rand.New(rand.NewPCG(7, 8))
	made, real := given["made"], labels[0]
	n := min(len(made), len(real)) / pixels
	sum := 0.0
	for range directions {
		d := make([]float64, pixels)
		for i := range d {
			d[i] = r.NormFloat64()
		}
		projected := func(v []float32) []float64 {
			out := make([]float64, n)
			for i := range out {
				for k, x := range v[i*pixels : (i+1)*pixels] {
					out[i] += float64(x) * d[k]
				}
			}
			slices.Sort(out)
			return out
		}
		a, b := projected(made), projected(real)
		for i := range a {
			sum += max(a[i]-b[i], b[i]-a[i]) / float64(n)
		}
	}
	return sum / directions, nil
}
