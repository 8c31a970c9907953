package cpu

import (
	"github.com/weirgpu/weir/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// arith is one binary operator on rows: both operands rows, the second one number, the first one number.
type arith struct {
	vv func(dst, a, b []float32)
	vs func(dst, a []float32, b float32)
	sv func(dst, b []float32, a float32)
}

// binaryKernels are the float32 operators with numpy broadcasting (ONNX Add, Sub, Mul, Div 7 to 14; two-operand Max, Min;
// Pow with a constant exponent).
var binaryKernels = map[opKey]builder{
	{"", "Add"}: binary(arith{vec.Add, vec.AddScalar, vec.AddScalar}),
	{"", "Sub"}: binary(arith{vec.Sub, vec.SubScalar, vec.RSubScalar}),
	{"", "Mul"}: binary(arith{vec.Mul, vec.MulScalar, vec.MulScalar}),
	{"", "Div"}: binary(arith{vec.Div, vec.DivScalar, vec.RDivScalar}),
	{"", "Max"}: binary(arith{vec.Max, vec.MaxScalar, vec.MaxScalar}),
	{"", "Min"}: binary(arith{vec.Min, vec.MinScalar, vec.MinScalar}),
	{"", "Pow"}: powKernel,
}

func binary(f arith) builder {
	return func(r *Request) (Kernel, error) {
		if len(r.In) != 2 || !r.allFloat32(-1) {
			return nil, nil
		}
		a, _, _ := r.in(0)
		b, _, _ := r.in(1)
		return &binaryKernel{name: r.Call.Type, f: f, loop: broadcast(r.outShape(), a, b)}, nil
	}
}

// rowLoop walks two operands of a broadcast as rows of the output: the trailing dimensions in which each operand either
// runs along or stands still are merged into one inner row.
type rowLoop struct {
	dims   []int // outer dimensions
	sa, sb []int // elements to step in a and b for each outer dimension
	inner  int   // elements of a row
	ia, ib int   // 1 when the operand runs along the row, 0 when one element serves the whole row
	rows   int
}

// broadcast merges dimensions; shapes are known to broadcast to out.
func broadcast(out, a, b []int) rowLoop {
	l := rowLoop{inner: 1, rows: 1}
	na, nb := 1, 1 // elements of a and b inside the dimensions merged so far
	outer := false
	for d := len(out) - 1; d >= 0; d-- {
		n := out[d]
		if n == 1 {
			continue
		}
		da, db := dimFromEnd(a, len(out)-d), dimFromEnd(b, len(out)-d)
		ka, kb := min(da-1, 1), min(db-1, 1)
		first := l.inner == 1 && !outer
		switch {
		case first:
			l.inner, l.ia, l.ib = n, ka, kb
		case !outer && ka == l.ia && kb == l.ib:
			l.inner *= n
		default:
			outer = true
			l.pushOuter(n, ka*na, kb*nb)
		}
		na, nb = na*da, nb*db
	}
	for _, n := range l.dims {
		l.rows *= n
	}
	for _, n := range out {
		if n == 0 {
			l.rows = 0
		}
	}
	return l
}

// pushOuter adds an outer dimension in front, merged with the one before when both operands step through evenly.
func (l *rowLoop) pushOuter(n, sa, sb int) {
	if k := len(l.dims); k > 0 && l.sa[k-1]*l.dims[k-1] == sa && l.sb[k-1]*l.dims[k-1] == sb {
		l.dims[k-1] *= n
		return
	}
	l.dims, l.sa, l.sb = append(l.dims, n), append(l.sa, sa), append(l.sb, sb)
}

func dimFromEnd(shape []int, k int) int {
	if k > len(shape) {
		return 1
	}
	return shape[len(shape)-k]
}

// at returns the offsets of a row in a and b. Outer dimensions are kept innermost first.
func (l *rowLoop) at(row int) (oa, ob int) {
	for i, n := range l.dims {
		k := row % n
		row /= n
		oa, ob = oa+k*l.sa[i], ob+k*l.sb[i]
	}
	return oa, ob
}

type binaryKernel struct {
	plain
	name string
	f    arith
	loop rowLoop
}

// Name implements Kernel.
func (k *binaryKernel) Name() string { return "broadcast." + k.name }

// Bind implements Kernel.
func (k *binaryKernel) Bind(b Binding) Task {
	t := &binaryTask{f: k.f, loop: k.loop, a: tensor.As[float32](b.In[0]), b: tensor.As[float32](b.In[1]),
		y: tensor.As[float32](b.Out[0])}
	t.rows = max(1, mapBlock/max(1, k.loop.inner))
	t.parts = max(1, (k.loop.inner+mapBlock-1)/mapBlock)
	t.chunks = (k.loop.rows + t.rows - 1) / t.rows * t.parts
	return t
}

type binaryTask struct {
	f       arith
	loop    rowLoop
	a, b, y []float32
	rows    int // rows of a chunk
	parts   int // chunks of a row, when a row is longer than a chunk
	chunks  int
}

// Run implements Task.
func (t *binaryTask) Run(x *Exec) error { return x.For(t.chunks, t) }

// Chunk implements Region.
func (t *binaryTask) Chunk(i, _ int) {
	lo, hi := 0, t.loop.inner
	if t.parts > 1 {
		lo, hi = block(i%t.parts, t.loop.inner)
	}
	first := i / t.parts * t.rows
	for row := first; row < min(first+t.rows, t.loop.rows); row++ {
		t.row(row, lo, hi)
	}
}

// row computes elements lo to hi of one row.
func (t *binaryTask) row(row, lo, hi int) {
	oa, ob := t.loop.at(row)
	y := t.y[row*t.loop.inner+lo : row*t.loop.inner+hi]
	switch {
	case t.loop.ia == 1 && t.loop.ib == 1:
		t.f.vv(y, t.a[oa+lo:oa+hi], t.b[ob+lo:ob+hi])
	case t.loop.ia == 1:
		t.f.vs(y, t.a[oa+lo:oa+hi], t.b[ob])
	case t.loop.ib == 1:
		t.f.sv(y, t.b[ob+lo:ob+hi], t.a[oa])
	default:
		t.f.vv(y, t.a[oa:oa+1], t.b[ob:ob+1])
	}
}
