package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// evalCase is one call with the outputs that it must give, or the kind of error that it must end
// in.
type evalCase struct {
	name    string
	op      string
	domain  string
	version int
	attrs   Attrs
	in      []*tensor.Tensor // nil for an absent optional input
	want    []*tensor.Tensor // nil for an output that is not compared
	err     error
}

// latest is the opset version of cases that name none.
const latest = 28

func (e evalCase) call() *Call {
	v := e.version
	if v == 0 {
		v = latest
	}
	return &Call{Domain: e.domain, Type: e.op, Version: v, Attrs: e.attrs, NumIn: len(e.in),
		NumOut: max(1, len(e.want))}
}

// runCases evaluates each case on outputs full of garbage, compares them with the wanted ones and
// with what the shape rule says for several degrees of knowledge, and checks that no input was
// written. Functions of the row are called directly, so that a panic fails the test.
func runCases(t *testing.T, cases []evalCase) {
	t.Helper()
	for _, e := range cases {
		name := e.op
		if e.name != "" {
			name += "/" + e.name
		}
		t.Run(name, func(t *testing.T) {
			out, err := rawEval(t, e.call(), e.in)
			if e.err != nil {
				if !errors.Is(err, e.err) {
					t.Fatalf("got %v, error %v; want error %v", out, err, e.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range e.want {
				if w == nil {
					continue
				}
				if err := tensor.Close(out[i], w, 1e-6, 1e-7); err != nil {
					t.Errorf("output %d: %v\n got %v\nwant %v", i, err, show(out[i]), show(w))
				}
			}
			rulesAgree(t, e.call(), e.in, out)
		})
	}
}

func show(v *tensor.Tensor) string {
	if v.DType.IsContainer() {
		return v.String()
	}
	s := fmt.Sprintf("%v%v{", v.DType, v.Shape)
	for i := range min(v.Len(), 64) {
		s += fmt.Sprintf(" %v", v.At(i))
	}
	return s + " }"
}

func row(t testing.TB, call *Call) *Op {
	t.Helper()
	o, err := Lookup(call.Domain, call.Type, call.Version)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Check(call); err != nil {
		t.Fatal(err)
	}
	return o
}

func rawEval(t testing.TB, call *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	t.Helper()
	before := make([]*tensor.Tensor, len(in))
	for i, v := range in {
		if v != nil {
			before[i] = v.Clone()
		}
	}
	c := &Eval{Call: call, Ctx: context.Background(), In: in,
		Out: make([]*tensor.Tensor, call.NumOut), Alloc: dirty}
	err := row(t, call).Eval(c)
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

// dirty provides outputs whose contents an evaluation must overwrite.
func dirty(_ int, d tensor.DType, shape []int) (*tensor.Tensor, error) {
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

// rulesAgree checks the shape rule against real outputs: knowing constants, knowing shapes, knowing
// symbols, ranks only, and nothing.
func rulesAgree(t *testing.T, call *Call, in, out []*tensor.Tensor) {
	t.Helper()
	for _, mode := range []string{"constants", "shapes", "symbols", "ranks", "types"} {
		env := map[string]int{}
		c := &Infer{Call: call, In: make([]Type, len(in)), Present: make([]bool, len(in)),
			Out: make([]Type, call.NumOut)}
		for i, v := range in {
			if v != nil {
				c.Present[i], c.In[i] = true, knowledge(mode, i, v, env)
			}
		}
		if err := row(t, call).Infer(c); err != nil {
			t.Errorf("%s: %v", mode, err)
			continue
		}
		for i, ty := range c.Out {
			if err := holds(ty, out[i], env); err != nil {
				t.Errorf("%s: output %d: %v", mode, i, err)
			}
		}
	}
}

func knowledge(mode string, i int, v *tensor.Tensor, env map[string]int) Type {
	if v.DType.IsContainer() {
		if mode == "types" {
			return Type{DType: v.DType}
		}
		return ValueType(v)
	}
	ty := Concrete(v.DType, v.Shape...)
	switch mode {
	case "constants":
		return TypeOf(v)
	case "symbols":
		if v.Rank() <= 1 { // shapes, axes and the like stay constants
			return TypeOf(v)
		}
		for k, n := range v.Shape {
			name := fmt.Sprintf("%c%d", 'a'+i, k)
			env[name], ty.Shape[k] = n, Sym(name)
		}
	case "ranks":
		copy(ty.Shape, unknownDims(v.Rank()))
	case "types":
		return Unranked(v.DType)
	}
	return ty
}

// holds checks that what a type claims is true of a tensor.
func holds(ty Type, v *tensor.Tensor, env map[string]int) error {
	if ty.DType != v.DType && ty.DType != tensor.Undefined {
		return fmt.Errorf("rule says %v, have %v", ty, v.DType)
	}
	for _, item := range v.Items {
		if v.DType == tensor.Map || ty.Elem == nil {
			break
		}
		if err := holds(*ty.Elem, item, env); err != nil {
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

func i64(v ...int64) *tensor.Tensor { return tensor.From(v, len(v)) }

// seq is 0, 1, 2, … as float32 of the given shape.
func seq(shape ...int) *tensor.Tensor {
	v := make([]float32, count(shape))
	for i := range v {
		v[i] = float32(i)
	}
	return tensor.From(v, shape...)
}

func f32(shape []int, v ...float32) *tensor.Tensor { return tensor.From(v, shape...) }

func list[T any](v ...T) []T { return v }

// chain runs shape rules one after the other, as a graph would: each step reads values by name.
type chain struct {
	t      *testing.T
	values map[string]Type
}

func newChain(t *testing.T, inputs map[string]Type) *chain { return &chain{t, inputs} }

func (c *chain) step(out, op string, attrs Attrs, in ...string) *chain {
	c.t.Helper()
	return c.stepAt(latest, out, op, attrs, in...)
}

func (c *chain) stepAt(version int, out, op string, attrs Attrs, in ...string) *chain {
	c.t.Helper()
	types := make([]Type, len(in))
	for i, name := range in {
		ty, ok := c.values[name]
		if !ok {
			c.t.Fatalf("no value %q", name)
		}
		types[i] = ty
	}
	call := &Call{Type: op, Version: version, Attrs: attrs, NumIn: len(in), NumOut: 1}
	res, err := InferTypes(row(c.t, call), call, types, nil)
	if err != nil {
		c.t.Fatalf("%s: %v", out, err)
	}
	c.values[out] = res[0]
	return c
}

func (c *chain) constant(name string, v *tensor.Tensor) *chain {
	c.values[name] = TypeOf(v)
	return c
}

func (c *chain) want(name, typ string) *chain {
	c.t.Helper()
	if got := c.values[name].String(); got != typ {
		c.t.Errorf("%s is %s, want %s", name, got, typ)
	}
	return c
}

func (c *chain) wantElems(name string, elems ...Dim) *chain {
	c.t.Helper()
	if got := c.values[name].Elems; !slices.EqualFunc(got, elems, Dim.Equal) {
		c.t.Errorf("%s holds %v, want %v", name, got, elems)
	}
	return c
}
