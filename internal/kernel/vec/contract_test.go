package vec

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/internal/generated"
)

// everyElementwise are the functions with a reference for each element.
func everyElementwise() []elementwise {
	return append(append(append(arithmeticCases(), elementaryCases()...), activationCases()...),
		trainingCases()...)
}

// everyFunction adds those that work on a whole row, which have no such reference.
func everyFunction() []elementwise {
	return append(everyElementwise(),
		unary("Softmax", Softmax, nil, exact),
		unary("LogSoftmax", LogSoftmax, nil, exact),
		unary("LayerNorm", func(dst, x []float32) {
			LayerNorm(dst, x, nil, nil, 1e-5)
		}, nil, exact),
		binary("LayerNorm affine", func(dst, a, b []float32) {
			LayerNorm(dst, a, b, b, 1e-5)
		}, nil, exact),
		binary("RMSNorm", func(dst, a, b []float32) { RMSNorm(dst, a, b, 1e-5) }, nil, exact),
		binary("reductions", func(dst, a, b []float32) {
			n := len(dst)
			Sum(a[:n])
			SumSquares(a[:n])
			SumAbs(a[:n])
			LogSumExp(a[:n])
			Dot(a[:n], b[:n])
			SumSquaredDiff(a[:n], 1)
			TotalDotDiff(a[:n], b[:n], 1)
			MaxReduce(a[:n])
			MinReduce(a[:n])
			ArgMax(a[:n])
		}, nil, exact),
	)
}

func TestNothingIsAllocated(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, e := range everyFunction() {
			in := [3][]float32{make([]float32, 100), make([]float32, 100), make([]float32, 100)}
			dst := make([]float32, 100)
			if n := testing.AllocsPerRun(5, func() { e.fast(dst, in) }); n != 0 {
				t.Errorf("%s allocates %v times", e.name, n)
			}
		}
		if n := testing.AllocsPerRun(5, func() {
			var x, y [35]float32
			var h [35]uint16
			Transpose(y[:], x[:], 5, 7, 5, 7)
			Float32ToFloat16(h[:], y[:])
			Relu(y[:], y[:])
		}); n != 0 {
			t.Errorf("arrays on the stack are moved to the heap: %v allocations", n)
		}
	})
}

func FuzzElementwise(f *testing.F) {
	f.Add(uint32(0x3f800000), uint32(0xbf800000), uint32(0x7f800000), uint8(3))
	f.Add(uint32(0x42b17218), uint32(0xc2cff1b5), uint32(0x00000001), uint8(17))
	f.Add(uint32(0x7fc00000), uint32(0x80000000), uint32(0xff7fffff), uint8(40))
	list := everyElementwise()
	f.Fuzz(func(t *testing.T, a, b, c uint32, length uint8) {
		var in [3][]float32
		pattern := [3]uint32{a, b, c}
		for i := range in {
			in[i] = make([]float32, length)
			for k := range in[i] {
				in[i][k] = math.Float32frombits(pattern[(i+k)%3])
			}
		}
		want, got := make([]float32, length), make([]float32, length)
		atEachLevel(t, func(t *testing.T) {
			for _, e := range list {
				e.ref(want, in)
				e.fast(got, in)
				checkSlices(t, e.name, e.tol, in[0], got, want)
			}
		})
	})
}

func TestGeneratedFilesAreCurrent(t *testing.T) { generated.Current(t) }
