package onnx

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/op"
)

// The types below mirror the messages of onnx.proto3 that weir reads; names are copied, tensor contents are views.

type modelMessage struct {
	irVersion                         int64
	producer, producerVersion, domain string
	modelVersion                      int64
	doc                               string
	graph                             *graphMessage
	opsets                            map[string]int
	meta                              map[string]string
	functions                         map[functionKey]*functionMessage
}

type graphMessage struct {
	name         string
	nodes        []*nodeMessage
	initializers []*tensorMessage
	sparse       []*sparseMessage
	inputs       []*valueMessage
	outputs      []*valueMessage
	hints        []*valueMessage
}

type nodeMessage struct {
	name, op, domain, overload string
	in, out                    []string
	attrs                      []*attrMessage
	// frame is the function call that the node was expanded from; nil for a node that the model itself holds.
	frame *frame
}

// Attribute kinds beyond those of op.AttrKind, which weir reads only to name them when it refuses them.
const (
	attrGraphs     op.AttrKind = 10
	attrTensors    op.AttrKind = 9
	attrSparse     op.AttrKind = 11
	attrSparses    op.AttrKind = 12
	attrTypeProto  op.AttrKind = 13
	attrTypeProtos op.AttrKind = 14
)

type attrMessage struct {
	name, ref string
	kind      op.AttrKind
	f         float32
	i         int64
	s         string
	t         *tensorMessage
	g         *graphMessage
	sparse    *sparseMessage
	floats    []float32
	ints      []int64
	strings   []string
}

type valueMessage struct {
	name string
	typ  typeMessage
}

type typeMessage struct {
	kind   string // "tensor", or what else the value is
	elem   int64
	ranked bool
	dims   []dimMessage
}

type dimMessage struct {
	known bool
	size  int64
	param string
}

type functionKey struct{ domain, name, overload string }

type functionMessage struct {
	key      functionKey
	inputs   []string
	outputs  []string
	attrs    []string
	defaults []*attrMessage
	nodes    []*nodeMessage
	opsets   map[string]int
}

// plainDomain gives ONNX's own domain its one name.
func plainDomain(s string) string {
	if s == "ai.onnx" {
		return ""
	}
	return s
}

func (d *decoder) model(b []byte) (*modelMessage, error) {
	m := &modelMessage{opsets: map[string]int{}, meta: map[string]string{}, functions: map[functionKey]*functionMessage{}}
	err := eachField("ModelProto", b, func(x field) error { return d.modelField(m, x) })
	if err != nil {
		return nil, err
	}
	if m.graph == nil {
		return nil, formatErr("ModelProto: no graph; is this an ONNX model?")
	}
	return m, nil
}

func (d *decoder) modelField(m *modelMessage, x field) error {
	const name = "ModelProto"
	switch x.num {
	case 1:
		return x.int(name, &m.irVersion)
	case 2:
		return x.ident(name, &m.producer)
	case 3:
		return x.ident(name, &m.producerVersion)
	case 4:
		return x.ident(name, &m.domain)
	case 5:
		return x.int(name, &m.modelVersion)
	case 6:
		return x.str(name, &m.doc)
	case 7:
		if err := x.want(name, protowire.BytesType); err != nil {
			return err
		}
		if m.graph != nil {
			return formatErr("%s: has two graphs", name)
		}
		var err error
		m.graph, err = d.graph(x.bytes)
		return err
	case 8:
		return d.opset(x, m.opsets)
	case 14:
		return d.entry(x, m.meta)
	case 25:
		return d.function(m, x)
	}
	return nil
}

func (d *decoder) opset(x field, to map[string]int) error {
	const name = "OperatorSetIdProto"
	if err := x.want(name, protowire.BytesType); err != nil {
		return err
	}
	var domain string
	var version int64
	err := eachField(name, x.bytes, func(x field) error {
		switch x.num {
		case 1:
			return x.ident(name, &domain)
		case 2:
			return x.int(name, &version)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if version < 0 || version > math.MaxInt32 {
		return formatErr("%s: domain %q: version %d is out of range", name, domain, version)
	}
	to[plainDomain(domain)] = int(version)
	return d.count()
}

// entry reads a StringStringEntryProto.
func (d *decoder) entry(x field, to map[string]string) error {
	const name = "StringStringEntryProto"
	if err := x.want(name, protowire.BytesType); err != nil {
		return err
	}
	var k, v string
	err := eachField(name, x.bytes, func(x field) error {
		switch x.num {
		case 1:
			return x.ident(name, &k)
		case 2:
			return x.str(name, &v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	to[k] = v
	return d.count()
}

// child reads a message nested in a field and appends it.
func child[T any](d *decoder, name string, x field, to *[]*T, read func([]byte) (*T, error)) error {
	if err := x.want(name, protowire.BytesType); err != nil {
		return err
	}
	if err := d.count(); err != nil {
		return err
	}
	v, err := read(x.bytes)
	if err != nil {
		return err
	}
	*to = append(*to, v)
	return nil
}

// idents appends one of a list of names.
func (d *decoder) idents(name string, x field, to *[]string) error {
	var s string
	if err := x.ident(name, &s); err != nil {
		return err
	}
	*to = append(*to, s)
	return d.count()
}

func (d *decoder) graph(b []byte) (*graphMessage, error) {
	const name = "GraphProto"
	if d.depth++; d.depth > maxDepth {
		return nil, formatErr("%s: graphs nest deeper than %d", name, maxDepth)
	}
	defer func() { d.depth-- }()
	g := &graphMessage{}
	err := eachField(name, b, func(x field) error {
		switch x.num {
		case 1:
			return child(d, name, x, &g.nodes, d.node)
		case 2:
			return x.ident(name, &g.name)
		case 5:
			return child(d, name, x, &g.initializers, d.tensor)
		case 11:
			return child(d, name, x, &g.inputs, d.value)
		case 12:
			return child(d, name, x, &g.outputs, d.value)
		case 13:
			return child(d, name, x, &g.hints, d.value)
		case 15:
			return child(d, name, x, &g.sparse, d.sparse)
		}
		return nil
	})
	return g, err
}

func (d *decoder) node(b []byte) (*nodeMessage, error) {
	const name = "NodeProto"
	n := &nodeMessage{}
	err := eachField(name, b, func(x field) error {
		switch x.num {
		case 1:
			return d.idents(name, x, &n.in)
		case 2:
			return d.idents(name, x, &n.out)
		case 3:
			return x.ident(name, &n.name)
		case 4:
			return x.ident(name, &n.op)
		case 5:
			if err := child(d, name, x, &n.attrs, d.attr); err != nil {
				return inNode(n, err)
			}
		case 7:
			return x.ident(name, &n.domain)
		case 8:
			return x.ident(name, &n.overload)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n.op == "" {
		return nil, formatErr("%s %q: no operator", name, n.name)
	}
	n.domain = plainDomain(n.domain)
	return n, nil
}

func (d *decoder) value(b []byte) (*valueMessage, error) {
	const name = "ValueInfoProto"
	v := &valueMessage{}
	err := eachField(name, b, func(x field) error {
		switch x.num {
		case 1:
			return x.ident(name, &v.name)
		case 2:
			if err := x.want(name, protowire.BytesType); err != nil {
				return err
			}
			return d.typ(x.bytes, &v.typ)
		}
		return nil
	})
	return v, err
}

// typeKinds names the alternatives of TypeProto by field number.
var typeKinds = map[protowire.Number]string{1: "tensor", 4: "sequence", 5: "map", 7: "opaque", 8: "sparse tensor", 9: "optional"}

func (d *decoder) typ(b []byte, t *typeMessage) error {
	const name = "TypeProto"
	return eachField(name, b, func(x field) error {
		kind, ok := typeKinds[x.num]
		if !ok {
			return nil
		}
		if err := x.want(name, protowire.BytesType); err != nil {
			return err
		}
		if t.kind = kind; kind != "tensor" {
			return nil
		}
		return eachField(name+".Tensor", x.bytes, func(x field) error {
			switch x.num {
			case 1:
				return x.int(name, &t.elem)
			case 2:
				return d.shape(x, t)
			}
			return nil
		})
	})
}

func (d *decoder) shape(x field, t *typeMessage) error {
	const name = "TensorShapeProto"
	if err := x.want(name, protowire.BytesType); err != nil {
		return err
	}
	t.ranked = true
	return eachField(name, x.bytes, func(x field) error {
		if x.num != 1 {
			return nil
		}
		if err := x.want(name, protowire.BytesType); err != nil {
			return err
		}
		if len(t.dims) == maxRank {
			return formatErr("%s: more than %d dimensions", name, maxRank)
		}
		var dim dimMessage
		err := eachField(name+".Dimension", x.bytes, func(x field) error {
			switch x.num {
			case 1:
				dim.known = true
				return x.int(name, &dim.size)
			case 2:
				return x.ident(name, &dim.param)
			}
			return nil
		})
		t.dims = append(t.dims, dim)
		return err
	})
}

func (d *decoder) function(m *modelMessage, x field) error {
	const name = "FunctionProto"
	if err := x.want(name, protowire.BytesType); err != nil {
		return err
	}
	f := &functionMessage{opsets: map[string]int{}}
	err := eachField(name, x.bytes, func(x field) error {
		switch x.num {
		case 1:
			return x.ident(name, &f.key.name)
		case 4:
			return d.idents(name, x, &f.inputs)
		case 5:
			return d.idents(name, x, &f.outputs)
		case 6:
			return d.idents(name, x, &f.attrs)
		case 7:
			return child(d, name, x, &f.nodes, d.node)
		case 9:
			return d.opset(x, f.opsets)
		case 10:
			return x.ident(name, &f.key.domain)
		case 11:
			return child(d, name, x, &f.defaults, d.attr)
		case 13:
			return x.ident(name, &f.key.overload)
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.key.domain = plainDomain(f.key.domain)
	if f.key.name == "" {
		return formatErr("%s: no name", name)
	}
	if m.functions[f.key] != nil {
		return formatErr("%s: %q of domain %q is defined twice", name, f.key.name, f.key.domain)
	}
	m.functions[f.key] = f
	return d.count()
}
