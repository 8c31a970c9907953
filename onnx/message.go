package onnx

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// The types below mirror the messages of onnx.proto3 that weir reads; names are copied, tensor
// contents are views.

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
	// frame is the function call that the node was expanded from; nil for a node that the model
	// itself holds.
	frame *frame
}

// Attribute kinds beyond those of op.AttrKind, which weir reads only to name them when it refuses
// them.
const (
	attrGraphs     op.AttrKind = 10
	attrTensors    op.AttrKind = 9
	attrSparse     op.AttrKind = 11
	attrSparses    op.AttrKind = 12
	attrTypeProtos op.AttrKind = 14
)

type attrMessage struct {
	name, ref string
	kind      op.AttrKind
	f         float32
	i         int64
	s         string
	t         *tensorMessage
	typ       *typeMessage
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
	key    int64        // of a map
	of     *typeMessage // what a sequence or optional holds, the values of a map
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
	m := &modelMessage{opsets: map[string]int{}, meta: map[string]string{},
		functions: map[functionKey]*functionMessage{}}
	err := fields("ModelProto", b,
		rule{1, intTo(&m.irVersion)}, rule{2, nameTo(&m.producer)},
		rule{3, nameTo(&m.producerVersion)}, rule{4, nameTo(&m.domain)},
		rule{5, intTo(&m.modelVersion)}, rule{6, textTo(&m.doc)}, rule{8, d.opsetTo(m.opsets)},
		rule{14, d.entryTo(m.meta)},
		rule{25, func(x field) error { return d.function(m, x) }},
		rule{7, func(x field) error {
			if m.graph != nil {
				return formatErr("%s: has two graphs", x.in)
			}
			return nestedTo(d, &m.graph, d.graph)(x)
		}})
	if err == nil && m.graph == nil {
		err = formatErr("ModelProto: no graph; is this an ONNX model?")
	}
	return m, err
}

// opsetTo reads an OperatorSetIdProto.
func (d *decoder) opsetTo(to map[string]int) func(field) error {
	return func(x field) error {
		var domain string
		var version int64
		err := fields("OperatorSetIdProto", x.bytes, rule{1, nameTo(&domain)},
			rule{2, intTo(&version)})
		if err != nil {
			return err
		}
		if version < 0 || version > math.MaxInt32 {
			return formatErr("OperatorSetIdProto: domain %q: version %d is out of range", domain,
				version)
		}
		to[plainDomain(domain)] = int(version)
		return errors.Join(x.want(protowire.BytesType), d.count())
	}
}

// entryTo reads a StringStringEntryProto.
func (d *decoder) entryTo(to map[string]string) func(field) error {
	return func(x field) error {
		var k, v string
		err := fields("StringStringEntryProto", x.bytes, rule{1, nameTo(&k)}, rule{2, textTo(&v)})
		to[k] = v
		return errors.Join(err, x.want(protowire.BytesType), d.count())
	}
}

func (d *decoder) graph(b []byte) (*graphMessage, error) {
	if d.depth++; d.depth > maxDepth {
		return nil, formatErr("GraphProto: graphs nest deeper than %d", maxDepth)
	}
	defer func() { d.depth-- }()
	g := &graphMessage{}
	return g, fields("GraphProto", b, rule{1, listTo(d, &g.nodes, d.node)},
		rule{2, nameTo(&g.name)}, rule{5, listTo(d, &g.initializers, d.tensor)},
		rule{11, listTo(d, &g.inputs, d.value)}, rule{12, listTo(d, &g.outputs, d.value)},
		rule{13, listTo(d, &g.hints, d.value)}, rule{15, listTo(d, &g.sparse, d.sparse)})
}

func (d *decoder) node(b []byte) (*nodeMessage, error) {
	n := &nodeMessage{}
	err := fields("NodeProto", b, rule{1, d.namesTo(&n.in)}, rule{2, d.namesTo(&n.out)},
		rule{3, nameTo(&n.name)}, rule{4, nameTo(&n.op)}, rule{5, listTo(d, &n.attrs, d.attr)},
		rule{7, nameTo(&n.domain)}, rule{8, nameTo(&n.overload)})
	if err == nil && n.op == "" {
		err = formatErr("NodeProto: no operator")
	}
	if err != nil {
		return nil, inNode(n, err)
	}
	n.domain = plainDomain(n.domain)
	return n, nil
}

func (d *decoder) value(b []byte) (*valueMessage, error) {
	v := &valueMessage{}
	return v, fields("ValueInfoProto", b, rule{1, nameTo(&v.name)}, rule{2, func(x field) error {
		return d.typ(x, &v.typ)
	}})
}

// typ reads a TypeProto.
func (d *decoder) typ(x field, t *typeMessage) error {
	if d.typeDepth++; d.typeDepth > tensor.MaxNesting {
		return formatErr("TypeProto: types nest deeper than %d", tensor.MaxNesting)
	}
	defer func() { d.typeDepth-- }()
	holds := func(kind string, rules ...rule) func(field) error {
		return d.holder(t, kind, rules)
	}
	other := func(kind string) func(field) error {
		return func(field) error { t.kind = kind; return nil }
	}
	err := fields("TypeProto", x.bytes,
		rule{4, holds(kindSequence)}, rule{5, holds(kindMap, rule{1, intTo(&t.key)})},
		rule{9, holds(kindOptional)},
		rule{7, other("opaque")}, rule{8, other("sparse tensor")},
		rule{1, func(x field) error {
			t.kind = "tensor"
			err := fields("TypeProto.Tensor", x.bytes, rule{1, intTo(&t.elem)},
				rule{2, func(x field) error {
					return d.shape(x, t)
				}})
			return errors.Join(err, x.want(protowire.BytesType))
		}})
	return errors.Join(err, x.want(protowire.BytesType))
}

// holder reads the type of a container of a kind, whose rules are followed by that of its elements.
func (d *decoder) holder(t *typeMessage, kind string, rules []rule) func(field) error {
	of := func(x field) error {
		t.of = &typeMessage{}
		return errors.Join(d.typ(x, t.of), d.count())
	}
	return func(x field) error {
		t.kind, t.of = kind, nil
		err := fields("TypeProto."+kind, x.bytes,
			append(rules, rule{protowire.Number(1 + len(rules)), of})...)
		return errors.Join(err, x.want(protowire.BytesType))
	}
}

// The kinds of typeMessage that hold other values.
const (
	kindSequence = "sequence"
	kindOptional = "optional"
	kindMap      = "map"
)

// shape reads a TensorShapeProto.
func (d *decoder) shape(x field, t *typeMessage) error {
	t.ranked = true
	err := fields("TensorShapeProto", x.bytes, rule{1, func(x field) error {
		if len(t.dims) == maxRank {
			return formatErr("%s: more than %d dimensions", x.in, maxRank)
		}
		var dim dimMessage
		err := fields("TensorShapeProto.Dimension", x.bytes, rule{2, nameTo(&dim.param)},
			rule{1, func(x field) error {
				dim.known = true
				return intTo(&dim.size)(x)
			}})
		t.dims = append(t.dims, dim)
		return errors.Join(err, x.want(protowire.BytesType))
	}})
	return errors.Join(err, x.want(protowire.BytesType))
}

func (d *decoder) function(m *modelMessage, x field) error {
	f := &functionMessage{opsets: map[string]int{}}
	err := fields("FunctionProto", x.bytes,
		rule{1, nameTo(&f.key.name)}, rule{4, d.namesTo(&f.inputs)}, rule{5, d.namesTo(&f.outputs)},
		rule{7, listTo(d, &f.nodes, d.node)}, rule{9, d.opsetTo(f.opsets)},
		rule{10, nameTo(&f.key.domain)},
		rule{11, listTo(d, &f.defaults, d.attr)}, rule{13, nameTo(&f.key.overload)})
	if err = errors.Join(err, x.want(protowire.BytesType), d.count()); err != nil {
		return fmt.Errorf("function %q: %w", f.key.name, err)
	}
	f.key.domain = plainDomain(f.key.domain)
	if f.key.name == "" || m.functions[f.key] != nil {
		return formatErr("FunctionProto: %q of domain %q has no name or is defined twice",
			f.key.name, f.key.domain)
	}
	m.functions[f.key] = f
	return nil
}
