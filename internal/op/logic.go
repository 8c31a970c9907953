package op

import (
	"cmp"

	"github.com/weirgpu/weir/tensor"
)

// logic holds the element-wise operators that give truth values. All broadcast as numpy does.
var logic = []Op{
	truth("And", func(a, b bool) bool { return a && b }, 7).constantAlmostEverywhere(),
	truth("Or", func(a, b bool) bool { return a || b }, 7).constantAlmostEverywhere(),
	truth("Xor", func(a, b bool) bool { return a != b }, 7).constantAlmostEverywhere(),
	onElems(Op{Name: "Not", Since: []int{1}, MinIn: 1, MaxIn: 1, Traits: Elementwise,
		Infer: SameAsInput(boolTypes), Eval: evalNot},
		Known(1).Sub).constantAlmostEverywhere(),
	{Name: "Equal", Since: []int{7, 11, 13, 19}, MinIn: 2, MaxIn: 2,
		Traits: Elementwise | Commutative,
		Infer:  withElems(inferBroadcast(equalTypes, tensor.Bool), orderDims(equal)),
		Eval:   evalEqual, flat: true},
	comparison("Greater", func(order int) bool { return order > 0 },
		7, 9, 13).constantAlmostEverywhere(),
	comparison("Less", func(order int) bool { return order < 0 },
		7, 9, 13).constantAlmostEverywhere(),
	comparison("GreaterOrEqual", func(order int) bool { return order >= 0 },
		12, 16).constantAlmostEverywhere(),
	comparison("LessOrEqual", func(order int) bool { return order <= 0 },
		12, 16).constantAlmostEverywhere(),
}

var equalTypes = numberTypes | boolTypes | SetOf(tensor.String)

func equal(order int) bool { return order == 0 }

// orderDims is a comparison of sizes, known where their difference is.
func orderDims(holds func(order int) bool) func(a, b Dim) Dim {
	return func(a, b Dim) Dim {
		n, ok := a.Sub(b).Int()
		if !ok {
			return Unknown()
		}
		return truthDim(holds(n))
	}
}

// truthDims is an operation on truth values, known where both are.
func truthDims(f func(a, b bool) bool) func(a, b Dim) Dim {
	return func(a, b Dim) Dim {
		x, ok := a.Int()
		y, ok2 := b.Int()
		if !ok || !ok2 {
			return Unknown()
		}
		return truthDim(f(x != 0, y != 0))
	}
}

func truthDim(v bool) Dim {
	if v {
		return Known(1)
	}
	return Known(0)
}

// truth is the row of an operator on two truth values.
func truth(name string, f func(a, b bool) bool, since ...int) Op {
	return Op{Name: name, Since: since, MinIn: 2, MaxIn: 2, Traits: Elementwise | Commutative,
		Infer: withElems(inferBroadcast(boolTypes, tensor.Undefined), truthDims(f)),
		Eval:  func(c *Eval) error { return c.evalTruth(f) }}
}

func (c *Eval) evalTruth(f func(a, b bool) bool) error {
	if _, err := c.SameDType(boolTypes, c.DTypes()...); err != nil {
		return err
	}
	out, w, err := c.broadcastOutput(tensor.Bool)
	if err != nil {
		return err
	}
	zipTruth(out, tensor.As[bool](c.In[0]), tensor.As[bool](c.In[1]), w, f)
	return nil
}

// zipTruth sets each element of out to f of the operands' elements there.
func zipTruth[T any](out *tensor.Tensor, a, b []T, w walk, f func(a, b T) bool) {
	o := tensor.As[bool](out)
	pairs(w, a, b, func(i int, x, y T) { o[i] = f(x, y) })
}

func evalNot(c *Eval) error {
	x, out, err := c.OutputLike(boolTypes)
	if err != nil {
		return err
	}
	o := tensor.As[bool](out)
	for i, v := range tensor.As[bool](x) {
		o[i] = !v
	}
	return nil
}

func evalEqual(c *Eval) error {
	switch c.In[0].DType {
	case tensor.String:
		return c.evalEqualStrings()
	case tensor.Bool:
		return c.evalTruth(func(a, b bool) bool { return a == b })
	}
	return evalComparison(c, equal)
}

func (c *Eval) evalEqualStrings() error {
	if _, err := c.SameDType(equalTypes, c.DTypes()...); err != nil {
		return err
	}
	out, w, err := c.broadcastOutput(tensor.Bool)
	if err != nil {
		return err
	}
	zipTruth(out, c.In[0].Strings, c.In[1].Strings, w, func(a, b string) bool { return a == b })
	return nil
}

// comparison is the row of an operator that holds when the order of its operands, negative, zero or
// positive, does. No order holds when an operand is NaN.
func comparison(name string, holds func(order int) bool, since ...int) Op {
	return Op{Name: name, Since: since, MinIn: 2, MaxIn: 2, Traits: Elementwise,
		Infer: withElems(inferBroadcast(numberTypes, tensor.Bool), orderDims(holds)),
		Eval:  func(c *Eval) error { return evalComparison(c, holds) }}
}

func evalComparison(c *Eval, holds func(order int) bool) error {
	return InFloat32(func(c *Eval) error {
		d, err := c.SameDType(numberTypes, c.DTypes()...)
		if err != nil {
			return err
		}
		out, w, err := c.broadcastOutput(tensor.Bool)
		if err != nil {
			return err
		}
		loopsOf[d].compare(out, c.In[0], c.In[1], w, holds)
		return nil
	})(c)
}

func (*loopsOn[T, W]) compare(out, a, b *tensor.Tensor, w walk, holds func(order int) bool) {
	zipTruth(out, tensor.As[T](a), tensor.As[T](b), w, func(x, y T) bool {
		return x == x && y == y && holds(cmp.Compare(x, y)) // only NaN differs from itself
	})
}
