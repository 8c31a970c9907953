package oip

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/tensor"
)

// place is where InferTensorContents has elements of a type.
type place struct {
	number protowire.Number
	name   string
	kind   protowire.Type
}

var places = map[tensor.DType]place{
	tensor.Bool:    {1, "bool_contents", protowire.VarintType},
	tensor.Int8:    {2, "int_contents", protowire.VarintType},
	tensor.Int16:   {2, "int_contents", protowire.VarintType},
	tensor.Int32:   {2, "int_contents", protowire.VarintType},
	tensor.Int64:   {3, "int64_contents", protowire.VarintType},
	tensor.Uint8:   {4, "uint_contents", protowire.VarintType},
	tensor.Uint16:  {4, "uint_contents", protowire.VarintType},
	tensor.Uint32:  {4, "uint_contents", protowire.VarintType},
	tensor.Uint64:  {5, "uint64_contents", protowire.VarintType},
	tensor.Float32: {6, "fp32_contents", protowire.Fixed32Type},
	tensor.Float64: {7, "fp64_contents", protowire.Fixed64Type},
	tensor.String:  {8, "bytes_contents", protowire.BytesType},
}

// contents reads the elements of a tensor from messages InferTensorContents, which protobuf joins
// where there are several.
func contents(dt tensor.DType, shape []int, all []field, hold Holder) (*tensor.Tensor, error) {
	at, ok := places[dt]
	if !ok {
		return nil, fmt.Errorf("%w: %s is sent in raw_input_contents only", ErrRequest,
			datatypes[dt])
	}
	n, err := tensor.Count(shape)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	bytes := 0
	for _, f := range all {
		bytes += len(f.bytes)
	}
	if n > bytes/at.least() { // memory follows what came, not what was announced
		return nil, fmt.Errorf("%w: %s%v has %d elements, which stand in %s, and contents of %d "+
			"bytes are too few for them", ErrRequest, datatypes[dt], shape, n, at.name, bytes)
	}
	e := elements{dt: dt, t: &tensor.Tensor{DType: dt, Shape: shape}, n: n}
	if err := e.take(bytes, hold); err != nil {
		return nil, err
	}
	for i := range all {
		if err := all[i].each(func(f *field) error { return e.read(f, at) }); err != nil {
			return nil, err
		}
	}
	if e.i != n {
		return nil, fmt.Errorf("%w: %s has %d elements, and %s%v has %d", ErrRequest, at.name, e.i,
			datatypes[dt], shape, n)
	}
	return e.t, nil
}

// least is how many bytes an element has at least.
func (at *place) least() int {
	switch at.kind {
	case protowire.Fixed64Type:
		return 8
	case protowire.Fixed32Type:
		return 4
	case protowire.BytesType:
		return 2 // its tag and its length
	}
	return 1
}

// elements are those of a tensor that is being read.
type elements struct {
	dt      tensor.DType
	t       *tensor.Tensor
	n       int // of its shape
	size, i int
}

// take makes room for the elements that so many bytes have.
func (e *elements) take(bytes int, hold Holder) error {
	if e.dt == tensor.String {
		err := held(hold, e.n*textBytes+bytes)
		if err == nil {
			e.t.Strings = make([]string, 0, e.n)
		}
		return err
	}
	e.size = e.dt.Size()
	err := held(hold, e.n*e.size)
	if err == nil {
		e.t.Data = make([]byte, 0, e.n*e.size)
	}
	return err
}

func (e *elements) read(f *field, at place) error {
	if f.number != at.number {
		return fmt.Errorf("%w: elements of %s stand in %s, and field %d of contents is given",
			ErrRequest, datatypes[e.dt], at.name, f.number)
	}
	if e.dt != tensor.String {
		return f.numbers(at.kind, e.add)
	}
	if err := f.is(protowire.BytesType); err != nil {
		return err
	}
	if err := e.room(); err != nil {
		return err
	}
	e.t.Strings = append(e.t.Strings, string(f.bytes))
	return nil
}

// room counts one more element.
func (e *elements) room() error {
	if e.i == e.n {
		return fmt.Errorf("%w: contents have more than the %d elements of %s%v", ErrRequest, e.n,
			datatypes[e.dt], e.t.Shape)
	}
	e.i++
	return nil
}

// add takes a number as protobuf has it, and refuses one that the type does not hold.
func (e *elements) add(v uint64) error {
	if err := e.room(); err != nil {
		return err
	}
	low, high, isSmall := limits(e.dt)
	if small := int64(int32(v)); isSmall && (small < low || small > high) {
		return fmt.Errorf("%w: element %d: %d is no %s", ErrRequest, e.i-1, small, datatypes[e.dt])
	}
	switch d := e.t.Data; {
	case e.dt == tensor.Bool:
		e.t.Data = append(d, byte(protowire.EncodeBool(v != 0)))
	case e.size == 1:
		e.t.Data = append(d, byte(v))
	case e.size == 2:
		e.t.Data = binary.LittleEndian.AppendUint16(d, uint16(v))
	case e.size == 4:
		e.t.Data = binary.LittleEndian.AppendUint32(d, uint32(v))
	default:
		e.t.Data = binary.LittleEndian.AppendUint64(d, v)
	}
	return nil
}

// limits are those of types that are sent as numbers of 32 bits, and hold less.
func limits(dt tensor.DType) (low, high int64, ok bool) {
	switch dt {
	case tensor.Int8:
		return math.MinInt8, math.MaxInt8, true
	case tensor.Int16:
		return math.MinInt16, math.MaxInt16, true
	case tensor.Uint8:
		return 0, math.MaxUint8, true
	case tensor.Uint16:
		return 0, math.MaxUint16, true
	}
	return 0, 0, false
}
