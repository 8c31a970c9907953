package train

import (
	"fmt"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/train/data"
	"github.com/weirgpu/weir/train/recipe"
)

// inputsOf are the inputs of a model in shapes.
func inputsOf(model *graph.Graph, shapes map[string][]int) (inputs []*graph.Value) {
	for _, v := range model.Inputs {
		inputs = append(inputs, &graph.Value{Name: v.Name,
			Type: op.Concrete(v.Type.DType, shapes[v.Name]...)})
	}
	return inputs
}

// shapes are those of the model's inputs for a batch.
func (r *Prepared) shapes() (map[string][]int, error) {
	shapes, used := map[string][]int{}, map[string]bool{}
	for _, v := range r.model.Graph.Inputs {
		if !r.fed(v.Name) {
			return nil, fmt.Errorf("%w: data: inputs: no file for input %q of the model",
				recipe.ErrRecipe, v.Name)
		}
		if !v.Type.Ranked || len(v.Type.Shape) == 0 {
			return nil, fmt.Errorf("%s: input %q is %v, with no axis for samples", r.recipe.Model,
				v.Name, v.Type)
		}
		shape, err := r.shape(v, used)
		if err != nil {
			return nil, err
		}
		shapes[v.Name] = shape
	}
	for name := range r.recipe.Data.Sizes {
		if !used[name] {
			return nil, fmt.Errorf("%w: data: sizes: no input of the model leaves a size open "+
				"that is named %q", recipe.ErrRecipe, name)
		}
	}
	for name, s := range r.recipe.Data.Inputs {
		for _, name := range []string{name, s.Mask, s.Types} {
			if name != "" && shapes[name] == nil {
				return nil, fmt.Errorf("%w: data: inputs: the model has no input %q",
					recipe.ErrRecipe, name)
			}
		}
	}
	return shapes, nil
}

// shape is that of an input for a batch. Sizes that the model leaves open are those that the recipe
// says, which are marked in used, or those of the input's file.
func (r *Prepared) shape(v *graph.Value, used map[string]bool) ([]int, error) {
	shape := make([]int, len(v.Type.Shape))
	shape[0] = r.recipe.Data.Batch
	for i, d := range v.Type.Shape[1:] {
		n, known := d.Int()
		if size, given := r.recipe.Data.Sizes[d.String()]; given && !known {
			n, known, used[d.String()] = size, true, true
		}
		if !known {
			file, err := r.fileShape(v.Name)
			if err != nil {
				return nil, err
			}
			if len(file) != len(shape) {
				return nil, fmt.Errorf("%w: data: %s leaves a size of input %q, %v, open: say it "+
					"by sizes: {%v: N}, or by a file of such shapes", recipe.ErrRecipe,
					r.recipe.Model, v.Name, v.Type, d)
			}
			n = file[i+1]
		}
		shape[i+1] = n
	}
	return shape, nil
}

// fileShape is the shape of an input's file of numbers, nil where it has another source.
func (r *Prepared) fileShape(input string) ([]int, error) {
	path := r.recipe.Data.Inputs[input].File
	if path == "" {
		return nil, nil
	}
	t, err := data.Read(path)
	if err != nil {
		return nil, err
	}
	return t.Shape, nil
}
