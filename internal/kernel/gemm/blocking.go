package gemm

import "math"

const (
	// maxKC bounds a block of K: so many rows of a panel of B and of A, under 400 KB, stay in the
	// level-2 cache together. Each block reads and writes C once more, and begins anew at the end
	// of every panel, which products of few rows feel most.
	maxKC = 2048
	// nearSteps bounds the steps of K of a part of a sum, with [Params.Near]. Reading and writing C
	// takes a hundredth of the time of so many, and the products of rows of 768 and 3072 floats, as
	// Transformers have them, fall into whole parts.
	nearSteps = 384
	// minWork and maxWork bound the multiply-adds of a chunk, 40 to 160 microseconds on a core of
	// 100 GFLOP/s.
	minWork = 2 << 20
	maxWork = 8 << 20
	// maxStored bounds the results of a block that go to Args.Store by way of scratch, so that they
	// stay in the second cache.
	maxStored = 32 << 10
	// wantChunks is how many chunks a product is cut into before chunks grow beyond minWork.
	wantChunks = 16
	// fillRows is the number of rows, at least, that share a panel which is filled, unless there
	// are fewer: filling is then a few hundredths of the work, even where a chunk of so many rows
	// and steps of K takes longer than maxWork.
	fillRows = 128
	// streamRows is the number of rows below which reading B from memory costs more than computing
	// with it, where computing has no more than its usual speed.
	streamRows = 8
	// fillCols is the number of columns, at least, that share rows which are filled.
	fillCols = 128
)

// blocking is how a product is cut up.
type blocking struct {
	mc, nc, kc       int // most rows, columns and steps of K of a block
	part             int // most steps of K of a sum, before it is added to C
	mr               int // most rows of a tile
	mBlocks, nBlocks int
	// products of the batch per chunk, more than 1 only when a product is one block
	perChunk   int
	repeats    int // products of which one call computes a window
	chunks     int
	lenA, lenB int  // scratch for a block of A and of B
	lenStage   int  // scratch for a panel before its elements are joined or widened
	lenBlock   int  // scratch for results on their way from tiles
	lenC       int  // scratch for a block of C, and of the residual, stored transposed
	directA    bool // rows of A are read where they lie
	directRows bool // the same of rows as they are given
	directB    bool // whole panels of B are read where they lie
	together   bool // all rows are in one block
	aheadRows  int  // of a block, from which its tiles fetch panels of a packed B ahead
	aheadA     bool // its tiles fetch those of a packed A ahead
	aheadRowsA bool // and those of rows of A that are read where they lie
}

// plan chooses blocks of about equal size whose work lies in [minWork, maxWork]. Packing costs mc*K
// + nc*K for mc*nc*K of work, so a block is as square as the cost of packing each side makes it.
func plan(p *Params, v level) blocking {
	var b blocking
	if p.M == 0 || p.N == 0 {
		return blocking{mBlocks: 1, nBlocks: 1, perChunk: 1, repeats: 1}
	}
	k := max(p.K, 1)
	b.kc = split(k, p.mostSteps(v)*k/max(v.steps(k), 1), v.unitK())
	if b.part = b.kc; p.Near && p.Format == F32 {
		b.part = split(b.kc, nearSteps, v.unitK())
	}
	b.directA = v.strided() && !p.PackedA && p.FillA == nil && p.TransA && p.K > 0
	b.directRows = v.tiles() && p.readsRows() || p.readsFloatRows(v)
	b.directB = p.readsB(v)
	switch b.mr = v.mr(); {
	case p.PackedA && p.PanelRows > 0:
		b.mr = p.PanelRows
	case !p.PackedA && p.FillA == nil:
		b.mr = v.evenRows(p.M)
	}
	b.aheadRows = aheadTiles(v) * v.mr()
	if v.farCache() {
		b.aheadRows = b.mr
	}
	b.aheadA = p.PackedA && p.Format == F32 && v.chains()
	b.aheadRowsA = b.directA && v.comesFar(p.M*p.K)
	stream := streamRows * v.speed()
	rows := max(float64(p.M), stream)
	words := max(v.steps(p.K), 1) // of multiply-adds of pairs there are half as many
	total := float64(p.Batch) * rows * float64(p.N) * float64(words)
	work := min(max(total/wantChunks, minWork*v.speed()), maxWork*v.speed())
	area := work / float64(words)
	if p.ToStore {
		area = min(area, maxStored)
	}
	costA, costB := b.costs(p)
	mc := within(math.Sqrt(area*costB/costA), b.mr, p.M)
	nc := within(area/max(mc, stream), v.nr(), p.N)
	mc = within(area/nc, b.mr, p.M)
	if p.PackedA && p.Fill != nil {
		mc = within(max(mc, maxWork/(nc*float64(words)), fillRows), b.mr, p.M)
	}
	if b.together = b.keepsRows(p, area, v); b.together {
		mc = float64(p.M)
		if nc = area / max(mc, stream); p.FillA != nil {
			nc = max(nc, fillCols)
		}
		nc = within(nc, v.nr(), p.N)
	}
	b.mc = split(p.M, int(mc), b.mr)
	b.nc = split(p.N, int(nc), v.nr())
	one := rows * float64(p.N) * float64(words)
	b.perChunk = min(max(int(work/one), 1), p.Batch)
	b.count(p)
	b.even(p, v)
	b.repeats = p.repeats(v, &b)
	b.scratch(p, v)
	return b
}

// repeats is how many products of a batch one call may compute a window of. The products must be
// alike but for where they lie, and so small that calling takes a part of their time.
func (p *Params) repeats(v level, b *blocking) int {
	if !v.chains() || b.perChunk == 1 || p.K > b.kc || p.N > v.nr() || !p.PackedA ||
		!p.PackedB || p.TransC || p.ToStore || p.Bias != NoBias || p.Residual != NoResidual ||
		p.Map != nil || p.OffA != nil || p.OffB != nil || p.OffC != nil {
		return 1
	}
	return min(p.Batch, max(1, maxCallWork/(p.M*v.nr()*(v.stepsA(p.K)+storeSteps))))
}

// evenRows is the height of tiles by which m rows take the least time, the lowest of those: the
// last tile, which has the rows that are left, then has many, and time to read a panel of B.
func (v level) evenRows(m int) int {
	best, least := 1, math.MaxInt
	for rows := max(1, min(m, v.mr())); rows > 0; rows-- {
		time := m / rows * v.tileTime(rows)
		if m%rows > 0 {
			time += v.tileTime(m % rows)
		}
		if time <= least {
			best, least = rows, time
		}
	}
	return best
}

// tileTime is the time of a tile of so many rows, in fourths of a row of one of many, one of them
// beside its products.
//
// With AVX2 a tile of fewer than four rows takes as long as one of four: a row has two registers of
// sums, and the processor's two multipliers have a result after four cycles (Fog, "Instruction
// tables", VFMADD of Haswell to Zen 4), so that eight sums keep them busy. Those of five rows were
// measured to take longer than their multiplications. Sums of bytes do not wait for each other.
func (v level) tileTime(rows int) int {
	switch {
	case v.floats() != levelAVX2 || v.bytes():
	case rows < 4:
		rows = 4
	case rows == 5:
		return 4*5 + 3
	}
	return 4*rows + 1
}

// keepsRows reports whether one block has all rows of A. It has in three cases. On tiles it has all
// that stay in half of the second-level cache, as nothing is packed for a block. In another, B is
// packed and comes from memory, so that it is read only once, while the rows of A, filled anew for
// each block of columns, stay in half of the second-level cache. In the third, A is read where it
// lies and the result is transposed: a block, of at least two panels of columns, then writes whole
// rows of C and shares no cache line with another block.
func (b *blocking) keepsRows(p *Params, area float64, v level) bool {
	second := caches.L2
	switch {
	case v.tiles() && p.PackedB && (p.PackedA || b.directRows):
		return 4*p.M*v.steps(p.K) <= second/2
	case p.PackedB && p.FillA != nil && p.Format == F32:
		return 4*p.M*b.kc <= second/2 && 4*p.K*p.N > second
	case b.directA && p.TransC:
		return 2*v.nr()*p.M <= int(area)
	}
	return false
}

// Sizes up to which reading B where it lies takes less time than packing it first. Reading in place
// is slow where the leading dimension is a multiple of aliasWords: the rows of a panel then share
// few lines of the first-level cache.
const (
	fewRows, someRows = 48, 192
	manySteps         = 64
	aliasWords        = 512
)

// ReadsB reports whether New plans to read panels of B where they lie, at the current instruction
// level, and not to copy them first.
func (p Params) ReadsB() bool {
	p.setDefaults()
	return p.readsB(p.level())
}

// readsB reports whether panels of B are read where they lie, because too few tiles read each panel
// for packing to pay. For one row of tiles packing never pays. For several rows it pays from fewer
// rows on where K has few steps, as tiles of few steps wait for memory. Where K has many and B
// comes from far, it pays for two rows of tiles: a tile reads each row of its panel from another
// place, and copying reads the rows of some panels together.
func (p *Params) readsB(v level) bool {
	if v.converts() || p.PackedB || p.Fill != nil || p.TransB {
		return false
	}
	if p.M > v.mr() && p.K >= manySteps && v.comesFar(p.N*p.K) {
		return false
	}
	few := p.M <= fewRows || p.M <= someRows && p.K >= manySteps
	if v == levelAVX2 { // whose tiles have fewer rows, and steps in less time
		few = p.M <= fewRows && p.K >= manySteps
	}
	return p.M <= v.mr() || (v == levelAVX2 || v == levelAVX512) && few && p.LdB%aliasWords != 0
}

// readsFloatRows reports whether rows of floats are read where they lie: where there are kernels
// for it, of products of several tiles of rows.
func (p *Params) readsFloatRows(v level) bool {
	return v == levelAVX2 && !p.PackedA && !p.TransA && p.FillA == nil && p.K > 0 && p.M > v.mr() &&
		p.N > v.nr()/2
}

// within limits a size to one tile at least and the whole at most.
func within(size float64, tile, whole int) float64 {
	return min(max(size, float64(tile)), float64(whole))
}

// pairRows is what rounding rows of A and joining them to pairs takes beside copying them. Columns
// of B, which are whole vectors, take little more than a copy.
const pairRows = 3

// costs are those of the two operands.
func (x *blocking) costs(p *Params) (a, b float64) {
	a = cost(p.PackedA || x.directA || x.directRows, p.FillA != nil)
	b = cost(p.PackedB, p.Fill != nil)
	if p.Format == BF16 && !p.PackedA && !x.directRows {
		a *= pairRows
	}
	return a, b
}

// cost is what a float of an operand costs to bring into a panel: reading is all that packed data
// takes, and filling takes more than copying.
func cost(packed, filled bool) float64 {
	switch {
	case packed:
		return 0.1
	case filled:
		return 2
	}
	return 1
}

func (b *blocking) scratch(p *Params, v level) {
	if !p.PackedA && !b.directA && !b.directRows {
		b.lenA = min(b.mc, p.M) * v.stepsA(b.kc)
	}
	if p.TransC || p.ToStore {
		b.lenC = min(b.mc, p.M) * min(b.nc, p.N)
		if p.Residual == ResidualFull || p.ToStore && p.TransC {
			b.lenC *= 2
		}
	}
	switch {
	case p.PackedB:
	case b.directB, p.Fill != nil:
		b.lenB = v.nr() * v.steps(b.kc)
	default:
		b.lenB = ceilDiv(min(b.nc, p.N), v.nr()) * v.nr() * v.steps(b.kc)
	}
	if v.convertsA() {
		b.lenStage = max(v.mr(), v.nr()) * b.kc
	}
	if v.tiles() {
		b.lenBlock = (tilesAtOnce*tilesMR + 1) * tilesNR
	}
}

// split cuts n into equal parts of at most about most, each a multiple of unit, and returns their
// size.
func split(n, most, unit int) int {
	parts := ceilDiv(n, max(most, unit))
	return ceilDiv(ceilDiv(n, parts), unit) * unit
}

// part returns the bounds of part i of n elements in parts that are whole units, but the last, and
// differ by one unit at most. The first is one of the longest.
func part(n, parts, unit, i int) (lo, hi int) {
	units := ceilDiv(n, unit)
	return min(ceilDiv(i*units, parts)*unit, n), min(ceilDiv((i+1)*units, parts)*unit, n)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
