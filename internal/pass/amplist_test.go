package pass

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// rounded returns x with its float32 elements rounded to bfloat16, to nearest, ties to even.
func rounded(x *tensor.Tensor) *tensor.Tensor {
	y := x.Clone()
	if y.DType == tensor.Float32 {
		for i, v := range tensor.As[float32](y) {
			b := math.Float32bits(v)
			tensor.As[float32](y)[i] = math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
		}
	}
	return y
}

// commuting has a node for every operator of AmpInfer, on x of 2 x 4 x 6 x 6 and a second y of the
// same shape.
var commuting = map[string]string{
	"Concat": "%o = Concat@17 (%x, %y) {axis=1}", "DepthToSpace": "%o = DepthToSpace@17 (%x) " +
		"{blocksize=2}", "Dropout": "%o = Dropout@17 (%x)",
	"Expand":         "const %s: int64[5] = {3, 2, 4, 6, 6}\n%o = Expand@17 (%x, %s)",
	"Flatten":        "%o = Flatten@17 (%x)",
	"Gather":         "const %i: int64[2] = {1, 0}\n%o = Gather@17 (%x, %i)",
	"GatherElements": "const %i: int64[1,1,1,2] = {1, 5}\n%o = GatherElements@17 (%x, %i) {axis=3}",
	"GatherND":       "const %i: int64[2,2] = {1, 0, 0, 3}\n%o = GatherND@17 (%x, %i)",
	"Identity":       "%o = Identity@17 (%x)",
	"Reshape":        "const %s: int64[2] = {8, 36}\n%o = Reshape@17 (%x, %s)",
	"Slice": "const %b: int64[1] = {1}\nconst %e: int64[1] = {5}\nconst %a: int64[1] = " +
		"{2}\n%o = Slice@17 (%x, %b, %e, %a)",
	"SpaceToDepth": "%o = SpaceToDepth@17 (%x) {blocksize=2}", "Split": "%o, %p = Split@17 (%x)",
	"Squeeze":   "%o = Squeeze@17 (%x)",
	"Tile":      "const %r: int64[4] = {1, 2, 1, 1}\n%o = Tile@17 (%x, %r)",
	"Transpose": "%o = Transpose@17 (%x) {perm=[3, 1, 0, 2]}",
	"Unsqueeze": "const %a: int64[1] = {0}\n%o = Unsqueeze@17 (%x, %a)",
	"Abs":       "%o = Abs@17 (%x)", "GlobalMaxPool": "%o = GlobalMaxPool@17 (%x)",
	"Max":     "%o = Max@17 (%x, %y)",
	"MaxPool": "%o = MaxPool@17 (%x) {kernel_shape=[3, 3], pads=[1, 1, 1, 1]}",
	"Min":     "%o = Min@17 (%x, %y)", "Neg": "%o = Neg@17 (%x)",
	"ReduceMax": "%o = ReduceMax@17 (%x) {axes=[1]}", "ReduceMin": "%o = ReduceMin@17 (%x) " +
		"{axes=[-1]}", "Relu": "%o = Relu@17 (%x)",
}

func single(t *testing.T, body string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse("graph \"g\" {\n opset \"\" 17\n input %x: float32[2,4,6,6]\n input " +
		"%y: float32[2,4,6,6]\n" + body + "\n output %o\n}")
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if err := g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	return g
}

func noise(rng *rand.Rand) *tensor.Tensor {
	v := make([]float32, 2*4*6*6)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * math.Exp(4*rng.NormFloat64()))
	}
	v[3], v[4], v[5] = 0, float32(math.Copysign(0, -1)), float32(math.Inf(1))
	return tensor.From(v, 2, 4, 6, 6)
}

// TestAmpInferCommutes holds for every operator on the list what puts it there: rounding before it
// and rounding after it give the same bits.
func TestAmpInferCommutes(t *testing.T) {
	for name := range ampMoves {
		if commuting[name] == "" {
			t.Errorf("no example of %s", name)
		}
	}
	for name := range ampSelects {
		if commuting[name] == "" {
			t.Errorf("no example of %s", name)
		}
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for name, body := range commuting {
		g := single(t, body)
		if list, why := ampList(g.Nodes[len(g.Nodes)-1]); list != AmpInfer {
			t.Errorf("%s is on list %s: %s", name, list, why)
		}
		for range 10 {
			in := []*tensor.Tensor{noise(rng), noise(rng)}
			before, err := g.Eval(context.Background(),
				[]*tensor.Tensor{rounded(in[0]), rounded(in[1])})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			after, err := g.Eval(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			if !tensor.Equal(before[0], rounded(after[0])) {
				t.Errorf("%s: rounding does not commute", name)
			}
		}
	}
}

// TestAmpLists holds what is on the other lists, and that each says why.
func TestAmpLists(t *testing.T) {
	for body, want := range map[string]struct {
		list AmpList
		why  string
	}{
		"%o = MatMul@17 (%x, %y)":                              {AmpAllow, "product"},
		"%o = Conv@17 (%x, %y)":                                {AmpAllow, "product"},
		"%o = Add@17 (%x, %y)":                                 {AmpDeny, "by element"},
		"%o = Exp@17 (%x)":                                     {AmpDeny, "by element"},
		"%o = Softmax@17 (%x)":                                 {AmpDeny, "adds up"},
		"%o = GlobalAveragePool@17 (%x)":                       {AmpDeny, "adds up"},
		"%o = ArgMax@17 (%x)":                                  {AmpDeny, "result is not float32"},
		"%b = Greater@17 (%x, %y)\n%o = Where@17 (%b, %x, %y)": {AmpDeny, "operands are bool"},
		"%d = Cast@17 (%x) {to=11}\n%o = MatMul@17 (%d, %d)":   {AmpDeny, "operands are float64"},
		"%d = Cast@17 (%x) {to=11}\n%o = Relu@17 (%d)":         {AmpDeny, "result is not float32"},
	} {
		g := single(t, body)
		list, why := ampList(g.Nodes[len(g.Nodes)-1])
		if list != want.list || !strings.Contains(why, want.why) {
			t.Errorf("%s: list %s, %q; want %s, %q", body, list, why, want.list, want.why)
		}
	}
}
