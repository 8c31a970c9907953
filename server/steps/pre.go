package steps

import (
	"errors"
	"fmt"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// pre is the graph in front of the model.
func (j *joiner) pre() (*builder, error) {
	b := newBuilder("pre")
	for i := range j.file.Pre {
		c := &j.file.Pre[i]
		if err := j.chain(b, c); err != nil {
			return nil, fmt.Errorf("pre, from %q: %w", c.From, err)
		}
	}
	return b, nil
}

// chain adds the steps of a chain in front.
func (j *joiner) chain(b *builder, c *Chain) error {
	if b.named[c.From] != nil {
		return errors.New("another chain is from the same input")
	}
	from := b.input(c.From, op.Ranked(tensor.String, op.Sym("N")))
	if t := c.Steps[0].Tokenise; t != nil {
		return j.tokenise(b, c, t, from)
	}
	p, rest, err := newPicture(c.Steps)
	if err != nil {
		return err
	}
	v := b.own(p.operator(), from)[0]
	axis := 3 // of the channels
	for i := range rest {
		if v, err = b.prepare(v, &rest[i], &axis, p.channels); err != nil {
			return err
		}
	}
	return j.feed(b, v, c.To)
}

// feed gives a value to an input of the model, in its type.
func (j *joiner) feed(b *builder, v *graph.Value, to string) error {
	in, err := info(j.model.Inputs(), to)
	if err != nil {
		return err
	}
	v = b.one("Cast", op.Attrs{op.IntAttr("to", int64(in.Type.DType))}, v)
	name := "to/" + to
	b.feeds[name] = to
	return b.output(v, name)
}

// prepare adds one step to a picture.
func (b *builder) prepare(v *graph.Value, s *Step, axis *int, channels int) (*graph.Value, error) {
	switch {
	case s.Normalise != nil:
		return b.normalise(v, s.Normalise, *axis, channels)
	case s.Layout == "nchw" && *axis == 3:
		*axis = 1
		return b.one("Transpose", op.Attrs{op.IntsAttr("perm", 0, 3, 1, 2)}, v), nil
	case s.Layout == "nhwc" && *axis == 3:
		return v, nil
	case s.Layout != "":
		return nil, fmt.Errorf("layout %q: give nchw, or nhwc, once", s.Layout)
	case s.Reshape != nil:
		return b.one("Reshape", nil, v, b.ints(s.Reshape...)), nil
	case s.Transpose != nil:
		return b.one("Transpose", op.Attrs{op.IntsAttr("perm", s.Transpose...)}, v), nil
	}
	return nil, fmt.Errorf("%s comes before steps that are not of pictures", s.set()[0])
}

// normalise makes (x/scale - mean) / std.
func (b *builder) normalise(v *graph.Value, n *Normalise, axis, channels int) (*graph.Value,
	error) {
	v = b.one("Cast", op.Attrs{op.IntAttr("to", int64(tensor.Float32))}, v)
	if n.Scale != 0 {
		v = b.one("Div", nil, v, b.constant(tensor.Scalar(float32(n.Scale))))
	}
	for _, x := range []struct {
		typ    string
		values []float64
	}{{"Sub", n.Mean}, {"Div", n.Std}} {
		if x.values == nil {
			continue
		}
		if len(x.values) != 1 && len(x.values) != channels {
			return nil, fmt.Errorf("normalise: %d values for %d channels", len(x.values), channels)
		}
		shape := []int{len(x.values)}
		if axis == 1 {
			shape = []int{len(x.values), 1, 1}
		}
		values := make([]float32, len(x.values))
		for i, f := range x.values {
			if values[i] = float32(f); x.typ == "Div" && values[i] == 0 {
				return nil, errors.New("normalise: std is 0")
			}
		}
		v = b.one(x.typ, nil, v, b.constant(tensor.From(values, shape...)))
	}
	return v, nil
}
