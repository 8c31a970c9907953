package vec

import (
	order "encoding/binary"
	"fmt"
)

// Word is any 4-byte element. Transpose, Gather and Scatter move such elements without looking at
// them.
type Word interface {
	~float32 | ~int32 | ~uint32
}

// Transpose writes the transpose of a matrix: dst[c*ldDst+r] = src[r*ldSrc+c] for r < rows, c <
// cols. The leading dimensions count elements: ldSrc >= cols, ldDst >= rows. Elements of dst
// between rows and ldDst are left alone. It panics if a dimension is negative, a leading dimension
// too small, or a slice too short.
func Transpose[T Word](dst, src []T, rows, cols, ldDst, ldSrc int) {
	if rows < 0 || cols < 0 || ldSrc < cols || ldDst < rows {
		panic(fmt.Sprintf("vec.Transpose: %d x %d with leading dimensions %d (source) and %d "+
			"(destination)",
			rows, cols, ldSrc, ldDst))
	}
	if rows == 0 || cols == 0 {
		return
	}
	src = src[:(rows-1)*ldSrc+cols]
	dst = dst[:(cols-1)*ldDst+rows]
	transpose(words(dst), words(src), rows, cols, ldDst, ldSrc)
}

// TransposeBytes is [Transpose] of bytes.
func TransposeBytes(dst, src []byte, rows, cols, ldDst, ldSrc int) {
	if rows < 0 || cols < 0 || ldSrc < cols || ldDst < rows {
		panic(fmt.Sprintf("vec.TransposeBytes: %d x %d with leading dimensions %d (source) and %d "+
			"(destination)",
			rows, cols, ldSrc, ldDst))
	}
	if rows == 0 || cols == 0 {
		return
	}
	src, dst = src[:(rows-1)*ldSrc+cols], dst[:(cols-1)*ldDst+rows]
	whole := 0 // rows in blocks whose results are whole words, which leave whole lines of a cache
	if ldDst%4 == 0 {
		whole = rows / blockRows * blockRows
	}
	var joined [blockRows / 4 * 128]uint32
	for r := 0; r < whole; r += blockRows {
		for c := 0; c < cols; c += 128 {
			n := min(128, cols-c)
			for q := range blockRows / 4 {
				Interleave(joined[q*n:][:n], src[(r+4*q)*ldSrc+c:], ldSrc, false)
			}
			Transpose(words(AsFloats(dst[c*ldDst+r:])), joined[:blockRows/4*n], blockRows/4, n,
				ldDst/4, n)
		}
	}
	for c := 0; c < cols; c += len(joined) {
		w := joined[:min(len(joined), cols-c)]
		r := whole
		for ; r+4 <= rows; r += 4 {
			Interleave(w, src[r*ldSrc+c:], ldSrc, false)
			for i, four := range w {
				order.LittleEndian.PutUint32(dst[(c+i)*ldDst+r:], four)
			}
		}
		for ; r < rows; r++ {
			for i, b := range src[r*ldSrc+c:][:len(w)] {
				dst[(c+i)*ldDst+r] = b
			}
		}
	}
}

// blockRows is the number of rows whose bytes fill a line of a cache.
const blockRows = 64
