package vec

// A column of rows is added up in runs of runRows float32 additions. The sums of blockRuns runs are
// added up in float32 as well, and those of the blocks in float64: fewer than runRows + blockRuns
// roundings of float32 follow each other, and only one row in runRows is touched once more.
const (
	runRows   = 64
	blockRuns = 64
)

// ColumnSums adds up rows element by element: after [ColumnSums.Finish], element j of the sums is
// the sum of the elements j of all rows that were added. It lies within 1e-5 of that, relative to
// the sum of their magnitudes, for up to 2^40 rows: at most 127 float32 additions follow each
// other, each with a relative error of 2^-24, whatever the rows. (Higham, "Accuracy and Stability
// of Numerical Algorithms", 2nd edition, 2002, section 4.2, bounds blocked sums in general.)
//
// The order of the additions depends on nothing but the number of rows, and the bits are the same
// on every path of instructions. Infinities and NaN propagate as in a plain loop, and a sum whose
// parts leave the range of float32 on the way is infinite or NaN: see [Sum].
//
// The zero value is not ready: see [MakeColumnSums].
type ColumnSums struct {
	sum, block []float32
	total      []float64
	rows       int // that were added
}

// ColumnSumScratch returns how many floats of scratch [MakeColumnSums] needs for so many rows of w
// elements: none for a few.
func ColumnSumScratch(rows, w int) int {
	switch {
	case rows <= runRows:
		return 0
	case rows <= runRows*(blockRuns+1):
		return w
	}
	return 3*w + 1
}

// MakeColumnSums returns sums over no rows yet. What sum and scratch hold does not matter. scratch
// must have as many floats as ColumnSumScratch says for the rows that will come and len(sum).
// Nobody else may use either slice until Finish.
func MakeColumnSums(sum, scratch []float32) ColumnSums {
	c := ColumnSums{sum: sum}
	w := len(sum)
	if len(scratch) >= w {
		c.block, scratch = scratch[:w:w], scratch[w:]
	}
	if len(scratch) > 2*w {
		c.total = AsDoubles(scratch)[:w:w]
	}
	return c
}

// Add adds the row x, which may be shorter than the sums.
func (c *ColumnSums) Add(x []float32) { c.AddRows(x, max(1, len(x))) }

// AddRows adds the rows that begin every step elements of x, each as long as the sums or up to the
// end of x.
func (c *ColumnSums) AddRows(x []float32, step int) {
	for ; len(x) > 0; x = x[min(step, len(x)):] {
		row := x[:min(len(c.sum), len(x))]
		sum := c.sum[:len(row)]
		if c.rows%runRows > 0 {
			add(sum, sum, row)
		} else {
			c.begin(len(row))
			copy(sum, row)
		}
		c.rows++
	}
}

// AddSquares is AddRows for the squares of elements. They are not rounded on their own but as they
// are added, on every path, apart from 2^-150 for each that is below the normal range of float32.
func (c *ColumnSums) AddSquares(x []float32, step int) {
	for ; len(x) > 0; x = x[min(step, len(x)):] {
		row := x[:min(len(c.sum), len(x))]
		sum := c.sum[:len(row)]
		if c.rows%runRows > 0 {
			fma(sum, row, row, sum)
		} else {
			c.begin(len(row))
			mul(sum, row, row)
		}
		c.rows++
	}
}

// AddAbs is AddRows for the magnitudes of elements.
func (c *ColumnSums) AddAbs(x []float32, step int) {
	var magnitudes [runRows]float32
	for ; len(x) > 0; x = x[min(step, len(x)):] {
		row := x[:min(len(c.sum), len(x))]
		sum := c.sum[:len(row)]
		if c.rows%runRows == 0 {
			c.begin(len(row))
			abs(sum, row)
			c.rows++
			continue
		}
		for len(row) > 0 {
			m := magnitudes[:min(len(row), len(magnitudes))]
			abs(m, row[:len(m)])
			add(sum[:len(m)], sum[:len(m)], m)
			sum, row = sum[len(m):], row[len(m):]
		}
		c.rows++
	}
}

// begin makes room for the first row of a run, of n elements: it moves the sums of the run before
// to the block, and those of a full block to the total.
func (c *ColumnSums) begin(n int) {
	switch run := c.rows / runRows; {
	case run == 0:
	case run%blockRuns == 1:
		c.flush()
		copy(c.block, c.sum)
	default:
		add(c.block, c.block, c.sum)
	}
	clear(c.sum[n:])
}

// flush moves the sums of a full block, if there is one, to the total.
func (c *ColumnSums) flush() {
	switch c.rows / runRows / blockRuns {
	case 0:
		return
	case 1:
		clear(c.total)
	}
	for j, v := range c.block {
		c.total[j] += float64(v)
	}
}

// Finish completes the sums, after which no row may be added.
func (c *ColumnSums) Finish() {
	switch {
	case c.rows == 0:
		clear(c.sum)
	case c.rows > runRows*(blockRuns+1):
		for j, v := range c.sum {
			c.sum[j] = float32(c.total[j] + float64(c.block[j]) + float64(v))
		}
	case c.rows > runRows:
		add(c.sum, c.sum, c.block)
	}
}
