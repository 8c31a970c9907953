//go:build unix

package main

import (
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// TestProductsOfAllFormsAreAlike holds what the numbers of a product are chosen for: it is exact in
// every form.
func TestProductsOfAllFormsAreAlike(t *testing.T) {
	const m, n, k = 5, 19, 64
	a, b := numbers(m*k, 8, 0), numbers(k*n, 15, 7)
	if slices.Min(a) != 0 || slices.Max(a) != 7 || slices.Min(b) != -7 || slices.Max(b) != 7 {
		t.Errorf("numbers from %g to %g and %g to %g", slices.Min(a), slices.Max(a), slices.Min(b),
			slices.Max(b))
	}
	want := make([]float32, m*n)
	for i := range want {
		for x := range k {
			want[i] += a[i/n*k+x] * b[x*n+i%n]
		}
	}
	for name, form := range forms {
		if got, err := multiply(form, m, n, k, 1); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v, %v", name, got, want, err)
		}
	}
	if _, err := multiply(gemm.U8S8, 1, 1, 6, 1); err == nil {
		t.Error("bytes that fill no word are taken")
	}
	for _, bad := range [][]string{nil, {"fp16", "1", "1", "1", "1", "x"},
		{"fp32", "0", "1", "1", "1", "x"}, {"fp32", "1", "1", "1", "a", "x"}} {
		if err := product(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
