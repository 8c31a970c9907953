package graph_test

import (
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
)

const branch = `graph "b" {
	input %x: float32[N,2]
	input %c: bool[]
	const %two: float32[] = {2}
	%a: float32[N,2] = Mul@17 "dou\"ble" (%x, %two)
	%y: float32[N,2] = If@17 (%c | %a) {then_branch=graph "then" captures 1 {
		input %a: float32[N,2]
		%r: float32[N,2] = Relu@17 (%a)
		output %r
	}, else_branch=graph "else" captures 1 { input %a: float32[N,2] output %a }}
	output %y
}`

func TestDot(t *testing.T) {
	var b strings.Builder
	if err := graph.Dot(&b, parse(t, branch)); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, want := range []string{
		`digraph "b" {`, `label="x\nfloat32[N,2]"`, `label="Mul 2\ndou\"ble"`, `label="then"`,
		`label="Relu"`, `style=dashed`, `out0 [shape=ellipse, label="y"]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
	if strings.Count(got, "{") != strings.Count(got, "}") || strings.Count(got, " -> ") != 8 {
		t.Errorf("%d edges in\n%s", strings.Count(got, " -> "), got)
	}
}
