//go:build amd64 && !noasm

package conv

import (
	"math"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// tileConfig is what LDTILECFG reads: palette 1, and the rows and bytes of a row of each register.
type tileConfig struct {
	palette  uint8
	_        [15]uint8
	colBytes [16]uint16
	rows     [16]uint8
}

// halfArgs is a call of the assembly, which reads this struct and counts blocks down. Distances
// are bytes.
type halfArgs struct {
	config tileConfig
	x      *uint16
	w      *float32
	sums   *float32
	offs   *int
	lda    int
	blocks int
	steps  int
	// of what makes results of the sums: the places of rows, from y and residual on, negative for
	// those that are dropped, the addresses of two blocks of sums, added up, and how many rows are
	// finished for each stretch of the next block
	table *int
	// weights that are fetched meanwhile, so many lines of a cache for each stretch
	ahead       uintptr
	lines       int
	both        uintptr
	each        int
	bias        *float32
	residual, y *uint16
	mask, silu  uint32
	lo, hi      float32
}

// run computes a call with the processor's tiles: whole blocks, and then what rows are left.
func (c *halfCall) run() {
	whole := c.rows / halfRows
	_ = c.sums[c.rows*halfCols-1]
	_ = c.w[len(c.offs)*stretchWords*halfCols-1]
	t := halfArgs{w: &c.w[0], offs: &c.offs[0], lda: c.lda, steps: len(c.offs)}
	if whole > 0 {
		c.blocks(&t, 0, halfRows, whole)
		t.sums = &c.sums[0]
		halfBlocks(&t)
	}
	if left := c.rows % halfRows; left > 0 {
		c.blocks(&t, whole*halfRows, left, 1)
		t.sums = &c.sums[whole*halfRows*halfCols]
		if left > halfRows/2 {
			halfBlocks(&t)
		} else {
			halfUpper(&t)
		}
	}
}

// blocks makes the call of n blocks of so many rows each, from a row on.
func (c *halfCall) blocks(t *halfArgs, from, rows, n int) {
	x := c.x[from*c.lda/2:]
	_ = x[(c.offs[len(c.offs)-1]+(n*rows-1)*c.lda)/2+stretch-1]
	upper := min(rows, halfRows/2)
	lower := rows - upper
	if lower == 0 { // two blocks in turn
		lower = upper
	}
	t.config = tileConfig{palette: 1}
	for i, rows := range [8]int{upper, upper, lower, lower, upper, lower, 16, 16} {
		t.config.rows[i], t.config.colBytes[i] = uint8(rows), 64
	}
	t.x, t.blocks = &x[0], n
}

// linesOfStretch are the lines of a cache that the weights of a stretch take.
const linesOfStretch = 2 * stretch * halfCols / 64

// run computes what model defines: whole blocks, and then what rows are left.
func (w *halfWhole) run() {
	c, f := &w.halfCall, &w.finish
	_ = c.w[len(c.offs)*stretchWords*halfCols-1]
	_ = c.sums[2*halfRows*halfCols-1]
	_ = w.table[roundUp(c.rows, halfRows)-1]
	steps := len(c.offs)
	t := halfArgs{w: &c.w[0], offs: &c.offs[0], lda: c.lda, steps: steps, sums: &c.sums[0],
		both: bothBlocks(c.sums), y: &f.y[0], mask: uint32(1<<f.cols - 1), lo: f.lo, hi: f.hi}
	if !f.clamp {
		t.lo, t.hi = float32(math.Inf(-1)), float32(math.Inf(1))
	}
	if f.bias != nil {
		t.bias = &f.bias[0]
	}
	if f.residual != nil {
		t.residual = &f.residual[0]
	}
	if f.silu {
		t.silu = 1
	}
	if len(w.ahead) > 0 {
		blocks := (c.rows + halfRows - 1) / halfRows
		t.lines, t.ahead = (linesOfStretch+blocks-1)/blocks, address(w.ahead)
	}
	from := 0
	if whole := c.rows / halfRows; whole > 0 && steps > shortSteps {
		t.each = (halfRows + steps - 1) / steps
		w.part(&t, from, halfRows, whole)
		from = whole * halfRows
	}
	t.each = (halfRows/2 + steps - 1) / steps
	if halves := (c.rows - from) / (halfRows / 2); halves > 0 {
		t.lines = (t.lines + 1) / 2
		w.part(&t, from, halfRows/2, halves)
		from += halves * halfRows / 2
	}
	if from < c.rows {
		w.part(&t, from, c.rows-from, 1)
	}
}

// shortSteps are so few stretches that a block has little to do while the one before is stored.
const shortSteps = 2

// part computes n blocks of so many rows each, from a row on.
func (w *halfWhole) part(t *halfArgs, from, rows, n int) {
	w.blocks(t, from, rows, n)
	t.table = &w.table[from]
	if rows == halfRows {
		halfWholes(t)
	} else {
		halfTurns(t)
	}
}

// halfFinishArgs is a call of the assembly, which reads this struct. Distances are bytes.
type halfFinishArgs struct {
	sums, bias  *float32
	residual, y *uint16
	ldy, rows   int
	mask        uint32
	keep, silu  uint32
	lo, hi      float32
}

// run computes what model defines.
func (f *halfFinish) run() {
	if !cpuinfo.HasAVX512BF16() {
		f.model()
		return
	}
	_ = f.sums[f.rows*halfCols-1]
	_ = f.y[(f.rows-1)*f.ldy+f.cols-1]
	a := halfFinishArgs{sums: &f.sums[0], y: &f.y[0], ldy: 2 * f.ldy, rows: f.rows,
		mask: uint32(1<<f.cols - 1), lo: f.lo, hi: f.hi}
	if !f.clamp {
		a.lo, a.hi = float32(math.Inf(-1)), float32(math.Inf(1))
	}
	if f.bias != nil {
		a.bias = &f.bias[0]
	}
	if f.residual != nil {
		_ = f.residual[(f.rows-1)*f.ldy+f.cols-1]
		a.residual = &f.residual[0]
	}
	if f.keep {
		a.keep = 1
	}
	if f.silu {
		a.silu = 1
	}
	halfFinishRows(&a)
}

// spreadPixels is spreadGo.
func spreadPixels(dst, src []uint16, n, c, step, size int) {
	if !cpuinfo.HasAVX512BF16() {
		spreadGo(dst, src, n, c, step, size)
		return
	}
	if c == size && step == c {
		copy(dst[:n*c], src)
		return
	}
	_, _ = dst[n*size-1], src[(n-1)*step+c-1]
	spreadAVX512(&dst[0], &src[0], n, 2*c, 2*step, 2*size)
}

// joinPlanes16 is joinPlanesGo.
func joinPlanes16(dst []uint16, planes []float32, plane, c, n int) (odd bool) {
	whole := n &^ 15
	if !cpuinfo.HasAVX512BF16() {
		whole = 0
	}
	if whole > 0 {
		_, _ = dst[4*whole-1], planes[(c-1)*plane+whole-1]
		odd = joinPlanesAVX512(&dst[0], &planes[0], plane, c, whole) != 0
	}
	if whole < n {
		odd = joinPlanesGo(dst[4*whole:], planes[whole:], plane, c, n-whole) || odd
	}
	return odd
}

// windows16Args is a call of the assembly, which reads this struct. Distances are bytes.
type windows16Args struct {
	x, y     *uint16
	wide, w  *float32
	offs, at *int
	taps     int
	pixels   int
	xStep    int
	size     int // of a pixel of results
	blocks   int // but for the last
	block    int
	mask     uint32 // of the last
	silu     uint32
	lo, hi   float32
}

// run computes what model defines.
func (c *windows16Call) run() {
	taps := len(c.offs)
	if taps == 0 || !cpuinfo.HasAVX512BF16() {
		c.model()
		return
	}
	_ = c.x[c.offs[taps-1]/2+(c.pixels-1)*c.xStep+c.channels-1]
	last := (c.channels - 1) / block16
	a := windows16Args{x: &c.x[0], offs: &c.offs[0], at: &c.at[0], taps: taps, pixels: c.pixels,
		xStep: 2 * c.xStep, size: 2 * c.channels, blocks: last, block: 4 * c.block,
		mask: uint32(1<<(c.channels-last*block16) - 1), lo: c.lo, hi: c.hi}
	if c.wide != nil {
		_ = c.wide[c.pixels*c.channels-1]
		a.wide, a.size = &c.wide[0], 4*c.channels
	} else {
		_ = c.y[c.pixels*c.channels-1]
		a.y = &c.y[0]
	}
	if c.silu {
		a.silu = 1
	}
	if c.max {
		windows16Max(&a)
		return
	}
	_ = c.w[last*c.block+block16+c.at[taps-1]/4+block16-1]
	a.w = &c.w[0]
	switch {
	case !c.three || c.wide != nil:
		windows16Sums(&a)
	case c.xStep == c.channels:
		windows16Three1(&a)
	default:
		windows16Three2(&a)
	}
}
