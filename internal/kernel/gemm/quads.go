package gemm

import (
	"math"

	"github.com/weirgpu/weir/internal/refmath"
)

// quadsGo packs k steps of K of cols columns, which lie ld apart, for products of matrices: the two
// words of a column that follow each other along K side by side, then those of the next column. A
// word is one as given, or two neighbouring floats rounded to bfloat16. Zeros follow the last.
func quadsGo(v level, dst, src []float32, ld, cols, k int) {
	each := 1
	if v.pairs() {
		each = 2
	}
	for w := range v.steps(k) {
		for j := range cols {
			x := float32(0)
			if i := w * each; i < k {
				x = v.word(src[i*ld+j:], ld, min(each, k-i))
			}
			dst[w/2*2*cols+2*j+w%2] = x
		}
	}
}

// quadsAlongGo is quadsGo of one column whose steps lie side by side, of so many as a panel has.
func quadsAlongGo(v level, dst []float32, stride int, src []float32) {
	each := 1
	if v.pairs() {
		each = 2
	}
	for w := range v.steps(len(src)) {
		x := float32(0)
		if i := w * each; i < len(src) {
			x = v.word(src[i:], 1, min(each, len(src)-i))
		}
		dst[w/2*2*stride+w%2] = x
	}
}

// word is one word of packed data, of the n elements that lie ld apart.
func (v level) word(src []float32, ld, n int) float32 {
	if !v.pairs() {
		return src[0]
	}
	w := uint32(toBF16(src[0]))
	if n > 1 {
		w |= uint32(toBF16(src[ld])) << 16
	}
	return math.Float32frombits(w)
}

// tileGoQuads defines, bit for bit, a tile of words of bfloat16 for BFMMLA, two words at a time.
func tileGoQuads(t *tile) {
	for i := range t.rows {
		for j := range t.cols {
			var sum float32
			for k := range t.k {
				a, b := t.a[k/2*2*t.rows+2*i+k%2], t.b[k/2*2*t.ldb+2*j+k%2]
				sum = refmath.DotBF16(sum, math.Float32bits(a), math.Float32bits(b))
			}
			t.finish(i, j, sum)
		}
	}
}
