package op

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// scanOps hold Scan: a loop over the slices of its inputs. Version 8 has a file of its own.
var scanOps = []Op{
	{Name: "Scan", Since: []int{8, 9, 11, 16, 19, 21, 23, 24, 25}, MinIn: 0, MaxIn: -1, MinOut: 1,
		MaxOut: -1,
		Infer:  inferScan, Eval: evalScan},
}

// scan is how a Scan is wired: states first states of its inputs and outputs, scanned ones after
// them.
type scan struct {
	body              Body
	states, ins, outs int
	inAxes, outAxes   []int64 // as written, one a scanned input or output
	inBack, outBack   []bool  // whether it is walked or filled from the last slice to the first
}

// wireScan finds the body of a Scan whose states and scanned values are in inputs.
func wireScan(c *Call, in int) (*scan, error) {
	s := &scan{ins: int(c.Attrs.Int("num_scan_inputs", 0))}
	s.states = in - s.ins
	s.outs = c.NumOut - s.states
	if s.ins < 1 || s.states < 0 || s.outs < 0 {
		return nil, c.Errorf(ErrAttr, "num_scan_inputs is %d of %d inputs, for %d outputs", s.ins,
			in, c.NumOut)
	}
	var err error
	s.body, err = c.body("body", in, c.NumOut)
	return s, err
}

func scanOf(c *Call) (*scan, error) {
	s, err := wireScan(c, c.NumIn-c.Captures)
	if err != nil {
		return nil, err
	}
	if s.inAxes, err = c.scanList("scan_input_axes", s.ins); err != nil {
		return nil, err
	}
	if s.outAxes, err = c.scanList("scan_output_axes", s.outs); err != nil {
		return nil, err
	}
	if s.inBack, err = c.directionsList("scan_input_directions", s.ins); err != nil {
		return nil, err
	}
	s.outBack, err = c.directionsList("scan_output_directions", s.outs)
	return s, err
}

// directionsList is an attribute with n directions: whether each is backward.
func (c *Call) directionsList(name string, n int) ([]bool, error) {
	v, err := c.scanList(name, n)
	if err != nil {
		return nil, err
	}
	back := make([]bool, n)
	for i, d := range v {
		if d != 0 && d != 1 {
			return nil, c.Errorf(ErrAttr, "%s has %d, wants 0 or 1", name, d)
		}
		back[i] = d == 1
	}
	return back, nil
}

// scanList is an integer list attribute with n entries, by default zeros.
func (c *Call) scanList(name string, n int) ([]int64, error) {
	v := c.Attrs.Ints(name)
	if v == nil {
		return make([]int64, n), nil
	}
	if len(v) != n {
		return nil, c.Errorf(ErrAttr, "%s has %d entries, wants %d", name, len(v), n)
	}
	return v, nil
}

// inferScan types the body with states as they come in. A state keeps its shape by definition, so
// one round is enough.
func inferScan(c *Infer) error {
	if c.Version < 9 {
		return inferScan8(c)
	}
	s, err := scanOf(c.Call)
	if err != nil {
		return err
	}
	in, length, err := s.formals(c)
	if err != nil {
		return err
	}
	out, err := s.body.Infer(append(in, c.In[s.states+s.ins:]...))
	if err != nil {
		return err
	}
	if err := c.setOut(out, c.In); err != nil {
		return err
	}
	for i := range c.Out {
		if i < s.states {
			c.Out[i].Const, c.Out[i].Elems = nil, nil
		} else if c.Out[i], err = s.stacked(c, i-s.states, length); err != nil {
			return err
		}
	}
	return nil
}

// formals are the types that the body takes before its captures, and the length of the scanned
// inputs.
func (s *scan) formals(c *Infer) (in []Type, length Dim, err error) {
	for _, t := range c.In[:s.states] {
		in = append(in, t.withoutContents())
	}
	length = Unknown()
	for i, t := range c.In[s.states : s.states+s.ins] {
		slice := Unranked(t.DType)
		if t.Ranked {
			k, err := c.Axis(s.inAxes[i], len(t.Shape))
			if err != nil {
				return nil, length, err
			}
			slice = Ranked(t.DType, slices.Delete(slices.Clone(t.Shape), k, k+1)...)
			if length, err = c.sameDim(length, t.Shape[k], s.states+i, k); err != nil {
				return nil, length, err
			}
		}
		in = append(in, slice)
	}
	return in, length, nil
}

// stacked is the type of scanned output i: slices of the body's type joined along its axis.
func (s *scan) stacked(c *Infer, i int, length Dim) (Type, error) {
	t := c.Out[s.states+i]
	if !t.Ranked {
		return Unranked(t.DType), nil
	}
	k, err := c.Axis(s.outAxes[i], len(t.Shape)+1)
	if err != nil {
		return Type{}, err
	}
	return Ranked(t.DType, slices.Insert(slices.Clone(t.Shape), k, length)...), nil
}

func evalScan(c *Eval) error {
	if c.Version < 9 {
		return evalScan8(c)
	}
	s, err := scanOf(c.Call)
	if err != nil {
		return err
	}
	scanned := c.In[s.states : s.states+s.ins]
	if slices.Contains(c.In, nil) {
		return c.Errorf(ErrInput, "an input or captured value is left out")
	}
	length, axes, err := s.lengths(c.Call, scanned)
	if err != nil {
		return err
	}
	state, outs, err := s.run(c, c.In[:s.states], scanned, axes, length)
	if err != nil {
		return err
	}
	copy(c.Out, state)
	return s.join(c, outs)
}

// run scans length slices along axes of inputs; it returns the last state and the slices of each
// scanned output.
func (s *scan) run(c *Eval, state, scanned []*tensor.Tensor, axes []int,
	length int) ([]*tensor.Tensor, []stack, error) {
	state = slices.Clone(state)
	outs := make([]stack, s.outs)
	held := carried{c: c}
	room, err := s.sliceBytes(scanned, length)
	if err != nil {
		return nil, nil, err
	}
	if err := c.reserve(room); err != nil {
		return nil, nil, fmt.Errorf("%s: scanned inputs: %w", c.Name(), err)
	}
	defer c.release(room)
	for i := range length {
		now, err := s.slicesAt(i, length, scanned, axes)
		if err != nil {
			return nil, nil, err
		}
		out, err := c.iterate(s.body, int64(i), slices.Concat(state, now, c.CaptureTensors()))
		if err != nil {
			return nil, nil, err
		}
		copy(state, out)
		if err := held.become(state); err != nil {
			return nil, nil, err
		}
		if err := pushAll(c, outs, out[s.states:]); err != nil {
			return nil, nil, err
		}
	}
	return state, outs, nil
}

// sliceBytes are the bytes of one slice of each input.
func (s *scan) sliceBytes(scanned []*tensor.Tensor, length int) (int64, error) {
	var n int64
	for _, t := range scanned {
		bytes, err := tensor.ByteCount(t.DType, t.Shape)
		if err != nil {
			return 0, err
		}
		n += int64(bytes / max(1, length))
	}
	return n, nil
}

// slicesAt are the slices that iteration i reads.
func (s *scan) slicesAt(i, length int, in []*tensor.Tensor, axes []int) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(in))
	for k, t := range in {
		var err error
		if out[k], err = takeSlice(t, axes[k], fromEnd(i, length, s.inBack[k])); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func fromEnd(i, n int, back bool) int {
	if back {
		return n - 1 - i
	}
	return i
}

// lengths checks that the scanned inputs have the same length along their axes.
func (s *scan) lengths(c *Call, in []*tensor.Tensor) (length int, axes []int, err error) {
	axes = make([]int, len(in))
	for i, t := range in {
		if axes[i], err = c.Axis(s.inAxes[i], t.Rank()); err != nil {
			return 0, nil, err
		}
		n := t.Shape[axes[i]]
		if i > 0 && n != length {
			return 0, nil, c.Errorf(ErrInput, "scanned inputs have lengths %d and %d", length, n)
		}
		length = n
	}
	return length, axes, nil
}

// takeSlice copies slice i of an axis, without that axis.
func takeSlice(t *tensor.Tensor, axis, i int) (*tensor.Tensor, error) {
	out, err := tensor.New(t.DType, slices.Delete(slices.Clone(t.Shape), axis, axis+1)...)
	if err != nil {
		return nil, err
	}
	from := strided.RowMajor(t.Shape)
	from.Offset = i * from.Strides[axis]
	from.Strides = slices.Delete(from.Strides, axis, axis+1)
	return out, strided.Copy(out, strided.RowMajor(out.Shape), t, from, out.Shape)
}

// join puts the slices of each scanned output together along its axis. Of a scan of length 0 the
// body's types tell the shapes, with 0 for what they leave open.
func (s *scan) join(c *Eval, outs []stack) error {
	for k, o := range outs {
		d, slice, err := o.sliceType(s.states+k, func() ([]Type, error) { return s.bodyTypes(c) })
		if err != nil {
			return err
		}
		axis, err := c.Axis(s.outAxes[k], len(slice)+1)
		if err != nil {
			return err
		}
		out, err := c.Output(s.states+k, d, slices.Insert(slices.Clone(slice), axis, len(o.slices)))
		if err != nil {
			return err
		}
		if err := o.into(out, axis, s.outBack[k]); err != nil {
			return err
		}
		c.release(int64(o.bytes))
	}
	return nil
}

// into copies the slices to their places along an axis of out, the first one last when back is set.
func (s *stack) into(out *tensor.Tensor, axis int, back bool) error {
	to := strided.RowMajor(out.Shape)
	strides := slices.Delete(slices.Clone(to.Strides), axis, axis+1)
	for i, t := range s.slices {
		at := strided.Steps{Offset: fromEnd(i, len(s.slices), back) * to.Strides[axis],
			Strides: strides}
		if err := strided.Copy(out, at, t, strided.RowMajor(t.Shape), t.Shape); err != nil {
			return err
		}
	}
	return nil
}

// bodyTypes are the types of the body's outputs.
func (s *scan) bodyTypes(c *Eval) ([]Type, error) {
	in := make([]Type, len(c.In))
	for i, t := range c.In {
		shape := slices.Clone(t.Shape)
		if j := i - s.states; j >= 0 && j < s.ins {
			axis, err := c.Axis(s.inAxes[j], len(shape))
			if err != nil {
				return nil, err
			}
			shape = slices.Delete(shape, axis, axis+1)
		}
		in[i] = Concrete(t.DType, shape...)
	}
	return s.body.Infer(in)
}

// openAsZero is a shape with 0 for every dimension that is not known.
func openAsZero(t Type) []int {
	out := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		n, _ := d.Int()
		out[i] = max(n, 0)
	}
	return out
}
