package steps

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// opset is the version of ONNX's operators that steps are made of, and domain that of weir's own.
const (
	opset  = 21
	domain = "weir.steps"
)

// Join makes one model of a model and its steps, and takes it over, also where that fails. Files
// beside the model are read by read, of so many bytes at most. Inputs that no chain feeds and
// outputs that none reads are the model's own. The error is of kind ErrSteps, or that of weir.Join.
func (f *File) Join(name string, m *weir.Model, read func(path string, most int64) ([]byte, error),
	opts ...weir.Option) (*weir.Model, error) {
	j := &joiner{file: f, model: m, read: read}
	parts, outputs, err := j.parts(name)
	if err != nil {
		for _, p := range parts {
			err = errors.Join(err, p.Model.Close())
		}
		return nil, fmt.Errorf("%w: %w", ErrSteps, err)
	}
	return weir.Join(name, parts, outputs, opts...)
}

// joiner joins a model and its steps.
type joiner struct {
	file  *File
	model *weir.Model
	read  func(path string, most int64) ([]byte, error)
}

// parts are the model, and what stands in front of it and behind it. They are to be closed where
// there is an error.
func (j *joiner) parts(name string) (parts []weir.Part, outputs []string, err error) {
	own := weir.Part{Name: name, Model: j.model, Inputs: map[string]string{},
		Outputs: map[string]string{}}
	parts = []weir.Part{own}
	for _, v := range j.model.Inputs() {
		own.Inputs[v.Name] = v.Name
	}
	for _, v := range j.model.Outputs() {
		own.Outputs[v.Name] = v.Name
	}
	add := func(b *builder, part string) (weir.Part, error) {
		m, err := b.load()
		if err != nil {
			return weir.Part{}, err
		}
		p := weir.Part{Name: part, Model: m, Inputs: map[string]string{},
			Outputs: map[string]string{}}
		for _, v := range b.g.Inputs {
			p.Inputs[v.Name] = v.Name
		}
		for _, v := range b.g.Outputs {
			p.Outputs[v.Name] = v.Name
		}
		parts = append(parts, p)
		return p, nil
	}
	if len(j.file.Pre) > 0 {
		b, err := j.pre()
		if err != nil {
			return parts, nil, err
		}
		p, err := add(b, "pre")
		if err != nil {
			return parts, nil, err
		}
		for _, v := range b.g.Outputs {
			to := b.feeds[v.Name]
			p.Outputs[v.Name], own.Inputs[to] = "pre/"+to, "pre/"+to
		}
	}
	taken := map[string]bool{}
	if len(j.file.Post) > 0 {
		b, err := j.post()
		if err != nil {
			return parts, nil, err
		}
		p, err := add(b, "post")
		if err != nil {
			return parts, nil, err
		}
		for _, v := range b.g.Inputs {
			p.Inputs[v.Name], own.Outputs[v.Name] = "raw/"+v.Name, "raw/"+v.Name
			taken[v.Name] = true
		}
		for _, v := range b.g.Outputs {
			outputs = append(outputs, v.Name)
		}
	}
	for _, v := range j.model.Outputs() {
		if !taken[v.Name] {
			outputs = append(outputs, v.Name)
		}
	}
	return parts, outputs, nil
}

// builder makes the graph of one side.
type builder struct {
	g     *graph.Graph
	ops   []weir.Operator
	named map[string]*graph.Value
	feeds map[string]string // inputs of the model, by the output of the graph
	n     int
}

func newBuilder(name string) *builder {
	return &builder{g: &graph.Graph{Name: name, Opsets: map[string]int{"": opset, domain: 1}},
		named: map[string]*graph.Value{}, feeds: map[string]string{}}
}

// load makes a model of the graph.
func (b *builder) load() (*weir.Model, error) {
	var file bytes.Buffer
	if err := onnx.Write(&file, b.g, onnx.WriteOptions{}); err != nil {
		return nil, err
	}
	return weir.Load(file.Bytes(), weir.WithOperators(b.ops...))
}

// input adds an input of the graph.
func (b *builder) input(name string, t op.Type) *graph.Value {
	v := &graph.Value{Name: name, Type: t}
	b.g.Inputs = append(b.g.Inputs, v)
	b.named[name] = v
	return v
}

// output makes a value an output of the graph, under a name.
func (b *builder) output(v *graph.Value, name string) error {
	if slices.ContainsFunc(b.g.Outputs, func(o *graph.Value) bool { return o.Name == name }) {
		return fmt.Errorf("output %q is there twice", name)
	}
	out := b.node("Identity", nil, 1, v)[0]
	out.Name = name
	b.g.Outputs = append(b.g.Outputs, out)
	return nil
}

// node adds an operator of ONNX's.
func (b *builder) node(typ string, attrs op.Attrs, outputs int, in ...*graph.Value) []*graph.Value {
	b.n++
	var names []string
	for i := range outputs {
		names = append(names, fmt.Sprintf("v%d.%d", b.n, i))
	}
	n := graph.NewNode(fmt.Sprintf("%s%d", typ, b.n), typ, opset, attrs, in, names...)
	b.g.Nodes = append(b.g.Nodes, n)
	return n.Out
}

// one is node for one output.
func (b *builder) one(typ string, attrs op.Attrs, in ...*graph.Value) *graph.Value {
	return b.node(typ, attrs, 1, in...)[0]
}

// own adds an operator of weir's own, which no other node is.
func (b *builder) own(o weir.Operator, in ...*graph.Value) []*graph.Value {
	o.Domain, o.Inputs = domain, len(in)
	o.Name = fmt.Sprintf("%s%d", o.Name, len(b.ops)+1)
	b.ops = append(b.ops, o)
	out := b.node(o.Name, nil, max(o.Outputs, 1), in...)
	out[0].Producer.Domain, out[0].Producer.Version = domain, 1
	return out
}

// constant adds a constant.
func (b *builder) constant(t *tensor.Tensor) *graph.Value {
	b.n++
	return graph.NewConst(fmt.Sprintf("c%d", b.n), t)
}

func (b *builder) ints(values ...int64) *graph.Value {
	return b.constant(tensor.From(values, len(values)))
}

// typeOf is what a model says of a value.
func typeOf(v weir.ValueInfo) op.Type {
	if v.Type.Shape == nil {
		return op.Unranked(v.Type.DType)
	}
	dims := []op.Dim{}
	for _, d := range v.Type.Shape {
		switch {
		case d.Size >= 0:
			dims = append(dims, op.Known(d.Size))
		case d.Name != "":
			dims = append(dims, op.Sym(d.Name))
		default:
			dims = append(dims, op.Unknown())
		}
	}
	return op.Ranked(v.Type.DType, dims...)
}

// info is the input or output of a name.
func info(list []weir.ValueInfo, name string) (weir.ValueInfo, error) {
	i := slices.IndexFunc(list, func(v weir.ValueInfo) bool { return v.Name == name })
	if i < 0 {
		var names []string
		for _, v := range list {
			names = append(names, v.Name)
		}
		return weir.ValueInfo{}, fmt.Errorf("the model has no %q; it has %q", name, names)
	}
	return list[i], nil
}
