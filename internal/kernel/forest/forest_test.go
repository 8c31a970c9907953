package forest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// holds is the definition of a comparison.
func holds[T Float](m *Model, s Split, v T) bool {
	if v != v && s.MissingTrue {
		return true
	}
	w := T(s.Value)
	switch s.Kind {
	case LessEqual:
		return v <= w
	case Less:
		return v < w
	case GreaterEqual:
		return v >= w
	case Greater:
		return v > w
	case Equal:
		return v == w
	case NotEqual:
		return v != w
	}
	return slices.ContainsFunc(m.Sets[int(s.Value)], func(e float64) bool { return v == T(e) })
}

// scores is the definition of Forest.Scores.
func scores[T Float](m *Model, x []T, rows, features int, how How) ([]T, []bool) {
	out, has := make([]T, rows*m.Outputs), make([]bool, rows*m.Outputs)
	for r := range rows {
		for _, at := range m.Roots {
			s := m.Splits[at]
			for s.Kind != Leaf {
				next := s.No
				if holds(m, s, x[r*features+int(s.Feature)]) {
					next = s.Yes
				}
				s = m.Splits[next]
			}
			for _, w := range m.Weights[s.Yes:s.No] {
				o, v := &out[r*m.Outputs+int(w.Output)], T(w.Value)
				seen := &has[r*m.Outputs+int(w.Output)]
				switch {
				case how == Sum:
					*o += v
				case !*seen || how == Min && v < *o || how == Max && v > *o:
					*o = v
				}
				*seen = true
			}
		}
	}
	return out, has
}

// extreme are values at which comparisons are easily wrong.
var extreme = []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(),
	math.MaxFloat32, -math.MaxFloat32,
	math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0.5}

func randomModel(r *rand.Rand, kinds []Kind, features int) *Model {
	m := &Model{Outputs: 1 + r.IntN(3)}
	for range 1 + r.IntN(11) {
		first := int32(len(m.Splits))
		m.Roots = append(m.Roots, first)
		n := int32(1 + 2*r.IntN(1<<r.IntN(7)))
		for i := range n {
			s := Split{Kind: Leaf, Yes: int32(len(m.Weights))}
			if 2*i+2 < n {
				s = Split{Kind: kinds[r.IntN(len(kinds))], MissingTrue: r.IntN(3) == 0,
					Feature: int32(r.IntN(features)), Yes: first + 2*i + 1,
					No: first + 2*i + 2, Value: extreme[r.IntN(len(extreme))]}
			} else {
				for range r.IntN(3) {
					m.Weights = append(m.Weights,
						Weight{int32(r.IntN(m.Outputs)), float64(r.Float32() - 0.5)})
				}
				s.No = int32(len(m.Weights))
			}
			if s.Kind == Member {
				s.Value = float64(len(m.Sets))
				set := make([]float64, r.IntN(5))
				for k := range set {
					for set[k] = math.NaN(); set[k] != set[k]; {
						set[k] = extreme[r.IntN(len(extreme))]
					}
				}
				m.Sets = append(m.Sets, set)
			}
			m.Splits = append(m.Splits, s)
		}
	}
	return m
}

// agree compares a packed forest with the definition, bit by bit.
func agree[T Float](t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	features, rows := 1+r.IntN(4), r.IntN(40)
	kinds := []Kind{LessEqual, Less, GreaterEqual, Greater, Equal, NotEqual,
		Member}[:[]int{1, 4, 7}[r.IntN(3)]]
	m := randomModel(r, kinds, features)
	x := make([]T, rows*features)
	missing := r.IntN(2) == 0
	for i := range x {
		if x[i] = T(extreme[r.IntN(len(extreme))]); x[i] != x[i] && !missing {
			x[i] = 0
		}
	}
	f := New[T](m)
	bytes := aligned(Bytes[T](f.Layout()))
	f.Pack(bytes)
	for _, g := range []*Forest[T]{f, At[T](f.Layout(), bytes)} {
		for _, how := range []How{Sum, Min, Max} {
			want, wantHas := scores(m, x, rows, features, how)
			got, has := make([]T, len(want)), make([]bool, len(want))
			g.Scores(got, has, x, features, how)
			if !sameBits(got, want) || !slices.Equal(has, wantHas) {
				t.Fatalf("seed %d, way %d: got %v %v, want %v %v", seed, how, got, has, want,
					wantHas)
			}
			if how == Sum {
				if g.Scores(got, nil, x, features, how); !sameBits(got, want) {
					t.Fatalf("seed %d: got %v, want %v", seed, got, want)
				}
			}
		}
	}
}

// aligned makes memory that starts at a multiple of 8: that of a slice that is longer than the
// allocator's classes without alignment.
func aligned(n int) []byte { return make([]byte, n, n+64) }

func sameBits[T Float](a, b []T) bool {
	return slices.EqualFunc(a, b, func(x, y T) bool {
		return math.Float64bits(float64(x)) == math.Float64bits(float64(y))
	})
}

func TestForest(t *testing.T) {
	for seed := range uint64(4000) {
		agree[float32](t, seed)
		agree[float64](t, seed)
	}
}

func FuzzForest(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		agree[float32](t, seed)
		agree[float64](t, seed)
	})
}

// balanced is a forest of full trees, as boosting makes them.
func balanced(trees, depth, features int) *Model {
	r := rand.New(rand.NewPCG(1, 2))
	m := &Model{Outputs: 1}
	for range trees {
		first, inner := int32(len(m.Splits)), int32(1)<<depth-1
		m.Roots = append(m.Roots, first)
		for i := range 2*inner + 1 {
			if i < inner {
				m.Splits = append(m.Splits,
					Split{Kind: LessEqual, Feature: int32(r.IntN(features)), Yes: first + 2*i + 1,
						No: first + 2*i + 2, Value: r.NormFloat64()})
				continue
			}
			m.Splits = append(m.Splits,
				Split{Kind: Leaf, Yes: int32(len(m.Weights)), No: int32(len(m.Weights) + 1)})
			m.Weights = append(m.Weights, Weight{0, r.NormFloat64()})
		}
	}
	return m
}

// BenchmarkScores compares several walks at a time with one after the other.
func BenchmarkScores(b *testing.B) {
	const features, rows = 28, 128
	f := New[float32](balanced(200, 6, features))
	r := rand.New(rand.NewPCG(3, 4))
	x, out := make([]float32, rows*features), make([]float32, rows)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	b.Run("together", func(b *testing.B) {
		for b.Loop() {
			f.Scores(out, nil, x, features, Sum)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
	})
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			clear(out)
			for r := range rows {
				for _, root := range f.roots {
					f.add(out, nil, r, f.walk(root, x[r*features:(r+1)*features]), Sum)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
	})
}
