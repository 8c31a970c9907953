package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/internal/op"
)

func inNode(n *nodeMessage, err error) error {
	return fmt.Errorf("node %q (%s): %w", n.name, n.op, err)
}

// attr reads an AttributeProto. When an attribute does not give its type, as in IR versions before
// 2, the kind of the attribute follows from the field that holds its value.
func (d *decoder) attr(b []byte) (*attrMessage, error) {
	a := &attrMessage{}
	var kind int64
	var seen op.AttrKind
	of := func(k op.AttrKind, read func(field) error) func(field) error {
		return func(x field) error { seen = k; return read(x) }
	}
	none := func(field) error { return nil }
	err := fields("AttributeProto", b, rule{1, nameTo(&a.name)}, rule{20, intTo(&kind)},
		rule{21, nameTo(&a.ref)},
		rule{2, of(op.AttrFloat, floatTo(&a.f))}, rule{3, of(op.AttrInt, intTo(&a.i))},
		rule{4, of(op.AttrString, textTo(&a.s))},
		rule{5, of(op.AttrTensor, nestedTo(d, &a.t, d.tensor))},
		rule{6, of(op.AttrBody, nestedTo(d, &a.g, d.graph))},
		rule{7, of(op.AttrFloats, floatsTo(&a.floats))},
		rule{8, of(op.AttrInts, intsTo(&a.ints, math.MaxInt))},
		rule{9, of(op.AttrStrings, d.textsTo(&a.strings))}, rule{10, of(attrTensors, none)},
		rule{11, of(attrGraphs, none)},
		rule{14, of(op.AttrType, func(x field) error {
			a.typ = &typeMessage{}
			return d.typ(x, a.typ)
		})}, rule{15, of(attrTypeProtos, none)},
		rule{22, of(attrSparse, nestedTo(d, &a.sparse, d.sparse))}, rule{23, of(attrSparses, none)})
	if a.kind = op.AttrKind(kind); kind == 0 {
		a.kind = seen
	}
	if err == nil {
		err = a.check(kind)
	}
	if err != nil {
		return nil, fmt.Errorf("attribute %q: %w", a.name, err)
	}
	return a, nil
}

// check refuses an attribute without name, of a type that the format does not have, or without the
// value of its type.
func (a *attrMessage) check(kind int64) error {
	switch {
	case a.name == "":
		return formatErr("no name")
	case kind < 0 || kind > int64(attrTypeProtos):
		return formatErr("unknown type %d", kind)
	}
	return a.complete()
}

func floatTo(to *float32) func(field) error {
	return func(x field) error {
		if err := x.want(protowire.Fixed32Type); err != nil {
			return err
		}
		*to = math.Float32frombits(binary.LittleEndian.Uint32(x.bytes))
		return nil
	}
}

// floatsTo appends a repeated float field, packed or not.
func floatsTo(to *[]float32) func(field) error {
	return func(x field) error {
		if x.typ != protowire.Fixed32Type && x.typ != protowire.BytesType || len(x.bytes)%4 != 0 {
			return formatErr("%s: field %d: %d bytes of wire type %d are no floats", x.in, x.num,
				len(x.bytes), x.typ)
		}
		for b := x.bytes; len(b) > 0; b = b[4:] {
			*to = append(*to, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
		return nil
	}
}

func (d *decoder) textsTo(to *[]string) func(field) error {
	return func(x field) error {
		*to = append(*to, "")
		return errors.Join(textTo(&(*to)[len(*to)-1])(x), d.count())
	}
}

// complete refuses an attribute whose kind promises a message that is not there.
func (a *attrMessage) complete() error {
	if a.ref != "" {
		return nil
	}
	switch {
	case a.kind == 0:
		return formatErr("has neither type nor value")
	case a.kind == op.AttrTensor && a.t == nil:
		return formatErr("the tensor is missing")
	case a.kind == op.AttrType && a.typ == nil:
		return formatErr("the type is missing")
	case a.kind == op.AttrBody && a.g == nil:
		return formatErr("the graph is missing")
	case a.kind == attrSparse && a.sparse == nil:
		return formatErr("the sparse tensor is missing")
	}
	return nil
}

// plain converts an attribute that is neither graph nor of a kind that weir does not have.
func (a *attrMessage) plain(files *externalFiles) (op.Attr, error) {
	out, err := op.Attr{Name: a.name, Kind: a.kind}, error(nil)
	switch a.kind {
	case op.AttrFloat:
		out.Floats = []float32{a.f}
	case op.AttrInt:
		out.Ints = []int64{a.i}
	case op.AttrString:
		out.Strings = []string{a.s}
	case op.AttrFloats:
		out.Floats = orEmpty(a.floats)
	case op.AttrInts:
		out.Ints = orEmpty(a.ints)
	case op.AttrStrings:
		out.Strings = orEmpty(a.strings)
	case op.AttrTensor:
		out.Tensor, err = a.t.decode(files)
	case op.AttrType:
		out.Type, err = a.typ.opType()
	default:
		err = fmt.Errorf("%w: weir reads no attributes of type %d", op.ErrUnsupported, a.kind)
	}
	if err != nil {
		return op.Attr{}, fmt.Errorf("attribute %q: %w", a.name, err)
	}
	return out, nil
}

// orEmpty makes an empty list that is given differ from one that is not.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
