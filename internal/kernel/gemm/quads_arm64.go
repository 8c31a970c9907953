//go:build !noasm

package gemm

// maxQuads bounds the steps of K of one call, so that a call lasts well under 100 microseconds.
const maxQuads = 8192

// quadsVectors does as many whole steps of quadsGo as vectors can, and returns their number.
func quadsVectors(v level, dst, src []float32, ld, cols, k int) (done int) {
	each := 2
	if v.pairs() {
		each = 4
	}
	if done = k / each * each; cols%4 > 0 || done == 0 {
		return 0
	}
	_, _ = dst[v.steps(done)*cols-1], src[(done-1)*ld+cols-1]
	for i := 0; i < done; i += maxQuads {
		n := min(maxQuads, done-i) / each
		if v.pairs() {
			quadsBF16NEON(&dst[v.steps(i)*cols], &src[i*ld], ld, cols, n)
		} else {
			quadsNEON(&dst[i*cols], &src[i*ld], ld, cols, n)
		}
	}
	return done
}

// quadsAlongVectors does as many whole steps of quadsAlongGo as vectors can, and returns their
// number.
func quadsAlongVectors(v level, dst []float32, stride int, src []float32) (done int) {
	each := 2
	if v.pairs() {
		each = 4
	}
	if done = len(src) / each * each; done == 0 {
		return 0
	}
	_ = dst[(v.steps(done)/2-1)*2*stride+1]
	for i := 0; i < done; i += maxQuads {
		n := min(maxQuads, done-i) / each
		if v.pairs() {
			alongBF16NEON(&dst[v.steps(i)*stride], stride, &src[i], n)
		} else {
			alongNEON(&dst[i*stride], stride, &src[i], n)
		}
	}
	return done
}
