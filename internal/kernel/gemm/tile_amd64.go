//go:build amd64 && !noasm

package gemm

import "github.com/weirgpu/weir/internal/cpuinfo"

//go:generate go -C _generate run . ..

// maxCall bounds the steps of K of one call of a packing kernel, so that a call lasts well under
// 100 microseconds: the runtime cannot stop a goroutine inside assembly.
const maxCall = 8192

// runTile computes t with the kernel of level v.
func runTile(v level, t *tile) {
	switch v {
	case levelGoBF16, levelAVX2BF16, levelWideBF16:
		tileGoBF16(t)
	case levelGoU8S8:
		tileGoU8S8(t)
	case levelGoS8U8:
		tileGoS8U8(t)
	case levelAVX2:
		tileAVX2(t)
	case levelAVX512:
		tileAVX512(t)
	case levelAVX512BF16:
		tileAVX512BF16(t)
	case levelAVX2U8S8:
		tileAVX2U8S8(t)
	case levelWideU8S8:
		tileWideU8S8(t)
	case levelAVX512U8S8:
		tileAVX512U8S8(t)
	case levelAVX2S8U8:
		tileAVX2S8U8(t)
	case levelWideS8U8:
		tileWideS8U8(t)
	case levelAVX512S8U8:
		tileAVX512S8U8(t)
	default:
		tileGo(t)
	}
}

// RunPeak runs n rounds, at least 1, of independent fused multiply-adds of single precision between
// registers, which nothing can be faster than, and returns their operations, two a lane. It is 0
// where the processor lacks the level or the level has no vectors of its own.
func RunPeak(level cpuinfo.Level, n int) (flop int64) {
	switch {
	case level > cpuinfo.Current():
		return 0
	case level == cpuinfo.AVX512:
		peakAVX512(n)
		return int64(n) * peakAVX512FLOP
	case level == cpuinfo.AVX2:
		peakAVX2(n)
		return int64(n) * peakAVX2FLOP
	}
	return 0
}

// A tile of few steps of K ends before the results of the tile before it are limited and stored.
// The instructions that do so for the 28 result registers of a tile do not fit into a processor's
// window; those for 14 registers do. So such tiles are computed in two strips, each with one
// register of columns. Strips gain nothing where results are only stored, since those instructions
// fit as they are, nor where there are few rows; and with many steps, A would be waited for twice.
// They lose where AVX-512 has its full rate: a step of a strip multiplies 14 times and loads 15
// times, which then takes longer, and the window of AMD's Zen 5 takes the whole tile.
const (
	stripRows  = 8
	stripSteps = 96
)

// shortWindow says that strips pay. Only tests change it.
var shortWindow = cpuinfo.HalfRateAVX512()

// inStrips says that the two registers of columns of a tile are computed one after the other, with
// the same sums.
func (t *tile) inStrips() bool {
	return t.rows >= stripRows && t.k <= stripSteps &&
		t.flags&(flagLo|flagHi|flagResidual) != 0 && shortWindow
}

// joinPairs does what joinGo does, of at most 32 columns.
func joinPairs(v level, dst, src []float32, ld, cols, k int) {
	_, _ = dst[(k+1)/2*cols-1], src[(k-1)*ld+cols-1]
	if !v.joinsByHardware() {
		joinGo(dst, src, ld, cols, k)
		return
	}
	for i := 0; i < k; i += maxCall {
		joinAVX512BF16(&dst[i/2*cols], &src[i*ld], ld, cols, min(maxCall, k-i))
	}
}

// joinsByHardware says that floats are rounded to pairs by instructions for it.
func (v level) joinsByHardware() bool {
	return v == levelAVX512BF16 || v == levelTilesBF16 && cpuinfo.HasAVX512BF16()
}

// joinAlong does what joinGo does for a matrix of one column whose rows lie side by side: it joins
// neighbours in a row of src.
func joinAlong(v level, dst, src []float32, k int) {
	_, _ = dst[(k+1)/2-1], src[k-1]
	if !v.joinsByHardware() {
		joinGo(dst, src, 1, 1, k)
		return
	}
	for i := 0; i < k; i += maxCall {
		joinAlongAVX512BF16(&dst[i/2], &src[i], min(maxCall, k-i))
	}
}

// joinRows does what joinRowsGo does, of up to 32 rows.
func joinRows(v level, dst, src []float32, ld, rows, k int) {
	if k == 0 || !v.joinsByHardware() {
		joinRowsGo(dst, src, ld, rows, k)
		return
	}
	_, _ = dst[v.steps(k)*rows-1], src[(rows-1)*ld+k-1]
	const most = maxCall / tilesMR
	for k0 := 0; k0 < k; k0 += most {
		joinRowsAVX512BF16(&dst[k0/2*rows], &src[k0], ld, rows, min(most, k-k0))
	}
}

// finish does what tile.finishGo does, of whole rows in block.
func finish(v level, t *tile, block []float32) {
	if v.floats() != levelAVX512 {
		t.finishGo(block)
		return
	}
	_ = block[t.rows*tilesNR-1]
	finishAVX512(t, &block[0], t.rows)
}

// quadsAlong does what quadsAlongGo does.
func quadsAlong(v level, dst []float32, stride int, src []float32) {
	quadsAlongGo(v, dst, stride, src)
}

// widenAll does what widenGo does.
func widenAll(dst, src []float32, signed bool) {
	_ = dst[:2*len(src)]
	done := len(src) &^ 7
	for i := 0; i < done; i += maxCall {
		if n := min(maxCall, done-i) / 8; signed {
			widenSignedAVX2(&dst[2*i], &src[i], n)
		} else {
			widenUnsignedAVX2(&dst[2*i], &src[i], n)
		}
	}
	widenGo(dst[2*done:], src[done:], signed)
}

// transposeBlock does what transposeGo does.
func transposeBlock(v level, dst []float32, stride int, src []float32, ld, rows, k int) {
	_, _ = dst[(k-1)*stride+rows-1], src[(rows-1)*ld+k-1]
	switch {
	case rows == 1 && stride == 1:
		copy(dst[:k], src)
	case v == levelAVX512 && rows > 3:
		for r := 0; r < rows; r += 16 {
			for c := 0; c < k; c += maxCall {
				transposeAVX512(&dst[c*stride+r], stride, &src[r*ld+c], ld, min(16, rows-r),
					min(maxCall, k-c))
			}
		}
	case v == levelAVX2 && rows > 3:
		for r := 0; r < rows; r += 8 {
			for c := 0; c < k; c += maxCall {
				transposeEight(dst[c*stride+r:], stride, src[r*ld+c:], ld, min(8, rows-r),
					min(maxCall, k-c))
			}
		}
	default:
		transposeGo(dst, stride, src, ld, rows, k)
	}
}

// transposeEight transposes up to 8 rows, with the assembly as far as its eight-float stores stay
// inside what is written later.
func transposeEight(dst []float32, stride int, src []float32, ld, rows, k int) {
	blocks := 0
	switch {
	case rows == 8:
		blocks = k / 8
	case rows == stride && rows >= 4:
		blocks = (k - 1) / 8
	}
	if blocks > 0 {
		transposeAVX2(&dst[0], stride, &src[0], ld, rows, blocks)
	}
	if done := 8 * blocks; done < k {
		transposeGo(dst[done*stride:], stride, src[done:], ld, rows, k-done)
	}
}

// copyBlock does what copyGo does.
func copyBlock(v level, dst []float32, stride int, src []float32, ld, cols, k int) {
	if v == levelGo || cols != v.nr() || stride != cols {
		copyGo(dst, stride, src, ld, cols, k)
		return
	}
	for r := 0; r < k; r += maxCall {
		copyPanels(v, dst[r*cols:], src[r*ld:], ld, min(maxCall, k-r), 1)
	}
}

// padBlock does what padGo does, of a width of one register or two.
func padBlock(v level, dst []float32, width int, src []float32, ld, cols, k int) {
	_, _ = dst[k*width-1], src[(k-1)*ld+cols-1]
	for r := 0; r < k; r += maxCall {
		n := min(maxCall, k-r)
		switch v {
		case levelAVX512:
			copyPartAVX512(&dst[r*width], width, &src[r*ld], ld, cols, n)
		case levelAVX2:
			copyPartAVX2(&dst[r*width], width, &src[r*ld], ld, cols, n)
		default:
			padGo(dst[r*width:], width, src[r*ld:], ld, cols, n)
		}
	}
}

// copyPanels packs k rows of n whole panels of a row-major B, rows ld apart, one panel after
// another. A block of a product is small enough for one call.
func copyPanels(v level, dst, src []float32, ld, k, n int) {
	nr := v.nr()
	_, _ = dst[n*k*nr-1], src[(k-1)*ld+n*nr-1]
	switch v {
	case levelAVX512:
		copyRowsAVX512(&dst[0], k*nr, &src[0], ld, k, n)
	case levelAVX2:
		copyRowsAVX2(&dst[0], k*nr, &src[0], ld, k, n)
	default:
		for p := range n {
			copyGo(dst[p*k*nr:], nr, src[p*nr:], ld, nr, k)
		}
	}
}
