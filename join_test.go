package weir_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/tensor"
)

// The parts: a convolution, what a planner would put into its weights, and a head with two inputs.
const (
	convPart = `graph "conv" {
  opset "" 17
  input %x: float32[N,2,5,5]
  const %w: float32[3,2,1,1] = {0.3, -1.7, 2.2, 0.9, 1.1, -0.6}
  %y: float32[N,3,5,5] = Conv@11 (%x, %w)
  output %y
}`
	normPart = `graph "norm" {
  opset "" 17
  input %a: float32[M,3,5,5]
  const %s: float32[3] = {0.7, 1.3, -0.2}
  const %b: float32[3] = {0.1, 0.2, 0.3}
  const %m: float32[3] = {0.5, -0.4, 0.3}
  const %v: float32[3] = {1.1, 0.9, 0.7}
  %n: float32[M,3,5,5] = BatchNormalization@15 (%a, %s, %b, %m, %v)
  output %n
}`
	headPart = `graph "head" {
  opset "" 13
  input %p: float32[B,3,5,5]
  input %q: float32[B,3,5,5]
  %sum: float32[B,3,5,5] = Add@13 (%p, %q)
  %r: float32[B,3,5,5] = Relu@13 (%sum)
  output %sum
  output %r
}`
)

// once opens a graph whose model whoever gets it closes.
func once(t *testing.T, text string) *weir.Model {
	t.Helper()
	m, err := weir.Open(modelFile(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// joinParts are parts in no order; the last two make a whole of their own.
func joinParts(t *testing.T) []weir.Part {
	return []weir.Part{
		{Name: "head", Model: once(t, headPart),
			Inputs:  map[string]string{"p": "normal", "q": "raw"},
			Outputs: map[string]string{"r": "out"}},
		{Name: "norm", Model: once(t, normPart), Inputs: map[string]string{"a": "raw"},
			Outputs: map[string]string{"n": "normal"}},
		{Name: "conv", Model: once(t, convPart), Inputs: map[string]string{"x": "image"},
			Outputs: map[string]string{"y": "raw"}},
	}
}

// TestJoin holds that the whole computes what its parts compute one after another, bit by bit.
func TestJoin(t *testing.T) {
	whole, err := weir.Join("whole", joinParts(t), []string{"out", "normal"})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if in := whole.Inputs(); len(in) != 1 || in[0].Name != "image" ||
		in[0].Type.String() != "float32[N,2,5,5]" {
		t.Errorf("inputs %v", in)
	}
	three := joinParts(t)
	defer three[0].Model.Close()
	pair, err := weir.Join("pair", three[1:], []string{"normal"})
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	conv, norm, head := load(t, convPart), load(t, normPart), load(t, headPart)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 3} {
		data := make([]float32, n*50)
		for i := range data {
			data[i] = float32(rng.NormFloat64())
		}
		x := tensor.From(data, n, 2, 5, 5)
		raw := first(t, conv, weir.Inputs{"x": x}, "y")
		normal := first(t, norm, weir.Inputs{"a": raw}, "n")
		want := first(t, head, weir.Inputs{"p": normal, "q": raw}, "r")
		for name, w := range map[string]*weir.Tensor{"out": want, "normal": normal} {
			if got := first(t, whole, weir.Inputs{"image": x}, name); !tensor.Equal(got, w) {
				t.Errorf("%d images, %s: %v, want %v", n, name, got, w)
			}
		}
		if got := first(t, pair, weir.Inputs{"image": x}, "normal"); !tensor.Equal(got, normal) {
			t.Errorf("%d images, two parts: %v, want %v", n, got, normal)
		}
	}
}

// first is a copy of an output.
func first(t *testing.T, m *weir.Model, in weir.Inputs, name string) *weir.Tensor {
	t.Helper()
	r, err := m.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.Output(name).Clone()
}

// TestJoinKept: the plan of a whole is kept where those of its parts are, by how they are joined;
// not where one of them came from memory.
func TestJoinKept(t *testing.T) {
	path := filepath.Join("examples", "digits", "digits.onnx")
	if info, err := os.Stat(path); err != nil {
		t.Fatal(err)
	} else if time.Since(info.ModTime()) < 10*time.Second {
		t.Skip("the model was checked out a moment ago, and plans of such are not kept")
	}
	dir := filepath.Join(t.TempDir(), "plans")
	open := func() (*weir.Model, error) { return weir.Open(path, weir.WithCache(dir)) }
	x := tensor.From(make([]float32, 64), 1, 1, 8, 8)
	x.Data[40], x.Data[41] = 0x80, 0x3f // 1
	var want *weir.Tensor
	for i, c := range []struct {
		second func() (*weir.Model, error)
		to     string
		plans  int
	}{{open, "b", 1}, {open, "b", 1}, {open, "c", 2},
		{func() (*weir.Model, error) { return weir.Load(digits.Model) }, "b", 2}} {
		first, err := open()
		if err != nil {
			t.Fatal(err)
		}
		second, err := c.second()
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]string{"image": "x"}
		whole, err := weir.Join("pair", []weir.Part{
			{Name: "p", Model: first, Inputs: in, Outputs: map[string]string{"probabilities": "a"}},
			{Name: "q", Model: second, Inputs: in,
				Outputs: map[string]string{"probabilities": c.to}}}, []string{"a", c.to})
		if err != nil {
			t.Fatal(err)
		}
		r, err := whole.Run(t.Context(), weir.Inputs{"x": x})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = r.Output("a").Clone()
		}
		if !tensor.Equal(r.Output("a"), want) || !tensor.Equal(r.Output(c.to), want) {
			t.Errorf("time %d: %v and %v, want %v", i, r.Output("a"), r.Output(c.to), want)
		}
		r.Close()
		if err := whole.Close(); err != nil { // which waits for plans that are being kept
			t.Fatal(err)
		}
		if got, err := filepath.Glob(filepath.Join(dir, "*.plan")); len(got) != c.plans {
			t.Errorf("time %d: %d plans are kept, want %d (%v)", i, len(got), c.plans, err)
		}
	}
}

// TestJoinJoined: a whole is a part of another one, and a value that no part declares is refused.
func TestJoinJoined(t *testing.T) {
	inner, err := weir.Join("inner", joinParts(t), []string{"out"})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := weir.Join("outer", []weir.Part{
		{Name: "a", Model: inner, Inputs: map[string]string{"image": "x"},
			Outputs: map[string]string{"out": "y"}},
		{Name: "b", Model: once(t, normPart), Inputs: map[string]string{"a": "y"},
			Outputs: map[string]string{"n": "z"}},
	}, []string{"z"})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	x := tensor.From(make([]float32, 50), 1, 2, 5, 5)
	if z := first(t, whole, weir.Inputs{"x": x}, "z"); z.Len() != 75 {
		t.Errorf("the outer whole gives %v", z)
	}
	one := strings.ReplaceAll(normPart, "M,3,5,5", "1,3,5,5")
	narrow, err := weir.Join("narrow", []weir.Part{
		{Name: "conv", Model: once(t, convPart), Inputs: map[string]string{"x": "x"},
			Outputs: map[string]string{"y": "y"}},
		{Name: "norm", Model: once(t, one), Inputs: map[string]string{"a": "y"},
			Outputs: map[string]string{"n": "z"}}}, []string{"z"})
	if err != nil {
		t.Fatal(err)
	}
	defer narrow.Close()
	if z := first(t, narrow, weir.Inputs{"x": x}, "z"); z.Len() != 75 {
		t.Errorf("one row gives %v", z)
	}
	two := tensor.From(make([]float32, 100), 2, 2, 5, 5)
	_, err = narrow.Run(t.Context(), weir.Inputs{"x": two})
	if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "takes [1 3 5 5]") {
		t.Errorf("more rows than a part takes: %v", err)
	}
}

// TestJoinRefused holds what parts cannot be joined, and that their models are closed then.
func TestJoinRefused(t *testing.T) {
	for _, c := range []struct {
		change  func(p []weir.Part)
		outputs string
		says    string
	}{
		{func([]weir.Part) {}, "none", `no part computes output "none"`},
		{func([]weir.Part) {}, "image", `no part computes output "image"`},
		{func([]weir.Part) {}, "out out", `output "out" is given twice`},
		{func(p []weir.Part) { delete(p[0].Inputs, "q") }, "out", `head: input "q" has no value`},
		{func(p []weir.Part) { p[0].Inputs["s"] = "raw" }, "out", `head: there is no input "s"`},
		{func(p []weir.Part) { p[1].Outputs["s"] = "raw" }, "out", `norm: there is no output "s"`},
		{func(p []weir.Part) { p[1].Outputs["n"] = "raw" }, "out", `norm and conv both compute "raw"`},
		{func(p []weir.Part) { p[2].Inputs["x"] = "out" }, "out",
			"head, norm, conv wait for each other"},
		{func(p []weir.Part) { p[1].Inputs["a"] = "image" }, "out", `value "image"`},
		{func(p []weir.Part) { p[1].Name = "conv" }, "out", `part "conv" is given twice`},
	} {
		parts := joinParts(t)
		c.change(parts)
		_, err := weir.Join("whole", parts, strings.Fields(c.outputs))
		if !errors.Is(err, weir.ErrModel) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %s", err, c.says)
		}
		x := tensor.From(make([]float32, 50), 1, 2, 5, 5)
		if _, err := parts[2].Model.Run(t.Context(), weir.Inputs{"x": x}); !errors.Is(err,
			weir.ErrClosed) {
			t.Errorf("%s: a part can still be run: %v", c.says, err)
		}
	}
}

// TestJoinBodies: parts with branches that read what is around them, outputs that are inputs, one
// value given twice and scalars come together as they run one after another; a model twice, too.
func TestJoinBodies(t *testing.T) {
	const text = `graph "branch" {
  opset "" 17
  input %c: bool[]
  input %a: float32[N,2]
  const %two: float32[] = {2}
  %y: float32[N,2] = If@16 (%c | %a, %two) {then_branch=graph "then" captures 2 {
    input %a: float32[N,2]
    input %two: float32[]
    %r: float32[N,2] = Mul@14 (%a, %two)
    output %r
  }, else_branch=graph "else" captures 2 {
    input %a: float32[N,2]
    input %two: float32[]
    %r: float32[N,2] = Sub@14 (%a, %two)
    output %r
  }}
  %not: bool[] = Not@1 (%c)
  output %y
  output %not
  output %a
}`
	part := func(name, c, a, y, not, same string) weir.Part {
		return weir.Part{Name: name, Model: once(t, text),
			Inputs:  map[string]string{"c": c, "a": a},
			Outputs: map[string]string{"y": y, "not": not, "a": same}}
	}
	whole, err := weir.Join("whole", []weir.Part{part("second", "n1", "y1", "y2", "n2", "a2"),
		part("first", "c", "x", "y1", "n1", "a1")}, []string{"y2", "n2", "a2", "a1", "y1"})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	for c, want := range map[bool][]float32{true: {0, 2}, false: {-2, 0}} {
		r, err := whole.Run(t.Context(), weir.Inputs{"c": tensor.From([]bool{c}),
			"x": tensor.From([]float32{1, 2}, 1, 2)})
		if err != nil {
			t.Fatal(err)
		}
		y1 := []float32{2, 4}
		if !c {
			y1 = []float32{-1, 0}
		}
		for name, w := range map[string]*weir.Tensor{"y2": tensor.From(want, 1, 2),
			"n2": tensor.From([]bool{c}), "a2": tensor.From(y1, 1, 2),
			"y1": tensor.From(y1, 1, 2),
			"a1": tensor.From([]float32{1, 2}, 1, 2)} {
			if got := r.Output(name); !tensor.Equal(got, w) {
				t.Errorf("%v: %s is %v, want %v", c, name, got, w)
			}
		}
		r.Close()
	}
}
