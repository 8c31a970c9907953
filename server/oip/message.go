package oip

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/tensor"
)

// Message is a request for an inference as gRPC has it, which names its model itself.
type Message struct {
	Model, Version string // Version is "" where the server chooses
	Request
}

// DecodeMessage reads a ModelInferRequest (inference.proto of package inferencepb), which may lie
// in several pieces of memory. Raw contents share the memory of the piece that they lie in, and are
// put together where that is several; hold is asked for other memory. The error is of kind
// [ErrRequest], or that of hold.
func DecodeMessage(hold Holder, all ...[]byte) (*Message, error) {
	p, d := piecesOf(all...), message{hold: hold}
	for p.left > 0 {
		f, err := p.next()
		if err == nil {
			err = d.field(&f)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range d.drafts {
		in, err := d.input(&d.drafts[i])
		if err != nil {
			return nil, fmt.Errorf("input %.200q: %w", d.drafts[i].name, err)
		}
		d.m.Inputs = append(d.m.Inputs, in)
	}
	if d.used < len(d.raw) {
		return nil, fmt.Errorf("%w: raw_input_contents has %d entries, and %d inputs take one",
			ErrRequest, len(d.raw), d.used)
	}
	return &d.m, d.m.finish()
}

// message is a request that is being read.
type message struct {
	m      Message
	hold   Holder
	drafts []rough
	raw    [][]byte
	used   int // of raw

	named    int // parameters
	contents int // of all inputs
}

// rough is an input as its fields come.
type rough struct {
	of             *message
	name, datatype string
	shape          []int
	parameters     Parameters
	contents       []field
}

// field reads a field of ModelInferRequest.
func (d *message) field(f *field) error {
	switch f.number {
	case 1:
		return f.text(&d.m.Model)
	case 2:
		return f.text(&d.m.Version)
	case 3:
		return f.text(&d.m.ID)
	case 4:
		return d.parameter(&d.m.Parameters, f)
	case 5:
		if len(d.drafts) == MaxValues {
			return tooMany("inputs", MaxValues)
		}
		d.drafts = append(d.drafts, rough{of: d, shape: []int{}})
		return f.each(d.drafts[len(d.drafts)-1].field)
	case 6:
		if len(d.m.Outputs) == MaxValues {
			return tooMany("outputs", MaxValues)
		}
		var o Output
		err := f.each(func(f *field) error {
			switch f.number {
			case 1:
				return f.text(&o.Name)
			case 2:
				return d.parameter(&o.Parameters, f)
			}
			return nil
		})
		d.m.Outputs = append(d.m.Outputs, o)
		return err
	case 7:
		if len(d.raw) == MaxValues {
			return tooMany("raw_input_contents", MaxValues)
		}
		d.raw = append(d.raw, f.bytes)
		return f.is(protowire.BytesType)
	}
	return nil
}

// field reads a field of InferInputTensor.
func (in *rough) field(f *field) error {
	switch f.number {
	case 1:
		return f.text(&in.name)
	case 2:
		return f.text(&in.datatype)
	case 3:
		return f.numbers(protowire.VarintType, func(v uint64) error {
			if len(in.shape) == MaxRank {
				return tooMany("dimensions", MaxRank)
			}
			if int64(v) < 0 || v > math.MaxInt {
				return fmt.Errorf("%w: input %.200q: dimension %d: give a number that is not "+
					"negative", ErrRequest, in.name, int64(v))
			}
			in.shape = append(in.shape, int(v))
			return nil
		})
	case 4:
		return in.of.parameter(&in.parameters, f)
	case 5:
		if in.of.contents == MaxValues {
			return tooMany("contents", MaxValues)
		}
		in.of.contents++
		in.contents = append(in.contents, *f)
		return f.is(protowire.BytesType)
	}
	return nil
}

// input is the input that a draft has become.
func (d *message) input(in *rough) (Input, error) {
	out := Input{Name: in.name, Parameters: in.parameters}
	if in.name == "" || in.datatype == "" {
		return out, fmt.Errorf("%w: name and datatype must be given", ErrRequest)
	}
	dt, err := ParseDatatype(in.datatype)
	if err != nil {
		return out, err
	}
	given := false // an empty message says as much as none
	for _, f := range in.contents {
		given = given || len(f.bytes) > 0
	}
	out.Region, err = regionOf(in.parameters)
	switch {
	case err != nil:
	case out.Region != nil && given:
		err = fmt.Errorf("%w: contents and shared_memory_region are both given", ErrRequest)
	case out.Region != nil:
		out.Tensor, err = away(dt, in.shape)
	case len(d.raw) > 0 && given:
		err = fmt.Errorf("%w: contents are given, and raw_input_contents, which excludes them",
			ErrRequest)
	case len(d.raw) == 0:
		out.Tensor, err = contents(dt, in.shape, in.contents, d.hold)
	case d.used == len(d.raw):
		err = fmt.Errorf("%w: raw_input_contents has %d entries, and none for this input",
			ErrRequest, len(d.raw))
	default:
		out.Tensor, err = FromBytes(dt, in.shape, d.raw[d.used], d.hold)
		d.used++
	}
	return out, err
}

// away is a tensor whose elements lie in a region.
func away(dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	if _, err := tensor.ByteCount(dt, shape); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return &tensor.Tensor{DType: dt, Shape: shape}, nil
}

// parameter reads an entry of map<string, InferParameter>.
func (d *message) parameter(to *Parameters, f *field) error {
	var key string
	var value any
	err := f.each(func(f *field) error {
		switch f.number {
		case 1:
			return f.text(&key)
		case 2:
			return f.each(func(f *field) error { return choice(&value, f) })
		}
		return nil
	})
	if err != nil {
		return err
	}
	if value == nil {
		return fmt.Errorf("%w: parameter %.40q has no value: give a bool, an int64, a string, a "+
			"double or a uint64", ErrRequest, key)
	}
	if *to == nil {
		*to = Parameters{}
	}
	if d.named == mostParameters {
		return tooMany("parameters", mostParameters)
	}
	if len(*to) == MaxValues {
		return tooMany("parameters", MaxValues)
	}
	(*to)[key] = value
	d.named++
	return nil
}

// choice reads a field of InferParameter into value; one that is not known changes nothing.
func choice(value *any, f *field) error {
	var s string
	switch f.number {
	case 1:
		*value = f.value != 0
	case 2:
		*value = int64(f.value)
	case 3:
		err := f.text(&s)
		*value = s
		return err
	case 4:
		*value = math.Float64frombits(f.value)
		return f.is(protowire.Fixed64Type)
	case 5:
		*value = int64(f.value)
		if f.value > math.MaxInt64 { // as the same number in JSON
			*value = float64(f.value)
		}
	default:
		return nil
	}
	return f.is(protowire.VarintType)
}

func tooMany(what string, most int) error {
	return fmt.Errorf("%w: more than %d %s", ErrRequest, most, what)
}
