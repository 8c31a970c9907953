package gemm

import (
	"math"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

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
	// tilesKC bounds a block of K, in words: a panel of A and one of B, 96 KB, leave room for what
	// comes next in the second cache.
	tilesKC = 384
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

// tiles says that products are computed on tiles.
func (v level) tiles() bool { return v%formatLevels == levelTiles }

// mostSteps bounds the words along K of a block.
func (v level) mostSteps() int {
	if v.tiles() {
		return tilesKC
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
	var rows [tilesMR * 2 * tileWords]float32
	for k0 := 0; k0 < k; k0 += per * tileWords {
		n := min(per*tileWords, k-k0)
		block := panel[k0/per*r:][:tileWords*r]
		if n < per*tileWords {
			clear(block)
		}
		part := src[k0*each:]
		switch {
		case each == 1 && v.pairs():
			for i := range r {
				joinAlong(v, block[i*tileWords:], part[i*ld:], n)
			}
		case each == 1:
			for i := range r {
				copy(block[i*tileWords:][:n], part[i*ld:])
			}
		case v.pairs():
			transposeBlock(v.floats(), rows[:], 2*tileWords, part, each, n, r)
			for i := range r {
				joinAlong(v, block[i*tileWords:], rows[i*2*tileWords:], n)
			}
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

// onTiles computes n tiles of t's rows below each other. What the store of a register would write
// beyond the results goes by way of a block of its own, and so do results with a residual, which
// may lie where they go.
func (t *tile) onTiles(v level, n int) {
	c := tileCall{steps: t.k / tileWords, rows: t.rows, nextA: t.nextA, flags: t.flags,
		ahead: t.ahead, aheadStep: tileWords * t.aheadStep}
	t.ahead += uintptr(n * c.steps * c.aheadStep)
	if t.cols < tilesNR || t.rows <= tileRows || t.flags&flagResidual != 0 {
		t.onEdge(v, &c, n)
		return
	}
	c.ldc, c.nextC, c.tiles = t.ldc, t.nextC, n
	c.multiply(v, t.a, t.b, t.c)
	for i := 0; i < n && t.flags&^flagAccumulate != 0; i++ {
		t.finishRows(i, t.c[i*t.nextC/4:], t.ldc)
	}
}

// onEdge computes tiles one by one in a block of 32 x 32 and copies what there is of them.
func (t *tile) onEdge(v level, c *tileCall, n int) {
	var edge [tilesMR * tilesNR]float32
	c.ldc, c.tiles = tilesNR, 1
	for i := range n {
		out := t.c[i*t.nextC/4:]
		for r := 0; r < t.rows && t.flags&flagAccumulate != 0; r++ {
			copy(edge[r*tilesNR:][:t.cols], out[r*t.ldc:])
		}
		c.multiply(v, t.a[i*t.nextA/4:], t.b, edge[:])
		c.ahead += uintptr(c.steps * c.aheadStep)
		if t.flags&^flagAccumulate != 0 {
			t.finishRows(i, edge[:], tilesNR)
		}
		for r := range t.rows {
			copy(out[r*t.ldc:][:t.cols], edge[r*tilesNR:])
		}
	}
}

// finishRows applies the epilogue to the rows of tile i, ld apart, while they are in the first
// cache.
func (t *tile) finishRows(i int, block []float32, ld int) {
	lo, hi := float32(math.Inf(-1)), float32(math.Inf(1))
	if t.flags&flagLo != 0 {
		lo = t.lo
	}
	if t.flags&flagHi != 0 {
		hi = t.hi
	}
	for r := range t.rows {
		x := block[r*ld:][:t.cols]
		if t.flags&flagScale != 0 {
			vec.MulScalar(x, x, t.alpha)
		}
		if t.flags&flagBiasRow != 0 {
			vec.AddScalar(x, x, t.bias[i*t.nextBias/4+r])
		}
		if t.flags&flagBiasCol != 0 {
			vec.Add(x, x, t.bias)
		}
		if t.flags&flagResidual != 0 {
			vec.Axpy(x, t.beta, t.res[i*t.nextRes/4+r*t.ldr:][:t.cols], x)
		}
		if t.flags&(flagLo|flagHi) != 0 {
			vec.Clip(x, x, lo, hi)
		}
	}
}

// tileCall is some tiles below each other, each of so many rows by 32 columns, and what a call of
// the assembly reads: addresses and distances in bytes follow.
type tileCall struct {
	steps        int // of 16 words along K
	rows, tiles  int
	ldc          int // floats from one row of results to the next
	nextA, nextC int // bytes from one tile to the next
	flags        uint32
	// ahead is the address of what is fetched into the second cache meanwhile, aheadStep bytes for
	// each 16 words along K, as [tile] has it.
	ahead     uintptr
	aheadStep int
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
