package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// softmax64 is the definition in float64.
func softmax64(x []float32) []float64 {
	m := math.Inf(-1)
	for _, v := range x {
		m = max(m, float64(v))
	}
	y, sum := make([]float64, len(x)), 0.0
	for i, v := range x {
		y[i] = math.Exp(float64(v) - m)
		sum += y[i]
	}
	for i := range y {
		y[i] /= sum
	}
	return y
}

func TestSoftmax(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(8, 9))
		for _, n := range tailLengths() {
			x := make([]float32, n+1)[1:]
			fillOrdinary(x, r)
			if n > 4 {
				MulScalar(x, x, 8)
				x[n/2] = float32(math.Inf(-1))
			}
			want := softmax64(x)
			checkSoftmax(t, n, x, want, false)
			checkSoftmax(t, n, x, want, true)
		}
	})
}

func checkSoftmax(t *testing.T, n int, x []float32, want []float64, inPlace bool) {
	t.Helper()
	y, intact := guardedFloats(n, 1)
	logs, logsIntact := guardedFloats(n, 2)
	in, logIn := x, x
	if inPlace {
		copy(y, x)
		copy(logs, x)
		in, logIn = y, logs
	}
	Softmax(y, in)
	LogSoftmax(logs, logIn)
	for i := range want {
		relative := 4e-7 * (2 + max(-math.Log(want[i]), 0))
		if want[i] > 0 && math.Abs(float64(y[i])-want[i]) > relative*want[i]+0x1p-126 ||
			want[i] == 0 && y[i] != 0 {
			t.Fatalf("Softmax, n=%d: at %d: %v, want %v", n, i, y[i], want[i])
		}
		log := math.Log(want[i])
		if float64(logs[i]) != log && math.Abs(float64(logs[i])-log) > 5e-7*(1+math.Abs(log)) {
			t.Fatalf("LogSoftmax, n=%d: at %d: %v, want %v", n, i, logs[i], log)
		}
	}
	for _, err := range []error{intact(), logsIntact()} {
		if err != nil {
			t.Fatalf("n=%d: %v", n, err)
		}
	}
}

// Adding a number to a whole row changes nothing, and the results add up to one.
func TestSoftmaxIsShiftInvariant(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		var x, y, shifted [197]float32
		for i := range x {
			x[i] = float32(i%31) / 4
		}
		Softmax(y[:], x[:])
		if s := Sum(y[:]); math.Abs(float64(s)-1) > 1e-6 {
			t.Errorf("sum %v", s)
		}
		AddScalar(x[:], x[:], 1024)
		Softmax(shifted[:], x[:])
		for i := range y {
			if ulps(y[i], shifted[i]) > 2 {
				t.Errorf("at %d: %v, shifted %v", i, y[i], shifted[i])
			}
		}
	})
}

func TestSoftmaxOfRowsWithoutAResult(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	atEachLevel(t, func(t *testing.T) {
		for _, x := range [][]float32{{1, nan, 2}, {1, inf, 2}, {-inf, -inf, -inf}} {
			y := make([]float32, len(x))
			Softmax(y, x)
			if !isNaN(y[0]) && !isNaN(y[1]) {
				t.Errorf("Softmax(%v) = %v", x, y)
			}
		}
	})
}

func TestLogSumExp(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(8, 10))
		for _, n := range tailLengths()[1:] {
			x := make([]float32, n+1)[1:]
			fillOrdinary(x, r)
			MulScalar(x, x, 8)
			AddScalar(x, x, 1000)
			m, sum := float64(MaxReduce(x)), 0.0
			for _, v := range x {
				sum += math.Exp(float64(v) - m)
			}
			want := m + math.Log(sum)
			if got := float64(LogSumExp(x)); math.Abs(got-want) > 5e-7*(1+m) {
				t.Fatalf("n=%d: %v, want %v", n, got, want)
			}
			for _, odd := range []float32{inf, nan} {
				if x[n/2] = odd; !sameFloat(LogSumExp(x), odd) {
					t.Fatalf("n=%d with %v: %v", n, odd, LogSumExp(x))
				}
			}
			Fill(x, -inf)
			if got := LogSumExp(x); got != -inf {
				t.Fatalf("n=%d: nothing but -Inf gives %v", n, got)
			}
		}
		if got := LogSumExp(nil); got != -inf {
			t.Errorf("no elements give %v", got)
		}
	})
}
