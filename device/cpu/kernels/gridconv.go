package kernels

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// gridConvKernels is weir's GridConv of one group, with constant operands but for the image and the
// bias.
var gridConvKernels = map[opKey]builder{{op.FusedDomain, "GridConv"}: newGridConv}

// gridInputs are those of GridConv without the zero point of the image, which may have 16 bits.
var gridInputs = productInputs{aScale: op.QLinearAScale, aZero: -1, b: op.QLinearB,
	bScale: op.QLinearBScale, bZero: op.QLinearBZero, yScale: -1, yZero: -1}

// gridConv makes integers of the image, which [byteConv] convolves, and numbers of the sums.
// Integers of 16 bits are, where a pixel is multiplied alone, two pixels of bytes: the low and the
// high ones, whose sums are added.
type gridConv struct {
	*byteConv
	quantize quantizeKernel
	zero     *tensor.Tensor // of the integers, which are unsigned where they have 16 bits
	bias     bool
	act      gemm.Epilogue
}

func newGridConv(r *request) (compute.Kernel, error) {
	x, d, ok := r.in(op.QLinearA)
	w, _, _ := r.in(op.QLinearB)
	if !ok || d != tensor.Float32 || len(x) < 3 || len(w) != len(x) || count(x) == 0 ||
		r.Out[0].DType != tensor.Float32 || !gridOperands(r) {
		return nil, nil
	}
	k := &gridConv{zero: unsignedWords(r.constant(op.QLinearAZero))}
	k.quantize = quantizeKernel{name: "quantize", of: k.zero.DType, n: count(x), row: count(x),
		scales: 1}
	b, d, ok := r.in(op.GridBias)
	k.bias = ok
	if ok && (d != tensor.Float32 || count(b) != w[0]) || !setActivation(r.Call, &k.act) {
		return nil, nil
	}
	inner, err := k.onIntegers(r, x)
	if inner == nil || err != nil {
		return nil, err
	}
	k.byteConv = inner
	k.in.aZero, k.real = op.QLinearAZero, k
	return k, nil
}

// gridOperands reports whether scales, zero points and weights are constants that a kernel serves.
func gridOperands(r *request) bool {
	for i := op.QLinearAScale; i <= op.QLinearBZero; i++ {
		if r.constant(i) == nil {
			return false
		}
	}
	zero, w := r.constant(op.QLinearAZero), r.constant(op.QLinearB)
	return zero.Len() == 1 && r.constant(op.QLinearAScale).Len() == 1 &&
		slices.Contains(scaled, zero.DType) && op.GridSumsFit(zero, w, r.constant(op.QLinearBZero))
}

// unsignedWords is a zero point, of integers of 16 bits that of unsigned ones.
func unsignedWords(zero *tensor.Tensor) *tensor.Tensor {
	if zero.DType != tensor.Int16 {
		return zero
	}
	return tensor.Scalar(uint16(tensor.As[int16](zero)[0]) + 1<<15)
}

// words reports whether the integers have 16 bits.
func (k *gridConv) words() bool { return k.zero.DType == tensor.Uint16 }

// onIntegers is the convolution of an image of that shape, once it is one of bytes; nil where there
// is no kernel for it.
func (k *gridConv) onIntegers(r *request, x []int) (*byteConv, error) {
	out, of := r.outShape(), k.zero.DType
	if k.words() {
		if w, _, _ := r.in(op.QLinearB); count(w[2:]) != 1 || !slices.Equal(x[2:], out[2:]) ||
			w[1] != x[1] {
			return nil, nil
		}
		of, x, out = tensor.Uint8, slices.Clone(x), slices.Clone(out)
		x[len(x)-1], out[len(out)-1] = 2*x[len(x)-1], 2*out[len(out)-1]
	}
	call := *r.Request
	call.In = slices.Clone(r.In[:op.GridBias])
	call.In[op.QLinearA] = op.Concrete(of, x...)
	call.Out = []op.Type{op.Concrete(tensor.Int32, out...)}
	inner, err := newByteConvOf(&request{&call}, gridInputs, -1, nil, k.words())
	b, _ := inner.(*byteConv)
	return b, err
}

// Name implements Kernel.
func (k *gridConv) Name() string { return "conv.grid." + k.zero.DType.String() }

// imageBytes is the size of the image of integers.
func (k *gridConv) imageBytes() int { return (k.quantize.n*k.zero.DType.Size() + 63) &^ 63 }

// ScratchBytes implements Kernel.
func (k *gridConv) ScratchBytes(workers int) int {
	return k.imageBytes() + k.byteConv.ScratchBytes(workers)
}

// Bind implements Kernel.
func (k *gridConv) Bind(b compute.Binding) compute.Task {
	take := taker(b.Scratch)
	t := &gridConvTask{image: quantizeTask{
		of:    &k.quantize,
		x:     b.In[op.QLinearA],
		y:     &tensor.Tensor{DType: k.zero.DType, Data: take(k.imageBytes())},
		scale: tensor.As[float32](b.In[op.QLinearAScale]),
		zero:  k.zero,
		grids: make([]vec.Requantization, b.Workers),
	}}
	b.Scratch, b.In = take(k.byteConv.ScratchBytes(b.Workers)), slices.Clone(b.In)
	b.In[op.QLinearA], b.In[op.QLinearAZero] = t.image.y, k.zero
	t.inner = k.byteConv.Bind(b)
	return t
}

// gridConvTask runs the convolution once the image is one of integers.
type gridConvTask struct {
	image quantizeTask
	inner compute.Task
}

// Run implements Task.
func (t *gridConvTask) Run(x *compute.Exec) error {
	if err := t.image.Run(x); err != nil {
		return err
	}
	return t.inner.Run(x)
}

// finish makes numbers of rows of n sums, as [byteChannels.finish] makes bytes.
func (k *gridConv) finish(t *byteChannels, sums []int32, ld, at, c0, c1, n int) {
	pixels := k.pixels
	if k.words() {
		pixels, at, n = pixels/2, at/2, n/2
	}
	common := tensor.As[float32](t.inputs[op.QLinearAScale])[0]
	scales := tensor.As[float32](t.inputs[op.QLinearBScale])
	for c := c0; c < c1; c++ {
		y, row := tensor.As[float32](t.y)[at+(c-c0)*pixels:][:n], sums[(c-c0)*ld:]
		scale, bias := common*scales[c%len(scales)], float32(0)
		if k.bias {
			bias = tensor.As[float32](t.inputs[op.GridBias])[c]
		}
		if k.words() {
			vec.JoinWords(y, row, t.correction[c], scale, bias)
		} else {
			vec.AddInt32Scalar(row[:n], row[:n], t.correction[c])
			vec.Int32ToFloat32(y, row[:n])
			vec.Affine(y, y, scale, bias)
		}
		k.activate(y)
	}
}

// activate applies the activation to finished numbers.
func (k *gridConv) activate(y []float32) {
	if k.act.Clamp {
		vec.Clip(y, y, k.act.Lo, k.act.Hi)
	}
	if k.act.Map != nil {
		k.act.Map(y, y)
	}
}
