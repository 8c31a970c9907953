package gemm

import "fmt"

// PackedALen returns how many floats an M x K operand A takes when packed.
func PackedALen(m, k int) int { return m * k }

// PackedBLen returns how many floats a K x N operand B takes when packed.
func PackedBLen(k, n int) int {
	nr := currentLevel().nr()
	return ceilDiv(n, nr) * nr * k
}

// PanelRows returns the number of rows of a panel of a packed A: the rows of a tile.
func PanelRows() int { return currentLevel().mr() }

// PanelColumns returns the number of columns of a panel of a packed B, the w of [Params.Fill].
func PanelColumns() int { return currentLevel().nr() }

// PackA packs the M x K operand a into dst, which holds PackedALen floats, for products with PackedA. Rows of a as stored
// are ld floats apart, 0 for dense; with trans a is stored as K x M.
func PackA(dst, a []float32, m, k, ld int, trans bool) {
	if ld == 0 {
		ld = stored(m, k, trans)
	}
	if len(dst) < PackedALen(m, k) {
		panic(fmt.Sprintf("gemm: packed A of %d x %d wants %d floats, got %d", m, k, PackedALen(m, k), len(dst)))
	}
	if k > 0 {
		packRows(currentLevel(), dst, a, ld, trans, 0, m, 0, k)
	}
}

// PackB packs the K x N operand b into dst, which holds PackedBLen floats, for products with PackedB. Rows of b as stored
// are ld floats apart, 0 for dense; with trans b is stored as N x K.
func PackB(dst, b []float32, k, n, ld int, trans bool) {
	if ld == 0 {
		ld = stored(k, n, trans)
	}
	if len(dst) < PackedBLen(k, n) {
		panic(fmt.Sprintf("gemm: packed B of %d x %d wants %d floats, got %d", k, n, PackedBLen(k, n), len(dst)))
	}
	v := currentLevel()
	nr := v.nr()
	for j := 0; j < n && k > 0; j += nr {
		packColumns(v, dst[j*k:][:nr*k], b, ld, trans, j, min(nr, n-j), 0, k)
	}
}

// packRows packs rows i0 to i1 and k steps of K from k0 of A into panels of mr rows, k-major; the last panel is as wide
// as the rows that are left.
func packRows(v level, dst, a []float32, ld int, trans bool, i0, i1, k0, k int) {
	for i := i0; i < i1 && k > 0; i += v.mr() {
		r := min(v.mr(), i1-i)
		panel := dst[(i-i0)*k:][:r*k]
		if trans {
			copyBlock(v, panel, r, a[k0*ld+i:], ld, r, k)
		} else {
			transposeBlock(v, panel, r, a[i*ld+k0:], ld, r, k)
		}
	}
}

// packColumns packs columns j to j+cols and k steps of K from k0 of B into one panel of nr columns, zeros after cols.
func packColumns(v level, panel, b []float32, ld int, trans bool, j, cols, k0, k int) {
	if k == 0 {
		return
	}
	if cols < v.nr() {
		clear(panel)
	}
	if trans {
		transposeBlock(v, panel, v.nr(), b[j*ld+k0:], ld, cols, k)
	} else {
		copyBlock(v, panel, v.nr(), b[k0*ld+j:], ld, cols, k)
	}
}
