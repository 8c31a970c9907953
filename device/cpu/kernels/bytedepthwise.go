package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// maxExact is the most products of bytes less their zero points that float32 adds up without
// rounding: 2^24 / (255 * 255).
const maxExact = 258

// chunkPixels is about how many elements of images and results a chunk of several planes has.
const chunkPixels = 16 << 10

// byteDepthwise is a convolution of bytes whose groups have one channel. There are no neighbours
// along K to multiply four at a time, so integers are multiplied as floats, which hold the sums
// exactly: some planes of the image at a time, so that floats stay in the caches.
type byteDepthwise struct {
	byteConvCall
	float  *conv.Convolution // of the planes of a chunk
	zero   *tensor.Tensor    // of the weights; nil: 0
	plane  int               // elements of a channel of the image
	planes int               // channels of all images
	fan    int               // output channels of a group
	each   int               // planes of a chunk, of one image
}

// newByteDepthwise prepares a call whose weights have one channel, nil where it does not serve.
func newByteDepthwise(r *request, call *byteConvCall, p conv.Params) (compute.Kernel, error) {
	_, _, given := r.in(call.in.bZero)
	k := &byteDepthwise{
		byteConvCall: *call,
		zero:         r.constant(call.in.bZero),
		plane:        p.In[0] * p.In[1] * p.In[2],
		planes:       p.N * p.C,
		fan:          p.M / p.C,
	}
	if given && k.zero == nil || k.k > maxExact || p.C != p.Group {
		return nil, nil
	}
	one, err := conv.New(conv.Params{Window: p.Window, N: 1, C: 1, M: k.fan})
	if err != nil {
		return nil, err
	}
	out := one.Out()
	k.pixels = out[0] * out[1] * out[2]
	k.each = min(max(1, chunkPixels/(k.plane+k.fan*k.pixels)), k.group)
	for k.group%k.each != 0 {
		k.each--
	}
	k.float, err = conv.New(
		conv.Params{Window: p.Window, N: 1, C: k.each, M: k.each * k.fan, Group: k.each})
	return k, err
}

// Name implements Kernel.
func (k *byteDepthwise) Name() string { return "conv.int8.depthwise" }

// Absorbed implements [compute.Absorbing].
func (k *byteDepthwise) Absorbed() []int { return []int{k.in.b} }

// PackedBytes implements Kernel.
func (k *byteDepthwise) PackedBytes() int { return 4 * k.group / k.each * k.float.PackedLen() }

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
	for i := range k.group / k.each {
		k.float.PackWeights(tensor.Cast[float32](dst)[i*n:], w[i*k.each*k.fan*k.k:])
	}
}

// parts are the sizes of the parts of a worker's scratch: the kernel's, some planes of the image
// and their results.
func (k *byteDepthwise) parts() (float, image, sums int) {
	return scratchBytes(k.float.ScratchLen()), scratchBytes(k.each * k.plane),
		scratchBytes(k.each * k.fan * k.pixels)
}

// ScratchBytes implements Kernel.
func (k *byteDepthwise) ScratchBytes(workers int) int {
	float, image, sums := k.parts()
	return workers * (float + image + sums)
}

// Bind implements Kernel.
func (k *byteDepthwise) Bind(b compute.Binding) compute.Task {
	t := &byteDepthwiseTask{
		of:       k,
		channels: k.channels(b),
		weights:  tensor.Cast[float32](b.Packed),
	}
	take := taker(b.Scratch)
	float, image, sums := k.parts()
	for range b.Workers {
		t.workers = append(t.workers, planeWorker{
			scratch: tensor.Cast[float32](take(float)),
			args: conv.Args{
				X: tensor.Cast[float32](take(image))[:k.each*k.plane],
				Y: tensor.Cast[float32](take(sums))[:k.each*k.fan*k.pixels],
			},
		})
	}
	return t
}

type byteDepthwiseTask struct {
	of       *byteDepthwise
	channels byteChannels
	weights  []float32
	workers  []planeWorker
}

// planeWorker is what a worker computes planes with.
type planeWorker struct {
	args    conv.Args
	scratch []float32
}

// Run implements Task.
func (t *byteDepthwiseTask) Run(x *compute.Exec) error {
	if t.channels.readBias() {
		t.channels.quantize()
	}
	return x.For(t.of.planes/t.of.each, t)
}

// Chunk implements Region.
func (t *byteDepthwiseTask) Chunk(i, worker int) {
	w := &t.workers[worker]
	x, zero := t.channels.inputs[0], zeroAt(t.channels.input(t.of.in.aZero), 0)
	first, n := i*t.of.each, t.of.float.PackedLen()
	vec.Dequantize(w.args.X, x.Data[first*t.of.plane:][:t.of.each*t.of.plane],
		x.DType == tensor.Int8, 1, zero)
	w.args.W = t.weights[first%t.of.group/t.of.each*n:][:n]
	for c := range t.of.float.Chunks() {
		t.of.float.Run(c, &w.args, w.scratch)
	}
	t.finish(w.args.Y, first*t.of.fan*t.of.pixels, first%t.of.group*t.of.fan)
}

// finish writes the sums of the output channels of a chunk, the first of which is c, to the output
// from element at on.
func (t *byteDepthwiseTask) finish(sums []float32, at, c int) {
	n := t.of.each * t.of.fan
	if t.of.out != tensor.Int32 {
		vec.RequantizeFloatRows(t.channels.y.Data[at:], t.of.pixels, sums, t.of.pixels, t.of.pixels,
			t.channels.grids[c:c+n])
		return
	}
	for i := range n {
		to := tensor.As[int32](t.channels.y)[at+i*t.of.pixels:][:t.of.pixels]
		vec.Float32ToInt32(to, sums[i*t.of.pixels:][:t.of.pixels])
		vec.AddInt32Scalar(to, to, t.channels.correction[c+i])
	}
}
