package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// grower makes random graphs on float32 values of up to four dimensions.
type grower struct {
	r      *rand.Rand
	g      *graph.Graph
	values []*graph.Value
	names  int
}

func (b *grower) name() string { b.names++; return fmt.Sprint("v", b.names) }

func (b *grower) constant(shape ...int) *graph.Value {
	n, _ := tensor.Count(shape)
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(b.r.NormFloat64()) / 2
	}
	return graph.NewConst(b.name(), tensor.From(v, shape...))
}

func (b *grower) ints(v ...int) *graph.Value {
	w := make([]int64, len(v))
	for i := range v {
		w[i] = int64(v[i])
	}
	return graph.NewConst(b.name(), tensor.From(w, len(w)))
}

// add adds a node when its shape rule accepts it.
func (b *grower) add(typ string, outputs int, attrs op.Attrs, in ...*graph.Value) {
	names := make([]string, outputs)
	for i := range names {
		names[i] = b.name()
	}
	n := graph.NewNode("", typ, 17, attrs, in, names...)
	if n.InferTypes() != nil {
		return
	}
	for _, v := range n.Out {
		if k, ok := v.Type.Count().Int(); !ok || k > 20_000 {
			return
		}
	}
	b.g.Nodes = append(b.g.Nodes, n)
	b.values = append(b.values, n.Out...)
}

// grow adds one of many operators to one of the last values.
func (b *grower) grow() {
	pick := func() *graph.Value { return b.values[len(b.values)-1-b.r.IntN(min(len(b.values), 6))] }
	x := pick()
	shape, _ := x.Type.Ints()
	axis := int64(0)
	if len(shape) > 0 {
		axis = b.r.Int64N(int64(len(shape)))
	}
	at := op.Attrs{op.IntAttr("axis", axis)}
	one := func(v ...string) string { return v[b.r.IntN(len(v))] }
	switch b.r.IntN(14) {
	case 0, 1:
		b.add(one("Relu", "Tanh", "Sigmoid", "Neg", "Abs", "HardSwish", "Identity"), 1, nil, x)
	case 2, 3:
		b.add(one("Add", "Mul", "Sub", "Max", "Min"), 1, nil, x, pick())
	case 4:
		b.add(one("Add", "Mul"), 1, nil, x, b.constant(1))
	case 5:
		b.add("Transpose", 1, op.Attrs{op.IntsAttr("perm", perm(b.r, len(shape))...)}, x)
	case 6:
		b.add("Reshape", 1, nil, x,
			b.ints([][]int{{-1}, {1, -1}, {2, -1}, {-1, 2, 3}, {0, -1}}[b.r.IntN(5)]...))
	case 7:
		b.add("Concat", 1, at, x, pick(), x)
	case 8:
		b.add("Split", 2, at, x)
	case 9:
		b.add(one("ReduceMean", "ReduceMax"), 1,
			op.Attrs{op.IntsAttr("axes", axis), op.IntAttr("keepdims", int64(b.r.IntN(2)))}, x)
	case 10:
		b.add("Softmax", 1, at, x)
	case 11:
		if n := len(shape); n > 0 {
			b.add("MatMul", 1, nil, x, b.constant(shape[n-1], 1+b.r.IntN(9)))
		}
	case 12:
		if len(shape) == 4 {
			m := 1 + b.r.IntN(6)
			b.add("Conv", 1, op.Attrs{op.IntsAttr("pads", 1, 1, 1, 1)}, x,
				b.constant(m, shape[1], 3, 3), b.constant(m))
			b.add("MaxPool", 1, op.Attrs{op.IntsAttr("kernel_shape", 2, 2)}, x)
		}
	case 13:
		b.add("Slice", 1, nil, x, b.ints(1), b.ints(1000), b.ints(int(axis)))
	}
}

func perm(r *rand.Rand, n int) []int64 {
	var out []int64
	for _, p := range r.Perm(n) {
		out = append(out, int64(p))
	}
	return out
}

func grown(seed uint64) (*graph.Graph, *rand.Rand) {
	b := &grower{r: rand.New(rand.NewPCG(seed, 5)),
		g: &graph.Graph{Name: "random", Opsets: map[string]int{"": 17}}}
	for _, shape := range [][]int{{2, 3, 4, 6}, {2, 6}, {6}} {
		v := &graph.Value{Name: b.name(), Type: op.Concrete(tensor.Float32, shape...)}
		b.g.Inputs, b.values = append(b.g.Inputs, v), append(b.values, v)
	}
	for range 4 + b.r.IntN(40) {
		b.grow()
	}
	for i := len(b.values) - 1; i >= 3 && len(b.g.Outputs) < 4; i -= 1 + b.r.IntN(4) {
		b.g.Outputs = append(b.g.Outputs, b.values[i])
	}
	if len(b.g.Outputs) == 0 {
		b.g.Outputs = b.g.Inputs[:1]
	}
	return b.g, b.r
}

// TestRandomGraphs compares plans with the evaluation of the graph, with and without passes.
func TestRandomGraphs(t *testing.T) {
	pool := newPool(t)
	for seed := range uint64(120) {
		g, r := grown(seed)
		in := fill(r, g)
		o := Options{Target: host}
		if seed%2 == 0 {
			o = unoptimised
		}
		equal(t, pool, g, o, in)
	}
}

func FuzzRandomGraphs(f *testing.F) {
	f.Add(uint64(1000))
	f.Add(uint64(1001))
	pool := newPool(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		g, r := grown(seed)
		in := fill(r, g)
		equal(t, pool, g, Options{Target: host}, in)
		equal(t, pool, g, unoptimised, in)
	})
}
