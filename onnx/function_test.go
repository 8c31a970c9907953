package onnx

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// function makes a FunctionProto of domain "f", opset 13 inside.
func function(name string, ins, outs []string, parts ...part) part {
	all := []part{text(1, name), text(10, "f"), sub(9, text(1, ""), number(2, 13)),
		sub(9, text(1, "f"), number(2, 1))}
	for _, s := range ins {
		all = append(all, text(4, s))
	}
	for _, s := range outs {
		all = append(all, text(5, s))
	}
	return sub(25, append(all, parts...)...)
}

// step makes a node of a function.
func step(typ, operands string, attrs ...part) part {
	return sub(7, nodeParts("", typ, operands, attrs...)...)
}

func callOf(typ, operands string, attrs ...part) part {
	return sub(1, append(nodeParts("call", typ, operands, attrs...), text(7, "f"))...)
}

func withFunctions(g []part, fs ...part) []byte {
	return join(msg(append([]part{number(1, 8), sub(7, g...), opsetPart("", 13), opsetPart("f", 1)},
		fs...)...))
}

func ref(name, to string, kind int64) part {
	return sub(5, text(1, name), text(21, to), number(20, kind))
}

func TestFunctions(t *testing.T) {
	double := function("Double", []string{"a"}, []string{"b"}, step("Add", "a,a->b"))
	cases := []struct {
		name  string
		model []byte
		want  []float32
	}{
		{"plain", withFunctions([]part{in("x"), out("y"), callOf("Double", "x->y")}, double),
			[]float32{-2, 4}},
		{"twice in a row", withFunctions([]part{in("x"), out("y"), callOf("Double", "x->b"),
			callOf("Double", "b->y")}, double), []float32{-4, 8}},
		{"nested, inner names clash with the caller's",
			withFunctions([]part{in("x"), out("y"), node("Neg", "x->b"), callOf("Four", "b->y")},
				double,
				function("Four", []string{"a"}, []string{"c"},
					sub(7, append(nodeParts("", "Double", "a->b"), text(7, "f"))...),
					sub(7, append(nodeParts("", "Double", "b->c"), text(7, "f"))...))),
			[]float32{4, -8}},
		{"an input passed through", withFunctions([]part{in("x"), out("y"), callOf("Same", "x->y")},
			function("Same", []string{"a"}, []string{"a"})), []float32{-1, 2}},
		{"attribute given", withFunctions(
			[]part{in("x"), out("y"),
				callOf("Leak", "x->y", sub(5, text(1, "slope"), single(2, 0.5), number(20, 1)))},
			leak), []float32{-0.5, 2}},
		{"attribute by default",
			withFunctions([]part{in("x"), out("y"), callOf("Leak", "x->y")}, leak),
			[]float32{-0.25, 2}},
		{"attribute absent", withFunctions([]part{in("x"), out("y"), callOf("Bare", "x->y")},
			function("Bare", []string{"a"}, []string{"b"}, text(6, "slope"),
				step("LeakyRelu", "a->b", ref("alpha", "slope", 1)))), []float32{-0.01, 2}},
		{"optional input absent", withFunctions([]part{in("x"), out("y"), callOf("Cut", "x->y")},
			function("Cut", []string{"a", "lo", "hi"}, []string{"b"}, step("Clip", "a,lo,hi->b"))),
			[]float32{-1, 2}},
		{"body with captures and clashing names",
			withFunctions([]part{in("x"), out("y"), initializer(truth("cond", true)...),
				callOf("Pick", "cond,x->y")},
				function("Pick", []string{"c", "a"}, []string{"b"}, step("Abs", "a->x"),
					step("If", "c->b",
						bodyAttr("then_branch", graphName("t"), out("r"), node("Add", "x,a->cond"),
							node("Identity", "cond->r")),
						bodyAttr("else_branch", graphName("e"), out("r"),
							node("Identity", "a->r"))))),
			[]float32{0, 4}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := eval(t, mustDecode(t, c.model),
				[]float32{-1, 2}); !slices.Equal(got, c.want) {
				t.Errorf("y = %v, want %v", got, c.want)
			}
		})
	}
}

// leak is LeakyRelu with its slope as an attribute of default 0.25.
var leak = function("Leak", []string{"a"}, []string{"b"},
	sub(11, text(1, "slope"), single(2, 0.25), number(20, 1)),
	step("LeakyRelu", "a->b", ref("alpha", "slope", 1)))

func TestFunctionsRefused(t *testing.T) {
	calls := func(typ, operands string) part {
		return sub(7, append(nodeParts("", typ, operands), text(7, "f"))...)
	}
	// Each of these functions calls the next twice: 2⁴⁰ nodes when expanded.
	var bomb []part
	for i := range 40 {
		a, b := string(rune('A'+i)), string(rune('A'+i+1))
		bomb = append(bomb, function("F"+a, []string{"a"}, []string{"c"}, calls("F"+b, "a->b"),
			calls("F"+b, "b->c")))
	}
	bomb = append(bomb, function("F"+string(rune('A'+40)), []string{"a"}, []string{"b"},
		step("Abs", "a->b")))
	cases := []struct {
		name  string
		model []byte
		say   string
	}{
		{"recursion", withFunctions([]part{in("x"), out("y"), callOf("P", "x->y")},
			function("P", []string{"a"}, []string{"b"}, calls("Q", "a->b")),
			function("Q", []string{"a"}, []string{"b"}, calls("P", "a->b"))), "calls itself"},
		{"too many inputs", withFunctions([]part{in("x"), out("y"), callOf("P", "x,x->y")},
			function("P", []string{"a"}, []string{"b"}, step("Abs", "a->b"))), "takes 1 inputs"},
		{"defined twice", withFunctions([]part{in("x"), out("x")}, function("P", nil, nil),
			function("P", nil, nil)), "defined twice"},
		{"a value of the caller", withFunctions([]part{in("x"), out("y"), callOf("P", "x->y")},
			function("P", []string{"a"}, []string{"b"}, step("Add", "a,x->b"))), "not defined"},
		{"exponential expansion",
			withFunctions([]part{in("x"), out("y"), callOf("FA", "x->y")}, bomb...),
			"expand to more than"},
	}
	for _, c := range cases {
		_, err := Decode(c.model, "", Options{})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: got %v, want %v saying %s", c.name, err, ErrFormat, c.say)
		}
	}
}
