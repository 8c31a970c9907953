// Package optest is what tests of operators share: cases computed by hand, run so that a definition
// which leaves an element unwritten, writes its input or disagrees with its shape rule is found.
//
// Meet first: [Run] and [Case].
//
// Concurrency: as testing has it.
//
// What it refuses: a call that does not fit its row fails the test.
package optest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Case is one call with the outputs that it must give, or the kind of error that it must end in.
type Case struct {
	Name         string // beside the operator's; may be empty
	Domain, Type string
	Version      int
	Attrs        op.Attrs
	In           []*tensor.Tensor // nil for an absent optional input
	Want         []*tensor.Tensor // nil for an output that is not compared
	ErrKind      error
}

// Run runs each case as a test of its own, see [Check].
func Run(t *testing.T, cases []Case) {
	t.Helper()
	for _, c := range cases {
		name := c.Type
		if c.Name != "" {
			name += "/" + c.Name
		}
		call := op.Call{Domain: c.Domain, Type: c.Type, Version: c.Version, Attrs: c.Attrs,
			NumIn: len(c.In), NumOut: max(1, len(c.Want))}
		t.Run(name, func(t *testing.T) { Check(t, &call, c.In, c.Want, c.ErrKind) })
	}
}

// Check evaluates a call (see [Eval]), compares the outputs with the wanted ones, those that are
// not nil, to 1e-6 of their size, and with what the shape rule says for several degrees of
// knowledge. If kind is given, the evaluation must end in an error of that kind in place of that.
func Check(t *testing.T, call *op.Call, in, want []*tensor.Tensor, kind error) {
	t.Helper()
	out, err := Eval(t, call, in)
	if kind != nil {
		if !errors.Is(err, kind) {
			t.Fatalf("got %v, error %v; want error %v", out, err, kind)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if w == nil {
			continue
		}
		if err := tensor.Close(out[i], w, 1e-6, 1e-7); err != nil {
			t.Errorf("output %d: %v\n got %v\nwant %v", i, err, Show(out[i]), Show(w))
		}
	}
	RulesAgree(t, call, in, out)
}

// Show writes a tensor with its first elements.
func Show(v *tensor.Tensor) string {
	if v.DType.IsContainer() {
		return v.String()
	}
	s := fmt.Sprintf("%v%v{", v.DType, v.Shape)
	for i := range min(v.Len(), 64) {
		s += fmt.Sprintf(" %v", v.At(i))
	}
	return s + " }"
}

// Row returns the row of a call, which it must fit.
func Row(t testing.TB, call *op.Call) *op.Op {
	t.Helper()
	o, err := op.Lookup(call.Domain, call.Type, call.Version)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Check(call); err != nil {
		t.Fatal(err)
	}
	return o
}

// Eval evaluates a call on outputs full of garbage. It calls the row's function directly, so that a
// panic fails the test, and checks that no input was written and that all outputs are whole.
func Eval(t testing.TB, call *op.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	t.Helper()
	before := clones(in)
	c := &op.Eval{Call: call, Ctx: context.Background(), In: in,
		Out: make([]*tensor.Tensor, call.NumOut), Alloc: Dirty}
	err := Row(t, call).Eval(c)
	for i, v := range in {
		if v != nil && !tensor.Equal(v, before[i]) {
			t.Errorf("input %d was written", i)
		}
	}
	if err != nil {
		return nil, err
	}
	for i, v := range c.Out {
		if v == nil {
			t.Fatalf("output %d was not made", i)
		}
		if err := v.Check(); err != nil {
			t.Errorf("output %d: %v", i, err)
		}
	}
	return c.Out, nil
}

// clones are copies of the tensors that are there.
func clones(in []*tensor.Tensor) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(in))
	for i, v := range in {
		if v != nil {
			out[i] = v.Clone()
		}
	}
	return out
}

// Dirty provides outputs whose contents an evaluation must overwrite.
func Dirty(_ int, d tensor.DType, shape []int) (*tensor.Tensor, error) {
	v, err := tensor.New(d, shape...)
	if err != nil {
		return nil, err
	}
	for i := range v.Data {
		v.Data[i] = 0x5a
	}
	for i := range v.Strings {
		v.Strings[i] = "garbage"
	}
	return v, nil
}

// RulesAgree checks the shape rule against real outputs: knowing constants, knowing shapes, knowing
// symbols, ranks only, and nothing.
func RulesAgree(t *testing.T, call *op.Call, in, out []*tensor.Tensor) {
	t.Helper()
	for _, mode := range []string{"constants", "shapes", "symbols", "ranks", "types"} {
		env := map[string]int{}
		c := &op.Infer{Call: call, In: make([]op.Type, len(in)), Present: make([]bool, len(in)),
			Out: make([]op.Type, call.NumOut)}
		for i, v := range in {
			if v != nil {
				c.Present[i], c.In[i] = true, knowledge(mode, i, v, env)
			}
		}
		if err := Row(t, call).Infer(c); err != nil {
			t.Errorf("%s: %v", mode, err)
			continue
		}
		for i, ty := range c.Out {
			if err := Holds(ty, out[i], env); err != nil {
				t.Errorf("%s: output %d: %v", mode, i, err)
			}
		}
	}
}

func knowledge(mode string, i int, v *tensor.Tensor, env map[string]int) op.Type {
	if v.DType.IsContainer() {
		if mode == "types" {
			return op.Type{DType: v.DType}
		}
		return op.ValueType(v)
	}
	ty := op.Concrete(v.DType, v.Shape...)
	switch mode {
	case "constants":
		return op.TypeOf(v)
	case "symbols":
		if v.Rank() <= 1 { // shapes, axes and the like stay constants
			return op.TypeOf(v)
		}
		for k, n := range v.Shape {
			name := fmt.Sprintf("%c%d", 'a'+i, k)
			env[name], ty.Shape[k] = n, op.Sym(name)
		}
	case "ranks":
		for k := range ty.Shape {
			ty.Shape[k] = op.Unknown()
		}
	case "types":
		return op.Unranked(v.DType)
	}
	return ty
}

// Holds checks that what a type claims is true of a tensor.
func Holds(ty op.Type, v *tensor.Tensor, env map[string]int) error {
	if ty.DType != v.DType && ty.DType != tensor.Undefined {
		return fmt.Errorf("rule says %v, have %v", ty, v.DType)
	}
	for _, item := range v.Items {
		if v.DType == tensor.Map || ty.Elem == nil {
			break
		}
		if err := Holds(*ty.Elem, item, env); err != nil {
			return fmt.Errorf("within %v: %w", ty, err)
		}
	}
	if ty.Ranked && len(ty.Shape) != v.Rank() {
		return fmt.Errorf("rule says %v, have %v", ty, v.Shape)
	}
	for k, d := range ty.Shape {
		if n, ok := d.Eval(env); ok && n != v.Shape[k] {
			return fmt.Errorf("rule says %v, have %v for %v", ty, v.Shape, env)
		}
	}
	return holdsElems(ty, v, env)
}

// holdsElems is [Holds] of the elements that the type knows.
func holdsElems(ty op.Type, v *tensor.Tensor, env map[string]int) error {
	if ty.Elems == nil {
		return nil
	}
	ints, err := v.Ints()
	if err != nil || len(ints) != len(ty.Elems) {
		return fmt.Errorf("rule says elements %v, have %v", ty.Elems, v)
	}
	for k, d := range ty.Elems {
		if n, ok := d.Eval(env); ok && int64(n) != ints[k] {
			return fmt.Errorf("rule says elements %v, have %v for %v", ty.Elems, ints, env)
		}
	}
	return nil
}
