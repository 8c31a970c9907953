package oip

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/weirgpu/weir/tensor"
)

// Decode reads the body of an inference request over HTTP: header bytes of JSON, then the binary
// data of those inputs that have some, in their order. Without binary data header is len(body).
// Tensors share the memory of body where they can; hold is asked for other memory. The error is of
// kind [ErrRequest], or that of hold.
func Decode(body []byte, header int, hold Holder) (*Request, error) {
	if header < 0 || header > len(body) {
		return nil, fmt.Errorf("%w: Inference-Header-Content-Length is %d, and the body has %d "+
			"bytes",
			ErrRequest, header, len(body))
	}
	d := decoder{cursor: cursor{b: body[:header]}, rest: body[header:], hold: hold}
	d.drafts, d.r.Inputs = d.first.draft[:0], d.first.input[:0]
	if err := d.request(); err != nil {
		return nil, err
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	for i := range d.drafts {
		in, err := d.input(&d.drafts[i])
		if err != nil {
			return nil, fmt.Errorf("input %.200q: %w", d.drafts[i].name, err)
		}
		d.r.Inputs = append(d.r.Inputs, in)
	}
	if len(d.rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes of binary data are left over: each input with some "+
			"says so by its parameter binary_data_size", ErrRequest, len(d.rest))
	}
	return &d.r, d.r.finish()
}

// decoder is a request that is being read.
type decoder struct {
	cursor
	rest   []byte // binary data that no input has taken
	hold   Holder
	named  int // parameters
	r      Request
	drafts []draft
	first  struct { // room for the one input that most have
		draft [1]draft
		input [1]Input
	}
}

// draft is an input as its fields come, in whatever order.
type draft struct {
	name, datatype string
	shape          []int
	hasShape       bool
	parameters     Parameters
	size           any    // binary_data_size, which is none of parameters; nil: not given
	data           []byte // JSON; nil where there is none
	at             int    // where data begins
	tensor         *tensor.Tensor
}

func (d *decoder) request() error {
	return d.object(func(key string) (err error) {
		switch key {
		case "id":
			d.r.ID, err = d.text()
		case "parameters":
			d.r.Parameters, err = d.params(binaryOutput, &d.r.behind)
		case "inputs":
			err = d.array(d.draft)
		case "outputs":
			d.r.Outputs = []Output{}
			err = d.array(d.output)
		default:
			err = d.skip()
		}
		return err
	})
}

// params reads parameters. The value of the one named own goes elsewhere, if to is not nil: most
// requests have no other.
func (d *decoder) params(own string, to *any) (Parameters, error) {
	var p Parameters
	err := d.object(func(key string) error {
		v, err := d.param(key)
		switch {
		case err != nil:
			return err
		case to != nil && key == own:
			*to = v
			return nil
		case d.named == mostParameters:
			return tooMany("parameters", mostParameters)
		case len(p) == MaxValues:
			return tooMany("parameters", MaxValues)
		case p == nil:
			p = Parameters{}
		}
		p[key] = v
		d.named++
		return nil
	})
	return p, err
}

func (d *decoder) param(key string) (any, error) {
	switch d.peek() {
	case '"':
		return d.text()
	case 't', 'f':
		return d.boolean()
	case '{', '[', 'n':
		return nil, d.wrong("parameter %.40q: give a string, a number, true or false", key)
	}
	n, err := d.number()
	if err != nil {
		return nil, err
	}
	v, ok := n.value()
	if !ok {
		return nil, d.wrong("parameter %.40q is too large a number", key)
	}
	return v, nil
}

func (d *decoder) output() error {
	if len(d.r.Outputs) == MaxValues {
		return tooMany("outputs", MaxValues)
	}
	var o Output
	err := d.object(func(key string) (err error) {
		switch key {
		case "name":
			o.Name, err = d.text()
		case "parameters":
			o.Parameters, err = d.params("", nil)
		default:
			err = d.skip()
		}
		return err
	})
	d.r.Outputs = append(d.r.Outputs, o)
	return err
}

// draft reads an input. Its data are read at once where type and shape stand before them, which
// they do with every known client.
func (d *decoder) draft() error {
	if len(d.drafts) == MaxValues {
		return tooMany("inputs", MaxValues)
	}
	var in draft
	err := d.object(func(key string) (err error) {
		switch key {
		case "name":
			in.name, err = d.text()
		case "datatype":
			in.datatype, err = d.text()
		case "shape":
			in.shape, err = d.shape()
			in.hasShape = true
		case "parameters":
			in.parameters, err = d.params(binarySize, &in.size)
		case "data":
			err = d.data(&in)
		default:
			err = d.skip()
		}
		return err
	})
	d.drafts = append(d.drafts, in)
	return err
}

func (d *decoder) shape() ([]int, error) {
	shape := make([]int, 0, 4)
	err := d.array(func() error {
		n, err := d.number()
		switch {
		case err != nil:
			return err
		case len(shape) == MaxRank:
			return tooMany("dimensions", MaxRank)
		}
		v, ok := n.signed(strconv.IntSize)
		if !ok || v < 0 {
			return d.wrong("dimension %.20s: give a whole number that is not negative", n.text)
		}
		shape = append(shape, int(v))
		return nil
	})
	return shape, err
}

func (d *decoder) data(in *draft) error {
	if in.data != nil {
		return fmt.Errorf("%w: input %.200q: give data once", ErrRequest, in.name)
	}
	if in.datatype == "" || !in.hasShape {
		d.peek()
		begin := d.at
		err := d.pass()
		in.data, in.at = d.b[begin:d.at], begin
		return err
	}
	t, err := d.elements(in.datatype, in.shape)
	if err != nil {
		return fmt.Errorf("input %.200q: %w", in.name, err)
	}
	in.tensor = t
	return nil
}

// pass skips data that are read later: where they are an array of numbers, without looking at them.
func (d *decoder) pass() error {
	if d.peek() != '[' {
		return d.skip()
	}
	all := d.b[d.at+1:]
	end := bytes.IndexByte(all, ']')
	if end < 0 {
		return d.skip()
	}
	for _, other := range []byte(`["`) { // an object is none of the elements, wherever it ends
		if bytes.IndexByte(all[:end], other) >= 0 {
			return d.skip()
		}
	}
	d.at += end + 2
	return nil
}

// input is the input that a draft has become.
func (d *decoder) input(in *draft) (Input, error) {
	out := Input{Name: in.name, Parameters: in.parameters}
	binary := in.size != nil
	region, err := regionOf(in.parameters)
	out.Region = region
	switch {
	case err != nil:
	case in.name == "" || in.datatype == "" || !in.hasShape:
		err = fmt.Errorf("%w: name, datatype and shape must be given", ErrRequest)
	case binary && (in.data != nil || in.tensor != nil):
		err = fmt.Errorf("%w: data and binary_data_size are both given", ErrRequest)
	case region != nil && (binary || in.data != nil || in.tensor != nil):
		err = fmt.Errorf("%w: elements are given beside shared_memory_region", ErrRequest)
	case region != nil:
		var dt tensor.DType
		if dt, err = ParseDatatype(in.datatype); err == nil {
			out.Tensor, err = away(dt, in.shape)
		}
	case binary:
		out.Tensor, err = d.binary(in)
	case in.tensor != nil && in.data == nil:
		out.Tensor = in.tensor
	case in.tensor == nil && in.data != nil:
		late := decoder{cursor: cursor{b: d.b[:in.at+len(in.data)], at: in.at}, hold: d.hold}
		out.Tensor, err = late.elements(in.datatype, in.shape)
	default:
		err = fmt.Errorf("%w: give data, or binary_data_size, once", ErrRequest)
	}
	return out, err
}

// binary takes an input's bytes from behind the JSON.
func (d *decoder) binary(in *draft) (*tensor.Tensor, error) {
	n, ok := in.size.(int64)
	if !ok || n < 0 || n > int64(len(d.rest)) {
		return nil, fmt.Errorf("%w: binary_data_size is %v, and %d bytes of binary data are left",
			ErrRequest, in.size, len(d.rest))
	}
	raw := d.rest[:n:n]
	d.rest = d.rest[n:]
	dt, err := ParseDatatype(in.datatype)
	if err != nil {
		return nil, err
	}
	return FromBytes(dt, in.shape, raw, d.hold)
}

// FromBytes is the tensor whose elements stand in raw, little-endian and row-major, as the
// protocol has binary data: numbers as they are, BOOL as a byte of 0 or 1, and before each element
// of BYTES its length as 4 bytes. Numbers share the memory of raw; hold is asked for that of text.
// The error is of kind [ErrRequest], or that of hold.
func FromBytes(dt tensor.DType, shape []int, raw []byte, hold Holder) (*tensor.Tensor, error) {
	if dt == tensor.String {
		return stringsOf(shape, raw, hold)
	}
	want, err := tensor.ByteCount(dt, shape)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if want != len(raw) {
		return nil, fmt.Errorf("%w: %s%v takes %d bytes, and %d are given", ErrRequest,
			datatypes[dt], shape, want, len(raw))
	}
	if dt == tensor.Bool {
		for i, b := range raw {
			if b > 1 {
				return nil, fmt.Errorf("%w: byte %d is %d: BOOL is 0 or 1", ErrRequest, i, b)
			}
		}
	}
	return &tensor.Tensor{DType: dt, Shape: shape, Data: raw}, nil
}

// stringsOf reads elements of BYTES.
func stringsOf(shape []int, raw []byte, hold Holder) (*tensor.Tensor, error) {
	n, err := tensor.Count(shape)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	const prefix = 4
	if n > len(raw)/prefix {
		return nil, fmt.Errorf("%w: BYTES%v has %d elements, for which %d bytes are too few",
			ErrRequest, shape, n, len(raw))
	}
	if err := held(hold, n*textBytes+len(raw)); err != nil {
		return nil, err
	}
	all := make([]string, 0, n)
	for len(all) < n {
		if len(raw) < prefix {
			return nil, fmt.Errorf("%w: the data end before element %d", ErrRequest, len(all))
		}
		size := int64(binary.LittleEndian.Uint32(raw))
		if raw = raw[prefix:]; size > int64(len(raw)) {
			return nil, fmt.Errorf("%w: element %d has %d bytes, and %d are left", ErrRequest,
				len(all), size, len(raw))
		}
		all = append(all, string(raw[:size]))
		raw = raw[size:]
	}
	if len(raw) > 0 {
		return nil, fmt.Errorf("%w: %d bytes after the last of %d elements", ErrRequest, len(raw),
			n)
	}
	return &tensor.Tensor{DType: tensor.String, Shape: shape, Strings: all}, nil
}

// elements reads data in JSON, flat or nested in any way, as tritonserver does: only the number of
// elements must be that of the shape.
func (d *decoder) elements(datatype string, shape []int) (*tensor.Tensor, error) {
	dt, err := ParseDatatype(datatype)
	if err != nil {
		return nil, err
	}
	n, err := tensor.Count(shape)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	least, size := 2, dt.Size() // of JSON, with the comma
	if dt == tensor.String {
		least, size = 3, textBytes
	}
	if left := len(d.b) - d.at; n > (left+1)/least {
		return nil, fmt.Errorf("%w: %s%v has %d elements, and %d bytes of JSON are left",
			ErrRequest,
			datatype, shape, n, left)
	}
	if err := held(d.hold, n*size); err != nil {
		return nil, err
	}
	t, one, err := d.filler(dt, n)
	if err != nil {
		return nil, err
	}
	t.Shape = shape
	i := 0
	var each func() error
	each = func() error {
		if dt == tensor.Float32 {
			i += d.floats(tensor.As[float32](t)[i:])
		}
		if d.peek() == '[' {
			return d.array(each)
		}
		if i == n {
			return d.wrong("more than the %d elements of %s%v", n, datatype, shape)
		}
		i++
		return one(i - 1)
	}
	if err := each(); err != nil {
		return nil, err
	}
	if i < n {
		return nil, d.wrong("%d elements, and %s%v has %d", i, datatype, shape, n)
	}
	return t, nil
}

// floats reads elements that are written as most are, with the comma behind each: never the last of
// an array, which may be followed by what is none.
func (d *decoder) floats(to []float32) int {
	for i := range to {
		begin := d.at
		f, n := d.float()
		if n == 0 {
			d.peek()
			f, n = d.float()
		}
		d.at += n
		if n == 0 || d.b[d.at] != ',' && d.peek() != ',' {
			d.at = begin
			return i
		}
		d.at++
		to[i] = f
	}
	return len(to)
}

// float is what [float] reads here, if the JSON goes on for as long as it looks.
func (d *decoder) float() (f float32, length int) {
	b := d.b[d.at:]
	if len(b) < within {
		return 0, 0
	}
	f, n := float((*[within]byte)(b))
	return f, int(n)
}

// filler makes room for n elements, and says how to read one of them.
func (d *decoder) filler(dt tensor.DType, n int) (*tensor.Tensor, func(int) error, error) {
	t := &tensor.Tensor{DType: dt}
	switch dt {
	case tensor.String:
		t.Strings = make([]string, n)
		return t, func(i int) (err error) {
			t.Strings[i], err = d.text()
			return err
		}, nil
	case tensor.Float16, tensor.BFloat16:
		return nil, nil, fmt.Errorf("%w: %s is sent as binary data only", ErrRequest, datatypes[dt])
	}
	size := dt.Size()
	t.Data = make([]byte, n*size)
	if dt == tensor.Bool {
		return t, func(i int) error {
			b, err := d.boolean()
			if b {
				t.Data[i] = 1
			}
			return err
		}, nil
	}
	return t, d.numbers(dt, size, t.Data), nil
}

// numbers says how to read one number of the type into its place in data.
func (d *decoder) numbers(dt tensor.DType, size int, data []byte) func(int) error {
	bits := bitsOf(dt, size)
	return func(i int) error {
		n, err := d.number()
		if err != nil {
			return err
		}
		v, ok := bits(n)
		if !ok {
			return d.wrong("element %d: %.40s is no %s", i, n.text, datatypes[dt])
		}
		switch to := data[i*size:]; size {
		case 1:
			to[0] = byte(v)
		case 2:
			binary.LittleEndian.PutUint16(to, uint16(v))
		case 4:
			binary.LittleEndian.PutUint32(to, uint32(v))
		default:
			binary.LittleEndian.PutUint64(to, v)
		}
		return nil
	}
}

// bitsOf says which bits a number of the type has.
func bitsOf(dt tensor.DType, size int) func(*number) (uint64, bool) {
	switch {
	case dt == tensor.Float32:
		return func(n *number) (uint64, bool) {
			f, ok := n.float32()
			return uint64(math.Float32bits(f)), ok
		}
	case dt == tensor.Float64:
		return func(n *number) (uint64, bool) {
			f, ok := n.float64()
			return math.Float64bits(f), ok
		}
	case dt.IsSigned():
		return func(n *number) (uint64, bool) {
			v, ok := n.signed(8 * size)
			return uint64(v), ok
		}
	}
	return func(n *number) (uint64, bool) { return n.unsigned(8 * size) }
}
