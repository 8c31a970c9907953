package train

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/data"
)

// Inputs are those of the model, for a batch, and Divide is what data files' numbers are divided by
// for them.
func (p *Prepared) Inputs() (inputs []*graph.Value, divide float64) {
	return p.inputs, p.recipe.Data.Divide
}

// Try computes the scores of one sample with the weights as they are: their running averages, where
// the recipe asks for those. Values are by the names of the model's inputs, as data files have
// them. The error is of kind data.ErrData where they are not what the model takes.
func (r *Run) Try(ctx context.Context, values map[string][]float64) ([]float32, error) {
	if r.eval == nil {
		return nil, fmt.Errorf("%w: the run has ended", ErrDiverged)
	}
	names := slices.Sorted(maps.Keys(r.data.train.inputs))
	for name := range values {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%w: the model has no input %q: it has %q", data.ErrData, name,
				names)
		}
	}
	row := make([]int, r.data.batch) // the one sample again and again
	for _, name := range names {
		to := r.eval.input(name)
		if to == nil {
			continue
		}
		one := tensor.From(values[name], 1, len(values[name]))
		c, err := data.NewColumn(one, to.DType, to.Len()/to.Shape[0], r.recipe.Data.Divide)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", name, err)
		}
		if err := c.Fill(to, row, -1); err != nil {
			return nil, err
		}
	}
	if err := r.labels(r.eval, r.data.train.rows[:r.data.batch]); err != nil {
		return nil, err
	}
	if err := r.run(ctx, r.eval); err != nil {
		return nil, fmt.Errorf("try: %w", err)
	}
	scores := r.eval.instance.Outputs()[1]
	return slices.Clone(tensor.As[float32](scores)[:scores.Len()/scores.Shape[0]]), nil
}

// labels writes labels alone into a program.
func (r *Run) labels(p *program, rows []int) error {
	for name, from := range r.data.train.labels {
		if to := p.input(name); to != nil {
			if err := from.Fill(to, rows, -1); err != nil {
				return err
			}
		}
	}
	return nil
}
