package onnx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// maxBodies bounds the sub-graphs of one node; ONNX's operators have at most two.
const maxBodies = 8

// maxAttrs bounds the attributes of one node; ONNX's operators have at most some twenty.
const maxAttrs = 256

// builder turns messages into a graph.
type builder struct {
	model *modelMessage
	files *externalFiles
	rows  []*op.Op        // of the caller
	names map[string]bool // of all values of the file and all made up so far
	// the number of parts made so far, bounded like the parts of the file, since function calls
	// multiply them
	spent int
	depth int
}

// scope is one graph while it is built.
type scope struct {
	b         *builder
	parent    *scope
	g         *graph.Graph
	values    map[string]*graph.Value
	captured  []capture
	nodeNames map[string]bool
}

// capture is a value of an enclosing graph and the input that stands for it in this one.
type capture struct{ inner, outer *graph.Value }

func build(m *modelMessage, files *externalFiles, o Options) (*graph.Graph, error) {
	b := &builder{model: m, files: files, rows: o.Operators, names: map[string]bool{}}
	b.reserve(m.graph)
	s, err := b.graph(m.graph, nil)
	if err != nil {
		return nil, err
	}
	s.g.Meta = meta(m)
	var old error
	if v := m.opsets[""]; v > 0 && v < numpyOpset {
		old = b.raise(s.g)
	}
	if unknown := b.unknown(s.g, old != nil); len(unknown) > 0 {
		if o.SkipCheck { // what follows needs to know the operators
			return s.g, nil
		}
		return nil, &graph.UnknownError{Graph: s.g.Name, Operators: unknown}
	}
	if old != nil {
		return nil, old
	}
	return s.g, b.gradients(s.g)
}

// unknown lists the operators without a row that do not go as the graph is brought to its form;
// raw tells that the nodes of older models are still those of the file.
func (b *builder) unknown(g *graph.Graph, raw bool) []graph.Unknown {
	return slices.DeleteFunc(g.Unknown(), func(u graph.Unknown) bool {
		var none *op.UnknownError
		return u.Domain == trainingDomain && u.Type == "Gradient" ||
			raw && !errors.As(u.Err, &none)
	})
}

// Keys of Graph.Meta under which the model's own fields travel next to its metadata_props.
const (
	metaProducer        = "onnx.producer_name"
	metaProducerVersion = "onnx.producer_version"
	metaDomain          = "onnx.domain"
	metaModelVersion    = "onnx.model_version"
	metaDoc             = "onnx.doc_string"
)

func meta(m *modelMessage) map[string]string {
	out := maps.Clone(m.meta)
	fields := map[string]string{metaProducer: m.producer, metaProducerVersion: m.producerVersion,
		metaDomain: m.domain, metaDoc: m.doc}
	if m.modelVersion != 0 {
		fields[metaModelVersion] = strconv.FormatInt(m.modelVersion, 10)
	}
	for k, v := range fields {
		if v != "" {
			out[k] = v
		}
	}
	return out
}

// spend counts n parts against the limit.
func (b *builder) spend(n int) error {
	if b.spent += n; b.spent > maxMessages {
		return formatErr("functions and sub-graphs expand to more than %d parts", maxMessages)
	}
	return nil
}

// reserve notes every value name of a graph, so that made-up names differ from all of them.
func (b *builder) reserve(g *graphMessage) {
	for _, vs := range [][]*valueMessage{g.inputs, g.outputs} {
		for _, v := range vs {
			b.names[v.name] = true
		}
	}
	for _, t := range g.initializers {
		b.names[t.name] = true
	}
	for _, n := range g.nodes {
		for _, name := range n.out {
			b.names[name] = true
		}
		for _, a := range n.attrs {
			if a.g != nil {
				b.reserve(a.g)
			}
		}
	}
}

// fresh returns base, or base with a number when a value already has that name.
func (b *builder) fresh(base string) string { return unique(b.names, base) }

// unique returns base, or base with the first free number, and takes the name. The numbers start
// from the count of names so that many clashes of one base cost no search each.
func unique(taken map[string]bool, base string) string {
	name := base
	for i := len(taken); taken[name]; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	taken[name] = true
	return name
}

// graph builds one graph inside parent. The inputs that stand for captures are not yet among the
// graph's inputs, since all bodies of a node take the same ones; see [scope.close].
func (b *builder) graph(m *graphMessage, parent *scope) (*scope, error) {
	if b.depth++; b.depth > maxDepth {
		return nil, formatErr("graphs nest deeper than %d once functions are expanded", maxDepth)
	}
	defer func() { b.depth-- }()
	s := &scope{b: b, parent: parent, values: map[string]*graph.Value{},
		nodeNames: map[string]bool{}}
	s.g = &graph.Graph{Name: m.name, Opsets: maps.Clone(b.model.opsets)}
	if err := s.fill(m); err != nil {
		if parent != nil {
			return nil, fmt.Errorf("sub-graph %q: %w", m.name, err)
		}
		return nil, err
	}
	return s, nil
}

func (s *scope) fill(m *graphMessage) error {
	if err := s.initializers(m); err != nil {
		return err
	}
	if err := s.inputs(m); err != nil {
		return err
	}
	if err := s.nodes(m); err != nil {
		return err
	}
	if err := s.outputs(m); err != nil {
		return err
	}
	return s.g.Sort()
}

// nodes makes the nodes of a graph. It makes all of them before it wires any, since a file need not
// hold them in topological order.
func (s *scope) nodes(m *graphMessage) error {
	messages, err := s.b.expand(m.nodes, nil)
	if err != nil {
		return err
	}
	nodes := make([]*graph.Node, len(messages)) // nil for one that became a constant
	for i, n := range messages {
		if nodes[i], err = s.declare(n, i); err != nil {
			return inNode(n, err)
		}
	}
	for _, h := range m.hints {
		s.hint(h)
	}
	for i, n := range messages {
		if nodes[i] == nil {
			continue
		}
		if err := s.wire(n, nodes[i]); err != nil {
			return inNode(n, err)
		}
		s.g.Nodes = append(s.g.Nodes, nodes[i])
	}
	return nil
}

// define gives a name its one value in this graph.
func (s *scope) define(v *graph.Value) error {
	if v.Name == "" {
		return formatErr("a value has no name")
	}
	if s.values[v.Name] != nil {
		return formatErr("value %q is defined twice", v.Name)
	}
	s.values[v.Name] = v
	return nil
}

func (s *scope) initializers(m *graphMessage) error {
	for _, t := range m.initializers {
		c, err := t.decode(s.b.files)
		if err != nil {
			return err
		}
		if err := s.define(graph.NewConst(t.name, c)); err != nil {
			return fmt.Errorf("initializer: %w", err)
		}
	}
	for _, t := range m.sparse {
		c, err := t.dense(s.b.files)
		if err != nil {
			return err
		}
		if err := s.define(graph.NewConst(t.values.name, c)); err != nil {
			return fmt.Errorf("sparse initializer: %w", err)
		}
	}
	return nil
}

// inputs defines the graph's inputs. Before IR version 4 every initialiser had to be an input as
// well; since weir has no defaults that a caller may override, these are constants.
func (s *scope) inputs(m *graphMessage) error {
	for _, in := range m.inputs {
		if v := s.values[in.name]; v != nil && v.IsConst() {
			continue
		}
		t, err := in.typ.opType()
		if err != nil {
			return fmt.Errorf("input %q: %w", in.name, err)
		}
		v := &graph.Value{Name: in.name, Type: t}
		if err := s.define(v); err != nil {
			return fmt.Errorf("input: %w", err)
		}
		s.g.Inputs = append(s.g.Inputs, v)
	}
	return nil
}

// hint notes the declared type of a value that a node computes. A type that weir does not have is
// left unknown; the operators that compute or read the value report it.
func (s *scope) hint(h *valueMessage) {
	v := s.values[h.name]
	if v == nil || v.Producer == nil || v.Type.DType != tensor.Undefined {
		return
	}
	if t, err := h.typ.opType(); err == nil {
		v.Type = t
	}
}

// outputs resolves the graph's outputs. Their declared shapes are hints like others, as exporters
// write wrong ones.
func (s *scope) outputs(m *graphMessage) error {
	for _, out := range m.outputs {
		if _, err := out.typ.opType(); err != nil {
			return fmt.Errorf("output %q: %w", out.name, err)
		}
		v, err := s.resolve(out.name)
		if err != nil {
			return fmt.Errorf("output %q: %w", out.name, err)
		}
		s.hint(out)
		s.g.Outputs = append(s.g.Outputs, v)
	}
	return nil
}

// declare makes a node with its outputs, so that nodes may be wired in any order. A Constant node
// becomes a constant value, and the node returned is nil.
func (s *scope) declare(m *nodeMessage, i int) (*graph.Node, error) {
	if m.domain == "" && m.op == "Constant" {
		return nil, s.constant(m)
	}
	opsets := s.b.model.opsets
	if m.frame != nil {
		opsets = m.frame.fn.opsets
	}
	version, err := opsetVersion(m, opsets)
	if err != nil {
		return nil, err
	}
	name := m.name
	if name == "" {
		name = unique(s.nodeNames, m.op+"_"+strconv.Itoa(i))
	}
	s.nodeNames[name] = true
	n := &graph.Node{Name: name, Domain: m.domain, Type: m.op, Version: version,
		Row: op.Find(s.b.rows, m.domain, m.op, version)}
	return n, s.results(n, trimmed(m.out))
}

// results defines a node's outputs.
func (s *scope) results(n *graph.Node, outs []string) error {
	n.Out = make([]*graph.Value, len(outs))
	for j, o := range outs {
		if o == "" {
			continue
		}
		v := &graph.Value{Name: o, Producer: n, Index: j}
		if err := s.define(v); err != nil {
			return err
		}
		n.Out[j] = v
	}
	return nil
}

// trimmed drops the empty names at the end: optional operands that are not there.
func trimmed(names []string) []string {
	for len(names) > 1 && names[len(names)-1] == "" {
		names = names[:len(names)-1]
	}
	return names
}

func (s *scope) constant(m *nodeMessage) error {
	if len(m.out) != 1 || len(m.attrs) != 1 {
		return formatErr("a Constant has one output and one attribute, this one has %d and %d",
			len(m.out), len(m.attrs))
	}
	t, err := constantTensor(m.attrs[0], s.b.files)
	if err != nil {
		return err
	}
	return s.define(graph.NewConst(m.out[0], t))
}

// constantTensor gives the value of a Constant node (ONNX operator Constant, version 13).
func constantTensor(a *attrMessage, files *externalFiles) (*tensor.Tensor, error) {
	if a.kind == attrSparse && a.name == "sparse_value" {
		return a.sparse.dense(files)
	}
	v, err := a.plain(files)
	if err != nil {
		return nil, err
	}
	switch {
	case a.name == "value" && v.Kind == op.AttrTensor:
		return v.Tensor, nil
	case a.name == "value_float" && v.Kind == op.AttrFloat:
		return tensor.Scalar(v.Floats[0]), nil
	case a.name == "value_floats" && v.Kind == op.AttrFloats:
		return tensor.From(v.Floats, len(v.Floats)), nil
	case a.name == "value_int" && v.Kind == op.AttrInt:
		return tensor.Scalar(v.Ints[0]), nil
	case a.name == "value_ints" && v.Kind == op.AttrInts:
		return tensor.From(v.Ints, len(v.Ints)), nil
	case a.name == "value_string" && v.Kind == op.AttrString:
		return tensor.FromStrings(v.Strings), nil
	case a.name == "value_strings" && v.Kind == op.AttrStrings:
		return tensor.FromStrings(v.Strings, len(v.Strings)), nil
	}
	return nil, formatErr("a Constant has no attribute %q of type %d", a.name, a.kind)
}

// wire resolves a node's inputs and attributes.
func (s *scope) wire(m *nodeMessage, n *graph.Node) error {
	if err := s.operands(m, n); err != nil {
		return err
	}
	if len(m.attrs) > maxAttrs {
		return formatErr("more than %d attributes", maxAttrs)
	}
	var bodies []*scope
	for _, a := range m.attrs {
		if n.Attrs.Has(a.name) {
			return formatErr("attribute %q is given twice", a.name)
		}
		if a.kind == op.AttrBody && len(bodies) == maxBodies {
			return formatErr("more than %d sub-graphs", maxBodies)
		}
		attr, body, err := s.attribute(a)
		if err != nil {
			return err
		}
		n.Attrs = append(n.Attrs, attr)
		if body != nil {
			bodies = append(bodies, body)
		}
	}
	return s.close(n, bodies)
}

// attribute converts an attribute; that of a sub-graph comes with its scope.
func (s *scope) attribute(a *attrMessage) (op.Attr, *scope, error) {
	if a.ref != "" {
		return op.Attr{}, nil,
			formatErr("attribute %q refers to %q outside of a function", a.name, a.ref)
	}
	if a.kind != op.AttrBody {
		attr, err := a.plain(s.b.files)
		return attr, nil, err
	}
	body, err := s.b.graph(a.g, s)
	if err != nil {
		return op.Attr{}, nil, fmt.Errorf("attribute %q: %w", a.name, err)
	}
	return op.BodyAttr(a.name, body.g), body, nil
}

func (s *scope) operands(m *nodeMessage, n *graph.Node) error {
	for i, name := range trimmed(m.in) {
		if name == "" {
			n.In = append(n.In, nil)
			continue
		}
		v, err := s.resolve(name)
		if err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		n.In = append(n.In, v)
	}
	if len(n.In) == 1 && n.In[0] == nil {
		n.In = nil
	}
	return nil
}

// resolve finds a value by name. A value of an enclosing graph is captured by s and by every graph
// between the two. A constant is copied into s instead of being captured, so that it stays a
// constant there.
func (s *scope) resolve(name string) (*graph.Value, error) {
	if v := s.values[name]; v != nil {
		return v, nil
	}
	if err := s.b.spend(1); err != nil {
		return nil, err
	}
	if c := s.outerConst(name); c != nil {
		v := &graph.Value{Name: name, Type: c.Type}
		return v, s.define(v)
	}
	if s.parent == nil {
		return nil, formatErr("value %q is not defined", name)
	}
	outer, err := s.parent.resolve(name)
	if err != nil {
		return nil, err
	}
	v := &graph.Value{Name: name, Type: outer.Type}
	s.captured = append(s.captured, capture{v, outer})
	return v, s.define(v)
}

func (s *scope) outerConst(name string) *graph.Value {
	for p := s.parent; p != nil; p = p.parent {
		if v := p.values[name]; v != nil {
			if v.IsConst() {
				return v
			}
			return nil
		}
	}
	return nil
}

// close makes the captures of a node's bodies explicit: the node takes their union as trailing
// inputs, and so does every body, by its own names.
func (s *scope) close(n *graph.Node, bodies []*scope) error {
	var union []*graph.Value
	seen := map[*graph.Value]bool{}
	for _, body := range bodies {
		for _, c := range body.captured {
			if !seen[c.outer] {
				seen[c.outer] = true
				union = append(union, c.outer)
			}
		}
	}
	for _, body := range bodies {
		if err := s.b.spend(len(union)); err != nil {
			return err
		}
		body.capture(union)
	}
	n.In = append(n.In, union...)
	n.Captures = len(union)
	return nil
}

// capture adds to a body's inputs one for each outer value that any body of its node uses.
func (s *scope) capture(union []*graph.Value) {
	inner := make(map[*graph.Value]*graph.Value, len(s.captured))
	for _, c := range s.captured {
		inner[c.outer] = c.inner
	}
	for _, outer := range union {
		v := inner[outer]
		if v == nil {
			v = &graph.Value{Name: s.freeName(outer.Name), Type: outer.Type}
		}
		s.g.Inputs = append(s.g.Inputs, v)
	}
	s.g.Captures = len(union)
}

// freeName returns a name for a capture that the body does not use, different from the body's own.
func (s *scope) freeName(name string) string {
	if s.values[name] != nil {
		name = s.b.fresh(name + "_outer")
	}
	s.values[name] = &graph.Value{}
	return name
}
