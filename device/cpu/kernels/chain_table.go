package kernels

import (
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Links of which the first and the last round to integers of 16 bits are a table of as many as
// there are before them. It is made once, is kept with the weights, and serves where elements and
// work saved on each come to so much that some twenty runs make up for making it: on a Zen 4 a unit
// of work takes 50 ps, a look-up as long as lookUpWork units, and bringing the table near 3 µs.
const (
	lookUpWork = 10
	leastSaved = 120_000
)

// wordsTable is the integers that integers become.
type wordsTable [1 << 16]uint16

// tableBytes is the size of one table in packed memory.
const tableBytes = 2 * len(wordsTable{})

// wordTable is how links are looked up in table number at.
type wordTable struct {
	at       int
	from, to wordGrid
}

// wordGrid are numbers on the steps of integers of 16 bits, with the zero point of unsigned ones.
type wordGrid struct{ scale, zero float32 }

// tableOf is the table of links for so many elements; nil where there is none worth its while.
func tableOf(list []op.Link, values []float32, elements int) *wordTable {
	last, work, kept := len(list)-1, 0, false
	for _, l := range list {
		if l == op.LinkTimes && !kept { // times what is not rounded yet
			return nil
		}
		kept = kept || l == op.LinkKeep
		work += linkWork(l)
	}
	if elements*(work-lookUpWork) < leastSaved {
		return nil
	}
	from, ok := wordsOf(list[0], values)
	to, ok2 := wordsOf(list[last], values[op.LinkNumbers*last:])
	if !ok || !ok2 {
		return nil
	}
	return &wordTable{from: from, to: to}
}

// linkWork is what a link costs beside others.
func linkWork(l op.Link) int {
	switch l {
	case op.LinkGrid:
		return 2
	case op.LinkSigmoid:
		return 6
	}
	return 1
}

// wordsOf is the grid of a link; false where it is none of 16 bits.
func wordsOf(l op.Link, v []float32) (g wordGrid, ok bool) {
	const most = float32(len(wordsTable{}) - 1)
	scale, lo, hi := v[0], v[1], v[2]
	return wordGrid{scale, -lo}, l == op.LinkGrid && scale > 1e-30 && scale < 1e30 && lo >= -most &&
		lo <= 0 && lo == float32(int32(lo)) && hi-lo == most
}

// of is the table in packed memory.
func (w *wordTable) of(packed []byte) *wordsTable {
	return (*wordsTable)(tensor.Cast[uint16](packed[w.at*tableBytes:][:tableBytes]))
}

// fill makes the table of links.
func (w *wordTable) fill(table *wordsTable, links []vec.Link) {
	var y [piece]float32
	for i := range table {
		table[i] = uint16(i)
	}
	for i := 0; i < len(table); i += piece {
		words := table[i:][:piece]
		vec.DequantizeWords(y[:], words, w.from.scale, w.from.zero)
		vec.Chain(y[:], y[:], links)
		vec.QuantizeWords(words, y[:], w.to.scale, w.to.zero)
	}
}

// look computes the links of x.
func (w *wordTable) look(y, x []float32, table *wordsTable) {
	var words [piece]uint16
	for len(y) > 0 {
		q := words[:min(piece, len(y))]
		vec.QuantizeWords(q, x[:len(q)], w.from.scale, w.from.zero)
		vec.LookupWords(q, (*[1 << 16]uint16)(table))
		vec.DequantizeWords(y[:len(q)], q, w.to.scale, w.to.zero)
		y, x = y[len(q):], x[len(q):]
	}
}

// touch reads the table from end to end, which brings it near far sooner than look-ups do, line by
// line. What it returns says nothing, and has to be kept for the reads to be.
func (t *wordsTable) touch() (sum uint16) {
	const line = 32
	for i := 0; i < len(t); i += line {
		sum += t[i]
	}
	return sum
}
