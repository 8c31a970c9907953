package op

import (
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

// What package optest does, which imports this one: the tests beside it in package op_test, which
// may import both, set these.
var (
	checkCall  func(t *testing.T, call *Call, in, want []*tensor.Tensor, kind error)
	rawEval    func(t testing.TB, call *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)
	row        func(t testing.TB, call *Call) *Op
	holds      func(ty Type, v *tensor.Tensor, env map[string]int) error
	rulesAgree func(t *testing.T, call *Call, in, out []*tensor.Tensor)
	dirty      func(i int, d tensor.DType, shape []int) (*tensor.Tensor, error)
	show       func(v *tensor.Tensor) string
)

// runCases runs each case as a test of its own.
func runCases(t *testing.T, cases []evalCase) {
	t.Helper()
	for _, e := range cases {
		name := e.op
		if e.name != "" {
			name += "/" + e.name
		}
		t.Run(name, func(t *testing.T) { checkCall(t, e.call(), e.in, e.want, e.err) })
	}
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
