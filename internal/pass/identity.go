package pass

import (
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Operators that change nothing.
//
//	Identity(x)                                   =  x
//	Dropout(x), not training, mask unused         =  x
//	Cast(x, to), x of type to                     =  x
//	Transpose(x, perm 0, 1, ..., n-1)             =  x
//	Reshape, Flatten, Squeeze, Unsqueeze, Expand,
//	Tile (x) of the shape of x                    =  x
//	Slice(x) of the shape of x, no negative step  =  x
//	Pad(x), all pads 0                            =  x
//	Concat(x)                                     =  x
//	Concat(x, empty, y)                           =  Concat(x, y)
//	x * 1, x / 1, x ** 1                          =  x
//	x + 0, x - 0                                  =  x    integers
//	x + (-0.0), x - 0.0                           =  x    floats; x + 0.0 would turn -0.0 into 0.0
//
// Shapes are compared as expressions, so that these hold for every size of a symbolic dimension.
// Arithmetic must not broadcast x to another shape.

// identities tells by operator which input comes out unchanged, nil for none.
var identities = map[string]func(n *graph.Node) *graph.Value{
	"Identity":  func(n *graph.Node) *graph.Value { return n.In[0] },
	"Dropout":   idleDropout,
	"Cast":      sameType,
	"Transpose": idleTranspose,
	"Reshape":   sameType,
	"Flatten":   sameType,
	"Squeeze":   sameType,
	"Unsqueeze": sameType,
	"Expand":    sameType,
	"Tile":      sameType,
	"Slice":     idleSlice,
	"Pad":       idlePad,
	"Mul":       func(n *graph.Node) *graph.Value { return neutral(n, isOne, true) },
	"Div":       func(n *graph.Node) *graph.Value { return neutral(n, isOne, false) },
	"Pow":       func(n *graph.Node) *graph.Value { return neutral(n, isOne, false) },
	"Add":       func(n *graph.Node) *graph.Value { return neutral(n, isAddZero, true) },
	"Sub":       func(n *graph.Node) *graph.Value { return neutral(n, isSubZero, false) },
}

func startIdentity(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if n.Domain != "" {
			return nil
		}
		if n.Type == "Concat" {
			return s.thinConcat(n)
		}
		f := identities[n.Type]
		if f == nil || n.Out[0] == nil {
			return nil
		}
		if v := f(n); v != nil && s.replaceable(n.Out[0], v) && !s.anyUsed(n.Out[1:]) {
			return forward(n, v)
		}
		return nil
	}
}

func (s *scope) anyUsed(vs []*graph.Value) bool {
	for _, v := range vs {
		if s.used(v) {
			return true
		}
	}
	return false
}

// sameType is the rule for operators that keep all elements, in order, whenever the result has the
// element type and the shape of the input. It returns that input, or nil when type or shape differ.
func sameType(n *graph.Node) *graph.Value {
	if x := n.In[0]; x.Type.Ranked && x.Type.DType.Valid() && x.Type.Equal(n.Out[0].Type) {
		return x
	}
	return nil
}

// idleDropout: training_mode is an input since opset 12, and an operator of its own kind before.
func idleDropout(n *graph.Node) *graph.Value {
	if len(n.In) > 2 && n.In[2] != nil {
		if mode := n.In[2].Const(); mode == nil || mode.DType != tensor.Bool || mode.Len() != 1 ||
			mode.Data[0] != 0 {
			return nil
		}
	}
	return n.In[0]
}

func idleTranspose(n *graph.Node) *graph.Value {
	for i, p := range permutation(n) {
		if p != i {
			return nil
		}
	}
	if permutation(n) == nil {
		return nil
	}
	return n.In[0]
}

func idleSlice(n *graph.Node) *graph.Value {
	if len(n.In) > 4 && n.In[4] != nil {
		steps, ok := n.In[4].Type.IntElems()
		if !ok {
			return nil
		}
		for _, step := range steps {
			if step < 0 {
				return nil
			}
		}
	}
	return sameType(n)
}

// idlePad: pads is an attribute before opset 11.
func idlePad(n *graph.Node) *graph.Value {
	pads := n.Attrs.Ints("pads")
	if len(n.In) > 1 && n.In[1] != nil {
		elems, ok := n.In[1].Type.IntElems()
		if !ok {
			return nil
		}
		pads = convert[int64](elems)
	}
	for _, p := range pads {
		if p != 0 {
			return nil
		}
	}
	return sameType(n)
}

// neutral returns the other operand of n when the second (or, for commutative n, either) is a
// constant of neutral elements that does not broadcast it.
func neutral(n *graph.Node, is func(*tensor.Tensor) bool, either bool) *graph.Value {
	for i := 1; i >= 0; i-- {
		x, c := n.In[1-i], n.In[i]
		if c.IsConst() && is(c.Const()) && x.Type.Ranked && x.Type.Equal(n.Out[0].Type) {
			return x
		}
		if !either {
			return nil
		}
	}
	return nil
}

// isOne reports whether all elements are 1; large constants are data, and not looked through.
func isOne(t *tensor.Tensor) bool { return all(t, func(f float64) bool { return f == 1 }) }

func isAddZero(t *tensor.Tensor) bool {
	return all(t, func(f float64) bool {
		return f == 0 && (t.DType.IsInteger() || math.Signbit(f))
	})
}

func isSubZero(t *tensor.Tensor) bool {
	return all(t, func(f float64) bool { return f == 0 && !math.Signbit(f) })
}

// maxNeutral bounds the constants that are looked through element by element.
const maxNeutral = 1 << 16

func all(t *tensor.Tensor, is func(float64) bool) bool {
	if t.Len() > maxNeutral {
		return false
	}
	fs, err := t.Floats()
	if err != nil {
		return false
	}
	for _, f := range fs {
		if !is(f) {
			return false
		}
	}
	return true
}

// thinConcat takes empty operands out of a concatenation, and the concatenation when one operand is
// left.
func (s *scope) thinConcat(n *graph.Node) *Patch {
	var full []*graph.Value
	for _, v := range n.In {
		if !isEmptyOn(v, n.Attrs.Int("axis", 1)) {
			full = append(full, v)
		}
	}
	switch {
	case len(full) == 1 && s.replaceable(n.Out[0], full[0]) && full[0].Type.Equal(n.Out[0].Type):
		return forward(n, full[0])
	case len(full) > 1 && len(full) < len(n.In):
		return instead(n, operator(n, "", "Concat", n.Version, n.Attrs, full...))
	}
	return nil
}

func isEmptyOn(v *graph.Value, axis int64) bool {
	if axis < 0 {
		axis += int64(len(v.Type.Shape))
	}
	return v.Type.Ranked && axis >= 0 && axis < int64(len(v.Type.Shape)) &&
		v.Type.Shape[axis].Equal(op.Known(0))
}

// permutation returns the axes of a Transpose, nil when the rank is not known; the default reverses
// them.
func permutation(n *graph.Node) []int {
	if a := n.Attrs.Find("perm"); a != nil {
		perm := make([]int, len(a.Ints))
		for i, p := range a.Ints {
			perm[i] = int(p)
		}
		return perm
	}
	if !n.In[0].Type.Ranked {
		return nil
	}
	rank := len(n.In[0].Type.Shape)
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = rank - 1 - i
	}
	return perm
}
