package op

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// signal is n numbers without symmetry.
func signal(n int) []complex128 {
	x := make([]complex128, n)
	for i := range x {
		x[i] = complex(math.Sin(float64(i*i+1)), math.Cos(float64(3*i)))
	}
	return x
}

// TestFourierIsItsDefinition compares with the sum at every length with small factors, and at
// primes.
func TestFourierIsItsDefinition(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 30, 49, 61, 64, 67, 97, 100,
		121, 134, 201, 251} {
		x := signal(n)
		for _, inverse := range []bool{false, true} {
			got, sign := fourier(x, inverse), -1.0
			if inverse {
				sign = 1
			}
			for k := range n {
				var want complex128
				for i, v := range x {
					want += v * cmplx.Rect(1, sign*2*math.Pi*float64(i*k%n)/float64(n))
				}
				if cmplx.Abs(got[k]-want) > 1e-10*float64(n) {
					t.Fatalf("length %d, inverse %t, element %d: %v, want %v", n, inverse, k,
						got[k], want)
				}
			}
		}
	}
}

func TestDFT(t *testing.T) {
	on := func(names ...string) (as Attrs) {
		for _, n := range names {
			as = append(as, IntAttr(n, 1))
		}
		return as
	}
	x := f32([]int{1, 4, 1}, 1, 2, 3, 4)
	spectrum := f32([]int{1, 4, 2}, 10, 0, -2, 2, -2, 0, -2, -2)
	half := f32([]int{1, 3, 2}, 10, 0, -2, 2, -2, 0)
	runCases(t, []evalCase{
		{op: "DFT", in: list(x), want: list(spectrum)},
		{op: "DFT", name: "axis", in: list(f32([]int{4, 1, 1}, 1, 2, 3, 4), nil, i64(0)),
			want: list(f32([]int{4, 1, 2}, 10, 0, -2, 2, -2, 0, -2, -2))},
		{op: "DFT", name: "axis of version 17", version: 17, attrs: Attrs{IntAttr("axis", 1)},
			in: list(x), want: list(spectrum)},
		{op: "DFT", name: "inverse", attrs: on("inverse"), in: list(spectrum),
			want: list(f32([]int{1, 4, 2}, 1, 0, 2, 0, 3, 0, 4, 0))},
		{op: "DFT", name: "onesided", attrs: on("onesided"), in: list(x), want: list(half)},
		{op: "DFT", name: "onesided inverse", attrs: on("onesided", "inverse"), in: list(half),
			want: list(x)},
		{op: "DFT", name: "padded", in: list(f32([]int{1, 2, 1}, 1, 1), i64(4)),
			want: list(f32([]int{1, 4, 2}, 2, 0, 1, -1, 0, 0, 1, 1))},
		{op: "DFT", name: "cut", in: list(x, i64(2)), want: list(f32([]int{1, 2, 2}, 3, 0, -1, 0))},
		{op: "DFT", name: "axis of parts", in: list(x, nil, i64(-1)), err: ErrAttr},
		{op: "DFT", name: "parts", in: list(f32([]int{1, 3}, 1, 2, 3)), err: ErrInput},
		{op: "DFT", name: "length", in: list(x, i64(0)), err: ErrInput},
		{op: "DFT", name: "onesided of complex", attrs: on("onesided"), in: list(spectrum),
			err: ErrInput},
		{op: "DFT", name: "onesided inverse of real", attrs: on("onesided", "inverse"), in: list(x),
			err: ErrInput},
	})
}

func TestSTFT(t *testing.T) {
	x := f32([]int{1, 5, 1}, 1, 2, 3, 4, 5)
	runCases(t, []evalCase{
		{op: "STFT", in: list(x, i64(2), nil, i64(2)),
			want: list(f32([]int{1, 2, 2, 2}, 3, 0, -1, 0, 7, 0, -1, 0))},
		{op: "STFT", name: "window", in: list(x, i64(3), vec(1, 0)),
			want: list(f32([]int{1, 2, 2, 2}, 1, 0, 1, 0, 4, 0, 4, 0))},
		{op: "STFT", name: "both sides", attrs: Attrs{IntAttr("onesided", 0)},
			in:   list(f32([]int{1, 2, 2}, 1, 1, 2, 0), i64(1)),
			want: list(f32([]int{1, 1, 2, 2}, 3, 1, -1, 1))},
		{op: "STFT", name: "frame too long", in: list(x, i64(1), nil, i64(6)), err: ErrInput},
		{op: "STFT", name: "step", in: list(x, i64(0), nil, i64(2)), err: ErrInput},
		{op: "STFT", name: "window of another length", in: list(x, i64(1), vec(1, 1), i64(3)),
			err: ErrInput},
	})
}

func TestWindows(t *testing.T) {
	symmetric := Attrs{IntAttr("periodic", 0)}
	runCases(t, []evalCase{
		{op: "HannWindow", in: list(tensor.Scalar[int64](4)), want: list(vec(0, 0.5, 1, 0.5))},
		{op: "HannWindow", name: "symmetric", attrs: symmetric, in: list(tensor.Scalar[int64](5)),
			want: list(vec(0, 0.5, 1, 0.5, 0))},
		{op: "HannWindow", name: "one", attrs: symmetric, in: list(tensor.Scalar[int64](1)),
			want: list(vec(1))},
		{op: "HammingWindow", in: list(tensor.Scalar[int32](4)),
			want: list(vec(4.0/46, 25.0/46, 1, 25.0/46))},
		{op: "BlackmanWindow", in: list(tensor.Scalar[int64](2)), want: list(vec(0, 1))},
		{op: "BlackmanWindow", name: "integers",
			attrs: Attrs{IntAttr("output_datatype", int64(tensor.Int8))}, in: list(i64(2)),
			want: list(tensor.From([]int8{0, 1}, 2))},
		{op: "BlackmanWindow", name: "type",
			attrs: Attrs{IntAttr("output_datatype", int64(tensor.String))}, in: list(i64(2)),
			err: ErrAttr},
		{op: "HannWindow", name: "size", in: list(i64(-1)), err: ErrInput},
		{op: "MelWeightMatrix", in: list(i64(2), i64(8), i64(8000), vec(0), vec(4000)),
			want: list(f32([]int{5, 2}, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0))},
		{op: "MelWeightMatrix", name: "beyond the spectrum",
			in: list(i64(2), i64(8), i64(8000), vec(0), vec(40000)), err: ErrInput},
	})
}
