package vec

import "math"

// MaxRows sets peak[j] to the greatest of peak[j] and the elements x[i*w+j] of all rows i of x,
// where a row has w = len(peak) elements. Where one of these elements is NaN the result may be any
// of them. It panics when len(x) is no multiple of w.
func MaxRows(peak, x []float32) {
	if n := rowsOf(x, peak); n > 0 {
		maxRows(x, n, peak)
	}
}

// ExpRows replaces x[i*w+j] by exp(x[i*w+j] - shift[j]) and adds the results of column j to sum[j],
// w = len(shift) = len(sum): a step of the softmax of columns. The error is that of Softmax. It
// panics when len(x) is no multiple of w.
func ExpRows(x, shift, sum []float32) {
	sum = sum[:len(shift)]
	if n := rowsOf(x, shift); n > 0 {
		expRows(x, n, shift, sum)
	}
}

// MulRows multiplies x[i*w+j] by v[j], w = len(v). It panics when len(x) is no multiple of w.
func MulRows(x, v []float32) {
	if n := rowsOf(x, v); n > 0 {
		mulRows(x, n, v)
	}
}

// rowsOf is the number of rows of x, as wide as v.
func rowsOf(x, v []float32) int {
	if len(v) == 0 || len(x)%len(v) != 0 {
		panic("vec: a matrix that is not whole rows")
	}
	return len(x) / len(v)
}

func maxRowsRef(x []float32, peak []float32) {
	for i, v := range x {
		if j := i % len(peak); v > peak[j] {
			peak[j] = v
		}
	}
}

func expRowsRef(x, shift, sum []float32) {
	for i, v := range x {
		j := i % len(shift)
		x[i] = float32(math.Exp(float64(v - shift[j])))
		sum[j] += x[i]
	}
}

func mulRowsRef(x, v []float32) {
	for i := range x {
		x[i] *= v[i%len(v)]
	}
}
