package oip

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/weirgpu/weir/tensor"
)

// Response is the answer to a [Request].
type Response struct {
	Model, Version, ID string
	Parameters         Parameters
	Outputs            []Value
}

// Value is an output of an answer.
type Value struct {
	Name   string
	Tensor *tensor.Tensor
	Binary bool // behind the JSON
	// Region is where the elements were put; nil: they go with the answer.
	Region *Region
}

// Append writes the answer behind dst: JSON of header bytes, then the binary data. Where no output
// is binary, header is 0 and all is JSON. The error is of kind [ErrRequest] where JSON cannot hold
// what the client asks to have in it: NaN, infinities, FP16, BF16, strings that are not UTF-8.
func (r *Response) Append(dst []byte) (out []byte, header int, err error) {
	begin := len(dst)
	dst = append(dst, `{"model_name":`...)
	dst = appendText(dst, r.Model)
	dst = append(dst, `,"model_version":`...)
	dst = appendText(dst, r.Version)
	if r.ID != "" {
		dst = append(dst, `,"id":`...)
		dst = appendText(dst, r.ID)
	}
	if len(r.Parameters) > 0 {
		dst = append(dst, ',')
		if dst, err = appendParams(dst, r.Parameters); err != nil {
			return nil, 0, err
		}
	}
	dst = append(dst, `,"outputs":[`...)
	binary := false
	for i := range r.Outputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = r.Outputs[i].append(dst); err != nil {
			return nil, 0, fmt.Errorf("output %.200q: %w", r.Outputs[i].Name, err)
		}
		binary = binary || r.Outputs[i].behind()
	}
	dst = append(dst, `]}`...)
	if !binary {
		return dst, 0, nil
	}
	header = len(dst) - begin
	for _, v := range r.Outputs {
		if v.behind() {
			dst = AppendBytes(dst, v.Tensor)
		}
	}
	return dst, header, nil
}

// behind reports whether elements stand behind the JSON.
func (v *Value) behind() bool { return v.Binary && v.Region == nil }

// datatype names the type of the elements.
func (v *Value) datatype() (string, error) {
	name, ok := Datatype(v.Tensor.DType)
	if !ok {
		return "", fmt.Errorf("%w: output %.200q: the protocol has no type for %v", ErrRequest,
			v.Name, v.Tensor.DType)
	}
	return name, nil
}

func (v *Value) append(dst []byte) ([]byte, error) {
	name, err := v.datatype()
	if err != nil {
		return nil, err
	}
	dst = append(dst, `{"name":`...)
	dst = appendText(dst, v.Name)
	dst = append(dst, `,"datatype":"`...)
	dst = append(dst, name...)
	dst = append(dst, `","shape":[`...)
	for i, d := range v.Tensor.Shape {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(d), 10)
	}
	dst = append(dst, ']')
	if v.Region != nil {
		dst, err = appendParams(append(dst, ','), v.Region.parameters())
		return append(dst, '}'), err
	}
	if v.Binary {
		dst = append(dst, `,"parameters":{"binary_data_size":`...)
		dst = strconv.AppendInt(dst, int64(sizeOf(v.Tensor)), 10)
		return append(dst, "}}"...), nil
	}
	dst = append(dst, `,"data":[`...)
	dst, err = appendElements(dst, v.Tensor)
	return append(dst, "]}"...), err
}

// sizeOf returns how many bytes [AppendBytes] writes.
func sizeOf(t *tensor.Tensor) int {
	n := len(t.Data)
	for _, s := range t.Strings {
		n += 4 + len(s)
	}
	return n
}

// AppendBytes writes the elements of t behind dst as [FromBytes] reads them.
func AppendBytes(dst []byte, t *tensor.Tensor) []byte {
	if t.DType != tensor.String {
		return append(dst, t.Data...)
	}
	for _, s := range t.Strings {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)))
		dst = append(dst, s...)
	}
	return dst
}

// appendParams writes parameters in JSON.
func appendParams(dst []byte, p Parameters) ([]byte, error) {
	dst = append(dst, `"parameters":{`...)
	for i, key := range p.keys() {
		dst = append(appendText(comma(dst, i), key), ':')
		b, err := json.Marshal(p[key])
		if err != nil {
			return nil, fmt.Errorf("%w: parameter %.40q: %w", ErrRequest, key, err)
		}
		dst = append(dst, b...)
	}
	return append(dst, '}'), nil
}

// appendText writes a string in JSON.
func appendText(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if b := s[i]; b < ' ' || b == '"' || b == '\\' || b >= utf8.RuneSelf {
			q, _ := json.Marshal(s) // a string always has its JSON
			return append(dst, q...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// appendElements writes the elements of t, flat.
func appendElements(dst []byte, t *tensor.Tensor) ([]byte, error) {
	switch t.DType {
	case tensor.Float32:
		return appendFloats(dst, tensor.As[float32](t), 32)
	case tensor.Float64:
		return appendFloats(dst, tensor.As[float64](t), 64)
	case tensor.Int8:
		return appendInts(dst, tensor.As[int8](t)), nil
	case tensor.Int16:
		return appendInts(dst, tensor.As[int16](t)), nil
	case tensor.Int32:
		return appendInts(dst, tensor.As[int32](t)), nil
	case tensor.Int64:
		return appendInts(dst, tensor.As[int64](t)), nil
	case tensor.Uint8:
		return appendUints(dst, tensor.As[uint8](t)), nil
	case tensor.Uint16:
		return appendUints(dst, tensor.As[uint16](t)), nil
	case tensor.Uint32:
		return appendUints(dst, tensor.As[uint32](t)), nil
	case tensor.Uint64:
		return appendUints(dst, tensor.As[uint64](t)), nil
	case tensor.Bool:
		return appendBools(dst, t.Data), nil
	case tensor.String:
		return appendTexts(dst, t.Strings)
	}
	return nil, fmt.Errorf("%w: %s is sent as binary data only: ask for it by the parameter "+
		"binary_data", ErrRequest, datatypes[t.DType])
}

func appendFloats[T float32 | float64](dst []byte, all []T, bits int) ([]byte, error) {
	for i, v := range all {
		f := float64(v)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%w: element %d is %v, which JSON cannot hold: ask for binary "+
				"data by the parameter binary_data", ErrRequest, i, f)
		}
		dst = strconv.AppendFloat(comma(dst, i), f, 'g', -1, bits)
	}
	return dst, nil
}

func appendInts[T int8 | int16 | int32 | int64](dst []byte, all []T) []byte {
	for i, v := range all {
		dst = strconv.AppendInt(comma(dst, i), int64(v), 10)
	}
	return dst
}

func appendUints[T uint8 | uint16 | uint32 | uint64](dst []byte, all []T) []byte {
	for i, v := range all {
		dst = strconv.AppendUint(comma(dst, i), uint64(v), 10)
	}
	return dst
}

func appendBools(dst, all []byte) []byte {
	for i, v := range all {
		dst = strconv.AppendBool(comma(dst, i), v != 0)
	}
	return dst
}

func appendTexts(dst []byte, all []string) ([]byte, error) {
	for i, s := range all {
		if !utf8.ValidString(s) {
			return nil, fmt.Errorf("%w: element %d is not UTF-8, which JSON cannot hold: ask for "+
				"binary data by the parameter binary_data", ErrRequest, i)
		}
		dst = appendText(comma(dst, i), s)
	}
	return dst, nil
}

// comma writes what stands before element i.
func comma(dst []byte, i int) []byte {
	if i == 0 {
		return dst
	}
	return append(dst, ',')
}
