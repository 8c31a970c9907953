package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

var mutations = flag.Int("mutations", 8, "how many mutated forms of each case TestHostile runs")

// Bounds of one run of a mutated case.
const (
	hostileDevice = 64 << 20 // bytes of the device
	hostileHeap   = 64 << 20 // bytes on the Go heap
	hostileTime   = 10 * time.Second
	// of graphs with loops, which may well be told to run for ever
	hostileLoop = 200 * time.Millisecond
)

// TestHostile mutates the cases: attributes of other kinds and absurd values, operands of other
// types, ranks and shapes, with extreme elements, missing operands. Whatever comes of it, nothing
// may panic, hang or allocate without measure, errors name the node, and the reference and the way
// of jobs agree. More of it:
//
//	go test ./internal/conformance -run TestHostile -timeout 0 -mutations 1000 -seed 2
func TestHostile(t *testing.T) {
	d, err := cpu.Open("cpu:0", cpu.Options{MemoryBytes: hostileDevice})
	if err != nil {
		t.Fatal(err)
	}
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 2})
	defer pool.Close()
	s := &hostile{
		plain: &Engine{
			Device: d,
			Pool:   pool,
			Plan:   plan.Options{Passes: pass.Options{Off: pass.Names()}},
		},
		fast:  &Engine{Device: d, Pool: pool, Plan: plan.Options{Target: host}},
		count: map[string]int{},
	}
	for _, c := range found(t, false) {
		s.mutate(t, c)
	}
	t.Logf("%v", s.count)
	if *match == "" && (s.count["both ran"] < 500 || s.count["both refused"] < 500) {
		t.Error("too few mutations were of one kind")
	}
}

// hostile runs mutated cases by the reference and the way of jobs.
type hostile struct {
	plain, fast *Engine
	count       map[string]int
}

func (s *hostile) mutate(t *testing.T, c *Case) {
	m, err := onnx.Open(c.Model, onnx.Options{})
	if err != nil {
		return // an operator or type that weir does not have
	}
	defer m.Close()
	if len(c.Sets) == 0 || drawing(m.Graph) != nil {
		return
	}
	in, err := inputs(m, c.Sets[0])
	if err != nil {
		return
	}
	h := fnv.New64()
	h.Write([]byte(c.Name))
	for k := range *mutations {
		r := mutator{Rand: rand.New(rand.NewPCG(h.Sum64(), *seed<<32|uint64(k)))}
		g, in := r.mutated(m.Graph, in)
		if problem := s.try(t.Context(), g, in); problem != nil {
			t.Errorf("%s, mutation %d: %s: %v", c.Name, k, strings.Join(r.did, ", "), problem)
		}
	}
}

// try runs one mutated graph and says what is wrong with how that went.
func (s *hostile) try(ctx context.Context, g *graph.Graph, in []*tensor.Tensor) error {
	err := g.Check()
	if err == nil {
		err = g.InferTypes()
	}
	if err != nil {
		s.count["types refused"]++
		return decent(g, err)
	}
	want, wantErr, odd := s.measured(ctx, s.plain, g, in)
	if odd != nil {
		return fmt.Errorf("reference: %w", odd)
	}
	got, gotErr, odd := s.measured(ctx, s.fast, g, in)
	switch {
	case odd != nil:
		return odd
	case errors.Is(wantErr, device.ErrOutOfMemory) || errors.Is(gotErr, device.ErrOutOfMemory):
		s.count["too large"]++
	case errors.Is(wantErr, context.DeadlineExceeded) ||
		errors.Is(gotErr, context.DeadlineExceeded):
		s.count["endless loops"]++
	case wantErr != nil && gotErr != nil:
		s.count["both refused"]++
	case gotErr != nil:
		return fmt.Errorf("refuses what the reference computes: %w", gotErr)
	case wantErr != nil && len(g.Nodes) == 1:
		return fmt.Errorf("computes what the reference refuses: %w", wantErr)
	case wantErr == nil:
		s.count["both ran"]++
		return s.same(g, got, want)
	}
	return nil
}

// measured runs a graph and also reports what must not happen, whatever the graph.
func (s *hostile) measured(ctx context.Context, e *Engine, g *graph.Graph,
	in []*tensor.Tensor) (out []*tensor.Tensor, err, odd error) {
	loops := slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return len(n.Bodies()) > 0 })
	limit := hostileTime
	if loops {
		limit = hostileLoop
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	out, err = e.Run(ctx, &onnx.Model{Graph: g}, in)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if loops && errors.Is(err, context.DeadlineExceeded) && took < hostileTime {
		return out, err, nil
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > hostileHeap {
		return out, err, fmt.Errorf("allocated %d MiB in %v: %w", n>>20, took, err)
	}
	if took > hostileTime {
		return out, err, fmt.Errorf("took %v: %w", took, err)
	}
	for i, t := range out {
		if err := t.Check(); err != nil {
			return nil, nil, fmt.Errorf("output %q: %w", g.Outputs[i].Name, err)
		}
	}
	return out, err, decent(g, err)
}

// decent says what is wrong with an error: it must not come from a panic, and it must name a node
// or value of the graph.
func decent(g *graph.Graph, err error) error {
	if err == nil {
		return nil
	}
	for _, kind := range []error{op.ErrPanic, pass.ErrPanic, compute.ErrPanic, engine.ErrFault,
		context.DeadlineExceeded} {
		if errors.Is(err, kind) {
			return err
		}
	}
	if errors.Is(err, device.ErrOutOfMemory) {
		return nil
	}
	named := false
	g.Walk(func(g *graph.Graph) {
		for _, n := range g.Nodes {
			named = named || strings.Contains(err.Error(), fmt.Sprintf("node %q", n.Name))
		}
	})
	if named {
		return nil
	}
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		if strings.Contains(err.Error(), fmt.Sprintf("%q", v.Name)) {
			return nil
		}
	}
	return fmt.Errorf("names no node: %w", err)
}

// same compares floats in proportion to the largest of them, as sums of both signs cancel, with
// what some dozens of roundings one after another come to; everything else exactly. Of half the
// digits, the last ones of what is computed in between are that many steps of the result.
func (s *hostile) same(g *graph.Graph, got, want []*tensor.Tensor) error {
	for i := range want {
		most := 0.0
		if fs, err := want[i].Floats(); err == nil && want[i].DType.IsFloat() {
			for _, f := range fs {
				if f = math.Abs(f); !math.IsInf(f, 0) && f > most {
					most = f
				}
			}
		}
		rtol := 0x1p-17
		if d := want[i].DType; d == tensor.BFloat16 || d == tensor.Float16 {
			rtol = 1.0 / 64
		}
		leaveOut(g, got[i], want[i])
		if err := tensor.Close(got[i], want[i], rtol, 0x1p-17*most+1e-6); err != nil {
			return fmt.Errorf("output %q differs from the reference's: %w", g.Outputs[i].Name, err)
		}
	}
	return nil
}

// leaveOut makes NaNs of infinities in two results of float32 where both have no number: which of
// these is left depends on the order of sums, and on what is put into the weights of a convolution.
//
// A Resize may also leave out a neighbour of weight 0, which makes a number of what 0·NaN would
// make NaN. Convolutions in tiles (Winograd 1980) subtract the elements of a tile from each other,
// which spreads what is no number to all of its results.
func leaveOut(g *graph.Graph, a, b *tensor.Tensor) {
	if a.DType != tensor.Float32 || b.DType != tensor.Float32 || a.Len() != b.Len() {
		return
	}
	resize := slices.ContainsFunc(g.Nodes,
		func(n *graph.Node) bool { return n.Type == "Resize" || n.Type == "Upsample" })
	conv := slices.ContainsFunc(g.Nodes,
		func(n *graph.Node) bool { return strings.HasSuffix(n.Type, "Conv") })
	x, y := tensor.As[float32](a), tensor.As[float32](b)
	for i := range x {
		got, want := x[i]-x[i] == 0, y[i]-y[i] == 0
		if !got && (conv || !want) || resize && !want {
			x[i], y[i] = float32(math.NaN()), float32(math.NaN())
		}
	}
}

// TestScoresShowUnderMasks holds that what is no number among keys and values shows through a mask
// that is added as it does by the definition, fused or not: -Inf and NaN are NaN, +Inf stays.
func TestScoresShowUnderMasks(t *testing.T) {
	e := testEngine(t, 2)
	plain := *e
	plain.Plan = plan.Options{Passes: pass.Options{Off: pass.Names()}}
	s := &hostile{plain: &plain, fast: e, count: map[string]int{}}
	const queries, keys, size = 20, 24, 8
	for k, low := range []float32{float32(math.Inf(-1)), -math.MaxFloat32} {
		for _, odd := range []float32{float32(math.NaN()), float32(math.Inf(1)),
			float32(math.Inf(-1))} {
			for at := range 6 {
				r := rand.New(rand.NewPCG(uint64(at), uint64(k)))
				mask := make([]float32, queries*keys)
				for i := range mask {
					// triangles, which kernels take for what they are, and any other
					if at%2 == 0 && i%keys > i/keys || at%2 == 1 && r.IntN(3) == 0 {
						mask[i] = low
					}
				}
				g, in := maskedAttention(t, r, mask, queries, keys, size)
				operand := tensor.As[float32](in[1+at%3/2])
				operand[r.IntN(len(operand)/2)+len(operand)/2] = odd
				if err := s.try(t.Context(), g, in); err != nil {
					t.Errorf("mask of %g, %g in operand %d: %v", low, odd, 1+at%3/2, err)
				}
			}
		}
	}
	if s.count["both ran"] != 36 {
		t.Errorf("%v: want 36 runs", s.count)
	}
}

// maskedAttention is softmax(q·kᵀ + mask)·v as exporters write it, with operands for it.
func maskedAttention(t *testing.T, r *rand.Rand, mask []float32, queries, keys, size int) (
	*graph.Graph, []*tensor.Tensor,
) {
	t.Helper()
	g, err := graph.Parse(fmt.Sprintf(`graph "attention" {
opset "" 17
input %%q: float32[%[1]d,%[3]d]
input %%k: float32[%[2]d,%[3]d]
input %%v: float32[%[2]d,%[3]d]
input %%m: float32[%[1]d,%[2]d]
%%t = Transpose@17 (%%k) {perm=[1,0]}
%%p = MatMul@17 (%%q, %%t)
%%s = Add@17 (%%p, %%m)
%%w = Softmax@17 (%%s)
%%y = MatMul@17 (%%w, %%v)
output %%y
}`, queries, keys, size))
	if err != nil {
		t.Fatal(err)
	}
	var in []*tensor.Tensor
	for _, rows := range []int{queries, keys, keys} {
		x := make([]float32, rows*size)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		in = append(in, tensor.From(x, rows, size))
	}
	g.Inputs[3].Type, g.Inputs = op.TypeOf(tensor.From(mask, queries, keys)), g.Inputs[:3]
	return g, in
}

// mutator makes hostile forms of graphs and inputs.
type mutator struct {
	*rand.Rand
	did []string
}

func (r *mutator) note(format string, args ...any) {
	r.did = append(r.did, fmt.Sprintf(format, args...))
}

// mutated returns changed copies.
func (r *mutator) mutated(g *graph.Graph, in []*tensor.Tensor) (*graph.Graph, []*tensor.Tensor) {
	g, in = g.Clone(), slices.Clone(in)
	if len(g.Nodes) == 0 {
		return g, in
	}
	for range 1 + r.IntN(3) {
		switch k := r.IntN(8); {
		case k < 3:
			r.attribute(g.Nodes[r.IntN(len(g.Nodes))])
		case k < 7 && len(in) > 0:
			i := r.IntN(len(in))
			r.note("input %d", i)
			in[i] = r.tensor(in[i])
		default:
			r.operand(g.Nodes[r.IntN(len(g.Nodes))])
		}
	}
	for i, v := range g.Inputs {
		v.Type = op.Concrete(in[i].DType, in[i].Shape...)
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v != nil {
				v.Type = op.Type{}
			}
		}
	}
	if r.IntN(3) == 0 && len(in) > 1 {
		r.note("operands constant")
		in = fix(g, in)
	}
	return g, in
}

// operand takes an operand away from a node, or gives it twice.
func (r *mutator) operand(n *graph.Node) {
	formals := len(n.In) - n.Captures
	if formals == 0 {
		return
	}
	i := r.IntN(formals)
	if n.In = slices.Clone(n.In); r.IntN(2) == 0 {
		r.note("%v without input %d", n, i)
		n.In[i] = nil
		return
	}
	k := r.IntN(formals)
	r.note("%v with input %d for %d", n, k, i)
	n.In[i] = n.In[k]
}

// attribute changes, adds or removes an attribute of a node.
func (r *mutator) attribute(n *graph.Node) {
	n.Attrs = slices.Clone(n.Attrs)
	if len(n.Attrs) == 0 || r.IntN(6) == 0 {
		names := []string{
			"axis",
			"axes",
			"mode",
			"keepdims",
			"group",
			"pads",
			"strides",
			"alpha",
			"dtype",
			"to",
			"reduction",
			"num_heads",
		}
		n.Attrs = append(n.Attrs, op.IntAttr(names[r.IntN(len(names))], r.int()))
	}
	i := r.IntN(len(n.Attrs))
	a := n.Attrs[i]
	if a.Name == "seed" { // without it, results are not to be compared
		return
	}
	if slices.ContainsFunc(n.Attrs[:i], func(b op.Attr) bool { return b.Name == a.Name }) {
		n.Attrs = slices.Delete(n.Attrs, i, i+1)
		return
	}
	switch r.IntN(10) {
	case 0:
		r.note("%v without %s", n, a.Name)
		n.Attrs = slices.Delete(n.Attrs, i, i+1)
		return
	case 1:
		a = r.otherKind(a)
	default:
		a = r.otherValue(a)
	}
	// minus a whole variance, what 0/0 is depends on the order
	if a.Name == "epsilon" && a.Kind == op.AttrFloat {
		a.Floats[0] = float32(math.Abs(float64(a.Floats[0])))
	}
	n.Attrs[i] = a
	r.note("%v with %s %v %v%v%v", n, a.Name, a.Kind, a.Ints, a.Floats, a.Strings)
}

func (r *mutator) otherKind(a op.Attr) op.Attr {
	if a.Body != nil {
		return a
	}
	return []op.Attr{op.IntAttr(a.Name, r.int()), op.IntsAttr(a.Name, r.int(), r.int()),
		op.IntsAttr(a.Name), op.FloatAttr(a.Name, r.float()),
		op.FloatsAttr(a.Name, r.float()), op.StringAttr(a.Name, r.string()),
		op.StringsAttr(a.Name, r.string(), ""),
		op.TensorAttr(a.Name, tensor.Scalar(r.int()))}[r.IntN(8)]
}

func (r *mutator) otherValue(a op.Attr) op.Attr {
	switch a.Kind {
	case op.AttrInt:
		return op.IntAttr(a.Name, r.int())
	case op.AttrFloat:
		return op.FloatAttr(a.Name, r.float())
	case op.AttrString:
		return op.StringAttr(a.Name, r.string())
	case op.AttrInts:
		return op.IntsAttr(a.Name, changed(r, a.Ints, r.int)...)
	case op.AttrFloats:
		return op.FloatsAttr(a.Name, changed(r, a.Floats, r.float)...)
	case op.AttrStrings:
		return op.StringsAttr(a.Name, changed(r, a.Strings, r.string)...)
	case op.AttrTensor:
		return op.TensorAttr(a.Name, r.tensor(a.Tensor))
	}
	return a
}

// changed is a list with one element changed, more or less.
func changed[T any](r *mutator, v []T, one func() T) []T {
	v = slices.Clone(v)
	switch k := r.IntN(4); {
	case k == 0 || len(v) == 0:
		return append(v, one())
	case k == 1:
		return v[:len(v)-1]
	}
	v[r.IntN(len(v))] = one()
	return v
}

func (r *mutator) int() int64 {
	if r.IntN(3) > 0 {
		return r.Int64N(9) - 3
	}
	return []int64{math.MinInt64, math.MaxInt64, math.MinInt64 + 1, math.MinInt32, math.MaxInt32,
		1 << 31, 1 << 40, -1 << 40, 1 << 62, 64, 1000,
		255}[r.IntN(12)]
}

func (r *mutator) float() float32 {
	return []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.5, 1e-7, 1e4, -1e4,
		float32(math.NaN()), float32(math.Inf(1)),
		float32(math.Inf(-1)), 1e30}[r.IntN(12)]
}

func (r *mutator) string() string {
	return []string{"", "x", "linear", "constant", "forward", "SAME_UPPER", "mean", "max", "Relu",
		"...", "ij->ji", "\xff"}[r.IntN(12)]
}

// tensor is one of another type or shape, or with other elements.
func (r *mutator) tensor(t *tensor.Tensor) *tensor.Tensor {
	switch r.IntN(4) {
	case 0:
		return r.reshaped(t)
	case 1:
		return r.retyped(t)
	}
	t = t.Clone()
	r.note("other elements")
	if n := t.Len(); n > 0 {
		for range 1 + n/4*r.IntN(2) {
			r.element(t, r.IntN(n), r.IntN(9))
		}
	}
	return t
}

// reshaped is a tensor of another rank or other sizes, filled with what there was.
func (r *mutator) reshaped(t *tensor.Tensor) *tensor.Tensor {
	shape := slices.Clone(t.Shape)
	switch k := r.IntN(6); {
	case k == 0:
		shape = append(shape, 1+r.IntN(2))
	case k == 1:
		shape = []int{}
	case len(shape) == 0:
		shape = []int{r.IntN(3)}
	case k == 2:
		shape = shape[1:]
	case k == 3:
		shape[r.IntN(len(shape))] = 0
	case k == 4:
		i, k := r.IntN(len(shape)), r.IntN(len(shape))
		shape[i], shape[k] = shape[k], shape[i]
	default:
		shape[r.IntN(len(shape))] = 1 + r.IntN(6)
	}
	r.note("shape %v for %v", shape, t.Shape)
	out, err := tensor.New(t.DType, shape...)
	if err != nil {
		return t
	}
	for i, at := 0, 0; i < len(out.Data) && len(t.Data) > 0; i += at {
		at = copy(out.Data[i:], t.Data)
	}
	for i := range out.Strings {
		if len(t.Strings) > 0 {
			out.Strings[i] = t.Strings[i%len(t.Strings)]
		}
	}
	return out
}

// retyped is a tensor of another element type with small elements.
func (r *mutator) retyped(t *tensor.Tensor) *tensor.Tensor {
	types := []tensor.DType{
		tensor.Float32,
		tensor.Float64,
		tensor.Float16,
		tensor.BFloat16,
		tensor.Int64,
		tensor.Int32,
		tensor.Int8,
		tensor.Uint8,
		tensor.Uint64,
		tensor.Bool,
		tensor.String,
		tensor.Complex64,
	}
	out, err := tensor.New(types[r.IntN(len(types))], t.Shape...)
	if err != nil {
		return t
	}
	r.note("%v for %v", out.DType, t.DType)
	for i := range out.Len() {
		r.element(out, i, r.IntN(3))
	}
	return out
}

// element writes an element: a small number, an extreme one from 3 on.
func (r *mutator) element(t *tensor.Tensor, i, k int) {
	switch t.DType {
	case tensor.Float32:
		tensor.As[float32](t)[i] = floats[k%len(floats)]
	case tensor.Float64:
		tensor.As[float64](t)[i] = float64(floats[k%len(floats)])
	case tensor.Float16:
		tensor.As[tensor.Half](t)[i] = tensor.HalfOf(floats[k%len(floats)])
	case tensor.BFloat16:
		tensor.As[tensor.BHalf](t)[i] = tensor.BHalfOf(floats[k%len(floats)])
	case tensor.Int64:
		tensor.As[int64](t)[i] = integers[k%len(integers)]
	case tensor.Int32:
		tensor.As[int32](t)[i] = int32(
			min(max(integers[k%len(integers)], math.MinInt32), math.MaxInt32))
	case tensor.Bool:
		t.Data[i] = byte(k & 1)
	case tensor.String:
		t.Strings[i] = r.string()
	case tensor.Int8, tensor.Uint8:
		t.Data[i] = []byte{0, 1, 2, 0xff, 0x7f, 0x80}[k%6]
	}
}

var (
	// floats whose sums and products do not depend on their order in what is left of infinities.
	floats = []float32{
		0,
		1,
		0.5,
		-1,
		float32(math.Copysign(0, -1)),
		100,
		float32(math.NaN()),
		float32(math.Inf(1)),
		float32(math.Inf(-1)),
	}

	integers = []int64{
		0,
		1,
		2,
		-1,
		math.MinInt64,
		math.MaxInt64,
		math.MinInt32,
		math.MaxInt32,
		1 << 40,
	}
)
