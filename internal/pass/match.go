package pass

import (
	"math"

	"github.com/weirgpu/weir/graph"
)

// producer returns the node that computes v, nil for inputs, constants and absent operands.
func producer(v *graph.Value) *graph.Node {
	if v == nil {
		return nil
	}
	return v.Producer
}

// is reports whether n is a call of an ONNX operator with one output.
func is(n *graph.Node, typ string) bool {
	return n != nil && n.Domain == "" && n.Type == typ && len(n.Out) == 1
}

// from returns the node that computes v when it is a call of the ONNX operator typ, nil otherwise.
func from(v *graph.Value, typ string) *graph.Node {
	if n := producer(v); is(n, typ) {
		return n
	}
	return nil
}

// scalar returns the only element of a numeric constant; false when v is none.
func scalar(v *graph.Value) (float64, bool) {
	if v == nil || !v.IsConst() || v.Const().Len() != 1 {
		return 0, false
	}
	f, err := v.Const().Floats()
	if err != nil {
		return 0, false
	}
	return f[0], true
}

// near reports whether a constant of a model is the number that a formula wants, written in the
// precision of float32.
func near(got, want float64) bool { return math.Abs(got-want) <= 1e-5*math.Abs(want) }

// nearScalar reports whether v is a constant of one element near want.
func nearScalar(v *graph.Value, want float64) bool {
	f, ok := scalar(v)
	return ok && near(f, want)
}

// sides returns a binary node's operands with the one that f accepts second; false when it accepts
// neither.
func sides(n *graph.Node, f func(*graph.Value) bool) (rest, match *graph.Value, ok bool) {
	switch {
	case f(n.In[1]):
		return n.In[0], n.In[1], true
	case f(n.In[0]):
		return n.In[1], n.In[0], true
	}
	return nil, nil, false
}
