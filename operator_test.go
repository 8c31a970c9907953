package weir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// owned calls operators that weir does not have: on a constant, on an input, and in a body.
const owned = `graph "owned" {
  opset "" 17
  opset "com.example" 2
  input %x: float32[N]
  const %c: float32[2] = {3, 4}
  const %yes: bool[] = {true}
  %d: float32[2] = com.example:Double@2 "folded" (%c)
  %s: float32[] = ReduceSum@13 "sum" (%d) {keepdims=0}
  %y: float32[N] = com.example:Double@2 "first" (%x)
  %z: float32[N] = If@16 (%yes | %y) {then_branch=graph "then" captures 1 {
    input %y: float32[N]
    %r: float32[N] = com.example:Double@2 "inner" (%y)
    output %r
  }, else_branch=graph "else" captures 1 { input %y: float32[N] output %y }}
  %w: float32[N] = com.example:Odd@2 "odd" (%z, %s)
  output %w
}`

// errOdd is an error of a user's operator.
var errOdd = errors.New("an odd number")

// double multiplies by two, and counts its evaluations.
func double(calls *atomic.Int64) weir.Operator {
	return weir.Operator{Domain: "com.example", Name: "Double", Inputs: 1,
		Eval: func(c *op.Eval) error {
			calls.Add(1)
			x, err := tensor.Elements[float32](c.In[0])
			if err != nil {
				return err
			}
			y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
			if err != nil {
				return err
			}
			for i, out := 0, tensor.As[float32](y); i < len(x); i++ {
				out[i] = 2 * x[i]
			}
			return nil
		}}
}

// odd adds a number to each even one, and refuses what is odd.
var odd = weir.Operator{Domain: "com.example", Name: "Odd", Version: 2, Inputs: 2, Optional: 1,
	Eval: func(c *op.Eval) error {
		y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
		for i, x := range tensor.As[float32](c.In[0]) {
			switch {
			case x == 13*4:
				panic("thirteen")
			case int(x)%2 != 0:
				return errOdd
			}
			tensor.As[float32](y)[i] = x + tensor.As[float32](c.In[1])[0]
		}
		return err
	}}

// TestOperators runs a model with operators of its own on several shapes: plainly evaluated, in
// bodies too, once where the operands are constants; errors come out as they are.
func TestOperators(t *testing.T) {
	var calls atomic.Int64
	dir := filepath.Join(t.TempDir(), "plans")
	m := load(t, owned, weir.WithOperators(double(&calls), odd), weir.WithCache(dir))
	for i, x := range [][]float32{{1}, {1, 2, 3}, {5}} {
		before := calls.Load()
		r, err := m.Run(t.Context(), weir.Inputs{"x": tensor.From(x, len(x))})
		if err != nil {
			t.Fatal(err)
		}
		got, err := weir.Output[float32](r, "w")
		want := slices.Clone(x)
		for k := range want {
			want[k] = 4*x[k] + 14
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("of %v: %v, %v; want %v", x, got, err, want)
		}
		r.Close()
		if n := calls.Load() - before; i == 2 && n != 2 {
			t.Errorf("%d evaluations of what is compiled, want 2", n)
		}
	}
	for want, x := range map[error]float32{errOdd: 0.25, weir.ErrFault: 13} {
		if _, err := m.Run(t.Context(), weir.Inputs{"x": tensor.From([]float32{x}, 1)}); !errors.Is(
			err, want) {
			t.Errorf("of %v: %v, want %v", x, err, want)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if kept, err := os.ReadDir(dir); len(kept) != 0 {
		t.Errorf("%d files were kept of a model whose operators are the program's; %v", len(kept),
			err)
	}
}

// TestUnknownOperators holds that the error of a model with operators that weir does not have
// names all of them that are missing.
func TestUnknownOperators(t *testing.T) {
	path := modelFile(t, owned)
	_, err := weir.Open(path)
	if !errors.Is(err, weir.ErrUnsupported) ||
		!strings.Contains(err.Error(), `com.example:Double (version 2, 3 nodes, the first "folded")`) ||
		!strings.Contains(err.Error(), `com.example:Odd (version 2, node "odd")`) {
		t.Errorf("got %v", err)
	}
	_, err = weir.Open(path, weir.WithOperators(double(new(atomic.Int64))))
	if !errors.Is(err, weir.ErrUnsupported) || strings.Contains(err.Error(), "Double") ||
		!strings.Contains(err.Error(), "com.example:Odd") {
		t.Errorf("with one of them: %v", err)
	}
}

// TestOperatorsRefused holds that an operator that makes no sense is an error.
func TestOperatorsRefused(t *testing.T) {
	path := modelFile(t, scaled)
	good := double(new(atomic.Int64))
	for what, change := range map[string]func(o *weir.Operator){
		"no name":           func(o *weir.Operator) { o.Name = "" },
		"no Eval":           func(o *weir.Operator) { o.Eval = nil },
		"weir has one":      func(o *weir.Operator) { o.Domain, o.Name = "ai.onnx", "Relu" },
		"version -1":        func(o *weir.Operator) { o.Version = -1 },
		"2 of them opti":    func(o *weir.Operator) { o.Optional = 2 },
		"needs Infer":       func(o *weir.Operator) { o.Inputs = 0 },
		"-2 inputs":         func(o *weir.Operator) { o.Inputs = -2 },
		"it is given twice": func(o *weir.Operator) {},
	} {
		bad := good
		change(&bad)
		if m, err := weir.Open(path, weir.WithOperators(good, bad)); !errors.Is(err,
			weir.ErrOption) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v, %v", what, m, err)
		}
	}
}

// halves is a kernel that computes the two halves of a Double on as many cores.
type halves struct {
	compute.Unpacked
	runs *atomic.Int64
}

func (halves) Name() string { return "halves" }

func (k halves) Bind(b compute.Binding) compute.Task {
	return &halvesTask{tensor.As[float32](b.In[0]), tensor.As[float32](b.Out[0]), k.runs}
}

type halvesTask struct {
	x, y []float32
	runs *atomic.Int64
}

func (t *halvesTask) Run(x *compute.Exec) error { t.runs.Add(1); return x.For(2, t) }

func (t *halvesTask) Chunk(i, _ int) {
	half := len(t.x) / 2
	for k := i * half; k < (1+i)*half; k++ {
		t.y[k] = 2 * t.x[k]
	}
}

// TestOperatorKernel holds that a node whose operator has a kernel for its shape runs that, and
// others the plain evaluation, without garbage, and that a kernel that cannot be made is an error
// that names the operator.
func TestOperatorKernel(t *testing.T) {
	var evaluated, runs atomic.Int64
	o := double(&evaluated)
	o.Kernel = func(r *compute.Request) (compute.Kernel, error) {
		switch shape, _ := r.In[0].Ints(); {
		case shape[0] == 3:
			panic("three")
		case shape[0]%2 != 0:
			return nil, nil
		}
		return halves{runs: &runs}, nil
	}
	m := load(t, `graph "one" {
		opset "" 17
		opset "com.example" 1
		input %x: float32[N]
		%y: float32[N] = com.example:Double@1 (%x)
		output %y
	}`, weir.WithOperators(o))
	x := tensor.From([]float32{1, 2, 3, 4}, 4)
	run := func() {
		r, err := m.Run(context.Background(), weir.Inputs{"x": x})
		if err != nil {
			t.Fatal(err)
		}
		if y := tensor.As[float32](r.Outputs()[0]); y[0] != 2 || y[3] != 8 {
			t.Errorf("got %v", y)
		}
		r.Close()
	}
	run()
	in := weir.Inputs{"x": x}
	if n := testing.AllocsPerRun(20, func() {
		r, err := m.Run(context.Background(), in)
		if err != nil || len(r.Outputs()) != 1 {
			t.Fatal(err)
		}
		r.Close()
	}); n != 0 {
		t.Errorf("a run allocates %v times", n)
	}
	if runs.Load() != 22 || evaluated.Load() != 0 {
		t.Errorf("%d runs of the kernel and %d evaluations", runs.Load(), evaluated.Load())
	}
	x = tensor.From([]float32{1, 0, 0, 0, 4}, 5)
	r, err := m.Run(t.Context(), weir.Inputs{"x": x})
	if r.Close(); err != nil || evaluated.Load() != 1 {
		t.Errorf("an odd size: %v, %d evaluations", err, evaluated.Load())
	}
	x = tensor.From([]float32{1, 0, 0}, 3)
	if _, err := m.Run(t.Context(), weir.Inputs{"x": x}); !errors.Is(err, weir.ErrFault) ||
		!strings.Contains(err.Error(), "com.example:Double") {
		t.Errorf("a kernel that panics: %v", err)
	}
}

// TestRandomOperator holds that calls of a random operator are neither folded nor merged.
func TestRandomOperator(t *testing.T) {
	var n atomic.Int64
	next := weir.Operator{Domain: "com.example", Name: "Next", Random: true,
		Infer: func(c *op.Infer) error { c.Out[0] = op.Concrete(tensor.Float32, 1); return nil },
		Eval: func(c *op.Eval) error {
			y, err := c.Output(0, tensor.Float32, []int{1})
			tensor.As[float32](y)[0] = float32(n.Add(1))
			return err
		}}
	m := load(t, `graph "drawn" {
		opset "" 17
		opset "com.example" 1
		%a: float32[1] = com.example:Next@1 "a" ()
		%b: float32[1] = com.example:Next@1 "b" ()
		%y: float32[1] = Mul@14 (%a, %b)
		output %y
	}`, weir.WithOperators(next))
	for _, want := range []float32{1 * 2, 3 * 4} {
		r, err := m.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if y := tensor.As[float32](r.Outputs()[0])[0]; y != want {
			t.Errorf("got %v, want %v", y, want)
		}
		r.Close()
	}
}
