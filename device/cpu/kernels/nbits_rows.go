package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/nbits"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// nBitsRows is a product that reads weights of four bits as they are. Its rows are brought into the
// form that is multiplied first.
type nBitsRows struct {
	nBits
	format nbits.Format
}

// A chunk multiplies some rows, which stay in the second cache, by some panels. The fewer the rows
// are, the more reading the weights counts. There is one chunk, or an even number of about equal
// ones.
const (
	nBitsFloats = 1 << 20 // products of a chunk
	nBitsBytes  = 4 << 20
	nBitsLeast  = 8 // rows that take about as long as one
	nBitsCached = 512 << 10
	nBitsPacked = 64 << 10 // floats of rows that a chunk packs
)

// rowsPer is the number of rows of a chunk, and panelsPer that of its panels.
func (k *nBitsRows) rowsPer() int {
	n := max(1, nBitsCached/k.weights.RowBytes(k.format))
	if n >= k.m {
		return k.m
	}
	return max(12, n/12*12)
}

func (k *nBitsRows) panelsPer() int {
	most, panels := nBitsFloats, k.weights.Panels()
	if k.format == nbits.Int8 {
		most = nBitsBytes
	}
	work := max(nBitsLeast, k.rowsPer()) * k.weights.K * k.weights.Columns() * panels
	groups := min((work+most-1)/most, panels)
	if groups > 1 {
		groups += groups % 2
	}
	return (panels + groups - 1) / groups
}

// Name implements Kernel.
func (k *nBitsRows) Name() string {
	if k.format == nbits.Int8 {
		return "gemm.4bit.int8"
	}
	return "gemm.4bit.rows"
}

// ScratchBytes implements Kernel: the packed rows.
func (k *nBitsRows) ScratchBytes(int) int {
	return (k.m*k.weights.RowBytes(k.format) + 63) &^ 63
}

// Bind implements Kernel.
func (k *nBitsRows) Bind(b compute.Binding) compute.Task {
	t := &nBitsRowsTask{
		of:     k,
		a:      tensor.As[float32](b.In[microsoft.NBitsA]),
		c:      tensor.As[float32](b.Out[0]),
		packed: b.Packed,
		rows:   b.Scratch,
	}
	if k.biased {
		t.bias = tensor.As[float32](b.In[microsoft.NBitsBias])
	}
	t.packing.t = t
	return t
}

type nBitsRowsTask struct {
	of           *nBitsRows
	a, c, bias   []float32
	packed, rows []byte
	packing      nBitsPacking
}

// nBitsPacking is the region that packs rows.
type nBitsPacking struct{ t *nBitsRowsTask }

// rowsPer is the number of rows that a chunk packs.
func (p *nBitsPacking) rowsPer() int { return max(1, nBitsPacked/p.t.of.weights.K) }

// Chunk implements Region.
func (p *nBitsPacking) Chunk(i, _ int) {
	t, n := p.t, p.rowsPer()
	size, k := t.of.weights.RowBytes(t.of.format), t.of.weights.K
	for r := i * n; r < min((i+1)*n, t.of.m); r++ {
		t.of.weights.PackRow(t.of.format, t.rows[r*size:], t.a[r*k:][:k])
	}
}

// Run implements Task.
func (t *nBitsRowsTask) Run(x *compute.Exec) error {
	if err := x.For((t.of.m+t.packing.rowsPer()-1)/t.packing.rowsPer(), &t.packing); err != nil {
		return err
	}
	return x.For(t.rowGroups()*t.panelGroups(), t)
}

func (t *nBitsRowsTask) rowGroups() int {
	return (t.of.m + t.of.rowsPer() - 1) / t.of.rowsPer()
}

func (t *nBitsRowsTask) panelGroups() int {
	return (t.of.weights.Panels() + t.of.panelsPer() - 1) / t.of.panelsPer()
}

// Chunk implements Region.
func (t *nBitsRowsTask) Chunk(i, _ int) {
	group := i % t.panelGroups() * t.of.panelsPer()
	first := i / t.panelGroups() * t.of.rowsPer()
	m, n := min(t.of.rowsPer(), t.of.m-first), t.of.weights.N
	rows, c := t.rows[first*t.of.weights.RowBytes(t.of.format):], t.c[first*n:][:m*n]
	end := min(group+t.of.panelsPer(), t.of.weights.Panels())
	for panel := group; panel < end; panel++ {
		t.of.weights.Product(t.of.format, c, n, rows, m, t.packed, panel)
	}
	from, to := group*t.of.weights.Columns(), min(end*t.of.weights.Columns(), n)
	for r := range m {
		t.finish(c[r*n+from:r*n+to], from)
	}
}

// finish applies the epilogue to results from a column on.
func (t *nBitsRowsTask) finish(x []float32, column int) {
	if t.bias != nil {
		vec.Add(x, x, t.bias[column:])
	}
	if e := &t.of.after; e.Clamp {
		vec.Clip(x, x, e.Lo, e.Hi)
	} else if e.Map != nil {
		e.Map(x, x)
	}
}
