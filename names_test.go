package weir_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// transposedShape gives x the shape of its transpose, which is a shape of its own unless d is one
// size.
const transposedShape = `graph "transposed shape" {
  opset "" 17
  input %x: float32[d,d]
  %t = Transpose@13 (%x)
  %s = Shape@15 (%t)
  %r = Reshape@14 (%x, %s)
  %y = Neg@13 (%r)
  output %y
}`

// untrue are models of which names of dimensions or declared shapes do not hold, with shapes of
// their inputs: "x" of floats and, unless it is nil, "y", after which the elements of "c" are
// booleans.
var untrue = []struct {
	name, model string
	runs        [][2][]int
}{
	{"one name twice in an input", transposedShape,
		[][2][]int{{{4, 4}}, {{2, 3}}, {{3, 2}}, {{1, 5}}}},
	{"one name in two inputs", `graph "g" {
  opset "" 17
  input %x: float32[batch,2]
  input %y: float32[batch,3]
  const %zero: int64[1] = {0}
  const %two: int64[1] = {2}
  %sy = Shape@15 (%y)
  %n = Gather@13 (%sy, %zero)
  %s = Concat@13 (%two, %n) {axis=0}
  %t = Transpose@13 (%x)
  %st = Shape@15 (%t)
  %same = Equal@13 (%s, %st)
  %r = Cast@13 (%same) {to=1}
  output %r
}`, [][2][]int{{{4, 2}, {4, 3}}, {{5, 2}, {4, 3}}, {{1, 2}, {7, 3}}}},
	{"a name like that of a computed size", `graph "g" {
  opset "" 17
  input %x: float32[k.1,4]
  %k = NonZero@13 (%x)
  const %one: int64[1] = {1}
  const %zero: int64[1] = {0}
  %sk = Shape@15 (%k)
  %nk = Gather@13 (%sk, %one)
  %sx = Shape@15 (%x)
  %nx = Gather@13 (%sx, %zero)
  %same = Equal@13 (%nk, %nx)
  %r = Cast@13 (%same) {to=1}
  output %r
}`, [][2][]int{{{1, 4}}, {{3, 4}}}},
	{"a computed shape declared wrongly", `graph "g" {
  opset "" 17
  input %x: float32[4]
  input %c: bool[4]
  %z: float32[4] = Compress@11 (%x, %c) {axis=0}
  %s = Shape@15 (%z)
  %r = Cast@13 (%s) {to=1}
  output %z
  output %r
}`, [][2][]int{{{4}}, {{4}}}},
	{"a declared shape that the operators refuse", `graph "g" {
  opset "" 17
  input %x: float32[4]
  input %c: bool[4]
  const %all: int64[1] = {-1}
  const %two: int64[1] = {2}
  %z: float32[7] = Compress@11 (%x, %c) {axis=0}
  %w: float32[3] = Concat@13 (%z, %z) {axis=0}
  %r = Reshape@14 (%w, %all)
  output %r
}`, [][2][]int{{{4}}, {{4}}}},
	{"a shape in a branch declared wrongly", `graph "g" {
  opset "" 17
  input %x: float32[4]
  input %c: bool[4]
  const %zero: int64[] = {0}
  %any = Gather@13 (%c, %zero)
  %z = If@16 (%any | %x, %c) {then_branch=graph "then" captures 2 {
    input %x
    input %c
    %v: float32[4] = Compress@11 (%x, %c) {axis=0}
    %s: int64[1] = Shape@15 (%v)
    %w: float32[1] = Cast@13 (%s) {to=1}
    output %w
  }, else_branch=graph "else" captures 2 {
    input %x
    input %c
    %w: float32[4] = Compress@11 (%x, %c) {axis=0}
    output %w
  }}
  output %z
}`, [][2][]int{{{4}}, {{4}}, {{4}}, {{4}}}},
	{"a carried shape declared wrongly", `graph "g" {
  opset "" 17
  input %x: float32[N]
  const %trips: int64[] = {3}
  const %go: bool[] = {true}
  %z, %u = Loop@16 (%trips, %go, %x) {body=graph "body" {
    input %i: int64[]
    input %cond: bool[]
    input %state: float32[N]
    %on = Identity@16 (%cond)
    %next: float32[N] = Concat@13 (%state, %state) {axis=0}
    %s = Shape@15 (%state)
    %shape: float32[1] = Cast@13 (%s) {to=1}
    output %on
    output %next
    output %shape
  }}
  output %z
  output %u
}`, [][2][]int{{{2}}, {{3}}}},
}

// TestUntrueNames holds that names of dimensions and declared shapes change no result, for the
// first shape of a model, which is compiled from the model, and for later ones, which are compiled
// from what is left of it once it is simplified.
func TestUntrueNames(t *testing.T) {
	for _, u := range untrue {
		t.Run(u.name, func(t *testing.T) {
			g, err := graph.Parse(u.model)
			if err != nil {
				t.Fatal(err)
			}
			m, err := weir.Open(typedFile(t, g))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			rng := rand.New(rand.NewPCG(7, 7))
			for _, run := range u.runs {
				in, want := reference(t, g, run, rng)
				r, err := m.Run(context.Background(), in)
				if err != nil {
					t.Fatalf("shapes %v: %v", run, err)
				}
				for i, got := range r.Outputs() {
					if err := tensor.Close(got, want[i], 0, 0); err != nil {
						t.Errorf("shapes %v: output %d: %v", run, i, err)
					}
				}
				r.Close()
			}
		})
	}
}

// typedFile writes a graph as a model file with all that it declares.
func typedFile(t *testing.T, g *graph.Graph) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := onnx.WriteFile(path, g, onnx.WriteOptions{Types: true}); err != nil {
		t.Fatal(err)
	}
	return path
}

// reference evaluates a graph on random inputs, x and y of the given shapes and c random booleans.
func reference(t *testing.T, g *graph.Graph, shapes [2][]int, rng *rand.Rand) (weir.Inputs,
	[]*tensor.Tensor) {
	t.Helper()
	in := weir.Inputs{"c": tensor.From(make([]bool, 4), 4)}
	for i := range in["c"].Data {
		in["c"].Data[i] = byte(rng.IntN(2))
	}
	for i, name := range []string{"x", "y"} {
		x, err := tensor.New(tensor.Float32, shapes[i]...)
		if err != nil {
			t.Fatal(err)
		}
		for k := range tensor.As[float32](x) {
			tensor.As[float32](x)[k] = rng.Float32()
		}
		in[name] = x
	}
	var values []*tensor.Tensor
	taken := weir.Inputs{}
	for _, v := range g.Inputs {
		taken[v.Name] = in[v.Name]
		values = append(values, in[v.Name])
	}
	out, err := g.Eval(context.Background(), values)
	if err != nil {
		t.Fatal(err)
	}
	return taken, out
}

// TestContradictedNames holds that sizes which contradict the name of a dimension are computed
// where the operators take them, and else refused with the name and both sizes.
func TestContradictedNames(t *testing.T) {
	m := load(t, scaled)
	x := tensor.From([]float32{1, 1, 1, 1, 1, 1, 1, 1}, 2, 4)
	r, err := m.Run(context.Background(),
		weir.Inputs{"x": x, "bias": tensor.From([]float32{5}, 1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := near(outputs(r), []float32{6, 7, 8, 9, 6, 7, 8, 9}); err != nil {
		t.Error(err)
	}
	r.Close()
	_, err = m.Run(context.Background(),
		weir.Inputs{"x": x, "bias": tensor.From(make([]float32, 3), 3, 1)})
	if want := `"N" is 2 in input "x" (float32[N,4]) and 3 in input "bias" (float32[N,1])`; !errors.Is(
		err, weir.ErrInput) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// rate is a model with a scalar, as Silero VAD has for its sampling rate.
const rate = `graph "rate" {
  opset "" 17
  input %x: float32[N]
  input %sr: int64[]
  %f = Cast@13 (%sr) {to=1}
  %z = Mul@14 (%x, %f)
  output %z
}`

// TestScalarInput holds that a scalar input takes one element of any rank, and nothing else.
func TestScalarInput(t *testing.T) {
	m := load(t, rate)
	run := func(x, sr *weir.Tensor) ([]float32, error) {
		r, err := m.Run(context.Background(), weir.Inputs{"x": x, "sr": sr})
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return append([]float32{}, outputs(r)...), nil
	}
	x := tensor.From([]float32{1, 2}, 2)
	for i, shape := range [][]int{{1}, {}, {1, 1}, {1}} {
		got, err := run(x, tensor.From([]int64{int64(i)}, shape...))
		if err != nil || near(got, []float32{float32(i), float32(2 * i)}) != nil {
			t.Errorf("sr of shape %v: %v, %v", shape, got, err)
		}
	}
	for _, tt := range []struct {
		x, sr *weir.Tensor
		want  string
	}{
		{x, tensor.From([]int64{1, 2}, 2),
			`input "sr": bad input: given shape [2] of rank 1, the model takes int64[] of rank 0`},
		{x, tensor.From([]int64{}, 0), `given shape [0] of rank 1`},
		{tensor.From([]float32{1}), tensor.From([]int64{1}),
			`input "x": bad input: given shape [] of rank 0, the model takes float32[N] of rank 1`},
		{tensor.From([]float32{1}, 1, 1), tensor.From([]int64{1}), `of rank 2`},
	} {
		if _, err := run(tt.x, tt.sr); !errors.Is(err, weir.ErrInput) ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}
