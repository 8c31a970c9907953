package gemm

import "github.com/weirgpu/weir/internal/cpuinfo"

// level is the instruction set that an operand is packed for and a tile computed with.
type level uint8

const (
	levelGo level = iota
	levelAVX2
	levelAVX512
)

func currentLevel() level {
	switch {
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
func (v level) mr() int { return [...]int{levelGo: 4, levelAVX2: 6, levelAVX512: 14}[v] }

// nr is the number of columns of a tile.
func (v level) nr() int { return [...]int{levelGo: 8, levelAVX2: 16, levelAVX512: 32}[v] }

// Parts of the epilogue of a tile.
const (
	flagAccumulate = 1 << iota // add what c holds
	flagScale                  // multiply by alpha
	flagBiasRow                // add bias[i]
	flagBiasCol                // add bias[j]
	flagResidual               // add beta*res
	flagClamp                  // limit to [lo, hi]
)

// tile is one call of a micro-kernel: rows x cols of C from rows x k of A, packed k-major, and k x nr of B with rows ldb
// apart. The slices span exactly what the kernel touches, except that b and the panel behind it hold nr columns. The
// assembly reads this struct.
type tile struct {
	a, b, c    []float32
	bias, res  []float32
	k          int
	rows, cols int
	ldb, ldc   int
	ldr        int
	alpha      float32
	beta       float32
	lo, hi     float32
	mask       uint32 // one bit per column
	flags      uint32
}
