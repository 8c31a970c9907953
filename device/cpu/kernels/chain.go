package kernels

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// chain is weir:Chain.
func chain(r *request) (compute.Kernel, error) {
	if !r.allFloat32(-1) || len(r.In) > maxOperands {
		return nil, nil
	}
	shapes := make([][]int, len(r.In))
	for i := range shapes {
		shapes[i], _, _ = r.in(i)
	}
	k := &chainKernel{cut: cutRows(broadcast(r.outShape(), shapes...))}
	list, values := op.LinksOf(r.Call.Attrs)
	k.packing = fmt.Sprint(list, values)
	for from := 0; from < len(list); {
		p, n := chainPartOf(list[from:], values[op.LinkNumbers*from:], from == 0)
		if n == 0 {
			return nil, nil
		}
		begin := from + n - len(p.links)
		p.table = tableOf(list[begin:from+n], values[op.LinkNumbers*begin:], count(r.outShape()))
		if p.table != nil {
			p.table.at = k.tables
			k.tables++
		}
		k.parts, from = append(k.parts, p), from+n
	}
	return k, nil
}

// chainKernel computes the parts one after another of some elements at a time.
type chainKernel struct {
	plain
	first
	cut     rowChunks
	parts   []chainPart
	tables  int
	packing string
}

// chainPart is what another operand adds to a chain or multiplies it by, 0 for none, and the links
// up to the next.
type chainPart struct {
	operand int
	by      bool
	links   []vec.Link
	table   *wordTable // in place of the links
}

// chainPartOf takes the links of one part, and says how many these are; none where what is kept was
// kept in another part.
func chainPartOf(list []op.Link, values []float32, first bool) (p chainPart, n int) {
	if list[0].Operand() {
		p.operand, p.by = int(values[0]), list[0] == op.LinkBy
		list, values, n = list[1:], values[op.LinkNumbers:], 1
	}
	if i := slices.IndexFunc(list, op.Link.Operand); i >= 0 {
		list = list[:i]
	}
	kept := first && p.operand == 0
	for i, s := range list {
		if kept = kept || s == op.LinkKeep; s == op.LinkTimes && !kept {
			return p, 0
		}
		p.links = append(p.links, linkOf(s, values[op.LinkNumbers*i:]))
	}
	return p, n + len(list)
}

// linkOf is a link with its numbers.
func linkOf(s op.Link, v []float32) vec.Link {
	switch s {
	case op.LinkTimes:
		return vec.TimesLink()
	case op.LinkAdd:
		return vec.AddLink(v[0])
	case op.LinkMul:
		return vec.MulLink(v[0])
	case op.LinkDiv:
		return vec.DivLink(v[0])
	case op.LinkClip:
		return vec.ClipLink(v[0], v[1])
	case op.LinkGrid:
		return vec.GridLink(v[0], v[1], v[2])
	case op.LinkSigmoid:
		return vec.SigmoidLink()
	}
	return vec.KeepLink()
}

// Name implements Kernel.
func (k *chainKernel) Name() string {
	if k.tables > 0 {
		return "map.Chain.table"
	}
	return "map.Chain"
}

// PackedBytes implements Kernel: the tables.
func (k *chainKernel) PackedBytes() int { return k.tables * tableBytes }

// Packing implements [compute.Packing].
func (k *chainKernel) Packing() any { return k.packing }

// Pack implements Kernel.
func (k *chainKernel) Pack(dst []byte) {
	for i := range k.parts {
		if p := &k.parts[i]; p.table != nil {
			p.table.fill(p.table.of(dst), p.links)
		}
	}
}

// Bind implements Kernel.
func (k *chainKernel) Bind(b compute.Binding) compute.Task {
	t := &chainTask{of: k, y: tensor.As[float32](b.Out[0])}
	for _, in := range b.In {
		t.in = append(t.in, tensor.As[float32](in))
	}
	for i := range k.parts {
		var words *wordsTable
		if p := &k.parts[i]; p.table != nil {
			words = p.table.of(b.Packed)
		}
		t.tables = append(t.tables, words)
	}
	return t
}

type chainTask struct {
	of     *chainKernel
	in     [][]float32
	y      []float32
	tables []*wordsTable // of the parts
	sum    uint16
}

// Run implements Task.
func (t *chainTask) Run(x *compute.Exec) error {
	for _, table := range t.tables {
		if table != nil {
			t.sum += table.touch()
		}
	}
	return x.For(t.of.cut.chunks, t)
}

// chained is how many elements go from part to part at a time: with those of the operands they stay
// in the first cache.
const chained = 1024

// Chunk implements Region.
func (t *chainTask) Chunk(i, _ int) {
	first, last, lo, hi := t.of.cut.chunk(i)
	var off [maxOperands]int
	for row := first; row < last; row++ {
		t.of.cut.loop.at(row, &off)
		for at := lo; at < hi; at += chained {
			t.compute(row*t.of.cut.loop.inner, &off, at, min(at+chained, hi))
		}
	}
}

// compute makes elements lo to hi of the row that begins at start.
func (t *chainTask) compute(start int, off *[maxOperands]int, lo, hi int) {
	y, x := t.y[start+lo:start+hi], t.in[0][off[0]+lo:off[0]+hi]
	for i := range t.of.parts {
		p := &t.of.parts[i]
		f := addRows
		if p.by {
			f = mulRows
		}
		switch o := off[p.operand]; {
		case p.operand == 0:
		case t.of.cut.loop.runs[p.operand]:
			f.vv(y, x, t.in[p.operand][o+lo:o+hi])
			x = y
		default:
			f.vs(y, x, t.in[p.operand][o])
			x = y
		}
		switch {
		case t.tables[i] != nil:
			p.table.look(y, x, t.tables[i])
		case len(p.links) > 0:
			vec.Chain(y, x, p.links)
		}
		x = y
	}
}
