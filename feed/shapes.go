package feed

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Shapes chooses a concrete shape for every ranked input: the given tensor's, else the
// asked one, either as the input takes it ([op.Type.Fit]), else the declared one with the names of
// dimensions that the others bind, and 1 for names that none does. It fails with [ErrInput] when a
// given tensor has another element type than the model takes or another shape than was asked, and
// when the others give a name that is needed two sizes.
func Shapes(inputs []*graph.Value, asked map[string]Shape,
	given map[string]*tensor.Tensor) (map[string][]int, error) {
	shapes := map[string][]int{}
	for name, s := range asked {
		shapes[name] = s
	}
	bound := bindings{}
	for _, v := range inputs {
		if err := chooseShape(v, shapes, given[v.Name]); err != nil {
			return nil, fmt.Errorf("%w: input %q: %w", ErrInput, v.Name, err)
		}
		if s, ok := shapes[v.Name]; ok && len(s) == len(v.Type.Shape) {
			bound.add(v, s)
		}
	}
	for _, v := range inputs {
		if _, ok := shapes[v.Name]; ok || !v.Type.Ranked {
			continue
		}
		s, err := bound.shape(v.Type)
		if err != nil {
			return nil, fmt.Errorf("%w: input %q (%v) has no shape: %w", ErrInput, v.Name, v.Type,
				err)
		}
		shapes[v.Name] = s
	}
	return shapes, nil
}

// chooseShape sets the shape of an input to that of the tensor that it is given, nil for none, or
// to the one that is there already, as the input takes it. What it does not take is left to
// compiling.
func chooseShape(v *graph.Value, shapes map[string][]int, t *tensor.Tensor) error {
	s, asked := shapes[v.Name]
	if asked && v.Type.DType.IsContainer() {
		return fmt.Errorf("it is %v: only tensors have a shape to ask for", v.Type)
	}
	fit := func(shape []int) []int {
		if fitted, err := v.Type.Fit(shape); err == nil {
			return fitted
		}
		return shape
	}
	if asked {
		shapes[v.Name] = fit(s)
	}
	if t == nil {
		return nil
	}
	if err := admits(v.Type, t); err != nil {
		return err
	}
	if asked && !slices.Equal(shapes[v.Name], fit(t.Shape)) {
		return fmt.Errorf("given a tensor of shape %v, but shape %v is asked", t.Shape, s)
	}
	shapes[v.Name] = fit(t.Shape)
	return nil
}

// admits checks that t is a sound value of the type.
func admits(typ op.Type, t *tensor.Tensor) error {
	if err := t.Check(); err != nil {
		return err
	}
	if t.DType != typ.DType {
		return fmt.Errorf("given %v, the model takes %v", t.DType, typ)
	}
	return typ.Admits(t)
}

// bindings are the sizes that shapes give to names of dimensions, each with the input that it comes
// from, and another size with its input when there is one.
type bindings map[string][]binding

type binding struct {
	size  int
	input string
}

func (b bindings) add(v *graph.Value, shape []int) {
	for i, d := range v.Type.Shape {
		uses := b[d.String()]
		if len(uses) == 0 || len(uses) == 1 && uses[0].size != shape[i] {
			b[d.String()] = append(uses, binding{shape[i], v.Name})
		}
	}
}

// shape is a declared shape with the names bound; it fails when one is bound to two sizes.
func (b bindings) shape(t op.Type) ([]int, error) {
	sizes := map[string]int{}
	for name, uses := range b {
		sizes[name] = uses[0].size
	}
	for _, d := range t.Shape {
		if uses := b[d.String()]; len(uses) > 1 {
			return nil, fmt.Errorf("%v is %d in input %q and %d in input %q", d, uses[0].size,
				uses[0].input, uses[1].size, uses[1].input)
		}
	}
	return declaredShape(t, sizes), nil
}

func declaredShape(t op.Type, sizes map[string]int) []int {
	shape := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = 1
		if n, ok := d.Eval(sizes); ok {
			shape[i] = n
		}
	}
	return shape
}
