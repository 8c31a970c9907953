package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// castKernels are Cast (ONNX 6 to 25) between the types that models convert at run time: token
// numbers, masks, and halves.
var castKernels = map[opKey]builder{{"", "Cast"}: cast, {"", "Not"}: not}

// conversion converts the elements of src, bytes of one type, into dst, bytes of another.
type conversion func(dst, src []byte)

type conversionKey struct{ from, to tensor.DType }

// conversions follow the reference: floats to integers drop the fraction, saturate, and make 0 of
// NaN; integers to narrower ones keep the low bits; anything but zero is true.
var conversions = map[conversionKey]conversion{
	{tensor.Float32, tensor.Int64}:    of(vec.Float32ToInt64),
	{tensor.Float32, tensor.Int32}:    of(vec.Float32ToInt32),
	{tensor.Float32, tensor.Float16}:  of(vec.Float32ToFloat16[tensor.Half]),
	{tensor.Float32, tensor.Bool}:     of(truths[float32]),
	{tensor.Float16, tensor.Float32}:  of(vec.Float16ToFloat32[tensor.Half]),
	{tensor.Float32, tensor.BFloat16}: of(vec.Float32ToBFloat16[tensor.BHalf]),
	{tensor.BFloat16, tensor.Float32}: of(vec.BFloat16ToFloat32[tensor.BHalf]),
	{tensor.Int64, tensor.Float32}:    of(vec.Int64ToFloat32),
	{tensor.Int64, tensor.Int32}:      of(integersTo[int32, int64]),
	{tensor.Int64, tensor.Bool}:       of(truths[int64]),
	{tensor.Int32, tensor.Float32}:    of(vec.Int32ToFloat32),
	{tensor.Int32, tensor.Int64}:      of(integersTo[int64, int32]),
	{tensor.Int32, tensor.Bool}:       of(truths[int32]),
	{tensor.Int8, tensor.Float32}:     of(vec.Int8ToFloat32),
	{tensor.Uint8, tensor.Float32}:    of(vec.Uint8ToFloat32),
	{tensor.Uint8, tensor.Bool}:       of(truths[uint8]),
	{tensor.Bool, tensor.Float32}:     of(vec.Uint8ToFloat32),
	{tensor.Bool, tensor.Int32}:       of(integersTo[int32, uint8]),
	{tensor.Bool, tensor.Int64}:       of(integersTo[int64, uint8]),
}

// of makes a conversion from one that knows its types.
//
//go:noinline
func of[U, T tensor.Elem](f func(dst []U, x []T)) conversion {
	return func(dst, src []byte) { f(tensor.Cast[U](dst), tensor.Cast[T](src)) }
}

func integersTo[U int32 | int64, T uint8 | int32 | int64](dst []U, x []T) {
	for i, v := range x[:len(dst)] {
		dst[i] = U(v)
	}
}

func truths[T uint8 | int32 | int64 | float32](dst []bool, x []T) {
	for i, v := range x[:len(dst)] {
		dst[i] = v != 0
	}
}

func cast(r *request) (compute.Kernel, error) {
	_, from, _ := r.in(0)
	f := conversions[conversionKey{from, r.Out[0].DType}]
	if f == nil {
		return nil, nil
	}
	return &castKernel{
		name: "cast",
		f:    f,
		from: from.Size(),
		to:   r.Out[0].DType.Size(),
		n:    count(r.outShape()),
	}, nil
}

// not is Not (ONNX 1).
func not(r *request) (compute.Kernel, error) {
	flip := func(dst, x []bool) {
		for i, v := range x[:len(dst)] {
			dst[i] = !v
		}
	}
	return &castKernel{name: "not", f: of(flip), from: 1, to: 1, n: count(r.outShape())}, nil
}

// castKernel converts n elements of from bytes into elements of to bytes.
type castKernel struct {
	plain
	name        string
	f           conversion
	from, to, n int
}

// castInPlace is a conversion that may write over what it converts.
type castInPlace struct {
	castKernel
	first
}

// Name implements Kernel.
func (k *castKernel) Name() string { return k.name }

// Bind implements Kernel.
func (k *castKernel) Bind(b compute.Binding) compute.Task {
	return &castTask{of: k, x: b.In[0].Data, y: b.Out[0].Data}
}

type castTask struct {
	of   *castKernel
	x, y []byte
}

// Run implements Task.
func (t *castTask) Run(x *compute.Exec) error { return x.For(blocks(t.of.n), t) }

// Chunk implements Region.
func (t *castTask) Chunk(i, _ int) {
	lo, hi := block(i, t.of.n)
	t.of.f(t.y[lo*t.of.to:hi*t.of.to], t.x[lo*t.of.from:hi*t.of.from])
}
