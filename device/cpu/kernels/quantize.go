package kernels

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// quantizeKernels are QuantizeLinear and DequantizeLinear (ONNX 10 to 25) between float32 and
// integers of 8 or 16 bits, and weir's Grid, with one scale for all or one an index of an axis, and
// DynamicQuantizeLinear-11.
var quantizeKernels = map[opKey]builder{
	{"", "QuantizeLinear"}: quantizeLinear, {"", "DequantizeLinear"}: dequantizeLinear,
	{"", "DynamicQuantizeLinear"}: dynamicQuantizeLinear, {op.FusedDomain, "Grid"}: gridKernel,
}

// scaled are the types that the kernels quantize to.
var scaled = []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16}

// minRow is the least number of neighbours on one scale that a vector loop is worth starting for.
const minRow = 8

// quantizeLinear is saturate(round(x / scale) + zero point).
func quantizeLinear(r *request) (compute.Kernel, error) {
	to := r.Out[0].DType
	if p := r.Call.Attrs.Int("precision", 0); p != 0 && tensor.DType(p) != tensor.Float32 {
		return nil, nil
	}
	if _, d, ok := r.in(0); !ok || d != tensor.Float32 || !slices.Contains(scaled, to) {
		return nil, nil
	}
	if k := scaleKernel(r, "quantize", to); k != nil {
		return k, nil
	}
	return nil, nil
}

// gridKernel is (saturate(round(x / scale) + zero point) - zero point) · scale.
func gridKernel(r *request) (compute.Kernel, error) {
	_, d, ok := r.in(0)
	_, of, ok2 := r.in(2)
	if !ok || !ok2 || d != tensor.Float32 || !slices.Contains(scaled, of) {
		return nil, nil
	}
	if k := scaleKernel(r, "grid", of); k != nil {
		return &gridInPlace{quantizeKernel: *k}, nil
	}
	return nil, nil
}

// dequantizeLinear is (x - zero point) · scale.
func dequantizeLinear(r *request) (compute.Kernel, error) {
	_, from, ok := r.in(0)
	if !ok || !slices.Contains(scaled, from) || r.Out[0].DType != tensor.Float32 {
		return nil, nil
	}
	if k := scaleKernel(r, "dequantize", from); k != nil {
		return k, nil
	}
	return nil, nil
}

// scaleKernel prepares the geometry that all share, nil where it is not served; of is the type of
// the integers.
func scaleKernel(r *request, name string, of tensor.DType) *quantizeKernel {
	shape, _, _ := r.in(0)
	scale, d, ok := r.in(1)
	if !ok || d != tensor.Float32 || r.Call.Attrs.Int("block_size", 0) != 0 {
		return nil
	}
	if z, d, ok := r.in(2); ok && (d != of || count(z) != count(scale)) {
		return nil
	}
	k := &quantizeKernel{name: name, of: of, n: count(shape), scales: 1}
	if count(scale) == 1 {
		k.row = k.n
		return k
	}
	axis := int(r.Call.Attrs.Int("axis", 1))
	if axis < 0 {
		axis += len(shape)
	}
	if axis < 0 || axis >= len(shape) || len(scale) != 1 || scale[0] != shape[axis] {
		return nil
	}
	k.scales, k.row = shape[axis], count(shape[axis+1:])
	if k.row < minRow {
		return nil
	}
	return k
}

// quantizeKernel converts n elements, rows of which have one of so many scales in turn.
type quantizeKernel struct {
	plain
	name           string
	of             tensor.DType // the integers
	n, row, scales int
}

// gridInPlace may write the numbers on the grid over those that it rounds.
type gridInPlace struct {
	quantizeKernel
	first
}

// Name implements Kernel.
func (k *quantizeKernel) Name() string { return k.name }

// Bind implements Kernel.
func (k *quantizeKernel) Bind(b compute.Binding) compute.Task {
	t := &quantizeTask{
		of:    k,
		x:     b.In[0],
		y:     b.Out[0],
		scale: tensor.As[float32](b.In[1]),
		grids: make([]vec.Requantization, b.Workers),
	}
	if len(b.In) > 2 && b.In[2] != nil {
		t.zero = b.In[2]
	}
	return t
}

type quantizeTask struct {
	of    *quantizeKernel
	x, y  *tensor.Tensor
	scale []float32
	zero  *tensor.Tensor       // nil: 0
	grids []vec.Requantization // of each worker
}

// Run implements Task.
func (t *quantizeTask) Run(x *compute.Exec) error { return x.For(blocks(t.of.n), t) }

// Chunk implements Region.
func (t *quantizeTask) Chunk(i, worker int) {
	lo, hi := block(i, t.of.n)
	for lo < hi {
		k := lo / t.of.row
		end := min((k+1)*t.of.row, hi)
		s := k % t.of.scales
		scale, zero := t.scale[s], zeroAt(t.zero, s)
		switch t.of.name {
		case "grid":
			least := leastOf(t.of.of)
			vec.Grid(tensor.As[float32](t.y)[lo:end], tensor.As[float32](t.x)[lo:end], scale,
				least-zero, least+float32(uint(1)<<t.of.of.Bits()-1)-zero)
		case "dequantize":
			t.dequantize(tensor.As[float32](t.y)[lo:end], lo, end, scale, zero)
		default:
			t.quantize(tensor.As[float32](t.x)[lo:end], lo, end, scale, zero, worker)
		}
		lo = end
	}
}

// leastOf is the least integer of one of the types of scaled.
func leastOf(d tensor.DType) float32 {
	if d.IsSigned() {
		return -float32(uint(1) << (d.Bits() - 1))
	}
	return 0
}

// quantize makes elements lo to hi of the result of the numbers x.
func (t *quantizeTask) quantize(x []float32, lo, hi int, scale, zero float32, worker int) {
	switch t.of.of {
	case tensor.Uint16:
		vec.QuantizeWords(tensor.As[uint16](t.y)[lo:hi], x, scale, zero)
	case tensor.Int16:
		vec.QuantizeWords(tensor.As[int16](t.y)[lo:hi], x, scale, zero)
	default:
		quantize(&t.grids[worker], t.y.Data[lo:hi], x, scale, zero, t.of.of)
	}
}

// dequantize makes the numbers y of elements lo to hi.
func (t *quantizeTask) dequantize(y []float32, lo, hi int, scale, zero float32) {
	switch t.of.of {
	case tensor.Uint16:
		vec.DequantizeWords(y, tensor.As[uint16](t.x)[lo:hi], scale, zero)
	case tensor.Int16:
		vec.DequantizeWords(y, tensor.As[int16](t.x)[lo:hi], scale, zero)
	default:
		vec.Dequantize(y, t.x.Data[lo:hi], t.of.of == tensor.Int8, scale, zero)
	}
}

// zeroAt returns element i of a zero point of one of the types of scaled as a number.
func zeroAt(zero *tensor.Tensor, i int) float32 {
	if zero == nil {
		return 0
	}
	switch zero.DType {
	case tensor.Int8:
		return float32(int8(zero.Data[i]))
	case tensor.Uint16:
		return float32(tensor.As[uint16](zero)[i])
	case tensor.Int16:
		return float32(tensor.As[int16](zero)[i])
	}
	return float32(zero.Data[i])
}

// piece is how many elements are converted at a time: they stay in the first cache.
const piece = 512

// quantize makes bytes of numbers; r is the caller's, since one of the function's own would move to
// the heap.
func quantize(r *vec.Requantization, bytes []byte, floats []float32, scale, zero float32,
	d tensor.DType) {
	r.Numbers(scale, vec.Bytes{Zero: int32(zero), Signed: d == tensor.Int8})
	vec.Quantize(bytes, floats, r)
}

// dynamicQuantizeLinear quantizes to uint8 on the scale that just holds the range of x and zero.
func dynamicQuantizeLinear(r *request) (compute.Kernel, error) {
	shape, d, ok := r.in(0)
	if !ok || d != tensor.Float32 || count(shape) == 0 || !wants(r, 0) || !wants(r, 1) ||
		!wants(r, 2) {
		return nil, nil
	}
	return &dynamicQuantizeKernel{n: count(shape)}, nil
}

type dynamicQuantizeKernel struct {
	plain
	n int
}

// Name implements Kernel.
func (k *dynamicQuantizeKernel) Name() string { return "quantize.dynamic" }

// ScratchBytes implements Kernel: the least and the greatest element of each block.
func (k *dynamicQuantizeKernel) ScratchBytes(int) int { return scratchBytes(2 * blocks(k.n)) }

// Bind implements Kernel.
func (k *dynamicQuantizeKernel) Bind(b compute.Binding) compute.Task {
	t := &dynamicQuantizeTask{
		n:     k.n,
		x:     tensor.As[float32](b.In[0]),
		y:     b.Out[0].Data,
		zero:  b.Out[2].Data,
		scale: tensor.As[float32](b.Out[1]),
	}
	t.ranges.x, t.ranges.out = t.x, tensor.Cast[float32](b.Scratch)
	return t
}

type dynamicQuantizeTask struct {
	n      int
	x      []float32
	y      []byte
	scale  []float32
	zero   []byte
	grid   vec.Requantization
	ranges ranges
}

// ranges finds the least and the greatest element of each block.
type ranges struct{ x, out []float32 }

// Chunk implements Region.
func (t *ranges) Chunk(i, _ int) {
	lo, hi := block(i, len(t.x))
	t.out[2*i], t.out[2*i+1] = vec.MinReduce(t.x[lo:hi]), vec.MaxReduce(t.x[lo:hi])
}

// Run implements Task.
func (t *dynamicQuantizeTask) Run(x *compute.Exec) error {
	if err := x.For(blocks(t.n), &t.ranges); err != nil {
		return err
	}
	scale, zero := op.DynamicGrid(t.ranges.out[:2*blocks(t.n)])
	t.scale[0], t.zero[0] = scale, uint8(zero)
	t.grid.Numbers(scale, vec.Bytes{Zero: int32(zero)})
	return x.For(blocks(t.n), t)
}

// Chunk implements Region.
func (t *dynamicQuantizeTask) Chunk(i, _ int) {
	lo, hi := block(i, t.n)
	vec.Quantize(t.y[lo:hi], t.x[lo:hi], &t.grid)
}
