package gemm

import "fmt"

// BlockPanel is the inner kernel of a product by itself ("GEBP" of Goto and van de Geijn, 2008),
// for algorithms that do their own blocking: C = alpha*A*B + bias, or C += A*B, where B is one
// packed panel of columns.
type BlockPanel struct {
	// A is Rows x K, from PackA; or, with LdA above 0 and for F32 only, stored as K x Rows with
	// rows LdA floats apart and read in place.
	A   []float32
	LdA int
	// B is a panel of PanelColumns columns, K of them one after another: PackB's, or a C of another
	// BlockPanel with LdC PanelColumns. Columns from Cols on are read and count for nothing.
	B []float32
	// LdB, above 0 and for F32 only, says that B is whole columns of a row-major matrix, rows LdB
	// floats apart, read in place.
	LdB           int
	C             []float32 // Rows x Cols, rows LdC floats apart
	LdC           int
	Rows, Cols, K int
	// Part is that of Params.
	Part  bool
	Alpha float32
	Add   bool      // add to what C holds; then Alpha is 1 and Bias nil
	Bias  []float32 // one for each row, nil for none
}

// Multiply computes x. It panics when a slice is shorter than the sizes say. One call should stay
// below some tens of microseconds: see the package's comment on chunks.
func (p Format) Multiply(x *BlockPanel) {
	v := currentLevel(p)
	t := x.tile(v)
	t.nextC = 4 * v.mr() * x.LdC
	for i := 0; i < x.Rows && t.k > 0; {
		t.rows = min(v.mr(), x.Rows-i)
		n := t.atOnce(v, (x.Rows-i)/t.rows)
		rows := n * t.rows
		words := v.wordsA(t.k)
		t.lda, t.nextA = t.rows, 4*t.rows*words
		if x.LdA > 0 {
			t.lda, t.nextA = x.LdA, 4*t.rows
			t.a = x.A[i:][:(t.k-1)*t.lda+rows]
		} else {
			t.a = x.A[i*words:][:words*rows]
		}
		t.c = x.C[i*x.LdC:][:(rows-1)*x.LdC+x.Cols]
		if x.Bias != nil {
			t.bias, t.nextBias = x.Bias[i:][:rows], 4*t.rows
		}
		runTiles(v, &t, n, 0)
		i += rows
	}
}

// tile is what all tiles of x have in common.
func (x *BlockPanel) tile(v level) tile {
	t := tile{k: v.steps(x.K), ldb: v.nr(), ldc: x.LdC, cols: x.Cols, alpha: x.Alpha,
		whole: !x.Part && x.Rows <= v.mr(), mask: uint32(1)<<x.Cols - 1}
	if x.Cols > v.nr() || x.Cols < 1 || v.bytes() || x.LdA+x.LdB > 0 && v.converts() ||
		x.LdB > 0 && x.Cols < v.nr() {
		panic(fmt.Sprintf("gemm: a panel of %d columns with A %d apart, format %d", x.Cols,
			x.LdA, v.format()))
	}
	if x.Add {
		t.flags |= flagAccumulate
	}
	if x.Alpha != 1 {
		t.flags |= flagScale
	}
	if x.Bias != nil {
		t.flags |= flagBiasRow
	}
	if x.LdB > 0 {
		t.ldb = x.LdB
	}
	if t.k > 0 {
		t.b = x.B[:(t.k-1)*t.ldb+v.nr()]
		t.fetchNothing()
	}
	return t
}
