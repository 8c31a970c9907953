package zoo

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// small are variants that the reference evaluation runs in a moment.
var small = map[string]Options{
	"resnet50":    {Layers: 2, Width: 0.125, Resolution: 64, Classes: 10},
	"mobilenetv2": {Layers: 2, Width: 0.25, Resolution: 64, Classes: 10},
	"yolov8n":     {Width: 0.5, Resolution: 64, Classes: 5},
	"bert-base":   {Layers: 2, Hidden: 128, Vocabulary: 100},
	"minilm-l6":   {Layers: 2, Hidden: 64, Vocabulary: 100},
	"gpt2":        {Layers: 2, Hidden: 128, Vocabulary: 100},
}

func newSmall(t *testing.T, name string) *graph.Graph {
	t.Helper()
	g, err := New(name, small[name])
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func evaluate(t *testing.T, g *graph.Graph, in ...*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	out, err := g.Eval(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// floats is a tensor with elements from 0 to 1.
func floats(r *rand.Rand, shape ...int) *tensor.Tensor {
	n, _ := tensor.Count(shape)
	data := make([]float32, n)
	for i := range data {
		data[i] = r.Float32()
	}
	return tensor.From(data, shape...)
}

// tokens is a tensor with elements from 0 to limit-1.
func tokens(r *rand.Rand, limit int64, shape ...int) *tensor.Tensor {
	n, _ := tensor.Count(shape)
	data := make([]int64, n)
	for i := range data {
		data[i] = r.Int64N(limit)
	}
	return tensor.From(data, shape...)
}

func ones(shape ...int) *tensor.Tensor {
	n, _ := tensor.Count(shape)
	return tensor.From(slices.Repeat([]int64{1}, n), shape...)
}

// inputs makes inputs of a small variant: a picture, or a batch of one sequence of seven tokens.
func inputs(r *rand.Rand, g *graph.Graph) []*tensor.Tensor {
	var in []*tensor.Tensor
	for _, v := range g.Inputs {
		switch v.Name {
		case "input", "images":
			in = append(in, floats(r, 1, 3, 64, 64))
		case "input_ids":
			in = append(in, tokens(r, 100, 1, 7))
		case "token_type_ids":
			in = append(in, tokens(r, 2, 1, 7))
		default:
			in = append(in, ones(1, 7))
		}
	}
	return in
}

func std(t *testing.T, x *tensor.Tensor) float64 {
	t.Helper()
	v, err := x.Floats()
	if err != nil {
		t.Fatal(err)
	}
	var sum, square float64
	for _, f := range v {
		sum += f
		square += f * f
	}
	n := float64(len(v))
	return math.Sqrt(square/n - sum*sum/(n*n))
}

// TestEval runs every architecture and checks that it computes something: outputs of sound size
// that depend on the input.
func TestEval(t *testing.T) {
	for name := range small {
		t.Run(name, func(t *testing.T) {
			g := newSmall(t, name)
			r := rand.New(rand.NewPCG(1, 2))
			a, b := evaluate(t, g, inputs(r, g)...), evaluate(t, g, inputs(r, g)...)
			for i, v := range g.Outputs {
				if s := std(t, a[i]); !(0.05 < s && s < 1000) {
					t.Errorf("%s: standard deviation %g", v.Name, s)
				}
				far, err := tensor.RelL2(a[i], b[i])
				if err != nil || !(far > 0.01) {
					t.Errorf("%s: two inputs give results %g apart, %v", v.Name, far, err)
				}
			}
		})
	}
}

// TestWrite checks that what is written as ONNX and read back computes the same.
func TestWrite(t *testing.T) {
	for name := range small {
		t.Run(name, func(t *testing.T) {
			g := newSmall(t, name)
			var file bytes.Buffer
			if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			m, err := onnx.Decode(file.Bytes(), "", onnx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if n := Parameters(m.Graph); n != Parameters(g) {
				t.Errorf("%d parameters read, %d written", n, Parameters(g))
			}
			in := inputs(rand.New(rand.NewPCG(9, 10)), g)
			got, want := evaluate(t, m.Graph, in...), evaluate(t, g, in...)
			for i := range want {
				if !tensor.Equal(got[i], want[i]) {
					t.Errorf("%s: the model that was read computes something else",
						g.Outputs[i].Name)
				}
			}
		})
	}
}

// TestBatch checks that the elements of a batch do not see each other.
func TestBatch(t *testing.T) {
	for _, name := range []string{"resnet50", "mobilenetv2", "bert-base", "minilm-l6", "gpt2"} {
		t.Run(name, func(t *testing.T) {
			g := newSmall(t, name)
			r := rand.New(rand.NewPCG(3, 4))
			a, b := inputs(r, g), inputs(r, g)
			both := make([]*tensor.Tensor, len(a))
			for i := range a {
				shape := slices.Clone(a[i].Shape)
				shape[0] = 2
				both[i] = &tensor.Tensor{DType: a[i].DType, Shape: shape,
					Data: slices.Concat(a[i].Data, b[i].Data)}
			}
			got := evaluate(t, g, both...)
			wantA, wantB := evaluate(t, g, a...), evaluate(t, g, b...)
			for i := range got {
				want := wantA[i].Clone()
				want.Shape[0] = 2
				want.Data = append(want.Data, wantB[i].Data...)
				if err := tensor.Close(got[i], want, 1e-5, 1e-5); err != nil {
					t.Errorf("%s: %v", g.Outputs[i].Name, err)
				}
			}
		})
	}
}

// TestMask checks that a token which the mask hides has no influence on the others.
func TestMask(t *testing.T) {
	for _, name := range []string{"bert-base", "minilm-l6", "gpt2"} {
		t.Run(name, func(t *testing.T) {
			g := newSmall(t, name)
			in := inputs(rand.New(rand.NewPCG(5, 6)), g)
			tensor.As[int64](in[1])[3] = 0
			want := evaluate(t, g, in...)[0]
			in[0] = in[0].Clone()
			tensor.As[int64](in[0])[3] ^= 1
			got := evaluate(t, g, in...)[0]
			for i := range 7 {
				if same := slices.Equal(row(got, i), row(want, i)); same != (i != 3) {
					t.Errorf("token %d: same result %v after token 3, which is masked, changed", i,
						same)
				}
			}
		})
	}
}

// TestCausal checks that GPT-2 sees no later token, and that BERT does.
func TestCausal(t *testing.T) {
	for name, causal := range map[string]bool{"gpt2": true, "bert-base": false} {
		g := newSmall(t, name)
		in := inputs(rand.New(rand.NewPCG(7, 8)), g)
		want := evaluate(t, g, in...)[0]
		in[0] = in[0].Clone()
		tensor.As[int64](in[0])[4] ^= 1
		got := evaluate(t, g, in...)[0]
		for i := range 7 {
			if same := slices.Equal(row(got, i), row(want, i)); same != (causal && i < 4) {
				t.Errorf("%s: token %d: same result %v after token 4 changed", name, i, same)
			}
		}
	}
}

// row is what a batch of one sequence gives for token i.
func row(x *tensor.Tensor, i int) []float32 {
	n := x.Shape[2]
	return tensor.As[float32](x)[i*n : (i+1)*n]
}

// TestVariants checks that options change what they say, by the parameters of the published
// variants.
func TestVariants(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want int
	}{
		// torchvision, mobilenet_v2(width_mult=0.5)
		{"mobilenetv2", Options{Width: 0.5}, 1_968_680},
		// torchvision, mobilenet_v2(width_mult=1.4)
		{"mobilenetv2", Options{Width: 1.4}, 6_108_776},
		// the last layer alone
		{"resnet50", Options{Classes: 10}, 25_557_032 - 990*(2048+1)},
		// no weight depends on it
		{"resnet50", Options{Resolution: 32}, 25_557_032},
		// no weight depends on it
		{"yolov8n", Options{Resolution: 320}, 3_157_200},
		// BERT-Tiny of Turc et al., 2019, table 1
		{"bert-base", Options{Layers: 2, Hidden: 128}, 4_385_920},
		{"bert-base", Options{Layers: 4, Hidden: 256}, 11_170_560},             // BERT-Mini
		{"bert-base", Options{Layers: 24, Hidden: 1024}, 335_141_888},          // BERT-Large
		{"gpt2", Options{Layers: 24, Hidden: 1024}, 354_823_168},               // GPT-2 medium
		{"minilm-l6", Options{Layers: 12}, 22_713_216 + 6*(12*384*384+13*384)}, // all-MiniLM-L12
	} {
		e, err := draft(c.name, c.o)
		if err != nil {
			t.Error(err)
			continue
		}
		if n := Parameters(e.g); n != c.want {
			t.Errorf("%s %+v: %d parameters, want %d", c.name, c.o, n, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	_, err := New("vgg16", Options{})
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "vgg16") {
		t.Errorf("unknown architecture: %v", err)
	}
	for _, n := range Names() {
		if !strings.Contains(err.Error(), n) {
			t.Errorf("%v does not name %s", err, n)
		}
	}
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"resnet50", Options{Hidden: 64}},
		{"resnet50", Options{Width: -1}},
		{"resnet50", Options{Width: math.NaN()}},
		{"resnet50", Options{Resolution: 16}},
		{"resnet50", Options{Classes: -1}},
		{"mobilenetv2", Options{Layers: -1}},
		{"yolov8n", Options{Resolution: 100}},
		{"yolov8n", Options{Classes: math.MaxInt}},
		{"bert-base", Options{Width: 0.5}},
		{"bert-base", Options{Hidden: 100}},
		{"bert-base", Options{Hidden: math.MinInt}},
		{"gpt2", Options{Vocabulary: 1 << 40}},
		{"gpt2", Options{Layers: 1024, Hidden: 1 << 15}}, // sound, but tens of terabytes
	} {
		if _, err := New(c.name, c.o); !errors.Is(err, ErrOption) ||
			!strings.Contains(err.Error(), c.name) {
			t.Errorf("%s %+v: %v", c.name, c.o, err)
		}
	}
}
