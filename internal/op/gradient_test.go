package op

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestGradientOfAnything asks for the gradients of random calls, most of them illegal, of which
// all, little or nothing is known: rules neither panic nor give gradients of another type or shape
// than the operands'.
func TestGradientOfAnything(t *testing.T) {
	for _, o := range All() {
		if how := o.Differentiability(); how == NoRule || how == Flat {
			continue
		}
		r := caller{rand.New(rand.NewPCG(23, uint64(len(o.Name))))}
		for range 200 {
			call, in := r.call(o)
			call.Attrs = r.own(call)
			known, wild := r.backward(call, len(in)), r.backward(call, len(in))
			for i, v := range in {
				if v != nil {
					known.In[i], known.Present[i] = TypeOf(v), true
					wild.In[i], wild.Present[i] = r.obscure(TypeOf(v)), true
					known.Want[i] = differentiable(v.DType)
					wild.Want[i] = known.Want[i]
				}
			}
			for _, b := range []*Backward{known, wild} {
				out, err := InferTypes(o, call, b.In, b.Present)
				if err != nil {
					continue // graphs hold such calls, too, but no result of theirs
				}
				b.Out = out
				survives(t, o, b)
			}
		}
	}
}

// backward is a call to differentiate with nothing known of its operands yet.
func (r caller) backward(call *Call, n int) *Backward {
	b := &Backward{Call: call, In: make([]Type, n), Present: make([]bool, n), Want: make([]bool, n),
		Given: slices.Repeat([]bool{true}, call.NumOut)}
	b.Given[r.IntN(call.NumOut)] = r.one(2)
	return b
}

func survives(t *testing.T, o *Op, b *Backward) {
	t.Helper()
	var err error
	if o.Differentiability() == ByRule {
		_, err = o.Gradient(b)
	} else {
		_, err = o.Parts(b.Call, b.In, b.Present, b.Opset)
	}
	if errors.Is(err, ErrPanic) {
		t.Errorf("%s-%d of %v with %v: %v", b.Call.Name(), b.Call.Version, b.In, b.Call.Attrs, err)
	}
}

// TestGradientOfNoHeads differentiates attention of queries that have no heads, beside keys that
// have some.
func TestGradientOfNoHeads(t *testing.T) {
	o, err := Lookup("", "Attention", 23)
	if err != nil {
		t.Fatal(err)
	}
	call := &Call{Type: "Attention", Version: 23, NumIn: 3, NumOut: 1}
	b := &Backward{Call: call, Present: []bool{true, true, true}, Want: []bool{true, true, true},
		Given: []bool{true}, Opset: 23}
	for _, heads := range []int{0, 2, 2} {
		b.In = append(b.In, Ranked(tensor.Float32, Known(1), Known(heads), Known(1), Known(3)))
	}
	if b.Out, err = InferTypes(o, call, b.In, b.Present); err != nil {
		t.Fatal(err)
	}
	survives(t, o, b)
}
