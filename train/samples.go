package train

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/data"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/step"
)

// samples are the data of a run.
type samples struct {
	train, eval   set
	changes       []data.Image
	changed       string // the input whose images are changed
	seed          uint64
	labels        []label
	batch, update int // samples of each
}

// label is the input for labels of a loss.
type label struct {
	step.Label
	of step.Loss
}

// labelsOf are the labels of a step that are inputs.
func labelsOf(r *recipe.Recipe, s *step.Step) (all []label) {
	losses := slices.Concat([]step.Loss{r.Loss}, r.Others)
	for i, l := range slices.Concat([]step.Label{s.Labels}, s.Others) {
		if l.Name != "" {
			all = append(all, label{l, losses[i]})
		}
	}
	return all
}

// set is some samples of some sources.
type set struct {
	rows    []int
	inputs  map[string]data.Source
	labels  map[string]data.Source
	classes []string // of images
	cut     int      // texts that were longer than rows
}

// readSamples reads the data of a recipe for a model of these inputs.
func readSamples(r *recipe.Recipe, inputs []*graph.Value, of *step.Step) (*samples, error) {
	s := &samples{seed: r.Seed, labels: labelsOf(r, of), batch: r.Data.Batch,
		update: r.Data.Batch * r.Accumulate}
	var err error
	if s.train, err = readSet(r, inputs, s.labels, r.Data.Inputs, r.Data.Labels,
		r.Data.Targets, nil); err != nil {
		return nil, err
	}
	if err = s.split(r, inputs); err != nil {
		return nil, err
	}
	if r.Data.Eval.Given() && len(s.eval.rows) == 0 {
		return nil, fmt.Errorf("%w: data: eval leaves no sample of %d to try the model on",
			data.ErrData, len(s.train.rows))
	}
	if n := len(s.train.rows); n < s.update {
		return nil, fmt.Errorf("%w: %d samples to train on, an update takes %d: lower batch or "+
			"accumulate", data.ErrData, n, s.update)
	}
	return s, s.change(r, inputs)
}

// split sets the samples apart that a model is tried on.
func (s *samples) split(r *recipe.Recipe, inputs []*graph.Value) (err error) {
	e := &r.Data.Eval
	switch {
	case len(e.Inputs) > 0:
		s.eval, err = readSet(r, inputs, s.labels, e.Inputs, e.Labels, e.Targets,
			s.train.classes)
	case e.Rows != "":
		s.eval = s.train
		s.eval.rows, s.train.rows, err = chosenRows(e.Rows, len(s.train.rows))
	case e.Part > 0:
		s.eval = s.train
		s.eval.rows, s.train.rows = data.Part(len(s.train.rows), e.Part, s.seed)
	}
	return err
}

// chosenRows reads the numbers of samples, and returns them and the rest.
func chosenRows(path string, n int) (chosen, rest []int, err error) {
	t, err := data.Read(path)
	if err != nil {
		return nil, nil, err
	}
	c, err := data.NewColumn(t, tensor.Int64, 1, 1)
	if err == nil {
		err = c.Within(n)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	is := make([]bool, n)
	for i := range c.Samples() {
		is[c.Label(i)] = true
	}
	for i := range n {
		if is[i] {
			chosen = append(chosen, i)
		} else {
			rest = append(rest, i)
		}
	}
	return chosen, rest, nil
}

// change prepares the changes of images, for the one input of images.
func (s *samples) change(r *recipe.Recipe, inputs []*graph.Value) error {
	for _, text := range r.Data.Augment {
		c, err := recipe.ParseChange(text)
		switch {
		case err != nil:
			return err
		case c.Kind == "flip":
			s.changes = append(s.changes, data.Flip)
		case c.Kind == "crop":
			s.changes = append(s.changes, data.Crop(c.By))
		}
	}
	if len(s.changes) == 0 {
		return nil
	}
	i := slices.IndexFunc(inputs, func(v *graph.Value) bool {
		return v.Type.DType == tensor.Float32 && len(v.Type.Shape) == 4
	})
	if i < 0 {
		return fmt.Errorf("%w: data: augment: the model has no input of images, float32 of four "+
			"axes", recipe.ErrRecipe)
	}
	s.changed = inputs[i].Name
	return nil
}

// values are the tensors of a set that are to be filled, by name.
func (s *samples) values(of *set,
	input func(name string) *tensor.Tensor) map[string]*tensor.Tensor {
	all := map[string]*tensor.Tensor{}
	for _, sources := range []map[string]data.Source{of.inputs, of.labels} {
		for name := range sources {
			if t := input(name); t != nil {
				all[name] = t
			}
		}
	}
	return all
}

// write writes samples of a set into tensors by name; epoch below 0 changes no images.
func (s *samples) write(values map[string]*tensor.Tensor, of *set, rows []int, epoch int) error {
	for name, to := range values {
		from := of.inputs[name]
		if from == nil {
			from = of.labels[name]
		}
		if err := from.Fill(to, rows, epoch); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		if name == s.changed && epoch >= 0 {
			data.Change(to, rows, s.changes, s.seed, epoch)
		}
	}
	return nil
}

// slow reports whether it takes longer to make a batch than to copy it.
func (s *samples) slow() bool {
	for _, c := range s.train.inputs {
		if _, plain := c.(*data.Column); !plain {
			return true
		}
	}
	return len(s.changes) > 0
}
