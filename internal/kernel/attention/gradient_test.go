package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// randomGradient draws a call of gradients, and computes what it reads of the forward run.
func randomGradient(t *testing.T, r *rand.Rand, most int) (p Params, a GradientArgs) {
	t.Helper()
	p, a.Args = randomCall(r, most)
	for p.Keys == 0 || p.Blind {
		p, a.Args = randomCall(r, most)
	}
	p.Zero, p.Cap, p.Sink, a.Lens, a.At, p.Left, p.Right = false, 0, false, nil, nil, -1, -1
	p.Stats = true
	if r.IntN(2) == 0 {
		p.Format = gemm.F32
	}
	for _, v := range [][]float32{a.K, a.Q} {
		for i, x := range v {
			if x == 1e30 { // whose sums are beyond float32
				v[i] = float32(inf)
			}
		}
	}
	a.Stats = make([]float32, 2*p.Batch*p.Heads*p.Queries)
	a.Y = run(t, r, p, a.Args)
	a.DY = floats(r, len(a.Y))
	if r.IntN(12) == 0 {
		a.DY[r.IntN(len(a.DY))] = float32(math.NaN())
	}
	a.DQ, a.DK, a.DV = untouched(len(a.Q)), untouched(len(a.K)), untouched(len(a.V))
	return p, a
}

// unset is what results hold before, and between rows.
const unset = 7e7

func untouched(n int) []float32 { return slices.Repeat([]float32{unset}, n) }

// runGradient computes a call in an order of chunks of its own.
func runGradient(t *testing.T, r *rand.Rand, p Params, a GradientArgs) GradientArgs {
	t.Helper()
	g, err := NewGradient(p)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	for _, v := range []*[]float32{&a.DQ, &a.DK, &a.DV} {
		*v = slices.Clone(*v)
	}
	scratch := make([]float32, g.ScratchLen())
	for phase := range g.Phases() {
		for _, c := range r.Perm(g.Chunks()) {
			for i := range scratch {
				scratch[i] = float32(math.NaN())
			}
			g.Run(phase, c, &a, scratch)
		}
	}
	return a
}

// compareGradients compares a random call with the definition, element by element beside the
// greatest, as sums of both signs may come to little.
func compareGradients(t *testing.T, r *rand.Rand, most int) {
	t.Helper()
	p, a := randomGradient(t, r, most)
	want := a
	want.DQ, want.DK, want.DV = slices.Clone(a.DQ), slices.Clone(a.DK), slices.Clone(a.DV)
	GradientReference(p, &want)
	got := runGradient(t, r, p, a)
	off := 2e-5
	if p.Format != gemm.F32 {
		off = 0.03
	}
	for name, v := range map[string][2][]float32{"q": {got.DQ, want.DQ}, "k": {got.DK, want.DK},
		"v": {got.DV, want.DV}} {
		most := 1.0
		for _, w := range v[1] {
			if w-w == 0 {
				most = max(most, math.Abs(float64(w)))
			}
		}
		for i, w := range v[1] {
			g := v[0][i]
			if g == unset && w == 0 { // between rows
				continue
			}
			if (g-g == 0) != (w-w == 0) || math.Abs(float64(g-w)) > off*most {
				t.Fatalf("%+v: element %d by %s is %g, want %g", p, i, name, g, w)
			}
		}
	}
}

// TestGradientReference compares random calls with the definition at every level, in any order of
// chunks of a phase.
func TestGradientReference(t *testing.T) {
	for calls, level := range map[int]func(*testing.T, func(*testing.T)){40: cputest.EachPath,
		20: cputest.OnTiles} {
		if testing.Short() { // emulated, calls of several blocks take long
			calls /= 5
		}
		level(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 7))
			for i := range calls {
				compareGradients(t, r, 40+i%10/9*260)
			}
		})
	}
}

// FuzzGradient compares a call drawn from the fuzzer's numbers with the definition.
func FuzzGradient(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint8(40))
	}
	f.Fuzz(func(t *testing.T, seed uint64, most uint8) {
		compareGradients(t, rand.New(rand.NewPCG(seed, 13)), 1+int(most)/2)
	})
}

// TestPhasesMeetOnce: in no phase do two chunks add to the same sums, and over all phases each
// block of queries meets each of keys once.
func TestPhasesMeetOnce(t *testing.T) {
	for _, n := range [][2]int{{100, 700}, {700, 100}, {400, 400}, {1, 300}} {
		one := Layout{Batch: 1 << 20, Head: 1 << 16, Row: 1}
		g, err := NewGradient(Params{Batch: 2, Heads: 4, KVHeads: 2, Queries: n[0], Keys: n[1],
			Size: 1, ValueSize: 1, Q: one, K: one, V: one, Y: one, Left: -1, Right: -1,
			Stats: true})
		if err != nil {
			t.Fatal(err)
		}
		met, began := map[string]int{}, map[string]int{}
		for phase := range g.Phases() {
			busy := map[string]bool{}
			for c := range g.Chunks() {
				x := pair{Gradient: g}
				x.place(phase, c)
				q := fmt.Sprint("q", x.batch, x.head, x.first)
				k := fmt.Sprint("k", x.batch, x.kv, x.key)
				if busy[q] || busy[k] {
					t.Fatalf("%v: two chunks of phase %d have %s or %s", n, phase, q, k)
				}
				busy[q], busy[k] = true, true
				if x.newQ != (began[q] == 0) || x.newK != (began[k] == 0) {
					t.Fatalf("%v: phase %d: %s new %v, %s new %v", n, phase, q, x.newQ, k, x.newK)
				}
				began[q]++
				began[k]++
				met[fmt.Sprint(x.batch, x.head, x.first, x.key)]++
			}
		}
		if want := 2 * 4 * g.down * g.across; len(met) != want {
			t.Errorf("%v: %d pairs, want %d", n, len(met), want)
		}
		for at, times := range met {
			if times != 1 {
				t.Errorf("%v: pair %s meets %d times", n, at, times)
			}
		}
	}
}

func BenchmarkGradient(b *testing.B) {
	for _, c := range []struct{ n, size int }{{128, 32}, {128, 64}, {1024, 64}, {-128, 32},
		{-128, 64}} {
		b.Run(fmt.Sprint(c.n, "x", c.size), func(b *testing.B) {
			const heads = 12
			l := Layout{Head: c.size, Row: heads * c.size}
			p := Params{Batch: 1, Heads: heads, KVHeads: heads, Size: c.size, ValueSize: c.size,
				Q: l, K: l, V: l, Y: l, Scale: 0.125, Left: -1, Right: -1, Hidden: float32(-inf),
				Stats: true}
			p.Queries = max(c.n, -c.n)
			p.Keys = p.Queries
			if c.n < 0 {
				p.Format = gemm.BF16
			}
			r := rand.New(rand.NewPCG(1, 1))
			n := p.Queries * heads * c.size
			a := GradientArgs{Args: Args{Q: floats(r, n), K: floats(r, n), V: floats(r, n),
				Y: floats(r, n), Stats: slices.Repeat([]float32{5, 20}, heads*p.Queries)},
				DY: floats(r, n), DQ: floats(r, n), DK: floats(r, n), DV: floats(r, n)}
			g, err := NewGradient(p)
			if err != nil {
				b.Fatal(err)
			}
			scratch := make([]float32, g.ScratchLen())
			for b.Loop() {
				for phase := range g.Phases() {
					for c := range g.Chunks() {
						g.Run(phase, c, &a, scratch)
					}
				}
			}
			b.ReportMetric(10*float64(n)*float64(p.Keys)*float64(b.N)/float64(
				b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}

// TestScoresFit: at every level there is room for the scores of a block of any number of keys.
func TestScoresFit(t *testing.T) {
	cputest.EachPath(t, func(t *testing.T) {
		for keys := range 600 {
			g, err := NewGradient(gradientParams(84, keys+1, 1))
			if err != nil {
				t.Fatal(err)
			}
			for phase := range g.Phases() {
				x := pair{Gradient: g}
				if x.place(phase, 0); x.n*x.ld > g.lenS {
					t.Errorf("%d of %d keys: %d rows %d apart, room for %d", x.m, keys+1, x.n, x.ld,
						g.lenS)
				}
			}
		}
	})
}

// gradientParams are those of a head whose vectors have so many elements.
func gradientParams(queries, keys, size int) Params {
	l := Layout{Batch: max(queries, keys) * size, Head: max(queries, keys) * size, Row: size}
	return Params{Batch: 1, Heads: 1, KVHeads: 1, Queries: queries, Keys: keys, Size: size,
		ValueSize: size, Q: l, K: l, V: l, Y: l, Scale: 1, Left: -1, Right: -1,
		Hidden: float32(-inf), Stats: true}
}

// gradientArgs draws the data of a call of one head.
func gradientArgs(t *testing.T, r *rand.Rand, p Params) (a GradientArgs) {
	t.Helper()
	n := p.Q.Head
	a.Q, a.K, a.V, a.Y, a.DY = floats(r, n), floats(r, n), floats(r, n), floats(r, n), floats(r, n)
	a.Stats = make([]float32, 2*p.Queries)
	a.Y = run(t, r, p, a.Args)
	a.DQ, a.DK, a.DV = untouched(n), untouched(n), untouched(n)
	return a
}

// TestScratchDoesNotMatter: where the gradients of weights are beyond float32 only for keys that no
// query sees, results are the same numbers whatever scratch held before.
func TestScratchDoesNotMatter(t *testing.T) {
	cputest.EachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(6, 8))
		p := gradientParams(5, 300, 1)
		p.Causal, p.Added, p.Scale = true, true, 1e10
		a := gradientArgs(t, r, p)
		for i := range a.DY {
			a.Q[i], a.DY[i], a.V[i] = 0, 1e18, 1e-18
			if i >= 150 {
				a.V[i] = 1e18
			}
		}
		a.Y = run(t, r, p, a.Args)
		for i, v := range runGradient(t, r, p, a).DK {
			if v-v != 0 {
				t.Fatalf("element %d by k is %g", i, v)
			}
		}
	})
}

// TestBiasedAgain: keys that are hidden by place with a finite score count where a bias has raised
// that again, in whole blocks of which no query sees a key, too.
func TestBiasedAgain(t *testing.T) {
	cputest.EachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(6, 9))
		p := gradientParams(5, 300, 3)
		p.Causal, p.Hidden = true, -200
		a := gradientArgs(t, r, p)
		p.Bias.Given, a.Bias = true, make([]float32, p.Keys)
		for i := p.Queries; i < p.Keys; i++ {
			a.Bias[i] = 200 + float32(r.NormFloat64())
		}
		a.Y = run(t, r, p, a.Args)
		want := a
		want.DQ, want.DK, want.DV = untouched(p.Q.Head), untouched(p.K.Head), untouched(p.V.Head)
		GradientReference(p, &want)
		got := runGradient(t, r, p, a)
		compareWithin(t, "by values", got.DV, want.DV, 1e-4)
		compareWithin(t, "by keys", got.DK, want.DK, 1e-4)
		compareWithin(t, "by queries", got.DQ[:p.Queries*p.Size], want.DQ[:p.Queries*p.Size], 1e-4)
	})
}
