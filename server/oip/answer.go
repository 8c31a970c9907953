package oip

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendMessage writes the answer behind dst as a ModelInferResponse (inference.proto of package
// inferencepb), with all elements in raw_output_contents. The error is of kind [ErrRequest] where
// the protocol has no type for an output.
func (r *Response) AppendMessage(dst []byte) ([]byte, error) {
	head, err := r.head()
	if err != nil {
		return nil, err
	}
	return r.contents(append(dst, head...)), nil
}

// AppendStreamed writes the answer behind dst as a ModelStreamInferResponse; the error is that of
// AppendMessage.
func (r *Response) AppendStreamed(dst []byte) ([]byte, error) {
	head, err := r.head()
	if err != nil {
		return nil, err
	}
	size := len(head)
	for i := range r.Outputs {
		size += protowire.SizeTag(6) + protowire.SizeBytes(r.Outputs[i].rawSize())
	}
	dst = protowire.AppendTag(dst, 2, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	return r.contents(append(dst, head...)), nil
}

// MessageSize returns how many bytes AppendMessage or AppendStreamed may write, or a few more.
func (r *Response) MessageSize() int {
	const fields = 64 // of tags, lengths, the datatype and a region's numbers
	n := fields + len(r.Model) + len(r.Version) + len(r.ID) + len(r.Parameters)*fields
	for key, v := range r.Parameters {
		s, _ := v.(string)
		n += len(key) + len(s)
	}
	for i := range r.Outputs {
		v := &r.Outputs[i]
		n += 2*fields + len(v.Name) + protowire.SizeVarint(math.MaxInt64)*len(v.Tensor.Shape) +
			v.rawSize()
		if v.Region != nil {
			n += 2*fields + len(v.Region.Name)
		}
	}
	return n
}

// head is the answer without the elements.
func (r *Response) head() ([]byte, error) {
	b := appendString(nil, 1, r.Model)
	b = appendString(b, 2, r.Version)
	b = appendString(b, 3, r.ID)
	b = appendParameters(b, 4, r.Parameters)
	for i := range r.Outputs {
		one, err := r.Outputs[i].head()
		if err != nil {
			return nil, err
		}
		b = appendBytes(b, 5, one)
	}
	return b, nil
}

// contents writes the elements; clients find those of an output by its place, so each has an entry.
func (r *Response) contents(dst []byte) []byte {
	for i := range r.Outputs {
		v := &r.Outputs[i]
		dst = protowire.AppendTag(dst, 6, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(v.rawSize()))
		if v.Region == nil {
			dst = AppendBytes(dst, v.Tensor)
		}
	}
	return dst
}

func (v *Value) rawSize() int {
	if v.Region != nil {
		return 0
	}
	return sizeOf(v.Tensor)
}

// head is an InferOutputTensor without elements.
func (v *Value) head() ([]byte, error) {
	name, err := v.datatype()
	if err != nil {
		return nil, err
	}
	b := appendString(nil, 1, v.Name)
	b = appendString(b, 2, name)
	var shape []byte
	for _, d := range v.Tensor.Shape {
		shape = protowire.AppendVarint(shape, uint64(d))
	}
	if len(shape) > 0 {
		b = appendBytes(b, 3, shape)
	}
	if v.Region != nil {
		b = appendParameters(b, 4, v.Region.parameters())
	}
	return b, nil
}

func appendBytes(dst []byte, number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
}

// appendString writes a string; the empty one is what is read where there is none.
func appendString(dst []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, number, protowire.BytesType), s)
}

// appendParameters writes a map<string, InferParameter>.
func appendParameters(dst []byte, number protowire.Number, p Parameters) []byte {
	for _, key := range p.keys() {
		dst = appendBytes(dst, number, appendBytes(appendString(nil, 1, key), 2, choose(p[key])))
	}
	return dst
}

// choose is an InferParameter.
func choose(v any) (b []byte) {
	switch v := v.(type) {
	case bool:
		b = protowire.AppendTag(b, 1, protowire.VarintType)
		b = protowire.AppendVarint(b, protowire.EncodeBool(v))
	case int64:
		b = protowire.AppendTag(b, 2, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(v))
	case string:
		b = protowire.AppendTag(b, 3, protowire.BytesType) // of a choice, "" is written too
		b = protowire.AppendString(b, v)
	case float64:
		b = protowire.AppendTag(b, 4, protowire.Fixed64Type)
		b = protowire.AppendFixed64(b, math.Float64bits(v))
	}
	return b
}
