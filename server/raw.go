package server

import (
	"fmt"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// raw is the request whose body is nothing but the data of the model's one input
// (Inference-Header-Content-Length: 0): all its dimensions are known but one at most, or the first,
// which is 1 if others are not known either. Of an input of text it is the one element.
func (v *version) raw(body []byte, hold oip.Holder) (*oip.Request, error) {
	if len(v.metadata.Inputs) != 1 {
		return nil, fmt.Errorf("%w: model %s has %d inputs: a body without JSON is for models "+
			"that have one", oip.ErrRequest, v.name, len(v.metadata.Inputs))
	}
	in := v.inputs[v.metadata.Inputs[0].Name]
	shape, err := rawShape(in, len(body))
	if err != nil {
		return nil, err
	}
	t, err := rawTensor(in.Type.DType, shape, body, hold)
	if err != nil {
		return nil, fmt.Errorf("input %s: %w", in.Name, err)
	}
	return &oip.Request{Inputs: []oip.Input{{Name: in.Name, Tensor: t}},
		Parameters: oip.Parameters{"binary_data_output": true}}, nil
}

// rawTensor is a tensor of bytes as they come; text has no length in front of it then.
func rawTensor(d tensor.DType, shape []int, body []byte, hold oip.Holder) (*tensor.Tensor,
	error) {
	if d != tensor.String {
		return oip.FromBytes(d, shape, body, hold)
	}
	if n, err := tensor.Count(shape); err != nil || n != 1 {
		return nil, fmt.Errorf("%w: it has the shape %v, and a body without JSON is one element",
			oip.ErrRequest, shape)
	}
	return &tensor.Tensor{DType: d, Shape: shape, Strings: []string{string(body)}}, nil
}

// rawShape finds the one dimension of an input that its model leaves open from the number of bytes.
func rawShape(v weir.ValueInfo, bytes int) ([]int, error) {
	shape, open := []int{}, -1
	for i, d := range v.Type.Shape {
		if d.Size < 0 {
			if open >= 0 {
				return nil, fmt.Errorf("%w: input %s is %v: a body without JSON is for inputs of "+
					"which one dimension is open at most", oip.ErrRequest, v.Name, v.Type)
			}
			open = i
			shape = append(shape, 1)
			continue
		}
		shape = append(shape, d.Size)
	}
	if v.Type.Shape == nil {
		return nil, fmt.Errorf("%w: input %s is %v: its shape does not follow from the body's size",
			oip.ErrRequest, v.Name, v.Type)
	}
	if open >= 0 && v.Type.DType != tensor.String {
		one, err := tensor.ByteCount(v.Type.DType, shape)
		if err != nil || one == 0 || bytes%one != 0 {
			return nil, fmt.Errorf("%w: input %s is %v: %d bytes are no whole number of %d",
				oip.ErrRequest,
				v.Name, v.Type, bytes, one)
		}
		shape[open] = bytes / one
	}
	return shape, nil
}
