//go:build !noasm

package gemm

//go:generate go -C _generate run . ..

// runTile computes t with the kernel of level v.
func runTile(v level, t *tile) {
	if v.floats() == levelNEON && (v.matrix() || !v.pairs()) {
		tileNEON(v, t)
		return
	}
	runTileGo(v, t)
}

// tileNEON computes t with the kernel of its rows and columns; tileGo defines it, or
// tileGoQuads, or tileGoBytes on words in their order along K. Products of few
// rows have partial sums, which their tiles of any columns have alike. There is no masked store: of
// a tile of fewer columns than its kernel has, what is read and written beside B is copied to
// memory of as many, and back.
func tileNEON(v level, t *tile) {
	wide := t.cols > 8
	cols := 8
	if wide {
		cols = 16
	}
	if t.cols == cols {
		kernel(v, t, wide)
		return
	}
	const rows, most = 6, 16
	var c, res [rows * most]float32
	var bias [most]float32
	of := *t
	of.c, of.ldc = c[:], cols
	if t.flags&flagAccumulate != 0 {
		spread(c[:], cols, t.c, t.ldc, t.rows, t.cols)
	}
	if t.flags&flagBiasCol != 0 {
		copy(bias[:], t.bias[:t.cols])
		of.bias = bias[:]
	}
	if t.flags&flagResidual != 0 {
		spread(res[:], cols, t.res, t.ldr, t.rows, t.cols)
		of.res, of.ldr = res[:], cols
	}
	kernel(v, &of, wide)
	spread(t.c, t.ldc, c[:], cols, t.rows, t.cols)
}

// kernel runs the kernel of v.
func kernel(v level, t *tile, wide bool) {
	switch v {
	case levelNEONU8S8:
		halves(t, wide, kernelBytesU8S8)
	case levelNEONS8U8:
		halves(t, wide, kernelBytesS8U8)
	case levelDotU8S8:
		kernelDotU8S8(t, wide)
	case levelDotS8U8:
		kernelDotS8U8(t, wide)
	case levelMatrixBF16:
		matrixBF16(t, wide)
	case levelMatrixU8S8:
		matrixU8S8(t, wide)
	case levelMatrixS8U8:
		matrixS8U8(t, wide)
	default:
		kernelNEON(t, wide)
	}
}

// halves runs a kernel of 8 columns on as many, or on twice as many one half after the other.
func halves(t *tile, wide bool, kernel func(*tile)) {
	kernel(t)
	if wide {
		of := *t
		of.b, of.c = t.b[min(8, len(t.b)):], t.c[8:]
		kernel(&of)
	}
}

// spread copies rows of so many columns, which lie to and from apart.
func spread(dst []float32, to int, src []float32, from, rows, cols int) {
	for i := range rows {
		copy(dst[i*to:][:cols], src[i*from:][:cols])
	}
}
