package op

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// sumBound is the error that sums of float32 promise, relative to the sum of magnitudes.
const sumBound = 0x1p-23

// longCount is how many numbers tests of long sums add up: enough for a running sum in float32 to
// be per cents off, and with WEIR_LONG set those that the promise is made for.
func longCount() int {
	if os.Getenv("WEIR_LONG") != "" {
		return 1e8
	}
	return 2e6
}

// fullOf is a tensor of one number.
func fullOf(t *testing.T, d tensor.DType, v float64, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(d, shape...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Len() {
		narrowFloats(x, i, []float64{v})
	}
	return x
}

// TestLongScatter adds one tenth to one element, or to the elements of one slice, many times, and
// to another once.
func TestLongScatter(t *testing.T) {
	n := longCount()
	add := Attrs{StringAttr("reduction", "add")}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16,
		tensor.Float64} {
		n, bound := n, sumBound
		if size := d.Size(); size < 4 {
			n, bound = 3000, 0x1p-8
		}
		for _, c := range []struct {
			op             string
			data, at, with []int
		}{
			{"ScatterElements", []int{130}, []int{n}, []int{n}},
			{"ScatterElements", []int{130, 1}, []int{n, 1}, []int{n, 1}},
			{"ScatterND", []int{130}, []int{n, 1}, []int{n}},
			{"ScatterND", []int{130, 3}, []int{n / 3, 1}, []int{n / 3, 3}},
		} {
			t.Run(fmt.Sprintf("%s/%v/%v", c.op, d, c.data), func(t *testing.T) {
				at := make([]int64, count(c.at))
				for i := range at {
					at[i] = 100
				}
				at[len(at)/2] = 7
				y := eval1(t, c.op, add, fullOf(t, d, 2, c.data...), tensor.From(at, c.at...),
					fullOf(t, d, 0.1, c.with...))
				checkScattered(t, y, len(at), bound)
			})
		}
	}
}

// checkScattered wants twos, to one of which 0.1 was added, and to another n-1 times.
func checkScattered(t *testing.T, y *tensor.Tensor, n int, bound float64) {
	t.Helper()
	got, _ := y.Floats()
	tenth, _ := fullOf(t, y.DType, 0.1).Floats()
	for i, v := range got {
		want := 2.0
		switch i / count(y.Shape[1:]) {
		case 7:
			want += tenth[0]
		case 100:
			want += float64(n-1) * tenth[0]
		}
		if !(math.Abs(v-want) <= bound*want) {
			t.Fatalf("element %d is %v, want %v", i, v, want)
		}
	}
}

// TestScatterOfRecurringPlaces merges updates into places of which some recur, around the words
// that mark them, and holds that each is merged once and in its place.
func TestScatterOfRecurringPlaces(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 7))
	for range 200 {
		n, updates, block := 1+rng.IntN(200), rng.IntN(150), 1+rng.IntN(3)
		data, with := make([]float32, n*block), make([]float32, updates*block)
		for i := range data {
			data[i] = float32(rng.IntN(9) + 1)
		}
		for i := range with {
			with[i] = float32(rng.IntN(2) + 1)
		}
		at := make([]int64, updates)
		for _, how := range []string{"add", "mul", "max", "min"} {
			want := append([]float32(nil), data...)
			for i := range at {
				at[i] = rng.Int64N(int64(n))
				for j := range block {
					w := &want[int(at[i])*block+j]
					*w = merge[float32](how)(*w, with[i*block+j])
				}
			}
			same(t, how, tensor.From(want, n, block), eval1(t, "ScatterND",
				Attrs{StringAttr("reduction", how)}, tensor.From(data, n, block),
				tensor.From(at, updates, 1), tensor.From(with, updates, block)))
		}
	}
}

// TestLongRunningSums holds the last of many running sums, from either end.
func TestLongRunningSums(t *testing.T) {
	n := longCount()
	x := fullOf(t, tensor.Float32, 0.1, n, 1)
	for reverse := range int64(2) {
		y := eval1(t, "CumSum", Attrs{IntAttr("reverse", reverse)}, x, i64(0))
		got, want := tensor.As[float32](y), float64(float32(0.1))
		for _, k := range []int{1, n / 3, n} {
			at := k - 1
			if reverse == 1 {
				at = n - k
			}
			if w := float64(k) * want; !(math.Abs(float64(got[at])-w) <= sumBound*w) {
				t.Errorf("reverse %d: the sum of %d is %v, want %v", reverse, k, got[at], w)
			}
		}
	}
}

// TestLongCol2Im lays many blocks over one pixel.
func TestLongCol2Im(t *testing.T) {
	const n = 1500
	y := eval1(t, "Col2Im", Attrs{IntsAttr("pads", n-1, n-1)},
		fullOf(t, tensor.Float32, 0.1, 1, n, n), i64(1), i64(n))
	want := n * float64(float32(0.1))
	if got := float64(tensor.As[float32](y)[0]); !(math.Abs(got-want) <= sumBound*want) {
		t.Errorf("%d blocks of 0.1 over one pixel give %v, want %v", n, got, want)
	}
}
