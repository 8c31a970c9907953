package onnx

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrFormat is the kind of error about bytes that are not a well-formed ONNX message.
var ErrFormat = errors.New("not a valid ONNX file")

func formatErr(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// maxDepth bounds how deep graphs may nest in attributes; exporters reach about ten.
const maxDepth = 64

// maxMessages bounds how many nodes, attributes, names and other parts one file may hold. It keeps
// the memory that a file of minimal parts takes within a few times of what the largest real models
// need.
const maxMessages = 1 << 22

// maxRank bounds the dimensions of a tensor, as NumPy does.
const maxRank = 64

// decoder carries the limits of one file through its nested messages.
type decoder struct {
	messages  int
	depth     int
	typeDepth int // of types, or of values, within each other
}

// count spends the budget of parts.
func (d *decoder) count() error {
	if d.messages++; d.messages > maxMessages {
		return formatErr("more than %d parts; split the model or its functions", maxMessages)
	}
	return nil
}

// field is one field of a message: bytes holds what a length-delimited or fixed-width field holds,
// and the bytes of the varint itself otherwise.
type field struct {
	in     string // the type of the message, for errors
	num    protowire.Number
	typ    protowire.Type
	varint uint64
	bytes  []byte
}

// rule says what to do with the fields of one number.
type rule struct {
	num  protowire.Number
	read func(field) error
}

// fields reads a message by the rules of its type, in the order of the file. Fields without a rule
// are skipped, as a newer format may have them.
func fields(name string, b []byte, rules ...rule) error {
	for total := len(b); len(b) > 0; {
		x, n, err := nextField(b)
		if err != nil {
			return formatErr("%s: at byte %d: %v", name, total-len(b), err)
		}
		b, x.in = b[n:], name
		for _, r := range rules {
			if r.num == x.num {
				if err := r.read(x); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// nextField reads the field that b begins with and tells its length.
func nextField(b []byte) (field, int, error) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return field{}, 0, fmt.Errorf("bad field tag: %w", protowire.ParseError(n))
	}
	if typ == protowire.StartGroupType || typ == protowire.EndGroupType {
		return field{}, 0, fmt.Errorf("field %d is a group, which ONNX does not use", num)
	}
	x := field{num: num, typ: typ}
	v := protowire.ConsumeFieldValue(num, typ, b[n:])
	if v < 0 {
		return field{}, 0, fmt.Errorf("field %d: %w", num, protowire.ParseError(v))
	}
	x.bytes = b[n : n+v : n+v]
	switch typ {
	case protowire.VarintType:
		x.varint, _ = protowire.ConsumeVarint(x.bytes)
	case protowire.BytesType:
		c, _ := protowire.ConsumeBytes(x.bytes)
		x.bytes = c[:len(c):len(c)]
	}
	return x, n + v, nil
}

// want refuses a known field that has another wire type than the format prescribes. Such bytes are
// damaged: a newer ONNX would not change the type of a known field.
func (x field) want(typ protowire.Type) error {
	if x.typ != typ {
		return formatErr("%s: field %d has wire type %d, want %d", x.in, x.num, x.typ, typ)
	}
	return nil
}

// bytesTo reads a field of bytes.
func bytesTo(to *[]byte) func(field) error {
	return func(x field) error {
		*to = x.bytes
		return x.want(protowire.BytesType)
	}
}

// textTo reads a string that may hold any bytes.
func textTo(to *string) func(field) error {
	return func(x field) error {
		*to = string(x.bytes)
		return x.want(protowire.BytesType)
	}
}

// nameTo reads the name of a value, node, operator or domain. Unlike string data it must be UTF-8,
// as errors and dumps print it.
func nameTo(to *string) func(field) error {
	return func(x field) error { return x.nameTo(to) }
}

func (x field) nameTo(to *string) error {
	*to = string(x.bytes)
	if !utf8.Valid(x.bytes) {
		return formatErr("%s: field %d: the name %q is not UTF-8", x.in, x.num, *to)
	}
	return x.want(protowire.BytesType)
}

// intTo reads an integer.
func intTo(to *int64) func(field) error {
	return func(x field) error {
		*to = int64(x.varint)
		return x.want(protowire.VarintType)
	}
}

// intsTo appends a repeated integer field, packed or not, of at most limit elements.
func intsTo(to *[]int64, limit int) func(field) error {
	return func(x field) error { return x.intsTo(to, limit) }
}

func (x field) intsTo(to *[]int64, limit int) error {
	if x.typ != protowire.VarintType && x.typ != protowire.BytesType {
		return x.want(protowire.BytesType)
	}
	for b := x.bytes; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return formatErr("%s: field %d: %v", x.in, x.num, protowire.ParseError(n))
		}
		b = b[n:]
		if *to = append(*to, int64(v)); len(*to) > limit {
			return formatErr("%s: field %d has more than %d elements", x.in, x.num, limit)
		}
	}
	return nil
}

// runsTo appends the raw bytes of a repeated numeric field: those of the packed run, or of the one
// element. scalar is the wire type of an unpacked element.
func runsTo(to *[][]byte, scalar protowire.Type) func(field) error {
	return func(x field) error {
		if x.typ != protowire.BytesType && x.typ != scalar {
			return x.want(scalar)
		}
		*to = append(*to, x.bytes)
		return nil
	}
}

// namesTo appends one of a list of names.
func (d *decoder) namesTo(to *[]string) func(field) error {
	return func(x field) error {
		*to = append(*to, "")
		return errors.Join(nameTo(&(*to)[len(*to)-1])(x), d.count())
	}
}

// nestedTo reads a message nested in a field.
func nestedTo[T any](d *decoder, to **T, read func([]byte) (*T, error)) func(field) error {
	return func(x field) error {
		if err := x.want(protowire.BytesType); err != nil {
			return err
		}
		if err := d.count(); err != nil {
			return err
		}
		v, err := read(x.bytes)
		*to = v
		return err
	}
}

// listTo reads a message nested in a field and appends it.
func listTo[T any](d *decoder, to *[]*T, read func([]byte) (*T, error)) func(field) error {
	return func(x field) error {
		*to = append(*to, nil)
		return nestedTo(d, &(*to)[len(*to)-1], read)(x)
	}
}
