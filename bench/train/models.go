package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// folder has the digits: the data of all models, and the model of one.
const folder = "examples/digits/"

// batch is how many samples an update takes.
const batch = 64

// subject is a model that both train. Its weights have the same names in eager.py.
type subject struct {
	name   string
	text   string // its nodes; weights are the inputs but x
	file   string // in which PyTorch wrote it; such models begin with the weights in it
	shape  []int  // of a batch
	exact  []int  // of one that is compared in float64, of models that PyTorch writes
	tokens int    // of a model of text, whose samples are numbers of them; 0 for others
	turn   int    // updates that are timed in a row
}

// subjects take an image of 8 by 8, flat, or as a sequence of rows.
var subjects = []subject{
	{name: "digits", shape: []int{batch, 1, 8, 8}, turn: 40},
	{name: "mlp", text: `input %fc1.weight: float32[128,64]
input %fc1.bias: float32[128]
input %fc2.weight: float32[64,128]
input %fc2.bias: float32[64]
input %fc3.weight: float32[10,64]
input %fc3.bias: float32[10]
%a = Gemm@13 (%x, %fc1.weight, %fc1.bias) {transB=1}
%b = Relu@14 (%a)
%c = Gemm@13 (%b, %fc2.weight, %fc2.bias) {transB=1}
%d = Relu@14 (%c)
%y = Gemm@13 (%d, %fc3.weight, %fc3.bias) {transB=1}
`, shape: []int{batch, 64}, turn: 40},
	{name: "attention", text: `input %query: float32[8,32]
input %key: float32[8,32]
input %value: float32[8,32]
input %norm.weight: float32[32]
input %norm.bias: float32[32]
input %fc.weight: float32[10,32]
input %fc.bias: float32[10]
%q = MatMul@13 (%x, %query)
%k = MatMul@13 (%x, %key)
%v = MatMul@13 (%x, %value)
%t = Transpose@13 (%k) {perm=[0, 2, 1]}
%s = MatMul@13 (%q, %t)
%p = Softmax@13 (%s) {axis=-1}
%o = MatMul@13 (%p, %v)
%n = LayerNormalization@17 (%o, %norm.weight, %norm.bias) {axis=-1}
%m = ReduceMean@13 (%n) {axes=[1], keepdims=0}
%y = Gemm@13 (%m, %fc.weight, %fc.bias) {transB=1}
`, shape: []int{batch, 8, 8}, turn: 40},
	{name: "lstm", text: `input %lstm.W: float32[1,512,8]
input %lstm.R: float32[1,512,128]
input %lstm.B: float32[1,1024]
input %fc.weight: float32[10,128]
input %fc.bias: float32[10]
%t = Transpose@13 (%x) {perm=[1, 0, 2]}
%all, %h, %c = LSTM@14 (%t, %lstm.W, %lstm.R, %lstm.B) {hidden_size=128}
%axes = Constant@13 () {value_ints=[0]}
%s = Squeeze@13 (%h, %axes)
%y = Gemm@13 (%s, %fc.weight, %fc.bias) {transB=1}
`, shape: []int{batch, 8, 8}, turn: 40},
}

// graph returns the model; the caller calls done when it is no longer used.
func (s *subject) graph() (g *graph.Graph, done func() error, err error) {
	if s.file != "" {
		return s.exported()
	}
	if s.text == "" {
		m, err := onnx.Open(folder+"digits.onnx", onnx.Options{})
		if err != nil {
			return nil, nil, err
		}
		return m.Graph, m.Close, nil
	}
	dims := strings.ReplaceAll(strings.Trim(fmt.Sprint(s.shape), "[]"), " ", ",")
	g, err = graph.Parse(fmt.Sprintf("graph %q {\nopset \"\" 17\ninput %%x: float32[%s]\n%s"+
		"output %%y\n}", s.name, dims, s.text))
	if err != nil {
		return nil, nil, err
	}
	for _, v := range g.Inputs[1:] {
		shape, _ := v.Type.Ints()
		t, err := tensor.New(tensor.Float32, shape...)
		if err != nil {
			return nil, nil, err
		}
		*v = *graph.NewConst(v.Name, t)
	}
	g.Inputs = g.Inputs[:1]
	return g, func() error { return nil }, g.Check()
}

// draw returns what a weight begins as.
func draw(p step.Param, r *rand.Rand) []float32 {
	v := make([]float32, p.Start.Len())
	for i := range v {
		switch p.Role {
		case step.Product:
			v[i] = float32(r.NormFloat64() * math.Sqrt(2/float64(max(p.Fan, 1))))
		case step.Scale, step.Variance:
			v[i] = 1
		}
	}
	return v
}

// worst is the largest difference of numbers in parts of those that are wanted.
func worst(got, want []float64) float64 {
	most := 0.0
	for i, v := range want {
		if d := math.Abs(got[i]-v) / math.Abs(v); !(d <= most) {
			most = d
		}
	}
	return most
}
