package gemm

import "fmt"

// PackedALen returns how many words of four bytes an M x K operand A takes when packed for the
// format.
func (p Format) PackedALen(m, k int) int { return m * currentLevel(p).stepsA(k) }

// PackedBLen returns how many words of four bytes a K x N operand B takes when packed for the
// format.
func (p Format) PackedBLen(k, n int) int {
	v := currentLevel(p)
	return ceilDiv(n, v.nr()) * v.nr() * v.steps(k)
}

// PanelRows returns the number of rows of a panel of a packed A: the rows of a tile.
func (p Format) PanelRows() int { return currentLevel(p).mr() }

// EvenRows returns into how many rows at a time m rows of A are best packed, so that tiles of them
// take the least time at the current instruction level.
func (p Format) EvenRows(m int) int { return currentLevel(p).evenRows(m) }

// PanelColumns returns the number of columns of a panel of a packed B, the w of [Params.Fill].
func (p Format) PanelColumns() int { return currentLevel(p).nr() }

// PackA packs the M x K operand a into dst, which holds PackedALen words, for products of this
// format with PackedA. Rows of a as stored are ld floats apart, 0 for dense; with trans a is
// stored as K x M.
func (p Format) PackA(dst, a []float32, m, k, ld int, trans bool) {
	if ld == 0 {
		ld = stored(m, k, trans)
	}
	if len(dst) < p.PackedALen(m, k) {
		panic(fmt.Sprintf("gemm: packed A of %d x %d wants %d words, got %d", m, k,
			p.PackedALen(m, k), len(dst)))
	}
	v := currentLevel(p)
	if !v.convertsA() || v.tiles() {
		packRows(v, v.mr(), dst, a, ld, trans, 0, m, 0, k, nil)
		return
	}
	packStagedA(v, dst, a, m, k, ld, trans)
}

// packStagedA is PackA for a level that converts A.
func packStagedA(v level, dst, a []float32, m, k, ld int, trans bool) {
	var stage stage
	for i := 0; i < m; i += v.mr() {
		rows := min(v.mr(), m-i)
		for k0 := 0; k0 < k; k0 += stageK {
			n := min(stageK, k-k0)
			packRows(v, v.mr(), dst[i*v.stepsA(k)+v.stepsA(k0)*rows:], a, ld, trans, i, i+rows,
				k0, n, stage[:])
		}
	}
}

// PackB packs the K x N operand b into dst, which holds PackedBLen words, for products of this
// format with PackedB. Rows of b as stored are ld floats apart, 0 for dense; with trans b is
// stored as N x K.
func (p Format) PackB(dst, b []float32, k, n, ld int, trans bool) {
	if ld == 0 {
		ld = stored(k, n, trans)
	}
	if len(dst) < p.PackedBLen(k, n) {
		panic(fmt.Sprintf("gemm: packed B of %d x %d wants %d words, got %d", k, n,
			p.PackedBLen(k, n), len(dst)))
	}
	packB(currentLevel(p), dst, b, k, n, ld, trans)
}

func packB(v level, dst, b []float32, k, n, ld int, trans bool) {
	nr := v.nr()
	if !v.converts() {
		for j := 0; j < n; j += nr {
			packColumns(v, nr, dst[j*k:][:nr*k], b, ld, trans, j, min(nr, n-j), 0, k, nil)
		}
		return
	}
	if v.tiles() && k > 0 && (trans || n%nr == 0) {
		packTilesPanels(v, dst, b, k, n, ld, trans)
		return
	}
	packStagedB(v, dst, b, k, n, ld, trans)
}

// packStagedB is packB for a level that converts B.
func packStagedB(v level, dst, b []float32, k, n, ld int, trans bool) {
	nr := v.nr()
	var stage stage
	for j := 0; j < n; j += nr {
		panel := dst[j*v.steps(k):][:nr*v.steps(k)]
		for k0 := 0; k0 < k; k0 += stageK {
			s := min(stageK, k-k0)
			packColumns(v, nr, panel[nr*v.steps(k0):][:nr*v.steps(s)], b, ld, trans, j,
				min(nr, n-j), k0, s, stage[:])
		}
	}
}

// stageK is how many steps of K are packed at a time outside of products. It is even, so that pairs
// stay together.
const stageK = 256

// stage holds a stretch of a panel before its elements are joined or widened.
type stage [stageK * 32]float32

// packRows packs rows i0 to i1 and k steps of K from k0 of A into panels of mr rows, k-major; the
// last panel is as wide as the rows that are left. stage holds k x mr floats if the level converts
// A.
func packRows(v level, mr int, dst, a []float32, ld int, trans bool, i0, i1, k0, k int,
	stage []float32) {
	steps := v.stepsA(k)
	for i := i0; i < i1 && k > 0; i += mr {
		r := min(mr, i1-i)
		panel := dst[(i-i0)*steps:][:r*steps]
		switch {
		case v.tiles() && trans:
			packTilesA(v, panel, a[k0*ld+i:], 1, ld, r, k)
			continue
		case v.tiles():
			packTilesA(v, panel, a[i*ld+k0:], ld, 1, r, k)
			continue
		case trans && v.joins():
			joinPairs(v, panel, a[k0*ld+i:], ld, r, k)
			continue
		case v.matrix() || v.joins() && k >= longRow:
			transposePairs(v, panel, r, a[i*ld+k0:], ld, r, k, stage)
			continue
		}
		rows := panel
		if v.convertsA() {
			rows = stage[:r*k]
		}
		if trans {
			copyBlock(v.floats(), rows, r, a[k0*ld+i:], ld, r, k)
		} else {
			transposeBlock(v.floats(), rows, r, a[i*ld+k0:], ld, r, k)
		}
		convertA(v, panel, rows, r, k)
	}
}

// longRow is the number of floats from which joining a row before it is transposed pays for a call
// a row.
const longRow = 64

// transposePairs makes a panel of pairs, whose rows are stride words, from rows of k floats that
// lie ld apart and become its columns: pairs are neighbours there, so that they are joined before,
// half as much, is transposed.
func transposePairs(v level, panel []float32, stride int, src []float32, ld, rows, k int,
	stage []float32) {
	words := v.steps(k)
	if v.matrix() {
		for i := range rows {
			quadsAlong(v, panel[2*i:], stride, src[i*ld:][:k])
		}
		return
	}
	for i := range rows {
		joinAlong(v, stage[i*words:][:words], src[i*ld:][:k], k)
	}
	transposeBlock(v.floats(), panel, stride, stage[:rows*words], words, rows, words)
}

// joins reports whether rounding and joining pairs reads rows where they lie, so that they need not
// be copied before it.
func (v level) joins() bool { return v == levelGoBF16 || v == levelAVX512BF16 || v.matrix() }

// convertsA reports whether packed rows of A are something else than the words they are given as.
func (v level) convertsA() bool { return v.converts() || v.wide() }

// convertA makes a panel of r rows and k steps from the rows as they are given, k-major.
func convertA(v level, panel, rows []float32, r, k int) {
	switch {
	case v.tiles():
		packTilesA(v, panel, rows, 1, r, r, k)
	case v.converts():
		joinPairs(v, panel, rows, r, r, k)
	case v.wide():
		widenAll(panel, rows, v == levelAVX2S8U8 || v == levelWideS8U8)
	}
}

// packColumns packs columns j to j+cols and k steps of K from k0 of B into one panel of width
// columns, zeros after cols. stage holds k x nr floats if the level joins pairs.
func packColumns(v level, width int, panel, b []float32, ld int, trans bool, j, cols, k0, k int,
	stage []float32) {
	if k == 0 {
		return
	}
	switch {
	case v.tiles() && !trans && cols == width:
		packTilesB(v, panel, b[k0*ld+j:], ld, k)
		return
	case v.tiles() && trans:
		packTilesTurned(v, panel, b[j*ld+k0:], ld, cols, k)
		return
	case v.joins() && !trans && cols == width:
		joinPairs(v, panel, b[k0*ld+j:], ld, cols, k)
		return
	case trans && (v.matrix() || v.joins() && k >= longRow):
		if cols < width {
			clear(panel)
		}
		transposePairs(v, panel, width, b[j*ld+k0:], ld, cols, k, stage)
		return
	}
	floats := panel
	if v.converts() {
		floats = stage[:k*width]
	}
	switch {
	case !trans && cols < v.nr():
		padBlock(v.floats(), floats, width, b[k0*ld+j:], ld, cols, k)
	case !trans:
		copyBlock(v.floats(), floats, width, b[k0*ld+j:], ld, cols, k)
	default:
		if cols < width {
			clear(floats)
		}
		transposeBlock(v.floats(), floats, width, b[j*ld+k0:], ld, cols, k)
	}
	switch {
	case v.tiles():
		packTilesB(v, panel, floats, width, k)
	case v.converts():
		joinPairs(v, panel, floats, width, width, k)
	}
}

// Halves rounds x to bfloat16 as PackA does a row: two elements to each word of dst, the first in
// the low half. It writes a zero behind an odd number of them.
func Halves(dst, x []float32) {
	if len(x) > 0 {
		joinAlong(currentLevel(BF16), dst[:ceilDiv(len(x), 2)], x, len(x))
	}
}
