package onnx

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// fusedDomain is the domain of the operators that weir's own passes make.
const fusedDomain = op.FusedDomain

// weightScale is the index of the input of a fused Conv by which its weights are multiplied. That
// input has one element per output channel.
const weightScale = 4

// fusedInputs gives the inputs of ONNX's operator of the same name; one more is added to the
// result.
var fusedInputs = map[string]int{"Conv": 3, "Gemm": 3, "MatMul": 2}

const (
	// functionIR is the file format version that let functions be overloaded.
	functionIR = 10
	// functionOpset is the oldest operator set that has all that the functions use, but for
	// rounding to a grid.
	functionOpset = 9
	// roundOpset is the oldest operator set with Round, gridOpset that which quantises to 16 bits.
	roundOpset, gridOpset = 11, 21
)

// hasFunction reports whether weir can write a fused node as a function of ONNX's own operators.
func hasFunction(n *graph.Node) bool {
	return fusedInputs[n.Type] > 0 || n.Type == "Silu" || n.Type == "Grid" || n.Type == "Chain"
}

// overload returns which overload of its function a fused node calls, and makes the function on
// first use. weir reads such a node as the operator that it was; other runtimes expand the
// function, which is the operator's definition in internal/op, part after part.
func (w *writer) overload(n *graph.Node) (string, error) {
	least := functionOpset
	if n.Type == "Grid" || n.Type == "Chain" || n.Attrs.String("activation", "") == "Grid" {
		least = roundOpset
	}
	if w.opset < least {
		return "", fmt.Errorf("%v: %w: writing it needs opset %d, the model has %d", n, ErrOpset,
			least, w.opset)
	}
	d := tensor.Float32
	if t := n.Out[0]; t != nil && t.Type.DType.IsFloat() {
		d = t.Type.DType
	}
	key := functionOf(n, d)
	if name, ok := w.overloads[key]; ok {
		return name, nil
	}
	name := strconv.Itoa(len(w.overloads))
	f, err := w.function(n, name, d)
	if err != nil {
		return "", err
	}
	w.overloads[key], w.functions = name, append(w.functions, f)
	return name, nil
}

// functionOf tells the functions of fused nodes apart.
func functionOf(n *graph.Node, d tensor.DType) string {
	key := fmt.Sprint(n.Type, d, len(n.In))
	for _, v := range n.In {
		key += fmt.Sprint(v != nil)
	}
	if n.Type == "Grid" {
		key += fmt.Sprint(n.In[2].Type.DType, n.In[1].Type.Shape, len(n.In[0].Type.Shape))
	}
	if len(n.In) > weightScale {
		key += fmt.Sprint(len(n.In[1].Type.Shape))
	}
	for _, a := range n.Attrs {
		key += " " + a.Name + ":" + strconv.Itoa(int(a.Kind))
		if strings.HasPrefix(a.Name, "activation") || a.Name == "transB" || n.Type == "Chain" {
			key += fmt.Sprint(a.Ints, a.Floats, a.Strings)
		}
	}
	return key
}

// function writes the FunctionProto of a fused node.
func (w *writer) function(n *graph.Node, overload string, d tensor.DType) (*message, error) {
	f := &functionBody{m: &message{}, d: d, opset: w.opset}
	f.m.str(1, n.Type)
	var ins []string
	for i, v := range n.In {
		f.m.str(4, "in"+strconv.Itoa(i))
		ins = append(ins, "")
		if v != nil {
			ins[i] = "in" + strconv.Itoa(i)
		}
	}
	for _, a := range n.Attrs {
		f.m.str(6, a.Name)
	}
	y, err := f.parts(n, ins)
	if err != nil {
		return nil, err
	}
	f.m.str(5, y)
	set := &message{}
	set.str(1, "")
	set.int(2, int64(w.opset))
	f.m.nest(9, set)
	f.m.str(10, fusedDomain)
	f.m.str(13, overload)
	return f.m, nil
}

// functionBody writes the nodes of a function; each method returns the name of its result.
type functionBody struct {
	m     *message
	d     tensor.DType
	opset int
	n     int
}

// parts writes the operator, what is added to it and the activation.
func (f *functionBody) parts(n *graph.Node, ins []string) (string, error) {
	if n.Type == "Silu" {
		return f.call("Mul", nil, ins[0], f.call("Sigmoid", nil, ins[0])), nil
	}
	if n.Type == "Grid" {
		return f.gridNode(n, ins)
	}
	if n.Type == "Chain" {
		return f.chain(n, ins[0]), nil
	}
	own := fusedInputs[n.Type]
	if len(ins) > weightScale && ins[weightScale] != "" {
		ins[1] = f.scaled(ins[1], ins[weightScale], len(n.In[1].Type.Shape))
	}
	if n.Type == "MatMul" && n.Attrs.Bool("transB", false) {
		ins[1] = f.call("Transpose", nil, ins[1])
	}
	y := f.call(n.Type, referred(n), trimmed(ins[:min(own, len(ins))])...)
	if len(ins) > own && ins[own] != "" {
		y = f.call("Add", nil, y, ins[own])
	}
	name := n.Attrs.String("activation", "")
	if name == "" {
		return y, nil
	}
	return f.activation(n, name, y)
}

// referred are the attributes of the product in a fused operator, each of which refers to that of
// the call.
func referred(n *graph.Node) (attrs []*message) {
	for _, a := range n.Attrs {
		if !strings.HasPrefix(a.Name, "activation") && !(n.Type == "MatMul" && a.Name == "transB") {
			r := &message{}
			r.str(1, a.Name)
			r.str(21, a.Name)
			r.int(20, int64(a.Kind))
			attrs = append(attrs, r)
		}
	}
	return attrs
}

// scaled multiplies weights of a rank by the scale of each of their rows.
func (f *functionBody) scaled(weights, scale string, rank int) string {
	shape := slices.Repeat([]int64{1}, max(1, rank))
	shape[0] = -1
	by := f.call("Constant",
		[]*message{attrProto(op.TensorAttr("value", tensor.From(shape, len(shape))))})
	return f.call("Mul", nil, weights, f.call("Reshape", nil, scale, by))
}

// clip writes Clip without the bounds that are infinite.
func (f *functionBody) clip(x string, lo, hi float32) string {
	if !math.IsInf(float64(lo), -1) {
		x = f.call("Max", nil, x, f.scalar(float64(lo)))
	}
	if !math.IsInf(float64(hi), 1) {
		x = f.call("Min", nil, x, f.scalar(float64(hi)))
	}
	return f.call("Identity", nil, x)
}

// activation writes an activation of op.NewFusedActivation.
func (f *functionBody) activation(n *graph.Node, name, x string) (string, error) {
	param := func(suffix string, def float32) float32 {
		return n.Attrs.Float("activation_"+suffix, def)
	}
	inf := float32(math.Inf(1))
	switch name {
	case "Relu", "Sigmoid", "Tanh":
		return f.call(name, nil, x), nil
	case "LeakyRelu":
		return f.call(name, []*message{attrProto(op.FloatAttr("alpha", param("alpha", 0.01)))}, x),
			nil
	case "HardSigmoid":
		return f.hardSigmoid(x, param("alpha", 0.2), param("beta", 0.5)), nil
	case "HardSwish":
		return f.call("Mul", nil, x, f.hardSigmoid(x, 1.0/6, 0.5)), nil
	case "Silu":
		return f.call("Mul", nil, x, f.call("Sigmoid", nil, x)), nil
	case "Grid":
		lo := param("beta", math.MinInt16)
		return f.grid(x, param("alpha", 1), lo, param("gamma", lo+math.MaxUint16)), nil
	case "Clip":
		return f.clip(x, param("alpha", -inf), param("beta", inf)), nil
	case "Gelu":
		return f.gelu(x, f.call("Erf", nil, f.call("Mul", nil, x, f.scalar(1/math.Sqrt2)))), nil
	case "GeluTanh":
		return f.geluTanh(x), nil
	}
	return "", fmt.Errorf("%v: %w: activation %q has no form in ONNX's own operators", n,
		op.ErrUnsupported, name)
}

// geluTanh is Gelu with a hyperbolic tangent for the error function.
func (f *functionBody) geluTanh(x string) string {
	cubed := f.call("Mul", nil, f.call("Mul", nil, x, x), x)
	sum := f.call("Add", nil, x, f.call("Mul", nil, cubed, f.scalar(0.044715)))
	return f.gelu(x, f.call("Tanh", nil,
		f.call("Mul", nil, sum, f.scalar(math.Sqrt(2/math.Pi)))))
}

// gelu writes 0.5·x·(1 + t).
func (f *functionBody) gelu(x, t string) string {
	half := f.call("Mul", nil, x, f.scalar(0.5))
	return f.call("Mul", nil, half, f.call("Add", nil, t, f.scalar(1)))
}

func (f *functionBody) hardSigmoid(x string, alpha, beta float32) string {
	return f.call("HardSigmoid",
		[]*message{attrProto(op.FloatAttr("alpha", alpha)), attrProto(op.FloatAttr("beta", beta))},
		x)
}

// scalar writes a constant of the function's element type.
func (f *functionBody) scalar(v float64) string {
	var t *tensor.Tensor
	switch f.d {
	case tensor.Float64:
		t = tensor.Scalar(v)
	case tensor.Float16:
		t = tensor.Scalar(tensor.HalfOf(float32(v)))
	case tensor.BFloat16:
		t = tensor.Scalar(tensor.BHalfOf(float32(v)))
	default:
		t = tensor.Scalar(float32(v))
	}
	return f.call("Constant", []*message{attrProto(op.TensorAttr("value", t))})
}

// call writes one node.
func (f *functionBody) call(typ string, attrs []*message, ins ...string) string {
	const nodeField protowire.Number = 7
	m := &message{}
	for _, in := range ins {
		m.str(1, in)
	}
	f.n++
	y := "t" + strconv.Itoa(f.n)
	m.str(2, y)
	m.str(4, typ)
	for _, a := range attrs {
		m.nest(5, a)
	}
	f.m.nest(nodeField, m)
	return y
}
