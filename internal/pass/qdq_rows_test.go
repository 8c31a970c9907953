package pass_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// rowsNet is the begin of a graph on rows of 100 numbers.
func rowsNet(t *testing.T, seed uint64, shape ...int) (b *qdqNet, x *graph.Value) {
	x = &graph.Value{Name: "x", Type: op.Concrete(tensor.Float32, append(shape, 100)...)}
	b = &qdqNet{t: t, r: rand.New(rand.NewPCG(seed, 23)),
		g: &graph.Graph{Name: "rows", Opsets: map[string]int{"": 21}, Inputs: []*graph.Value{x}}}
	return b, x
}

// TestGridProduct makes convolutions of integers of products of quantised rows: Gemm by weights
// either way, and MatMul of two and three axes, by one scale and by one an output.
func TestGridProduct(t *testing.T) {
	types := []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16}
	for seed := range uint64(32) {
		shape := []int{7}
		if seed%4 == 3 {
			shape = []int{3, 5}
		}
		b, x := rowsNet(t, seed, shape...)
		weights, axis, attrs := []int{100, 35}, int64(1), op.Attrs(nil)
		if seed%4 == 1 {
			weights, axis, attrs = []int{35, 100}, 0, op.Attrs{op.IntAttr("transB", 1)}
		}
		scales := []int{}
		if seed%8 > 3 {
			scales = []int{35}
		}
		in := []*graph.Value{b.onSteps(x, types[seed/8]), b.weights(axis, b.scale(0.01, scales...),
			weights...)}
		typ := "MatMul"
		if seed%4 < 2 {
			typ = "Gemm"
			if b.r.IntN(2) == 0 {
				in = append(in, b.scale(1, 35))
			}
		}
		before, after, text := b.done(b.add(typ, attrs, in...), fastBytes)
		if !strings.Contains(text, "weir:GridConv") || strings.Contains(text, typ+"@") {
			t.Fatalf("seed %d: became\n%v", seed, b.g)
		}
		closeTo(t, after, before, 0.0011)
	}
}

// TestGridProductLeaves leaves what kernels of integers do not serve, or do not serve faster.
func TestGridProductLeaves(t *testing.T) {
	for name, want := range map[string]bool{"": true, "turned": false, "scaled": false,
		"added": false, "few": false, "thin": false, "deep": false,
		"bytes": false, "old": false, "slow": false, "slow words": false, "portable": false} {
		b, x := rowsNet(t, 5, 7)
		o, weights, attrs, typ := fastBytes, []int{100, 40}, op.Attrs(nil), "Gemm"
		switch name {
		case "turned":
			b, x = rowsNet(t, 5, 100)
			attrs = op.Attrs{op.IntAttr("transA", 1)}
		case "scaled":
			attrs = op.Attrs{op.FloatAttr("alpha", 2)}
		case "few":
			weights[1] = 31
		case "thin":
			x = b.add("Slice", nil, x, b.constant(tensor.From([]int64{0}, 1)),
				b.constant(tensor.From([]int64{95}, 1)), b.constant(tensor.From([]int64{1}, 1)))
			weights[0] = 95
		case "deep":
			b, x = rowsNet(t, 5, 2, 3, 7)
			typ = "MatMul"
		case "old":
			b.g.Opsets[""] = 12
		case "slow":
			o.Features.FastBytes = false
		case "slow words":
			o.Features.FastWords = false
		case "portable":
			o.Portable = true
		}
		in := []*graph.Value{b.onSteps(x, tensor.Uint16),
			b.weights(1, b.scale(0.01), weights...)}
		if name == "added" {
			in = append(in, b.scale(1, 7, 1))
		}
		y := b.add(typ, attrs, in...)
		if name == "bytes" {
			y = b.onSteps(y, tensor.Uint8)
		}
		before, after, text := b.done(y, o)
		if strings.Contains(text, "GridConv") != want {
			t.Errorf("%s: became\n%v", name, text)
		}
		if name != "bytes" {
			closeTo(t, after, before, 0.01)
		}
	}
}
