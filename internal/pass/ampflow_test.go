package pass

import (
	"slices"
	"testing"

	"github.com/weirgpu/weir/graph"
)

// marked is a graph whose nodes named b... are products in bfloat16.
func marked(t *testing.T, body string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse("graph \"g\" {\n opset \"\" 17\n opset \"weir\" 1\n input %x: " +
		"float32[8,8]\n input %w: float32[8,8]\n" + body + "\n}")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	return g
}

// half is a product in bfloat16 of two values.
func half(out, a, b string) string {
	return "%" + out + " = weir:MatMul@1 (%" + a + ", %" + b + ") {precision=\"bf16\"}\n"
}

// TestAmpFlow holds which values nobody uses beyond bfloat16.
func TestAmpFlow(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		want       []string
	}{
		{"from product to product", half("a", "x", "w") + half("y", "a", "w") + "output %y",
			[]string{"a"}},
		{"through moves", half("a", "x", "w") + "%b = Transpose@17 (%a)\n%c = Relu@17 (%b)\n" +
			half("y", "c", "w") + "output %y", []string{"a", "b", "c"}},
		{"arithmetic in between", half("a", "x", "w") + "%b = Sigmoid@17 (%a)\n" +
			half("y", "b", "w") + "output %y", nil},
		{"a reader in float32", half("a", "x", "w") + "%b = Relu@17 (%a)\n%s = Sigmoid@17 (%b)\n" +
			half("y", "b", "w") + "output %y\noutput %s", nil},
		{"a reader in float32 further on", half("a", "x", "w") + "%b = Relu@17 (%a)\n%c = " +
			"Transpose@17 (%b)\n%s = Sigmoid@17 (%c)\n" + half("y", "b", "w") +
			"output %y\noutput %s", nil},
		{"an output of the graph", half("a", "x", "w") + half("y", "a", "w") +
			"output %a\noutput %y", nil},
		{"no product before", "%a = Relu@17 (%x)\n" + half("y", "a", "w") + "output %y", nil},
		{"one of two before", half("a", "x", "w") + "%b = Concat@17 (%a, %x) {axis=0}\n" +
			half("y", "b", "w") + "output %y", nil},
		{"both before", half("a", "x", "w") + half("b", "w", "x") +
			"%c = Concat@17 (%a, %b) {axis=0}\n" + half("y", "c", "w") + "output %y",
			[]string{"a", "b", "c"}},
		{"as a bias", half("a", "x", "w") +
			"%y = weir:Gemm@1 (%x, %w, %a) {precision=\"bf16\"}\noutput %y", nil},
		{"to a product in float32", half("a", "x", "w") + "%y = MatMul@17 (%a, %w)\noutput %y",
			nil},
		{"several readers in bfloat16", half("a", "x", "w") + half("b", "a", "w") +
			half("c", "w", "a") + "output %b\noutput %c", []string{"a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for v := range newAmpFlow(marked(t, tc.body)).narrow {
				got = append(got, v.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("in bfloat16 only: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestAmpLast holds which products another one follows, however far.
func TestAmpLast(t *testing.T) {
	g := marked(t, half("a", "x", "w")+"%b = Sigmoid@17 (%a)\n%c = Add@17 (%b, %x)\n"+half("y", "c",
		"w")+"%z = Exp@17 (%y)\n"+half("u", "x", "w")+"output %z\noutput %u")
	room := 0
	s := newScope(t.Context(), g, 17, &room, map[string]bool{})
	want := map[string]bool{"a": false, "y": true, "u": true}
	for _, n := range g.Nodes {
		if last, asked := want[n.Out[0].Name]; asked && s.last(n) != last {
			t.Errorf("%s is the last: %v, want %v", n.Out[0].Name, !last, last)
		}
	}
}

// TestAmpFlowOfStats: of attention in bfloat16 the result comes down from a product and may wait in
// 16 bits, and what its gradient computes weights from does not.
func TestAmpFlowOfStats(t *testing.T) {
	for _, precision := range []string{"", `, precision="bf16"`} {
		g := marked(t, "%a = MatMul@13 (%x, %w)\n%y, %stats = weir:Attention@1 (%a, %x, %w) "+
			`{scale=0.5`+precision+"}\noutput %y\noutput %stats")
		f := newAmpFlow(g)
		for _, v := range g.Outputs {
			if want := v.Name == "y" && precision != ""; f.down[v] != want {
				t.Errorf("%s%s comes down from a product: %v", v.Name, precision, !want)
			}
		}
	}
}
