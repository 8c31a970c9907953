package gemm

import "github.com/weirgpu/weir/internal/cpuinfo"

// level is the instruction set that an operand is packed for and a tile computed with.
type level uint8

const (
	levelGo level = iota
	levelAVX2
	levelAVX512
	levelGoBF16     // pairs of bfloat16 in plain Go
	levelAVX512BF16 // pairs of bfloat16 with VDPBF16PS
	levelGoU8S8     // words of bytes in plain Go
	levelAVX512U8S8 // words of bytes with VPDPBUSD
	levelGoS8U8
	levelAVX512S8U8
)

func currentLevel(p Precision) level {
	switch {
	case p == BF16 && p.Fast():
		return levelAVX512BF16
	case p == BF16:
		return levelGoBF16
	case p == U8S8 && p.Fast():
		return levelAVX512U8S8
	case p == U8S8:
		return levelGoU8S8
	case p == S8U8 && p.Fast():
		return levelAVX512S8U8
	case p == S8U8:
		return levelGoS8U8
	case !haveAssembly:
		return levelGo
	case cpuinfo.HasAVX512():
		return levelAVX512
	case cpuinfo.HasAVX2FMA():
		return levelAVX2
	}
	return levelGo
}

// mr is the number of rows of a tile.
func (v level) mr() int {
	return [...]int{levelGo: 4, levelAVX2: 6, levelAVX512: 14}[v.floats()]
}

// nr is the number of columns of a tile.
func (v level) nr() int {
	return [...]int{levelGo: 8, levelAVX2: 16, levelAVX512: 32}[v.floats()]
}

// pairs says that a word of packed data holds two elements, neighbours along K.
func (v level) pairs() bool { return v == levelGoBF16 || v == levelAVX512BF16 }

// bytes says that a word of the operands holds four bytes, neighbours along K, and that sums are 32-bit integers.
func (v level) bytes() bool { return v >= levelGoU8S8 }

// steps is the number of words that k elements along K take when packed.
func (v level) steps(k int) int {
	if v.pairs() {
		return (k + 1) / 2
	}
	return k
}

// floats is the level that moves floats for this one.
func (v level) floats() level {
	switch v {
	case levelGoBF16, levelGoU8S8, levelGoS8U8:
		return levelGo
	case levelAVX512BF16, levelAVX512U8S8, levelAVX512S8U8:
		return levelAVX512
	}
	return v
}

// Parts of the epilogue of a tile.
const (
	flagAccumulate = 1 << iota // add what c holds
	flagScale                  // multiply by alpha
	flagBiasRow                // add bias[i]
	flagBiasCol                // add bias[j]
	flagResidual               // add beta*res
	flagClamp                  // limit to [lo, hi]
)

// tile is one call of a micro-kernel: rows x cols of C from rows x k of A, k-major with steps lda apart (rows where words hold
// several elements), and k x nr of B with rows ldb apart, where k counts words. The slices span exactly what the kernel
// touches, except that b and the panel behind it hold nr columns. The assembly reads this struct.
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
}
