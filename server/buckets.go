package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/admit"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// This file is requests of different lengths in one batch: inputs are padded along one dimension to
// the next of a few sizes, and outputs are cut back. Which that is a model's configuration says, or
// its properties. It is done only where a trial has shown that rows which are padded and computed
// beside others come out as they do alone.

// The parameters of a configuration, or else the properties of a model, that say how it is padded.
const (
	propertyLengths = "bucket.lengths" // "16,32" or, with the name of the dimension, "seq=16,32"
	propertyPad     = "bucket.pad"     // INPUT=VALUE, several by commas; 0 for the others
	propertyMask    = "bucket.mask"    // the input that is 1 where a row has values, and 0 behind
)

// mostBuckets bounds the sizes of a model: each has a plan for every number of rows.
const mostBuckets = 8

// padding is how inputs are padded.
type padding struct {
	sizes []int                     // that inputs are padded to, ascending
	axes  map[string]int            // the dimension of each input that is padded, above 0
	with  map[string]*tensor.Tensor // what with, one element
	mask  string                    // "" for none
	cut   [][]int                   // the dimensions of each output that are cut back, once tried
}

// padded reads how the version is padded, by its configuration or else by the properties of its
// model.
func (v *version) padded(properties map[string]string) error {
	given, of := map[string]string{}, "property"
	for _, key := range []string{propertyLengths, propertyPad, propertyMask} {
		if value, ok := properties[key]; ok {
			given[key] = value
		}
	}
	if c := v.source.Config; c != nil {
		for key := range c.Parameters {
			if strings.HasPrefix(key, "bucket.") {
				given[key], of = c.Parameters[key].StringValue, "configuration: parameter"
			}
		}
	}
	if len(given) == 0 {
		return nil
	}
	p := &padding{axes: map[string]int{}, with: map[string]*tensor.Tensor{}}
	for _, key := range []string{propertyLengths, propertyPad, propertyMask} {
		if err := p.read(v, key, given[key]); err != nil {
			return fmt.Errorf("%w: %s %s is %.100q: %w", weir.ErrModel, of, key, given[key], err)
		}
		delete(given, key)
	}
	for key := range given {
		return fmt.Errorf("%w: %s %.100s: there is bucket.lengths, bucket.pad and bucket.mask",
			weir.ErrModel, of, key)
	}
	v.padding = p
	return nil
}

// read reads one parameter.
func (p *padding) read(v *version, key, value string) error {
	switch {
	case key == propertyLengths:
		return p.lengths(v, value)
	case value == "":
		return nil
	case key == propertyMask:
		return p.masked(v, value)
	}
	for pair := range strings.SplitSeq(value, ",") {
		name, text, both := strings.Cut(pair, "=")
		if _, ok := p.axes[name]; !both || !ok {
			return fmt.Errorf("%.40q: give INPUT=VALUE of an input that is padded", pair)
		}
		one, err := element(v.inputs[name].Type.DType, text)
		if err != nil {
			return fmt.Errorf("%.40q: %w", pair, err)
		}
		p.with[name] = one
	}
	return nil
}

// lengths reads the sizes, and finds the dimensions that have them: those of a name or, without
// one, all that are open but the first.
func (p *padding) lengths(v *version, value string) error {
	dim, list, named := strings.Cut(value, "=")
	if !named {
		dim, list = "", value
	}
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || len(p.sizes) > 0 && n <= p.sizes[len(p.sizes)-1] {
			return errors.New("give sizes from 1 on that rise, such as 16,32,64, or with the " +
				"name of the dimension seq=16,32,64")
		}
		p.sizes = append(p.sizes, n)
	}
	if len(p.sizes) > mostBuckets {
		return fmt.Errorf("%d sizes: give %d at most", len(p.sizes), mostBuckets)
	}
	for _, f := range v.types {
		in := v.inputs[f.Name].Type
		for i, d := range f.Shape {
			if i == 0 || d >= 0 || named && in.Shape[i].Name != dim {
				continue
			}
			if p.axes[f.Name] > 0 {
				return fmt.Errorf("input %s (%v) has it twice: give the name of the dimension",
					f.Name, in)
			}
			p.axes[f.Name], p.with[f.Name] = i, filled(in.DType, []int{}, 0)
		}
	}
	if len(p.axes) == 0 {
		return errors.New("no input has such a dimension, open and behind that of the rows")
	}
	return nil
}

// masked reads the name of the mask, which is made where a request does not give it.
func (p *padding) masked(v *version, name string) error {
	in, ok := v.inputs[name]
	if p.axes[name] == 0 || !ok || in.Type.DType == tensor.String {
		return errors.New("give an input of numbers that is padded")
	}
	for i, d := range in.Type.Shape {
		if i > 0 && i != p.axes[name] && d.Size != 1 {
			return fmt.Errorf("the input is %v: give one of rows and lengths", in.Type)
		}
	}
	if len(p.axes) < 2 {
		return errors.New("no other input is padded")
	}
	p.mask = name
	return nil
}

// element reads a value of a type.
func element(d tensor.DType, text string) (*tensor.Tensor, error) {
	switch d {
	case tensor.String:
		return &tensor.Tensor{DType: d, Shape: []int{}, Strings: []string{text}}, nil
	case tensor.Float64:
		x, err := strconv.ParseFloat(text, 64)
		return tensor.From([]float64{x}), err
	case tensor.Float32, tensor.Float16, tensor.BFloat16:
		wide, err := strconv.ParseFloat(text, 32)
		x := float32(wide)
		switch d {
		case tensor.Float16:
			return tensor.From([]tensor.Half{tensor.HalfOf(x)}), err
		case tensor.BFloat16:
			return tensor.From([]tensor.BHalf{tensor.BHalfOf(x)}), err
		}
		return tensor.From([]float32{x}), err
	}
	x, err := strconv.ParseInt(text, 10, 8*d.Size())
	whole := binary.LittleEndian.AppendUint64(nil, uint64(x))
	return &tensor.Tensor{DType: d, Shape: []int{}, Data: whole[:d.Size()]}, err
}

// mask gives a request its mask, where it has none of its own, and its inputs have one length: 1
// for all that it has.
func (v *version) mask(in weir.Inputs) {
	p := v.padding
	if p == nil || p.mask == "" || in[p.mask] != nil {
		return
	}
	of := v.inputs[p.mask].Type
	shape := make([]int, len(of.Shape))
	for i, d := range of.Shape {
		shape[i] = d.Size
	}
	at := p.axes[p.mask]
	shape[at] = -1
	for name, axis := range p.axes {
		t := in[name]
		if t == nil || axis >= len(t.Shape) {
			continue
		}
		if shape[at] >= 0 && (shape[at] != t.Shape[axis] || shape[0] != t.Shape[0]) {
			return
		}
		shape[0], shape[at] = t.Shape[0], t.Shape[axis]
	}
	if shape[at] < 0 {
		return
	}
	if n, err := tensor.ByteCount(of.DType, shape); err == nil && n <= int(v.server.o.Body) {
		in[p.mask] = filled(of.DType, shape, 1)
	}
}

// of returns the length of inputs, and what it is padded to; 0 where they are computed as they are:
// they have no one length, it is beyond all sizes, or a row's mask has nothing, of which no model
// says what it means.
func (p *padding) of(in weir.Inputs) (length, size int) {
	for name, axis := range p.axes {
		n := in[name].Shape[axis]
		if length > 0 && n != length || n == 0 {
			return 0, 0
		}
		length = n
	}
	if m := in[p.mask]; m != nil {
		row := len(m.Data) / m.Shape[0]
		for from := 0; from < len(m.Data); from += row {
			if len(bytes.Trim(m.Data[from:from+row], "\x00")) == 0 {
				return 0, 0
			}
		}
	}
	size, ok := admit.Bucket(p.sizes, length)
	if !ok {
		return 0, 0
	}
	return length, size
}

// padTo appends the elements of a tensor with its dimension axis padded to a size.
func padTo[T byte | string](to, elements, with []T, shape []int, axis, size int) []T {
	outer, _ := tensor.Count(shape[:axis])
	part := len(elements) / outer
	behind := part / shape[axis] * (size - shape[axis]) / len(with)
	for i := range outer {
		to = append(to, elements[i*part:(i+1)*part]...)
		for range behind {
			to = append(to, with...)
		}
	}
	return to
}

// shorter is a tensor of its own with dimensions cut to a length.
func shorter(t *tensor.Tensor, axes []int, length int) *tensor.Tensor {
	for _, axis := range axes {
		c := &tensor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape)}
		c.Shape[axis] = length
		outer, _ := tensor.Count(t.Shape[:axis])
		c.Data = cutTo(t.Data, outer, t.Shape[axis], length)
		c.Strings = cutTo(t.Strings, outer, t.Shape[axis], length)
		t = c
	}
	return t
}

// cutTo is the first of each group of elements: length of so many.
func cutTo[T byte | string](elements []T, outer, of, length int) []T {
	if len(elements) == 0 {
		return elements
	}
	part := len(elements) / outer
	to := make([]T, 0, len(elements)/of*length)
	for i := range outer {
		to = append(to, elements[i*part:i*part+part/of*length]...)
	}
	return to
}

// errLengths is an output of padded inputs that is not as long as they are.
var errLengths = errors.New("the outputs are not as long as the inputs")

// cutBack cuts outputs of a task that was padded.
func (t *task) cutBack() error {
	if t.pads == nil || t.size == t.length {
		return nil
	}
	for i, o := range t.out {
		if !t.pads.long(i, o, t.size) {
			return errLengths
		}
		t.out[i] = shorter(o, t.pads.cut[i], t.length)
	}
	return nil
}

// long reports whether the dimensions of an output that are cut back have a size.
func (p *padding) long(i int, o *tensor.Tensor, size int) bool {
	return !slices.ContainsFunc(p.cut[i], func(axis int) bool {
		return axis >= len(o.Shape) || o.Shape[axis] != size
	})
}

// unpad gives a task its inputs back as they came.
func (t *task) unpad() {
	if t.pads == nil || t.size <= t.length {
		return
	}
	for name, axis := range t.pads.axes {
		if x := t.in[name]; x.Shape[axis] == t.size {
			t.in[name] = shorter(x, []int{axis}, t.length)
		}
	}
	t.size = t.length
}

// padTrial is what is known of a version while it is tried whether its inputs may be padded.
type padTrial struct {
	trial
	p    *padding
	lens []int // of each sample
	from []int // where the samples of each size begin
}

// tryPadded finds out whether and how inputs are padded, up to the rows that a batch may have. The
// error says why they are not.
func (v *version) tryPadded(ctx context.Context) (*batching, error) {
	p := *v.padding
	t := &padTrial{trial: trial{v: v}, p: &p}
	if err := t.begin(ctx); err != nil {
		return nil, err
	}
	if err := t.cuts(); err != nil {
		return nil, err
	}
	b := &batching{most: 1, sizes: []int{1}, pads: &p}
	for size := 1; ; size = min(4*size, v.rowsAtMost()) {
		if err := t.all(ctx, size); errors.Is(err, errDiffer) || err != nil && size == 1 {
			return nil, err
		} else if err != nil {
			b.why = fmt.Sprintf("up to %d rows: with more, %s", b.most, text(err))
			break
		}
		if b.most = size; size > 1 {
			b.sizes = append(b.sizes, size)
		}
		if size == v.rowsAtMost() {
			b.why = fmt.Sprintf("up to %d rows", size)
			break
		}
	}
	v.queueing(b)
	b.why += fmt.Sprintf(", padded to %s", strings.Trim(fmt.Sprint(p.sizes), "[]"))
	return b, nil
}

// begin computes samples of the shortest and the longest length of each size, alone and as they
// are.
func (t *padTrial) begin(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(1, 2))
	before := 0
	for _, size := range t.p.sizes {
		t.from = append(t.from, len(t.rows))
		for _, n := range []int{before + 1, size, before + 1} {
			in := t.v.sample(rng, n)
			if m := t.p.mask; m != "" {
				in[m] = filled(in[m].DType, in[m].Shape, 1)
			}
			out, _, err := t.v.behind(ctx, clone(in))
			if err != nil {
				return fmt.Errorf("no values were found that the model takes: %w", err)
			}
			t.rows, t.lens = append(t.rows, in), append(t.lens, n)
			t.alone = append(t.alone, out)
		}
		before = size
	}
	return nil
}

// cuts finds the dimensions of outputs that are as long as the inputs.
func (t *padTrial) cuts() error {
	t.p.cut = make([][]int, len(t.alone[0]))
	for i, o := range t.alone[0] {
		for axis := range o.Shape {
			same, long := true, axis > 0
			for row, out := range t.alone {
				if len(out[i].Shape) != len(o.Shape) {
					return fmt.Errorf("%w: output %s is %v and %v", errDiffer,
						t.v.on.Outputs()[i].Name, o.Shape, out[i].Shape)
				}
				same = same && out[i].Shape[axis] == o.Shape[axis]
				long = long && out[i].Shape[axis] == t.lens[row]
			}
			switch {
			case same:
			case long:
				t.p.cut[i] = append(t.p.cut[i], axis)
			default:
				return fmt.Errorf("%w: dimension %d of output %s is not as long as the inputs",
					errDiffer, axis, t.v.on.Outputs()[i].Name)
			}
		}
	}
	return nil
}

// all computes batches of so many rows for each size, and holds each row against itself alone.
func (t *padTrial) all(ctx context.Context, rows int) error {
	for k, size := range t.p.sizes {
		if t.v.short() {
			return fmt.Errorf("%w for them", weir.ErrMemory)
		}
		tasks := make([]*task, rows)
		at := func(row int) int { return t.from[k] + row%3 }
		for i := range tasks {
			tasks[i] = &task{in: clone(t.rows[at(i)]), rows: 1, pads: t.p, length: t.lens[at(i)],
				size: size}
		}
		in := desk{}.gather(t.v.types, tasks, rows)
		out, _, err := t.v.behind(ctx, in)
		if err != nil {
			return err
		}
		if err := t.hold(out, tasks, at); err != nil {
			return err
		}
	}
	return nil
}

// hold holds rows of outputs, cut back, against those that were computed alone.
func (t *padTrial) hold(out []*tensor.Tensor, tasks []*task, at func(row int) int) error {
	for i, o := range out {
		if len(o.Shape) == 0 || o.Shape[0] != len(tasks) {
			return fmt.Errorf("%w: output %s of %d rows is %v", errDiffer, t.v.on.Outputs()[i].Name,
				len(tasks), o.Shape)
		}
		for row, x := range tasks {
			got, want := part(o, row, 1), t.alone[at(row)][i]
			long := t.p.long(i, got, x.size)
			if !long || !alike(shorter(got, t.p.cut[i], x.length), want) {
				return fmt.Errorf("%w: output %s of a row of length %d alone is not that when it "+
					"is padded to %d among %d", errDiffer, t.v.on.Outputs()[i].Name, x.length,
					x.size, len(tasks))
			}
		}
	}
	return nil
}

// signature appends what tells the shape of an input apart from those that share no batch with it.
func (t *task) signature(to []byte, f *oip.TensorFields, from int) []byte {
	shape, axis := t.in[f.Name].Shape, 0
	if t.size > 0 {
		axis = t.pads.axes[f.Name]
	}
	for i := min(from, len(shape)); i < len(shape); i++ {
		d := shape[i]
		if axis > 0 && i == axis {
			d = t.size
		}
		to = append(strconv.AppendInt(to, int64(d), 10), ',')
	}
	return append(to, ';')
}
