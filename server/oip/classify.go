package oip

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// Classify returns the k elements of t with the highest scores, best first and, of equals, the
// first first, as BYTES "SCORE:INDEX" or, where labels has one, "SCORE:INDEX:LABEL"; fewer where
// there are fewer. With two dimensions and more the first counts the rows that are classified each
// by itself: [n, ...] becomes [n, k]. Scores print with six decimals, as those of tritonserver do
// (extension_classification.md). NaN is lower than all numbers. The error is of kind [ErrRequest]
// where t holds no numbers.
func Classify(t *tensor.Tensor, k int, labels []string) (*tensor.Tensor, error) {
	score, err := scores(t)
	if err != nil {
		return nil, err
	}
	count, rows, shape := 1, 1, []int{}
	for _, d := range t.Shape {
		count *= d
	}
	if len(t.Shape) > 1 {
		rows, shape = t.Shape[0], []int{t.Shape[0]}
	}
	row := 0
	if rows > 0 {
		row = count / rows
	}
	k = min(k, row)
	out := make([]string, 0, rows*k)
	order := make([]int, row)
	for r := range rows {
		for i := range order {
			order[i] = i
		}
		at := func(i int) float64 { return score(r*row + i) }
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at(b), at(a)) })
		for _, i := range order[:k] {
			s := fmt.Sprintf("%f:%d", at(i), i)
			if i < len(labels) {
				s += ":" + labels[i]
			}
			out = append(out, s)
		}
	}
	return &tensor.Tensor{DType: tensor.String, Shape: append(shape, k), Strings: out}, nil
}

// scores returns element i of t as a number.
func scores(t *tensor.Tensor) (func(i int) float64, error) {
	switch t.DType {
	case tensor.Float32:
		return numbersOf(tensor.As[float32](t)), nil
	case tensor.Float64:
		return numbersOf(tensor.As[float64](t)), nil
	case tensor.Int8:
		return numbersOf(tensor.As[int8](t)), nil
	case tensor.Int16:
		return numbersOf(tensor.As[int16](t)), nil
	case tensor.Int32:
		return numbersOf(tensor.As[int32](t)), nil
	case tensor.Int64:
		return numbersOf(tensor.As[int64](t)), nil
	case tensor.Uint8:
		return numbersOf(tensor.As[uint8](t)), nil
	case tensor.Uint16:
		return numbersOf(tensor.As[uint16](t)), nil
	case tensor.Uint32:
		return numbersOf(tensor.As[uint32](t)), nil
	case tensor.Uint64:
		return numbersOf(tensor.As[uint64](t)), nil
	case tensor.Float16:
		all := tensor.As[tensor.Half](t)
		return func(i int) float64 { return float64(all[i].Float32()) }, nil
	case tensor.BFloat16:
		all := tensor.As[tensor.BHalf](t)
		return func(i int) float64 { return float64(all[i].Float32()) }, nil
	}
	return nil, fmt.Errorf("%w: classification of %v: only numbers are classified", ErrRequest,
		t.DType)
}

func numbersOf[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 |
	float64](all []T) func(int) float64 {
	return func(i int) float64 { return float64(all[i]) }
}
