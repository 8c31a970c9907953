package onnx

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// The kinds of value that a SequenceProto or OptionalProto says it holds (SequenceProto.DataType,
// OptionalProto.DataType), which are also the numbers, less two, of the fields for them.
const (
	holdsNothing  = 0
	holdsTensor   = 1
	holdsSparse   = 2
	holdsSequence = 3
	holdsMap      = 4
	holdsOptional = 5
)

var holds = map[tensor.DType]int64{tensor.Sequence: holdsSequence, tensor.Map: holdsMap,
	tensor.Optional: holdsOptional}

// DecodeValue reads the content of a .pb file of ONNX's test data: a SequenceProto, OptionalProto
// or MapProto when the type of the value is one of these, a TensorProto otherwise. The result may
// be a view of b, which must not change while it is in use. It fails with op.ErrUnsupported, or
// with [ErrFormat], which also covers a value, at any depth, whose type is not the one that t or
// the message around it gives.
func DecodeValue(b []byte, t op.Type) (*tensor.Tensor, error) {
	if !t.DType.IsContainer() {
		return DecodeTensor(b)
	}
	v, err := (&decoder{}).container(b, t.DType)
	if err != nil {
		return nil, err
	}
	if err := v.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err := t.Admits(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return v, nil
}

// container reads a SequenceProto, OptionalProto or MapProto.
func (d *decoder) container(b []byte, kind tensor.DType) (*tensor.Tensor, error) {
	if d.typeDepth++; d.typeDepth > tensor.MaxNesting {
		return nil, formatErr("values nest deeper than %d", tensor.MaxNesting)
	}
	defer func() { d.typeDepth-- }()
	if kind == tensor.Map {
		return d.mapValue(b)
	}
	name := map[tensor.DType]string{tensor.Sequence: "SequenceProto",
		tensor.Optional: "OptionalProto"}[kind]
	var says int64
	// elem_type may stand behind the items in the bytes, and is needed to judge them.
	if err := fields(name, b, rule{2, intTo(&says)}); err != nil {
		return nil, err
	}
	v := &tensor.Tensor{DType: kind}
	if err := fields(name, b, d.items(v, name, says)...); err != nil {
		return nil, err
	}
	if says < holdsNothing || says > holdsOptional || says == holdsNothing &&
		kind == tensor.Sequence {
		return nil, formatErr("%s: elem_type %d does not exist", name, says)
	}
	v.Shape = []int{len(v.Items)}
	return v, nil
}

// items are the rules by which a container v reads its items, all of the kind that it says.
func (d *decoder) items(v *tensor.Tensor, name string, says int64) []rule {
	add := func(is int64, read func([]byte) (*tensor.Tensor, error)) rule {
		return rule{protowire.Number(is + 2), func(x field) error {
			item, err := read(x.bytes)
			if err != nil {
				return fmt.Errorf("%s: item %d: %w", name, len(v.Items), err)
			}
			if says != is {
				return formatErr("%s: item %d is of kind %d, elem_type says %d", name, len(v.Items),
					is, says)
			}
			v.Items = append(v.Items, item)
			return errors.Join(x.want(protowire.BytesType), d.count())
		}}
	}
	sparse := func([]byte) (*tensor.Tensor, error) {
		return nil, fmt.Errorf("%w: sparse tensors in a %v", op.ErrUnsupported, v.DType)
	}
	rules := []rule{add(holdsTensor, d.tensorValue), add(holdsSparse, sparse)}
	for _, kind := range []tensor.DType{tensor.Sequence, tensor.Map, tensor.Optional} {
		rules = append(rules, add(holds[kind], func(b []byte) (*tensor.Tensor, error) {
			return d.container(b, kind)
		}))
	}
	return rules
}

// tensorValue reads a tensor of its own, unlike those of models, whose contents may lie in other
// files.
func (d *decoder) tensorValue(b []byte) (*tensor.Tensor, error) {
	m, err := d.tensor(b)
	if err != nil {
		return nil, err
	}
	return m.decode(nil)
}

// mapValue reads a MapProto, whose values are a SequenceProto of scalars.
func (d *decoder) mapValue(b []byte) (*tensor.Tensor, error) {
	var key int64
	ints, names := []int64{}, []string{}
	var values *tensor.Tensor
	err := fields("MapProto", b, rule{2, intTo(&key)}, rule{3, intsTo(&ints, maxMessages)},
		rule{4, d.textsTo(&names)},
		rule{5, func(x field) (err error) {
			values, err = d.container(x.bytes, tensor.Sequence)
			return errors.Join(err, x.want(protowire.BytesType))
		}})
	if err != nil {
		return nil, err
	}
	keys, err := mapKeys(key, ints, names)
	if err != nil {
		return nil, err
	}
	vector, err := flattened(values)
	if err != nil {
		return nil, err
	}
	m, err := tensor.NewMap(keys, vector)
	if err != nil {
		return nil, fmt.Errorf("MapProto: %w: %w", ErrFormat, err)
	}
	return m, nil
}

// mapKeys are the keys of a map, of that type of element: integers or strings.
func mapKeys(key int64, ints []int64, names []string) (*tensor.Tensor, error) {
	d, err := elemType(key)
	switch {
	case err != nil:
		return nil, fmt.Errorf("MapProto: keys: %w", err)
	case d == tensor.String && len(ints) == 0:
		return tensor.FromStrings(names, len(names)), nil
	case d == tensor.Int64 && len(names) == 0:
		return tensor.From(ints, len(ints)), nil
	case d.IsInteger():
		return nil, fmt.Errorf("MapProto: %w: keys of %v; weir has string and int64",
			op.ErrUnsupported, d)
	}
	return nil, formatErr("MapProto: keys of %v, with %d integers and %d strings", d, len(ints),
		len(names))
}

// flattened makes a vector of a sequence of tensors of one element.
func flattened(s *tensor.Tensor) (*tensor.Tensor, error) {
	if s == nil || len(s.Items) == 0 {
		return tensor.From([]float32{}, 0), nil
	}
	first := s.Items[0].DType
	if first.IsContainer() {
		return nil, formatErr("MapProto: values are of type %v", first)
	}
	out, err := tensor.New(first, len(s.Items))
	if err != nil {
		return nil, err
	}
	for i, v := range s.Items {
		if v.DType != first || v.Len() != 1 {
			return nil, formatErr(
				"MapProto: value %d is %v, want one element of the type of the others", i, v)
		}
		strided.CopyElems(out, i, v, 0, 1)
	}
	return out, nil
}

// EncodeValue returns a value as the content of a .pb file of ONNX's test data: the inverse of
// [DecodeValue]. The name may be empty.
func EncodeValue(name string, v *tensor.Tensor) ([]byte, error) {
	if err := v.Check(); err != nil {
		return nil, err
	}
	m, err := valueMessageOf(name, v)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, p := range append(m.pieces, m.tail) {
		out = append(out, p...)
	}
	return out, nil
}

func valueMessageOf(name string, v *tensor.Tensor) (*message, error) {
	if !v.DType.IsContainer() {
		m := tensorHeader(name, v)
		tensorBody(m, v)
		return m, nil
	}
	m := &message{}
	m.text(1, name)
	if v.DType == tensor.Map {
		return m, encodeMap(m, v)
	}
	of := holdsWhat(v)
	m.int(2, of)
	for _, item := range v.Items {
		c, err := valueMessageOf("", item)
		if err != nil {
			return nil, err
		}
		m.nest(protowire.Number(of+2), c)
	}
	return m, nil
}

// holdsWhat is the elem_type of a sequence or optional.
func holdsWhat(v *tensor.Tensor) int64 {
	switch {
	case v.DType == tensor.Optional && len(v.Items) == 0:
		return holdsNothing
	case len(v.Items) > 0 && v.Items[0].DType.IsContainer():
		return holds[v.Items[0].DType]
	}
	return holdsTensor
}

func encodeMap(m *message, v *tensor.Tensor) error {
	keys, values := v.Keys(), v.Values()
	if keys.DType != tensor.String && keys.DType != tensor.Int64 {
		return fmt.Errorf("%w: a map with keys of %v", op.ErrUnsupported, keys.DType)
	}
	m.int(2, int64(keys.DType))
	for i := range keys.Len() {
		if keys.DType == tensor.String {
			m.str(4, keys.Strings[i])
		} else {
			m.int(3, tensor.As[int64](keys)[i])
		}
	}
	scalars := tensor.NewSequence()
	for i := range values.Len() {
		scalars.Items = append(scalars.Items, element(values, i))
	}
	c, err := valueMessageOf("", scalars)
	if err != nil {
		return err
	}
	m.nest(5, c)
	return nil
}

// element is element i of a vector as a scalar that shares its bytes where it has some of its own.
func element(t *tensor.Tensor, i int) *tensor.Tensor {
	s := &tensor.Tensor{DType: t.DType, Shape: []int{}}
	if t.DType == tensor.String {
		s.Strings = t.Strings[i : i+1]
		return s
	}
	if t.DType.Packed() {
		return tensor.FromCodes(t.DType, []uint8{t.Code(i)})
	}
	n := t.DType.Size()
	s.Data = t.Data[i*n : (i+1)*n]
	return s
}
