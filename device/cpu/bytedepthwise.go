package cpu

import (
	"github.com/weirgpu/weir/kernel/conv"
	"github.com/weirgpu/weir/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// maxExact is the most products of bytes less their zero points that float32 adds up without rounding: 2^24 / (255 * 255).
const maxExact = 258

// chunkPixels is about how many elements of images and results a chunk of several planes has.
const chunkPixels = 16 << 10

// byteDepthwise is a convolution of bytes whose groups have one channel. There are no neighbours along K to multiply four at a
// time, so integers are multiplied as floats, which hold the sums exactly: one plane of the image at a time, so that floats stay
// in the caches.
type byteDepthwise struct {
	byteConvCall
	float  *conv.Op       // of one plane
	zero   *tensor.Tensor // of the weights; nil: 0
	plane  int            // elements of a channel of the image
	planes int            // channels of all images
	fan    int            // output channels of a group
	each   int            // planes of a chunk
}

// newByteDepthwise prepares a call whose weights have one channel, nil where it does not serve.
func newByteDepthwise(r *Request, call *byteConvCall, p conv.Params) (Kernel, error) {
	_, _, given := r.in(call.in.bZero)
	k := &byteDepthwise{byteConvCall: *call, zero: r.constant(call.in.bZero), plane: p.In[0] * p.In[1] * p.In[2],
		planes: p.N * p.C, fan: p.M / p.C}
	if given && k.zero == nil || k.k > maxExact || p.C != p.Group {
		return nil, nil
	}
	var err error
	if k.float, err = conv.New(conv.Params{Window: p.Window, N: 1, C: 1, M: k.fan}); err != nil {
		return nil, err
	}
	out := k.float.Out()
	k.pixels = out[0] * out[1] * out[2]
	k.each = max(1, chunkPixels/(k.plane+k.fan*k.pixels))
	return k, nil
}

// Name implements Kernel.
func (k *byteDepthwise) Name() string { return "conv.int8.depthwise" }

// PackedBytes implements Kernel.
func (k *byteDepthwise) PackedBytes() int { return 4 * k.group * k.float.PackedLen() }

// Pack implements Kernel.
func (k *byteDepthwise) Pack(dst []byte) {
	w := make([]float32, k.weight.Len())
	for i := range w {
		w[i] = zeroAt(k.weight, i)
		if k.zero != nil {
			w[i] -= zeroAt(k.zero, i/k.k%k.zero.Len())
		}
	}
	n := k.float.PackedLen()
	for g := range k.group {
		k.float.PackWeights(tensor.Cast[float32](dst)[g*n:], w[g*k.fan*k.k:][:k.fan*k.k])
	}
}

// parts are the sizes of the parts of a worker's scratch: the kernel's, a plane of the image and its results.
func (k *byteDepthwise) parts() (float, image, sums int) {
	return scratchBytes(k.float.ScratchLen()), scratchBytes(k.plane), scratchBytes(k.fan * k.pixels)
}

// ScratchBytes implements Kernel.
func (k *byteDepthwise) ScratchBytes(workers int) int {
	float, image, sums := k.parts()
	return workers * (float + image + sums)
}

// Bind implements Kernel.
func (k *byteDepthwise) Bind(b Binding) Task {
	t := &byteDepthwiseTask{byteDepthwise: k, channels: k.channels(b), weights: tensor.Cast[float32](b.Packed)}
	take := taker(b.Scratch)
	float, image, sums := k.parts()
	for range b.Workers {
		t.workers = append(t.workers, planeWorker{scratch: tensor.Cast[float32](take(float)),
			args: conv.Args{X: tensor.Cast[float32](take(image))[:k.plane], Y: tensor.Cast[float32](take(sums))[:k.fan*k.pixels]}})
	}
	return t
}

type byteDepthwiseTask struct {
	*byteDepthwise
	channels byteChannels
	weights  []float32
	workers  []planeWorker
}

// planeWorker is what a worker computes a plane with.
type planeWorker struct {
	args    conv.Args
	scratch []float32
}

// Run implements Task.
func (t *byteDepthwiseTask) Run(x *Exec) error {
	if t.channels.prepare() {
		t.channels.quantize()
	}
	return x.For((t.planes+t.each-1)/t.each, t)
}

// Chunk implements Region.
func (t *byteDepthwiseTask) Chunk(i, worker int) {
	w := &t.workers[worker]
	x, zero := t.channels.inputs[0], zeroAt(t.channels.input(t.in.aZero), 0)
	n := t.float.PackedLen()
	for p := i * t.each; p < min((i+1)*t.each, t.planes); p++ {
		g := p % t.group
		dequantizeBytes[x.DType](x.Data[p*t.plane:][:t.plane], w.args.X, 1, zero)
		w.args.W = t.weights[g*n:][:n]
		for c := range t.float.Chunks() {
			t.float.Run(c, &w.args, w.scratch)
		}
		t.finish(w.args.Y, p*t.fan*t.pixels, g*t.fan)
	}
}

// finish writes the sums of the output channels from c on, those of one plane of the image, to the output from element at on.
func (t *byteDepthwiseTask) finish(sums []float32, at, c int) {
	for f := range t.fan {
		from, lo := sums[f*t.pixels:][:t.pixels], at+f*t.pixels
		if t.out != tensor.Int32 {
			vec.RequantizeFloats(t.channels.y.Data[lo:][:t.pixels], from, &t.channels.grids[c+f])
			continue
		}
		to := tensor.As[int32](t.channels.y)[lo:][:t.pixels]
		vec.Float32ToInt32(to, from)
		vec.AddInt32Scalar(to, to, t.channels.correction[c+f])
	}
}
