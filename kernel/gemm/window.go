package gemm

// window is the part of one product that a chunk computes: rows i0 to i1, columns j0 to j1.
type window struct {
	batch, i0, i1, j0, j1 int
}

// panels says where the panels of an operand lie for one block of K: panel p, of rows or columns from x, starts at
// data[base + x*step] and, within it, at row skip of the block.
type panels struct {
	data []float32
	base int
	step int
	skip int // steps of K before the block, for operands packed over the whole of K
}

// window computes one window, a block of K at a time.
func (o *Op) window(w window, args *Args, scratch []float32) {
	p := &o.p
	t := tile{alpha: p.Alpha, beta: p.Beta, lo: p.Lo, hi: p.Hi, ldc: p.LdC}
	if p.Residual == ResidualFull {
		t.ldr = p.LdC
	}
	last := o.lastFlags()
	bufA, bufB := scratch[:o.lenA], scratch[o.lenA:o.lenA+o.lenB]
	for k0 := 0; k0 == 0 || k0 < p.K; k0 += o.kc {
		t.k = min(o.kc, p.K-k0)
		t.flags = 0
		if k0 > 0 {
			t.flags = flagAccumulate
		}
		if k0+t.k == p.K {
			t.flags |= last
		}
		a := o.blockA(w, args, bufA, k0, t.k)
		o.blockB(&t, a, w, args, bufB, k0)
	}
	if p.Map != nil {
		o.applyMap(w, args.C)
	}
}

// lastFlags are the parts of the epilogue that the last block of K applies.
func (o *Op) lastFlags() uint32 {
	var f uint32
	if o.p.Alpha != 1 {
		f |= flagScale
	}
	switch o.p.Bias {
	case BiasPerRow:
		f |= flagBiasRow
	case BiasPerCol:
		f |= flagBiasCol
	}
	if o.p.Residual != NoResidual {
		f |= flagResidual
	}
	if o.p.Clamp {
		f |= flagClamp
	}
	return f
}

// blockA returns the panels of rows of the window, packing them into buf unless they are packed.
func (o *Op) blockA(w window, args *Args, buf []float32, k0, k int) panels {
	p := &o.p
	a := args.A[offset(p.OffA, p.StrideA, w.batch):]
	if p.PackedA {
		return panels{data: a, step: p.K, skip: k0}
	}
	packRows(o.level, buf, a, p.LdA, p.TransA, w.i0, w.i1, k0, k)
	return panels{data: buf, base: -w.i0 * k, step: k}
}

// blockB walks the panels of columns of the window, packing each unless it is packed or read where it lies.
func (o *Op) blockB(t *tile, a panels, w window, args *Args, buf []float32, k0 int) {
	p := &o.p
	nr := o.level.nr()
	b := args.B[offset(p.OffB, p.StrideB, w.batch):]
	for j := w.j0; j < w.j1; j += nr {
		t.cols = min(nr, w.j1-j)
		t.mask = uint32(1)<<t.cols - 1
		t.ldb = nr
		switch {
		case p.PackedB:
			t.b = b[j*p.K+k0*nr:][:t.k*nr]
		case o.directB && t.cols == nr:
			t.ldb = p.LdB
			t.b = b[min(k0*p.LdB+j, len(b)):]
		default:
			t.b = buf[:t.k*nr]
			if !o.directB {
				t.b = buf[(j-w.j0)*t.k:][:t.k*nr]
			}
			if p.Fill != nil {
				p.Fill(t.b, b, k0, k0+t.k, j, j+t.cols)
			} else {
				packColumns(o.level, t.b, b, p.LdB, p.TransB, j, t.cols, k0, t.k)
			}
		}
		o.column(t, a, w, args, j)
	}
}

// column computes the tiles of one panel of columns.
func (o *Op) column(t *tile, a panels, w window, args *Args, j int) {
	p := &o.p
	offC := offset(p.OffC, p.StrideC, w.batch)
	offBias := offset(p.OffBias, 0, w.batch)
	for i := w.i0; i < w.i1; i += o.level.mr() {
		t.rows = min(o.level.mr(), w.i1-i)
		t.a = a.data[a.base+i*a.step+a.skip*t.rows:][:t.k*t.rows]
		at := offC + i*p.LdC + j
		t.c = args.C[at:][:(t.rows-1)*p.LdC+t.cols]
		switch p.Bias {
		case BiasPerRow:
			t.bias = args.Bias[offBias+i:][:t.rows]
		case BiasPerCol:
			t.bias = args.Bias[offBias+j:][:t.cols]
		}
		switch p.Residual {
		case ResidualFull:
			t.res = args.Residual[at:][:len(t.c)]
		case ResidualOneRow:
			t.res = args.Residual[j:][:t.cols]
		}
		runTile(o.level, t)
	}
}

// applyMap runs the map over the rows of a finished window, as one run when they lie together.
func (o *Op) applyMap(w window, c []float32) {
	p := &o.p
	c = c[offset(p.OffC, p.StrideC, w.batch)+w.i0*p.LdC+w.j0:]
	rows, cols := w.i1-w.i0, w.j1-w.j0
	if cols == p.LdC {
		rows, cols = 1, rows*cols
	}
	for i := range rows {
		x := c[i*p.LdC:][:cols]
		p.Map(x, x)
	}
}
