package onnx

import (
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// message is a protobuf message under construction: pieces in order, the large ones views of the
// tensors' own bytes, so that writing a model copies no weight.
type message struct {
	pieces [][]byte
	tail   []byte
	size   int // of pieces, without tail
}

// viewBytes is the size from which bytes are referred to and not copied.
const viewBytes = 4096

func (m *message) len() int { return m.size + len(m.tail) }

func (m *message) tag(num protowire.Number, typ protowire.Type) {
	m.tail = protowire.AppendTag(m.tail, num, typ)
}

func (m *message) int(num protowire.Number, v int64) {
	m.tag(num, protowire.VarintType)
	m.tail = protowire.AppendVarint(m.tail, uint64(v))
}

func (m *message) float(num protowire.Number, v float32) {
	m.tag(num, protowire.Fixed32Type)
	m.tail = protowire.AppendFixed32(m.tail, math.Float32bits(v))
}

func (m *message) bytes(num protowire.Number, b []byte) {
	m.tag(num, protowire.BytesType)
	m.tail = protowire.AppendVarint(m.tail, uint64(len(b)))
	if len(b) < viewBytes {
		m.tail = append(m.tail, b...)
		return
	}
	m.push(m.tail)
	m.tail = nil
	m.push(b)
}

func (m *message) push(b []byte) {
	if len(b) > 0 {
		m.pieces = append(m.pieces, b)
		m.size += len(b)
	}
}

func (m *message) str(num protowire.Number, s string) {
	m.tag(num, protowire.BytesType)
	m.tail = protowire.AppendString(m.tail, s)
}

// text writes a string field unless it is empty.
func (m *message) text(num protowire.Number, s string) {
	if s != "" {
		m.str(num, s)
	}
}

// nest writes another message, which must be complete, as a field.
func (m *message) nest(num protowire.Number, c *message) {
	m.tag(num, protowire.BytesType)
	m.tail = protowire.AppendVarint(m.tail, uint64(c.len()))
	if len(c.pieces) == 0 {
		m.tail = append(m.tail, c.tail...)
		return
	}
	m.push(m.tail)
	m.pieces = append(m.pieces, c.pieces...)
	m.size += c.size
	m.tail = c.tail
}

// writeTo writes the message's bytes.
func (m *message) writeTo(w io.Writer) error {
	for _, p := range append(m.pieces[:len(m.pieces):len(m.pieces)], m.tail) {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// EncodeTensor returns a tensor as a TensorProto, the content of a .pb file of ONNX's test data.
// The name may be empty.
func EncodeTensor(name string, t *tensor.Tensor) ([]byte, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	m := tensorHeader(name, t)
	tensorBody(m, t)
	var out []byte
	for _, p := range append(m.pieces, m.tail) {
		out = append(out, p...)
	}
	return out, nil
}

func tensorHeader(name string, t *tensor.Tensor) *message {
	m := &message{}
	if len(t.Shape) > 0 {
		var dims []byte
		for _, n := range t.Shape {
			dims = protowire.AppendVarint(dims, uint64(n))
		}
		m.bytes(1, dims)
	}
	m.int(2, int64(t.DType))
	m.text(8, name)
	return m
}

func tensorBody(m *message, t *tensor.Tensor) {
	if t.DType != tensor.String {
		m.bytes(9, t.Data)
		return
	}
	for _, s := range t.Strings {
		m.str(6, s)
	}
}

// typeProto writes what is known of a type; nil when not even the element type is.
func typeProto(t op.Type) *message {
	if t.DType == tensor.Undefined {
		return nil
	}
	if t.DType.IsContainer() {
		return containerProto(t)
	}
	elem := &message{}
	elem.int(1, int64(t.DType))
	if t.Ranked {
		shape := &message{}
		for _, d := range t.Shape {
			shape.nest(1, dimension(d))
		}
		elem.nest(2, shape)
	}
	m := &message{}
	m.nest(1, elem)
	return m
}

// containerProto writes the type of a sequence, optional or map.
func containerProto(t op.Type) *message {
	var elem *message
	if t.Elem != nil {
		elem = typeProto(*t.Elem)
	}
	of, m := &message{}, &message{}
	if t.DType == tensor.Map {
		of.int(1, int64(t.Key))
	}
	if elem != nil {
		of.nest(map[bool]protowire.Number{false: 1, true: 2}[t.DType == tensor.Map], elem)
	}
	m.nest(map[tensor.DType]protowire.Number{tensor.Sequence: 4, tensor.Map: 5,
		tensor.Optional: 9}[t.DType], of)
	return m
}

// dimension writes a size or a symbol. An expression over symbols has no form in ONNX and is left
// unknown.
func dimension(d op.Dim) *message {
	m := &message{}
	if n, ok := d.Int(); ok {
		m.int(1, int64(n))
	} else if s := d.String(); op.Sym(s).Equal(d) {
		m.str(2, s)
	}
	return m
}

func valueProto(name string, t op.Type) *message {
	m := &message{}
	m.str(1, name)
	if typ := typeProto(t); typ != nil {
		m.nest(2, typ)
	}
	return m
}

// attrProto writes an attribute that is no graph.
func attrProto(a op.Attr) *message {
	m := &message{}
	m.str(1, a.Name)
	m.int(20, int64(a.Kind))
	switch a.Kind {
	case op.AttrFloat:
		m.float(2, a.Floats[0])
	case op.AttrInt:
		m.int(3, a.Ints[0])
	case op.AttrString:
		m.str(4, a.Strings[0])
	case op.AttrTensor:
		t := tensorHeader("", a.Tensor)
		tensorBody(t, a.Tensor)
		m.nest(5, t)
	case op.AttrType:
		t := typeProto(a.Type)
		if t == nil {
			t = &message{}
		}
		m.nest(14, t)
	case op.AttrFloats:
		for _, v := range a.Floats {
			m.float(7, v)
		}
	case op.AttrInts:
		for _, v := range a.Ints {
			m.int(8, v)
		}
	case op.AttrStrings:
		for _, v := range a.Strings {
			m.str(9, v)
		}
	}
	return m
}
