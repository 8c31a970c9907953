package main

import (
	"errors"
	"math/rand/v2"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// mixed is the graph of a network that is written down node by node.
type mixed struct {
	g   *graph.Graph
	rng *rand.Rand
	err error
}

// add adds a node whose result number out is returned, the only one that is asked for.
func (m *mixed) add(typ, name string, out int, attrs op.Attrs, in ...*graph.Value) *graph.Value {
	names := make([]string, out+1)
	names[out] = name
	n := graph.NewNode(name, typ, m.g.Opsets[""], attrs, in, names...)
	m.err = errors.Join(m.err, n.InferTypes())
	m.g.Nodes = append(m.g.Nodes, n)
	return n.Out[out]
}

// weights are random.
func (m *mixed) weights(name string, shape ...int) *graph.Value {
	t, err := tensor.New(tensor.Float32, shape...)
	if err != nil {
		m.err = errors.Join(m.err, err)
		return nil
	}
	for i := range tensor.As[float32](t) {
		tensor.As[float32](t)[i] = float32(m.rng.NormFloat64()) / 8
	}
	return graph.NewConst(name, t)
}

// reshape gives a value another shape.
func (m *mixed) reshape(name string, v *graph.Value, shape ...int64) *graph.Value {
	return m.add("Reshape", name, 0, nil, v, graph.NewConst(name+"/shape", tensor.From(shape,
		len(shape))))
}

// images are the convolutions and the pooling of the network, as features of samples.
func (m *mixed) images(x *graph.Value) *graph.Value {
	around := op.Attrs{op.IntsAttr("pads", 1, 1, 1, 1), op.IntsAttr("kernel_shape", 3, 3)}
	x = m.add("Conv", "c1", 0, around, x, m.weights("w1", 16, 1, 3, 3))
	x = m.add("Relu", "r1", 0, nil, x)
	x = m.add("Conv", "c2", 0, around, x, m.weights("w2", 32, 16, 3, 3))
	x = m.add("MaxPool", "p2", 0, append(op.Attrs{op.IntsAttr("strides", 2, 2)}, around...), x)
	x = m.add("Conv", "c3", 0, around, x, m.weights("w3", 32, 32, 3, 3))
	x = m.reshape("flat", m.add("Relu", "r3", 0, nil, x), 0, -1)
	return m.add("MatMul", "image/features", 0, nil, x, m.weights("w4", 32*16, 32))
}

// rows are an embedding of pixels and two recurrent layers over the rows of images.
func (m *mixed) rows(x *graph.Value) *graph.Value {
	x = m.add("Mul", "levels", 0, nil, x, graph.NewConst("sixteen", tensor.Scalar(float32(16))))
	x = m.add("Cast", "pixels", 0, op.Attrs{op.IntAttr("to", int64(tensor.Int64))},
		m.reshape("grid", x, 0, 8, 8))
	x = m.add("Gather", "embedded", 0, nil, m.weights("table", 17, 4), x)
	x = m.add("Transpose", "steps", 0, op.Attrs{op.IntsAttr("perm", 1, 0, 2)},
		m.reshape("rows", x, 0, 8, 32))
	x = m.add("LSTM", "lstm", 0, op.Attrs{op.IntAttr("hidden_size", 24),
		op.StringAttr("direction", "bidirectional")}, x, m.weights("lstm/w", 2, 96, 32),
		m.weights("lstm/r", 2, 96, 24), m.weights("lstm/b", 2, 192))
	x = m.add("Transpose", "both", 0, op.Attrs{op.IntsAttr("perm", 0, 2, 1, 3)}, x)
	x = m.add("GRU", "gru", 1, op.Attrs{op.IntAttr("hidden_size", 32),
		op.IntAttr("linear_before_reset", 1)}, m.reshape("joined", x, 0, 0, 48),
		m.weights("gru/w", 1, 96, 48), m.weights("gru/r", 1, 96, 32), m.weights("gru/b", 1, 192))
	return m.reshape("row/features", x, -1, 32)
}

// writeMixed writes a classifier of images of 64 pixels of as many kinds of layers as have a
// gradient of their own: convolutions of which one gives another's the weights turned around,
// pooling, recurrent layers, and an embedding that most of a batch looks up in the same rows.
func writeMixed(path string) error {
	m := &mixed{g: &graph.Graph{Name: "mixed", Opsets: map[string]int{"": 17}},
		rng: rand.New(rand.NewPCG(3, 4))}
	x := &graph.Value{Name: "image", Type: op.Ranked(tensor.Float32, op.Sym("n"), op.Known(1),
		op.Known(8), op.Known(8))}
	m.g.Inputs = []*graph.Value{x}
	x = m.add("Concat", "features", 0, op.Attrs{op.IntAttr("axis", 1)}, m.images(x), m.rows(x))
	m.g.Outputs = []*graph.Value{m.add("MatMul", "scores", 0, nil, x, m.weights("last", 64, 10))}
	if m.err != nil {
		return m.err
	}
	return onnx.WriteFile(path, m.g, onnx.WriteOptions{})
}
