package kernels

import (
	"github.com/weirgpu/weir/tensor"
)

// longColumns cuts the columns of [outer, n, inner] into blocks of columnBlock, and each block into
// parts of rows with about longRow elements, whatever the number of workers.
type longColumns struct {
	outer, n, inner int
	groups          int // neighbouring rows that are taken as one
	rows            int // of a part, a multiple of groups
	parts, blocks   int
}

func newLongColumns(outer, n, inner int) longColumns {
	c := longColumns{outer: outer, n: n, inner: inner, groups: columnGroup(n, inner)}
	c.rows = max(1, longRow/(c.groups*min(inner, columnBlock))) * c.groups
	c.parts = (n + c.rows - 1) / c.rows
	c.blocks = (inner + columnBlock - 1) / columnBlock
	return c
}

// columnPart is one part of one block of columns.
type columnPart struct {
	outer, part int
	lo, hi      int // columns
	first, end  int // elements of the operand, from the first row's column lo on
}

// at is the part that is chunk i.
func (c *longColumns) at(i int) columnPart {
	o, part, block := i/(c.parts*c.blocks), i/c.blocks%c.parts, i%c.blocks
	p := columnPart{outer: o, part: part, lo: block * columnBlock}
	p.hi = min(p.lo+columnBlock, c.inner)
	p.first = (o*c.n+part*c.rows)*c.inner + p.lo
	p.end = (o*c.n + min((part+1)*c.rows, c.n)) * c.inner
	return p
}

// chunks is how many parts there are.
func (c *longColumns) chunks() int { return c.outer * c.parts * c.blocks }

// values is how many there are with one for each column of each part.
func (c *longColumns) values() int { return c.outer * c.parts * c.inner }

// of returns the values of a part, of all parts' values.
func (c *longColumns) of(values []float64, p columnPart) []float64 {
	return values[(p.outer*c.parts+p.part)*c.inner:][p.lo:p.hi]
}

// fold folds the values of a column's parts, in order. Column j counts from the first of all.
func (c *longColumns) fold(values []float64, j int, f func(a, b float64) float64) float64 {
	o, j := j/c.inner, j%c.inner
	all := values[o*c.parts*c.inner+j:]
	t := all[0]
	for p := 1; p < c.parts; p++ {
		t = f(t, all[p*c.inner])
	}
	return t
}

// doubles takes so many float64 from the front of scratch.
func doubles(scratch []byte, n int) (values []float64, rest []byte) {
	return tensor.Cast[float64](scratch[:8*n]), scratch[(8*n+63)&^63:]
}
