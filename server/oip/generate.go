package oip

import (
	"fmt"
	"maps"

	"github.com/weirgpu/weir/tensor"
)

// DecodeGenerate reads the body of a request for generate (Triton, extension_generate.md): an
// object of JSON whose members are inputs by name, id, the object parameters and, of others that
// are single values, more parameters. An input is one value, or an array, flat or nested; its shape
// is that of the declared input, of which the last open dimension takes what there is, and others
// are 1. hold is asked for memory. The error is of kind [ErrRequest], or that of hold.
func DecodeGenerate(body []byte, inputs []TensorFields, hold Holder) (*Request, error) {
	d := decoder{cursor: cursor{b: body}, hold: hold}
	d.r.Parameters = Parameters{}
	declared := map[string]*TensorFields{}
	for i := range inputs {
		declared[inputs[i].Name] = &inputs[i]
	}
	err := d.object(func(key string) (err error) {
		switch in := declared[key]; {
		case in != nil:
			return d.generated(in)
		case key == "id":
			d.r.ID, err = d.text()
		case key == "parameters":
			var p Parameters
			p, err = d.params("", nil)
			maps.Copy(d.r.Parameters, p)
			if len(d.r.Parameters) > MaxValues && err == nil {
				err = tooMany("parameters", MaxValues)
			}
		case len(d.r.Parameters) >= MaxValues:
			return tooMany("parameters", MaxValues)
		default:
			d.r.Parameters[key], err = d.param(key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return &d.r, d.r.finish()
}

// generated reads an input.
func (d *decoder) generated(in *TensorFields) error {
	d.peek()
	begin := d.at
	n, err := d.count()
	if err != nil {
		return err
	}
	shape, err := shapeFor(in, n)
	if err != nil {
		return err
	}
	again := decoder{cursor: cursor{b: d.b[:d.at], at: begin}, hold: d.hold}
	t, err := again.elements(in.Datatype, shape)
	if err != nil {
		return fmt.Errorf("input %.200q: %w", in.Name, err)
	}
	d.r.Inputs = append(d.r.Inputs, Input{Name: in.Name, Tensor: t})
	return nil
}

// count reads a value, or an array of values, and returns how many there are.
func (d *decoder) count() (n int, err error) {
	var each func() error
	each = func() error {
		if d.peek() == '[' {
			return d.array(each)
		}
		n++
		return d.skip()
	}
	err = each()
	return n, err
}

// shapeFor is the shape of an input for n elements.
func shapeFor(in *TensorFields, n int) ([]int, error) {
	shape, open := make([]int, len(in.Shape)), -1
	for i, d := range in.Shape {
		shape[i] = int(d)
		if d < 0 {
			shape[i], open = 1, i
		}
	}
	all, err := tensor.Count(shape)
	if open >= 0 && err == nil && all > 0 && n%all == 0 {
		shape[open], all = n/all, n
	}
	if err != nil || all != n {
		return nil, fmt.Errorf("%w: input %.200q: %d elements, and its shape is %v", ErrRequest,
			in.Name, n, in.Shape)
	}
	return shape, nil
}

// AppendGenerated writes the answer behind dst as generate has it: an object of JSON with the model
// and each output by its name, as one value where it has one element, else as a flat array. The
// error is of kind [ErrRequest] where JSON cannot hold an output.
func (r *Response) AppendGenerated(dst []byte) ([]byte, error) {
	dst = append(dst, '{')
	if r.ID != "" {
		dst = append(appendText(append(dst, `"id":`...), r.ID), ',')
	}
	dst = appendText(append(dst, `"model_name":`...), r.Model)
	dst = appendText(append(dst, `,"model_version":`...), r.Version)
	for i := range r.Outputs {
		v := &r.Outputs[i]
		if v.Region != nil {
			return nil, fmt.Errorf("%w: output %.200q is in shared memory, which generate has "+
				"none of", ErrRequest, v.Name)
		}
		dst = append(appendText(append(dst, ','), v.Name), ':')
		n, err := tensor.Count(v.Tensor.Shape)
		if err != nil {
			return nil, fmt.Errorf("%w: output %.200q: %w", ErrRequest, v.Name, err)
		}
		if n != 1 {
			dst = append(dst, '[')
		}
		if dst, err = appendElements(dst, v.Tensor); err != nil {
			return nil, fmt.Errorf("output %.200q: %w", v.Name, err)
		}
		if n != 1 {
			dst = append(dst, ']')
		}
	}
	return append(dst, '}'), nil
}
