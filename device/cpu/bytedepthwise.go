package cpu

import (
	"github.com/weirgpu/weir/kernel/conv"
	"github.com/weirgpu/weir/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// maxExact is the most products of bytes less their zero points that float32 adds up without rounding: 2^24 / (255 * 255).
const maxExact = 258

// byteDepthwise is a convolution of bytes whose groups have one channel. There are no neighbours along K to multiply four at a
// time, so integers are multiplied as floats, which hold the sums exactly.
type byteDepthwise struct {
	byteConvCall
	float *conv.Op
	zero  *tensor.Tensor // of the weights; nil: 0
	plane int            // elements of a channel of the image
	image int            // elements of the image
}

// newByteDepthwise prepares a call whose weights have one channel, nil where it does not serve.
func newByteDepthwise(r *Request, call *byteConvCall, p conv.Params) (Kernel, error) {
	_, _, given := r.in(call.in.bZero)
	k := &byteDepthwise{byteConvCall: *call, zero: r.constant(call.in.bZero), plane: p.In[0] * p.In[1] * p.In[2]}
	if given && k.zero == nil || k.k > maxExact {
		return nil, nil
	}
	k.image = p.N * p.C * k.plane
	var err error
	if k.float, err = conv.New(p); err != nil {
		return nil, err
	}
	out := k.float.Out()
	k.pixels = out[0] * out[1] * out[2]
	return k, nil
}

// Name implements Kernel.
func (k *byteDepthwise) Name() string { return "conv.int8.depthwise" }

// PackedBytes implements Kernel.
func (k *byteDepthwise) PackedBytes() int { return 4 * k.float.PackedLen() }

// Pack implements Kernel.
func (k *byteDepthwise) Pack(dst []byte) {
	w := make([]float32, k.weight.Len())
	for i := range w {
		w[i] = zeroAt(k.weight, i)
		if k.zero != nil {
			w[i] -= zeroAt(k.zero, i/k.k%k.zero.Len())
		}
	}
	k.float.PackWeights(tensor.Cast[float32](dst), w)
}

// results is the number of elements of the output.
func (k *byteDepthwise) results() int { return k.batches / k.group * k.m * k.pixels }

// ScratchBytes implements Kernel: each worker's, and the image and the sums as floats.
func (k *byteDepthwise) ScratchBytes(workers int) int {
	return workers*scratchBytes(k.float.ScratchLen()) + scratchBytes(k.image) + scratchBytes(k.results())
}

// Bind implements Kernel.
func (k *byteDepthwise) Bind(b Binding) Task {
	t := &byteDepthwiseTask{byteDepthwise: k}
	take := taker(b.Scratch)
	for range b.Workers {
		t.scratch = append(t.scratch, tensor.Cast[float32](take(scratchBytes(k.float.ScratchLen()))))
	}
	t.args = conv.Args{X: tensor.Cast[float32](take(scratchBytes(k.image)))[:k.image], W: tensor.Cast[float32](b.Packed),
		Y: tensor.Cast[float32](take(scratchBytes(k.results())))[:k.results()]}
	t.channels = k.channels(b)
	t.centred.t, t.finished.t = t, t
	return t
}

type byteDepthwiseTask struct {
	*byteDepthwise
	channels byteChannels
	scratch  [][]float32
	args     conv.Args
	centred  centredPlanes
	finished finishedPlanes
}

// Run implements Task.
func (t *byteDepthwiseTask) Run(x *Exec) error {
	if t.channels.prepare() {
		t.channels.quantize()
	}
	if err := x.For(t.image/t.plane, &t.centred); err != nil {
		return err
	}
	if err := x.For(t.float.Chunks(), t); err != nil {
		return err
	}
	return x.For(t.results()/t.pixels, &t.finished)
}

// Chunk implements Region.
func (t *byteDepthwiseTask) Chunk(i, worker int) { t.float.Run(i, &t.args, t.scratch[worker]) }

// centredPlanes is the region that takes the zero point from the image.
type centredPlanes struct{ t *byteDepthwiseTask }

// Chunk implements Region.
func (r *centredPlanes) Chunk(i, _ int) {
	t := r.t
	x, zero := t.channels.inputs[0], zeroAt(t.channels.input(t.in.aZero), 0)
	lo, hi := i*t.plane, (i+1)*t.plane
	dequantizeBytes[x.DType](x.Data[lo:hi], t.args.X[lo:hi], 1, zero)
}

// finishedPlanes is the region that writes the sums of an output channel.
type finishedPlanes struct{ t *byteDepthwiseTask }

// Chunk implements Region.
func (r *finishedPlanes) Chunk(i, _ int) {
	t, c := r.t, i%r.t.m
	lo, hi := i*t.pixels, (i+1)*t.pixels
	if t.out != tensor.Int32 {
		vec.RequantizeFloats(t.channels.y.Data[lo:hi], t.args.Y[lo:hi], &t.channels.grids[c])
		return
	}
	to := tensor.As[int32](t.channels.y)[lo:hi]
	vec.Float32ToInt32(to, t.args.Y[lo:hi])
	vec.AddInt32Scalar(to, to, t.channels.correction[c])
}
