package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// sumTolerance bounds the error of a sum by its terms: 64 additions follow each other in a lane at
// most, and most errors cancel.
const sumTolerance = 1e-6

func closeTo(got float32, want, terms, relative float64) bool {
	return math.Abs(float64(got)-want) <= relative*terms+0x1p-126
}

func TestSums(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, n := range append(tailLengths(), 100_000) {
			a, b := make([]float32, n+1)[1:], make([]float32, n)
			fillOrdinary(a, r)
			fillOrdinary(b, r)
			const mean = 0.25
			var sum, dot, squares, diff, sumTerms, dotTerms float64
			for i := range a {
				x, y := float64(a[i]), float64(b[i])
				sum, sumTerms = sum+x, sumTerms+math.Abs(x)
				dot, dotTerms = dot+x*y, dotTerms+math.Abs(x*y)
				squares += x * x
				diff += (x - mean) * (x - mean)
			}
			if got := Sum(a); !closeTo(got, sum, sumTerms, sumTolerance) {
				t.Fatalf("Sum, n=%d: %v, want %v", n, got, sum)
			}
			if got := Dot(a, b); !closeTo(got, dot, dotTerms, sumTolerance) {
				t.Fatalf("Dot, n=%d: %v, want %v", n, got, dot)
			}
			if got := SumSquares(a); !closeTo(got, squares, squares, sumTolerance) {
				t.Fatalf("SumSquares, n=%d: %v, want %v", n, got, squares)
			}
			if got := SumAbs(a); !closeTo(got, sumTerms, sumTerms, sumTolerance) {
				t.Fatalf("SumAbs, n=%d: %v, want %v", n, got, sumTerms)
			}
			if got := SumSquaredDiff(a, mean); !closeTo(got, diff, diff, sumTolerance) {
				t.Fatalf("SumSquaredDiff, n=%d: %v, want %v", n, got, diff)
			}
		}
	})
}

// A float32 running sum would stop growing at 2²⁴.
func TestSumOfManyOnesIsExact(t *testing.T) {
	ones := make([]float32, 1<<24+8191)
	Fill(ones, 1)
	atEachLevel(t, func(t *testing.T) {
		if got, want := Total(ones), float64(len(ones)); got != want {
			t.Errorf("sum of %v ones: %v", want, got)
		}
	})
}

func TestSumsPassOnNaNAndInfinity(t *testing.T) {
	inf := float32(math.Inf(1))
	atEachLevel(t, func(t *testing.T) {
		for n := 1; n < 80; n++ {
			for at := range n {
				x := make([]float32, n)
				x[at] = inf
				if got := Sum(x); got != inf {
					t.Fatalf("Sum with +Inf at %d of %d: %v", at, n, got)
				}
				if got := SumAbs(x); got != inf {
					t.Fatalf("SumAbs with +Inf at %d of %d: %v", at, n, got)
				}
				x[at] = float32(math.NaN())
				if !isNaN(Sum(x)) || !isNaN(SumAbs(x)) || !isNaN(SumSquares(x)) ||
					!isNaN(SumSquaredDiff(x, 1)) {
					t.Fatalf("a sum with NaN at %d of %d is %v, %v, %v", at, n, Sum(x),
						SumSquares(x), SumSquaredDiff(x, 1))
				}
			}
		}
	})
}

func TestExtremes(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, n := range tailLengths() {
			x := make([]float32, n+3)[3:]
			for _, f := range []func([]float32, *rand.Rand){fillOrdinary, fill} {
				f(x, r)
				if got, want := MaxReduce(x), maxReduceRef(x); !exact.holds(0, got, want) {
					t.Fatalf("MaxReduce, n=%d: %v, want %v", n, got, want)
				}
				if got, want := MinReduce(x), minReduceRef(x); !exact.holds(0, got, want) {
					t.Fatalf("MinReduce, n=%d: %v, want %v", n, got, want)
				}
			}
		}
	})
}

// TestExtremesOfChunks has the extreme, or a NaN, beside each end of the blocks that assembly gets.
func TestExtremesOfChunks(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		x := make([]float32, 2*chunk+5)
		for _, at := range []int{0, chunk - 1, chunk, 2*chunk - 1, 2 * chunk, len(x) - 1} {
			for _, v := range []float32{3, -3, float32(math.NaN())} {
				x[at] = v
				if got, want := MaxReduce(x), max(v, 0); !exact.holds(0, got, want) {
					t.Errorf("MaxReduce with %v at %d of %d: %v, want %v", v, at, len(x), got, want)
				}
				if got, want := MinReduce(x), min(v, 0); !exact.holds(0, got, want) {
					t.Errorf("MinReduce with %v at %d of %d: %v, want %v", v, at, len(x), got, want)
				}
			}
			x[at] = 0
		}
	})
}

// One NaN anywhere must survive whatever comes after it.
func TestExtremesKeepNaN(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for n := 1; n < 100; n++ {
			for at := range n {
				x := make([]float32, n)
				fillOrdinary(x, rand.New(rand.NewPCG(7, uint64(n))))
				x[at] = float32(math.NaN())
				if got := MaxReduce(x); !isNaN(got) {
					t.Fatalf("MaxReduce with NaN at %d of %d: %v", at, n, got)
				}
				if got := MinReduce(x); !isNaN(got) {
					t.Fatalf("MinReduce with NaN at %d of %d: %v", at, n, got)
				}
				if got := ArgMax(x); got != at {
					t.Fatalf("ArgMax with NaN at %d of %d: %d", at, n, got)
				}
			}
		}
	})
}

func TestExtremesOfNothing(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		if got := MaxReduce(nil); !math.IsInf(float64(got), -1) {
			t.Errorf("MaxReduce(nil) = %v", got)
		}
		if got := MinReduce(nil); !math.IsInf(float64(got), 1) {
			t.Errorf("MinReduce(nil) = %v", got)
		}
		if got := ArgMax(nil); got != -1 {
			t.Errorf("ArgMax(nil) = %v", got)
		}
	})
}

func TestArgMaxFindsTheFirst(t *testing.T) {
	negative := float32(math.Inf(-1))
	atEachLevel(t, func(t *testing.T) {
		for _, n := range tailLengths()[1:] {
			x := make([]float32, n)
			Fill(x, negative)
			if got := ArgMax(x); got != 0 {
				t.Fatalf("ArgMax of -Inf only, n=%d: %d", n, got)
			}
			for _, at := range []int{0, n / 3, n - 1} {
				x[at], x[n-1] = 3, 3
				if got := ArgMax(x); got != at {
					t.Fatalf("ArgMax, n=%d: %d, want %d", n, got, at)
				}
				x[at], x[n-1] = negative, negative
			}
		}
	})
}

// TestSquaredDifferencesOfWholeBlocks: where no element is left over, each lane has its own.
func TestSquaredDifferencesOfWholeBlocks(t *testing.T) {
	var lanes [sumLanes]float32
	x := make([]float32, sumLanes)
	for i := range x {
		x[i] = 1 / float32(i+3)
		lanes[i] = fusedRef(x[i]-0.25, x[i]-0.25, 0)
	}
	if got, want := sumSquaredDiffRef(x, 0.25), joinLanes(&lanes); got != want {
		t.Errorf("got %.9g, want %.9g", got, want)
	}
}
