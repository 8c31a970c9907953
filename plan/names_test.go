package plan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// shaper makes random graphs of shape arithmetic on inputs whose dimensions are named at random. It
// evaluates each node for one set of shapes as it goes and keeps those that the operators take.
type shaper struct {
	r      *rand.Rand
	g      *graph.Graph
	data   []*graph.Value // float32
	ints   []*graph.Value // int64, mostly of rank 0 and 1
	values map[*graph.Value]*tensor.Tensor
	names  int
}

// sloppy are names of dimensions as exporters write them, "" for none.
var sloppy = []string{"batch", "batch", "sequence", "unk__1", "", "d", "v9.0", "N + 1"}

func newShaper(seed uint64) *shaper {
	b := &shaper{r: rand.New(rand.NewPCG(seed, 11)), values: map[*graph.Value]*tensor.Tensor{},
		g: &graph.Graph{Name: "shapes", Opsets: map[string]int{"": 17}}}
	for range 1 + b.r.IntN(3) {
		dims := make([]op.Dim, 1+b.r.IntN(3))
		for i := range dims {
			if dims[i] = op.Sym(sloppy[b.r.IntN(len(sloppy))]); b.r.IntN(4) == 0 {
				dims[i] = op.Known(1 + b.r.IntN(3))
			}
		}
		v := &graph.Value{Name: b.name(), Type: op.Ranked(tensor.Float32, dims...)}
		b.g.Inputs, b.data = append(b.g.Inputs, v), append(b.data, v)
	}
	for i, x := range b.requests(b.shapes(2, 5)) {
		b.values[b.g.Inputs[i]] = x
	}
	return b
}

func (b *shaper) name() string { b.names++; return fmt.Sprint("v", b.names) }

// shapes draws sizes from least on for what is not known of the inputs.
func (b *shaper) shapes(least, most int) map[string][]int {
	shapes := map[string][]int{}
	for _, v := range b.g.Inputs {
		shape := make([]int, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			n, known := d.Int()
			if shape[i] = n; !known {
				shape[i] = least + b.r.IntN(most-least)
			}
		}
		shapes[v.Name] = shape
	}
	return shapes
}

// requests makes inputs of the given shapes, some elements 0.
func (b *shaper) requests(shapes map[string][]int) []*tensor.Tensor {
	var in []*tensor.Tensor
	for _, v := range b.g.Inputs {
		x, err := tensor.New(tensor.Float32, shapes[v.Name]...)
		if err != nil {
			panic(err)
		}
		for i := range tensor.As[float32](x) {
			tensor.As[float32](x)[i] = float32(b.r.IntN(4))
		}
		in = append(in, x)
	}
	return in
}

func (b *shaper) constant(v ...int64) *graph.Value {
	return b.keep(graph.NewConst(b.name(), tensor.From(v, len(v))))
}

func (b *shaper) keep(v *graph.Value) *graph.Value {
	b.values[v] = v.Const()
	return v
}

// add adds a node that the operator takes for the shapes of the sample.
func (b *shaper) add(typ string, version int, attrs op.Attrs, in ...*graph.Value) *graph.Value {
	n := graph.NewNode("", typ, version, attrs, in, b.name())
	o, err := n.Op()
	if err != nil {
		panic(err)
	}
	operands := make([]*tensor.Tensor, len(in))
	for i, v := range in {
		operands[i] = b.values[v]
	}
	out, err := op.Run(context.Background(), o, n.Call(), operands)
	if err != nil || out[0].Len() > 4096 || out[0].Rank() > 5 {
		return nil
	}
	b.g.Nodes, b.values[n.Out[0]] = append(b.g.Nodes, n), out[0]
	switch out[0].DType {
	case tensor.Float32:
		b.data = append(b.data, n.Out[0])
	case tensor.Int64:
		b.ints = append(b.ints, n.Out[0])
	}
	return n.Out[0]
}

func (b *shaper) pick(from []*graph.Value) *graph.Value {
	if len(from) == 0 {
		return b.constant(int64(b.r.IntN(3)))
	}
	return from[len(from)-1-b.r.IntN(min(len(from), 5))]
}

// one is a shape, a part of one or a number: a value that the graph computes, or a constant.
func (b *shaper) one() *graph.Value {
	if b.r.IntN(3) > 0 {
		return b.pick(b.ints)
	}
	few := []int64{-1, 0, 1, 2, 3, -2, 1 << 40}
	return b.constant(few[b.r.IntN(len(few))])
}

func (b *shaper) grow() {
	axis := op.IntAttr("axis", int64(b.r.IntN(3)-1))
	x, at := b.pick(b.data), b.constant(int64(b.r.IntN(3)-1))
	switch b.r.IntN(24) {
	case 0, 1, 2:
		b.add("Shape", 15, nil, x)
	case 3, 4:
		b.add("Gather", 13, op.Attrs{axis}, b.pick(b.ints), at)
	case 5, 6:
		b.add("Concat", 13, op.Attrs{op.IntAttr("axis", 0)}, b.one(), b.one())
	case 7:
		b.add("Slice", 13, nil, b.pick(b.ints), b.one(), b.one())
	case 8, 9:
		b.add("Slice", 13, nil, x, b.one(), b.one(), at, b.constant(1))
	case 10, 11:
		b.add("Reshape", 14, op.Attrs{op.IntAttr("allowzero", int64(b.r.IntN(2)))}, x, b.one())
	case 12:
		rank := b.values[x].Rank()
		b.add("Transpose", 13, op.Attrs{op.IntsAttr("perm", perm(b.r, rank)...)}, x)
	case 13:
		b.add("Expand", 13, nil, x, b.one())
	case 14:
		b.add("Unsqueeze", 13, nil, b.pick([]*graph.Value{x, b.pick(b.ints)}), at)
	case 15:
		b.add("Squeeze", 13, nil, b.pick([]*graph.Value{x, b.pick(b.ints)}))
	case 16, 17:
		b.add([]string{"Add", "Sub", "Mul", "Div", "Min", "Max"}[b.r.IntN(6)], 14, nil, b.one(),
			b.one())
	default:
		b.growMore(x, axis)
	}
}

func (b *shaper) growMore(x *graph.Value, axis op.Attr) {
	switch b.r.IntN(9) {
	case 0:
		if equal := b.add("Equal", 13, nil, b.one(), b.one()); equal != nil {
			b.add("Where", 16, nil, equal, b.one(), b.one())
		}
	case 1:
		b.add("Add", 14, nil, x, b.pick(b.data))
	case 2:
		b.add("Concat", 13, op.Attrs{axis}, x, b.pick(b.data))
	case 3:
		b.add("NonZero", 13, nil, x)
	case 4:
		b.add("Flatten", 13, op.Attrs{axis}, x)
	case 5:
		b.add("Tile", 13, nil, x, b.one())
	case 6:
		from, to := b.constant(0), b.constant(1)
		scalar := func(v *graph.Value) *graph.Value {
			return b.add("Reshape", 14, nil, v, b.constant())
		}
		if n := scalar(b.one()); n != nil {
			b.add("Range", 11, nil, scalar(from), n, scalar(to))
		}
	case 7:
		b.add([]string{"Size", "Identity", "Relu", "ReduceProd"}[b.r.IntN(4)], 13, nil,
			b.pick([]*graph.Value{x, b.pick(b.ints)}))
	case 8:
		b.add("ReduceMax", 13, op.Attrs{op.IntsAttr("axes", axis.Ints[0])}, x)
	}
}

// graph ends the graph; its outputs are all that nodes compute and fit the type of.
func (b *shaper) graph() *graph.Graph {
	for _, n := range b.g.Nodes {
		b.g.Outputs = append(b.g.Outputs, n.Out[0])
	}
	if len(b.g.Outputs) == 0 {
		b.g.Outputs = b.g.Inputs
	}
	return b.g
}

// TestNamesOfDimensions holds of random shape arithmetic, on inputs whose dimensions have equal
// names by chance, that types hold for every shape that the graph takes, and that what is
// simplified, and plans made of it, give the graph's own results for them.
func TestNamesOfDimensions(t *testing.T) {
	pool := newPool(t)
	taken := 0
	for seed := range uint64(160) {
		b := newShaper(seed)
		for range 5 + b.r.IntN(30) {
			b.grow()
		}
		taken += b.check(t, pool, seed)
	}
	if taken < 150 {
		t.Errorf("%d requests were taken, too few to tell", taken)
	}
}

// check runs the graph for random shapes and returns how many it takes.
func (b *shaper) check(t *testing.T, pool *cpu.Pool, seed uint64) (taken int) {
	t.Helper()
	g := b.graph()
	typed, err := g.Specialize(nil)
	if err != nil {
		t.Fatalf("seed %d: %v\n%v", seed, err, g)
	}
	few := g.Clone() // fewer outputs keep passes from fewer rewrites
	for len(few.Outputs) > 2 {
		few.Outputs = slices.Delete(few.Outputs, 0, 1+b.r.IntN(2))
	}
	simple, err := Simplify(context.Background(), few)
	if err != nil {
		t.Fatalf("seed %d: %v\n%v", seed, err, g)
	}
	for range 6 {
		shapes := b.shapes(0, 5)
		in := b.requests(shapes)
		all, err := g.Eval(context.Background(), in)
		if err != nil {
			continue
		}
		taken++
		if err := holds(typed, in, all); err != nil {
			t.Fatalf("seed %d: shapes %v: %v\n%v", seed, shapes, err, typed)
		}
		want, err := few.Eval(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := simple.Eval(context.Background(), in)
		if err != nil {
			t.Fatalf("seed %d: shapes %v: %v\n%v\n%v", seed, shapes, err, few, simple)
		}
		o := Options{Target: host, Shapes: shapes, Threads: threads}
		for i, planned := range runPlan(t, pool, compileAs(t, simple, o), in) {
			for k, v := range []*tensor.Tensor{got[i], planned} {
				if err := tensor.Close(v, want[i], 0, 0); err != nil {
					t.Fatalf("seed %d: shapes %v: output %d, plan %v: %v\n%v\n%v", seed, shapes, i,
						k > 0, err, few, simple)
				}
			}
		}
	}
	return taken
}

// holds compares the types of a graph whose outputs are all that its nodes compute with the values
// of a run: there must be one size for each symbol and each expression that is none of symbols.
func holds(g *graph.Graph, in, out []*tensor.Tensor) error {
	sizes := map[string]int{}
	same := func(v *graph.Value, d op.Dim, n int) error {
		if d.IsUnknown() {
			return nil
		}
		if m, ok := d.Eval(sizes); ok && m != n {
			return fmt.Errorf("value %q is %v: %v is %d and not %d", v.Name, v.Type, d, m, n)
		} else if !ok && op.Sym(d.String()).Equal(d) {
			sizes[d.String()] = n
		}
		return nil
	}
	values := append(slices.Clone(g.Inputs), g.Outputs...)
	for i, x := range append(slices.Clone(in), out...) {
		v := values[i]
		if v.Type.Ranked && len(v.Type.Shape) != x.Rank() {
			return fmt.Errorf("value %q is %v and of shape %v", v.Name, v.Type, x.Shape)
		}
		for k, d := range v.Type.Shape {
			if err := same(v, d, x.Shape[k]); err != nil {
				return err
			}
		}
		if v.Type.Elems == nil {
			continue
		}
		elems, err := x.Ints()
		if err != nil || len(elems) != len(v.Type.Elems) {
			return fmt.Errorf("value %q has the elements %v and not %v", v.Name, v.Type.Elems, x)
		}
		for k, d := range v.Type.Elems {
			if err := same(v, d, int(elems[k])); err != nil {
				return fmt.Errorf("element %d: %w", k, err)
			}
		}
	}
	return nil
}
