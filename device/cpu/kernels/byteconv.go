package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// byteConvKernels are the convolutions of bytes with constant weights: ConvInteger-10,
// QLinearConv-10 and weir's, which rescales the result.
var byteConvKernels = map[opKey]builder{
	{"", "ConvInteger"}:             convInteger,
	{"", "QLinearConv"}:             qLinearConv,
	{op.FusedDomain, "QLinearConv"}: rescaledConv,
}

// byteConv is a convolution of bytes by constant bytes. What the comment of [byteProduct] says
// holds for it, with the weights in the place of A. Where weights have zero points it needs the
// sums of the patches, which it computes as a convolution with ones.
type byteConv struct {
	byteConvCall
	op, ones     *conv.Bytes // ones is nil where the zero points of the weights are 0
	flipX, flipW bool
}

// byteConvCall is what the kernels of a convolution of bytes know of the call.
type byteConvCall struct {
	weight      *tensor.Tensor
	m, k, group int           // output channels, products a sum, groups
	batches     int           // groups of all images
	pixels      int           // of an output channel
	in          productInputs // a is the image, b the weights
	bias        int
	out         tensor.DType
	then        *rescaling // what follows; nil: nothing
	real        *gridConv  // makes numbers of the sums; nil: no one does
	fixed       bool       // whether scales, zero points and bias are constant
}

// channels makes what a task keeps for each output channel.
func (k *byteConvCall) channels(b compute.Binding) byteChannels {
	t := byteChannels{byteConvCall: k, inputs: b.In, y: b.Out[0], correction: make([]int32, k.m)}
	if k.out != tensor.Int32 {
		t.grids = make([]vec.Requantization, k.m)
	}
	return t
}

// constants reports whether the operands other than the image are constant.
func (in productInputs) constants(r *request, bias int) bool {
	for _, i := range []int{in.aScale, in.aZero, in.bScale, in.bZero, in.yScale, in.yZero, bias} {
		if _, _, ok := r.in(i); ok && r.constant(i) == nil {
			return false
		}
	}
	return true
}

func convInteger(r *request) (compute.Kernel, error) {
	return newByteConv(r, integerInputs, -1, nil)
}

func qLinearConv(r *request) (compute.Kernel, error) {
	if k, err := vectorsConv(r); k != nil || err != nil {
		return k, err
	}
	return newByteConv(r, qLinearInputs, op.QLinearBias, nil)
}

func rescaledConv(r *request) (compute.Kernel, error) {
	then, ok := r.rescaling(9, r.outShape())
	if !ok || !r.Out[0].Ranked {
		return nil, nil
	}
	if k, err := vectorsConv(r); k != nil || err != nil {
		return k, err
	}
	return newByteConv(r, qLinearInputs, op.QLinearBias, &then)
}

func newByteConv(r *request, in productInputs, bias int, then *rescaling) (compute.Kernel, error) {
	return newByteConvOf(r, in, bias, then, false)
}

// newByteConvOf is newByteConv; with pairs the sums of neighbouring pixels stay together.
func newByteConvOf(r *request, in productInputs, bias int, then *rescaling, pairs bool) (
	compute.Kernel, error) {
	x, dx, ok := r.in(0)
	w, dw, _ := r.in(in.b)
	weight := r.constant(in.b)
	if !ok || weight == nil || len(x) < 3 || len(x) > 5 || len(w) != len(x) || count(x) == 0 ||
		count(w) == 0 || !isByte(dx) || !isByte(dw) {
		return nil, nil
	}
	win, group, ok := convWindow(r.Call, x[2:], w[2:])
	if !ok {
		return nil, nil
	}
	k := &byteConv{
		flipX: dx == tensor.Int8,
		flipW: dw == tensor.Uint8,
		byteConvCall: byteConvCall{
			weight: weight,
			m:      w[0],
			k:      count(w[1:]),
			group:  group,
			in:     in,
			bias:   bias,
			out:    r.Out[0].DType,
			then:   then,
			fixed:  in.constants(r, bias),
		},
	}
	k.batches = x[0] * k.group
	if b, d, ok := r.in(bias); !in.serve(r, k.m) || ok && (d != tensor.Int32 || count(b) != k.m) {
		return nil, nil
	}
	p := conv.Params{Window: win, N: x[0], C: x[1], M: w[0], Group: k.group, Pairs: pairs}
	if w[1] == 1 {
		if d, err := newByteWindows(r, &k.byteConvCall, p, k.flipX, k.flipW); d != nil ||
			err != nil {
			return d, err
		}
		if d, err := newByteDepthwise(r, &k.byteConvCall, p); d != nil || err != nil {
			return d, err
		}
	}
	var err error
	if k.op, err = conv.NewBytes(p, false); err == nil && in.shifted(r, k.flipW) {
		k.ones, err = conv.NewBytes(p, true)
	}
	if err == nil {
		out := k.op.Out()
		k.pixels = out[0] * out[1] * out[2]
	}
	return k, err
}

// Name implements Kernel.
func (k *byteConv) Name() string { return "conv.int8" }

// Absorbed implements [compute.Absorbing].
func (k *byteConv) Absorbed() []int { return []int{k.in.b} }

// packedParts are the sizes of the packed weights, the sums of each output channel, and the packed
// ones.
func (k *byteConv) packedParts() (weights, sums, ones int) {
	if k.ones != nil {
		ones = scratchBytes(k.ones.PackedLen())
	}
	return scratchBytes(k.op.PackedLen()), scratchBytes(k.m), ones
}

// PackedBytes implements Kernel.
func (k *byteConv) PackedBytes() int {
	weights, sums, ones := k.packedParts()
	return weights + sums + ones
}

// Pack implements Kernel.
func (k *byteConv) Pack(dst []byte) {
	weights, sums, _ := k.packedParts()
	k.op.Pack(tensor.Cast[float32](dst[:weights]), tensor.Cast[int32](dst[weights:][:sums]),
		k.weight.Data, k.flipW)
	if k.ones != nil {
		k.ones.PackOnes(tensor.Cast[float32](dst[weights+sums:]))
	}
}

// parts are the sizes of the parts of the scratch: each worker's, the image of words, and the sums
// of its patches.
func (k *byteConv) parts() (worker, words, patches int) {
	worker, words = k.op.ScratchLen(), scratchBytes(k.op.WordsLen())
	if k.ones != nil {
		worker = max(worker, k.ones.ScratchLen())
		patches = scratchBytes(k.batches * k.pixels)
	}
	return scratchBytes(worker), words, patches
}

// ScratchBytes implements Kernel.
func (k *byteConv) ScratchBytes(workers int) int {
	worker, words, patches := k.parts()
	return workers*worker + words + patches
}

// Bind implements Kernel.
func (k *byteConv) Bind(b compute.Binding) compute.Task {
	t := &byteConvTask{of: k}
	take := taker(b.Scratch)
	worker, words, patches := k.parts()
	for range b.Workers {
		t.scratch = append(t.scratch, tensor.Cast[float32](take(worker)))
	}
	t.image.t, t.patches.t = t, t
	t.image.words = tensor.Cast[float32](take(words))
	t.patchSums = tensor.Cast[int32](take(patches))
	t.channels, t.zeroW = k.channels(b), make([]int32, k.m)
	weights, sums, _ := k.packedParts()
	t.sumsW = tensor.Cast[int32](b.Packed[weights:][:sums])
	t.args = k.op.Args(tensor.Cast[float32](b.Packed[:weights]), t.image.words, t.store)
	if k.ones != nil {
		t.patches.args = k.ones.Args(tensor.Cast[float32](b.Packed[weights+sums:]), t.image.words,
			t.storePatches)
	}
	return t
}

type byteConvTask struct {
	of       *byteConv
	channels byteChannels
	scratch  [][]float32
	args     gemm.Args
	image    imageOfWords
	patches  patchSums

	zeroX     byte    // as it is multiplied
	oneZero   bool    // whether all weights have one zero point
	patchSums []int32 // with one zero point, times that, negated
	sumsW     []int32 // of the weights of an output channel
	zeroW     []int32
}

// Run implements Task.
func (t *byteConvTask) Run(x *compute.Exec) error {
	t.zeroPoints()
	if err := x.For(t.of.op.Planes(), &t.image); err != nil {
		return err
	}
	if t.of.ones != nil {
		if err := x.For(t.of.ones.Chunks(), &t.patches); err != nil {
			return err
		}
	}
	return x.For(t.of.op.Chunks(), t)
}

// Chunk implements Region.
func (t *byteConvTask) Chunk(i, worker int) { t.of.op.Run(i, &t.args, t.scratch[worker]) }

// imageOfWords is the region that brings the image into the form that is multiplied.
type imageOfWords struct {
	t     *byteConvTask
	words []float32
}

// Chunk implements Region.
func (r *imageOfWords) Chunk(i, _ int) {
	r.t.of.op.Words(r.words, i, r.t.channels.inputs[0].Data, r.t.of.flipX, r.t.zeroX)
}

// patchSums is the region that adds up the patches.
type patchSums struct {
	t    *byteConvTask
	args gemm.Args
}

// Chunk implements Region.
func (r *patchSums) Chunk(i, worker int) { r.t.of.ones.Run(i, &r.args, r.t.scratch[worker]) }

// zeroPoints finds what they make of each output channel.
func (t *byteConvTask) zeroPoints() {
	if !t.channels.readBias() {
		return
	}
	zeroX := int32(zeroAt(t.channels.input(t.of.in.aZero), 0))
	if t.of.flipX {
		zeroX += 128
	}
	t.zeroX = byte(zeroX)
	zero := t.channels.input(t.of.in.bZero)
	t.oneZero = zero == nil || zero.Len() == 1
	for c := range t.zeroW {
		z := -int32(flippedZero(t.of.flipW))
		if zero != nil {
			z += int32(zeroAt(zero, c%zero.Len()))
		}
		t.zeroW[c] = z
		t.channels.correction[c] += zeroX * (int32(t.of.k)*z - t.sumsW[c])
	}
	t.channels.quantize()
}

// int32s views floats as the integers of the same bits, without a copy.
func int32s(x []float32) []int32 { return tensor.Cast[int32](tensor.Bytes(x)) }

// storePatches keeps the sums of patches, one row a batch.
func (t *byteConvTask) storePatches(x []float32, _, batch, _, _, j0, j1 int) {
	to := t.patchSums[batch*t.of.pixels+j0:][:j1-j0]
	copy(to, int32s(x))
	if t.oneZero {
		for i := range to {
			to[i] *= -t.zeroW[0]
		}
	}
}

// store takes from finished sums what the zero points of the weights make of the patches.
func (t *byteConvTask) store(x []float32, ld, batch, i0, i1, j0, j1 int) {
	k := t.of
	first := batch % k.group * (k.m / k.group)
	if t.of.ones != nil {
		for i := i0; i < i1; i++ {
			t.centre(int32s(x[(i-i0)*ld:][:j1-j0]), batch*k.pixels+j0, t.zeroW[first+i])
		}
	}
	t.channels.finish(int32s(x), ld, (batch/k.group*k.m+first+i0)*k.pixels+j0, first+i0,
		first+i1, j1-j0)
}

// centre subtracts from the sums of a channel what the zero point of its weights adds to them,
// which depends on the sums of the patches from number at on.
func (t *byteConvTask) centre(sums []int32, at int, zero int32) {
	patches := t.patchSums[at:][:len(sums)]
	switch {
	case t.oneZero:
		vec.AddInt32(sums, sums, patches)
	case zero != 0:
		for p, sum := range patches {
			sums[p] -= zero * sum
		}
	}
}

// byteChannels is what becomes of the finished sums of an output channel.
type byteChannels struct {
	*byteConvCall
	inputs     []*tensor.Tensor
	y          *tensor.Tensor
	correction []int32              // what belongs to an output channel whatever the pixel
	grids      []vec.Requantization // of each output channel, unless the sums are the result
	ready      bool                 // whether these are those of this run
}

// input returns input i, nil when the call has none.
func (t *byteChannels) input(i int) *tensor.Tensor {
	if i < 0 || i >= len(t.inputs) {
		return nil
	}
	return t.inputs[i]
}

// readBias reads the bias. It returns false if everything that belongs to the channels is known
// already, since it depends on constants alone.
func (t *byteChannels) readBias() bool {
	if t.ready {
		return false
	}
	clear(t.correction)
	if bias := t.input(t.bias); bias != nil {
		copy(t.correction, tensor.As[int32](bias))
	}
	return true
}

// quantize reads the scales of the result once the corrections are known.
func (t *byteChannels) quantize() {
	t.ready = t.fixed
	if t.out == tensor.Int32 {
		return
	}
	scale := tensor.As[float32](t.input(t.in.bScale))
	common := float64(tensor.As[float32](t.input(t.in.aScale))[0]) / float64(
		tensor.As[float32](t.input(t.in.yScale))[0])
	to := vec.Bytes{Signed: t.out == tensor.Int8}
	if zero := t.input(t.in.yZero); zero != nil {
		to = gridOf(zero)
	}
	for c := range t.grids {
		t.grids[c].Sums(t.correction[c], float32(common*float64(scale[c%len(scale)])), to)
		if t.then != nil {
			t.grids[c].Then(t.then.channel(c))
		}
	}
}

// finish writes rows of n sums, ld apart, of channels c0 to c1 to the output from element at on: as
// they are or, scaled and rounded, as bytes.
func (t *byteChannels) finish(sums []int32, ld, at, c0, c1, n int) {
	if t.real != nil {
		t.real.finish(t, sums, ld, at, c0, c1, n)
		return
	}
	if t.out != tensor.Int32 {
		vec.RequantizeRows(t.y.Data[at:], t.pixels, sums, ld, n, t.grids[c0:c1])
		return
	}
	for c := c0; c < c1; c++ {
		vec.AddInt32Scalar(tensor.As[int32](t.y)[at+(c-c0)*t.pixels:][:n], sums[(c-c0)*ld:][:n],
			t.correction[c])
	}
}

// toBytes rounds numbers, adds the zero point and writes them, saturated, to y from element at on.
// It changes the numbers.
func toBytes(y *tensor.Tensor, at int, v []float32, zero float32) {
	vec.RoundEven(v, v)
	vec.AddScalar(v, v, zero)
	if y.DType == tensor.Int8 {
		vec.Float32ToInt8(tensor.As[int8](y)[at:][:len(v)], v)
		return
	}
	vec.Float32ToUint8(y.Data[at:][:len(v)], v)
}

// taker hands out one part of a scratch after the other.
func taker(scratch []byte) func(bytes int) []byte {
	return func(bytes int) []byte {
		part := scratch[:bytes:bytes]
		scratch = scratch[bytes:]
		return part
	}
}
