package onnx

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// own is an operator call of a domain that weir does not have.
func own(name, typ, operands string, attrs ...part) part {
	return sub(1, append(nodeParts(name, typ, operands, attrs...), text(7, "com.example"))...)
}

// ownModel calls three operators that weir does not have, one of them in a body as well.
func ownModel() []byte {
	return join(msg(number(1, 8), sub(7, in("x"), out("z"), initializer(truth("c", true)...),
		own("first", "Double", "x->y"), own("second", "Double", "y->u"), own("odd", "Odd", "u->v"),
		node("relu", "v->w"), node("If", "c->z", bodyAttr("then_branch", own("inner", "Double",
			"w->a"), out("a")), bodyAttr("else_branch", node("Relu", "w->b"), out("b")))),
		opsetPart("", 13), opsetPart("com.example", 2)))
}

// TestUnknownOperators holds that a model with operators that weir does not have is refused with
// all of them, and can be looked at.
func TestUnknownOperators(t *testing.T) {
	_, err := Decode(ownModel(), "", Options{})
	var unknown *graph.UnknownError
	if !errors.As(err, &unknown) || !errors.Is(err, op.ErrUnsupported) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{`com.example:Double (version 2, 3 nodes, the first "first")`,
		`com.example:Odd (version 2, node "odd")`, "did you mean Relu?", op.Advice} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in %q", want, err)
		}
	}
	m, err := Decode(ownModel(), "", Options{SkipCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.Graph.Nodes); n != 5 || !slices.EqualFunc(m.Graph.Unknown(), unknown.Operators,
		func(a, b graph.Unknown) bool { return a.String() == b.String() }) {
		t.Errorf("%d nodes, unknown %v", n, m.Graph.Unknown())
	}
}

// TestUnknownInOldModel holds the same of a model that is brought to a later form as it is read.
func TestUnknownInOldModel(t *testing.T) {
	b := join(msg(number(1, 3), sub(7, in("x"), out("z"), own("a", "Double", "x->y"),
		own("b", "Odd", "y->v"), node("Add", "y,v->z", intAttr("broadcast", 1),
			intAttr("axis", 0))), opsetPart("", 6), opsetPart("com.example", 1)))
	_, err := Decode(b, "", Options{})
	if err == nil || !strings.Contains(err.Error(), ":Double") ||
		!strings.Contains(err.Error(), ":Odd") {
		t.Errorf("got %v", err)
	}
}

// TestOwnOperators holds that nodes keep the rows that the caller gives, in bodies and copies as
// well, of the version that the model imports.
func TestOwnOperators(t *testing.T) {
	scaled := func(since int, typ string, by float32) *op.Op {
		return &op.Op{Domain: "com.example", Name: typ, Since: []int{since}, MinIn: 1, MaxIn: 1,
			Infer: func(c *op.Infer) error { c.Out[0] = c.In[0].TypeOnly(); return nil },
			Eval: func(c *op.Eval) error {
				y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
				for i, x := range tensor.As[float32](c.In[0]) {
					tensor.As[float32](y)[i] = by * x
				}
				return err
			}}
	}
	b := join(msg(number(1, 8), sub(7, in("x"), out("z"), initializer(truth("c", true)...),
		own("first", "Double", "x->y"), own("odd", "Odd", "y->w"),
		node("If", "c->z", bodyAttr("then_branch", own("inner", "Double", "w->a"), out("a")),
			bodyAttr("else_branch", node("Relu", "w->b"), out("b")))),
		opsetPart("", 13), opsetPart("com.example", 2)))
	m, err := Decode(b, "", Options{Operators: []*op.Op{scaled(3, "Double", 7),
		scaled(1, "Double", 5), scaled(2, "Double", 2), scaled(1, "Odd", -1)}})
	if err != nil {
		t.Fatal(err)
	}
	if y := eval(t, m.Graph.Clone(), []float32{1, 3}); !slices.Equal(y, []float32{-4, -12}) {
		t.Errorf("got %v, want [-4 -12]", y)
	}
}

// TestMetadata holds that what a model says of itself can be read.
func TestMetadata(t *testing.T) {
	b := join(msg(number(1, 8), text(2, "tool"), text(3, "1.2"), text(4, "com.example"),
		number(5, 42), text(6, "what it is"), sub(7, text(2, "main"), in("x"), out("x")),
		opsetPart("", 13), sub(14, text(1, "labels"), text(2, "a b"))))
	m, err := Decode(b, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := m.Metadata
	if got.Graph != "main" || got.Producer != "tool" || got.ProducerVersion != "1.2" ||
		got.Domain != "com.example" || got.Version != 42 || got.Doc != "what it is" ||
		got.IRVersion != 8 || got.Opsets[""] != 13 || got.Properties["labels"] != "a b" {
		t.Errorf("got %+v", got)
	}
}
