package attention

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

var inf = math.Inf(1)

// layout draws the strides of an operand and the floats that it takes: heads before positions or
// after them.
func layout(r *rand.Rand, batch, heads, rows, size int) (l Layout, n int) {
	pad := r.IntN(2) * r.IntN(5)
	if r.IntN(2) == 0 {
		l = Layout{Batch: heads * rows * (size + pad), Head: rows * (size + pad), Row: size + pad}
	} else {
		l = Layout{Batch: heads * rows * (size + pad), Head: size + pad, Row: heads * (size + pad)}
	}
	return l, batch * heads * rows * (size + pad)
}

func mask(r *rand.Rand, batch, heads, rows, keys int) (m Mask, n int) {
	m.Given = true
	if m.Single = r.IntN(6) == 0; m.Single {
		keys = 1
	}
	n = keys
	if r.IntN(2) == 0 {
		m.Row, n = n, n*rows
	}
	if r.IntN(2) == 0 {
		m.Head, n = n, n*heads
	}
	if r.IntN(2) == 0 {
		m.Batch, n = n, n*batch
	}
	return m, n
}

func floats(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// randomCall draws a call; every option has a fair chance.
func randomCall(r *rand.Rand, most int) (p Params, a Args) {
	p = Params{
		Batch:     1 + r.IntN(2),
		KVHeads:   1 + r.IntN(3),
		Queries:   1 + r.IntN(most),
		Keys:      r.IntN(3 * most),
		Size:      1 + r.IntN(70),
		ValueSize: 1 + r.IntN(70),
		Scale:     r.Float32(),
		Left:      -1,
		Right:     -1,
		Hidden:    float32(-inf),
		Zero:      r.IntN(2) == 0,
		Added:     r.IntN(3) == 0,
		Format:    gemm.Format(r.IntN(2) * r.IntN(2)),
	}
	p.Heads = p.KVHeads * (1 + r.IntN(3))
	if r.IntN(4) == 0 {
		p.Queries = 1
	}
	var n int
	p.Q, n = layout(r, p.Batch, p.Heads, p.Queries, p.Size)
	a.Q = floats(r, n)
	p.K, n = layout(r, p.Batch, p.KVHeads, p.Keys, p.Size)
	a.K = floats(r, n)
	p.V, n = layout(r, p.Batch, p.KVHeads, p.Keys, p.ValueSize)
	a.V = floats(r, n)
	p.Y, n = layout(r, p.Batch, p.Heads, p.Queries, p.ValueSize)
	a.Y = floats(r, n)
	if p.Keys > 0 && r.IntN(6) == 0 {
		a.V[r.IntN(len(a.V))] = float32(math.NaN())
		a.K[r.IntN(len(a.K))] = []float32{float32(inf), 1e30, float32(math.NaN())}[r.IntN(3)]
	}
	randomMasks(r, &p, &a)
	if p.Keys > 0 && r.IntN(3) == 0 {
		p.Blind, p.Hidden, p.Added, p.Keep, p.Bias, p.Format = true, float32(-inf), false,
			Mask{}, Mask{}, gemm.F32
	}
	if r.IntN(4) == 0 {
		p.Sink, a.Sinks, p.Zero = true, floats(r, p.Heads), false
	}
	if p.Added {
		p.Hidden = float32(-inf)
		placed := p.Causal || p.Left >= 0 || p.Right >= 0 || a.Lens != nil
		if r.IntN(2) == 0 && !(p.Keep.Given && placed) {
			p.Hidden = -math.MaxFloat32
		}
	}
	return p, a
}

func randomMasks(r *rand.Rand, p *Params, a *Args) {
	p.Causal, p.Offset = r.IntN(2) == 0, p.Keys-p.Queries+r.IntN(5)-2
	for _, v := range []*int{&p.Left, &p.Right} {
		if r.IntN(4) == 0 {
			*v = r.IntN(p.Keys + 1)
		}
	}
	if r.IntN(4) == 0 {
		p.Cap = 1 + r.Float32()
	}
	if r.IntN(3) == 0 {
		p.Hidden = []float32{-10000, -math.MaxFloat32, -3, 0}[r.IntN(4)]
	}
	if r.IntN(4) == 0 {
		for range p.Batch {
			a.Lens = append(a.Lens, int64(r.IntN(p.Keys+1)))
		}
		if r.IntN(2) == 0 {
			for range p.Batch {
				a.At = append(a.At, int64(r.IntN(p.Keys+1)))
			}
		}
	}
	var n int
	if r.IntN(3) == 0 {
		p.Keep, n = mask(r, p.Batch, p.Heads, p.Queries, p.Keys)
		a.Keep = make([]byte, n)
		for i := range a.Keep {
			a.Keep[i] = byte(min(r.IntN(20), 1))
		}
	}
	if r.IntN(2) == 0 {
		p.Bias, n = mask(r, p.Batch, p.Heads, p.Queries, p.Keys)
		a.Bias = floats(r, n)
		for i := range a.Bias {
			switch r.IntN(12) {
			case 0:
				a.Bias[i] = float32(-inf)
			case 1:
				a.Bias[i] = -math.MaxFloat32
			}
		}
	}
}

// run computes a call in an order of chunks of its own.
func run(t *testing.T, r *rand.Rand, p Params, a Args) (y []float32) {
	t.Helper()
	o, err := New(p)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	a.Y = slices.Clone(a.Y)
	scratch := make([]float32, o.ScratchLen())
	for _, c := range r.Perm(o.Chunks()) {
		for i := range scratch {
			scratch[i] = float32(math.NaN())
		}
		o.Run(c, &a, scratch)
	}
	return a.Y
}

func compare(t *testing.T, what string, got, want []float32) {
	t.Helper()
	compareWithin(t, what, got, want, 0)
}

// compareWithin compares results of which each may be off by so much, beside what sums in float32
// may be.
func compareWithin(t *testing.T, what string, got, want []float32, off float64) {
	t.Helper()
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if math.IsNaN(g) != math.IsNaN(w) || math.Abs(g-w) > off+2e-5*max(1, math.Abs(w)) {
			t.Fatalf("%s: element %d is %g, want %g", what, i, g, w)
		}
	}
}

// rounding is how much rounding weights and values, each by 2^-9 of itself, may change a result.
func rounding(p Params, a Args) (off float64) {
	if !p.Format.OnTiles() || p.Format == gemm.F32 {
		return 0
	}
	for _, v := range a.V {
		if v-v == 0 {
			off = max(off, math.Abs(float64(v))/256)
		}
	}
	return off
}

// TestReference compares random calls with the definition at every level, in any order of chunks.
func TestReference(t *testing.T) {
	for calls, level := range map[int]func(*testing.T, func(*testing.T)){120: cputest.EachPath,
		40: cputest.OnTiles} {
		level(t, func(t *testing.T) { compareRandom(t, calls) })
	}
}

func compareRandom(t *testing.T, calls int) {
	r := rand.New(rand.NewPCG(7, 7))
	for i := range calls {
		most := 40
		if i%10 == 0 {
			most = 130
		}
		p, a := randomCall(r, most)
		want := a
		want.Y = slices.Clone(a.Y)
		Reference(p, &want)
		compareWithin(t, fmt.Sprintf("call %d %+v lens %v", i, p, a.Lens), run(t, r, p, a), want.Y,
			rounding(p, a))
	}
}

// FuzzRun compares a call drawn from the fuzzer's numbers with the definition.
func FuzzRun(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint8(40))
	}
	f.Fuzz(func(t *testing.T, seed uint64, most uint8) {
		r := rand.New(rand.NewPCG(seed, 11))
		p, a := randomCall(r, 1+int(most)/2)
		want := a
		want.Y = slices.Clone(a.Y)
		Reference(p, &want)
		compareWithin(t, fmt.Sprintf("%+v lens %v", p, a.Lens), run(t, r, p, a), want.Y,
			rounding(p, a))
	})
}

// TestHiddenValues holds that keys that nobody sees may be anything, and that values are as the
// formula has them.
func TestHiddenValues(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := Params{
		Batch:     1,
		Heads:     1,
		KVHeads:   1,
		Queries:   70,
		Keys:      300,
		Size:      16,
		ValueSize: 16,
		Scale:     1,
		Left:      -1,
		Right:     -1,
		Hidden:    float32(-inf),
		Q:         Layout{Row: 16},
		K:         Layout{Row: 16},
		V:         Layout{Row: 16},
		Y:         Layout{Row: 16},
	}
	a := Args{
		Q:    floats(r, 70*16),
		K:    floats(r, 300*16),
		V:    floats(r, 300*16),
		Y:    make([]float32, 70*16),
		Lens: []int64{100},
	}
	for i := 126 * 16; i < len(a.K); i++ {
		a.K[i] = float32(inf)
	}
	want := a
	want.Y = slices.Clone(a.Y)
	Reference(p, &want)
	compare(t, "padding", run(t, r, p, a), want.Y)
	a.V[200*16] = float32(math.NaN())
	want.Y = slices.Clone(a.Y)
	want.V = a.V
	Reference(p, &want)
	compare(t, "NaN among hidden values", run(t, r, p, a), want.Y)
}

// TestLongRows holds that blocks of keys join to one softmax when the greatest score comes late and
// is far above the rest.
func TestLongRows(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	p := Params{
		Batch:     1,
		Heads:     2,
		KVHeads:   1,
		Queries:   33,
		Keys:      1500,
		Size:      8,
		ValueSize: 8,
		Scale:     10,
		Left:      -1,
		Right:     -1,
		Hidden:    float32(-inf),
		Q:         Layout{Head: 33 * 8, Row: 8},
		K:         Layout{Row: 8},
		V:         Layout{Row: 8},
		Y:         Layout{Head: 33 * 8, Row: 8},
	}
	a := Args{
		Q: floats(r, 2*33*8),
		K: floats(r, 1500*8),
		V: floats(r, 1500*8),
		Y: make([]float32, 2*33*8),
	}
	want := a
	want.Y = slices.Clone(a.Y)
	Reference(p, &want)
	got := run(t, r, p, a)
	for i, w := range want.Y {
		if d := math.Abs(float64(got[i] - w)); d > 1e-4 {
			t.Fatalf("element %d is %g, want %g", i, got[i], w)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	p, a := randomCall(rand.New(rand.NewPCG(2, 3)), 60)
	o, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	scratch := make([]float32, o.ScratchLen())
	if n := testing.AllocsPerRun(5, func() { o.Run(0, &a, scratch) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNewRefuses(t *testing.T) {
	good := Params{
		Batch:     1,
		Heads:     2,
		KVHeads:   1,
		Queries:   3,
		Keys:      3,
		Size:      4,
		ValueSize: 4,
		Q:         Layout{Row: 4},
		K:         Layout{Row: 4},
		V:         Layout{Row: 4},
		Y:         Layout{Row: 4},
	}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Params){
		"negative":   func(p *Params) { p.Queries = -1 },
		"huge":       func(p *Params) { p.Keys = math.MaxInt },
		"no size":    func(p *Params) { p.Size = 0 },
		"heads":      func(p *Params) { p.KVHeads = 3 },
		"rows":       func(p *Params) { p.V.Row = 3 },
		"mask":       func(p *Params) { p.Bias.Row = -1 },
		"format":     func(p *Params) { p.Format = gemm.U8S8 },
		"blind":      func(p *Params) { p.Blind = true },
		"no kv head": func(p *Params) { p.KVHeads = 0 },
		"added":      func(p *Params) { p.Added, p.Hidden = true, -10000 },
		"added twice": func(p *Params) {
			p.Added, p.Hidden, p.Keep.Given, p.Causal = true, -math.MaxFloat32, true, true
		},
	} {
		p := good
		change(&p)
		if _, err := New(p); !errors.Is(err, ErrParams) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyKeys weighs values all alike with weights almost alike, so that rounding errors of
// running sums have one sign: for many queries, for few and where scores keep growing.
func TestManyKeys(t *testing.T) {
	const keys = 1 << 18
	one := Layout{Row: 1}
	p := Params{Batch: 1, Heads: 1, KVHeads: 1, Keys: keys, Size: 1, ValueSize: 1, Scale: 1,
		Q: one, K: one, V: one, Y: one, Left: -1, Right: -1, Hidden: float32(-inf)}
	a := Args{K: make([]float32, keys), V: make([]float32, keys)}
	for _, slope := range []float64{0, 1e-5} {
		for i := range a.K {
			a.K[i], a.V[i] = float32(slope*float64(i)), 0.1+float32(i%5/4)*0.01
		}
		a.K[0] = float32(slope*keys) + float32(math.Log(10)) // a weight of 1 where others are 0.1
		for _, queries := range []int{1, 3, 40} {
			p.Queries = queries
			a.Q, a.Y = make([]float32, queries), make([]float32, queries)
			for i := range a.Q {
				a.Q[i] = 1
			}
			want := make([]float32, queries)
			ref := a
			ref.Y = want[:1]
			first := p
			first.Queries = 1
			Reference(first, &ref)
			cputest.EachPath(t, func(t *testing.T) { checkManyKeys(t, p, a, want[0]) })
		}
	}
}

func checkManyKeys(t *testing.T, p Params, a Args, want float32) {
	t.Helper()
	o, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	scratch := make([]float32, o.ScratchLen())
	for i := range scratch {
		scratch[i] = float32(math.NaN())
	}
	for c := range o.Chunks() {
		o.Run(c, &a, scratch)
	}
	for i, y := range a.Y {
		if d := math.Abs(float64(y) - float64(want)); !(d <= 1e-4*float64(want)) {
			t.Fatalf("%d queries: result %d is %v, want %v", p.Queries, i, y, want)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	for _, n := range []int{1, 32, 128, 512, -128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			format := gemm.F32
			if n < 0 {
				n, format = -n, gemm.BF16
			}
			const heads, size = 12, 64
			l := Layout{Head: size, Row: heads * size}
			keys := max(n, 128)
			p := Params{
				Batch:     1,
				Heads:     heads,
				KVHeads:   heads,
				Queries:   n,
				Keys:      keys,
				Size:      size,
				ValueSize: size,
				Q:         l,
				K:         l,
				V:         l,
				Y:         l,
				Scale:     0.125,
				Left:      -1,
				Right:     -1,
				Hidden:    float32(-inf),
				Format:    format,
			}
			r := rand.New(rand.NewPCG(1, 1))
			a := Args{
				Q: floats(r, n*heads*size),
				K: floats(r, keys*heads*size),
				V: floats(r, keys*heads*size),
				Y: make([]float32, n*heads*size),
			}
			o, err := New(p)
			if err != nil {
				b.Fatal(err)
			}
			scratch := make([]float32, o.ScratchLen())
			for b.Loop() {
				for c := range o.Chunks() {
					o.Run(c, &a, scratch)
				}
			}
			b.ReportMetric(
				4*heads*size*float64(n)*float64(keys)*float64(b.N)/float64(
					b.Elapsed().Nanoseconds()),
				"GFLOP/s",
			)
		})
	}
}
