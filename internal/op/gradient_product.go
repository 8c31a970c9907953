package op

// Rules of products of matrices.

// flipped swaps the last two of rank axes.
func (x *Expander) flipped(v Var) Var {
	perm := axesBetween(0, x.Rank(v))
	if n := len(perm); n >= 2 {
		perm[n-1], perm[n-2] = perm[n-2], perm[n-1]
	}
	return x.Transpose(v, perm...)
}

// gradMatMul: g·bᵀ and aᵀ·g, a vector taken as a row on the left and a column on the right, summed
// over the stacks that an operand was repeated for. What all rows of a stack are multiplied by is
// summed over them by one product.
func gradMatMul(x *gradient) {
	a, b, g := x.Input(0), x.Input(1), x.d(0)
	if x.Rank(b) == 1 {
		b, g = x.Unsqueeze(b, 1), x.Unsqueeze(g, int64(x.Rank(g)))
	}
	if x.Rank(a) == 1 {
		a, g = x.Unsqueeze(a, 0), x.Unsqueeze(g, int64(x.Rank(g))-1)
	}
	if x.Rank(b) == 2 {
		x.byRows(a, b, g)
		return
	}
	if x.needs(0) {
		d := x.unbroadcast(x.Op("MatMul", nil, g, x.flipped(b)), a)
		x.set(0, x.shapedAs(d, a, x.Input(0)))
	}
	if x.needs(1) {
		d := x.unbroadcast(x.Op("MatMul", nil, x.flipped(a), g), b)
		x.set(1, x.shapedAs(d, b, x.Input(1)))
	}
}

// byRows is gradMatMul where b is a matrix.
func (x *gradient) byRows(a, b, g Var) {
	rows := func(v Var) Var {
		if rank := x.Rank(v); rank != 2 {
			return x.Op("Flatten", axisAttr(int64(rank)-1), v)
		}
		return v
	}
	g = rows(g)
	if x.needs(0) {
		d := x.gemm(g, b, false, true)
		if x.Rank(x.Input(0)) != 2 {
			d = x.as(d, x.Input(0))
		}
		x.set(0, d)
	}
	if x.needs(1) {
		x.set(1, x.shapedAs(x.gemm(rows(a), g, true, false), b, x.Input(1)))
	}
}

// shapedAs gives d, of the shape of v, that of the operand that v was made of.
func (x *gradient) shapedAs(d, v, operand Var) Var {
	if v == operand {
		return d
	}
	return x.as(d, operand)
}

// gradGemm is gradMatMul for alpha·a·b + beta·c, where either matrix may be transposed.
func gradGemm(x *gradient) {
	a, b, g := x.Input(0), x.Input(1), x.d(0)
	transA, transB := x.Attrs.Bool("transA", false), x.Attrs.Bool("transB", false)
	if x.needs(0) {
		if transA {
			x.set(0, x.gemm(b, g, transB, true))
		} else {
			x.set(0, x.gemm(g, b, false, !transB))
		}
	}
	if x.needs(1) {
		if transB {
			x.set(1, x.gemm(g, a, true, transA))
		} else {
			x.set(1, x.gemm(a, g, !transA, false))
		}
	}
	if x.needs(2) {
		x.summed(2, x.Scale(g, x.attr("beta", 1)))
	}
}

// gemm is alpha of the call times a·b, where either matrix may be transposed.
func (x *gradient) gemm(a, b Var, transA, transB bool) Var {
	attrs := Attrs{FloatAttr("alpha", float32(x.attr("alpha", 1)))}
	if transA {
		attrs = append(attrs, IntAttr("transA", 1))
	}
	if transB {
		attrs = append(attrs, IntAttr("transB", 1))
	}
	return x.Op("Gemm", attrs, a, b)
}
