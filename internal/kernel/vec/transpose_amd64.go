//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

// bandCols bounds the columns that are written before the next band of rows begins. Each column
// lies in another page of the destination, so that the bound is how many entries of the
// second-level TLB one pass uses.
const bandCols = 512

func transpose(dst, src []uint32, rows, cols, ldDst, ldSrc int) {
	switch cpuinfo.Current() {
	case cpuinfo.AVX512:
		for c := 0; c < cols; c += bandCols {
			n := min(bandCols, cols-c)
			for r := 0; r < rows; r += 16 {
				transposeAVX512(&dst[c*ldDst+r], &src[r*ldSrc+c], min(16, rows-r), n, ldDst, ldSrc)
			}
		}
	case cpuinfo.AVX2:
		transposeTiled(dst, src, rows, cols, ldDst, ldSrc)
	default:
		transposeRef(dst, src, rows, cols, ldDst, ldSrc)
	}
}

// transposeTiled moves whole squares of 8x8 in assembly and what remains at the right and at the
// bottom in Go.
func transposeTiled(dst, src []uint32, rows, cols, ldDst, ldSrc int) {
	wholeRows, wholeCols := rows&^7, cols&^7
	for c := 0; c < wholeCols; c += bandCols {
		n := min(bandCols, wholeCols-c)
		for r := 0; r < wholeRows; r += 8 {
			transposeAVX2(&dst[c*ldDst+r], &src[r*ldSrc+c], n, ldDst, ldSrc)
		}
	}
	if wholeCols < cols {
		transposeRef(dst[wholeCols*ldDst:], src[wholeCols:], rows, cols-wholeCols, ldDst, ldSrc)
	}
	if wholeRows < rows && wholeCols > 0 {
		transposeRef(dst[wholeRows:], src[wholeRows*ldSrc:], rows-wholeRows, wholeCols, ldDst,
			ldSrc)
	}
}

// transposeAVX512 computes what transposeRef does for 1 to 16 rows and any number of columns above
// 0.
//
//go:noescape
func transposeAVX512(dst, src *uint32, rows, cols, ldDst, ldSrc int)

// transposeAVX2 computes what transposeRef does for 8 rows and a multiple of 8 columns.
//
//go:noescape
func transposeAVX2(dst, src *uint32, cols, ldDst, ldSrc int)
