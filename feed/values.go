package feed

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// parseValues reads [1,2,3], with spaces or commas between, as a tensor of an input's type: of its
// shape where that has as many elements, else of as many in its last axis.
func parseValues(text string, typ op.Type) (*tensor.Tensor, error) {
	inner, ok := strings.CutSuffix(strings.TrimPrefix(text, "["), "]")
	if !ok || strings.ContainsAny(inner, "[]") {
		return nil, errors.New("want [1,2,3], without brackets inside: the model says the shape")
	}
	words := strings.FieldsFunc(inner, func(c rune) bool { return c == ',' || c == ' ' })
	shape := valuesShape(len(words), typ)
	if typ.DType == tensor.String {
		return tensor.FromStrings(words, shape...), nil
	}
	values := make([]float64, len(words))
	for i, w := range words {
		if _, err := fmt.Sscan(w, &values[i]); err != nil {
			return nil, fmt.Errorf("%q is no number", w)
		}
	}
	return Cast(tensor.From(values, shape...), typ.DType)
}

// valuesShape is the shape of n elements of a type whose sizes may be open.
func valuesShape(n int, typ op.Type) []int {
	if !typ.Ranked || len(typ.Shape) == 0 && n != 1 {
		return []int{n}
	}
	shape, product, open := make([]int, len(typ.Shape)), 1, -1
	for i, d := range typ.Shape {
		size, known := d.Int()
		if shape[i] = size; !known {
			shape[i], open = 1, i
		}
		product *= shape[i]
	}
	if open >= 0 && product > 0 && n%product == 0 {
		shape[open] = n / product
		product = n
	}
	if product != n {
		return []int{n}
	}
	return shape
}
