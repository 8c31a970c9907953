package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/cputest"
)

// atEachLevel runs f once for every instruction level of the machine, or every path where those say
// nothing of vectors.
func atEachLevel(t *testing.T, f func(t *testing.T)) {
	if cpuinfo.SupportedPath() < cpuinfo.PathAVX2 {
		cputest.EachPath(t, f)
		return
	}
	for level := cpuinfo.Baseline; level <= cpuinfo.Supported(); level++ {
		t.Run(level.String(), func(t *testing.T) {
			if level < cpuinfo.AVX512 {
				defer cpuinfo.Disable(level + 1)()
			}
			f(t)
		})
	}
}

// tailLengths reaches every tail of every unrolled loop, and more than one block.
func tailLengths() []int {
	var lengths []int
	for n := range 150 {
		lengths = append(lengths, n)
	}
	return append(lengths, 1023, 8192, 8193, 2*8192+77)
}

const canary = 0x7fabcdef

// guarded returns n elements at a misaligned start between canaries, and a function that reports a
// damaged canary.
func guarded[T any](n, skew int, guard T, same func(a, b T) bool) (s []T, intact func() error) {
	const margin = 64
	all := make([]T, margin+skew+n+margin)
	for i := range all {
		all[i] = guard
	}
	s = all[margin+skew : margin+skew+n : margin+skew+n]
	return s, func() error {
		for i, v := range all {
			if (i < margin+skew || i >= margin+skew+n) && !same(v, guard) {
				return fmt.Errorf("element %d outside 0..%d was written", i-margin-skew, n)
			}
		}
		return nil
	}
}

func guardedFloats(n, skew int) ([]float32, func() error) {
	return guarded(n, skew, math.Float32frombits(canary), func(a, b float32) bool {
		return math.Float32bits(a) == math.Float32bits(b)
	})
}

var special = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, 0.5, -0.5, 2, -2, 10, -10, 100, -100,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	math.Float32frombits(0xffc12345), math.Float32frombits(0x7f812345),
	math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-126, -0x1p-126, 0x1.fffffcp-127,
	1e-40,
	math.MaxFloat32, -math.MaxFloat32, 88.72283, 88.72284, 89, 90, -87.3, -87.5, -103.9, -104, -105,
	1e30, -1e30, 1e-30,
	0.921875, 0.92187494, 3.9, 4, 4.1, -4, 9, 9.01, -9.1, 20, -20, 30, 31, 1.4142135, 1.4142136,
	0.70710677, 0.7071068,
	65504, 65519.996, 65520, -65520, 6e-5, 6.1e-5, 5.9e-8, 2.9e-8, 1 << 31, -(1 << 31), 2147483520,
	1 << 63, -(1 << 63),
}

// fill mixes special values, arbitrary bit patterns and ordinary numbers.
func fill(x []float32, r *rand.Rand) {
	for i := range x {
		switch r.IntN(8) {
		case 0:
			x[i] = special[r.IntN(len(special))]
		case 1:
			x[i] = math.Float32frombits(r.Uint32())
		default:
			x[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(12)-6)))
		}
	}
}

func fillOrdinary(x []float32, r *rand.Rand) {
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
}

func isNaN(x float32) bool { return x != x }

// ulps returns the number of float32 between a and b, both finite.
func ulps(a, b float32) int64 {
	order := func(x float32) int64 {
		bits := int64(math.Float32bits(x))
		if bits >= 1<<31 {
			return 1<<31 - bits
		}
		return bits
	}
	d := order(a) - order(b)
	return max(d, -d)
}

// tolerance says how far a result may be from its reference: in units in the last place, or
// absolutely.
type tolerance struct {
	ulps     int64
	absolute func(x float32) float64
}

// exact demands the same bits, but for NaN payloads and the sign of zero.
var exact = tolerance{}

// transcendental allows what the package documentation does.
var transcendental = tolerance{ulps: 4, absolute: func(float32) float64 { return 0x1p-126 }}

func (tol tolerance) holds(x, got, want float32) bool {
	switch {
	case isNaN(want) || isNaN(got):
		return isNaN(want) && isNaN(got)
	case got == want:
		return true
	case math.IsInf(float64(want), 0) || math.IsInf(float64(got), 0):
		return false
	}
	return ulps(got, want) <= tol.ulps || tol.absolute != nil &&
		math.Abs(float64(got)-float64(want)) <= tol.absolute(x)
}

// checkSlices compares a whole result with its reference.
func checkSlices(t *testing.T, what string, tol tolerance, x, got, want []float32) {
	t.Helper()
	for i := range want {
		if !tol.holds(x[i], got[i], want[i]) {
			t.Fatalf("%s, n=%d: at %d, of %v (%#08x): got %v, want %v", what, len(want), i, x[i],
				math.Float32bits(x[i]), got[i], want[i])
		}
	}
}

// elementwise is one exported function and its reference, inputs in the order of the operator.
type elementwise struct {
	name      string
	inputs    int
	fast, ref func(dst []float32, in [3][]float32)
	tol       tolerance
}

func (e elementwise) test(t *testing.T, n, skew int, r *rand.Rand) {
	var in [3][]float32
	for i := range in {
		in[i] = make([]float32, n+skew)[skew:]
		fill(in[i], r)
	}
	want := make([]float32, n)
	e.ref(want, in)
	got, intact := guardedFloats(n, skew)
	e.fast(got, in)
	checkSlices(t, e.name, e.tol, in[0], got, want)
	if err := intact(); err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
	for i := range e.inputs {
		aliased := in
		got, intact := guardedFloats(n, skew)
		copy(got, in[i])
		aliased[i] = got
		e.fast(got, aliased)
		checkSlices(t, e.name+" in place", e.tol, in[0], got, want)
		if err := intact(); err != nil {
			t.Fatalf("%s in place: %v", e.name, err)
		}
	}
}

func testElementwise(t *testing.T, list []elementwise) {
	atEachLevel(t, func(t *testing.T) {
		for _, e := range list {
			t.Run(e.name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, 2))
				for _, n := range tailLengths() {
					e.test(t, n, n%5, r)
				}
			})
		}
	})
}

func unary(name string, fast, ref func(dst, x []float32), tol tolerance) elementwise {
	return elementwise{name: name, inputs: 1, tol: tol,
		fast: func(dst []float32, in [3][]float32) { fast(dst, in[0]) },
		ref:  func(dst []float32, in [3][]float32) { ref(dst, in[0]) },
	}
}

func binary(name string, fast, ref func(dst, a, b []float32), tol tolerance) elementwise {
	return elementwise{name: name, inputs: 2, tol: tol,
		fast: func(dst []float32, in [3][]float32) { fast(dst, in[0], in[1]) },
		ref:  func(dst []float32, in [3][]float32) { ref(dst, in[0], in[1]) },
	}
}

// withScalar turns a function of a slice and a number into one of a slice.
func withScalar(f func(dst, x []float32, s float32), s float32) func(dst, x []float32) {
	return func(dst, x []float32) { f(dst, x, s) }
}

func withScalars(f func(dst, x []float32, a, b float32), a, b float32) func(dst, x []float32) {
	return func(dst, x []float32) { f(dst, x, a, b) }
}

// worstError returns the greatest relative error of f over every float32 between lo and hi in steps
// of so many representable numbers, leaving out results below the normal range, and the argument it
// occurs at.
func worstError(lo, hi float32, step uint32, f func(dst, x []float32),
	ref func(float64) float64) (worst float64, at float32) {
	var x, y [256]float32
	n := 0
	flush := func() {
		f(y[:n], x[:n])
		for i, v := range x[:n] {
			want := ref(float64(v))
			if math.Abs(want) < 0x1p-126 || math.Abs(want) > math.MaxFloat32 {
				continue
			}
			if e := math.Abs(float64(y[i])-want) / math.Abs(want); e > worst {
				worst, at = e, v
			}
		}
		n = 0
	}
	walk := func(from, to uint32, sign float32) {
		for b := from; b <= to; b += step {
			x[n] = sign * math.Float32frombits(b)
			if n++; n == len(x) {
				flush()
			}
		}
	}
	if lo < 0 {
		walk(math.Float32bits(max(0, -hi)), math.Float32bits(-lo), -1)
	}
	if hi > 0 {
		walk(math.Float32bits(max(0, lo)), math.Float32bits(hi), 1)
	}
	flush()
	return worst, at
}
