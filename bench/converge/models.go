package main

import (
	"errors"
	"fmt"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// census are the sizes of the adult data.
type census struct {
	Categories int `json:"categories"` // values, through all columns
	Columns    int `json:"columns"`    // of categories
	Numbers    int `json:"numbers"`    // columns of numbers
	Samples    int `json:"samples"`
}

// width is that of the vectors of categories.
const width = 8

// network is a graph under construction.
type network struct {
	g   *graph.Graph
	err error
}

func (n *network) op(typ, name string, attrs op.Attrs, in ...*graph.Value) *graph.Value {
	node := graph.NewNode(name, typ, 17, attrs, in, name)
	n.err = errors.Join(n.err, node.InferTypes())
	n.g.Nodes = append(n.g.Nodes, node)
	return node.Out[0]
}

// weight is a constant whose numbers do not matter: recipes draw them.
func (n *network) weight(name string, shape ...int) *graph.Value {
	t, err := tensor.New(tensor.Float32, shape...)
	n.err = errors.Join(n.err, err)
	if err == nil {
		v := tensor.As[float32](t)
		for i := range v {
			v[i] = float32(i%7) / 100 // not all alike, which could be shared by chance
		}
	}
	return graph.NewConst(name, t)
}

func ints(name string, v ...int64) *graph.Value {
	return graph.NewConst(name, tensor.From(v, len(v)))
}

// writeWideDeep writes a network as Cheng et al. 2016 ("Wide & deep learning for recommender
// systems") have it: a linear model of categories beside a network of their vectors and numbers.
func writeWideDeep(path string, of census) error {
	n := &network{g: &graph.Graph{Name: "widedeep", Opsets: map[string]int{"": 17}}}
	in := func(name string, d tensor.DType, columns int) *graph.Value {
		v := &graph.Value{Name: name, Type: op.Ranked(d, op.Sym("n"), op.Known(columns))}
		n.g.Inputs = append(n.g.Inputs, v)
		return v
	}
	numbers := in("numbers", tensor.Float32, of.Numbers)
	categories := in("categories", tensor.Int64, of.Columns)
	vectors := n.op("Gather", "vectors", nil, n.weight("table", of.Categories, width), categories)
	x := n.op("Concat", "deep", op.Attrs{op.IntAttr("axis", 1)},
		n.op("Reshape", "flat", nil, vectors, ints("shape", 0, int64(of.Columns*width))), numbers)
	from := of.Columns*width + of.Numbers
	for i, to := range []int{64, 32, 1} {
		x = n.op("Gemm", fmt.Sprint("layer", i), op.Attrs{op.IntAttr("transB", 1)}, x,
			n.weight(fmt.Sprint("w", i), to, from), n.weight(fmt.Sprint("b", i), to))
		if from = to; to > 1 {
			x = n.op("Relu", fmt.Sprint("relu", i), nil, x)
		}
	}
	wide := n.op("Gather", "linear", nil, n.weight("wide", of.Categories, 1), categories)
	sum := n.op("ReduceSum", "sum", op.Attrs{op.IntAttr("keepdims", 0)}, wide, ints("axis", 1))
	n.g.Outputs = []*graph.Value{n.op("Add", "score", nil, x, sum)}
	if n.err != nil {
		return n.err
	}
	return onnx.WriteFile(path, n.g, onnx.WriteOptions{})
}
