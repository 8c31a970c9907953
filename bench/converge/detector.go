package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// The sizes of the detector: pictures of side pixels, in which each of cells × cells squares says
// whether a tree's middle lies in it, and where and how large the tree is.
const (
	side   = 64
	cells  = 8
	stride = side / cells
	noBox  = -1000 // what boxes are of squares without one
)

// detector finds crowns of trees in aerial photographs.
func (b *bench) detector() (t task, err error) {
	var of struct{ Samples int }
	out, err := b.run(prepareScript, nil, "trees", b.trees, b.dir)
	if err == nil {
		err = json.Unmarshal(out, &of)
	}
	if err == nil {
		err = writeDetector(b.path("detector.onnx"))
	}
	const part = 0.2
	t = task{name: "detector", metric: "AP50", part: part, count: of.Samples,
		judge: judgeBoxes, gives: []string{"there", "box"},
		peer: request{Task: "detector", Batch: 16, Epochs: 12, Rate: 2e-3, Divide: 255,
			Inputs: []string{b.path("tiles.npy")}, Labels: b.path("there.npy"),
			More: []string{b.path("boxes.npy")}}}
	t.recipe = fmt.Sprintf(`model: %s/detector.onnx
start: random
data:
  inputs: {image: %[1]s/tiles.npy}
  labels: {trees: %[1]s/there.npy, boxes: %[1]s/boxes.npy}
  divide: 255
  batch: 16
  eval: {part: %v}
loss:
  - binary-cross-entropy: {scores: there, labels: trees}
  - huber: {scores: box, labels: boxes, ignore: %d}
optimizer: {adam: {rate: 2e-3}}
schedule: cosine
epochs: 12
`, b.dir, part, noBox)
	return t, err
}

// writeDetector writes a convolutional network with a score and a box for each square.
func writeDetector(path string) error {
	n := &network{g: &graph.Graph{Name: "detector", Opsets: map[string]int{"": 17}}}
	image := &graph.Value{Name: "image", Type: op.Ranked(tensor.Float32, op.Sym("n"), op.Known(3),
		op.Known(side), op.Known(side))}
	n.g.Inputs = []*graph.Value{image}
	x, from := image, 3
	for i, to := range []int{16, 32, 64, 64} {
		step := int64(2)
		if i == 3 {
			step = 1
		}
		x = n.conv(fmt.Sprint("conv", i), x, from, to, 3, step, 1)
		name := fmt.Sprint("norm", i)
		x = n.op("BatchNormalization", name, nil, x, n.full(name+".scale", 1, to),
			n.full(name+".bias", 0, to), n.full(name+".mean", 0, to), n.full(name+".var", 1, to))
		x, from = n.op("Relu", fmt.Sprint("relu", i), nil, x), to
	}
	n.g.Outputs = []*graph.Value{n.conv("there", x, from, 1, 1, 1, 0),
		n.conv("box", x, from, 4, 1, 1, 0)}
	if n.err != nil {
		return n.err
	}
	return onnx.WriteFile(path, n.g, onnx.WriteOptions{})
}

// conv is a convolution with a bias.
func (n *network) conv(name string, x *graph.Value, from, to, size int,
	step, pad int64) *graph.Value {
	return n.op("Conv", name, op.Attrs{op.IntsAttr("strides", step, step),
		op.IntsAttr("pads", pad, pad, pad, pad)}, x, n.weight(name+".weight", to, from, size, size),
		n.weight(name+".bias", to))
}

// full is a constant of one number.
func (n *network) full(name string, of float32, size int) *graph.Value {
	return graph.NewConst(name, tensor.From(slices.Repeat([]float32{of}, size), size))
}

// found is a box that a model has found, or that there is.
type found struct {
	picture                int
	score                  float64
	left, top, right, down float64
}

// boxesOf are the boxes of pictures, of those squares whose score is above a border.
func boxesOf(score, box []float32, pictures int, border float64) (all []found) {
	const square = cells * cells
	for p := range pictures {
		for k := range square {
			s := float64(score[p*square+k])
			if s <= border {
				continue
			}
			at := func(i int) float64 { return float64(box[(p*4+i)*square+k]) }
			x, y := (float64(k%cells)+at(0))*stride, (float64(k/cells)+at(1))*stride
			w, h := stride*math.Exp(min(at(2), 4)), stride*math.Exp(min(at(3), 4))
			all = append(all, found{p, s, x - w/2, y - h/2, x + w/2, y + h/2})
		}
	}
	return all
}

// overlap is the part that the intersection of two boxes has of their union.
func overlap(a, b found) float64 {
	w := min(a.right, b.right) - max(a.left, b.left)
	h := min(a.down, b.down) - max(a.top, b.top)
	if w <= 0 || h <= 0 {
		return 0
	}
	area := func(f found) float64 { return (f.right - f.left) * (f.down - f.top) }
	return w * h / (area(a) + area(b) - w*h)
}

// judgeBoxes is the average precision of boxes that overlap by half (Everingham et al. 2010,
// over all points), once what overlaps with a better one by more than 0.4 is left out.
func judgeBoxes(given map[string][]float32, labels [][]float32) (float64, error) {
	pictures := len(labels[0]) / (cells * cells)
	all := boxesOf(given["there"], given["box"], pictures, math.Inf(-1))
	slices.SortStableFunc(all, func(a, b found) int {
		if a.score > b.score {
			return -1
		}
		return 1
	})
	is := boxesOf(labels[0], labels[1], pictures, 0.5)
	var kept []found
	taken := make([]bool, len(is))
	precision, right := 0.0, 0
	for _, f := range all {
		if slices.ContainsFunc(kept, func(k found) bool {
			return k.picture == f.picture && overlap(k, f) > 0.4
		}) {
			continue
		}
		kept = append(kept, f)
		best, at := 0.5, -1
		for i, t := range is {
			if o := overlap(t, f); t.picture == f.picture && !taken[i] && o >= best {
				best, at = o, i
			}
		}
		if at >= 0 {
			taken[at] = true
			right++
			precision += float64(right) / float64(len(kept)) / float64(len(is))
		}
	}
	return precision, nil
}
