// Package refmath is the arithmetic on slices that the definitions of operators share: plain loops
// that say what is computed, in float64 or whole numbers and one after the other.
//
// Meet first: [Dot], [AddProduct] and [Softmax]; [DotBF16] is the arithmetic of an instruction.
//
// Concurrency: the functions keep nothing and write to their first slice only.
//
// What it refuses: nothing; slices that are shorter than what is said of them make it panic.
package refmath

import "math"

// Number are the types of the elements of operands.
type Number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// Wide are the types that sums are kept in.
type Wide interface{ int64 | uint64 | float64 }

// Dot returns the sum of the products of a and the first elements of b.
func Dot(a, b []float64) float64 {
	s := 0.0
	for i, x := range a {
		s += x * b[i]
	}
	return s
}

// AddProduct adds to acc, of length at least n, the product of a row vector of k elements that lie
// step apart and a contiguous k×n matrix. Four rows at a time keep the sums in registers for
// longer.
func AddProduct[T Number, W Wide](acc []W, a []T, step int, b []T, k, n int) {
	acc = acc[:n]
	i := 0
	for ; i+4 <= k; i += 4 {
		a0, a1, a2, a3 := W(a[i*step]), W(a[(i+1)*step]), W(a[(i+2)*step]), W(a[(i+3)*step])
		b0, b1, b2, b3 := b[i*n:][:n], b[(i+1)*n:][:n], b[(i+2)*n:][:n], b[(i+3)*n:][:n]
		for j := range acc {
			acc[j] += a0*W(b0[j]) + a1*W(b1[j]) + a2*W(b2[j]) + a3*W(b3[j])
		}
	}
	for ; i < k; i++ {
		ai, bi := W(a[i*step]), b[i*n:][:n]
		for j := range acc {
			acc[j] += ai * W(bi[j])
		}
	}
}

// Softmax sets out, which may be in, to e^in over its sum (Bridle 1990), shifted against overflow.
func Softmax(out, in []float64) {
	sum := shiftedExp(out, in)
	for i := range out {
		out[i] /= sum
	}
}

// LogSoftmax sets out, which may not be in, to the logarithm of what Softmax sets.
func LogSoftmax(out, in []float64) {
	top := Max(in)
	sum := shiftedExp(out, in)
	for i, x := range in {
		out[i] = x - top - math.Log(sum)
	}
}

// shiftedExp sets out to exp(in - max(in)), which cannot overflow, and returns the sum.
func shiftedExp(out, in []float64) float64 {
	top, sum := Max(in), 0.0
	for i, x := range in {
		out[i] = math.Exp(x - top)
		sum += out[i]
	}
	return sum
}

// Max is the greatest of the numbers, -Inf of none and NaN where one is.
func Max(v []float64) float64 {
	top := math.Inf(-1)
	for _, x := range v {
		top = max(top, x)
	}
	return top
}

// BroadcastOffset is the offset, in a row-major tensor of that shape, of the element that stands
// at the index once the tensor is broadcast to a shape of as many axes as the index has.
func BroadcastOffset(shape []int, index ...int) int {
	at, lead := 0, len(index)-len(shape)
	for k, n := range shape {
		x := index[lead+k]
		if n == 1 {
			x = 0
		}
		at = at*n + x
	}
	return at
}

// Pivot returns the row of an n×n matrix, from row k on, whose element in column k has the largest
// magnitude: the first of several. A NaN in row k stays the pivot, one below it never becomes it.
func Pivot(a []float64, n, k int) int {
	pivot := k
	for i := k + 1; i < n; i++ {
		if math.Abs(a[i*n+k]) > math.Abs(a[pivot*n+k]) {
			pivot = i
		}
	}
	return pivot
}

// ExchangeRows exchanges rows i and j, which may be the same, of a matrix of n columns.
func ExchangeRows(a []float64, n, i, j int) {
	for k := range n {
		a[i*n+k], a[j*n+k] = a[j*n+k], a[i*n+k]
	}
}
