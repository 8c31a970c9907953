package pass_test

import (
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// number is a constant of one element.
func (b *qdqNet) number(x float32) *graph.Value { return b.constant(tensor.From([]float32{x}, 1)) }

// sixteen rounds to 16 bits.
func (b *qdqNet) sixteen(y *graph.Value) *graph.Value {
	scale := b.constant(tensor.Scalar[float32](0.001))
	zero := b.constant(tensor.Scalar[uint16](9000))
	return b.add("DequantizeLinear", nil, b.add("QuantizeLinear", nil, y, scale, zero), scale, zero)
}

// swish is hard swish in single operators, each of which is rounded, after x was scaled.
func (b *qdqNet) swish(x *graph.Value) *graph.Value {
	x = b.sixteen(b.add("Mul", nil, b.number(0.7), x))
	y := b.add("Clip", nil, b.sixteen(b.add("Add", nil, x, b.number(3))),
		b.constant(tensor.Scalar[float32](0)), b.constant(tensor.Scalar[float32](6)))
	y = b.sixteen(b.add("Mul", nil, x, b.sixteen(y)))
	return b.sixteen(b.add("Div", nil, y, b.number(6)))
}

// TestChain computes element by element in one operator, and gives the same bits.
func TestChain(t *testing.T) {
	for seed := range uint64(4) {
		b, x := gridNet(t, seed)
		y := b.swish(x)
		if seed%2 == 1 { // another one after it keeps what comes between
			y = b.swish(y)
		}
		before, after, text := b.done(y, pass.Options{Check: true})
		if !strings.Contains(text, "weir:Chain") || strings.Contains(text, "\n") {
			t.Fatalf("seed %d: became\n%v", seed, b.g)
		}
		if !tensor.Equal(before, after) {
			t.Fatalf("seed %d: got %v, want %v", seed, after, before)
		}
	}
}

// TestChainTakesRounding takes the rounding of a product whose result nothing else reads.
func TestChainTakesRounding(t *testing.T) {
	for seed := range uint64(4) {
		b, x := gridNet(t, seed)
		y := b.sixteen(b.add("Conv", nil, x, b.scale(0.1, 4, 6, 1, 1)))
		z := b.swish(y)
		if seed%2 == 1 {
			z = b.add("Max", nil, z, y)
		}
		before, after, text := b.done(z, pass.Options{Check: true})
		if strings.Contains(text, "activation") == (seed%2 == 0) ||
			!strings.Contains(text, "weir:Chain") {
			t.Fatalf("seed %d: became\n%v", seed, b.g)
		}
		closeTo(t, after, before, 0.0011)
	}
}

// TestChainOfOperands adds and multiplies by other values in the chain, as many as it may have, of
// which one may be as large, and gives the same bits.
func TestChainOfOperands(t *testing.T) {
	for seed, chains := range []int{1, 1, 1, 1, 2, 2, 2} {
		b, x := gridNet(t, uint64(seed))
		r := b.add("Sigmoid", nil, b.add("Neg", nil, x))
		y := b.sixteen(x)
		for i := range seed {
			with := r
			if i%3 != 0 {
				with = b.scale(1, 6, 1, 1)
			}
			y = b.sixteen(b.add([]string{"Add", "Mul"}[i%2], nil, with, y))
		}
		y = b.sixteen(b.add("Sigmoid", nil, y))
		before, after, text := b.done(y, pass.Options{Check: true})
		if n := strings.Count(text, "weir:Chain"); n != chains {
			t.Fatalf("seed %d: %d chains\n%v", seed, n, b.g)
		}
		if !tensor.Equal(before, after) {
			t.Fatalf("seed %d: got %v, want %v", seed, after, before)
		}
	}
}

// TestChainLeaves leaves results that something else reads, operands that are larger, and
// arithmetic that nothing rounds.
func TestChainLeaves(t *testing.T) {
	for name, want := range map[string]bool{"": true, "read": false, "output": false,
		"vector": true, "larger": false, "unrounded": false, "divided": false,
		"both": false} {
		b, x := gridNet(t, 7)
		var y *graph.Value
		switch name {
		case "vector":
			y = b.add("Add", nil, x, b.constant(tensor.From(make([]float32, 7), 7)))
		case "larger":
			y = b.add("Add", nil, x, b.constant(tensor.From([]float32{1}, 1, 1, 1, 1, 1)))
		case "divided":
			y = b.add("Div", nil, b.number(3), x)
		case "both":
			y = b.add("Add", nil, x, x)
		default:
			y = b.add("Add", nil, x, b.number(3))
		}
		if name == "output" {
			b.g.Outputs = append(b.g.Outputs, y)
		}
		z := y
		if y = b.sixteen(y); name == "unrounded" {
			y = b.add("Mul", nil, z, b.number(2))
		}
		if name == "read" {
			y = b.add("Sub", nil, y, z)
		}
		before, after, text := b.done(y, only("grid", "chain"))
		if strings.Contains(text, "weir:Chain") != want || !tensor.Equal(before, after) {
			t.Errorf("%s: became\n%v", name, b.g)
		}
	}
}

// TestChainIsNotPortable holds that other runtimes get ONNX's own operators.
func TestChainIsNotPortable(t *testing.T) {
	b, x := gridNet(t, 8)
	y := b.swish(x)
	_, _, text := b.done(y, pass.Options{Portable: true})
	if strings.Contains(text, op.FusedDomain+":") {
		t.Errorf("became\n%v", b.g)
	}
}
