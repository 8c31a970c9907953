package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/conformance/archive"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// microsoftCases are single nodes of the domain com.microsoft with what ONNX Runtime computes,
// written by internal/conformance/peer/contrib.py --golden.
func microsoftCases(t testing.TB) []*Case {
	t.Helper()
	dir := t.TempDir()
	if err := archive.Unpack("testdata/microsoft.tar.xz", dir); err != nil {
		t.Fatal(err)
	}
	cases, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestMicrosoft holds the operators to ONNX Runtime's results, by their definitions and in all ways
// of running them. Every operator of the domain has cases.
func TestMicrosoft(t *testing.T) {
	cases := microsoftCases(t)
	for _, r := range RunAll(t.Context(), cases, Reference, runtime.GOMAXPROCS(0)).Cases {
		if r.Status != Passed {
			t.Errorf("%s: %s: %s", r.Name, r.Status, r.Detail)
		}
	}
	s := newTester(t)
	for _, c := range cases {
		if err := s.run(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	seen := map[string]bool{}
	for _, c := range cases {
		name, err := c.Operator()
		if err != nil {
			t.Fatal(err)
		}
		seen[name] = true
	}
	for _, o := range op.All() {
		call := op.Call{Domain: o.Domain, Type: o.Name}
		if o.Domain == microsoft.Domain && !seen[call.Name()] &&
			o.Name != "SimplifiedLayerNormalization" {
			t.Errorf("%s has no case", call.Name())
		}
	}
}

// TestMicrosoftExpands checks that the compositions among the cases leave nothing of the domain to
// the kernels.
func TestMicrosoftExpands(t *testing.T) {
	whole := map[string]bool{
		"Inverse":             true,
		"DynamicQuantizeLSTM": true,
		"GroupQueryAttention": true,
	}
	for _, c := range microsoftCases(t) {
		m, err := onnx.Open(c.Model, onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pass.Run(t.Context(), m.Graph, pass.Options{}); err != nil {
			t.Fatal(err)
		}
		for _, n := range m.Graph.Nodes {
			if n.Domain == microsoft.Domain && !whole[n.Type] {
				t.Errorf("%s: %v is still there", c.Name, n)
			}
		}
		m.Close()
	}
}

// mutant is a call with operands that began as a case.
type mutant struct {
	*rand.Rand
	op   *op.Op
	call op.Call
	in   []*tensor.Tensor
}

// mutants reads the calls of the cases.
func mutants(t *testing.T, rng *rand.Rand) []mutant {
	var out []mutant
	for _, c := range microsoftCases(t) {
		m, err := onnx.Open(c.Model, onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		fed, err := inputs(m, c.Sets[0])
		if err != nil {
			t.Fatal(err)
		}
		n := m.Graph.Nodes[0]
		o, err := n.Op()
		if err != nil {
			t.Fatal(err)
		}
		x := mutant{Rand: rng, op: o, call: *n.Call()}
		for _, v := range n.In {
			x.in = append(x.in, operand(m.Graph, v, fed))
		}
		m.Close()
		out = append(out, x)
	}
	return out
}

func operand(g *graph.Graph, v *graph.Value, fed []*tensor.Tensor) *tensor.Tensor {
	switch {
	case v == nil:
		return nil
	case v.IsConst():
		return v.Const().Clone()
	}
	return fed[slices.Index(g.Inputs, v)]
}

// change returns the mutant with one to three things about it changed.
func (x mutant) change() mutant {
	x.in, x.call.Attrs = slices.Clone(x.in), slices.Clone(x.call.Attrs)
	for range 1 + x.IntN(3) {
		switch x.IntN(5) {
		case 0:
			if i := x.IntN(len(x.in)); x.in[i] != nil {
				x.in[i] = x.reshaped(x.in[i])
			}
		case 1:
			if i := x.IntN(len(x.in)); !x.op.Requires(i) {
				x.in[i] = nil
			}
		case 2:
			i, k := x.IntN(len(x.in)), x.IntN(len(x.in))
			if x.in[k] != nil {
				x.in[i] = x.in[k]
			}
		case 3:
			if len(x.call.Attrs) > 0 {
				x.call.Attrs = x.changed(x.call.Attrs, x.IntN(len(x.call.Attrs)))
			}
		case 4:
			x.call.NumOut = max(1, x.op.MinOut) + x.IntN(max(x.op.MaxOut, 1)-max(1, x.op.MinOut)+1)
		}
	}
	return x
}

// reshaped gives an operand another rank, or changes one size and with it what it holds.
func (x mutant) reshaped(v *tensor.Tensor) *tensor.Tensor {
	shape := slices.Clone(v.Shape)
	switch k := x.IntN(4); {
	case k == 0:
		shape = append([]int{1}, shape...)
	case k == 1 && len(shape) > 0:
		shape = shape[1:]
	case len(shape) > 0:
		shape[x.IntN(len(shape))] = x.IntN(5)
	}
	out, err := tensor.New(v.DType, shape...)
	if err != nil {
		return v
	}
	for i := range out.Data {
		if len(v.Data) > 0 {
			out.Data[i] = v.Data[i%len(v.Data)]
		}
	}
	return out
}

// changed returns attributes of which one is gone, of another kind, or has an unusual value.
func (x mutant) changed(as op.Attrs, i int) op.Attrs {
	odd := []int64{0, 1, -1, 2, 3, math.MaxInt64, math.MinInt64, 1 << 31, 1 << 40}[x.IntN(9)]
	switch a := as[i]; {
	case x.IntN(6) == 0:
		return slices.Delete(as, i, i+1)
	case x.IntN(8) == 0:
		as[i] = op.StringAttr(a.Name, "odd")
	case a.Kind == op.AttrInts:
		v := slices.Clone(a.Ints)
		if len(v) > 0 {
			v[x.IntN(len(v))] = odd
		}
		as[i] = op.IntsAttr(a.Name, v[:x.IntN(len(v)+1)]...)
	case a.Kind == op.AttrFloat:
		as[i] = op.FloatAttr(a.Name,
			[]float32{0, -1, float32(math.Inf(1)), float32(math.NaN())}[x.IntN(4)])
	default:
		as[i] = op.IntAttr(a.Name, odd)
	}
	return as
}

// infer runs the shape rule with the operands as constants or by shape only.
func (x mutant) infer(constant bool) ([]op.Type, error) {
	c := &op.Infer{
		Call:    &x.call,
		Present: make([]bool, len(x.in)),
		In:      make([]op.Type, len(x.in)),
		Out:     make([]op.Type, x.call.NumOut),
	}
	for i, v := range x.in {
		if v != nil {
			c.Present[i], c.In[i] = true, op.Concrete(v.DType, v.Shape...)
			if constant {
				c.In[i] = op.TypeOf(v)
			}
		}
	}
	return c.Out, x.op.Infer(c)
}

// misread reports whether an attribute is of a kind that graphs are refused for before anything
// reads it.
func (x mutant) misread() bool {
	in, present := make([]op.Type, len(x.in)), make([]bool, len(x.in))
	for i, v := range x.in {
		if v != nil {
			in[i], present[i] = op.Concrete(v.DType, v.Shape...), true
		}
	}
	_, err := op.InferTypes(x.op, &x.call, in, present)
	return errors.Is(err, op.ErrAttr)
}

// TestMicrosoftMutants changes the cases at random. Rules and evaluations are called without the
// guard that turns a panic into an error; what evaluates, the rule accepts, and the outputs are
// what it says.
func TestMicrosoftMutants(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	ran := map[string]int{}
	for _, x := range mutants(t, rng) {
		for range 60 {
			y := x.change()
			y.call.NumIn = len(y.in)
			label := fmt.Sprintf("%s %v of %v", y.call.Name(), y.call.Attrs, y.in)
			out, ok := evaluate(t, y, label)
			if !ok || y.misread() {
				continue
			}
			ran[y.op.Name]++
			for _, constant := range []bool{false, true} {
				types, err := y.infer(constant)
				if err != nil {
					t.Errorf("%s: the rule refuses what evaluates: %v", label, err)
					continue
				}
				agree(t, label, types, out)
			}
		}
		if t.Failed() {
			return
		}
	}
	for _, o := range op.All() {
		if o.Domain == microsoft.Domain && ran[o.Name] == 0 &&
			o.Name != "SimplifiedLayerNormalization" {
			t.Errorf("no mutant of %s evaluated", o.Name)
		}
	}
}

// evaluate runs the evaluation and fails the test when it panics.
func evaluate(t *testing.T, x mutant, label string) (out []*tensor.Tensor, ok bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("%s: panic: %v", label, r)
		}
	}()
	_, _ = x.infer(false)
	_, _ = x.infer(true)
	if x.op.Check(&x.call) != nil {
		return nil, false
	}
	e := &op.Eval{
		Call:  &x.call,
		Ctx:   context.Background(),
		In:    x.in,
		Out:   make([]*tensor.Tensor, x.call.NumOut),
		Alloc: small,
	}
	return e.Out, x.op.Eval(e) == nil
}

// small refuses outputs that a test should not compute.
func small(_ int, d tensor.DType, shape []int) (*tensor.Tensor, error) {
	if n, err := tensor.ByteCount(d, shape); err != nil || n > 1<<20 {
		return nil, tensor.ErrShape
	}
	return tensor.New(d, shape...)
}

// agree checks that outputs are what the rule says.
func agree(t *testing.T, label string, types []op.Type, out []*tensor.Tensor) {
	t.Helper()
	for i, ty := range types {
		if out[i] == nil {
			t.Errorf("%s: output %d was not made", label, i)
			continue
		}
		ok := (ty.DType == out[i].DType || ty.DType == tensor.Undefined) &&
			(!ty.Ranked || len(ty.Shape) == out[i].Rank())
		for k, d := range ty.Shape {
			if n, known := d.Int(); ok && known {
				ok = n == out[i].Shape[k]
			}
		}
		if !ok {
			t.Errorf("%s: output %d: the rule says %v, have %v%v", label, i, ty, out[i].DType,
				out[i].Shape)
		}
	}
}
