package kernels

import (
	"cmp"

	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// compareKernels are the operators that give truth values (ONNX Equal, Greater, Less and their kin
// 7 to 19; And, Or, Xor 7), on the types that models compare: float32, int32, int64 and bool.
var compareKernels = map[opKey]builder{
	{"", "Equal"}: anyOf(equal(is[float32]), equal(is[int64]), equal(vec.EqualInt32),
		equal(is[bool])),
	{"", "Less"}:           anyOf(less[float32](), less[int64](), less[int32]()),
	{"", "Greater"}:        anyOf(greater[float32](), greater[int64](), greater[int32]()),
	{"", "LessOrEqual"}:    anyOf(atMost[float32](), atMost[int64](), atMost[int32]()),
	{"", "GreaterOrEqual"}: anyOf(atLeast[float32](), atLeast[int64](), atLeast[int32]()),
	{"", "And"}:            binary(lift(func(a, b bool) bool { return a && b })),
	{"", "Or"}:             binary(lift(func(a, b bool) bool { return a || b })),
	{"", "Xor"}:            binary(lift(func(a, b bool) bool { return a != b })),
}

// element is a type that Equal compares.
type element interface {
	comparable
	tensor.Elem
}

// is tells of each element of a whether it is b.
func is[T element](dst []bool, a []T, b T) {
	for i, v := range a[:len(dst)] {
		dst[i] = v == b
	}
}

// equal compares elements with each other, and all with one by vs.
func equal[T element](vs func(dst []bool, a []T, b T)) builder {
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
