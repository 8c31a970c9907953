package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// TestSumsOfComputedWeightsAreNear holds that products by weights that change from run to run, as
// training has them, are about as near to the exact ones as sums in parts of 256.
func TestSumsOfComputedWeightsAreNear(t *testing.T) {
	const m, k, n = 61, 961, 50
	r := rand.New(rand.NewPCG(63, 7))
	draw := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = r.Float32()*2 - 1
		}
		return x
	}
	a, b := draw(m*k), draw(k*n)
	turned := make([]float32, m*k)
	for i, x := range a {
		turned[i%k*m+i/k] = x
	}
	bound := 1.3 * distanceOf(partsOf256(a, b, m, k, n), a, b, k)
	pool := testPools(t)[1]
	for _, c := range []struct {
		name string
		in   []*tensor.Tensor
		out  []int
		op.Attrs
	}{
		{"MatMul", []*tensor.Tensor{tensor.From(a, m, k), tensor.From(b, k, n)}, []int{m, n}, nil},
		{"Gemm", []*tensor.Tensor{tensor.From(turned, k, m), tensor.From(b, k, n)}, []int{m, n},
			op.Attrs{op.IntAttr("transA", 1)}},
		{"Conv", []*tensor.Tensor{tensor.From(b, 1, k, 5, n/5), tensor.From(a, m, k, 1, 1)},
			[]int{1, m, 5, n / 5}, nil},
		{"ConvTranspose", []*tensor.Tensor{tensor.From(b, 1, k, 5, n/5),
			tensor.From(turned, k, m, 1, 1)}, []int{1, m, 5, n / 5}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cputest.EachPath(t, func(t *testing.T) {
				s := &sample{in: c.in, constant: make([]bool, 2), call: &op.Call{Type: c.name,
					Version: 13, Attrs: c.Attrs, NumIn: 2, NumOut: 1}}
				_, request, ok := s.request()
				if !ok {
					t.Fatal("not a call")
				}
				kernel, err := prepare(request)
				if err != nil || kernel == nil {
					t.Fatal(kernel, err)
				}
				got := tensor.As[float32](runOnce(t, s, kernel, c.out, pool, device.Open))
				if d := distanceOf(got, a, b, k); !(d <= bound) {
					t.Errorf("%.3g from exact sums, bound %.3g", d, bound)
				}
			})
		})
	}
}

// partsOf256 multiplies a, m x k, by b, k x n, and adds up 256 products at a time.
func partsOf256(a, b []float32, m, k, n int) []float32 {
	c := make([]float32, m*n)
	for i := range c {
		part := float32(0)
		for at := range k {
			part = float32(float64(part) + float64(a[i/n*k+at])*float64(b[at*n+i%n]))
			if at%256 == 255 || at == k-1 {
				c[i], part = c[i]+part, 0
			}
		}
	}
	return c
}

// distanceOf is how far c is from the exact product, in parts of its norm.
func distanceOf(c, a, b []float32, k int) float64 {
	n := len(b) / k
	var off, all float64
	for i, x := range c {
		exact := 0.0
		for at := range k {
			exact += float64(a[i/n*k+at]) * float64(b[at*n+i%n])
		}
		off, all = off+math.Pow(float64(x)-exact, 2), all+exact*exact
	}
	return math.Sqrt(off / all)
}
