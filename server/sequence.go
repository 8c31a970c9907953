package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// This file is what a model says of sequences: requests that belong together and come one after
// another (Triton, docs/user_guide/batcher.md, "Sequence Batcher"). The server tells the model
// where a request stands in its sequence, by inputs that clients do not send, and keeps what the
// model returns as state for the next request.

// The properties of a model (ONNX, metadata_props) that make it one of sequences. Each but the last
// two names an input; state has pairs INPUT=OUTPUT, by commas; idle is a duration of package time.
const (
	propertyStart = "sequence.start"
	propertyReady = "sequence.ready"
	propertyEnd   = "sequence.end"
	propertyID    = "sequence.corrid"
	propertyState = "sequence.state"
	propertyIdle  = "sequence.idle"
)

// mostSequenceID is how many bytes the text may have that names a sequence, and is kept with it, as
// with Triton (triton-inference-server/core, src/constants.h).
const mostSequenceID = 128

// idleSequence is after how long a sequence without requests ends, as with Triton.
const idleSequence = time.Second

// sequencing is how a model takes part in sequences.
type sequencing struct {
	flags  map[string]string // of properties, by the input that they name
	id     string            // the input that is told which sequence it is; "" for none
	states []stateful
	idle   time.Duration
}

// stateful is an input that is given what an output was in the request before.
type stateful struct{ input, output string }

// sequencingOf reads what the properties of a model say of sequences, nil where they say nothing.
func sequencingOf(properties map[string]string, v *version) (*sequencing, error) {
	q := &sequencing{flags: map[string]string{}, idle: idleSequence}
	some := false
	for key, value := range properties {
		if !strings.HasPrefix(key, "sequence.") {
			continue
		}
		some = true
		if err := q.property(key, value, v); err != nil {
			return nil, fmt.Errorf("%w: property %s is %.100q: %w", weir.ErrModel, key, value, err)
		}
	}
	if !some {
		return nil, nil
	}
	return q, nil
}

// property reads one property.
func (q *sequencing) property(key, value string, v *version) (err error) {
	switch key {
	case propertyStart, propertyReady, propertyEnd:
		q.flags[value] = key
		return q.input(v, value, tensor.Int32, tensor.Float32, tensor.Bool)
	case propertyID:
		q.id = value
		return q.input(v, value, tensor.Int32, tensor.Int64, tensor.Uint32, tensor.Uint64,
			tensor.String)
	case propertyState:
		for pair := range strings.SplitSeq(value, ",") {
			in, out, both := strings.Cut(pair, "=")
			from, ok := v.inputs[in]
			at, found := v.outputs[out]
			if !both || !ok || !found || v.on.Outputs()[at].Type.DType != from.Type.DType {
				return fmt.Errorf("%.40q is no input and output of one type", pair)
			}
			q.states = append(q.states, stateful{in, out})
		}
	case propertyIdle:
		if q.idle, err = time.ParseDuration(value); err == nil && q.idle <= 0 {
			err = fmt.Errorf("give more than 0")
		}
	default:
		err = fmt.Errorf("there is no property of that name")
	}
	return err
}

// input holds that a model has an input of one element a row, of one of the types.
func (q *sequencing) input(v *version, name string, types ...tensor.DType) error {
	in, ok := v.inputs[name]
	if !ok {
		return fmt.Errorf("the model has no such input")
	}
	for i, d := range in.Type.Shape {
		if d.Size > 1 || d.Size < 0 && i > 0 {
			return fmt.Errorf("the input is %v, and has one element a row", in.Type)
		}
	}
	for _, d := range types {
		if in.Type.DType == d {
			return nil
		}
	}
	return fmt.Errorf("the input is %v: give one of %v", in.Type, types)
}

// own reports whether an input or output is the server's to give and to keep.
func (q *sequencing) own(name string) bool {
	if q == nil {
		return false
	}
	_, flag := q.flags[name]
	for _, st := range q.states {
		flag = flag || name == st.input || name == st.output
	}
	return flag || name == q.id
}

// place is where a request stands.
type place struct {
	id         string // as people write it; "" for none
	text       bool   // it was given as a string
	number     int64
	start, end bool
}

// placeOf reads the parameters of a request of a sequence (Triton, extension_sequence.md).
func placeOf(p oip.Parameters) (at place, err error) {
	switch id := p["sequence_id"].(type) {
	case nil:
	case int64:
		if at.number = id; id != 0 {
			at.id = strconv.FormatInt(id, 10)
		}
	case string:
		if at.id, at.text = id, true; len(id) > mostSequenceID {
			return at, fmt.Errorf("%w: sequence_id has %d bytes: give at most %d", oip.ErrRequest,
				len(id), mostSequenceID)
		}
	default:
		return at, fmt.Errorf("%w: sequence_id is %v: give a whole number or a string",
			oip.ErrRequest, id)
	}
	for name, to := range map[string]*bool{"sequence_start": &at.start, "sequence_end": &at.end} {
		if v, given := p[name]; given {
			b, ok := v.(bool)
			if !ok {
				return at, fmt.Errorf("%w: %s is true or false", oip.ErrRequest, name)
			}
			*to = b
		}
	}
	return at, nil
}

// control gives a model the inputs that say where a request of so many rows stands.
func (q *sequencing) control(v *version, at place, rows int, in weir.Inputs) error {
	for name, flag := range q.flags {
		on := flag == propertyReady || flag == propertyStart && at.start ||
			flag == propertyEnd && at.end
		in[name] = flagged(v.inputs[name], rows, on)
	}
	if q.id == "" {
		return nil
	}
	x := v.inputs[q.id]
	t := &tensor.Tensor{DType: x.Type.DType, Shape: rowed(x, rows)}
	n, _ := tensor.Count(t.Shape)
	if t.DType == tensor.String {
		for range n {
			t.Strings = append(t.Strings, at.id)
		}
		in[q.id] = t
		return nil
	}
	if at.text {
		return fmt.Errorf("%w: model %s is told of sequences by %v: sequence_id must be a number",
			oip.ErrRequest, v.name, t.DType)
	}
	for range n {
		for i := range t.DType.Size() { // little-endian
			t.Data = append(t.Data, byte(at.number>>(8*i)))
		}
	}
	in[q.id] = t
	return nil
}

// flagged is a tensor of which all elements are 0 or 1.
func flagged(x weir.ValueInfo, rows int, on bool) *tensor.Tensor {
	shape := rowed(x, rows)
	n, _ := tensor.Count(shape)
	one := 0
	if on {
		one = 1
	}
	switch x.Type.DType {
	case tensor.Float32:
		return tensor.From(repeated(float32(one), n), shape...)
	case tensor.Bool:
		return &tensor.Tensor{DType: tensor.Bool, Shape: shape, Data: repeated(byte(one), n)}
	}
	return tensor.From(repeated(int32(one), n), shape...)
}

func repeated[T any](v T, n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// rowed is the shape of an input for so many rows, with 1 for other dimensions that are open.
func rowed(x weir.ValueInfo, rows int) []int {
	shape := []int{}
	for i, d := range x.Type.Shape {
		switch {
		case d.Size >= 0:
			shape = append(shape, d.Size)
		case i == 0:
			shape = append(shape, rows)
		default:
			shape = append(shape, 1)
		}
	}
	return shape
}
