package onnx

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// The builders below write messages field by field, as an exporter would.

type part = func(*message)

func msg(parts ...part) *message {
	m := &message{}
	for _, p := range parts {
		p(m)
	}
	return m
}

func sub(num int, parts ...part) part {
	return func(m *message) { m.nest(protowire.Number(num), msg(parts...)) }
}

func text(num int, s string) part {
	return func(m *message) { m.str(protowire.Number(num), s) }
}
func number(num int, v int64) part {
	return func(m *message) { m.int(protowire.Number(num), v) }
}
func blob(num int, b []byte) part {
	return func(m *message) { m.bytes(protowire.Number(num), b) }
}
func single(num int, v float32) part {
	return func(m *message) { m.float(protowire.Number(num), v) }
}
func initializer(t ...part) part       { return sub(5, t...) }
func graphName(s string) part          { return text(2, s) }
func opsetPart(d string, v int64) part { return sub(8, text(1, d), number(2, v)) }

func join(m *message) []byte {
	var b strings.Builder
	if err := m.writeTo(&b); err != nil {
		panic(err)
	}
	return []byte(b.String())
}

// modelOf makes a model of one graph, of opset 13.
func modelOf(g ...part) []byte {
	return join(msg(number(1, 8), sub(7, g...), opsetPart("", 13)))
}

// floats declares an input or output of shape [n], of unknown rank for n < 0.
func floats(num int, name string, n int64) part {
	t := sub(1, number(1, 1))
	if n >= 0 {
		t = sub(1, number(1, 1), sub(2, sub(1, number(1, n))))
	}
	return sub(num, text(1, name), sub(2, t))
}

func in(name string) part  { return floats(11, name, 2) }
func out(name string) part { return floats(12, name, -1) }

// node makes a NodeProto; operands are written "a,b->c", "" is an absent one.
func node(typ, operands string, attrs ...part) part {
	return sub(1, nodeParts("", typ, operands, attrs...)...)
}

func nodeParts(name, typ, operands string, attrs ...part) []part {
	ins, outs, _ := strings.Cut(operands, "->")
	parts := []part{text(3, name), text(4, typ)}
	if ins != "" {
		for _, s := range strings.Split(ins, ",") {
			parts = append(parts, text(1, s))
		}
	}
	for _, s := range strings.Split(outs, ",") {
		parts = append(parts, text(2, s))
	}
	return append(parts, attrs...)
}

func intAttr(name string, v int64) part {
	return sub(5, text(1, name), number(3, v), number(20, 2))
}
func bodyAttr(name string, g ...part) part {
	return sub(5, text(1, name), sub(6, g...), number(20, 5))
}

// vector makes the fields of a float TensorProto.
func vector(name string, v ...float32) []part {
	return []part{text(8, name), number(1, int64(len(v))), number(2, 1), blob(9, tensor.Bytes(v))}
}

func truth(name string, v bool) []part {
	b := []byte{0}
	if v {
		b[0] = 1
	}
	return []part{text(8, name), number(2, 9), blob(9, b)}
}

func mustDecode(t *testing.T, b []byte) *graph.Graph {
	t.Helper()
	m, err := Decode(b, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Graph
}

// eval runs a graph on float vectors.
func eval(t *testing.T, g *graph.Graph, in ...[]float32) []float32 {
	t.Helper()
	var ins []*tensor.Tensor
	for _, v := range in {
		ins = append(ins, tensor.From(v, len(v)))
	}
	outs, err := g.Eval(context.Background(), ins)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(tensor.As[float32](outs[0]))
}

func TestDecodeShapesTheGraph(t *testing.T) {
	g := mustDecode(t, modelOf(graphName("g"), in("x"), in("w"), out("y"),
		initializer(vector("w", 3, 4)...),
		node("Add", "h,one->y"), node("Mul", "x,w->h"),
		node("Constant", "->one",
			sub(5, text(1, "value_floats"), single(7, 1), single(7, 1), number(20, 6)))))
	if len(g.Inputs) != 1 || g.Inputs[0].Name != "x" {
		t.Errorf("inputs %v: the initialiser is no input", g.Inputs)
	}
	if len(g.Nodes) != 2 || g.Nodes[0].Type != "Mul" || g.Nodes[0].Name != "Mul_1" ||
		g.Nodes[1].Name != "Add_0" {
		t.Errorf("nodes %v: want Mul_1 before Add_0", g.Nodes)
	}
	if got := eval(t, g, []float32{1, 2}); !slices.Equal(got, []float32{4, 9}) {
		t.Errorf("y = %v, want [4 9]", got)
	}
}

func TestConstantKinds(t *testing.T) {
	cases := []struct {
		name string
		attr part
		want *tensor.Tensor
	}{
		{"value", sub(5, text(1, "value"), sub(5, vector("", 1, 2)...), number(20, 4)),
			tensor.From([]float32{1, 2}, 2)},
		{"value_float", sub(5, text(1, "value_float"), single(2, 2.5), number(20, 1)),
			tensor.Scalar(float32(2.5))},
		{"value_floats", sub(5, text(1, "value_floats"), blob(7, tensor.Bytes([]float32{1, 2, 3})),
			number(20, 6)), tensor.From([]float32{1, 2, 3}, 3)},
		{"value_int", sub(5, text(1, "value_int"), number(3, -7), number(20, 2)),
			tensor.Scalar(int64(-7))},
		{"value_ints", sub(5, text(1, "value_ints"), number(8, 1), number(8, 2), number(20, 7)),
			tensor.From([]int64{1, 2}, 2)},
		{"value_ints of none", sub(5, text(1, "value_ints"), number(20, 7)),
			tensor.From([]int64{}, 0)},
		{"value_string", sub(5, text(1, "value_string"), text(4, "a"), number(20, 3)),
			tensor.FromStrings([]string{"a"})},
		{"value_strings", sub(5, text(1, "value_strings"), text(9, "a"), text(9, "b"),
			number(20, 8)), tensor.FromStrings([]string{"a", "b"}, 2)},
		{"sparse_value", sub(5, text(1, "sparse_value"), sub(22, sub(1, vector("v", 5, 6)...),
			sub(2, number(1, 2), number(1, 2), number(2, 7),
				blob(9, tensor.Bytes([]int64{0, 1, 1, 0}))), number(3, 2), number(3, 2)),
			number(20, 11)),
			tensor.From([]float32{0, 5, 6, 0}, 2, 2)},
	}
	for _, c := range cases {
		m, err := Decode(modelOf(sub(12, text(1, "y")), node("Constant", "->y", c.attr)), "",
			Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := m.Graph.Outputs[0].Const(); got == nil || !tensor.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestCaptures checks that what a body uses from outside arrives as explicit inputs, the same for
// both branches, through every level, and that constants are copied instead.
func TestCaptures(t *testing.T) {
	inner := func(op string) []part {
		return []part{graphName("inner"), out("r"), node(op, "x,z->r")}
	}
	b := modelOf(in("x"), in("z"), out("y"), initializer(vector("k", 10, 20)...),
		initializer(truth("yes", true)...),
		node("If", "yes->y",
			bodyAttr("then_branch", graphName("then"), out("s"),
				node("If", "yes->q", bodyAttr("then_branch", inner("Sub")...),
					bodyAttr("else_branch", inner("Add")...)),
				node("Add", "q,k->s")),
			bodyAttr("else_branch", graphName("else"), out("s"), node("Identity", "x->z2"),
				node("Add", "z2,k->s"))))
	g := mustDecode(t, b)
	n := g.Nodes[0]
	if n.Captures != 2 || len(n.In) != 3 || n.In[1].Name != "x" || n.In[2].Name != "z" {
		t.Fatalf("captures %d of inputs %v, want x and z", n.Captures, n.In)
	}
	for _, body := range n.Bodies() {
		if body.Captures != 2 || body.NumFormals() != 0 {
			t.Errorf("body %q: %d captures, %d formals, want 2 and 0", body.Name, body.Captures,
				body.NumFormals())
		}
		if c := body.Constants(); !slices.ContainsFunc(c, func(v *graph.Value) bool {
			return v.Name == "k"
		}) {
			t.Errorf("body %q: constants %v, want k among them", body.Name, c)
		}
	}
	if got := eval(t, g, []float32{1, 2}, []float32{3, 5}); !slices.Equal(got, []float32{8, 17}) {
		t.Errorf("y = %v, want [8 17]", got)
	}
}

// TestShadowing checks that a name of a body hides the same name outside, and that a sibling's
// capture of the outer one gets another name.
func TestShadowing(t *testing.T) {
	g := mustDecode(t, modelOf(in("x"), out("y"), initializer(truth("no", false)...),
		node("Neg", "x->h"),
		node("If", "no->y",
			bodyAttr("then_branch", graphName("then"), out("r"), node("Identity", "h->r")),
			bodyAttr("else_branch", graphName("else"), out("r"), node("Abs", "x->h"),
				node("Identity", "h->r")))))
	if got := eval(t, g, []float32{-1, 2}); !slices.Equal(got, []float32{1, 2}) {
		t.Errorf("y = %v, want [1 2]: the else branch has an h of its own", got)
	}
}

func TestOptionalOperands(t *testing.T) {
	g := mustDecode(t, modelOf(in("x"), out("y"),
		initializer(append([]part{}, text(8, "hi"), number(2, 1),
			blob(9, tensor.Bytes([]float32{1})))...),
		node("Clip", "x,,hi->h"), node("Clip", "h,,->y")))
	if n := g.Nodes[0]; len(n.In) != 3 || n.In[1] != nil {
		t.Errorf("inputs %v, want the second absent", n.In)
	}
	if n := g.Nodes[1]; len(n.In) != 1 {
		t.Errorf("inputs %v, want trailing absent ones cut", n.In)
	}
	if got := eval(t, g, []float32{-3, 3}); !slices.Equal(got, []float32{-3, 1}) {
		t.Errorf("y = %v, want [-3 1]", got)
	}
}

// TestRefused lists models that must not be read, with the kind of error and what it must name.
func TestRefused(t *testing.T) {
	cases := []struct {
		name  string
		model []byte
		kind  error
		say   string
	}{
		{"empty", nil, ErrFormat, "no graph"},
		{"text", []byte("hello, world"), ErrFormat, ""},
		{"no opset", join(msg(number(1, 8), sub(7, in("x"), out("y"), node("Abs", "x->y")))),
			ErrOpset, "Abs"},
		{"undefined", modelOf(in("x"), out("y"), node("Add", "x,nowhere->y")), ErrFormat,
			`"nowhere"`},
		{"undefined output", modelOf(in("x"), out("y")), ErrFormat, `"y"`},
		{"defined twice", modelOf(in("x"), out("y"), node("Abs", "x->y"), node("Neg", "x->y")),
			ErrFormat, `"y"`},
		{"input twice", modelOf(in("x"), in("x"), out("x")), ErrFormat, `"x"`},
		{"cycle", modelOf(in("x"), out("y"), node("Add", "x,y->h"), node("Abs", "h->y")),
			graph.ErrInvalid, "cycle"},
		{"no operator", modelOf(in("x"), out("y"), node("", "x->y")), ErrFormat, "no operator"},
		{"unknown operator", modelOf(in("x"), out("y"), node("Frobnicate", "x->y")),
			op.ErrUnsupported, "Frobnicate"},
		{"unknown domain", modelOf(in("x"), out("y"),
			sub(1, append(nodeParts("", "F", "x->y"), text(7, "com.acme"))...)), ErrOpset,
			"com.acme"},
		{"opaque input", modelOf(sub(11, text(1, "s"), sub(2, sub(7))), out("s")),
			op.ErrUnsupported, "opaque"},
		{"sequence of opaque",
			modelOf(sub(11, text(1, "s"), sub(2, sub(4, sub(1, sub(7))))), out("s")),
			op.ErrUnsupported, "opaque"},
		{"map of sequences", modelOf(
			sub(11, text(1, "s"), sub(2, sub(5, number(1, 7), sub(2, sub(4))))), out("s")),
			ErrFormat, "map"},
		{"map with float keys",
			modelOf(sub(11, text(1, "s"),
				sub(2, sub(5, number(1, 1), sub(2, sub(1, number(1, 1)))))), out("s")), ErrFormat,
			"float32"},
		{"deep type", modelOf(sub(11, text(1, "s"), deepType(100)), out("s")), ErrFormat, "deeper"},
		{"graphs attribute", modelOf(in("x"), out("y"),
			node("Abs", "x->y", sub(5, text(1, "bodies"), sub(11), number(20, 10)))),
			op.ErrUnsupported, "bodies"},
		{"attribute twice", modelOf(in("x"), out("y"),
			node("Softmax", "x->y", intAttr("axis", 0), intAttr("axis", 1))), ErrFormat, "axis"},
		{"attribute reference",
			modelOf(in("x"), out("y"),
				node("Softmax", "x->y", sub(5, text(1, "axis"), text(21, "a"), number(20, 2)))),
			ErrFormat, "axis"},
		{"name not UTF-8", modelOf(in("x\xff"), out("x\xff")), ErrFormat, "UTF-8"},
		{"two graphs", append(modelOf(in("x"), out("x")), modelOf(in("x"), out("x"))...), ErrFormat,
			"two graphs"},
		{"huge tensor", modelOf(out("w"),
			initializer(text(8, "w"), number(1, 1<<40), number(2, 1), blob(9, []byte{1, 2, 3, 4}))),
			ErrFormat, `"w"`},
		{"overflowing tensor",
			modelOf(out("w"), initializer(text(8, "w"), number(1, 1<<40), number(1, 1<<40),
				number(2, 1))), ErrFormat, `"w"`},
		{"negative dimension",
			modelOf(out("w"), initializer(text(8, "w"), number(1, -1), number(2, 1))), ErrFormat,
			`"w"`},
		{"a type of the future",
			modelOf(out("w"), initializer(text(8, "w"), number(2, 27), blob(9, []byte{0}))),
			ErrFormat, "27"},
		{"element type 99", modelOf(out("w"),
			initializer(text(8, "w"), number(2, 99), blob(9, []byte{0}))), ErrFormat, "99"},
		{"external without folder",
			modelOf(out("w"), initializer(text(8, "w"), number(2, 1),
				sub(13, text(1, "location"), text(2, "w.bin")), number(14, 1))), ErrExternalData,
			"w.bin"},
		{"deep", modelOf(in("x"), out("y"), deep(100)), ErrFormat, "deeper"},
		{"wide node", modelOf(in("x"), out("y"), node("If", "x->y", bodies(20)...)), ErrFormat,
			"sub-graphs"},
	}
	for _, c := range cases {
		_, err := Decode(c.model, "", Options{})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: got %v, want %v naming %s", c.name, err, c.kind, c.say)
		}
	}
}

// deepType nests sequences.
func deepType(n int) part {
	p := sub(1, sub(1, number(1, 1)))
	for range n {
		p = sub(1, sub(4, p))
	}
	return sub(2, sub(4, p))
}

// deep nests bodies.
func deep(n int) part {
	p := node("Abs", "x->y")
	for range n {
		p = node("If", "x->y", bodyAttr("then_branch", out("y"), p))
	}
	return p
}

func bodies(n int) []part {
	var out []part
	for i := range n {
		out = append(out, bodyAttr(string(rune('a'+i)), graphName("b")))
	}
	return out
}

// TestLegacyBroadcast checks the rewriting of opset 6, where an axis said how the second operand
// lines up.
func TestLegacyBroadcast(t *testing.T) {
	matrix := func(num int, name string) part {
		return sub(num, text(1, name),
			sub(2, sub(1, number(1, 1), sub(2, sub(1, number(1, 2)), sub(1, number(1, 2))))))
	}
	for _, constant := range []bool{true, false} {
		parts := []part{matrix(11, "x"), out("y"), node("Relu", "x->h"),
			node("Add", "h,b->y", intAttr("broadcast", 1), intAttr("axis", 0))}
		inputs := []*tensor.Tensor{tensor.From([]float32{1, 2, 3, 4}, 2, 2)}
		if constant {
			parts = append(parts, initializer(vector("b", 10, 20)...))
		} else {
			parts = append(parts, in("b"))
			inputs = append(inputs, tensor.From([]float32{10, 20}, 2))
		}
		m, err := Decode(join(msg(number(1, 3), sub(7, parts...), opsetPart("", 6))), "", Options{})
		if err != nil {
			t.Fatal(err)
		}
		outs, err := m.Graph.Eval(t.Context(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		want := tensor.From([]float32{11, 12, 23, 24}, 2, 2)
		if !tensor.Equal(outs[0], want) {
			t.Errorf("constant %v: got %v, want %v", constant, outs[0], want)
		}
	}
}

// TestLegacyCast checks that a type by name, as before opset 6, is that type.
func TestLegacyCast(t *testing.T) {
	for name, want := range map[string]tensor.DType{"INT64": tensor.Int64, "DOUBLE": tensor.Float64,
		"FLOAT": tensor.Float32, "FLOAT16": tensor.Float16,
		"WORD": tensor.Undefined} {
		to := sub(5, text(1, "to"), text(4, name), number(20, 3))
		m, err := Decode(join(msg(number(1, 3), sub(7, in("x"), out("y"), node("Cast", "x->y", to)),
			opsetPart("", 5))), "", Options{})
		if want == tensor.Undefined {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := m.Graph.Eval(t.Context(), []*tensor.Tensor{tensor.From([]float32{2}, 1)})
		if err != nil || got[0].DType != want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestOpsetVersions(t *testing.T) {
	of := func(version int64, op string) []byte {
		return join(msg(number(1, 8), sub(7, in("x"), out("y"), node(op, "x->y")),
			opsetPart("", version)))
	}
	newer, err := Decode(of(int64(op.NewestOpset(""))+3, "Abs"), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(newer.Warnings) != 1 || !strings.Contains(newer.Warnings[0], "knows versions up to") {
		t.Errorf("a newer operator set: warnings %q", newer.Warnings)
	}
	known, err := Decode(of(1, "Abs"), "", Options{})
	if err != nil || len(known.Warnings) != 0 {
		t.Errorf("opset 1: %v, %v", known, err)
	}
	if _, err := Decode(of(99, "Frobnicate"), "", Options{}); err == nil ||
		!strings.Contains(err.Error(), "export the model for an older one") {
		t.Errorf("an operator of a newer set: %v", err)
	}
	for _, version := range []int64{0, -1} {
		if _, err := Decode(of(version, "Abs"), "", Options{}); err == nil {
			t.Errorf("opset %d is read", version)
		}
	}
}
