package op

import "github.com/weirgpu/weir/tensor"

// bitwise holds the element-wise operators on the bits of integers.
var bitwise = []Op{
	{Name: "BitShift", Since: []int{11, 28}, MinIn: 2, MaxIn: 2, Traits: Elementwise,
		Infer: inferBroadcast(integerTypes, tensor.Undefined), Eval: evalBitShift,
		flat: true},
	binaryOp("BitwiseAnd", binaryFuncs{
		i: func(a, b int64) int64 { return a & b },
		u: func(a, b uint64) uint64 { return a & b },
	}, nil, Commutative, 18).constantAlmostEverywhere(),
	binaryOp("BitwiseOr", binaryFuncs{
		i: func(a, b int64) int64 { return a | b },
		u: func(a, b uint64) uint64 { return a | b },
	}, nil, Commutative, 18).constantAlmostEverywhere(),
	binaryOp("BitwiseXor", binaryFuncs{
		i: func(a, b int64) int64 { return a ^ b },
		u: func(a, b uint64) uint64 { return a ^ b },
	}, nil, Commutative, 18).constantAlmostEverywhere(),
	unaryOp("BitwiseNot", unaryFuncs{i: func(a int64) int64 {
		return ^a
	}, u: func(a uint64) uint64 { return ^a }}, 18).constantAlmostEverywhere(),
}

// evalBitShift shifts by the second operand; bits that leave the type are lost, also when it is
// shifted by its width or more, or by a negative amount. Signed numbers, since version 28, are
// filled with their sign from the left.
func evalBitShift(c *Eval) error {
	switch d := c.Attrs.String("direction", ""); d {
	case "LEFT":
		return c.evalFold(binaryFuncs{i: shiftLeft, u: func(a, b uint64) uint64 { return a << b }})
	case "RIGHT":
		return c.evalFold(binaryFuncs{i: shiftRight, u: func(a, b uint64) uint64 { return a >> b }})
	default:
		return c.Errorf(ErrAttr, "direction is %q, must be LEFT or RIGHT", d)
	}
}

func shiftLeft(a, b int64) int64 {
	if b < 0 {
		return 0
	}
	return a << b
}

func shiftRight(a, b int64) int64 {
	if b < 0 {
		return a >> 63
	}
	return a >> b
}
