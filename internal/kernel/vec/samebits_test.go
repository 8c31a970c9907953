package vec

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// rowSums are the functions that add up a row, and what they make of one.
var rowSums = []struct {
	name string
	f    func(y, x, z []float32)
	// exponentials says that the addends are exponentials, which plain Go computes in float64
	exponentials bool
}{
	{"Sum", func(y, x, _ []float32) { y[0] = Sum(x) }, false},
	{"Mean", func(y, x, _ []float32) { y[0] = Mean(x) }, false},
	{"SumSquares", func(y, x, _ []float32) { y[0] = SumSquares(x) }, false},
	{"SumAbs", func(y, x, _ []float32) { y[0] = SumAbs(x) }, false},
	{"Norm", func(y, x, _ []float32) { y[0] = Norm(x) }, false},
	{"Dot", func(y, x, z []float32) { y[0] = Dot(x, z) }, false},
	{"SumSquaredDiff", func(y, x, _ []float32) { y[0] = SumSquaredDiff(x, 0.3) }, false},
	{"TotalDotDiff", func(y, x, z []float32) { y[0] = float32(TotalDotDiff(x, z, 0.3)) }, false},
	{"MeanVariance", func(y, x, _ []float32) { y[0], y[1] = MeanVariance(x) }, false},
	{"LayerNorm", func(y, x, z []float32) { LayerNorm(y[:len(x)], x, z, z, 1e-5) }, false},
	{"LayerNorm of beta", func(y, x, z []float32) { LayerNorm(y[:len(x)], x, nil, z, 0) }, false},
	{"RMSNorm", func(y, x, z []float32) { RMSNorm(y[:len(x)], x, z, 1e-5) }, false},
	{"Softmax", func(y, x, _ []float32) { Softmax(y[:len(x)], x) }, true},
	{"LogSoftmax", func(y, x, _ []float32) { LogSoftmax(y[:len(x)], x) }, true},
	{"LogSumExp", func(y, x, _ []float32) { y[0] = LogSumExp(x) }, true},
}

// TestSumsHaveTheSameBits adds up rows of every length around the lanes and the chunks, of numbers
// of every kind, on each path: the order of the additions is one, and so are the bits, but for
// exponentials in plain Go.
func TestSumsHaveTheSameBits(t *testing.T) {
	lengths := append(tailLengths()[1:], 2047, 2048, 2049, 4095, 4096, 4097, 4160, 20_011)
	for _, s := range rowSums {
		t.Run(s.name, func(t *testing.T) {
			first := map[int][]float32{}
			atEachLevel(t, func(t *testing.T) {
				if s.exponentials && cpuinfo.CurrentPath() == cpuinfo.PathPlain {
					return
				}
				r := rand.New(rand.NewPCG(31, 1))
				for i, n := range lengths {
					x, y, z := make([]float32, n), make([]float32, n+1), make([]float32, n)
					addends(x, i%3, r)
					addends(z, (i+1)%3, r)
					s.f(y, x, z)
					if first[n] == nil {
						first[n] = y
					}
					if !slices.EqualFunc(y, first[n], sameBits) {
						t.Fatalf("n=%d: %v..., on another path %v...", n, y[:2], first[n][:2])
					}
				}
			})
		})
	}
}

// TestDotsThatUnderflow adds up products that are all less than 0 and too small for float32: which
// lanes hold -0 depends on the path, the result is 0.
func TestDotsThatUnderflow(t *testing.T) {
	a, b := make([]float32, 200), make([]float32, 200)
	Fill(a, 1e-30)
	Fill(b, -1e-30)
	atEachLevel(t, func(t *testing.T) {
		for n := range len(a) + 1 {
			if s := Dot(a[:n], b); math.Float32bits(s) != 0 {
				t.Errorf("n=%d: %v, want 0", n, s)
			}
		}
	})
}

func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

// TestFusedRoundsOnce holds the definition of fused operations against arithmetic that does not
// round, where a sum in float64 lies halfway between two float32, is subnormal or is neither.
func TestFusedRoundsOnce(t *testing.T) {
	type triple [3]float32
	cases := []triple{
		{0x1.00001p0, 0x1.ffffep-25, 1 + 0x1p-23}, // a bit below halfway to an even number
		{0x1.00001p-24, 0x1.00001p0, 1},           // a bit above halfway to an odd number
		{-0x1.00001p0, 0x1.ffffep-25, -1 - 0x1p-23},
		{0x1.00001p-75, 0x1.ffffep-76, 0x1p-149},
		{0x1.00001p-75, -0x1.00001p-75, 0x1p-149},
	}
	r := rand.New(rand.NewPCG(31, 2))
	for range 20_000 {
		cases = append(cases, triple{float32(r.IntN(1<<13)+1) * 0x1p-12,
			float32(r.IntN(1<<13)+1) * 0x1p-12, float32(r.NormFloat64() * 0x1p20)},
			triple{float32(r.NormFloat64() * 0x1p-75), float32(r.NormFloat64() * 0x1p-75),
				float32(r.NormFloat64() * 0x1p-149)})
	}
	want := make([]float32, len(cases))
	for i, c := range cases {
		x := new(big.Float).SetPrec(1000).Mul(big.NewFloat(float64(c[0])),
			big.NewFloat(float64(c[1])))
		want[i], _ = x.Add(x, big.NewFloat(float64(c[2]))).Float32()
	}
	atEachLevel(t, func(t *testing.T) {
		for i, c := range cases {
			var y [1]float32
			if FMA(y[:], c[:1], c[1:2], c[2:]); y[0] != want[i] {
				t.Fatalf("%x * %x + %x = %x, want %x", c[0], c[1], c[2], y[0], want[i])
			}
		}
	})
}
