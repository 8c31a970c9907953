package onnx

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/op"
)

func inNode(n *nodeMessage, err error) error {
	return fmt.Errorf("node %q (%s): %w", n.name, n.op, err)
}

// attr reads an AttributeProto. The field that holds the value tells the kind when the type, which IR versions before 2
// lacked, is not given.
func (d *decoder) attr(b []byte) (*attrMessage, error) {
	a := &attrMessage{}
	var kind int64
	var seen op.AttrKind
	err := eachField("AttributeProto", b, func(x field) error {
		if x.num == 20 {
			return x.int("AttributeProto", &kind)
		}
		if k, ok := attrFields[x.num]; ok {
			seen = k
		}
		return d.attrField(a, x)
	})
	if err != nil {
		return nil, fmt.Errorf("attribute %q: %w", a.name, err)
	}
	switch {
	case a.name == "":
		return nil, formatErr("AttributeProto: no name")
	case kind < 0 || kind > int64(attrTypeProtos):
		return nil, formatErr("attribute %q: unknown type %d", a.name, kind)
	case kind == 0:
		a.kind = seen
	default:
		a.kind = op.AttrKind(kind)
	}
	return a, a.complete()
}

// attrFields tells the kind of attribute by the number of the field that holds its value.
var attrFields = map[protowire.Number]op.AttrKind{2: op.AttrFloat, 3: op.AttrInt, 4: op.AttrString, 5: op.AttrTensor,
	6: op.AttrBody, 7: op.AttrFloats, 8: op.AttrInts, 9: op.AttrStrings, 10: attrTensors, 11: attrGraphs, 14: attrTypeProto,
	15: attrTypeProtos, 22: attrSparse, 23: attrSparses}

func (d *decoder) attrField(a *attrMessage, x field) (err error) {
	const name = "AttributeProto"
	switch x.num {
	case 1:
		return x.ident(name, &a.name)
	case 2:
		if err := x.want(name, protowire.Fixed32Type); err != nil {
			return err
		}
		a.f = math.Float32frombits(binary.LittleEndian.Uint32(x.bytes))
	case 3:
		return x.int(name, &a.i)
	case 4:
		return x.str(name, &a.s)
	case 7:
		var chunks [][]byte
		if err := x.chunk(name, &chunks, protowire.Fixed32Type); err != nil {
			return err
		}
		if len(chunks[0])%4 != 0 {
			return formatErr("%s: floats: %d bytes is no whole number of elements", name, len(chunks[0]))
		}
		for b := chunks[0]; len(b) > 0; b = b[4:] {
			a.floats = append(a.floats, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	case 8:
		return x.ints(name, &a.ints, math.MaxInt)
	case 9:
		a.strings = append(a.strings, "")
		if err := d.count(); err != nil {
			return err
		}
		return x.str(name, &a.strings[len(a.strings)-1])
	case 21:
		return x.ident(name, &a.ref)
	default:
		return d.attrMessageField(a, x)
	}
	return nil
}

// attrMessageField reads the values that are messages themselves.
func (d *decoder) attrMessageField(a *attrMessage, x field) (err error) {
	if x.num != 5 && x.num != 6 && x.num != 22 {
		return nil
	}
	if err := x.want("AttributeProto", protowire.BytesType); err != nil {
		return err
	}
	switch x.num {
	case 5:
		a.t, err = d.tensor(x.bytes)
	case 6:
		a.g, err = d.graph(x.bytes)
	case 22:
		a.sparse, err = d.sparse(x.bytes)
	}
	return err
}

// complete refuses an attribute whose kind promises a message that is not there.
func (a *attrMessage) complete() error {
	if a.ref != "" {
		return nil
	}
	switch {
	case a.kind == 0:
		return formatErr("attribute %q: has neither type nor value", a.name)
	case a.kind == op.AttrTensor && a.t == nil:
		return formatErr("attribute %q: the tensor is missing", a.name)
	case a.kind == op.AttrBody && a.g == nil:
		return formatErr("attribute %q: the graph is missing", a.name)
	case a.kind == attrSparse && a.sparse == nil:
		return formatErr("attribute %q: the sparse tensor is missing", a.name)
	}
	return nil
}

// plain converts an attribute that is neither graph nor of a kind that weir does not have.
func (a *attrMessage) plain(files *externalFiles) (op.Attr, error) {
	out := op.Attr{Name: a.name, Kind: a.kind}
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
		t, err := a.t.decode(files)
		if err != nil {
			return op.Attr{}, fmt.Errorf("attribute %q: %w", a.name, err)
		}
		out.Tensor = t
	default:
		return op.Attr{}, fmt.Errorf("attribute %q: %w: weir reads no attributes of type %d", a.name, op.ErrUnsupported, a.kind)
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
