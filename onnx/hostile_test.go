package onnx

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// vec declares an input of shape [N] with a symbol, or a scalar of another type.
func vec(name string) part {
	return sub(11, text(1, name), sub(2, sub(1, number(1, 1), sub(2, sub(1, text(2, "N"))))))
}

func scalar(num int, name string, dtype int64) part {
	return sub(num, text(1, name), sub(2, sub(1, number(1, dtype), sub(2))))
}

func int64s(name string, v byte) part {
	return initializer(text(8, name), number(1, 1), number(2, 7),
		blob(9, []byte{v, 0, 0, 0, 0, 0, 0, 0}))
}

// chain makes n steps from s0 to sN by f.
func chain(n int, f func(from, to string, i int) []part) []part {
	parts := []part{vec("x"), sub(12, text(1, fmt.Sprintf("s%d", n))), int64s("one", 1),
		int64s("three", 3), node("Shape", "x->s0")}
	for i := range n {
		parts = append(parts, f(fmt.Sprintf("s%d", i), fmt.Sprintf("s%d", i+1), i)...)
	}
	return parts
}

// nest puts a node that makes w from v into n bodies.
func nest(n int, wrap func(part) part) []part {
	p := node("Abs", "v->w")
	for range n {
		p = wrap(p)
	}
	return []part{floats(11, "v", -1), scalar(11, "n", 7), scalar(11, "t", 9), floats(12, "w", -1),
		p}
}

// TestHostile reads small files that are made to cost much: expressions that double at every node,
// bodies in bodies, very many parts. Time and memory must stay in proportion to the file.
func TestHostile(t *testing.T) {
	abs := func(n int, operand func(int) string) []part {
		parts := []part{in("0"), out(fmt.Sprint(n))}
		for i := range n {
			parts = append(parts, node("Abs", operand(i)))
		}
		return parts
	}
	const many = 50_000
	cases := []struct {
		name  string
		parts []part
	}{
		{"squares of a symbol", chain(60, func(from, to string, _ int) []part {
			return []part{node("Mul", from+","+from+"->"+to)}
		})},
		{"sums of quotients", chain(60, func(from, to string, i int) []part {
			a, b, c := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i), fmt.Sprintf("c%d", i)
			return []part{node("Div", from+",three->"+a), node("Add", from+",one->"+b),
				node("Div", b+",three->"+c), node("Add", a+","+c+"->"+to)}
		})},
		{"nodes in order", abs(many, func(i int) string { return fmt.Sprintf("%d->%d", i, i+1) })},
		{"nodes in reverse", abs(many, func(i int) string {
			return fmt.Sprintf("%d->%d", many-i-1, many-i)
		})},
		{"one name for all nodes", abs(many, func(i int) string {
			return fmt.Sprintf("0->%d", i+1)
		})},
		{"a wide node", []part{in("x"), out("y"),
			node("Sum", "x"+strings.Repeat(",x", 100_000)+"->y")}},
		{"loops", nest(40, func(p part) part {
			return node("Loop", "n,t,v->w",
				bodyAttr("body", scalar(11, "i", 7), scalar(11, "c", 9), floats(11, "v", -1),
					scalar(12, "c", 9), floats(12, "w", -1), p))
		})},
		{"scans", nest(40, func(p part) part {
			return node("Scan", "v,v->w",
				bodyAttr("body", floats(11, "v", -1), floats(11, "z", -1), floats(12, "w", -1), p),
				intAttr("num_scan_inputs", 1))
		})},
		{"branches", nest(40, func(p part) part {
			return node("If", "t->w", bodyAttr("then_branch", floats(12, "w", -1), p),
				bodyAttr("else_branch", floats(12, "w", -1), node("Abs", "v->w")))
		})},
	}
	for _, c := range cases {
		b := modelOf(c.parts...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		_, err := Decode(b, "", Options{})
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(100*len(b)+8<<20); got > limit {
			t.Errorf("%s: %d bytes took %d bytes of memory, limit %d", c.name, len(b), got, limit)
		}
		if took > 20*time.Second {
			t.Errorf("%s: %d bytes took %v", c.name, len(b), took)
		}
		t.Logf("%s: %d bytes, %v, %v", c.name, len(b), took, err)
	}
}

// TestMistypedModels refuses models that say one thing and compute another.
func TestMistypedModels(t *testing.T) {
	declared := func(elem int64, dims ...int64) part {
		var shape []part
		for _, n := range dims {
			shape = append(shape, sub(1, number(1, n)))
		}
		return sub(12, text(1, "y"), sub(2, sub(1, number(1, elem), sub(2, shape...))))
	}
	for _, c := range []struct {
		name string
		out  part
		says string
	}{
		{"float32, as computed", declared(1, 2), ""},
		{"int64 for float32", declared(7, 2),
			`value "y" is declared int64[2], the operator gives float32`},
		{"a dimension of 2^62", declared(1, 1<<62), "dimension 0 is 4611686018427387904"},
	} {
		_, err := Decode(modelOf(in("x"), c.out, node("Relu", "x->y")), "", Options{})
		if c.says == "" && err != nil || c.says != "" &&
			(err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.says)
		}
	}
}
