package oip

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// pieces reads a message of protobuf (its Encoding page) from the front on. The message lies in
// several pieces of memory, as a transport has received it.
type pieces struct {
	now  []byte   // what is left of the piece that is being read
	more [][]byte // that follow it
	left int      // bytes of all of them
}

func piecesOf(all ...[]byte) pieces {
	p := pieces{more: all}
	for _, b := range all {
		p.left += len(b)
	}
	return p
}

// field is a field of a message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64 // of a number
	bytes  []byte // of what has a length; they may be those of the message
}

// next reads a field; there is one as long as p.left is not 0.
func (p *pieces) next() (f field, err error) {
	tag, err := p.varint()
	if err != nil {
		return f, err
	}
	f.number, f.kind = protowire.DecodeTag(tag)
	if f.number < protowire.MinValidNumber || f.number > protowire.MaxValidNumber {
		return f, fmt.Errorf("%w: message: a field has the number %d", ErrRequest, tag>>3)
	}
	switch f.kind {
	case protowire.VarintType:
		f.value, err = p.varint()
	case protowire.Fixed32Type:
		if f.bytes, err = p.take(4); err == nil {
			f.value = uint64(binary.LittleEndian.Uint32(f.bytes))
		}
	case protowire.Fixed64Type:
		if f.bytes, err = p.take(8); err == nil {
			f.value = binary.LittleEndian.Uint64(f.bytes)
		}
	case protowire.BytesType:
		var n uint64
		if n, err = p.varint(); err == nil {
			f.bytes, err = p.take(n)
		}
	default:
		err = fmt.Errorf("%w: message: field %d is a group, which the protocol has none of",
			ErrRequest, f.number)
	}
	return f, err
}

// varint reads a number of up to ten bytes.
func (p *pieces) varint() (uint64, error) {
	if v, n := protowire.ConsumeVarint(p.now); n > 0 {
		p.now, p.left = p.now[n:], p.left-n
		return v, nil
	}
	var v uint64
	for shift := 0; shift < 70; shift += 7 {
		b, err := p.take(1)
		if err != nil {
			return 0, err
		}
		if v |= uint64(b[0]&0x7f) << shift; b[0] < 0x80 && (shift < 63 || b[0] < 2) {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%w: message: a number of more than 64 bits", ErrRequest)
}

// take reads n bytes: those of the message where they lie in one piece, else a copy.
func (p *pieces) take(n uint64) ([]byte, error) {
	if n > uint64(p.left) {
		return nil, fmt.Errorf("%w: message: a field has %d bytes, of which %d are there",
			ErrRequest, n, p.left)
	}
	for len(p.now) == 0 && len(p.more) > 0 {
		p.now, p.more = p.more[0], p.more[1:]
	}
	p.left -= int(n)
	if n <= uint64(len(p.now)) {
		b := p.now[:n:n]
		p.now = p.now[n:]
		return b, nil
	}
	b := make([]byte, 0, n)
	for {
		some := p.now[:min(len(p.now), int(n)-len(b))]
		b, p.now = append(b, some...), p.now[len(some):]
		if len(b) == int(n) {
			return b, nil
		}
		p.now, p.more = p.more[0], p.more[1:]
	}
}

// each reads the fields of a message within another.
func (f *field) each(read func(f *field) error) error {
	if err := f.is(protowire.BytesType); err != nil {
		return err
	}
	p := pieces{now: f.bytes, left: len(f.bytes)}
	for p.left > 0 {
		one, err := p.next()
		if err == nil {
			err = read(&one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// is holds that a field is written as its number says.
func (f *field) is(kind protowire.Type) error {
	if f.kind != kind {
		return fmt.Errorf("%w: message: field %d has the wire type %d, not %d", ErrRequest,
			f.number, f.kind, kind)
	}
	return nil
}

// text reads a string, which protobuf has in UTF-8.
func (f *field) text(to *string) error {
	if err := f.is(protowire.BytesType); err != nil {
		return err
	}
	if !utf8.Valid(f.bytes) {
		return fmt.Errorf("%w: message: field %d is not UTF-8", ErrRequest, f.number)
	}
	*to = string(f.bytes)
	return nil
}

// numbers reads the numbers of a repeated field, packed or not, which are written as kind says.
func (f *field) numbers(kind protowire.Type, read func(v uint64) error) error {
	if f.kind != protowire.BytesType {
		if err := f.is(kind); err != nil {
			return err
		}
		return read(f.value)
	}
	for b := f.bytes; len(b) > 0; {
		var v uint64
		var n int
		switch kind {
		case protowire.Fixed32Type:
			var v32 uint32
			v32, n = protowire.ConsumeFixed32(b)
			v = uint64(v32)
		case protowire.Fixed64Type:
			v, n = protowire.ConsumeFixed64(b)
		default:
			v, n = protowire.ConsumeVarint(b)
		}
		if n < 0 {
			return fmt.Errorf("%w: message: field %d ends within a number", ErrRequest, f.number)
		}
		if err := read(v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
