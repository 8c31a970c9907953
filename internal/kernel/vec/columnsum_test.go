package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// sumBound is the greatest error of a sum relative to that of its terms' magnitudes, as the
// comments of Sum and ColumnSums say.
const sumBound = 1e-5

// addends fills x with numbers of one kind: alike, whose rounding errors all have one sign, of any
// sign, or of magnitudes far apart.
func addends(x []float32, kind int, r *rand.Rand) {
	for i := range x {
		switch kind {
		case 0:
			x[i] = 0.1
		case 1:
			x[i] = float32(r.NormFloat64())
		default:
			x[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(60)-30)))
		}
	}
}

// TestColumnSums adds up rows by runs and blocks around every boundary between them, and the bits
// do not depend on the path.
func TestColumnSums(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 1))
	for _, rows := range []int{0, 1, 2, 63, 64, 65, 128, 129, 4095, 4096, 4097, 4159, 4160, 4161,
		4224, 8256, 8257, 20000} {
		for _, w := range []int{1, 3, 37, 70} {
			x := make([]float32, rows*w)
			addends(x, (rows+w)%3, r)
			var first []float32
			atEachLevel(t, func(t *testing.T) {
				got := checkColumns(t, x, rows, w)
				if first == nil {
					first = got
				}
				if !slices.EqualFunc(got, first, sameBits) {
					t.Errorf("%d rows of %d: other bits on %v", rows, w, cpuinfo.Current())
				}
			})
		}
	}
}

// checkColumns adds up rows of w elements, at once and one by one, their squares and magnitudes,
// and returns these sums.
func checkColumns(t *testing.T, x []float32, rows, w int) []float32 {
	t.Helper()
	sum, single, squares := make([]float32, w), make([]float32, w), make([]float32, w)
	magnitudes := make([]float32, w)
	scratch := make([]float32, ColumnSumScratch(rows, w))
	for _, x := range [][]float32{scratch, sum, single, squares, magnitudes} {
		Fill(x, float32(math.NaN()))
	}
	c := MakeColumnSums(sum, scratch)
	c.AddRows(x, w)
	c.Finish()
	c = MakeColumnSums(squares, scratch)
	c.AddSquares(x, w)
	c.Finish()
	c = MakeColumnSums(magnitudes, scratch)
	c.AddAbs(x, w)
	c.Finish()
	c = MakeColumnSums(single, scratch)
	for i := range rows {
		c.Add(x[i*w : (i+1)*w])
	}
	c.Finish()
	if !slices.Equal(sum, single) {
		t.Errorf("%d rows of %d: one by one they give other sums", rows, w)
	}
	for j := range w {
		var want, terms, square float64
		for i := range rows {
			v := float64(x[i*w+j])
			want, terms, square = want+v, terms+math.Abs(v), square+v*v
		}
		if !closeTo(sum[j], want, terms, sumBound) ||
			!closeTo(squares[j], square, square, sumBound) ||
			!closeTo(magnitudes[j], terms, terms, sumBound) {
			t.Fatalf("%d rows of %d: sum %v, of squares %v, of magnitudes %v, want %v, %v and %v",
				rows, w, sum[j], squares[j], magnitudes[j], want, square, terms)
		}
	}
	return slices.Concat(sum, squares, magnitudes)
}

// TestColumnSumsOfPartRows ends with rows that are shorter than the sums, first of a run or not.
func TestColumnSumsOfPartRows(t *testing.T) {
	for _, n := range []int{1, 4, 5, 64*5 + 2, 65*5 + 2, 4160*5 + 3, 4161*5 + 1} {
		x := make([]float32, n)
		Fill(x, 1)
		sum := make([]float32, 5)
		c := MakeColumnSums(sum, make([]float32, ColumnSumScratch((n+4)/5, 5)))
		c.AddRows(x, 5)
		c.Finish()
		for j, v := range sum {
			if want := float32((n - j + 4) / 5); v != want {
				t.Errorf("%d ones in rows of 5: sum %d is %v, want %v", n, j, v, want)
			}
		}
	}
}

// addendsOfLongSums is how many numbers TestLongSums adds up: enough for a running sum in float32
// to be per cents off, and with WEIR_LONG set those that a sum is promised for.
func addendsOfLongSums() int {
	if os.Getenv("WEIR_LONG") != "" {
		return 1e8
	}
	return 2e6
}

// TestLongSums adds up one tenth many times: as a row, by columns, as squares and exponentials.
func TestLongSums(t *testing.T) {
	n := addendsOfLongSums()
	x := make([]float32, 8000)
	Fill(x, 0.1)
	atEachLevel(t, func(t *testing.T) {
		var sum [4]float32
		c := MakeColumnSums(sum[:], make([]float32, ColumnSumScratch(n, len(sum))))
		for range n / 2000 {
			c.AddRows(x, len(sum))
		}
		c.Finish()
		want := float64(n) * float64(x[0])
		if !closeTo(sum[3], want, want, sumBound) {
			t.Errorf("%d times 0.1 by columns: %v, want %v", n, sum[3], want)
		}
		if testing.Short() {
			return
		}
		long := make([]float32, n)
		Fill(long, 0.1)
		for what, sums := range map[string][2]float64{
			"Sum":        {float64(Sum(long)), want},
			"Mean":       {float64(Mean(long)), float64(x[0])},
			"SumSquares": {float64(SumSquares(long)), want * float64(x[0])},
			"SumAbs":     {float64(SumAbs(long)), want},
			"Norm":       {float64(Norm(long)), math.Sqrt(want * float64(x[0]))},
		} {
			if math.Abs(sums[0]-sums[1]) > sumBound*sums[1] {
				t.Errorf("%s of %d times 0.1: %v, want %v", what, n, sums[0], sums[1])
			}
		}
		const blocks = 900 // whose sums, all alike, float64 adds up exactly
		if got, want := SumExp(long[:blocks*expChunk], 2),
			blocks*SumExp(long[:expChunk], 2); got != want {
			t.Errorf("SumExp of %d blocks: %v, want %v", blocks, got, want)
		}
		if got, want := float64(LogSumExp(long)), math.Log(float64(n))+float64(x[0]); math.Abs(
			got-want) > sumBound+5e-7 {
			t.Errorf("LogSumExp of %d times 0.1: %v, want %v", n, got, want)
		}
		long[0] = 2 // so that the others' exponentials are no power of two
		one := math.Exp(float64(float32(0.1) - 2))
		Softmax(long, long)
		exps := 1 + float64(n-1)*one
		if got := float64(long[0]); math.Abs(got*exps-1) > sumBound+8e-7*math.Log(exps) {
			t.Errorf("the greatest of a Softmax of %d: %v, want %v", n, got, 1/exps)
		}
	})
}

// TestSumsBeyondTheRange takes sums whose parts leave the range of float32 where the whole does
// not, in one lane, in several and by columns.
func TestSumsBeyondTheRange(t *testing.T) {
	const big = 3e38
	atEachLevel(t, func(t *testing.T) {
		for _, n := range []int{4, 64, 200, 4096, 10_000} {
			x := make([]float32, n)
			for i := range x {
				x[i] = big
				if i >= n/2 {
					x[i] = -big
				}
			}
			x[0], x[n-1] = 5, 1
			var want float64
			for _, v := range x {
				want += float64(v)
			}
			if got := Sum(x); !closeTo(got, want, float64(n)*big, 1e-12) {
				t.Errorf("Sum of %d: %v, want %v", n, got, want)
			}
			Fill(x, big)
			if m := Mean(x); !closeTo(m, big, big, sumBound) {
				t.Errorf("Mean of %d times %g: %v", n, big, m)
			}
			Fill(x, 1e30)
			root := 1e30 * math.Sqrt(float64(n))
			if got := Norm(x); !closeTo(got, root, root, sumBound) {
				t.Errorf("Norm of %d times 1e30: %v, want %v", n, got, root)
			}
			if got := SumSquares(x); !math.IsInf(float64(got), 1) {
				t.Errorf("SumSquares of %d times 1e30: %v", n, got)
			}
			checkNormOfGreat(t, x)
		}
	})
}

// checkNormOfGreat normalises a row whose squared deviations are beyond float32.
func checkNormOfGreat(t *testing.T, x []float32) {
	t.Helper()
	for i := range x {
		x[i] = float32(1e30 * (float64(i%2)*2 - 1))
	}
	LayerNorm(x, x, nil, nil, 1e-5)
	for i, v := range x {
		if want := float64(i%2)*2 - 1; math.Abs(float64(v)-want) > 1e-4 {
			t.Fatalf("LayerNorm of ±1e30, n=%d: element %d is %v, want %v", len(x), i, v, want)
		}
	}
}

func ExampleColumnSums() {
	x := []float32{1, 2, 3, 4, 5, 6}
	sum := make([]float32, 2)
	c := MakeColumnSums(sum, make([]float32, ColumnSumScratch(3, 2)))
	c.AddRows(x, 2)
	c.Finish()
	fmt.Println(sum)
	// Output: [9 12]
}
