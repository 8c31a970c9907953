package vec

import (
	endian "encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// fuzzRow draws n numbers: everything that a float32 may be, or numbers of magnitudes as far apart
// as spread says.
func fuzzRow(r *rand.Rand, n int, wild bool, spread uint8) []float32 {
	x := make([]float32, n)
	if wild {
		fill(x, r)
		return x
	}
	for i := range x {
		x[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(int(spread%120)+1)-60)))
	}
	return x
}

// within reports whether got is what rounding makes of a number that differs from want by off at
// most; it is infinite where such a number may round to that.
func within(got float32, want, off float64) bool {
	if math.IsNaN(want) {
		return isNaN(got)
	}
	return got >= float32(want-off) && got <= float32(want+off) ||
		math.IsInf(want, 0) && float64(got) == want
}

// FuzzReductions holds the reductions of a row to arithmetic in float64, within what they promise,
// and their bits to those of the other paths.
func FuzzReductions(f *testing.F) {
	f.Add(uint64(1), uint16(0), false, uint8(0))
	f.Add(uint64(2), uint16(79), true, uint8(0))
	f.Add(uint64(3), uint16(4097), false, uint8(100))
	f.Add(uint64(4), uint16(8300), true, uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, length uint16, wild bool, spread uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := int(length) % 9000
		a, b := fuzzRow(r, n+1, wild, spread)[1:], fuzzRow(r, n, wild, spread)
		var first []float32
		atEachLevel(t, func(t *testing.T) {
			mean, variance := MeanVariance(a)
			bits := []float32{Sum(a), Dot(a, b), SumSquares(a), Norm(a), SumSquaredDiff(a, 0.25),
				mean, variance}
			checkReductions(t, a, b, bits)
			if first == nil {
				first = bits
			}
			if !slices.EqualFunc(bits, first, sameFloat) {
				t.Fatalf("n=%d: %v, on another path %v", n, bits, first)
			}
			at := ArgMax(a)
			if at < 0 != (n == 0) || n > 0 && (!sameFloat(a[at], MaxReduce(a)) && a[at] != 0 ||
				slices.ContainsFunc(a[:at], func(v float32) bool { return v >= a[at] })) {
				t.Fatalf("ArgMax, n=%d: %d, the greatest is %v", n, at, MaxReduce(a))
			}
			if !exact.holds(0, MaxReduce(a), maxReduceRef(a)) ||
				!exact.holds(0, MinReduce(a), minReduceRef(a)) {
				t.Fatalf("extremes, n=%d: %v and %v", n, MinReduce(a), MaxReduce(a))
			}
		})
	})
}

// checkReductions compares Sum, Dot, SumSquares, Norm, SumSquaredDiff from 1/4 and the mean. The
// difference of the latter rounds in float32 first, by definition.
func checkReductions(t *testing.T, a, b, got []float32) {
	t.Helper()
	var want, terms [5]float64
	for i := range a {
		x, diff := float64(a[i]), float64(a[i]-0.25)
		for k, v := range [4]float64{x, x * float64(b[i]), x * x, diff * diff} {
			want[k] += v
			terms[k] += math.Abs(v)
		}
	}
	n := float64(len(a))
	want[4], terms[4] = want[0]/n, terms[0]/n
	for k, i := range [5]int{0, 1, 2, 4, 5} {
		if !within(got[i], want[k], 1e-5*terms[k]+n*0x1p-149) {
			t.Fatalf("reduction %d, n=%d: %v, want %v", i, len(a), got[i], want[k])
		}
	}
	norm := math.Sqrt(want[2])
	if !within(got[3], norm, 1e-5*norm+0x1p-75*math.Sqrt(n)) {
		t.Fatalf("Norm, n=%d: %v, want %v", len(a), got[3], norm)
	}
}

// FuzzSoftmax holds the softmax of a row to its definition; the row is short enough for the error
// of the sum to be a part of the others'.
func FuzzSoftmax(f *testing.F) {
	f.Add(uint64(1), uint8(1), uint8(1), float32(0))
	f.Add(uint64(2), uint8(200), uint8(60), float32(math.Inf(-1)))
	f.Add(uint64(3), uint8(67), uint8(9), float32(math.NaN()))
	f.Fuzz(func(t *testing.T, seed uint64, length, spread uint8, extra float32) {
		r := rand.New(rand.NewPCG(seed, 2))
		x := make([]float32, int(length)+1)[1:]
		for i := range x {
			x[i] = (2*r.Float32() - 1) * float32(spread)
		}
		none := isNaN(extra) || extra == float32(math.Inf(1)) || length == 1 && extra < -1e30
		switch {
		case len(x) == 0:
		case none || math.IsInf(float64(extra), -1):
			x[r.IntN(len(x))] = extra
		}
		atEachLevel(t, func(t *testing.T) {
			if len(x) == 0 || !none {
				checkSoftmax(t, len(x), x, softmax64(x), seed%2 == 0)
				return
			}
			y, logs := make([]float32, len(x)), make([]float32, len(x))
			Softmax(y, x)
			LogSoftmax(logs, x)
			for i := range y {
				if !isNaN(y[i]) || !isNaN(logs[i]) {
					t.Fatalf("of %v at %d: %v and %v, want NaN", x, i, y[i], logs[i])
				}
			}
		})
	})
}

// FuzzNorm holds the last steps of LayerNorm to arithmetic in float64 on the row's own mean and
// variance, which FuzzReductions compares: they round four times. RMSNorm has the error of a sum
// beside.
func FuzzNorm(f *testing.F) {
	f.Add(uint64(1), uint16(1), uint8(3), float32(0), float32(1e-5))
	f.Add(uint64(2), uint16(300), uint8(90), float32(100), float32(0))
	f.Add(uint64(3), uint16(4200), uint8(1), float32(-3), float32(1))
	f.Fuzz(func(t *testing.T, seed uint64, length uint16, kind uint8, shift, eps float32) {
		r, n := rand.New(rand.NewPCG(seed, 3)), int(length)%9000+1
		if !(math.Abs(float64(shift)) < 1e9) || !(eps >= 0 && eps < 1e9) {
			return
		}
		x, gamma, beta := make([]float32, n), make([]float32, n), make([]float32, n)
		addends(x, int(kind)%3, r)
		AddScalar(x, x, shift)
		fillOrdinary(gamma, r)
		fillOrdinary(beta, r)
		atEachLevel(t, func(t *testing.T) {
			y, intact := guardedFloats(n, int(seed%5))
			m, v := moments(x)
			scale := float64(InverseDeviation(v, eps))
			if math.IsInf(scale, 0) {
				return
			}
			LayerNorm(y, x, gamma, beta, eps)
			for i := range y {
				size := (float64(x[i]) - float64(m)) * scale * float64(gamma[i])
				off := 0x1p-22 * (math.Abs(size) + math.Abs(float64(beta[i])))
				if want := size + float64(beta[i]); !within(y[i], want, off+0x1p-120) {
					t.Fatalf("LayerNorm, n=%d: at %d: %v, want %v", n, i, y[i], want)
				}
			}
			squares := 0.0
			for _, v := range x {
				squares += float64(v) * float64(v)
			}
			scale = 1 / math.Sqrt(squares/float64(n)+float64(eps))
			RMSNorm(y, x, gamma, eps)
			for i := range y {
				want := float64(x[i]) * scale * float64(gamma[i])
				if !within(y[i], want, 1e-5*math.Abs(want)+0x1p-120) {
					t.Fatalf("RMSNorm, n=%d: at %d: %v, want %v", n, i, y[i], want)
				}
			}
			if err := intact(); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// FuzzQuantize compares every way to bytes with its definition.
func FuzzQuantize(f *testing.F) {
	for i := range uint64(6) {
		f.Add(i, uint16(31*i))
	}
	f.Fuzz(func(t *testing.T, seed uint64, length uint16) {
		atEachLevel(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 4))
			for _, c := range requantizations {
				checkRequantization(t, r, int(length)%9000+1, c.name, c.set, c.fast, c.ref)
			}
		})
	})
}

// FuzzConvert compares the conversions with their definitions on any bits.
func FuzzConvert(f *testing.F) {
	f.Add([]byte{})
	all := make([]byte, 8*150)
	r := rand.New(rand.NewPCG(5, 5))
	for i := range all {
		all[i] = byte(r.Uint32())
	}
	f.Add(all)
	var halves []byte
	for _, v := range special {
		halves = endian.LittleEndian.AppendUint32(halves, math.Float32bits(v))
	}
	f.Add(halves)
	f.Fuzz(func(t *testing.T, data []byte) {
		words := make([]uint16, len(data)/2)
		floats, ints := make([]float32, len(data)/4), make([]int32, len(data)/4)
		longs, bytes := make([]int64, len(data)/8), make([]int8, len(data))
		for i := range words {
			words[i] = endian.LittleEndian.Uint16(data[2*i:])
		}
		for i := range floats {
			ints[i] = int32(endian.LittleEndian.Uint32(data[4*i:]))
			floats[i] = math.Float32frombits(uint32(ints[i]))
		}
		for i := range longs {
			longs[i] = int64(endian.LittleEndian.Uint64(data[8*i:]))
		}
		for i, b := range data {
			bytes[i] = int8(b)
		}
		atEachLevel(t, func(t *testing.T) {
			converts(t, words, Float16ToFloat32[uint16], float16ToFloat32Ref, sameFloat)
			converts(t, words, BFloat16ToFloat32[uint16], bfloat16ToFloat32Ref, sameFloat)
			converts(t, floats, Float32ToFloat16[uint16], float32ToFloat16Ref, sameFloat16)
			converts(t, floats, Float32ToBFloat16[uint16], float32ToBFloat16Ref, sameBFloat16)
			converts(t, ints, Int32ToFloat32, int32ToFloat32Ref, sameFloat)
			converts(t, floats, Float32ToInt32, float32ToInt32Ref, equal)
			converts(t, longs, Int64ToFloat32, int64ToFloat32Ref, sameFloat)
			converts(t, floats, Float32ToInt64, float32ToInt64Ref, equal)
			converts(t, floats, Float32ToUint8, float32ToUint8Ref, equal)
			converts(t, floats, Float32ToInt8, float32ToInt8Ref, equal)
			converts(t, data, Uint8ToFloat32, uint8ToFloat32Ref, sameFloat)
			converts(t, bytes, Int8ToFloat32, int8ToFloat32Ref, sameFloat)
		})
	})
}

// converts compares a conversion of x with its definition.
func converts[D, S any](t *testing.T, x []S, fast, ref func(dst []D, x []S), same func(a, b D) bool,
) {
	t.Helper()
	got, want := make([]D, len(x)), make([]D, len(x))
	fast(got, x)
	ref(want, x)
	for i := range want {
		if !same(got[i], want[i]) {
			t.Fatalf("%T to %T, n=%d: at %d, of %v: got %v, want %v", x, got, len(x), i, x[i],
				got[i], want[i])
		}
	}
}

// FuzzTranspose compares what moves elements about with loops over them.
func FuzzTranspose(f *testing.F) {
	f.Add(uint16(0), uint16(5), uint8(0), uint8(0))
	f.Add(uint16(33), uint16(70), uint8(1), uint8(3))
	f.Add(uint16(9), uint16(1030), uint8(7), uint8(2))
	f.Fuzz(func(t *testing.T, rows, cols uint16, padDst, padSrc uint8) {
		m, n := int(rows)%1100, int(cols)%1100
		if m*n > 1<<17 {
			n = 1<<17/m + 1
		}
		atEachLevel(t, func(t *testing.T) {
			checkTranspose(t, m, n, int(padDst), int(padSrc))
			checkInterleave(t, n, n+int(padSrc))
			if m > 0 && n > 0 {
				checkTransposeBytes(t, m, n, m+int(padDst), n+int(padSrc))
			}
		})
	})
}
