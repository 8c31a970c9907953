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

// maxMessages bounds how many nodes, attributes, names and other parts one file may hold. It keeps the memory that a
// file of minimal parts takes within a few times of what the largest real models need.
const maxMessages = 1 << 22

// maxRank bounds the dimensions of a tensor, as NumPy does.
const maxRank = 64

// decoder carries the limits of one file through its nested messages.
type decoder struct {
	messages int
	depth    int
}

// count spends the budget of parts.
func (d *decoder) count() error {
	if d.messages++; d.messages > maxMessages {
		return formatErr("more than %d parts; split the model or its functions", maxMessages)
	}
	return nil
}

// field is one field of a message: bytes holds what a length-delimited or fixed-width field holds, and the bytes of the
// varint itself otherwise.
type field struct {
	num    protowire.Number
	typ    protowire.Type
	varint uint64
	bytes  []byte
}

// eachField calls f for every field of a message in the order of the file. name is the message's type for errors.
func eachField(name string, b []byte, f func(field) error) error {
	for total := len(b); len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return formatErr("%s: bad field tag at byte %d: %v", name, total-len(b), protowire.ParseError(n))
		}
		b = b[n:]
		if typ == protowire.StartGroupType || typ == protowire.EndGroupType {
			return formatErr("%s: field %d at byte %d is a group, which ONNX does not use", name, num, total-len(b))
		}
		x := field{num: num, typ: typ}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return formatErr("%s: field %d at byte %d: %v", name, num, total-len(b), protowire.ParseError(n))
		}
		x.bytes = b[:n:n]
		switch typ {
		case protowire.VarintType:
			x.varint, _ = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(b)
			x.bytes = v[:len(v):len(v)]
		}
		b = b[n:]
		if err := f(x); err != nil {
			return err
		}
	}
	return nil
}

// want refuses a known field of another wire type than the format says: such bytes are damaged, not from a newer ONNX.
func (x field) want(name string, typ protowire.Type) error {
	if x.typ != typ {
		return formatErr("%s: field %d has wire type %d, want %d", name, x.num, x.typ, typ)
	}
	return nil
}

func (x field) str(name string, to *string) error {
	if err := x.want(name, protowire.BytesType); err != nil {
		return err
	}
	*to = string(x.bytes)
	return nil
}

// ident reads a name: of a value, node, operator or domain. Unlike string data it must be UTF-8, as errors and dumps
// print it.
func (x field) ident(name string, to *string) error {
	if err := x.str(name, to); err != nil {
		return err
	}
	if !utf8.ValidString(*to) {
		return formatErr("%s: field %d: the name %q is not UTF-8", name, x.num, *to)
	}
	return nil
}

func (x field) int(name string, to *int64) error {
	if err := x.want(name, protowire.VarintType); err != nil {
		return err
	}
	*to = int64(x.varint)
	return nil
}

// ints appends a repeated integer field, packed or not, of at most limit elements.
func (x field) ints(name string, to *[]int64, limit int) error {
	switch x.typ {
	case protowire.VarintType:
		*to = append(*to, int64(x.varint))
	case protowire.BytesType:
		for b := x.bytes; len(b) > 0; {
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return formatErr("%s: field %d: %v", name, x.num, protowire.ParseError(n))
			}
			b = b[n:]
			if *to = append(*to, int64(v)); len(*to) > limit {
				break
			}
		}
	default:
		return x.want(name, protowire.BytesType)
	}
	if len(*to) > limit {
		return formatErr("%s: field %d has more than %d elements", name, x.num, limit)
	}
	return nil
}

// chunk appends the raw bytes of a repeated numeric field: those of the packed run, or of the one element. scalar is
// the wire type of an unpacked element.
func (x field) chunk(name string, to *[][]byte, scalar protowire.Type) error {
	if x.typ != protowire.BytesType && x.typ != scalar {
		return x.want(name, scalar)
	}
	*to = append(*to, x.bytes)
	return nil
}
