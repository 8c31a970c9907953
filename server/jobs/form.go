package jobs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// form is what a row of a result is: the outputs that are kept, in order. It is known once the
// first rows were computed, and stays.
type form []output

// output is what one output of a model has for each row of the input.
type output struct {
	Name string       `json:"name"`
	Type tensor.DType `json:"type"` // in the file
	// Each is how many rows of the result's first axis there are for a row of the input, and Shape
	// what they are made of.
	Each  int   `json:"each"`
	Shape []int `json:"shape"`
}

// errForm is of a model whose outputs cannot be put together.
var errForm = errors.New("the outputs of rows cannot be put together")

// bytes is how many bytes of the file a row of the input has.
func (o *output) bytes() int64 {
	n := int64(o.Each) * int64(o.Type.Size())
	for _, d := range o.Shape {
		n *= int64(d)
	}
	return n
}

// formOf says what rows are of which n have the outputs. stacked: what is computed has no axis for
// rows.
func formOf(names []string, outs []*tensor.Tensor, n int, stacked bool) (form, error) {
	var f form
	for i, t := range outs {
		o := output{Name: names[i], Type: npy.WiderType(t.DType), Each: 1,
			Shape: append([]int{}, t.Shape...)}
		if t.DType == tensor.String || t.DType.IsContainer() {
			return nil, fmt.Errorf("%w: output %s is %v, which has no fixed size", errForm,
				o.Name, t.DType)
		}
		if !stacked && len(t.Shape) > 0 {
			if t.Shape[0]%n != 0 {
				return nil, fmt.Errorf("%w: output %s of %d rows is %v", errForm, o.Name, n,
					t.Shape)
			}
			o.Each, o.Shape = t.Shape[0]/n, o.Shape[1:]
		} else if n > 1 {
			return nil, fmt.Errorf("%w: output %s of %d rows is %v", errForm, o.Name, n, t.Shape)
		}
		f = append(f, o)
	}
	return f, nil
}

// same reports a form that differs.
func (f form) same(g form) error {
	for i := range f {
		if f[i].Type != g[i].Type || f[i].Each != g[i].Each ||
			!slices.Equal(f[i].Shape, g[i].Shape) {
			return fmt.Errorf("%w: output %s of a row is %d of %v, and before it was %d of %v",
				errForm, g[i].Name, g[i].Each, g[i].Shape, f[i].Each, f[i].Shape)
		}
	}
	return nil
}
