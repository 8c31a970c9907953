package plan

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// learners are small models with a loss "loss"; inputs that begin with "p" are parameters.
var learners = []struct{ name, model string }{
	{"perceptron", `input %x: float32[n,6]
	input %labels: int64[n]
	input %p1: float32[6,8]
	input %p2: float32[8]
	input %p3: float32[4,8]
	input %p4: float32[4]
	%h1 = MatMul@13 (%x, %p1)
	%h2 = Add@14 (%h1, %p2)
	%h3 = Relu@14 (%h2)
	%h4, %mask = Dropout@13 (%h3)
	%h5 = Gemm@13 (%h4, %p3, %p4) {transB=1}
	%loss = SoftmaxCrossEntropyLoss@13 (%h5, %labels)
	output %loss`},
	{"convolutions", `input %x: float32[n,3,9,9]
	input %labels: int64[n]
	input %p1: float32[8,3,3,3]
	input %p2: float32[8]
	input %p3: float32[8]
	input %p4: float32[8]
	input %mean: float32[8]
	input %var: float32[8]
	input %p5: float32[8,4,3,3]
	input %p6: float32[4,8]
	input %p7: float32[8,1,3,3]
	const %flat: int64[2] = {0, -1}
	%c1 = Conv@11 (%x, %p1, %p2) {pads=[1,1,1,1]}
	%b1, %m1, %v1 = BatchNormalization@15 (%c1, %p3, %p4, %mean, %var) {training_mode=1}
	%a1 = Relu@14 (%b1)
	%q1 = MaxPool@12 (%a1) {kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]}
	%c2 = Conv@11 (%q1, %p5) {group=2, strides=[2,2], pads=[1,1,1,1]}
	%a2 = LeakyRelu@16 (%c2)
	%c3 = Conv@11 (%a2, %p7) {group=8, pads=[1,1,1,1]}
	%a3 = Sigmoid@13 (%c3)
	%a4 = Mul@14 (%a3, %c3)
	%a5 = Add@14 (%a4, %c2)
	%q2 = AveragePool@11 (%a5) {kernel_shape=[2,2], strides=[1,1]}
	%q3 = GlobalAveragePool@1 (%q2)
	%f = Reshape@14 (%q3, %flat)
	%h = Gemm@13 (%f, %p6) {transB=1}
	%loss = SoftmaxCrossEntropyLoss@13 (%h, %labels)
	output %loss`},
	{"attention", `input %ids: int64[n,5]
	input %labels: int64[n,5]
	input %mask: float32[n,1,1,5]
	input %p0: float32[7,8]
	input %p1: float32[8,8]
	input %p2: float32[8,8]
	input %p3: float32[8,8]
	input %p4: float32[8,8]
	input %p5: float32[8]
	input %p6: float32[8]
	input %p7: float32[8,16]
	input %p8: float32[16]
	input %p9: float32[16,8]
	const %heads: int64[4] = {0, 0, 2, 4}
	const %joined: int64[3] = {0, 0, 8}
	const %scale: float32[] = {0.5}
	const %half: float32[] = {0.5}
	const %one: float32[] = {1}
	const %root: float32[] = {1.4142135}
	const %two: float32[] = {2}
	const %eps: float32[] = {1e-5}
	%x = Gather@13 (%p0, %ids) {axis=0}
	%q = MatMul@13 (%x, %p1)
	%k = MatMul@13 (%x, %p2)
	%v = MatMul@13 (%x, %p3)
	%qh = Reshape@14 (%q, %heads)
	%kh = Reshape@14 (%k, %heads)
	%vh = Reshape@14 (%v, %heads)
	%qt = Transpose@13 (%qh) {perm=[0,2,1,3]}
	%kt = Transpose@13 (%kh) {perm=[0,2,3,1]}
	%vt = Transpose@13 (%vh) {perm=[0,2,1,3]}
	%s0 = MatMul@13 (%qt, %kt)
	%s1 = Mul@14 (%s0, %scale)
	%s2 = Add@14 (%s1, %mask)
	%s3 = Softmax@13 (%s2) {axis=-1}
	%o0 = MatMul@13 (%s3, %vt)
	%o1 = Transpose@13 (%o0) {perm=[0,2,1,3]}
	%o2 = Reshape@14 (%o1, %joined)
	%o3 = MatMul@13 (%o2, %p4)
	%r1 = Add@14 (%o3, %x)
	%n0 = ReduceMean@13 (%r1) {axes=[-1], keepdims=1}
	%n1 = Sub@14 (%r1, %n0)
	%n2 = Pow@15 (%n1, %two)
	%n3 = ReduceMean@13 (%n2) {axes=[-1], keepdims=1}
	%n4 = Add@14 (%n3, %eps)
	%n5 = Sqrt@13 (%n4)
	%n6 = Div@14 (%n1, %n5)
	%n7 = Mul@14 (%n6, %p5)
	%n8 = Add@14 (%n7, %p6)
	%f0 = MatMul@13 (%n8, %p7)
	%f1 = Add@14 (%f0, %p8)
	%g0 = Div@14 (%f1, %root)
	%g1 = Erf@13 (%g0)
	%g2 = Add@14 (%g1, %one)
	%g3 = Mul@14 (%f1, %g2)
	%g4 = Mul@14 (%g3, %half)
	%f2 = MatMul@13 (%g4, %p9)
	%r2 = Add@14 (%f2, %n8)
	%r3 = LayerNormalization@17 (%r2, %p5, %p6)
	%r4 = Transpose@13 (%r3) {perm=[0,2,1]}
	%loss = SoftmaxCrossEntropyLoss@13 (%r4, %labels)
	output %loss`},
	{"upsampling", `input %x: float32[n,2,4,4]
	input %p1: float32[2,4,3,3]
	input %p2: float32[4]
	input %p3: float32[4,2,2,2]
	input %p4: float32[2]
	input %p5: float32[2]
	const %halves: int64[2] = {1, 3}
	const %pads: int64[8] = {0,0,1,0,0,0,0,-1}
	const %rep: int64[4] = {1,1,2,1}
	%c1 = ConvTranspose@11 (%x, %p1, %p2) {strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]}
	%s1, %s2 = Split@13 (%c1, %halves) {axis=1}
	%t = Tile@13 (%s1, %rep)
	%j = Concat@13 (%s2, %s1) {axis=1}
	%e = Elu@6 (%j)
	%pad = Pad@13 (%e, %pads)
	%d = SpaceToDepth@13 (%e) {blocksize=2}
	%dd = DepthToSpace@13 (%d) {blocksize=2}
	%c2 = ConvTranspose@11 (%dd, %p3) {strides=[2,2]}
	%i = InstanceNormalization@6 (%c2, %p4, %p5)
	%sq = Mul@14 (%i, %i)
	%l1 = ReduceMean@13 (%sq) {axes=[1,2,3], keepdims=0}
	%l2 = ReduceSumSquare@13 (%pad) {axes=[1,2,3], keepdims=0}
	%l3 = ReduceL2@13 (%t) {axes=[1,2,3], keepdims=0}
	%l4 = ReduceMax@13 (%c2) {axes=[1,2,3], keepdims=0}
	%l5 = ReduceLogSumExp@13 (%c2) {axes=[1,2,3], keepdims=0}
	%loss = Sum@13 (%l1, %l2, %l3, %l4, %l5)
	output %loss`},
}

// learner reads a model in an element type and adds the gradients of its loss by its parameters and
// float inputs.
func learner(t *testing.T, model string, float string) (g *graph.Graph, by []int) {
	t.Helper()
	g = parse(t, strings.ReplaceAll(model, "float32", float))
	o := grad.Objective{Of: g.Outputs}
	for i, v := range g.Inputs {
		if v.Type.DType.IsFloat() && v.Name != "mask" {
			o.By = append(o.By, v)
			by = append(by, i)
		}
	}
	ds, err := grad.Backward(g, o)
	if err != nil {
		t.Fatal(err)
	}
	g.Outputs = append(g.Outputs, ds...)
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	return g, by
}

// batch draws inputs of a model for n examples.
func batch(r *rand.Rand, g *graph.Graph, n int) (in []*tensor.Tensor, shapes map[string][]int) {
	shapes = map[string][]int{}
	for _, v := range g.Inputs {
		shape := make([]int, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			if k, ok := d.Int(); ok {
				shape[i] = k
			} else {
				shape[i] = n
			}
		}
		x, err := tensor.New(v.Type.DType, shape...)
		if err != nil {
			panic(err)
		}
		for i := range x.Len() {
			f := r.NormFloat64()
			if v.Name == "var" {
				f = 1 + f*f
			}
			switch x.DType {
			case tensor.Float32:
				tensor.As[float32](x)[i] = float32(f)
			case tensor.Float64:
				tensor.As[float64](x)[i] = f
			case tensor.Int64:
				tensor.As[int64](x)[i] = r.Int64N(4)
			}
		}
		in, shapes[v.Name] = append(in, x), shape
	}
	return in, shapes
}

// TestGradients compiles small models with the gradients of their losses: the plans of the joint
// graph, for shapes and through Simplify, compute what the graph says, and in float64 that is what
// central differences say.
func TestGradients(t *testing.T) {
	pool := newPool(t)
	for _, l := range learners {
		t.Run(l.name, func(t *testing.T) {
			g, _ := learner(t, l.model, "float32")
			s, err := Simplify(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{3, 1} {
				r := rand.New(rand.NewPCG(5, uint64(n)))
				in, shapes := batch(r, g, n)
				// Layers of eight normal terms reach 8, and gradients cancel what eight roundings
				// of such values come to.
				equalWithin(t, pool, g, Options{Shapes: shapes}, in, 8*0x1p-21)
				equalWithin(t, pool, s, Options{Shapes: shapes}, in, 8*0x1p-21)
				sameGraphs(t, g, s, in)
			}
			wide, by := learner(t, l.model, "float64")
			differences(t, wide, by)
		})
	}
}

// sameGraphs compares the evaluations of two graphs.
func sameGraphs(t *testing.T, a, b *graph.Graph, in []*tensor.Tensor) {
	t.Helper()
	want, err := a.Eval(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Eval(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if err := close(got[i], want[i]); err != nil {
			t.Errorf("output %d: %v", i, err)
		}
	}
}

// differences compares the gradients of a loss with central differences.
func differences(t *testing.T, g *graph.Graph, by []int) {
	t.Helper()
	r := rand.New(rand.NewPCG(17, 3))
	in, _ := batch(r, g, 2)
	loss := func() (sum float64) {
		out, err := g.Eval(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range tensor.As[float64](out[0]) {
			sum += f
		}
		return sum
	}
	out, err := g.Eval(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	const step = 1e-6
	for k, i := range by {
		x, d := tensor.As[float64](in[i]), tensor.As[float64](out[k+1])
		was, along, got := append([]float64{}, x...), make([]float64, len(x)), 0.0
		for j := range along {
			along[j] = r.NormFloat64()
			got += along[j] * d[j]
		}
		move := func(by float64) float64 {
			for j := range x {
				x[j] = was[j] + by*along[j]
			}
			return loss()
		}
		want := (move(step) - move(-step)) / (2 * step)
		copy(x, was)
		if !(math.Abs(got-want) <= 1e-6*(1+math.Abs(want)+math.Abs(loss()))) {
			t.Errorf("by %q: %v, differences say %v", g.Inputs[i].Name, got, want)
		}
	}
}
