package graph_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

func text(t testing.TB, g *graph.Graph) string {
	t.Helper()
	var b strings.Builder
	if err := graph.Print(&b, g); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func parse(t testing.TB, s string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(s)
	if err != nil {
		t.Fatalf("%v in\n%s", err, s)
	}
	return g
}

// same compares two graphs in everything that Print promises to keep.
func same(t testing.TB, a, b *graph.Graph) {
	t.Helper()
	if a.Name != b.Name || a.Captures != b.Captures || !maps.Equal(a.Opsets, b.Opsets) ||
		!maps.Equal(a.Meta, b.Meta) ||
		len(a.Nodes) != len(b.Nodes) {
		t.Fatalf("graphs %q and %q differ in their heads", a.Name, b.Name)
	}
	sameValues(t, a.Inputs, b.Inputs)
	sameValues(t, a.Outputs, b.Outputs)
	for i, n := range a.Nodes {
		m := b.Nodes[i]
		if n.Name != m.Name || n.Domain != m.Domain || n.Type != m.Type || n.Version != m.Version ||
			n.Captures != m.Captures ||
			len(n.Attrs) != len(m.Attrs) {
			t.Fatalf("%v became %v", n, m)
		}
		sameValues(t, n.In, m.In)
		sameValues(t, n.Out, m.Out)
		for k := range n.Attrs {
			sameAttr(t, n.Attrs[k], m.Attrs[k])
		}
	}
}

func sameValues(t testing.TB, a, b []*graph.Value) {
	t.Helper()
	if len(a) != len(b) {
		t.Fatalf("%d values became %d", len(a), len(b))
	}
	for i, v := range a {
		w := b[i]
		switch {
		case (v == nil) != (w == nil):
			t.Fatalf("value %d came or went", i)
		case v == nil:
		case v.Name != w.Name || v.Index != w.Index || (v.Producer == nil) != (w.Producer == nil) ||
			v.IsConst() != w.IsConst():
			t.Fatalf("value %q became %q", v.Name, w.Name)
		case v.IsConst() && !tensor.Equal(v.Const(), w.Const()):
			t.Fatalf("constant %q: %v became %v", v.Name, v.Const(), w.Const())
		case v.Type.DType != w.Type.DType || v.Type.Ranked != w.Type.Ranked ||
			!slices.EqualFunc(v.Type.Shape, w.Type.Shape, sameDim):
			t.Fatalf("value %q: %v became %v", v.Name, v.Type, w.Type)
		}
	}
}

func sameDim(a, b op.Dim) bool { return a.Equal(b) || a.IsUnknown() && b.IsUnknown() }

func sameAttr(t testing.TB, a, b op.Attr) {
	t.Helper()
	bits := func(fs []float32) (out []uint32) {
		for _, f := range fs {
			out = append(out, math.Float32bits(f))
		}
		return out
	}
	if a.Name != b.Name || a.Kind != b.Kind || !slices.Equal(a.Ints, b.Ints) ||
		!slices.Equal(a.Strings, b.Strings) ||
		!slices.Equal(bits(a.Floats), bits(b.Floats)) ||
		(a.Tensor == nil) != (b.Tensor == nil) ||
		a.Tensor != nil && !tensor.Equal(a.Tensor, b.Tensor) {
		t.Fatalf("attribute %+v became %+v", a, b)
	}
	if g, ok := a.Body.(*graph.Graph); ok {
		same(t, g, b.Body.(*graph.Graph))
	}
}

const sample = `graph "m \"1\"" {
  opset "" 17
  opset "weir" 1
  meta "k" "line\nbreak"
  input %x: float32[N,"a b",2·H + 1,N·"floor((H - 1)/2)" - 3]
  input %c: bool[]
  input %"odd name:0"
  const %w: float32[2,2] = {1, -0, +Inf, 3.1415927}
  const %i: int64[3] = {-1, 0, 9223372036854775807}
  const %s: string[2] = {"a\"b", "\xff"}
  const %u: uint64[] = {18446744073709551615}
  const %h: float16[2] = {0.5, 65504}
  const %b: bfloat16[1] = {-1.5}
  const %f8: float8e4m3fn[3] = {0.4375, -448, -0}
  const %f5: float8e5m2[2] = {-Inf, 1.5258789e-05}
  const %f8n: float8e4m3fn[2] = base64 "f/8="
  const %e8: float8e8m0[2] = {5.877472e-39, 1.7014118e+38}
  const %f4: float4e2m1[3] = {-6, 0.5, 3}
  const %i4: int4[3] = {-8, 7, -1}
  const %u2: uint2[5] = {3, 2, 1, 0, 3}
  const %c64: complex64[1] = base64 "AACAPwAAAEA="
  const %t: bool[2] = {true, false}
  const %n: float32[1] = base64 "AADAfw=="
  const %e: float32[0,4] = {}
  %y: float32[N,?], _, %z = weir:Odd@3 "n1" (%x, _, %w | %c) {a=1, b=1.0, c="s", d=[], e=floats[1.0, -Inf], f=strings["x", ""], t=tensor int32[2] {1, 2}, body=graph "b" captures 1 {
    input %c: bool[]
    %q: bool[] = Identity@17 (%c)
    output %q
  }, l=[1, -2], n=nan7fc00001}
  "output"@1 "no outputs" (%"odd name:0", %i, %s, %u, %h, %b, %f8, %f5, %f8n, %e8, %f4, %i4, %u2, %c64, %t, %n, %e)
  output %y
  output %w
  output %x
}
`

func TestTextKeepsEverything(t *testing.T) {
	g := parse(t, sample)
	if got := text(t, g); got != sample {
		t.Errorf("printed\n%s\nwant\n%s", got, sample)
	}
	same(t, g, parse(t, text(t, g)))
	if got := g.Nodes[0].Captures; got != 1 {
		t.Errorf("the node has %d captures, want 1", got)
	}
	if d := g.Inputs[0].Type.Shape[3]; !d.Equal(
		op.Sym("H").AddInt(-1).FloorDiv(2).Mul(op.Sym("N")).AddInt(-3)) {
		t.Errorf("the last dimension of x is %v", d)
	}
}

func TestTextOfLargeConstants(t *testing.T) {
	data := make([]float32, 1000)
	for i := range data {
		data[i] = float32(math.Sin(float64(i)))
	}
	g := &graph.Graph{
		Name:    "g",
		Outputs: []*graph.Value{graph.NewConst("w", tensor.From(data, 10, 100))},
	}
	same(t, g, parse(t, text(t, g)))
	if s := g.String(); len(s) > 200 || !strings.Contains(s, "float32[10,100] = ...") {
		t.Errorf("the brief form is\n%s", s)
	}
	if _, err := graph.Parse(g.String()); !errors.Is(err, graph.ErrInvalid) ||
		!strings.Contains(err.Error(), "brief") {
		t.Errorf("reading the brief form: %v", err)
	}
}

func TestBriefPutsScalarsWhereTheyAreUsed(t *testing.T) {
	g := parse(t,
		`graph "g" { input %x: float32[N] const %two: float32[] = {2} %y: float32[N] = Mul@17 (%x, %two) output %y }`)
	want := "graph \"g\" {\n  input %x: float32[N]\n  %y: float32[N] = Mul@17 (%x, float32[] " +
		"{2})\n  output %y\n}\n"
	if got := g.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPrintRefuses(t *testing.T) {
	bad := []*graph.Graph{
		{
			Outputs: []*graph.Value{
				graph.NewConst("w",
					&tensor.Tensor{DType: tensor.Float32, Shape: []int{3}, Data: make([]byte, 4)}),
			},
		},
		{
			Nodes: []*graph.Node{
				graph.NewNode("n", "T", 1, op.Attrs{{Name: "a", Kind: op.AttrInt}}, nil),
			},
		},
		{
			Nodes: []*graph.Node{
				graph.NewNode("n", "T", 1, op.Attrs{{Name: "a", Kind: op.AttrBody}}, nil),
			},
		},
	}
	for _, g := range bad {
		if err := graph.Print(&bytes.Buffer{}, g); !errors.Is(err, graph.ErrInvalid) {
			t.Errorf("%v: got %v, want ErrInvalid", g.Nodes, err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{``, "1:1: invalid graph: want 'graph', have the end"},
		{`graph`, "1:6: invalid graph: want a string"},
		{`graph "g" {`, "want a name, have the end"},
		{
			"graph \"g\" {\n  output %y\n}",
			"2:10: invalid graph: value \"y\" is not defined before its use",
		},
		{`graph "g" { input %x input %x }`, `value "x" is defined twice`},
		{`graph "g" { %x = A@1 (%x) }`, `value "x" is not defined`},
		{`graph "g" { %x, %x = A@1 () }`, `value "x" is defined twice`},
		{`graph "g" { %x = A@1 () %x = A@1 () }`, `value "x" is defined twice`},
		{`graph "g" { const %w: int4[2] = {1, 8} }`, "8"},
		{`graph "g" { const %w: uint2[1] = {-1} }`, "-1"},
		{`graph "g" { const %w: int4[3] = base64 "AQ==" }`, "2 bytes"},
		{`graph "g" { const %w: float32[2] = {1} }`, "1 elements for float32[2]"},
		{`graph "g" { const %w: float32[N] = {1} }`, "a constant cannot be float32[N]"},
		{`graph "g" { const %w: float32[...] = {1} }`, "a constant cannot be float32[...]"},
		{`graph "g" { const %w: int8[1] = {128} }`, "'128' is no element of int8"},
		{`graph "g" { const %w: bool[1] = {1} }`, "'1' is no element of bool"},
		{`graph "g" { const %w: float32[1] = {"a"} }`, `"a" is no element of float32`},
		{
			`graph "g" { const %w: float32[1099511627776] = base64 "" }`,
			"want the base64 of 4398046511104 bytes",
		},
		{`graph "g" { const %w: float32[9223372036854775807,2] = {} }`, "a constant cannot be"},
		{`graph "g" { const %w: float32[-1] = {} }`, "a constant cannot be"},
		{`graph "g" { input %x: float31[2] }`, `"float31" is no element type`},
		{`graph "g" { input %x: float32[9x] }`, "'9x' is no dimension"},
		{`graph "g" { input %x: float32["a·b"] }`, "is no dimension"},
		{`graph "g" captures 1 { }`, "1:11: invalid graph: 1 captures of 0 inputs"},
		{`graph "g" { A@1 (_ | _ | _) }`, "a second bar"},
		{`graph "g" { A@1 () {a=1, a=2} }`, `attribute "a" is given twice`},
		{`graph "g" { A@1 () {a=x} }`, `want the value of attribute "a"`},
		{`graph "g" { A@1 () {a=[1.5]} }`, "no element of this list"},
		{`graph "g" { A@one () }`, "want an integer"},
		{`graph "g" { "open`, "1:13: invalid graph: a string does not end"},
		{"graph \"g\" { \x01", "has no place here"},
		{`graph "g" { } }`, "after the end of the graph"},
		{strings.Repeat(`graph "g" { A@1 () {a=`, 100), "nest deeper than 64"},
	}
	for _, tt := range tests {
		_, err := graph.Parse(tt.text)
		if !errors.Is(err, graph.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60s: got %v, want ...%s", tt.text, err, tt.want)
		}
	}
}

func TestTextOfRealModels(t *testing.T) {
	for _, path := range realModels(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			m, err := onnx.Open(path, onnx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			same(t, m.Graph, parse(t, text(t, m.Graph)))
		})
	}
}

// realModels lists small trained models that the benchmarks fetch into the user's cache.
func realModels(t testing.TB) []string {
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	var small []string
	files, _ := filepath.Glob(filepath.Join(dir, "weir", "models", "*.onnx"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Size() < 6<<20 {
			small = append(small, f)
		}
	}
	if len(small) == 0 {
		t.Skip("no models in the cache; internal/conformance/peer/fetch.py fetches them")
	}
	return small
}

func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Add(`graph "g" { }`)
	f.Add(
		`graph "g" captures 1 { input %a: float32[...] %y = If@17 (%a | %a) {then_branch=graph "t" { }} output %y }`)
	f.Add("graph \"g\" { # comment\n const %w: complex64[1] = base64 \"AAAAAAAAAAA=\" output %w }")
	f.Fuzz(func(t *testing.T, s string) {
		g, err := graph.Parse(s)
		if err != nil {
			if !errors.Is(err, graph.ErrInvalid) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		printed := text(t, g)
		again := parse(t, printed)
		same(t, g, again)
		if got := text(t, again); got != printed {
			t.Errorf("printed\n%s\nthen\n%s", printed, got)
		}
	})
}

// TestApart prints a graph with its large tensors elsewhere and reads it back.
func TestApart(t *testing.T) {
	large := make([]float32, 64)
	for i := range large {
		large[i] = float32(i)
	}
	w := tensor.From(large, 8, 8)
	n := graph.NewNode("n", "Constant", 13, op.Attrs{op.TensorAttr("value", w)}, nil, "c")
	m := graph.NewNode("m", "MatMul", 13, nil, []*graph.Value{n.Out[0], graph.NewConst("w", w)},
		"y")
	g := &graph.Graph{
		Name:    "g",
		Opsets:  map[string]int{"": 17},
		Nodes:   []*graph.Node{n, m},
		Outputs: []*graph.Value{m.Out[0], graph.NewConst("one", tensor.From([]float32{1}, 1))},
	}
	var b strings.Builder
	err := graph.PrintExternal(&b, g,
		func(c *tensor.Tensor) (int64, bool) { return 4096, len(c.Data) > 64 })
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "const %w: float32[8,8] = at 4096\n") {
		t.Errorf("the text is\n%s", b.String())
	}
	asked := 0
	back, err := graph.ParseExternal(
		b.String(),
		func(d tensor.DType, shape []int, at int64) (*tensor.Tensor, error) {
			if asked++; d != tensor.Float32 || !slices.Equal(shape, []int{8, 8}) || at != 4096 {
				t.Errorf("asked for %v%v at %d", d, shape, at)
			}
			return w, nil
		},
	)
	if err != nil || asked != 2 {
		t.Fatalf("asked for %d tensors, error %v", asked, err)
	}
	if c := back.Nodes[1].In[1].Const(); c != w || back.Nodes[0].Attrs.Tensor("value") != w {
		t.Error("the tensors are not those that were given")
	}
	if _, err := graph.Parse(b.String()); !errors.Is(err, graph.ErrInvalid) {
		t.Errorf("read without its tensors: error %v", err)
	}
	if _, err := graph.ParseExternal(
		b.String(),
		func(tensor.DType, []int, int64) (*tensor.Tensor, error) {
			return nil, io.ErrUnexpectedEOF
		},
	); !errors.Is(err, graph.ErrInvalid) {
		t.Errorf("a tensor that cannot be had: error %v", err)
	}
}
