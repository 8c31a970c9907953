package oip

import (
	"errors"
	"fmt"
)

// ErrAnswer is the kind of every error about what a server answered.
var ErrAnswer = errors.New("not an answer of the protocol")

// Append writes the request behind dst: JSON of header bytes, then all inputs as binary data, which
// outputs are asked for as, too. It is what [Decode] reads. The error is of kind [ErrRequest] where
// the protocol has no type for an input or a parameter.
func (r *Request) Append(dst []byte) (out []byte, header int, err error) {
	begin := len(dst)
	dst = append(dst, '{')
	if r.ID != "" {
		dst = append(appendText(append(dst, `"id":`...), r.ID), ',')
	}
	p := Parameters{}
	for _, k := range r.Parameters.keys() {
		p[k] = r.Parameters[k]
	}
	p["binary_data_output"] = true
	if dst, err = appendParams(dst, p); err != nil {
		return nil, 0, err
	}
	dst = append(dst, `,"inputs":[`...)
	for i := range r.Inputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		v := Value{Name: r.Inputs[i].Name, Tensor: r.Inputs[i].Tensor, Binary: true}
		if dst, err = v.append(dst); err != nil {
			return nil, 0, err
		}
	}
	dst = append(dst, ']')
	if r.Outputs != nil {
		dst = append(dst, `,"outputs":[`...)
		for i, o := range r.Outputs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendText(append(dst, `{"name":`...), o.Name), '}')
		}
		dst = append(dst, ']')
	}
	dst = append(dst, '}')
	header = len(dst) - begin
	for i := range r.Inputs {
		dst = AppendBytes(dst, r.Inputs[i].Tensor)
	}
	return dst, header, nil
}

// DecodeResponse reads the body of an answer over HTTP: header bytes of JSON, then binary data.
// Without binary data header is len(body). Tensors share the memory of body where they can. The
// error is of kind [ErrAnswer].
func DecodeResponse(body []byte, header int) (*Response, error) {
	r, err := decodeResponse(body, header)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return r, nil
}

func decodeResponse(body []byte, header int) (*Response, error) {
	if header < 0 || header > len(body) {
		return nil, fmt.Errorf("%d bytes are said to be JSON, of %d", header, len(body))
	}
	d := decoder{cursor: cursor{b: body[:header]}, rest: body[header:]}
	r := &Response{}
	if err := d.response(r); err != nil {
		return nil, err
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	for i := range d.drafts {
		v, err := d.input(&d.drafts[i])
		if err != nil {
			return nil, fmt.Errorf("output %.200q: %w", d.drafts[i].name, err)
		}
		binary := d.drafts[i].size != nil
		r.Outputs = append(r.Outputs, Value{v.Name, v.Tensor, binary, v.Region})
	}
	if len(d.rest) > 0 {
		return nil, fmt.Errorf("%d bytes of binary data are left over", len(d.rest))
	}
	return r, nil
}

// response reads the JSON of an answer; outputs have the form of inputs.
func (d *decoder) response(r *Response) error {
	return d.object(func(key string) (err error) {
		switch key {
		case "model_name":
			r.Model, err = d.text()
		case "model_version":
			r.Version, err = d.text()
		case "id":
			r.ID, err = d.text()
		case "parameters":
			r.Parameters, err = d.params("", nil)
		case "outputs":
			err = d.array(d.draft)
		default:
			err = d.skip()
		}
		return err
	})
}
