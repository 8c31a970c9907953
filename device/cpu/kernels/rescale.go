package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
	"slices"
)

// rescaleKernels are the operators from bytes to bytes, element by element: weir's Rescale, Table
// and QLinearAdd, with constant scales, zero points and tables.
var rescaleKernels = map[opKey]builder{
	{op.FusedDomain, "Rescale"}:    rescale,
	{op.FusedDomain, "Table"}:      lookup,
	{op.FusedDomain, "QLinearAdd"}: qLinearAdd,
}

// rescaling is the constant operands of Rescale from input i on.
type rescaling struct {
	scale, bias, zero *tensor.Tensor
	plane             int // elements that one scale serves in a row
}

// rescaling takes the operands from input i on for a value of that shape; false where they are not
// constant.
//
//go:noinline
func (r *request) rescaling(i int, shape []int) (f rescaling, ok bool) {
	f = rescaling{scale: r.constant(i), bias: r.constant(i + 1), zero: r.constant(i + 2)}
	if f.scale == nil || f.bias == nil || f.zero == nil || f.zero.Len() != 1 ||
		!isByte(f.zero.DType) {
		return f, false
	}
	f.plane = count(shape)
	if f.scale.Len() > 1 {
		f.plane = count(shape[2:])
	}
	return f, f.scale.Len() > 0 && f.bias.Len() == f.scale.Len()
}

// channel returns the scale and bias of channel c, and the grid of the result.
func (f *rescaling) channel(c int) (scale, bias float32, to vec.Bytes) {
	c %= f.scale.Len()
	return tensor.As[float32](f.scale)[c], tensor.As[float32](f.bias)[c], gridOf(f.zero)
}

// gridOf is the grid of bytes with that zero point.
func gridOf(zero *tensor.Tensor) vec.Bytes {
	return vec.Bytes{Zero: int32(zeroAt(zero, 0)), Signed: zero.DType == tensor.Int8}
}

func rescale(r *request) (compute.Kernel, error) {
	shape, d, ok := r.in(0)
	if !ok || !isByte(d) || count(shape) == 0 {
		return nil, nil
	}
	f, ok := r.rescaling(1, shape)
	if !ok {
		return nil, nil
	}
	k := &rescaleKernel{
		n:      count(shape),
		row:    f.plane,
		signed: d == tensor.Int8,
		grids:  make([]vec.Requantization, f.scale.Len()),
	}
	for c := range k.grids {
		k.grids[c].Rescaled(f.channel(c))
	}
	return k, nil
}

// rescaleKernel maps n bytes, rows of which have one of the grids in turn.
type rescaleKernel struct {
	plain
	first
	n, row int
	signed bool
	grids  []vec.Requantization
}

// Name implements Kernel.
func (k *rescaleKernel) Name() string { return "rescale" }

// Bind implements Kernel.
func (k *rescaleKernel) Bind(b compute.Binding) compute.Task {
	return &rescaleTask{of: k, x: b.In[0].Data, y: b.Out[0].Data}
}

type rescaleTask struct {
	of   *rescaleKernel
	x, y []byte
}

// Run implements Task.
func (t *rescaleTask) Run(x *compute.Exec) error { return x.For(blocks(t.of.n), t) }

// Chunk implements Region.
func (t *rescaleTask) Chunk(i, _ int) {
	for lo, hi := block(i, t.of.n); lo < hi; {
		k := lo / t.of.row
		end := min((k+1)*t.of.row, hi)
		vec.Rescale(t.y[lo:end], t.x[lo:end], t.of.signed, &t.of.grids[k%len(t.of.grids)])
		lo = end
	}
}

func lookup(r *request) (compute.Kernel, error) {
	shape, d, ok := r.in(0)
	table := r.constant(1)
	if !ok || !isByte(d) || table == nil || table.Len() != 256 || !isByte(table.DType) {
		return nil, nil
	}
	bytes := [256]byte(table.Data)
	look := func(dst, src []byte) { vec.Lookup(dst, src, &bytes) }
	return &castInPlace{
		castKernel: castKernel{name: "table", f: look, from: 1, to: 1, n: count(shape)},
	}, nil
}

// qLinearAdd serves operands of one type.
func qLinearAdd(r *request) (compute.Kernel, error) {
	shape, d, ok := r.in(0)
	other, d2, _ := r.in(3)
	if !ok || !isByte(d) || d != d2 || !slices.Equal(shape, other) || !isByte(r.Out[0].DType) {
		return nil, nil
	}
	var number [8]float64
	for _, i := range []int{1, 2, 4, 5, 6, 7} {
		c := r.constant(i)
		if c == nil || c.Len() != 1 {
			return nil, nil
		}
		v, err := c.Floats()
		if err != nil {
			return nil, nil
		}
		number[i] = v[0]
	}
	k := &addBytesKernel{n: count(shape), signed: d == tensor.Int8}
	a, b := number[1]/number[6], number[4]/number[6]
	k.grid.Added(float32(a), float32(b), float32(-a*number[2]-b*number[5]), gridOf(r.constant(7)))
	return k, nil
}

// addBytesKernel adds n bytes to n others.
type addBytesKernel struct {
	plain
	n      int
	signed bool
	grid   vec.Requantization
}

// Name implements Kernel.
func (k *addBytesKernel) Name() string { return "add.int8" }

// InPlace implements [compute.InPlace].
func (k *addBytesKernel) InPlace() []int { return []int{0, 3} }

// Bind implements Kernel.
func (k *addBytesKernel) Bind(b compute.Binding) compute.Task {
	return &addBytesTask{of: k, a: b.In[0].Data, b: b.In[3].Data, y: b.Out[0].Data}
}

type addBytesTask struct {
	of      *addBytesKernel
	a, b, y []byte
}

// Run implements Task.
func (t *addBytesTask) Run(x *compute.Exec) error { return x.For(blocks(t.of.n), t) }

// Chunk implements Region.
func (t *addBytesTask) Chunk(i, _ int) {
	lo, hi := block(i, t.of.n)
	vec.AddBytes(t.y[lo:hi], t.a[lo:hi], t.b[lo:hi], t.of.signed, &t.of.grid)
}
