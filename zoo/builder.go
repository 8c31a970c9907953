package zoo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Names of parameters end as PyTorch's modules call them.
const (
	weightSuffix = ".weight"
	biasSuffix   = ".bias"
)

// export is a graph in the making.
type export struct {
	g       *graph.Graph
	opset   int
	seed    uint64
	named   map[string]int // how many nodes have the name, up to the number that sets them apart
	weights []weight
}

// builder adds the nodes of one module of a network, and of the modules inside it, to an export.
// Nodes are named after the path of modules that they belong to, as torch.onnx names them:
// "/layer1/layer1.0/conv1/Conv".
type builder struct {
	*export
	path   string // of nodes: "/layer1/layer1.0/conv1"
	prefix string // of parameters: "layer1.0.conv1"
}

// defaultOpset is torch.onnx's of the years in which most models that are around were exported.
const defaultOpset = 14

func newBuilder(name string, seed uint64) *builder {
	g := &graph.Graph{Name: name, Opsets: map[string]int{"": defaultOpset}}
	return &builder{export: &export{g: g, opset: defaultOpset, seed: seed, named: map[string]int{}}}
}

// useOpset changes the operator set version; it comes before any node.
func (b *builder) useOpset(version int) {
	b.opset = version
	b.g.Opsets[""] = version
}

// in returns the builder of a module that the current one holds.
func (b *builder) in(module string) *builder {
	return &builder{b.export, b.path + "/" + module, strings.TrimPrefix(b.prefix+"."+module, ".")}
}

// at returns the builder of element i of the current module, a sequence: its elements repeat its
// name.
func (b *builder) at(i int) *builder {
	last := b.path[strings.LastIndexByte(b.path, '/')+1:]
	return &builder{b.export, fmt.Sprintf("%s/%s.%d", b.path, last, i),
		fmt.Sprintf("%s.%d", b.prefix, i)}
}

// unique numbers the second and further values or nodes of a name.
func (b *builder) unique(name string) string {
	n := b.named[name]
	b.named[name]++
	if n == 0 {
		return name
	}
	return fmt.Sprintf("%s_%d", name, n)
}

// input adds a graph input.
func (b *builder) input(name string, d tensor.DType, shape ...op.Dim) *graph.Value {
	v := &graph.Value{Name: name, Type: op.Ranked(d, shape...)}
	b.g.Inputs = append(b.g.Inputs, v)
	return v
}

// output makes v an output of the graph under the given name; the shape is declared, as exporters
// do.
func (b *builder) output(v *graph.Value, name string, shape ...op.Dim) {
	v.Name = name
	v.Type = op.Ranked(tensor.Float32, shape...)
	b.g.Outputs = append(b.g.Outputs, v)
}

// op adds a node with one output and no attributes.
func (b *builder) op(typ string, in ...*graph.Value) *graph.Value {
	return b.opWith(typ, nil, in...)
}

// opWith adds a node with one output.
func (b *builder) opWith(typ string, attrs op.Attrs, in ...*graph.Value) *graph.Value {
	return b.node(typ, 1, attrs, in...)[0]
}

// node adds a node with n outputs.
func (b *builder) node(typ string, n int, attrs op.Attrs, in ...*graph.Value) []*graph.Value {
	name := b.unique(b.path + "/" + typ)
	outs := make([]string, n)
	for i := range outs {
		outs[i] = fmt.Sprintf("%s_output_%d", name, i)
	}
	node := graph.NewNode(name, typ, b.opset, attrs, in, outs...)
	b.g.Nodes = append(b.g.Nodes, node)
	return node.Out
}

// param adds a weight or bias of the current module, or a running statistic.
func (b *builder) param(name string, from distribution, shape ...int) *graph.Value {
	full := strings.TrimPrefix(b.prefix+"."+name, ".")
	t := &tensor.Tensor{DType: tensor.Float32, Shape: slices.Clone(shape)}
	b.weights = append(b.weights, weight{full, t, from})
	return graph.NewConst(full, t)
}

// constant adds a value that the exporter writes as a Constant node.
func (b *builder) constant(t *tensor.Tensor) *graph.Value {
	return graph.NewConst(b.unique(b.path+"/Constant")+"_output_0", t)
}

// float is a constant of rank 0.
func (b *builder) float(v float32) *graph.Value { return b.constant(tensor.Scalar(v)) }

// int is a constant of rank 0.
func (b *builder) int(v int64) *graph.Value { return b.constant(tensor.Scalar(v)) }

// ints is a constant of rank 1.
func (b *builder) ints(v ...int64) *graph.Value { return b.constant(tensor.From(v, len(v))) }

// axis is the attribute of that name.
func axis(i int64) op.Attrs { return op.Attrs{op.IntAttr("axis", i)} }

func (b *builder) concat(i int64, in ...*graph.Value) *graph.Value {
	return b.opWith("Concat", axis(i), in...)
}

func (b *builder) unsqueeze(x *graph.Value, axis int64) *graph.Value {
	return b.op("Unsqueeze", x, b.ints(axis))
}

func (b *builder) reshape(x, shape *graph.Value) *graph.Value {
	return b.opWith("Reshape", op.Attrs{op.IntAttr("allowzero", 0)}, x, shape)
}

func (b *builder) transpose(x *graph.Value, perm ...int64) *graph.Value {
	return b.opWith("Transpose", op.Attrs{op.IntsAttr("perm", perm...)}, x)
}

func (b *builder) cast(x *graph.Value, to tensor.DType) *graph.Value {
	return b.opWith("Cast", op.Attrs{op.IntAttr("to", int64(to))}, x)
}

// split cuts x along an axis into parts of the given sizes.
func (b *builder) split(x *graph.Value, i int64, sizes ...int64) []*graph.Value {
	return b.node("Split", len(sizes), axis(i), x, b.ints(sizes...))
}

// dim is size i of x's shape, of rank 0. Exporters ask for the shape anew each time.
func (b *builder) dim(x *graph.Value, i int64) *graph.Value {
	return b.opWith("Gather", axis(0), b.op("Shape", x), b.int(i))
}
