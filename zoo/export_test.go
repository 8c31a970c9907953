package zoo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// exports describes what torch.onnx (torch 2.2.2, training=PRESERVE on a model in inference mode)
// writes for the reference implementations: torchvision 0.17.2, ultralytics 8.2.103 and
// transformers 4.40.2.
var exports = map[string]struct {
	parameters int
	census     map[string]int
	// same is how many leading nodes are to be the exporter's, and print the fingerprint of those
	// in its file.
	same  int
	print string
}{
	"resnet50": {25_557_032, map[string]int{
		"Conv": 53, "BatchNormalization": 53, "Relu": 49, "Add": 16, "MaxPool": 1,
		"GlobalAveragePool": 1, "Flatten": 1,
		"Gemm": 1,
	}, 175, "bcab3bc6cb63919b"},
	"mobilenetv2": {3_504_872, map[string]int{
		"Conv": 52, "BatchNormalization": 52, "Clip": 35, "Add": 10, "GlobalAveragePool": 1,
		"Flatten": 1, "Gemm": 1,
	}, 152, "95f9ac2bba4c4dd8"},
	"yolov8n": {3_157_200, map[string]int{
		"Conv": 64, "BatchNormalization": 57, "Sigmoid": 58, "Mul": 60, "Split": 9, "Concat": 19,
		"Add": 9, "MaxPool": 3,
		"Resize": 2, "Reshape": 5, "Transpose": 1, "Softmax": 1, "Slice": 2, "Sub": 2, "Div": 2,
		"Shape": 1, "Gather": 1,
	}, 296, "0c2e4c280b3d3796"},
	"bert-base": {109_482_240, map[string]int{
		"Add": 172, "Gather": 101, "Unsqueeze": 99, "Shape": 97, "MatMul": 96, "ReduceMean": 50,
		"Mul": 50, "Div": 49,
		"Transpose": 48, "Reshape": 48, "Concat": 48, "Sub": 26, "Sqrt": 25, "Pow": 25,
		"Softmax": 12, "Erf": 12, "Tanh": 1,
		"Slice": 1, "Gemm": 1, "Cast": 1,
	}, 962, "aa212733b415da87"},
	"minilm-l6": {22_713_216, map[string]int{
		"Add": 88, "Gather": 53, "Unsqueeze": 51, "Shape": 49, "MatMul": 48, "ReduceMean": 26,
		"Mul": 26, "Div": 25,
		"Transpose": 24, "Reshape": 24, "Concat": 24, "Sub": 14, "Sqrt": 13, "Pow": 13,
		"Softmax": 6, "Erf": 6, "Tanh": 1,
		"Slice": 1, "Gemm": 1, "Cast": 1,
	}, 494, "8232480ad74930fe"},
	// One Transpose more than torch.onnx: it stores the token embedding a second time, transposed,
	// for the last MatMul. Exporters that keep tied weights tied write this Transpose, and a file
	// that is a quarter smaller.
	"gpt2": {124_439_808, map[string]int{
		"Unsqueeze": 283, "Shape": 279, "Gather": 196, "Reshape": 147, "Concat": 147, "Add": 123,
		"Slice": 109, "Squeeze": 85,
		"Mul": 74, "Transpose": 60 + 1, "ReduceMean": 50, "Pow": 49, "Gemm": 48, "Sub": 38,
		"Cast": 38, "Div": 37, "Sqrt": 25,
		"MatMul": 25, "Where": 12, "Tanh": 12, "Split": 12, "Softmax": 12, "ConstantOfShape": 12,
		"Range": 1,
	}, 1873, "d10dd1264a2a0c85"},
}

func TestExports(t *testing.T) {
	for _, a := range All() {
		t.Run(a.Name, func(t *testing.T) {
			want, ok := exports[a.Name]
			if !ok {
				t.Fatal("nothing is known of the architecture's export")
			}
			e, err := draft(a.Name, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if n := Parameters(e.g); n != want.parameters || a.Parameters != want.parameters {
				t.Errorf("%d parameters, described as %d, want %d", n, a.Parameters,
					want.parameters)
			}
			census := map[string]int{}
			for _, n := range e.g.Nodes {
				census[n.Type]++
			}
			if !maps.Equal(census, want.census) {
				t.Errorf("operators %v, want %v", census, want.census)
			}
			if p := fingerprint(e.g.Nodes[:want.same]); p != want.print {
				t.Errorf("fingerprint %s, want %s", p, want.print)
			}
		})
	}
}

// fingerprint hashes nodes in order: operators, attributes, names, shapes of weights, and contents
// of small constants.
func fingerprint(nodes []*graph.Node) string {
	h := sha256.New()
	for _, n := range nodes {
		describe(h, n)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// describe writes one node without what is arbitrary about it: names of constants, and the name of
// the module that GPT-2 was wrapped in to be exported.
func describe(w io.Writer, n *graph.Node) {
	name := func(s string) string { return strings.ReplaceAll(s, "/m/transformer", "/transformer") }
	fmt.Fprint(w, n.Type)
	for _, a := range n.Attrs {
		if a.Tensor != nil {
			fmt.Fprintf(w, " %s=%v", a.Name, a.Tensor)
		} else {
			fmt.Fprintf(w, " %s=%v%v%v", a.Name, a.Floats, a.Ints, a.Strings)
		}
	}
	for _, v := range n.In {
		switch {
		case v == nil:
			fmt.Fprint(w, " absent")
		case !v.IsConst():
			fmt.Fprintf(w, " %s", name(v.Name))
		case v.Const().Len() == 1 || v.Const().DType == tensor.Int64:
			fmt.Fprintf(w, " %v", v.Const())
		default:
			fmt.Fprintf(w, " %v%v", v.Const().DType, v.Const().Shape)
		}
	}
	for _, v := range n.Out {
		fmt.Fprintf(w, " > %s", name(v.Name))
	}
	fmt.Fprintln(w)
}

// TestTypes holds shape inference against dynamic axes: every size of every value follows from the
// names of the inputs' sizes, although exporters compute shapes with chains of operators.
func TestTypes(t *testing.T) {
	want := map[string][]string{
		"resnet50":    {"float32[batch,3,224,224]", "float32[batch,1000]"},
		"mobilenetv2": {"float32[batch,3,224,224]", "float32[batch,1000]"},
		"yolov8n":     {"float32[1,3,640,640]", "float32[1,84,8400]"},
		"bert-base": {"int64[batch,sequence]", "int64[batch,sequence]", "int64[batch,sequence]",
			"float32[batch,sequence,768]", "float32[batch,768]"},
		"minilm-l6": {"int64[batch,sequence]", "int64[batch,sequence]", "int64[batch,sequence]",
			"float32[batch,sequence,384]", "float32[batch,384]"},
		"gpt2": {"int64[batch,sequence]", "int64[batch,sequence]", "float32[batch,sequence,50257]"},
	}
	for _, a := range All() {
		t.Run(a.Name, func(t *testing.T) {
			e, err := draft(a.Name, Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range append(e.g.Inputs, e.g.Outputs...) {
				got = append(got, v.Type.String())
			}
			if fmt.Sprint(got) != fmt.Sprint(want[a.Name]) {
				t.Errorf("inputs and outputs %v, want %v", got, want[a.Name])
			}
			for _, n := range e.g.Nodes {
				for _, v := range n.Out {
					// A size that no rule could tell is a symbol with the value's own name in it.
					if s := v.Type.String(); !v.Type.Ranked || strings.Contains(s, v.Name) {
						t.Errorf("%v: type %s", n, s)
					}
				}
			}
		})
	}
}

// TestInputs checks that the usual inputs fit the graph: the types match and the symbols resolve.
func TestInputs(t *testing.T) {
	for _, a := range All() {
		e, err := draft(a.Name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		shapes := map[string][]int{}
		for i, in := range a.Inputs {
			if v := e.g.Inputs[i]; v.Name != in.Name || v.Type.DType != in.DType {
				t.Errorf("%s: input %d is %q %v, described as %q %v", a.Name, i, v.Name, v.Type,
					in.Name, in.DType)
			}
			shapes[in.Name] = in.Shape
		}
		if _, err := e.g.Specialize(shapes); err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
	}
}
