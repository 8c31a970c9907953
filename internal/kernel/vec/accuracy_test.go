package vec

import (
	"math"
	"os"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// accuracy states how far a function may be from its exact value, in units in the last place (ulp)
// of that value, with assembly and in plain Go. The package comment says the same.
var accuracy = []struct {
	name            string
	fast            func(dst, x []float32)
	exact           func(float64) float64
	assembly, plain float64
}{
	{"Exp", Exp, math.Exp, 1, 0.5001},
	{"Log", Log, math.Log, 1, 0.5001},
	{"Tanh", Tanh, math.Tanh, 3, 0.5001},
	{"Erf", Erf, math.Erf, 1.5, 0.5001},
	{"Sigmoid", Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 2.5, 0.5001},
}

// TestAccuracy compares the functions with float64 ones over all float32 numbers, some thousand
// apart; with WEIR_LONG set, over every one.
func TestAccuracy(t *testing.T) {
	step := uint64(1511)
	switch {
	case os.Getenv("WEIR_LONG") != "":
		step = 1
	case testing.Short():
		step = 100003
	}
	for _, c := range accuracy {
		t.Run(c.name, func(t *testing.T) {
			atEachLevel(t, func(t *testing.T) {
				limit := c.assembly
				if cpuinfo.CurrentPath() == cpuinfo.PathPlain {
					limit = c.plain
				}
				worst, at := worstUlps(c.fast, c.exact, step)
				t.Logf("%.4f ulp at %v (%#08x)", worst, at, math.Float32bits(at))
				if !(worst <= limit) {
					t.Errorf("%.4f ulp at %v, want at most %g", worst, at, limit)
				}
			})
		})
	}
}

// worstUlps returns the greatest error of f over the float32 numbers step apart, in ulp, and where
// it occurs. Where the exact value is below the normal numbers, a zero counts as right.
func worstUlps(f func(dst, x []float32), exact func(float64) float64, step uint64) (worst float64,
	at float32) {
	var x, y [1024]float32
	for bits := uint64(0); bits < 1<<32; {
		n := 0
		for ; n < len(x) && bits < 1<<32; bits += step {
			if x[n] = math.Float32frombits(uint32(bits)); !isNaN(x[n]) {
				n++
			}
		}
		f(y[:n], x[:n])
		for i, v := range x[:n] {
			if e := ulpError(y[i], exact(float64(v))); !(e <= worst) {
				worst, at = e, v
			}
		}
	}
	return worst, at
}

// ulpError returns |got-want| in units in the last place of a float32 near want.
func ulpError(got float32, want float64) float64 {
	const largest = math.MaxFloat32 * (1 + 0x1p-25) // from which on numbers round to an infinity
	switch {
	case math.Abs(want) >= largest:
		want = math.Inf(int(math.Copysign(1, want)))
	case math.Abs(want) < 0x1p-126 && got == 0:
		return 0
	}
	if float64(got) == want || math.IsNaN(want) && isNaN(got) {
		return 0
	}
	_, exponent := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(exponent, -125)-24)
}
