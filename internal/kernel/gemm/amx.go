package gemm

import "github.com/weirgpu/weir/internal/cpuinfo"

// Intel's Advanced Matrix Extensions multiply registers of 16 rows of 16 words, in which a word of
// A holds neighbours along K of one row, and a word of B those of one column: two bfloat16 or four
// bytes. Two registers of A by two of B give the four that a tile of a product fills.
//
// Of a packed A a panel has, for each 16 words along K, 16 words of each of its rows, so that rows
// are not transposed. A panel of B is that of all levels, 32 words for each word along K. In both,
// zeros follow until the words along K are a multiple of 16.
const (
	tileWords = 16
	tileRows  = 16
	tilesMR   = 2 * tileRows
	tilesNR   = 2 * tileWords
	// tilesKC bounds the words along K of a call, so that B, half of them, stays in the first
	// cache.
	tilesKC = 256
	// tilesDepth bounds a block of K, in words, beyond which sums go through memory, and
	// packedDepth where nothing has to be packed for it.
	tilesDepth, packedDepth = 1024, 16 << 10
	// tilesAtOnce is how many tiles below each other share a block of results.
	tilesAtOnce = 4
	// tilesSpeed is how many times faster words are multiplied, at least, than minWork and maxWork
	// are measured for.
	tilesSpeed = 8
)

// level is the level that a product is computed at. Fewer rows than streamRows wait for B to be
// read, with tiles or without, and on tiles their results go through memory once more on their way
// to C. Dot products read a B that is packed for tiles as it is. Sums of floats have other bits on
// other levels, so that a part of a larger product has the level of that.
func (p *Params) level() level {
	v := currentLevel(p.Format)
	if !v.tiles() || p.M >= streamRows || p.PackedA || p.Part && !p.Format.bytes() ||
		!p.Format.hasDot() {
		return v
	}
	return v - levelTiles + levelDot
}

// readsRows reports whether tiles can read rows of A where they lie: words as they are multiplied,
// whole registers of them.
func (p *Params) readsRows() bool {
	return p.K > 0 && p.Format.bytes() && !p.PackedA && !p.TransA && p.FillA == nil &&
		p.K%tileWords == 0
}

// OnTiles reports whether products of the format are computed on tiles. The first to ask has the
// system asked for their use: see [SettleTiles].
func (p Format) OnTiles() bool { return currentLevel(p).tiles() }

// PacksOnce reports whether an A that changes from run to run is better packed once, by
// [Format.PackA], than by each chunk: rows for tiles are rounded, and read by all chunks.
func (p Params) PacksOnce() bool {
	return p.Format == BF16 && p.PackedB && !p.PackedA && p.FillA == nil && p.Batch <= 1 &&
		!p.Part && p.level().tiles()
}

// tiles says that products are computed on tiles.
func (v level) tiles() bool { return v%formatLevels == levelTiles }

// mostSteps bounds the words along K of a block.
func (p *Params) mostSteps(v level) int {
	switch {
	case v.tiles() && (p.PackedA || p.readsRows()) && p.PackedB:
		return packedDepth
	case v.tiles():
		return tilesDepth
	}
	return maxKC
}

// unitK is the elements along K that stay together when K is cut into blocks.
func (v level) unitK() int {
	switch {
	case v.tiles() && v.pairs():
		return 2 * tileWords
	case v.tiles():
		return tileWords
	}
	return 4
}

// speed is how many times more a chunk may have to compute, and could compute while it waits for
// memory.
func (v level) speed() float64 {
	if v.tiles() {
		return tilesSpeed
	}
	return 1
}

// packTilesA packs r rows, of k elements along K each, for tiles. Rows lie ld apart, and elements
// along K each further; one of the two is 1.
func packTilesA(v level, panel, src []float32, ld, each, r, k int) {
	per := 1
	if v.pairs() {
		per = 2
	}
	if each == 1 && v.pairs() {
		joinRows(v, panel, src, ld, r, k)
		return
	}
	var words [tilesMR * tileWords]float32
	for k0 := 0; k0 < k; k0 += per * tileWords {
		n := min(per*tileWords, k-k0)
		block, part := panel[k0/per*r:][:tileWords*r], src[k0*each:]
		if n < per*tileWords {
			clear(block)
		}
		switch {
		case each == 1:
			for i := range r {
				copy(block[i*tileWords:][:n], part[i*ld:])
			}
		case v.pairs():
			joinPairs(v, words[:], part, each, r, n)
			transposeBlock(v.floats(), block, tileWords, words[:], r, (n+1)/2, r)
		default:
			transposeBlock(v.floats(), block, tileWords, part, each, n, r)
		}
	}
}

// packTilesB packs k rows of a whole panel of columns, rows ld apart.
func packTilesB(v level, panel, src []float32, ld, k int) {
	words := k
	if v.pairs() {
		words = (k + 1) / 2
		joinPairs(v, panel, src, ld, tilesNR, k)
	} else {
		copyBlock(v.floats(), panel, tilesNR, src, ld, tilesNR, k)
	}
	clear(panel[words*tilesNR : v.steps(k)*tilesNR])
}

// packTilesTurned packs a panel of up to 32 columns that lie as rows of k elements, ld apart.
func packTilesTurned(v level, panel, src []float32, ld, cols, k int) {
	const most = 64 // words along K at a time
	var words [tilesNR * most]float32
	per := 1
	if v.pairs() {
		per = 2
	}
	if cols < tilesNR {
		clear(panel[:v.steps(k)*tilesNR])
	}
	for k0 := 0; k0 < k; k0 += per * most {
		n := min(per*most, k-k0)
		to, from, step, steps := panel[k0/per*tilesNR:], src[k0:], ld, n
		if v.pairs() {
			for i := range cols {
				joinAlong(v, words[i*most:], src[i*ld+k0:], n)
			}
			from, step, steps = words[:], most, (n+1)/2
		}
		transposeBlock(v.floats(), to, tilesNR, from, step, cols, steps)
	}
	clear(panel[ceilDiv(k, per)*tilesNR : v.steps(k)*tilesNR])
}

// packTilesPanels packs whole panels of columns, or, turned, all there are.
func packTilesPanels(v level, dst, b []float32, k, n, ld int, turned bool) {
	for j := 0; j < n; j += tilesNR {
		panel := dst[j*v.steps(k):][:tilesNR*v.steps(k)]
		if turned {
			packTilesTurned(v, panel, b[j*ld:], ld, min(tilesNR, n-j), k)
		} else {
			packTilesB(v, panel, b[j:], ld, k)
		}
	}
}

// onTiles computes n tiles of t's rows below each other, some at a time: their sums over K go to a
// block of whole rows, which stays in the first cache, and from there to where results go.
func (t *tile) onTiles(v level, n int) {
	if t.block == nil {
		t.onEach(v, n)
		return
	}
	most := tilesAtOnce
	if t.rows <= tileRows { // the row of the lower registers is written into the next tile
		most = 1
	}
	for i := 0; i < n; i += most {
		at := min(most, n-i)
		x := t.from(i, at)
		t.sum(v, i, at, x.c, t.block)
		x.finishBlock(v)
	}
}

// onEach computes n tiles for who has no scratch: where whole rows of results lie beside each
// other, there, and one by one otherwise.
func (t *tile) onEach(v level, n int) {
	if t.cols == tilesNR && t.ldc == tilesNR && t.rows > tileRows {
		t.sum(v, 0, n, t.c, t.c)
		if x := t.from(0, n); t.flags&^flagAccumulate != 0 {
			finish(v, &x, t.c)
		}
		return
	}
	var block [(tilesMR + 1) * tilesNR]float32
	for i := range n {
		x := t.from(i, 1)
		t.sum(v, i, 1, x.c, block[:])
		finish(v, &x, block[:])
	}
}

// from is n of the tiles, from tile i on, as one.
func (t *tile) from(i, n int) tile {
	x := *t
	x.rows, x.c = n*t.rows, t.c[i*t.nextC/4:]
	_ = x.c[(x.rows-1)*x.ldc+x.cols-1]
	if t.flags&flagBiasRow != 0 {
		x.bias = t.bias[i*t.nextBias/4:]
	}
	if t.flags&flagResidual != 0 {
		x.res = t.res[i*t.nextRes/4:]
	}
	return x
}

// sum computes the sums of n tiles from tile i on into a block, added to what c holds if the tile
// says so, a part of K at a time that has B stay in the first cache for all of them.
func (t *tile) sum(v level, i, n int, c, block []float32) {
	call := tileCall{rows: t.rows, tiles: n, ldc: tilesNR, rowA: t.rowA, nextA: t.nextA,
		nextC: 4 * tilesNR * t.rows, flags: t.flags & flagAccumulate, ahead: t.ahead,
		aheadStep: tileWords * t.aheadStep}
	if t.flags&flagAccumulate != 0 && &c[0] != &block[0] {
		for r := range n * t.rows {
			copy(block[r*tilesNR:][:t.cols], c[r*t.ldc:])
		}
	}
	_, step := call.strides()
	steps := t.k / tileWords
	parts := max(ceilDiv(steps, tilesKC/tileWords), 1)
	for p := range parts {
		s0, s1 := p*steps/parts, (p+1)*steps/parts
		call.steps = s1 - s0
		call.multiply(v, t.a[i*t.nextA/4+s0*step:], t.b[s0*tileWords*tilesNR:], block)
		call.flags = flagAccumulate
		call.ahead += uintptr(n * call.steps * call.aheadStep)
	}
	t.ahead = call.ahead
}

// finishBlock applies the epilogue to the rows of t's block and writes them where they go.
func (t *tile) finishBlock(v level) {
	if t.mapped == nil {
		finish(v, t, t.block)
		return
	}
	out, ldc := t.c, t.ldc
	t.c, t.ldc = t.block, tilesNR
	finish(v, t, t.block)
	t.mapped(t.block[:t.rows*tilesNR], t.block[:t.rows*tilesNR])
	t.c, t.ldc, t.flags = out, ldc, 0
	finish(v, t, t.block)
}

// finishGo applies the epilogue to rows of 32 columns.
func (t *tile) finishGo(block []float32) {
	t.flags &^= flagAccumulate
	for i := range t.rows {
		for j := range t.cols {
			t.finish(i, j, block[i*tilesNR+j])
		}
	}
}

// tileCall is some tiles below each other, each of so many rows by 32 columns, and what a call of
// the assembly reads: addresses and distances in bytes follow.
type tileCall struct {
	steps        int // of 16 words along K
	rows, tiles  int
	ldc          int // floats from one row of results to the next
	rowA         int // words from one row of A to the next where it is not packed, else 0
	nextA, nextC int // bytes from one tile to the next
	flags        uint32
	// ahead is the address of what is fetched into the second cache meanwhile, aheadStep bytes for
	// each 16 words along K, as [tile] has it.
	ahead     uintptr
	aheadStep int
}

// strides are the words from one row of A to the next, and from one 16 words along K.
func (c *tileCall) strides() (row, step int) {
	if c.rowA > 0 {
		return c.rowA, tileWords
	}
	return tileWords, c.rows * tileWords
}

// multiply computes c, or adds to what it holds: by the definition, which is slow and has the same
// bits, where the system keeps no tiles any more or permits none, as on a machine that the program
// was moved to.
func (c *tileCall) multiply(v level, a, b, out []float32) {
	if cpuinfo.TilesDefined() || !cpuinfo.TilesKept() {
		c.model(v, a, b, out)
		return
	}
	c.run(v, a, b, out)
}
