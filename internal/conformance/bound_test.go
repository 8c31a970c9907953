package conformance

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// freedom is how a way of computing an operator may differ from the definition, which computes in
// float64 and rounds once. The zero freedom is none: the same bits.
type freedom struct {
	// ulps is the error of a result by itself, in units of its last place. In a graph of several
	// nodes passes may compute it in another order with its neighbours.
	ulps float64
	// argument is the error as a share of operand 0, where terms of its size cancel.
	argument float64
	// sum says that terms, which are linear in each operand, may be added up in any order: an error
	// of gamma_n of the sum of their magnitudes, n terms a sum (Higham, "Accuracy and Stability of
	// Numerical Algorithms", 2nd ed., 4.2), which is the definition's result of the operands'
	// magnitudes.
	sum bool
	// stable says that the result is that of operands changed by gamma_n of themselves, rounded: a
	// mixed forward-backward error (Higham, 1.5).
	stable bool
	// gates says that its results are made of numbers up to 1, or up to its operands, which are
	// rounded as such.
	gates bool
	// product says that its operands may be rounded to bfloat16 where the precision says so.
	product bool
	// alone is what holds in a graph of one node: the same bits.
	alone bool
}

// freedoms are those of ONNX's operators; the others have none. Errors in ulps are those that
// package internal/kernel/vec states, and half a unit of the definition's own rounding.
var freedoms = map[string]freedom{
	"Add": {sum: true, alone: true}, "Sub": {sum: true, alone: true},
	"Mul": {ulps: 2, alone: true}, "Div": {ulps: 2, alone: true},
	"Sqrt": {ulps: 2, alone: true}, "Reciprocal": {ulps: 2, alone: true},
	"Exp": {ulps: 1.5}, "Log": {ulps: 1.5}, "Erf": {ulps: 2}, "Sigmoid": {ulps: 3},
	"Tanh": {ulps: 3.5}, "Pow": {ulps: 4.5}, "Sin": {ulps: 4.5}, "Cos": {ulps: 4.5},
	"Softplus": {ulps: 4.5}, "Softsign": {ulps: 4.5}, "Elu": {ulps: 4.5}, "Selu": {ulps: 4.5},
	"Celu": {ulps: 4.5}, "Mish": {ulps: 4.5}, "Swish": {ulps: 4.5}, "HardSigmoid": {ulps: 4.5},
	"HardSwish": {ulps: 4.5, argument: 6e-8}, "Gelu": {ulps: 4.5, argument: 2e-7},

	"MatMul": {sum: true, product: true}, "Gemm": {sum: true, product: true},
	"Conv": {sum: true, product: true}, "ConvTranspose": {sum: true, product: true},
	"Sum": {sum: true}, "Mean": {sum: true}, "ReduceSum": {sum: true}, "ReduceMean": {sum: true},
	"ReduceL1": {sum: true}, "ReduceSumSquare": {sum: true}, "AveragePool": {sum: true},
	"GlobalAveragePool": {sum: true}, "Einsum": {sum: true},

	"Attention": {stable: true, product: true}, "FlexAttention": {stable: true, product: true},
	"BatchNormalization": {stable: true}, "CausalConvWithState": {stable: true, product: true},
	"GRU": {stable: true, gates: true}, "GroupNormalization": {stable: true},
	"If":                    {stable: true, product: true},
	"InstanceNormalization": {stable: true}, "LRN": {stable: true},
	"LSTM": {stable: true, gates: true}, "LayerNormalization": {stable: true},
	"LinearAttention": {stable: true, product: true}, "LogSoftmax": {stable: true},
	"Loop": {stable: true, product: true}, "LpNormalization": {stable: true},
	"MeanVarianceNormalization": {stable: true}, "RMSNormalization": {stable: true},
	"RNN": {stable: true, gates: true}, "ReduceL2": {stable: true}, "ReduceLogSum": {stable: true},
	"ReduceLogSumExp": {stable: true}, "Resize": {stable: true}, "RotaryEmbedding": {stable: true},
	"Scan": {stable: true, product: true}, "SequenceMap": {stable: true, product: true},
	"SimplifiedLayerNormalization": {stable: true}, "Softmax": {stable: true},
	"SwiGLU": {stable: true},
}

// freedomOf is that of a node. What ONNX Runtime's operators mean in ONNX's is written out by a
// pass, to several nodes.
func freedomOf(n *graph.Node, single bool) freedom {
	f := freedoms[n.Type]
	switch {
	case n.Domain == microsoft.Domain:
		return freedom{stable: true, product: true}
	case n.Domain != "" || single && f.alone:
		return freedom{}
	}
	return f
}

// unitRoundoff is half the distance of 1 to the next number.
func unitRoundoff(d tensor.DType) float64 {
	switch d {
	case tensor.Float64:
		return 0x1p-53
	case tensor.Float16:
		return 0x1p-11
	case tensor.BFloat16:
		return halfRoundoff
	}
	return 0x1p-24
}

// halfRoundoff is the unit roundoff of bfloat16.
const halfRoundoff = 0x1p-8

// leastNormal is the magnitude below which kernels may flush results to zero.
const leastNormal = 0x1p-126

// longestSum is the most additions that follow each other in float32, see package
// internal/kernel/vec, and some for scales, biases and divisions.
const longestSum, aroundSum = 140, 6

// gamma is n·u/(1-n·u).
func gamma(n int, u float64) float64 {
	k := float64(n) * u
	return k / (1 - k)
}

// terms is how many terms each element of a result adds up, or a bound of them, but no more than
// follow each other.
func terms(n *graph.Node, in []*tensor.Tensor, out int) int {
	long := 0
	for _, t := range in {
		if t != nil && t.DType.IsFloat() {
			long = max(long, t.Len())
		}
	}
	first := in[0]
	switch {
	case n.Type == "Add" || n.Type == "Sub":
		long = 2
	case n.Type == "Sum" || n.Type == "Mean":
		long = len(in)
	case strings.HasPrefix(n.Type, "Reduce") || n.Type == "GlobalAveragePool":
		long = first.Len() / max(1, out)
	case n.Type == "MatMul":
		long = first.Shape[first.Rank()-1]
	case n.Type == "Conv":
		long = in[1].Len() / max(1, in[1].Shape[0])
	}
	return min(long, longestSum) + aroundSum
}

// definition is what one data set of a case gives by the definitions of its operators: the member
// of all classes of ways with which each is compared.
type definition struct {
	graph  *graph.Graph
	in     []*tensor.Tensor
	out    []*tensor.Tensor
	bounds map[bool][][]float64 // of each output's elements, by whether products may be rounded
}

// define evaluates a graph.
func define(ctx context.Context, g *graph.Graph, in []*tensor.Tensor) (*definition, error) {
	out, err := g.Eval(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("the definition: %w", err)
	}
	d := &definition{graph: g, in: in, bounds: map[bool][][]float64{}}
	for _, t := range out {
		d.out = append(d.out, t.Clone())
	}
	return d, nil
}

// single reports whether the graph is one node, which passes can move nothing into or out of.
func (d *definition) single() bool { return len(d.graph.Nodes) == 1 }

// hold compares results with the definition's: each element within what the operators of the graph
// allow, and everything but floats and the bytes of [steps] equal.
func (d *definition) hold(ctx context.Context, got []*tensor.Tensor, half bool) error {
	for i, want := range d.out {
		if got[i] == nil || got[i].DType != want.DType || !slices.Equal(got[i].Shape, want.Shape) {
			return fmt.Errorf("output %d is %v, the definition's %v", i, got[i], want)
		}
		if tensor.Equal(got[i], want) {
			continue
		}
		if !want.DType.IsFloat() {
			if err := d.steps(got[i], want); err != nil {
				return fmt.Errorf("output %d: %w", i, err)
			}
			continue
		}
		bounds, err := d.allowance(ctx, half)
		if err != nil {
			return err
		}
		if err := within(got[i], want, bounds[i]); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

// product reports whether the graph is one product of float32, for which bfloat16 has a definition:
// the operands are rounded, and what they give is added up in float32.
func (d *definition) product() bool {
	if !d.single() || d.out[0].DType != tensor.Float32 {
		return false
	}
	f := freedomOf(d.graph.Nodes[0], true)
	return f.sum && f.product
}

// holdRounded compares the result of a product with that of rounded operands, within what adding
// up in float32 allows, or with that of the operands themselves, where no kernel rounds them. It
// reports which.
func (d *definition) holdRounded(ctx context.Context, got []*tensor.Tensor) (bool, error) {
	n, in := d.graph.Nodes[0], d.operands()
	for i, t := range in[:2] {
		in[i] = mapped(t, func(_ int, x float64) float64 {
			return float64(tensor.BHalfOf(float32(x)).Float32())
		})
	}
	want, err := evaluateNode(ctx, n, in)
	if err != nil {
		return false, err
	}
	bound, err := freedomOf(n, true).bound(ctx, n, 0, in, want[0], false)
	if err != nil {
		return false, err
	}
	if err := within(got[0], want[0], bound); err != nil {
		if d.hold(ctx, got, false) == nil {
			return false, nil
		}
		return false, fmt.Errorf("of operands rounded to bfloat16: %w", err)
	}
	return d.hold(ctx, got, false) != nil, nil
}

// within compares two float tensors element by element.
func within(got, want *tensor.Tensor, bound []float64) error {
	g, err := got.Floats()
	if err != nil {
		return err
	}
	w, err := want.Floats()
	if err != nil {
		return err
	}
	for i := range w {
		if g[i] == w[i] || math.IsNaN(g[i]) && math.IsNaN(w[i]) {
			continue
		}
		if diff := math.Abs(g[i] - w[i]); !(diff <= bound[i]) {
			return fmt.Errorf("element %d is %v, the definition gives %v: %.3g away, the "+
				"operators allow %.3g", i, g[i], w[i], diff, bound[i])
		}
	}
	return nil
}

// steps compares integers. The bytes of QLinear operators may differ by one, and few of them, where
// the sum lies so near a tie that the rounding of its factor decides.
func (d *definition) steps(got, want *tensor.Tensor) error {
	rounds := want.DType.Size() == 1 &&
		slices.ContainsFunc(d.graph.Nodes, func(n *graph.Node) bool { return rounding[n.Type] })
	g, errG := got.Ints()
	w, errW := want.Ints()
	if !rounds || errG != nil || errW != nil {
		return fmt.Errorf("%v has other values than the definition's", got)
	}
	differ := 0
	for i := range w {
		if g[i] != w[i] {
			differ++
		}
		if d := g[i] - w[i]; d < -1 || d > 1 {
			return fmt.Errorf("element %d is %d, the definition gives %d", i, g[i], w[i])
		}
	}
	if differ > 1+len(w)>>10 {
		return fmt.Errorf("%d of %d bytes differ by one", differ, len(w))
	}
	return nil
}

// rounding are the operators that multiply in float32, in whatever order, and round to bytes.
var rounding = map[string]bool{"QLinearConv": true, "QLinearMatMul": true, "QLinearAdd": true,
	"QLinearMul": true, "QGemm": true, "QLinearSigmoid": true, "QLinearLeakyRelu": true,
	"QLinearAveragePool": true, "QLinearGlobalAveragePool": true, "QLinearConcat": true,
	"QLinearSoftmax": true, "QLinearWhere": true, "QLinearReduceMean": true,
	"QuantizeLinear": true, "DynamicQuantizeLinear": true}

// allowance is how far each element of each output may be from the definition's. Of one node whose
// freedom has a formula it is that. Else it is measured on the definition, as Monte Carlo
// arithmetic does (Parker, "Monte Carlo Arithmetic", 1997): every node's result is changed within
// its own freedom at random, and what that moves the outputs at most in some tries, times a few, is
// allowed. Where the definition is infinite or no number, nothing else is.
func (d *definition) allowance(ctx context.Context, half bool) ([][]float64, error) {
	if b := d.bounds[half]; b != nil {
		return b, nil
	}
	bounds := make([][]float64, len(d.out))
	for i, t := range d.out {
		if t.DType.IsFloat() {
			bounds[i] = make([]float64, t.Len())
		}
	}
	d.bounds[half] = bounds
	if d.single() && !freedomOf(d.graph.Nodes[0], true).stable {
		n, in := d.graph.Nodes[0], d.operands()
		for i := range d.out {
			at := slices.Index(n.Out, d.graph.Outputs[i])
			if at < 0 || bounds[i] == nil {
				continue
			}
			own, err := freedomOf(n, true).bound(ctx, n, at, in, d.out[i], half)
			if err != nil {
				return nil, err
			}
			copy(bounds[i], own)
		}
		return bounds, nil
	}
	return bounds, d.measure(ctx, half, bounds)
}

// operands are those of the only node.
func (d *definition) operands() []*tensor.Tensor {
	in := make([]*tensor.Tensor, len(d.graph.Nodes[0].In))
	for i, v := range d.graph.Nodes[0].In {
		if v == nil {
			continue
		}
		if in[i] = v.Const(); in[i] == nil {
			in[i] = d.in[slices.Index(d.graph.Inputs, v)]
		}
	}
	return in
}

// The tries of a measured allowance, and times what of what they move is allowed.
const tries, allowed = 8, 4

func (d *definition) measure(ctx context.Context, half bool, bounds [][]float64) error {
	r, ran := rand.New(rand.NewPCG(17, 18)), 0
	var last error
	for range tries {
		out, err := d.shaken(ctx, r, half)
		if err != nil {
			last = err
			continue
		}
		ran++
		for i, b := range bounds {
			if b == nil || !slices.Equal(out[i].Shape, d.out[i].Shape) {
				continue
			}
			was, is := elements(d.out[i]), elements(out[i])
			for k := range b {
				if math.IsInf(was[k], 0) { // and nothing else
					continue
				}
				b[k] = max(b[k], allowed*math.Abs(is[k]-was[k])+leastNormal)
			}
		}
	}
	if ran < tries/2 {
		return fmt.Errorf("no allowance: of %d tries %d fail, one as: %w", tries, tries-ran, last)
	}
	return nil
}

// elements are a float tensor's elements.
func elements(t *tensor.Tensor) []float64 {
	v, _ := t.Floats()
	return v
}

// shaken evaluates the graph with every result changed within its freedom.
func (d *definition) shaken(ctx context.Context, r *rand.Rand, half bool) (
	[]*tensor.Tensor, error,
) {
	ctx, end := op.Frame(ctx)
	defer end()
	env := map[*graph.Value]*tensor.Tensor{}
	for i, v := range d.graph.Inputs {
		env[v] = d.in[i]
	}
	value := func(v *graph.Value) *tensor.Tensor {
		switch {
		case v == nil:
			return nil
		case env[v] != nil:
			return env[v]
		}
		return v.Const()
	}
	for _, n := range d.graph.Nodes {
		in := make([]*tensor.Tensor, len(n.In))
		for i, v := range n.In {
			in[i] = value(v)
		}
		out, err := freedomOf(n, d.single()).shake(ctx, r, n, in, half)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", n, err)
		}
		for i, v := range n.Out {
			if v != nil {
				env[v] = out[i]
			}
		}
	}
	out := make([]*tensor.Tensor, len(d.graph.Outputs))
	for i, v := range d.graph.Outputs {
		out[i] = value(v)
	}
	return out, nil
}

// evaluateNode evaluates a node by its definition.
func evaluateNode(ctx context.Context, n *graph.Node, in []*tensor.Tensor) (
	[]*tensor.Tensor, error,
) {
	o, err := n.Op()
	if err != nil {
		return nil, err
	}
	return op.Run(ctx, o, n.Call(), in)
}

// shake evaluates a node with its result changed within its freedom.
func (f freedom) shake(ctx context.Context, r *rand.Rand, n *graph.Node, in []*tensor.Tensor,
	half bool) ([]*tensor.Tensor, error) {
	if f.stable {
		by := gamma(terms(n, in, 1), 0x1p-24)
		if half && f.product {
			by += 2 * halfRoundoff
		}
		in = slices.Clone(in)
		for i, t := range in {
			if t != nil && t.DType.IsFloat() {
				in[i] = moved(r, t, func(_ int, x float64) float64 { return by * math.Abs(x) })
			}
		}
	}
	out, err := evaluateNode(ctx, n, in)
	if err != nil || f == (freedom{}) {
		return out, err
	}
	out = slices.Clone(out)
	for i, t := range out {
		if t == nil || !t.DType.IsFloat() {
			continue
		}
		b, err := f.bound(ctx, n, i, in, t, half)
		if err != nil {
			return nil, err
		}
		out[i] = moved(r, t, func(i int, _ float64) float64 { return b[i] })
	}
	return out, nil
}

// bound is the freedom of each element of output i by itself, t by the definition.
func (f freedom) bound(ctx context.Context, n *graph.Node, i int, in []*tensor.Tensor,
	t *tensor.Tensor, half bool) ([]float64, error) {
	b, u := elements(t), unitRoundoff(t.DType)
	ulps := f.ulps
	if f.stable {
		ulps = 2
	}
	for k, y := range b {
		b[k] = ulps * 2 * u * math.Abs(y)
	}
	if f.argument != 0 {
		for k, x := range elements(in[0]) {
			b[k] += f.argument * math.Abs(x)
		}
	}
	if f.gates {
		for k := range b {
			b[k] += 4 * u * max(1, largest(in))
		}
	}
	if !f.sum {
		return b, nil
	}
	big, err := magnitudes(ctx, n, in)
	if err != nil {
		return nil, err
	}
	by := gamma(terms(n, in, t.Len()), 0x1p-24) + u
	if half && f.product {
		by += halfRoundoff * (2 + halfRoundoff)
	}
	for k, y := range elements(big[i]) {
		b[k] += by * math.Abs(y)
	}
	return b, nil
}

// largest is the greatest finite magnitude of float operands.
func largest(in []*tensor.Tensor) float64 {
	most := 0.0
	for _, t := range in {
		if t == nil || !t.DType.IsFloat() {
			continue
		}
		for _, x := range elements(t) {
			if x = math.Abs(x); x > most && !math.IsInf(x, 0) {
				most = x
			}
		}
	}
	return most
}

// magnitudes evaluates a node that adds up terms on the magnitudes of its operands.
func magnitudes(ctx context.Context, n *graph.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	in = slices.Clone(in)
	for i, t := range in {
		if t != nil && t.DType.IsFloat() {
			in[i] = mapped(t, func(_ int, x float64) float64 { return math.Abs(x) })
		}
	}
	of := *n
	of.Attrs = slices.Clone(n.Attrs)
	for i, a := range of.Attrs {
		if a.Kind == op.AttrFloat {
			of.Attrs[i] = op.FloatAttr(a.Name, float32(math.Abs(float64(n.Attrs.Float(a.Name, 1)))))
		}
	}
	if n.Type == "Sub" {
		of.Type = "Add"
	}
	return evaluateNode(ctx, &of, in)
}

// moved moves every element by at most as much as it may be, up or down: not by just as much, since
// two such of a product cancel half of the time.
func moved(r *rand.Rand, t *tensor.Tensor, by func(i int, x float64) float64) *tensor.Tensor {
	return mapped(t, func(i int, x float64) float64 {
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return x
		}
		return x + (2*r.Float64()-1)*by(i, x)
	})
}

// mapped applies f to each element of a float tensor and rounds to its type.
func mapped(t *tensor.Tensor, f func(i int, x float64) float64) *tensor.Tensor {
	out := t.Clone()
	for i, x := range elements(t) {
		y := f(i, x)
		switch t.DType {
		case tensor.Float32:
			tensor.As[float32](out)[i] = float32(y)
		case tensor.Float64:
			tensor.As[float64](out)[i] = y
		case tensor.Float16:
			tensor.As[tensor.Half](out)[i] = tensor.HalfOf(float32(y))
		case tensor.BFloat16:
			tensor.As[tensor.BHalf](out)[i] = tensor.BHalfOf(float32(y))
		}
	}
	return out
}
