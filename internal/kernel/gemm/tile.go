package gemm

import "github.com/weirgpu/weir/internal/cpuinfo"

// level is the form of numbers and the instructions that an operand is packed for and a tile
// computed with: eight levels, from plain Go to dot products, NEON, its dot products and its
// products of matrices, and tiles, for each [Format] in turn.
type level uint8

const (
	levelGo level = iota
	levelAVX2
	levelAVX512
	_
	levelNEON
	_
	_
	_
	levelGoBF16     // pairs of bfloat16 in plain Go
	levelAVX2BF16   // beside levelAVX2, in plain Go
	levelWideBF16   // beside levelAVX512, in plain Go
	levelAVX512BF16 // pairs of bfloat16 with VDPBF16PS
	levelNEONBF16   // beside levelNEON, in plain Go
	_
	levelMatrixBF16 // quads of bfloat16 with BFMMLA
	levelTilesBF16  // rows of 16 pairs of bfloat16 with TDPBF16PS
	levelGoU8S8     // words of bytes in plain Go
	levelAVX2U8S8   // words of bytes, each widened to 16 bits (VPMADDWD)
	levelWideU8S8   // the same with AVX-512
	levelAVX512U8S8 // words of bytes with VPDPBUSD
	levelNEONU8S8   // words of bytes, whose products have 16 bits (UMULL)
	levelDotU8S8    // words of bytes with UDOT
	levelMatrixU8S8 // two words of bytes with USMMLA
	levelTilesU8S8  // rows of 16 words of bytes with TDPBUSD
	levelGoS8U8
	levelAVX2S8U8
	levelWideS8U8
	levelAVX512S8U8
	levelNEONS8U8
	levelDotS8U8 // words of bytes with SDOT
	levelMatrixS8U8
	levelTilesS8U8 // the same with TDPBSUD
)

// levelDot, levelDotNEON, levelMatrix and levelTiles are the distances of the levels with dot
// products, with products of matrices and with tiles from the first of their format, of which there
// are so many.
const (
	levelDot     = levelAVX512 + 1
	levelDotNEON = levelNEON + 1
	levelMatrix  = levelNEON + 2
	levelTiles   = levelMatrix + 1
	formatLevels = levelTiles + 1
)

func currentLevel(p Format) level {
	first := level(p) * formatLevels
	switch {
	case p != F32 && hasTiles():
		return first + levelTiles
	case p.hasMatrix():
		return first + levelMatrix
	case p.hasDot():
		return first + levelDot
	case cpuinfo.HasAVX512():
		return first + levelAVX512
	case cpuinfo.HasAVX2FMA():
		return first + levelAVX2
	case p.bytes() && cpuinfo.HasDotProd():
		return first + levelDotNEON
	case cpuinfo.HasNEON():
		return first + levelNEON
	}
	return first
}

// mr is the number of rows of a tile.
func (v level) mr() int {
	if v.tiles() {
		return tilesMR
	}
	return [...]int{levelGo: 4, levelAVX2: 6, levelAVX512: 14, levelNEON: 6}[v.floats()]
}

// nr is the number of columns of a tile.
func (v level) nr() int {
	if v.tiles() {
		return tilesNR
	}
	return [...]int{levelGo: 8, levelAVX2: 16, levelAVX512: 32, levelNEON: 16}[v.floats()]
}

// width is the number of columns of a panel in scratch which so many are packed into: half of them,
// which is a register on amd64, where they fit: it is all that their tiles read.
func (v level) width(cols int) int {
	if v.floats() > levelGo && !v.converts() && cols <= v.nr()/2 {
		return v.nr() / 2
	}
	return v.nr()
}

// format is the form of the numbers.
func (v level) format() Format { return Format(v / formatLevels) }

// pairs says that a word of packed data holds two elements, neighbours along K.
func (v level) pairs() bool { return v.format() == BF16 }

// matrix says that of packed data two words along K lie beside each other, for each row or column:
// those that a product of matrices takes. After an odd last word comes a zero.
func (v level) matrix() bool { return v%formatLevels == levelMatrix }

// converts says that a packed B is something else than the words that it is given as.
func (v level) converts() bool { return v.pairs() || v.matrix() || v.tiles() }

// bytes says that a word of the operands holds four bytes, neighbours along K, and that sums are
// 32-bit integers.
func (v level) bytes() bool { return v.format().bytes() }

// wide says that the two parts of a word of B are multiplied with A one after the other. A is
// widened as it is packed, so that it has two words for one word of B.
func (v level) wide() bool {
	isa := v % formatLevels
	return v.bytes() && (isa == levelAVX2 || isa == levelAVX512)
}

// strided says that tiles take operands A whose steps of K lie any distance apart.
func (v level) strided() bool {
	isa := v % formatLevels
	return v.format() == F32 || v.bytes() && (isa == levelDot || v.floats() == levelNEON &&
		!v.matrix())
}

// steps is the number of words that k elements along K take when packed.
func (v level) steps(k int) int {
	if v.pairs() {
		k = (k + 1) / 2
	}
	if v.matrix() {
		k += k & 1
	}
	if v.tiles() {
		k = ceilDiv(k, tileWords) * tileWords
	}
	return k
}

// stepsA is the number of words that k elements along K of a row of A take when packed.
func (v level) stepsA(k int) int { return v.wordsA(v.steps(k)) }

// wordsA is the number of words of a row of A that meet so many words of a column of B.
func (v level) wordsA(steps int) int {
	if v.wide() {
		return 2 * steps
	}
	return steps
}

// floats is the level that moves floats for this one.
func (v level) floats() level {
	switch isa := v % formatLevels; isa {
	case levelDot:
		return levelAVX512
	case levelDotNEON, levelMatrix:
		return levelNEON
	case levelTiles:
		return beneathTiles()
	default:
		return isa
	}
}

// chains says that one call computes several tiles.
func (v level) chains() bool {
	return !v.tiles() && v != levelAVX2BF16 && v != levelWideBF16 &&
		(v.floats() == levelAVX2 || v.floats() == levelAVX512)
}

// Parts of the epilogue of a tile.
const (
	flagAccumulate = 1 << iota // add what c holds
	flagScale                  // multiply by alpha
	flagBiasRow                // add bias[i]
	flagBiasCol                // add bias[j]
	flagResidual               // add beta*res
	flagLo                     // raise to lo
	flagHi                     // lower to hi
)

// tile is one call of a micro-kernel: rows x cols of C from rows x k of A, k-major with steps lda
// apart (rows where words hold several elements), and k x nr of B with rows ldb apart, where k
// counts words of B. The slices span exactly what the kernel touches, except that b and the panel
// behind it hold nr columns. The assembly reads this struct.
type tile struct {
	a, b, c    []float32
	bias, res  []float32
	k          int
	rows, cols int
	lda        int
	ldb, ldc   int
	ldr        int
	alpha      float32
	beta       float32
	lo, hi     float32
	mask       uint32 // one bit per column
	flags      uint32
	// ahead is the address of what kernels may fetch into the second cache meanwhile, aheadStep
	// bytes for each step of K. They go on where the one before has stopped, beyond the end of the
	// data, too.
	ahead     uintptr
	aheadStep int
	// aheadLast, where it is not 0, is what the last tile of a call fetches ahead, of a packed A;
	// each before fetches the tile below.
	aheadLast uintptr
	// more tiles of as many rows follow below, which the same call computes: each has its operands
	// so many bytes further. All of them, one and below, are then computed for again further
	// products, from the last tile of one to the first of the next so many bytes further. The call
	// leaves the slices where the last tile has them, and more and again below 0.
	more, below                     int
	nextA, nextC, nextBias, nextRes int
	again                           int
	againA, againB, againC          int
	againAheadLast                  int
	// whole says that the rows are all of the product. Few of them then have partial sums, which
	// those of larger tiles, all of whose registers hold results, cannot have.
	whole bool
	// narrow says that the product has several rows, and one register of columns at most. With AVX2
	// every tile then has partial sums, as even the largest has too few results to keep the
	// multipliers busy with one sum each.
	narrow bool
	// block is scratch for results on their way from tiles of registers, and mapped, unless nil,
	// what is done to them once they are finished.
	block  []float32
	rowA   int // words between rows of A that are read as they lie, 0 where it is packed
	mapped func(dst, x []float32)
}

// maxCallWork bounds the multiply-adds of a call that computes several tiles, where storing a tile
// counts as storeSteps steps of K: the runtime cannot stop a goroutine inside assembly, and such a
// call takes some tens of microseconds.
const (
	maxCallWork = 2 << 20
	storeSteps  = 48
)

// atOnce is how many of n tiles of t's rows one call computes, 1 at least.
func (t *tile) atOnce(v level, n int) int {
	return min(n, max(1, maxCallWork/(t.rows*v.nr()*(v.wordsA(t.k)+storeSteps))))
}

// runTiles computes n tiles of t's rows below each other, whose operands the slices of t span; and,
// where the level chains tiles, as many of each of again further products.
func runTiles(v level, t *tile, n, again int) {
	if v.tiles() {
		t.onTiles(v, n)
		return
	}
	t.below, t.again = n-1, again
	t.more = t.below
	runTile(v, t)
	if v.chains() {
		return
	}
	for range n - 1 {
		t.a, t.c = t.a[t.nextA/4:], t.c[t.nextC/4:]
		if t.bias != nil {
			t.bias = t.bias[t.nextBias/4:]
		}
		if t.res != nil {
			t.res = t.res[t.nextRes/4:]
		}
		runTile(v, t)
	}
}
