package op

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestEveryRow gives every operator of the table random calls, most of them illegal: nothing may
// panic or run for ever, and what evaluates must have been allowed and foreseen by the rule.
func TestEveryRow(t *testing.T) {
	rows := map[string]*deeds{}
	defer func() { pinned(t, rows) }()
	for _, o := range All() {
		d := deedsOf(rows, o)
		r := caller{rand.New(rand.NewPCG(17, uint64(len(o.Name))))}
		for range 300 {
			call, in := r.call(o)
			call.Attrs = r.own(call)
			r.spoil(call, in)
			survive(t, r, d, o, call, in)
		}
		for range 200 {
			b := make([]byte, 256)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			_, call, in := (&dice{b}).call([]*Op{o})
			call.Domain = o.Domain
			call.Attrs = r.own(call)
			survive(t, r, d, o, call, in)
		}
	}
}

// own are the attributes that ONNX gives a call's operator: those that the call has, the required
// ones, and some more.
func (r caller) own(c *Call) Attrs {
	s, _ := c.schema()
	if s == nil {
		return c.Attrs
	}
	var as Attrs
	for _, name := range slices.Sorted(maps.Keys(s.attrs)) {
		want := s.attrs[name]
		a := c.Attrs.Find(name)
		switch {
		case a != nil && a.Kind == want.kind:
			as = append(as, *a)
		case want.required || r.one(4):
			as = append(as, r.attr(name, want.kind)...)
		}
	}
	return as
}

// attr is an attribute of a kind, none of those that hold graphs or types.
func (r caller) attr(name string, k AttrKind) Attrs {
	words := []string{"none", "linear", "nearest", "constant", "sum", "mean", "add", "max", "SUM",
		"PROBIT", "IDENTITY", "x", ""}
	word := func() string { return words[r.IntN(len(words))] }
	switch k {
	case AttrInt:
		return Attrs{IntAttr(name, r.size())}
	case AttrInts:
		return Attrs{IntsAttr(name, r.size(), r.size())}
	case AttrFloat:
		return Attrs{FloatAttr(name, r.Float32()*4-1)}
	case AttrFloats:
		return Attrs{FloatsAttr(name, r.Float32(), 2)}
	case AttrString:
		return Attrs{StringAttr(name, word())}
	case AttrStrings:
		return Attrs{StringsAttr(name, word(), word())}
	case AttrTensor:
		return Attrs{TensorAttr(name, r.tensor(tensor.Float32, []int{r.IntN(3)}))}
	}
	return nil
}

// spoil makes one attribute of another kind and gives operands extreme elements.
func (r caller) spoil(c *Call, in []*tensor.Tensor) {
	if len(c.Attrs) > 0 && r.one(4) {
		i := r.IntN(len(c.Attrs))
		name := c.Attrs[i].Name
		c.Attrs = slices.Clone(c.Attrs)
		c.Attrs[i] = list(IntAttr(name, r.size()), IntsAttr(name), FloatAttr(name, 0),
			StringAttr(name, "x"), StringsAttr(name),
			TensorAttr(name, i64(r.size())), FloatsAttr(name),
			Attr{Name: name, Kind: 99})[r.IntN(8)]
	}
	for i, v := range in {
		if v == nil || v.Len() == 0 || !r.one(4) {
			continue
		}
		in[i] = v.Clone()
		switch k := r.IntN(v.Len()); v.DType {
		case tensor.Float32:
			tensor.As[float32](in[i])[k] = []float32{float32(math.NaN()), float32(math.Inf(1)),
				float32(math.Inf(-1)), 0, 1e38}[r.IntN(5)]
		case tensor.Int64:
			tensor.As[int64](in[i])[k] = r.size()
		}
	}
}

// survive runs the rule on what is known of a call and on less, and the evaluation.
func survive(t *testing.T, r caller, d *deeds, o *Op, call *Call, in []*tensor.Tensor) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("%s-%d of %v panics: %v\n%v\n%s", call.Name(), call.Version, in, v, call.Attrs,
				debug.Stack())
		}
	}()
	if !runsBodies(call) { // the dice throw them at any operator
		call.Attrs = slices.DeleteFunc(slices.Clone(call.Attrs), func(a Attr) bool {
			return a.Body != nil
		})
	}
	if o.Check(call) != nil || !runsBodies(call) && call.Captures > 0 {
		return
	}
	c := &Infer{Call: call, In: make([]Type, len(in)), Present: make([]bool, len(in)),
		Out: make([]Type, call.NumOut)}
	wild := &Infer{Call: call, In: make([]Type, len(in)), Present: c.Present,
		Out: make([]Type, call.NumOut)}
	for i, v := range in {
		if v == nil && o.needs(call, i) {
			return
		}
		if v != nil {
			c.In[i], c.Present[i] = TypeOf(v), true
			wild.In[i] = r.obscure(TypeOf(v))
		}
	}
	if o.Infer == nil || call.checkAttrs() != nil {
		return
	}
	d.infer(wild, o.Infer(wild))
	ruleErr := o.Infer(c)
	d.infer(c, ruleErr)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx, end := WithHost(ctx, Host{Memory: &little{}})
	defer end()
	e := &Eval{Call: call, Ctx: &countdown{Context: ctx, left: 100, end: cancel}, In: in,
		Out: make([]*tensor.Tensor, call.NumOut), Alloc: small}
	err := o.Eval(e)
	d.eval(o, e, err)
	if err != nil {
		return
	}
	// evaluations widen halves before they compare types
	if ruleErr != nil && !slices.ContainsFunc(in, isHalf) {
		t.Errorf("%s-%d of %v: the rule refuses what evaluates: %v\n%v", call.Name(), call.Version,
			in, ruleErr, call.Attrs)
	}
	for i, v := range e.Out {
		if v == nil {
			continue
		}
		if err := v.Check(); err != nil {
			t.Errorf("%s-%d of %v: output %d: %v\n%v", call.Name(), call.Version, in, i, err,
				call.Attrs)
		} else if err := holds(c.Out[i], v, nil); err != nil && ruleErr == nil {
			t.Errorf("%s-%d of %v: output %d: %v\n%v", call.Name(), call.Version, in, i, err,
				call.Attrs)
		}
	}
}

// little is memory of a mebibyte.
type little struct{ held int64 }

func (m *little) Reserve(n int64) error {
	if m.held+n > 1<<20 {
		return tensor.ErrShape
	}
	m.held += n
	return nil
}

func (m *little) Release(n int64) { m.held -= n }

// runsBodies reports whether an operator has graphs among its attributes.
func runsBodies(c *Call) bool {
	return slices.Contains([]string{"If", "Loop", "Scan", "SequenceMap",
		"ai.onnx.preview:FlexAttention"}, c.Name())
}
