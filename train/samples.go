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
	label         step.Label
	batch, update int // samples of each
}

// set is some samples of some files.
type set struct {
	rows   []int
	inputs map[string]*data.Column
	labels *data.Column
}

// readSamples reads the data of a recipe for a model.
func readSamples(r *recipe.Recipe, model *graph.Graph, label step.Label) (*samples, error) {
	s := &samples{seed: r.Seed, label: label, batch: r.Data.Batch,
		update: r.Data.Batch * r.Accumulate}
	var err error
	if s.train, err = readSet(r, model, label, r.Data.Inputs, r.Data.Labels); err != nil {
		return nil, err
	}
	if err = s.split(r, model); err != nil {
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
	return s, s.change(r, model)
}

// split sets the samples apart that a model is tried on.
func (s *samples) split(r *recipe.Recipe, model *graph.Graph) (err error) {
	e := &r.Data.Eval
	switch {
	case len(e.Inputs) > 0:
		s.eval, err = readSet(r, model, s.label, e.Inputs, e.Labels)
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

// readSet reads files of samples.
func readSet(r *recipe.Recipe, model *graph.Graph, label step.Label, inputs map[string]string,
	labels string) (s set, err error) {
	s.inputs = map[string]*data.Column{}
	n := -1
	read := func(path string, d tensor.DType, shape []int, divide float64) (*data.Column, error) {
		t, err := data.Read(path)
		if err != nil {
			return nil, err
		}
		per := 1
		for _, k := range shape[1:] {
			per *= k
		}
		c, err := data.NewColumn(t, d, per, divide)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if n >= 0 && c.Samples() != n {
			return nil, fmt.Errorf("%s: %w: %d samples, other files have %d", path, data.ErrData,
				c.Samples(), n)
		}
		n = c.Samples()
		return c, nil
	}
	for _, v := range model.Inputs {
		path := inputs[v.Name]
		if path == "" {
			return s, fmt.Errorf("%w: data: eval: no file for input %q", recipe.ErrRecipe, v.Name)
		}
		shape := make([]int, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			shape[i], _ = d.Int()
		}
		if s.inputs[v.Name], err = read(path, v.Type.DType, shape, r.Data.Divide); err != nil {
			return s, err
		}
	}
	shape, _ := label.Type.Ints()
	if s.labels, err = read(labels, label.Type.DType, shape, 1); err != nil {
		return s, err
	}
	if label.Classes > 0 {
		if err := s.labels.Within(label.Classes); err != nil {
			return s, fmt.Errorf("%s: %w", labels, err)
		}
	}
	if r.Loss.Kind == step.BinaryCrossEntropy || r.Loss.Kind == step.Dice {
		if err := s.labels.Parts(); err != nil {
			return s, fmt.Errorf("%s: %w", labels, err)
		}
	}
	for i := range n {
		s.rows = append(s.rows, i)
	}
	return s, nil
}

// change prepares the changes of images, for the one input of images.
func (s *samples) change(r *recipe.Recipe, model *graph.Graph) error {
	for _, text := range r.Data.Augment {
		c, err := recipe.ParseChange(text)
		if err != nil {
			return err
		}
		if c.Kind == "flip" {
			s.changes = append(s.changes, data.Flip)
		} else {
			s.changes = append(s.changes, data.Crop(c.By))
		}
	}
	if len(s.changes) == 0 {
		return nil
	}
	i := slices.IndexFunc(model.Inputs, func(v *graph.Value) bool {
		return v.Type.DType == tensor.Float32 && len(v.Type.Shape) == 4
	})
	if i < 0 {
		return fmt.Errorf("%w: data: augment: the model has no input of images, float32 of four "+
			"axes", recipe.ErrRecipe)
	}
	s.changed = model.Inputs[i].Name
	return nil
}

// fill writes samples of a set into the inputs of a program; epoch below 0 changes no images.
func (s *samples) fill(p *program, of *set, rows []int, epoch int) {
	for name, c := range of.inputs {
		to := p.input(name)
		if to == nil {
			continue
		}
		c.Fill(to, rows)
		if name == s.changed && epoch >= 0 {
			data.Change(to, rows, s.changes, s.seed, epoch)
		}
	}
	if to := p.input(s.label.Name); to != nil {
		of.labels.Fill(to, rows)
	}
}
