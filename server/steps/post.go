package steps

import (
	"errors"
	"fmt"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/tokens"
	"github.com/weirgpu/weir/tensor"
)

// post is the graph behind the model.
func (j *joiner) post() (*builder, error) {
	b := newBuilder("post")
	for i := range j.file.Post {
		c := &j.file.Post[i]
		if err := j.behind(b, c); err != nil {
			return nil, fmt.Errorf("post, from %q: %w", c.From, err)
		}
	}
	if len(b.g.Outputs) == 0 {
		return nil, errors.New("post: no chain has an output: give to")
	}
	return b, nil
}

// value is an output of the model, or of a chain before.
func (j *joiner) value(b *builder, name string) (*graph.Value, error) {
	if v := b.named[name]; v != nil {
		return v, nil
	}
	out, err := info(j.model.Outputs(), name)
	if err != nil {
		return nil, err
	}
	return b.input(name, typeOf(out)), nil
}

// behind adds the steps of a chain behind the model.
func (j *joiner) behind(b *builder, c *Chain) error {
	v, err := j.value(b, c.From)
	if err != nil {
		return err
	}
	x := &tail{joiner: j, b: b, v: v}
	for i := range c.Steps {
		if err := x.add(&c.Steps[i]); err != nil {
			return fmt.Errorf("%s: %w", c.Steps[i].set()[0], err)
		}
	}
	if c.To == "" {
		return nil
	}
	return x.give(c.To, x.v)
}

// tail is a chain while it is made: its value, and the places of what top has kept.
type tail struct {
	*joiner
	b        *builder
	v, index *graph.Value
}

// give names a value, and makes it an output where it is one.
func (x *tail) give(name string, v *graph.Value) error {
	if x.b.named[name] != nil && name != x.b.named[name].Name {
		return fmt.Errorf("%q is there twice", name)
	}
	if internal(name) {
		x.b.named[name] = v
		return nil
	}
	return x.b.output(v, name)
}

// add adds one step.
func (x *tail) add(s *Step) error {
	b := x.b
	switch {
	case s.Slice != nil:
		to := b.ints(1<<62 - 1)
		if s.Slice.To != nil {
			to = b.ints(int64(*s.Slice.To))
		}
		x.v = b.one("Slice", nil, x.v, b.ints(int64(s.Slice.From)), to,
			b.ints(int64(s.Slice.Axis)))
	case s.Transpose != nil:
		x.v = b.one("Transpose", op.Attrs{op.IntsAttr("perm", s.Transpose...)}, x.v)
	case s.Reshape != nil:
		x.v = b.one("Reshape", nil, x.v, b.ints(s.Reshape...))
	case s.Softmax != nil:
		axis := int64(-1)
		if s.Softmax.Axis != nil {
			axis = int64(*s.Softmax.Axis)
		}
		x.v = b.one("Softmax", op.Attrs{op.IntAttr("axis", axis)}, x.v)
	case s.Threshold != nil:
		x.v = b.one("GreaterOrEqual", nil, x.v, b.constant(tensor.Scalar(float32(*s.Threshold))))
	case s.Top != nil:
		return x.top(s.Top)
	case s.Labels != nil:
		return x.labels(s.Labels)
	case s.Suppress != nil:
		return x.suppress(s.Suppress)
	}
	return nil
}

// top keeps the largest values.
func (x *tail) top(t *Top) error {
	if t.Count < 1 {
		return fmt.Errorf("count is %d: give 1 or more", t.Count)
	}
	out := x.b.node("TopK", nil, 2, x.v, x.b.ints(int64(t.Count)))
	x.v, x.index = out[0], out[1]
	if t.Index == "" {
		return nil
	}
	return x.give(t.Index, x.index)
}

// mostLabels is the most bytes of a file of labels.
const mostLabels = 16 << 20

// labels names what top has kept, or the largest.
func (x *tail) labels(l *Labels) error {
	if l.File == "" || l.To == "" {
		return errors.New("give file and to")
	}
	text, err := x.read(l.File, mostLabels)
	if err != nil {
		return err
	}
	names := tokens.Lines(text)
	if len(names) == 0 {
		return fmt.Errorf("%s has no lines", l.File)
	}
	if x.index == nil {
		x.index = x.b.one("ArgMax", op.Attrs{op.IntAttr("axis", -1)}, x.v)
	}
	return x.give(l.To, x.b.one("Gather", nil, x.b.constant(tensor.FromStrings(names, len(names))),
		x.index))
}

// suppress keeps the best of boxes that overlap.
func (x *tail) suppress(s *Suppress) error {
	b := x.b
	boxes, err := x.value(b, s.Boxes)
	if err != nil {
		return err
	}
	count := int64(s.Count)
	if count == 0 {
		count = 1 << 31
	}
	centre := int64(0)
	if s.Centre {
		centre = 1
	}
	at := b.one("NonMaxSuppression", op.Attrs{op.IntAttr("center_point_box", centre)}, boxes, x.v,
		b.ints(count), b.constant(tensor.From([]float32{float32(s.Overlap)}, 1)),
		b.constant(tensor.From([]float32{float32(s.Score)}, 1)))
	column := func(i int64) *graph.Value {
		return b.one("Slice", nil, at, b.ints(i), b.ints(i+1), b.ints(1))
	}
	x.v = b.one("GatherND", nil, x.v, at)
	place := b.one("Concat", op.Attrs{op.IntAttr("axis", 1)}, column(0), column(2))
	for _, out := range []struct {
		name string
		make func() *graph.Value
	}{
		{s.Kept, func() *graph.Value { return b.one("GatherND", nil, boxes, place) }},
		{s.Classes, func() *graph.Value { return b.one("Squeeze", nil, column(1), b.ints(1)) }},
		{s.Rows, func() *graph.Value { return b.one("Squeeze", nil, column(0), b.ints(1)) }},
	} {
		if out.name == "" {
			continue
		}
		if err := x.give(out.name, out.make()); err != nil {
			return err
		}
	}
	return nil
}
