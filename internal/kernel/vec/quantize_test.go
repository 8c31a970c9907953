package vec

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// requantizations are the functions from numbers to bytes, each with its definition, on the same
// arbitrary bits.
var requantizations = []struct {
	name      string
	set       func(r *Requantization, s, u float32, add int32, to Bytes)
	fast, ref func(dst []byte, x []float32, y []byte, r *Requantization)
}{
	{"sums", func(r *Requantization, s, _ float32, add int32, to Bytes) { r.Sums(add, s, to) },
		func(dst []byte, x []float32, _ []byte, r *Requantization) {
			RequantizeInts(dst, bitsOf(x), r)
		},
		func(dst []byte, x []float32, _ []byte, r *Requantization) {
			requantizeIntsRef(dst, bitsOf(x), r)
		}},
	{"sums held as floats", func(r *Requantization, s, _ float32, add int32, to Bytes) {
		r.Sums(add, s, to)
	},
		func(dst []byte, x []float32, _ []byte, r *Requantization) {
			RequantizeFloats(dst, whole(x), r)
		},
		func(dst []byte, x []float32, _ []byte, r *Requantization) {
			requantizeFloatsRef(dst, whole(x), r)
		}},
	{"numbers", func(r *Requantization, s, _ float32, _ int32, to Bytes) { r.Numbers(s, to) },
		func(dst []byte, x []float32, _ []byte, r *Requantization) { Quantize(dst, x, r) },
		func(dst []byte, x []float32, _ []byte, r *Requantization) {
			quantizeFloatsRef(dst, x, r)
		}},
	{"unsigned bytes", func(r *Requantization, s, u float32, _ int32, to Bytes) {
		r.Rescaled(s, u, to)
	},
		func(dst []byte, _ []float32, y []byte, r *Requantization) { Rescale(dst, y, false, r) },
		func(dst []byte, _ []float32, y []byte, r *Requantization) {
			rescaleUint8Ref(dst, y[:len(dst)], r)
		}},
	{"signed bytes", func(r *Requantization, s, u float32, _ int32, to Bytes) {
		r.Rescaled(s, u, to)
	},
		func(dst []byte, _ []float32, y []byte, r *Requantization) { Rescale(dst, y, true, r) },
		func(dst []byte, _ []float32, y []byte, r *Requantization) {
			rescaleInt8Ref(dst, int8s(y)[:len(dst)], r)
		}},
	{"sum of unsigned bytes", func(r *Requantization, s, u float32, add int32, to Bytes) {
		r.Added(s, u, float32(add%300), to)
	},
		func(dst []byte, _ []float32, y []byte, r *Requantization) {
			AddBytes(dst, y, y[1:], false, r)
		},
		func(dst []byte, _ []float32, y []byte, r *Requantization) {
			addUint8Ref(dst, y[:len(dst)], y[1:], r)
		}},
	{"sum of signed bytes", func(r *Requantization, s, u float32, add int32, to Bytes) {
		r.Added(s, u, float32(add%300), to)
	},
		func(dst []byte, _ []float32, y []byte, r *Requantization) {
			AddBytes(dst, y, y[1:], true, r)
		},
		func(dst []byte, _ []float32, y []byte, r *Requantization) {
			addInt8Ref(dst, int8s(y)[:len(dst)], int8s(y)[1:], r)
		}},
}

// whole keeps numbers that are integers below 2^31.
func whole(x []float32) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		if math.Abs(float64(v)) < 1<<31 {
			out[i] = float32(int32(v))
		}
	}
	return out
}

func TestRequantize(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 7))
		for _, f := range requantizations {
			for _, n := range append(tailLengths(), 1, 15, 16, 17, 49) {
				checkRequantization(t, r, n, f.name, f.set, f.fast, f.ref)
			}
		}
	})
}

func checkRequantization(t *testing.T, r *rand.Rand, n int, name string,
	set func(*Requantization, float32, float32, int32, Bytes),
	fast, ref func([]byte, []float32, []byte, *Requantization)) {
	t.Helper()
	x, y := make([]float32, n), make([]byte, n+1)
	for i := range x {
		x[i] = math.Float32frombits(r.Uint32())
		if r.IntN(4) > 0 {
			x[i] = float32(r.NormFloat64() * 100)
		}
		y[i] = byte(r.Uint32())
	}
	to := Bytes{Zero: int32(r.IntN(256)), Signed: r.IntN(2) == 0}
	if to.Signed {
		to.Zero -= 128
	}
	var p Requantization
	set(&p, float32(r.NormFloat64()), float32(r.NormFloat64()*3), int32(r.Uint32()), to)
	if name[:4] != "sum " && r.IntN(2) == 0 {
		p.Then(float32(r.NormFloat64()), float32(r.NormFloat64()*9),
			Bytes{Zero: int32(r.IntN(100)), Signed: r.IntN(2) == 0})
	}
	got, want := make([]byte, n+1), make([]byte, n+1)
	got[n], want[n] = 77, 77
	fast(got[:n], x, y, &p)
	ref(want[:n], x, y, &p)
	if !bytes.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		t.Fatalf("%s, %d elements, %+v: element %d of %v is %d, want %d", name, n, p, i,
			x[min(i, n-1)], got[i], want[i])
	}
}

// TestQuantizeIsONNXs states the rounding in numbers: to even, before the zero point is added, and
// saturation.
func TestQuantizeIsONNXs(t *testing.T) {
	var p Requantization
	p.Numbers(2, Bytes{Zero: 1})
	x := []float32{3, 5, -1, 1e9, -1e9, float32(math.Inf(1)), float32(math.NaN())}
	got := make([]byte, len(x))
	Quantize(got, x, &p)
	if want := []byte{3, 3, 1, 255, 0, 255, 0}; !bytes.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	p.Numbers(1, Bytes{Zero: -3, Signed: true})
	Quantize(got[:1], []float32{-200}, &p)
	if int8(got[0]) != -128 {
		t.Errorf("-200 became %d", int8(got[0]))
	}
}

// TestRequantizeTies holds that every way to bytes rounds numbers in the middle of two steps to the
// even one, and leaves the others, in vectors and in what is left after them.
func TestRequantizeTies(t *testing.T) {
	const n = 67
	ints, floats, a, zero := make([]int32, n), make([]float32, n), make([]byte, n), make([]byte, n)
	first := [3]uint32{1} // weights of windows that see their first byte alone
	want := make([]byte, n)
	for i := range n {
		ints[i], floats[i], a[i] = int32(i), float32(i), byte(i)
		want[i] = []byte{0, 0, 1, 2}[i%4] + byte(i/4*2) + 1 // i/2 to even, and the zero point
	}
	to := Bytes{Zero: 1}
	ways := map[string]func(dst []byte, r *Requantization){
		"sums": func(dst []byte, r *Requantization) {
			r.Sums(0, 0.5, to)
			RequantizeInts(dst, ints, r)
		},
		"sums held as floats": func(dst []byte, r *Requantization) {
			r.Sums(0, 0.5, to)
			RequantizeFloats(dst, floats, r)
		},
		"rows": func(dst []byte, r *Requantization) {
			r.Sums(0, 0.5, to)
			RequantizeRows(dst, n, ints, n, n, []Requantization{*r})
		},
		"rows held as floats": func(dst []byte, r *Requantization) {
			r.Sums(0, 0.5, to)
			RequantizeFloatRows(dst, n, floats, n, n, []Requantization{*r})
		},
		"windows": func(dst []byte, r *Requantization) {
			r.Sums(0, 0.5, to)
			Windows3(dst, n, append(slices.Clone(a), make([]byte, 3*n+WindowSlack)...), n, 1, 1,
				&first, r)
		},
		"numbers": func(dst []byte, r *Requantization) {
			r.Numbers(2, to)
			Quantize(dst, floats, r)
		},
		"second stage": func(dst []byte, r *Requantization) {
			r.Numbers(1, Bytes{})
			r.Then(0.5, 0, to)
			Quantize(dst, floats, r)
		},
		"bytes": func(dst []byte, r *Requantization) {
			r.Rescaled(0.5, 0, to)
			Rescale(dst, a, false, r)
		},
		"signed bytes": func(dst []byte, r *Requantization) {
			r.Rescaled(0.5, 0, to)
			Rescale(dst, a, true, r)
		},
		"sum of bytes": func(dst []byte, r *Requantization) {
			r.Added(0.5, 1, 0, to)
			AddBytes(dst, a, zero, false, r)
		},
		"sum of signed bytes": func(dst []byte, r *Requantization) {
			r.Added(0.5, 1, 0, to)
			AddBytes(dst, a, zero, true, r)
		},
	}
	atEachLevel(t, func(t *testing.T) {
		for name, way := range ways {
			var r Requantization
			got := make([]byte, n)
			if way(got, &r); !bytes.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
	})
}

// bitsOf are the integers of the same bits.
func bitsOf(x []float32) []int32 {
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(math.Float32bits(v))
	}
	return out
}

func TestRequantizeRows(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(8, 8))
		for range 300 {
			rows, cols := 1+r.IntN(20), 1+r.IntN(70)
			if r.IntN(20) == 0 {
				rows, cols = 100, 200 // more than one call
			}
			ldx, ldd := cols+r.IntN(3), cols+r.IntN(3)
			x, p := make([]int32, rows*ldx), make([]Requantization, rows)
			for i := range x {
				x[i] = int32(r.Uint32()) >> r.IntN(32)
			}
			for i := range p {
				p[i].Sums(int32(r.IntN(1000)), r.Float32(), Bytes{Zero: int32(r.IntN(100))})
				if i%3 == 0 {
					p[i].Then(r.Float32(), r.Float32(), Bytes{Signed: true})
				}
			}
			got, want := make([]byte, rows*ldd), make([]byte, rows*ldd)
			RequantizeRows(got, ldd, x, ldx, cols, p)
			for i := range p {
				requantizeIntsRef(want[i*ldd:][:cols], x[i*ldx:][:cols], &p[i])
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d rows of %d: got %v, want %v", rows, cols, got, want)
			}
			f := make([]float32, len(x))
			for i := range f {
				f[i] = float32(x[i] >> 8)
			}
			RequantizeFloatRows(got, ldd, f, ldx, cols, p)
			for i := range p {
				requantizeFloatsRef(want[i*ldd:][:cols], f[i*ldx:][:cols], &p[i])
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d rows of %d floats: got %v, want %v", rows, cols, got, want)
			}
		}
	})
}

func TestDequantize(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		x := make([]byte, 600)
		for i := range x {
			x[i] = byte(i)
		}
		for _, n := range []int{0, 1, 7, 8, 16, 31, 600} {
			got := make([]float32, n+1)
			for _, signed := range []bool{false, true} {
				Dequantize(got[:n], x, signed, 0.3, 7)
				for i, g := range got[:n] {
					v := float32(x[i])
					if signed {
						v = float32(int8(x[i]))
					}
					if want := (v - 7) * 0.3; g != want || got[n] != 0 {
						t.Fatalf("element %d of %d is %v, want %v", i, n, g, want)
					}
				}
			}
		}
	})
}

func TestLookup(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 9))
		var table [256]byte
		for i := range table {
			table[i] = byte(r.Uint32())
		}
		for _, n := range append(tailLengths(), 63, 64, 65, 5*8192) {
			x, got, want := make([]byte, n), make([]byte, n+1), make([]byte, n+1)
			for i := range x {
				x[i] = byte(r.Uint32())
				want[i] = table[x[i]]
			}
			Lookup(got[:n], x, &table)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes differ", n)
			}
		}
	})
}

func TestWindows3(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(10, 10))
		for k := range 200 {
			rows, cols, stride := 1+r.IntN(9), 1+r.IntN(50), 1+k%3
			if k == 50 {
				rows, cols = 90, 120 // more than one call
			}
			pitch := (cols-1)*stride + 3 + r.IntN(4)
			x := make([]byte, ((rows-1)*stride+2)*pitch+(cols-1)*stride+3+WindowSlack-1)
			for i := range x {
				x[i] = byte(r.Uint32())
			}
			var w [3]uint32
			for i := range w {
				w[i] = r.Uint32() >> 8
			}
			var p Requantization
			p.Sums(int32(r.IntN(1000)), r.Float32()/200, Bytes{Zero: int32(r.IntN(200))})
			if k%4 == 0 {
				p.Then(r.Float32(), r.Float32(), Bytes{Signed: true})
			}
			got, want := make([]byte, rows*cols+1), make([]byte, rows*cols+1)
			Windows3(got[:rows*cols], cols, x, pitch, stride, rows, &w, &p)
			windows3Ref(want, cols, x, pitch, stride, rows, &w, &p)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d rows of %d by %d: got %v, want %v", rows, cols, stride, got, want)
			}
		}
	})
}
