package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
	"slices"
)

// pairs is an operator on two operands by rows: both are rows, the second is one number, the first
// is one number.
type pairs[T, U any] struct {
	vv func(dst []U, a, b []T)
	vs func(dst []U, a []T, b T)
	sv func(dst []U, b []T, a T)
}

var (
	addRows = pairs[float32, float32]{vec.Add, vec.AddScalar, vec.AddScalar}
	sumRows = pairs[int32, int32]{vec.AddInt32, vec.AddInt32Scalar, vec.AddInt32Scalar}
	mulRows = pairs[float32, float32]{vec.Mul, vec.MulScalar, vec.MulScalar}
	subRows = pairs[float32, float32]{vec.Sub, vec.SubScalar, vec.RSubScalar}
	divRows = pairs[float32, float32]{vec.Div, vec.DivScalar, vec.RDivScalar}
	maxRows = pairs[float32, float32]{vec.Max, vec.MaxScalar, vec.MaxScalar}
	minRows = pairs[float32, float32]{vec.Min, vec.MinScalar, vec.MinScalar}
)

// binaryKernels are the arithmetic operators with numpy broadcasting (ONNX Add, Sub, Mul, Div 7 to
// 14, PRelu 7 to 16, Pow with a constant exponent), vectorised for float32, for sums of int32, and
// for sums and products of bfloat16, plain for the integers of shapes and indices.
var binaryKernels = map[opKey]builder{
	{"", "Add"}: anyOf(binary(addRows), binary(sumRows), binary(inFloats(addRows)),
		integers(func(a, b int64) int64 { return a + b })),
	{"", "Sub"}: anyOf(binary(subRows), integers(func(a, b int64) int64 { return a - b })),
	{"", "Mul"}: anyOf(binary(mulRows), integers(func(a, b int64) int64 { return a * b }),
		binary(inFloats(mulRows))),
	{"", "Div"}: anyOf(binary(divRows),
		divisors(integers(func(a, b int64) int64 { return a / b }))),
	{"", "Pow"}:   powKernel,
	{"", "PRelu"}: binary(pairs[float32, float32]{preluRow, vec.LeakyRelu, preluOne}),
}

// inFloats is an operator on bfloat16 by way of float32, some elements at a time.
func inFloats(f pairs[float32, float32]) pairs[tensor.BHalf, tensor.BHalf] {
	const block = 512
	each := func(dst, a, b []tensor.BHalf, do func(dst, a, b []float32)) {
		var x, y [block]float32
		for i := 0; i < len(dst); i += block {
			n := min(block, len(dst)-i)
			vec.BFloat16ToFloat32(x[:n], a[i:i+n])
			if b != nil {
				vec.BFloat16ToFloat32(y[:n], b[i:i+n])
			}
			do(x[:n], x[:n], y[:n])
			vec.Float32ToBFloat16(dst[i:i+n], x[:n])
		}
	}
	return pairs[tensor.BHalf, tensor.BHalf]{
		vv: func(dst, a, b []tensor.BHalf) { each(dst, a, b, f.vv) },
		vs: func(dst, a []tensor.BHalf, b tensor.BHalf) {
			each(dst, a, nil, func(dst, a, _ []float32) { f.vs(dst, a, b.Float32()) })
		},
		sv: func(dst, b []tensor.BHalf, a tensor.BHalf) {
			each(dst, b, nil, func(dst, b, _ []float32) { f.sv(dst, b, a.Float32()) })
		},
	}
}

func preluRow(dst, x, slope []float32) {
	for i, v := range x[:len(dst)] {
		if v < 0 {
			v *= slope[i]
		}
		dst[i] = v
	}
}

func preluOne(dst, slope []float32, x float32) {
	for i, s := range slope[:len(dst)] {
		if dst[i] = x; x < 0 {
			dst[i] = x * s
		}
	}
}

// anyOf is the first of several builders that has a kernel.
//
//go:noinline
func anyOf(bs ...builder) builder {
	return func(r *request) (compute.Kernel, error) {
		for _, b := range bs {
			if k, err := b(r); k != nil || err != nil {
				return k, err
			}
		}
		return nil, nil
	}
}

// binary is the builder of an operator on two operands of type T with a result of type U.
//
//go:noinline
func binary[T, U tensor.Elem](f pairs[T, U]) builder {
	return func(r *request) (compute.Kernel, error) {
		if len(r.In) != 2 || !r.inputsAre(tensor.DTypeOf[T]()) ||
			r.Out[0].DType != tensor.DTypeOf[U]() {
			return nil, nil
		}
		a, _, _ := r.in(0)
		b, _, _ := r.in(1)
		return &binaryKernel[T, U]{
			name: r.Call.Type,
			f:    f,
			cut:  cutRows(broadcast(r.outShape(), a, b)),
			full: r.full(0, 1),
		}, nil
	}
}

// lift makes the three forms of an operator from its definition on single elements.
func lift[T, U any](f func(a, b T) U) pairs[T, U] {
	return pairs[T, U]{
		vv: func(dst []U, a, b []T) {
			for i := range dst {
				dst[i] = f(a[i], b[i])
			}
		},
		vs: func(dst []U, a []T, b T) {
			for i := range dst {
				dst[i] = f(a[i], b)
			}
		},
		sv: func(dst []U, b []T, a T) {
			for i := range dst {
				dst[i] = f(a, b[i])
			}
		},
	}
}

// integers is an operator on int64, and on int32, where the low half of the result is kept.
func integers(f func(a, b int64) int64) builder {
	return anyOf(binary(lift(f)),
		binary(lift(func(a, b int32) int32 { return int32(f(int64(a), int64(b))) })))
}

// divisors leaves to the reference what might divide by zero, which is an error.
func divisors(b builder) builder {
	return func(r *request) (compute.Kernel, error) {
		c := r.constant(1)
		if c == nil {
			return nil, nil
		}
		values, err := c.Ints()
		if err != nil {
			return nil, nil
		}
		for _, v := range values {
			if v == 0 {
				return nil, nil
			}
		}
		return b(r)
	}
}

type binaryKernel[T, U tensor.Elem] struct {
	plain
	name string
	f    pairs[T, U]
	cut  rowChunks
	full []int // the operands that have an element for each of the result
}

// full lists those of the given inputs that have the shape of output 0.
//
//go:noinline
func (r *request) full(inputs ...int) []int {
	var out []int
	for _, i := range inputs {
		if shape, _, ok := r.in(i); ok && slices.Equal(shape, r.outShape()) {
			out = append(out, i)
		}
	}
	return out
}

// InPlace implements [compute.InPlace].
func (k *binaryKernel[T, U]) InPlace() []int { return k.full }

// Name implements Kernel.
func (k *binaryKernel[T, U]) Name() string { return "broadcast." + k.name }

// Bind implements Kernel.
func (k *binaryKernel[T, U]) Bind(b compute.Binding) compute.Task {
	return &binaryTask[T, U]{
		of: k,
		a:  tensor.As[T](b.In[0]),
		b:  tensor.As[T](b.In[1]),
		y:  tensor.As[U](b.Out[0]),
	}
}

type binaryTask[T, U tensor.Elem] struct {
	of   *binaryKernel[T, U]
	a, b []T
	y    []U
}

// Run implements Task.
func (t *binaryTask[T, U]) Run(x *compute.Exec) error { return x.For(t.of.cut.chunks, t) }

// Chunk implements Region.
func (t *binaryTask[T, U]) Chunk(i, _ int) {
	first, last, lo, hi := t.of.cut.chunk(i)
	l := &t.of.cut.loop
	var off [maxOperands]int
	for row := first; row < last; row++ {
		l.at(row, &off)
		oa, ob := off[0], off[1]
		y := t.y[row*l.inner+lo : row*l.inner+hi]
		switch {
		case l.runs[0] && l.runs[1]:
			t.of.f.vv(y, t.a[oa+lo:oa+hi], t.b[ob+lo:ob+hi])
		case l.runs[0]:
			t.of.f.vs(y, t.a[oa+lo:oa+hi], t.b[ob])
		case l.runs[1]:
			t.of.f.sv(y, t.b[ob+lo:ob+hi], t.a[oa])
		default: // a row of one element
			t.of.f.vv(y, t.a[oa:oa+1], t.b[ob:ob+1])
		}
	}
}
