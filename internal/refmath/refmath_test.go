package refmath

import (
	"math"
	"slices"
	"testing"
)

// TestProducts holds that blocks of four rows and the rows after them add up alike.
func TestProducts(t *testing.T) {
	for k := range 10 {
		a, b := make([]int8, 2*k), make([]int8, 3*k)
		want := []int64{7, 8, 9}
		for i := range k {
			a[2*i], a[2*i+1] = int8(3*i-5), 100
			for j := range 3 {
				b[3*i+j] = int8(i*i - 4*j)
				want[j] += int64(a[2*i]) * int64(b[3*i+j])
			}
		}
		acc := []int64{7, 8, 9}
		AddProduct(acc, a, 2, b, k, 3)
		if !slices.Equal(acc, want) {
			t.Errorf("%d rows: %v, want %v", k, acc, want)
		}
	}
	if got := Dot([]float64{1, 2}, []float64{3, 4, 5}); got != 11 {
		t.Errorf("Dot is %v, want 11", got)
	}
}

// TestSoftmax holds weights of numbers beyond the range of exp, in place, and their logarithms.
func TestSoftmax(t *testing.T) {
	v := []float64{1000, 1000 + math.Log(3)}
	logs := make([]float64, 2)
	LogSoftmax(logs, v)
	Softmax(v, v)
	for i, want := range []float64{0.25, 0.75} {
		if math.Abs(v[i]-want) > 1e-12 || math.Abs(logs[i]-math.Log(want)) > 1e-12 {
			t.Errorf("weight %d is %v with logarithm %v, want %v", i, v[i], logs[i], want)
		}
	}
	if got := Max([]float64{1, math.NaN(), 2}); got == got {
		t.Errorf("the greatest beside a NaN is %v, want NaN", got)
	}
}

// TestBroadcastOffset holds axes of one element, and axes that the tensor lacks.
func TestBroadcastOffset(t *testing.T) {
	if got := BroadcastOffset([]int{2, 1, 4}, 9, 1, 5, 3); got != 7 {
		t.Errorf("offset %d, want 7", got)
	}
	if got := BroadcastOffset(nil, 3); got != 0 {
		t.Errorf("offset %d of a scalar, want 0", got)
	}
}
