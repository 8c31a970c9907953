package kernels

import (
	"github.com/weirgpu/weir/device/compute"
)

// longRow is how many elements of a row, or of a block of columns, one chunk handles at most, which
// take it less than a millisecond. What is longer is cut into parts of that many, whatever the
// number of workers, so that the order of additions and the bits do not depend on it.
const longRow = 1 << 18

// longRows runs over rows of n elements in parts of longRow, step by step. All parts of a step are
// done, and joined, before the next step begins.
type longRows struct {
	outer, n, parts int
	batch           int       // rows whose parts are in flight together
	first           int       // row of the batch that runs
	values          []float64 // of the parts of a batch
	steps           []longStep
}

// longStep is one pass over the rows of a batch.
type longStep struct {
	rows *longRows
	// part handles the elements lo to hi of all rows, which belong to row r of the batch.
	part func(r, lo, hi int) float64
	// join, if set, takes what part returned for the parts of row r of the batch, in order.
	join func(r int, values []float64)
}

// newLongRows prepares so many rows for a number of workers, without steps.
func newLongRows(outer, n, workers int) *longRows {
	l := &longRows{outer: outer, n: n, parts: (n + longRow - 1) / longRow}
	l.batch = min(outer, (4*workers+l.parts-1)/l.parts)
	l.values = make([]float64, l.batch*l.parts)
	return l
}

// add adds a step.
func (l *longRows) add(part func(r, lo, hi int) float64, join func(r int, values []float64)) {
	l.steps = append(l.steps, longStep{rows: l, part: part, join: join})
}

// Run implements Task.
func (l *longRows) Run(x *compute.Exec) error {
	for l.first = 0; l.first < l.outer; l.first += l.batch {
		rows := min(l.batch, l.outer-l.first)
		for i := range l.steps {
			s := &l.steps[i]
			if err := x.For(rows*l.parts, s); err != nil {
				return err
			}
			for r := 0; s.join != nil && r < rows; r++ {
				s.join(r, l.values[r*l.parts:(r+1)*l.parts])
			}
		}
	}
	return nil
}

// Chunk implements Region: one part.
func (s *longStep) Chunk(i, _ int) {
	l := s.rows
	r, lo := i/l.parts, i%l.parts*longRow
	at := (l.first + r) * l.n
	l.values[i] = s.part(r, at+lo, at+min(lo+longRow, l.n))
}

// folded is f of all values.
func folded(values []float64, f func(a, b float64) float64) float64 {
	t := values[0]
	for _, v := range values[1:] {
		t = f(t, v)
	}
	return t
}

func plus(a, b float64) float64    { return a + b }
func larger(a, b float64) float64  { return max(a, b) }
func smaller(a, b float64) float64 { return min(a, b) }

// regionFunc makes a function a region.
type regionFunc func(i, worker int)

// Chunk implements Region.
func (f regionFunc) Chunk(i, worker int) { f(i, worker) }
