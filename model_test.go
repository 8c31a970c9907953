package weir_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// scaled multiplies its input by a weight and adds another one, both of free sizes.
const scaled = `graph "scaled" {
  opset "" 17
  input %x: float32[N,4]
  input %bias: float32[N,1]
  const %w: float32[4] = {1, 2, 3, 4}
  %y: float32[N,4] = Mul@14 "scale" (%x, %w)
  %z: float32[N,4] = Add@14 "shift" (%y, %bias)
  output %z
}`

// load opens a graph in the form of graph.Print.
func load(t testing.TB, text string, opts ...weir.Option) *weir.Model {
	t.Helper()
	m, err := weir.Open(modelFile(t, text), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func modelFile(t testing.TB, text string) string {
	t.Helper()
	g, err := graph.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := onnx.WriteFile(path, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return path
}

// ask runs the model scaled on n rows of random numbers and returns the result with what it must
// hold.
func ask(m *weir.Model, rng *rand.Rand, n int) (weir.Result, []float32, error) {
	x, bias := make([]float32, n*4), make([]float32, n)
	want := make([]float32, n*4)
	for i := range bias {
		bias[i] = rng.Float32()
		for k := range 4 {
			x[i*4+k] = rng.Float32()
			want[i*4+k] = x[i*4+k]*float32(k+1) + bias[i]
		}
	}
	in := weir.Inputs{"x": tensor.From(x, n, 4), "bias": tensor.From(bias, n, 1)}
	r, err := m.Run(context.Background(), in)
	clear(x) // inputs are copied before Run returns
	return r, want, err
}

func near(got, want []float32) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d elements, want %d", len(got), len(want))
	}
	for i := range got {
		if d := got[i] - want[i]; d > 1e-5 || d < -1e-5 {
			return fmt.Errorf("element %d is %v, want %v", i, got[i], want[i])
		}
	}
	return nil
}

func outputs(r weir.Result) []float32 {
	d, err := weir.Data[float32](r.Output("z"))
	if err != nil {
		return nil
	}
	return d
}

// TestConcurrentRuns lets many goroutines run mixed shapes, more of them than are kept, and keep
// results open for a while.
func TestConcurrentRuns(t *testing.T) {
	for _, opts := range [][]weir.Option{nil, {weir.WithThreads(2), weir.WithMaxShapes(3)}} {
		m := load(t, scaled, opts...)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 1))
				for range 60 {
					a, wantA, err := ask(m, rng, 1+rng.IntN(6))
					if err != nil {
						t.Error(err)
						return
					}
					b, wantB, err := ask(m, rng, 1+rng.IntN(6))
					if err != nil {
						t.Error(err)
						return
					}
					if err := errors.Join(near(outputs(a), wantA),
						near(outputs(b), wantB)); err != nil {
						t.Error(err)
					}
					b.Close()
					a.Close()
				}
			})
		}
		wg.Wait()
	}
}

// TestWrongInputs holds that everything a caller can get wrong is an ErrInput, and that the model
// works on.
func TestWrongInputs(t *testing.T) {
	m := load(t, scaled)
	x, bias := tensor.From(make([]float32, 8), 2, 4), tensor.From(make([]float32, 2), 2, 1)
	for name, in := range map[string]weir.Inputs{
		"nothing":        nil,
		"one missing":    {"x": x},
		"nil":            {"x": x, "bias": nil},
		"one too many":   {"x": x, "bias": bias, "y": bias},
		"misspelt":       {"X": x, "bias": bias},
		"wrong type":     {"x": tensor.From(make([]float64, 8), 2, 4), "bias": bias},
		"wrong rank":     {"x": tensor.From(make([]float32, 8), 8), "bias": bias},
		"wrong size":     {"x": tensor.From(make([]float32, 10), 2, 5), "bias": bias},
		"sizes disagree": {"x": x, "bias": tensor.From(make([]float32, 3), 3, 1)},
		"data too short": {"x": {DType: tensor.Float32, Shape: []int{2, 4}, Data: make([]byte, 8)},
			"bias": bias},
		"negative size":   {"x": {DType: tensor.Float32, Shape: []int{-2, 4}}, "bias": bias},
		"size beyond all": {"x": {DType: tensor.Float32, Shape: []int{1 << 62, 4}}, "bias": bias},
		"no type":         {"x": {Shape: []int{2, 4}}, "bias": bias},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := m.Run(context.Background(), in)
			if !errors.Is(err, weir.ErrInput) {
				t.Errorf("got %v", err)
			}
			if r.Output("z") != nil || r.Outputs() != nil {
				t.Error("a failed run has outputs")
			}
			r.Close()
		})
	}
	r, err := m.Run(context.Background(), weir.Inputs{"x": x, "bias": bias})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

func TestDataRefuses(t *testing.T) {
	if _, err := weir.Data[float32](nil); !errors.Is(err, weir.ErrOutput) {
		t.Errorf("nil: %v", err)
	}
	short := &weir.Tensor{DType: tensor.Float32, Shape: []int{2}, Data: make([]byte, 4)}
	if d, err := weir.Data[float32](short); !errors.Is(err, weir.ErrOutput) {
		t.Errorf("one element of two: %v, %v", d, err)
	}
	if _, err := weir.Data[int64](tensor.From([]float32{1}, 1)); !errors.Is(err, weir.ErrOutput) {
		t.Errorf("another type: %v", err)
	}
	x := []float32{1, 2}
	d, err := weir.Data[float32](tensor.From(x, 2))
	if err != nil || &d[0] != &x[0] {
		t.Errorf("a copy: %v, %v", d, err)
	}
}

// TestResultClosed holds what a result says before and after its end, also once its memory serves
// another run.
func TestResultClosed(t *testing.T) {
	m := load(t, scaled)
	rng := rand.New(rand.NewPCG(1, 1))
	a, want, err := ask(m, rng, 2)
	if err != nil {
		t.Fatal(err)
	}
	copied := a
	if a.Output("nope") != nil || len(a.Outputs()) != 1 || near(outputs(copied), want) != nil {
		t.Error("an open result is not whole")
	}
	a.Close()
	a.Close()
	copied.Close()
	b, want, err := ask(m, rng, 2)
	if err != nil {
		t.Fatal(err)
	}
	a.Close() // of an older use of the same memory
	if a.Output("z") != nil || copied.Outputs() != nil {
		t.Error("a closed result shows another run's outputs")
	}
	if err := near(outputs(b), want); err != nil {
		t.Error(err)
	}
	b.Close()
	var zero weir.Result
	zero.Close()
	if zero.Outputs() != nil || zero.Output("z") != nil {
		t.Error("the zero result has outputs")
	}
}

// TestCloseWithOpenResults holds that results outlive Close, runs do not, and the last result lets
// everything go.
func TestCloseWithOpenResults(t *testing.T) {
	for _, opts := range [][]weir.Option{nil, {weir.WithThreads(1)}} {
		m, err := weir.Open(modelFile(t, scaled), opts...)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		var open []weir.Result
		var wants [][]float32
		for n := range 4 {
			r, want, err := ask(m, rng, 1+n%2)
			if err != nil {
				t.Fatal(err)
			}
			open, wants = append(open, r), append(wants, want)
		}
		for range 2 {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, _, err := ask(m, rng, 1); !errors.Is(err, weir.ErrClosed) {
			t.Errorf("a run after Close: %v", err)
		}
		for i, r := range open {
			if err := near(outputs(r), wants[i]); err != nil {
				t.Errorf("result %d after Close: %v", i, err)
			}
			r.Close()
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEvictionWithOpenResults keeps a result of every shape open while each new shape pushes an
// older one out.
func TestEvictionWithOpenResults(t *testing.T) {
	m := load(t, scaled, weir.WithMaxShapes(1))
	rng := rand.New(rand.NewPCG(1, 1))
	var open []weir.Result
	var wants [][]float32
	for n := range 5 {
		r, want, err := ask(m, rng, n+1)
		if err != nil {
			t.Fatal(err)
		}
		open, wants = append(open, r), append(wants, want)
	}
	for i, r := range open {
		if err := near(outputs(r), wants[i]); err != nil {
			t.Errorf("shape %d: %v", i+1, err)
		}
		r.Close()
	}
	r, want, err := ask(m, rng, 1)
	if err != nil || near(outputs(r), want) != nil {
		t.Errorf("the first shape again: %v", err)
	}
	r.Close()
}

// TestRunFails holds that what an operator refuses is told and leaves the model usable.
func TestRunFails(t *testing.T) {
	m := load(t, `graph "lookup" {
  opset "" 17
  input %i: int64[2]
  const %table: float32[4] = {1, 2, 3, 4}
  %y: float32[2] = Gather@13 "find" (%table, %i) {axis=0}
  output %y
}`)
	run := func(ctx context.Context, i ...int64) ([]float32, error) {
		r, err := m.Run(ctx, weir.Inputs{"i": tensor.From(i, 2)})
		if err != nil {
			return nil, err
		}
		defer r.Close()
		d, err := weir.Data[float32](r.Output("y"))
		return slices.Clone(d), err
	}
	ctx := context.Background()
	if _, err := run(ctx, 0, 4); !errors.Is(err, weir.ErrInput) {
		t.Errorf("an index outside of the table: %v", err)
	}
	if y, err := run(ctx, 3, 0); err != nil || !slices.Equal(y, []float32{4, 1}) {
		t.Errorf("afterwards: %v, %v", y, err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := load(t, scaled).Run(stopped,
		weir.Inputs{"x": tensor.From(make([]float32, 4), 1, 4),
			"bias": tensor.From(make([]float32, 1), 1, 1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped while compiling: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.onnx")
	if _, err := weir.Open(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	// Every prefix of a model that ends within it is broken; a whole field more can be a model
	// again.
	for n := 0; n < len(digits.Model); n += 97 {
		m, err := weir.Load(digits.Model[:n:n])
		if err != nil {
			continue
		}
		in := weir.Inputs{}
		for _, v := range m.Inputs() {
			in[v.Name] = tensor.From(make([]float32, digits.Side*digits.Side), 1, 1, digits.Side,
				digits.Side)
		}
		if r, err := m.Run(context.Background(), in); err == nil {
			r.Close()
		}
		if err := m.Close(); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		data := slices.Clone(digits.Model)
		for range 1 + rng.IntN(4) {
			data[rng.IntN(len(data))] ^= byte(1 + rng.IntN(255))
		}
		if m, err := weir.Load(data); err == nil {
			m.Close()
		}
	}
	for _, garbage := range []string{"", "x", "this is no model"} {
		if m, err := weir.Load([]byte(garbage)); err == nil {
			t.Errorf("%q is a model with inputs %v", garbage, m.Inputs())
		}
	}
}

func TestDescribe(t *testing.T) {
	m := load(t, scaled)
	in, out := m.Inputs(), m.Outputs()
	if len(in) != 2 || in[0].Name != "x" || in[1].Name != "bias" ||
		in[0].Type.String() != "float32[N,4]" || in[0].Type.DType != tensor.Float32 ||
		!slices.Equal(in[0].Type.Shape, []weir.Dim{{Size: -1, Name: "N"}, {Size: 4}}) {
		t.Errorf("inputs are %v", in)
	}
	if len(out) != 1 || out[0].Name != "z" || out[0].Type.String() != "float32[N,4]" {
		t.Errorf("outputs are %v", out)
	}
}

// TestOneNameForAllSizes runs a model whose exporter has named every dimension alike.
func TestOneNameForAllSizes(t *testing.T) {
	m := load(t, `graph "alike" {
  opset "" 17
  input %x: float32[batch,batch]
  %y: float32[batch,batch] = Relu@14 (%x)
  output %y
}`)
	r, err := m.Run(context.Background(),
		weir.Inputs{"x": tensor.From([]float32{-1, 2, 3, -4, 5, 6}, 2, 3)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if y := r.Output("y"); !slices.Equal(y.Shape, []int{2, 3}) {
		t.Errorf("result of shape %v", y.Shape)
	}
}
