package kernels

import (
	"cmp"

	"github.com/weirgpu/weir/tensor"
)

// compareKernels are the operators that give truth values (ONNX Equal, Greater, Less and their kin
// 7 to 19; And, Or, Xor 7), on the types that models compare: float32, int32, int64 and bool.
var compareKernels = map[opKey]builder{
	{"", "Equal"}:          anyOf(equal[float32](), equal[int64](), equal[int32](), equal[bool]()),
	{"", "Less"}:           anyOf(less[float32](), less[int64](), less[int32]()),
	{"", "Greater"}:        anyOf(greater[float32](), greater[int64](), greater[int32]()),
	{"", "LessOrEqual"}:    anyOf(atMost[float32](), atMost[int64](), atMost[int32]()),
	{"", "GreaterOrEqual"}: anyOf(atLeast[float32](), atLeast[int64](), atLeast[int32]()),
	{"", "And"}:            binary(lift(func(a, b bool) bool { return a && b })),
	{"", "Or"}:             binary(lift(func(a, b bool) bool { return a || b })),
	{"", "Xor"}:            binary(lift(func(a, b bool) bool { return a != b })),
}

func equal[T interface {
	comparable
	tensor.Elem
}]() builder {
	vs := func(dst []bool, a []T, b T) {
		for i, v := range a[:len(dst)] {
			dst[i] = v == b
		}
	}
	return binary(pairs[T, bool]{vs: vs, sv: vs, vv: func(dst []bool, a, b []T) {
		for i, v := range a[:len(dst)] {
			dst[i] = v == b[i]
		}
	}})
}

// ordered are the element types that have an order.
type ordered interface {
	cmp.Ordered
	tensor.Elem
}

func less[T ordered]() builder    { return binary(lift(func(a, b T) bool { return a < b })) }
func greater[T ordered]() builder { return binary(lift(func(a, b T) bool { return a > b })) }
func atMost[T ordered]() builder  { return binary(lift(func(a, b T) bool { return a <= b })) }
func atLeast[T ordered]() builder { return binary(lift(func(a, b T) bool { return a >= b })) }
