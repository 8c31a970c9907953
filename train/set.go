package train

import (
	"fmt"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/data"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/step"
)

// reader reads the sources of a set.
type reader struct {
	recipe   *recipe.Recipe
	of       set
	n        int                       // samples, below 0 before any source has some
	classes  []string                  // of images, where they are known
	pictures *data.Pictures            // nil where no input is of images
	folder   string                    // of them
	masks    map[string]*tensor.Tensor // of texts, by the inputs that take them
	shapes   map[string][]int          // of the model's inputs, for a batch
	types    map[string]tensor.DType   // of them
}

// readSet reads sources of samples for the inputs of a model. Images are of the classes of another
// set, where it is given.
func readSet(r *recipe.Recipe, of []*graph.Value, labels []label,
	inputs map[string]recipe.Source, one recipe.Source, targets map[string]recipe.Source,
	classes []string) (set, error) {
	x := &reader{recipe: r, n: -1, classes: classes, of: set{inputs: map[string]data.Source{},
		labels: map[string]data.Source{}}, masks: map[string]*tensor.Tensor{},
		shapes: map[string][]int{}, types: map[string]tensor.DType{}}
	for _, v := range of {
		x.shapes[v.Name], _ = v.Type.Ints()
		x.types[v.Name] = v.Type.DType
	}
	for _, v := range of {
		if s, ok := inputs[v.Name]; ok {
			if err := x.input(v.Name, &s); err != nil {
				return x.of, err
			}
		}
	}
	for _, v := range of {
		if err := x.rest(v.Name); err != nil {
			return x.of, err
		}
	}
	if x.n < 0 {
		return x.of, fmt.Errorf("%w: data: no input says how many samples there are",
			recipe.ErrRecipe)
	}
	for _, l := range labels {
		from := one
		if s, ok := targets[l.Name]; ok {
			from = s
		}
		if err := x.label(l, &from); err != nil {
			return x.of, err
		}
	}
	for i := range x.n {
		x.of.rows = append(x.of.rows, i)
	}
	return x.of, nil
}

// input reads the source of an input.
func (x *reader) input(name string, s *recipe.Source) error {
	shape, d := x.shapes[name], x.types[name]
	switch {
	case s.Images != "":
		return x.images(name, s)
	case s.Noise != "":
		if d != tensor.Float32 {
			return fmt.Errorf("%w: data: inputs: %s: noise is float32, the model takes %v",
				recipe.ErrRecipe, name, d)
		}
		x.of.inputs[name] = &data.Noise{Kind: s.Noise, Seed: x.recipe.Seed}
		return nil
	case s.Text != "":
		return x.text(name, s)
	}
	c, err := x.file(s.File, d, shape, x.recipe.Data.Divide)
	x.of.inputs[name] = c
	return err
}

// count holds that all sources have as many samples.
func (x *reader) count(path string, n int) error {
	if x.n >= 0 && n != x.n {
		return fmt.Errorf("%s: %w: %d samples, other files have %d", path, data.ErrData, n, x.n)
	}
	x.n = n
	return nil
}

// file reads a file of numbers.
func (x *reader) file(path string, d tensor.DType, shape []int, divide float64) (*data.Column,
	error) {
	t, err := data.Read(path)
	if err != nil {
		return nil, err
	}
	return x.column(path, t, d, shape, divide)
}

// column makes a column of what a file holds.
func (x *reader) column(path string, t *tensor.Tensor, d tensor.DType, shape []int,
	divide float64) (*data.Column, error) {
	per := 1
	for _, k := range shape[1:] {
		per *= k
	}
	c, err := data.NewColumn(t, d, per, divide)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, x.count(path, c.Samples())
}

// images reads a folder of pictures, which has the labels, too.
func (x *reader) images(name string, s *recipe.Source) error {
	o := data.PictureOptions{Mean: s.Mean, Std: s.Std, Cover: s.Cover, Seed: x.recipe.Seed}
	for _, text := range x.recipe.Data.Augment {
		if c, err := recipe.ParseChange(text); err == nil && c.Kind == "resize" {
			o.Least, o.Most = c.Least, c.Most
		}
	}
	if x.pictures != nil {
		return fmt.Errorf("%w: data: inputs: %s: another input is of images", recipe.ErrRecipe,
			name)
	}
	p, err := data.ReadPictures(s.Images, x.shapes[name], x.classes, o)
	if err != nil {
		return err
	}
	x.pictures, x.folder = p, s.Images
	x.of.inputs[name], x.of.classes = p, p.Classes()
	return x.count(s.Images, p.Samples())
}

// text reads a column of texts, which may give several inputs.
func (x *reader) text(name string, s *recipe.Source) error {
	shape := x.shapes[name]
	if len(shape) != 2 {
		return fmt.Errorf("%w: data: inputs: %s: the model takes %v: rows of tokens are samples "+
			"and tokens", recipe.ErrRecipe, name, shape)
	}
	t, err := data.ReadTexts(s.Text, textOptions(s, shape[1], nil))
	if err != nil {
		return err
	}
	x.of.cut += t.Cut
	if s.Mask != "" {
		x.masks[s.Mask] = t.Mask
	}
	if s.Types != "" {
		if x.masks[s.Types], err = tensor.New(tensor.Int64, t.Mask.Shape...); err != nil {
			return err
		}
	}
	x.of.inputs[name], err = x.column(s.Text, t.Tokens, x.types[name], shape, 1)
	return err
}

func textOptions(s *recipe.Source, length int, fill *int64) data.TextOptions {
	return data.TextOptions{Column: s.Column, Vocabulary: s.Vocabulary, Merges: s.Merges,
		Cased: s.Cased, Around: s.Around, Keep: s.Keep, Length: length, Fill: fill}
}

// rest gives an input without a source of its own what that of another gives it.
func (x *reader) rest(name string) (err error) {
	if x.of.inputs[name] != nil {
		return nil
	}
	t := x.masks[name]
	if t == nil {
		return fmt.Errorf("%w: data: eval: no file for input %q", recipe.ErrRecipe, name)
	}
	x.of.inputs[name], err = x.column(name, t, x.types[name], x.shapes[name], 1)
	return err
}

// label reads labels, and refuses those that a loss cannot have.
func (x *reader) label(label label, s *recipe.Source) (err error) {
	c, path := (*data.Column)(nil), s.File
	shape, _ := label.Type.Ints()
	switch {
	case s.Text != "":
		path = s.Text
		c, err = x.labelText(label, s, shape)
	case s.Given():
		c, err = x.file(s.File, label.Type.DType, shape, 1)
	case x.pictures == nil || len(shape) != 1 || label.Type.DType != tensor.Int64:
		return fmt.Errorf("%w: data: want labels: the loss takes %v, and folders of images are "+
			"one class a sample", recipe.ErrRecipe, label.Type)
	default:
		c, path = x.pictures.Labels(), x.folder
	}
	if err != nil {
		return err
	}
	if err := label.check(c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	x.of.labels[label.Name] = c
	return nil
}

// check refuses labels that a loss cannot have.
func (l *label) check(c *data.Column) error {
	switch l.of.Kind {
	case step.CrossEntropy:
		if l.of.Ignore != nil {
			return c.Within(l.Classes, int64(*l.of.Ignore))
		}
		return c.Within(l.Classes)
	case step.CTC:
		return c.Paths(l.Classes, l.of.Blank, l.Steps)
	case step.BinaryCrossEntropy, step.Dice:
		if l.of.Ignore != nil {
			return c.Parts(*l.of.Ignore)
		}
		return c.Parts()
	}
	return nil
}

// filler is what rows of labels are filled up with, nil for the vocabulary's own.
func (l *label) filler() *int64 {
	n := int64(-1)
	if l.of.Kind == step.CTC {
		return &n
	}
	if l.of.Ignore == nil {
		return nil
	}
	n = int64(*l.of.Ignore)
	return &n
}

// labelText reads labels of a file of texts.
func (x *reader) labelText(label label, s *recipe.Source, shape []int) (*data.Column, error) {
	if s.Vocabulary == "" {
		t, err := data.ReadNames(s.Text, s.Column, s.Names)
		if err != nil {
			return nil, err
		}
		return x.column(s.Text, t, label.Type.DType, shape, 1)
	}
	if len(shape) != 2 {
		return nil, fmt.Errorf("%w: data: labels: the loss takes %v: tokens are samples and tokens",
			recipe.ErrRecipe, label.Type)
	}
	o := textOptions(s, shape[1], label.filler())
	if o.Around == "" && label.of.Kind == step.CTC {
		o.Around = data.None
	}
	t, err := data.ReadTexts(s.Text, o)
	if err != nil {
		return nil, err
	}
	x.of.cut += t.Cut
	return x.column(s.Text, t.Tokens, label.Type.DType, shape, 1)
}
