//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

// maxRowsCall bounds the rows of one call of assembly to some microseconds.
const maxRowsCall = 512

// neonRow is how wide the rows are that assembly takes.
const neonRow = 16

func maxRows(x []float32, rows int, peak []float32) {
	w := len(peak)
	if w != neonRow || !cpuinfo.HasNEON() {
		maxRowsRef(x, peak)
		return
	}
	for i := 0; i < rows; i += maxRowsCall {
		maxRowsNEON(&x[i*w], min(maxRowsCall, rows-i), &peak[0])
	}
}

func expRows(x []float32, rows int, shift, sum []float32) {
	w := len(shift)
	if w != neonRow || !cpuinfo.HasNEON() {
		expRowsRef(x, shift, sum)
		return
	}
	for i := 0; i < rows; i += maxRowsCall {
		expRowsNEON(&x[i*w], min(maxRowsCall, rows-i), &shift[0], &sum[0])
	}
}

func mulRows(x []float32, rows int, v []float32) {
	w := len(v)
	if w != neonRow || !cpuinfo.HasNEON() {
		mulRowsRef(x, v)
		return
	}
	for i := 0; i < rows; i += maxRowsCall {
		mulRowsNEON(&x[i*w], min(maxRowsCall, rows-i), &v[0])
	}
}

// maxRowsNEON does what maxRowsRef does for rows of 16 elements, at least one.
//
//go:noescape
func maxRowsNEON(x *float32, rows int, v *float32)

// expRowsNEON does what expRowsRef does for rows of 16 elements, at least one.
//
//go:noescape
func expRowsNEON(x *float32, rows int, v, sum *float32)

// mulRowsNEON does what mulRowsRef does for rows of 16 elements, at least one.
//
//go:noescape
func mulRowsNEON(x *float32, rows int, v *float32)
