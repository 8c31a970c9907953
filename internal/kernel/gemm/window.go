package gemm

import "math"

// window is the part of one product that a chunk computes: rows i0 to i1, columns j0 to j1; and the
// same part of those after it, count products in all.
type window struct {
	batch, count, i0, i1, j0, j1 int
}

// panels says where the panels of an operand lie for one block of K: panel p, of rows or columns
// from x, starts at data[base + x*step] and, within it, at row skip of the block.
type panels struct {
	data []float32
	base int
	step int
	skip int // words along K before the block, for operands packed over the whole of K
	ld   int // of rows read where they lie: steps of K are ld apart, and row x is at data[x]
	rows int // of rows that tiles read where they lie: words between them
}

// from returns the panels from so many steps of K of the block on, of words that hold one each.
func (a panels) from(at int) panels {
	a.skip += at
	if a.rows > 0 {
		a.data = a.data[at:]
	} else {
		a.data = a.data[at*a.ld:]
	}
	return a
}

// target is where the tiles of a window go: element (i, j) of the window to c[i*ld+j], with the
// residual beside it.
type target struct {
	c, res  []float32
	ld, ldr int
	last    uint32 // the parts of the epilogue that the last block of K applies
}

// tile is a tile of the product, as far as all of them are alike.
func (o *Product) tile() tile {
	p := &o.p
	return tile{alpha: p.Alpha, beta: p.Beta, lo: p.Lo, hi: p.Hi,
		whole:  !p.Part && p.M <= o.mr,
		narrow: !p.Part && p.M > 1 && o.level == levelAVX2 && p.N <= o.level.nr()/2}
}

// window computes one window, a block of K at a time. Tile t and target out are the caller's, as
// many windows follow each other and clearing both takes as long as a small tile.
func (o *Product) window(t *tile, out *target, w window, args *Args, scratch []float32) {
	p := &o.p
	bufA, scratch := scratch[:o.lenA], scratch[o.lenA:]
	bufB, scratch := scratch[:o.lenB], scratch[o.lenB:]
	stage, scratch := scratch[:o.lenStage], scratch[o.lenStage:]
	block, bufC := scratch[:o.lenBlock], scratch[o.lenBlock:]
	if o.lenBlock > 0 {
		t.block = block
	}
	o.target(out, w, args, bufC)
	t.ldc, t.ldr, t.beta = out.ld, out.ldr, p.Beta
	for k0 := 0; k0 == 0 || k0 < p.K; k0 += o.kc {
		k := min(o.kc, p.K-k0)
		t.k = o.level.steps(k)
		if t.mapped = nil; o.level.tiles() && k0+k == p.K {
			t.mapped = p.Map
		}
		a := o.blockA(w, args, bufA, stage, k0, k)
		o.blockB(t, a, w, args, bufB, stage, k0, k, out)
	}
	switch {
	case p.ToStore && p.TransC:
		rows, cols := w.i1-w.i0, w.j1-w.j0
		turned := bufC[rows*cols:]
		transposeBlock(o.level.floats(), turned, rows, out.c, cols, rows, cols)
		args.Store(turned, rows, w.batch, w.j0, w.j1, w.i0, w.i1)
	case p.ToStore:
		args.Store(out.c, out.ld, w.batch, w.i0, w.i1, w.j0, w.j1)
	case p.TransC:
		transposeBlock(o.level.floats(), args.C[o.at(w):], p.LdC, out.c, out.ld, w.i1-w.i0,
			w.j1-w.j0)
	}
	if p.Map != nil && !o.level.tiles() {
		o.applyMap(w, args.C)
	}
}

// blockFlags sets what k steps of K from k0 do to C. Only the last ones finish elements, with one
// exception: a full residual may be C itself, so the first ones have to take it in before they
// write there, less the factor that the last multiply by.
func (o *Product) blockFlags(t *tile, k0, k int, finish uint32) {
	p := &o.p
	early := p.Residual == ResidualFull && !p.TransC && p.K > o.part
	t.flags = 0
	if k0 > 0 {
		t.flags = flagAccumulate
	}
	switch last := k0+k == p.K; {
	case last && early:
		t.flags |= finish &^ flagResidual
	case last:
		t.flags |= finish
	case early && k0 == 0:
		t.flags, t.beta = flagResidual, p.Beta/p.Alpha
	}
}

// target chooses C itself or, when C is stored transposed, a buffer, with the residual turned
// beside it.
func (o *Product) target(out *target, w window, args *Args, buf []float32) {
	p := &o.p
	out.last, out.ld = o.last, p.LdC
	rows, cols := w.i1-w.i0, w.j1-w.j0
	at := o.at(w)
	if p.Residual == ResidualOneRow {
		out.res = args.Residual[w.j0:]
	}
	if p.TransC || p.ToStore {
		out.c, out.ld = buf, cols
		if p.Residual == ResidualFull {
			out.res, out.ldr = buf[rows*cols:], cols
			transposeBlock(o.level.floats(), out.res, cols, args.Residual[at:], p.LdC, cols, rows)
		}
		return
	}
	out.c = args.C[at:]
	if p.Residual == ResidualFull {
		out.res, out.ldr = args.Residual[at:], p.LdC
	}
}

// at is the offset of the first element of a window in C.
func (o *Product) at(w window) int {
	i, j := w.i0, w.j0
	if o.p.TransC {
		i, j = j, i
	}
	return offset(o.p.OffC, o.p.StrideC, w.batch) + i*o.p.LdC + j
}

// lastFlags are the parts of the epilogue in use. A lower limit of -Inf changes nothing, nor does
// an upper one of +Inf.
func (p *Params) lastFlags() uint32 {
	var f uint32
	if p.Alpha != 1 {
		f |= flagScale
	}
	switch p.Bias {
	case BiasPerRow:
		f |= flagBiasRow
	case BiasPerCol:
		f |= flagBiasCol
	}
	if p.Residual != NoResidual {
		f |= flagResidual
	}
	if p.Clamp && !math.IsInf(float64(p.Lo), -1) {
		f |= flagLo
	}
	if p.Clamp && !math.IsInf(float64(p.Hi), 1) {
		f |= flagHi
	}
	return f
}

// blockA returns the panels of rows of the window, packing them into buf unless they are packed.
func (o *Product) blockA(w window, args *Args, buf, stage []float32, k0, k int) panels {
	p, v := &o.p, o.level
	a := args.A[offset(p.OffA, p.StrideA, w.batch):]
	steps := v.stepsA(k)
	if p.PackedA {
		return panels{data: a, step: v.stepsA(p.K), skip: v.stepsA(k0)}
	}
	if o.directRows {
		return panels{data: a[k0:], rows: p.LdA}
	}
	if o.directA {
		return panels{data: a[k0*p.LdA:], ld: p.LdA}
	}
	if p.FillA == nil {
		packRows(v, o.mr, buf, a, p.LdA, p.TransA, w.i0, w.i1, k0, k, stage)
		return panels{data: buf, base: -w.i0 * steps, step: steps}
	}
	for i := w.i0; i < w.i1; i += o.mr {
		rows := min(o.mr, w.i1-i)
		panel := buf[(i-w.i0)*steps:][:rows*steps]
		if !v.convertsA() {
			p.FillA(panel, a, k0, k0+k, i, i+rows)
			continue
		}
		p.FillA(stage[:rows*k], a, k0, k0+k, i, i+rows)
		convertA(v, panel, stage[:rows*k], rows, k)
	}
	return panels{data: buf, base: -w.i0 * steps, step: steps}
}

// blockB walks the panels of columns of the window, packing each unless it is packed or read where
// it lies.
func (o *Product) blockB(t *tile, a panels, w window, args *Args, buf, stage []float32, k0, k int,
	out *target) {
	p, v := &o.p, o.level
	nr := v.nr()
	b := args.B[offset(p.OffB, p.StrideB, w.batch):]
	whole := o.packWhole(w, b, buf, k0, k)
	for j := w.j0; j < w.j1; j += nr {
		t.cols = min(nr, w.j1-j)
		t.mask = uint32(1)<<t.cols - 1
		t.ldb = nr
		at := (j - w.j0) * t.k
		if o.directB || p.Fill != nil { // nothing reads the panel after this
			at = 0
		}
		switch {
		case p.PackedB:
			t.b = b[j*o.packed.steps(p.K)+v.steps(k0)*nr:][:t.k*nr]
		case o.directB && t.cols == nr:
			t.ldb = p.LdB
			t.b = b[min(k0*p.LdB+j, len(b)):]
		default:
			if p.Fill == nil {
				t.ldb = v.width(t.cols)
			}
			t.b = buf[at:][:t.k*t.ldb]
			o.packPanel(t, b, stage, j, k0, k, whole)
		}
		o.fetch(t, w, b, j, k0, k)
		o.sums(t, a, w, args, j, out, k0, k)
	}
}

// sums computes the tiles of one panel of columns, a part of their sums at a time: the part of the
// panel, and the results, stay in the first cache meanwhile.
func (o *Product) sums(t *tile, a panels, w window, args *Args, j int, out *target, k0, k int) {
	b, steps := t.b, t.k
	for at := 0; at == 0 || at < k; at += o.part {
		n := min(o.part, k-at)
		t.b, t.k = b[at*t.ldb:], o.level.steps(n)
		o.blockFlags(t, k0+at, n, out.last)
		o.column(t, a.from(at), w, args, j, out)
	}
	t.k = steps
}

// packPanel packs the panel of t, of columns from j, unless packWhole has.
func (o *Product) packPanel(t *tile, b, stage []float32, j, k0, k, whole int) {
	p, v, panel, cols := &o.p, o.level, t.b, t.cols
	switch {
	case p.Fill != nil && v.tiles():
		p.Fill(stage[:k*v.nr()], b, k0, k0+k, j, j+cols)
		packTilesB(v, panel, stage, v.nr(), k)
	case p.Fill != nil && v.converts():
		p.Fill(stage[:k*v.nr()], b, k0, k0+k, j, j+cols)
		joinPairs(v, panel, stage, v.nr(), v.nr(), k)
	case p.Fill != nil:
		p.Fill(panel, b, k0, k0+k, j, j+cols)
	case j >= whole:
		packColumns(v, t.ldb, panel, b, p.LdB, p.TransB, j, cols, k0, k, stage)
	}
}

// packWhole packs the whole panels of a window of a row-major B together and returns the column
// after them.
func (o *Product) packWhole(w window, b, buf []float32, k0, k int) int {
	p := &o.p
	n := (w.j1 - w.j0) / o.level.nr()
	if p.PackedB || p.Fill != nil || p.TransB || o.directB || o.level.converts() || n == 0 ||
		k == 0 {
		return w.j0
	}
	copyPanels(o.level, buf, b[k0*p.LdB+w.j0:], p.LdB, k, n)
	return w.j0 + n*o.level.nr()
}

// column computes the tiles of one panel of columns: those of the most rows by as few calls as may
// be, since calling takes a tenth of the time of a tile of few steps of K, and then the last.
func (o *Product) column(t *tile, a panels, w window, args *Args, j int, out *target) {
	p := &o.p
	offBias := offset(p.OffBias, 0, w.batch)
	b := t.b
	planned := onward{t.ahead, t.aheadStep}
	for i := w.i0; i < w.i1; {
		t.rows = min(o.mr, w.i1-i)
		n := t.atOnce(o.level, (w.i1-i)/t.rows)
		if o.aheadRowsA && j == w.j0 {
			n = 1
			o.fetchRowsA(t, a, w, i, planned)
		}
		rows := n * t.rows
		o.tilesOfA(t, a, i, n)
		if o.aheadA {
			t.aheadStep, t.aheadLast, t.againAheadLast = 0, 0, 0
			if j == w.j0 {
				o.fetchA(t, a, w, args, i, n)
			}
		}
		t.c = out.c[(i-w.i0)*out.ld+j-w.j0:][:(rows-1)*out.ld+t.cols]
		t.nextC = 4 * t.rows * out.ld
		switch p.Bias {
		case BiasPerRow:
			t.bias, t.nextBias = args.Bias[offBias+i:][:rows], 4*t.rows
		case BiasPerCol:
			t.bias = args.Bias[offBias+j:][:t.cols]
		}
		if out.res != nil {
			t.res = out.res[(i-w.i0)*out.ldr+j-w.j0:][:(rows-1)*out.ldr+t.cols]
			t.nextRes = 4 * t.rows * out.ldr
		}
		t.againA, t.againC = 4*p.StrideA-(n-1)*t.nextA, 4*p.StrideC-(n-1)*t.nextC
		t.b, t.againB = b, 4*p.StrideB
		runTiles(o.level, t, n, w.count-1)
		i += rows
	}
}

// tilesOfA sets what n tiles of rows from i read of A.
func (o *Product) tilesOfA(t *tile, a panels, i, n int) {
	if a.rows > 0 {
		t.rowA, t.nextA = a.rows, 4*t.rows*a.rows
		t.a = a.data[i*a.rows:][:(n*t.rows-1)*a.rows+t.k]
		return
	}
	if a.ld > 0 {
		t.lda, t.nextA = a.ld, 4*t.rows
		t.a = a.data[i:][:(t.k-1)*a.ld+n*t.rows]
		return
	}
	t.lda, t.nextA = t.rows, 4*t.rows*a.step
	t.a = a.data[a.base+i*a.step+a.skip*t.rows:][:(n-1)*t.rows*a.step+o.level.wordsA(t.k)*t.rows]
}

// applyMap runs the map over the rows of a finished window as stored, as one run when they lie
// together.
func (o *Product) applyMap(w window, c []float32) {
	p := &o.p
	c = c[o.at(w):]
	rows, cols := w.i1-w.i0, w.j1-w.j0
	if p.TransC {
		rows, cols = cols, rows
	}
	if cols == p.LdC {
		rows, cols = 1, rows*cols
	}
	for i := range rows {
		x := c[i*p.LdC:][:cols]
		p.Map(x, x)
	}
}
