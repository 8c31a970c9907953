package grad_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// TestNamesOfDimensions differentiates what broadcasts under names and declared shapes that say
// that it does not: the gradients are those of operands whose dimensions have names of their own.
func TestNamesOfDimensions(t *testing.T) {
	for _, lines := range []string{
		`%y = Add@14 (%a, %b)`,
		`%y = Sub@14 (%a, %b)`,
		`%y = Mul@14 (%a, %b)`,
		`%y = Div@14 (%a, %b)`,
		`%y = Max@13 (%a, %b)`,
		`%y = Sum@13 (%a, %b, %a)`,
		`%y = Pow@15 (%a, %b)`,
		`%y = PRelu@16 (%a, %b)`,
		"%c = Greater@13 (%a, %b)\n%y = Where@16 (%c, %a, %b)",
		"%s = Shape@15 (%a)\n%y = Expand@13 (%b, %s)\n%z = Neg@13 (%a)",
		"%at = Transpose@13 (%a) {perm=[1,0]}\n%y = Gemm@13 (%a, %at, %b)",
		"%one = Neg@13 (%a)\n%two: float64[n,m] = Neg@13 (%b)\n%y = Mul@14 (%one, %two)",
		"%one: float64[3,3] = Exp@13 (%a)\n%two: float64[3,3] = Exp@13 (%b)\n" +
			"%y = Mul@14 (%one, %two)",
	} {
		for _, shape := range [][]int{{1, 3}, {3, 1}, {1, 1}, {3, 3}} {
			run := func(names string) []*tensor.Tensor {
				g := parse(t, "input %a: float64[n,m]\ninput %b: float64["+names+"]\n"+lines+
					"\noutput %y")
				o := grad.Objective{Of: values(t, g, "y"), By: values(t, g, "a", "b")}
				n, _ := tensor.Count(shape)
				b := tensor.From([]float64{.5, 2, -1, 3, 1.5, .25, -2, 4, 1}[:n], shape...)
				a := tensor.From([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3)
				return derive(t, g, o, a, b)
			}
			want := run("k,l")
			if !slices.Equal(want[1].Shape, shape) {
				t.Fatalf("gradient of %v is %v", shape, want[1])
			}
			for _, names := range []string{"n,m", "n,n", "m,n", "k,m"} {
				expect(t, run(names), want...)
			}
		}
	}
}

// TestUnknownRanks asks for gradients by values that may have been broadcast and of which not even
// the rank is known.
func TestUnknownRanks(t *testing.T) {
	for _, lines := range []string{
		`%y = Mul@14 (%a, %b)`,
		"%c = Greater@13 (%a, %b)\n%y = Where@16 (%c, %a, %b)",
	} {
		g := parse(t, "input %x: float64[n,m]\ninput %z: float64[k,l]\n%a = Squeeze@13 (%x)\n"+
			"%b = Squeeze@13 (%z)\n"+lines+"\noutput %y")
		o := grad.Objective{Of: values(t, g, "y"), By: values(t, g, "a", "b")}
		if _, err := grad.Backward(g, o); !errors.Is(err, op.ErrNoGradient) {
			t.Errorf("%s: error %v", lines, err)
		}
	}
}

// TestUntyped differentiates a graph that no shapes fit: the error names the node that refuses.
func TestUntyped(t *testing.T) {
	g := parse(t, `input %x: float64[n,3]
input %w: float64[4,5]
%h = MatMul@13 "misfit" (%x, %w)
%y = Tanh@13 (%h)
output %y`)
	_, err := grad.Backward(g, grad.Objective{Of: values(t, g, "y"), By: values(t, g, "x")})
	if !errors.Is(err, op.ErrNoGradient) || !strings.Contains(err.Error(), `"misfit" (MatMul)`) {
		t.Errorf("error %v", err)
	}
}

// TestDeclaredTypesStay: what a model declares and no rule can tell is there after the gradients as
// before.
func TestDeclaredTypesStay(t *testing.T) {
	g := parse(t, `input %x: float64[n,3]
%c: int64[2,5] = NonZero@13 (%x)
%h: float64[n,3] = Tanh@13 (%x)
%f: float64[2,5] = Cast@13 (%c) {to=11}
%s = ReduceSum@13 (%h)
%y = Mul@13 (%f, %s)
output %y`)
	before, nodes := map[string]string{}, slices.Clone(g.Nodes)
	for _, n := range nodes[:3] {
		before[n.Out[0].Name] = n.Out[0].Type.String()
	}
	o := grad.Objective{Of: values(t, g, "y"), By: values(t, g, "x")}
	if _, err := grad.Backward(g, o); err != nil {
		t.Fatal(err)
	}
	if got := nodes[3].Out[0].Type.String(); got != "float64[1,1]" {
		t.Errorf("the sum is %s, want what its rule says", got)
	}
	for _, n := range nodes[:3] {
		if v := n.Out[0]; v.Type.String() != before[v.Name] {
			t.Errorf("%s is %v, was %s", v.Name, v.Type, before[v.Name])
		}
	}
}

// TestSeedsOfEveryType: without a seed the gradient of a result by itself is one, in its own type.
func TestSeedsOfEveryType(t *testing.T) {
	for _, c := range []struct{ x, want *tensor.Tensor }{
		{tensor.From([]float64{1, 2}, 2), tensor.From([]float64{-1, -1}, 2)},
		{tensor.From([]float32{1, 2}, 2), tensor.From([]float32{-1, -1}, 2)},
		{tensor.From([]tensor.Half{0, 0}, 2), tensor.From(slices.Repeat(
			[]tensor.Half{tensor.HalfOf(-1)}, 2), 2)},
		{tensor.From([]tensor.BHalf{0, 0}, 2), tensor.From(slices.Repeat(
			[]tensor.BHalf{tensor.BHalfOf(-1)}, 2), 2)},
	} {
		g := parse(t, "input %x: "+c.x.DType.String()+"[2]\n%y = Neg@13 (%x)\noutput %y")
		o := grad.Objective{Of: values(t, g, "y"), By: values(t, g, "x")}
		ds, err := grad.Backward(g, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range g.Constants() {
			if err := k.Const().Check(); err != nil {
				t.Errorf("%v: constant %s: %v", c.x.DType, k.Name, err)
			}
		}
		g.Outputs = ds
		got, err := g.Eval(t.Context(), []*tensor.Tensor{c.x})
		if err != nil || !tensor.Equal(got[0], c.want) {
			t.Errorf("%v: got %v, error %v", c.x.DType, got, err)
		}
	}
}
