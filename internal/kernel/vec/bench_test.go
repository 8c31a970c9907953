package vec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// benchmarkSizes are elements per call: a slice in the first-level cache, one in the second, one in
// memory.
var benchmarkSizes = []int{2048, 65536, 1 << 24}

// rowSizes are elements of the rows that transformers normalise.
var rowSizes = []int{768, 3072}

// benchmark reports the speed of f, which moves so many bytes per element, at each level.
func benchmark(b *testing.B, sizes []int, bytes int, f func(dst, x, y []float32)) {
	for level := cpuinfo.Supported(); level >= cpuinfo.Baseline; level-- {
		for _, n := range sizes {
			b.Run(fmt.Sprintf("%v/%d", level, n), func(b *testing.B) {
				if level < cpuinfo.AVX512 {
					defer cpuinfo.Disable(level + 1)()
				}
				dst, x, y := make([]float32, n), make([]float32, n), make([]float32, n)
				r := rand.New(rand.NewPCG(1, 2))
				fillOrdinary(x, r)
				fillOrdinary(y, r)
				b.SetBytes(int64(n * bytes))
				for b.Loop() {
					f(dst, x, y)
				}
				b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds()/1e6, "Melem/s")
			})
		}
	}
}

func BenchmarkArithmetic(b *testing.B) {
	b.Run("Add", func(b *testing.B) { benchmark(b, benchmarkSizes, 12, Add) })
	b.Run("Mul", func(b *testing.B) { benchmark(b, benchmarkSizes[:2], 12, Mul) })
	b.Run("Max", func(b *testing.B) { benchmark(b, benchmarkSizes[:2], 12, Max) })
	b.Run("Axpy", func(b *testing.B) {
		benchmark(b, benchmarkSizes[:2], 12, func(dst, x, y []float32) { Axpy(dst, 0.5, x, y) })
	})
	b.Run("Affine", func(b *testing.B) {
		benchmark(b, benchmarkSizes[:2], 8, func(dst, x, _ []float32) { Affine(dst, x, 0.5, 1) })
	})
}

func BenchmarkUnary(b *testing.B) {
	for _, f := range []struct {
		name string
		f    func(dst, x []float32)
	}{
		{"Relu", Relu}, {"Exp", Exp}, {"Log", Log}, {"Tanh", Tanh}, {"Erf", Erf},
		{"Sigmoid", Sigmoid}, {"Silu", Silu},
		{"Gelu", Gelu}, {"GeluTanh", GeluTanh}, {"HardSwish", HardSwish}, {"Softplus", Softplus},
		{"Mish", Mish}, {"Grid", grid3(Grid, 1e-4, -2000, 63535)},
		{"Sqrt", Sqrt}, {"Softmax", Softmax}, {"LogSoftmax", LogSoftmax},
	} {
		b.Run(f.name, func(b *testing.B) {
			benchmark(b, benchmarkSizes[:1], 8, func(dst, x, _ []float32) { f.f(dst, x) })
		})
	}
	b.Run("SoftmaxRow", func(b *testing.B) {
		benchmark(b, rowSizes, 8, func(dst, x, _ []float32) { Softmax(dst, x) })
	})
	b.Run("LayerNorm", func(b *testing.B) {
		benchmark(b, rowSizes, 8, func(dst, x, y []float32) { LayerNorm(dst, x, y, y, 1e-5) })
	})
}

var sink float32

func BenchmarkReduction(b *testing.B) {
	for _, f := range []struct {
		name string
		f    func(x []float32) float32
	}{
		{"Sum", Sum}, {"SumSquares", SumSquares}, {"MaxReduce", MaxReduce},
		{"ArgMax", func(x []float32) float32 { return float32(ArgMax(x)) }},
	} {
		b.Run(f.name, func(b *testing.B) {
			benchmark(b, benchmarkSizes[:2], 4, func(_, x, _ []float32) { sink += f.f(x) })
		})
	}
}

func BenchmarkTranspose(b *testing.B) {
	for _, shape := range [][2]int{{64, 32}, {197, 64}, {512, 512}, {1000, 2048}} {
		b.Run(fmt.Sprintf("%dx%d", shape[0], shape[1]), func(b *testing.B) {
			benchmark(b, []int{shape[0] * shape[1]}, 8, func(dst, x, _ []float32) {
				Transpose(dst, x, shape[0], shape[1], shape[0], shape[1])
			})
		})
	}
}

func BenchmarkConvert(b *testing.B) {
	const n = 2048
	halves, ints, bytes := make([]uint16, n), make([]int64, n), make([]uint8, n)
	for _, f := range []struct {
		name string
		f    func(dst, x []float32)
	}{
		{"Float16ToFloat32", func(dst, _ []float32) { Float16ToFloat32(dst, halves) }},
		{"Float32ToFloat16", func(_, x []float32) { Float32ToFloat16(halves, x) }},
		{"BFloat16ToFloat32", func(dst, _ []float32) { BFloat16ToFloat32(dst, halves) }},
		{"Float32ToBFloat16", func(_, x []float32) { Float32ToBFloat16(halves, x) }},
		{"Int64ToFloat32", func(dst, _ []float32) { Int64ToFloat32(dst, ints) }},
		{"Float32ToInt64", func(_, x []float32) { Float32ToInt64(ints, x) }},
		{"Uint8ToFloat32", func(dst, _ []float32) { Uint8ToFloat32(dst, bytes) }},
	} {
		b.Run(f.name, func(b *testing.B) {
			benchmark(b, []int{n}, 6, func(dst, x, _ []float32) { f.f(dst, x) })
		})
	}
}
