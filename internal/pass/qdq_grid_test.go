package pass_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// fastBytes is a device that multiplies bytes fast, and has no kernels for images of bytes.
var fastBytes = pass.Options{Check: true, Features: compute.Features{FastBytes: true,
	FastWords: true}}

// gridConvNet is the begin of a graph on an image of 200 channels.
func gridConvNet(t *testing.T, seed uint64) (b *qdqNet, x *graph.Value) {
	x = &graph.Value{Name: "x", Type: op.Concrete(tensor.Float32, 1, 200, 5, 4)}
	b = &qdqNet{t: t, r: rand.New(rand.NewPCG(seed, 22)),
		g: &graph.Graph{Name: "grid", Opsets: map[string]int{"": 21}, Inputs: []*graph.Value{x}}}
	return b, x
}

// onSteps rounds y to integers of type d, the middle of which is 0.
func (b *qdqNet) onSteps(y *graph.Value, d tensor.DType) *graph.Value {
	scale := b.constant(tensor.Scalar(float32(8 / math.Ldexp(1, d.Bits()))))
	zero, err := tensor.New(d)
	if err != nil {
		b.t.Fatal(err)
	}
	if !d.IsSigned() {
		zero.Data[len(zero.Data)-1] = 0x80
	}
	z := b.constant(zero)
	return b.add("DequantizeLinear", nil, b.add("QuantizeLinear", nil, y, scale, z), scale, z)
}

// first are so many channels of x.
func (b *qdqNet) first(x *graph.Value, channels int64) *graph.Value {
	at := func(i int64) *graph.Value { return b.constant(tensor.From([]int64{i}, 1)) }
	return b.add("Slice", nil, x, at(0), at(channels), at(1))
}

// TestGridConv makes convolutions of integers of those of quantised numbers, with the arithmetic on
// channels that follows in the scales of the weights.
func TestGridConv(t *testing.T) {
	types := []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16}
	for seed := range uint64(24) {
		b, x := gridConvNet(t, seed)
		d := types[seed%4]
		shape := []int{}
		if seed%3 > 0 {
			shape = []int{35}
		}
		in := []*graph.Value{b.onSteps(x, d), b.weights(0, b.scale(0.01, shape...), 35, 200, 1, 1)}
		if b.r.IntN(2) == 0 {
			in = append(in, b.scale(1, 35))
		}
		y := b.add("Conv", nil, in...)
		if seed%5 == 0 {
			y = b.add("Add", nil, b.add("Mul", nil, y, b.scale(-2, 35, 1, 1)), b.scale(3, 1, 1, 1))
		}
		y = b.add("Relu", nil, y)
		if seed%2 == 0 {
			y = b.sixteen(y)
		}
		before, after, text := b.done(y, fastBytes)
		if !strings.Contains(text, "weir:GridConv") || strings.Contains(text, "Relu@") ||
			strings.Contains(text, "Mul@") || strings.Contains(text, "Add@") {
			t.Fatalf("seed %d: became\n%v", seed, b.g)
		}
		closeTo(t, after, before, 0.0011)
	}
}

// closeTo holds that each element is as far off at most.
func closeTo(t *testing.T, got, want *tensor.Tensor, most float64) {
	t.Helper()
	g, w := tensor.As[float32](got), tensor.As[float32](want)
	for i := range w {
		if off := math.Abs(float64(g[i] - w[i])); !(off <= most) {
			t.Fatalf("element %d is %v, want %v", i, g[i], w[i])
		}
	}
}

// TestGridConvLeaves leaves what kernels of integers do not serve, or do not serve faster.
func TestGridConvLeaves(t *testing.T) {
	for name, want := range map[string]bool{"": true, "wide": true, "3x3": true, "bytes": false,
		"grouped": false, "few": false, "thin": false, "wide, thin": false, "wide 3x3": false,
		"wide strided": false, "wide padded": false, "wide, too large sums": false, "slow": false,
		"wide, slow": false, "words slow": true, "portable": false} {
		b, x := gridConvNet(t, 5)
		d, shape, o := tensor.Uint8, []int{40, 200, 1, 1}, fastBytes
		attrs := op.Attrs{}
		if strings.HasPrefix(name, "wide") {
			d = tensor.Uint16
		}
		scale := b.scale(0.01)
		switch name {
		case "grouped":
			shape, attrs = []int{200, 1, 9, 9}, op.Attrs{op.IntAttr("group", 200),
				op.IntsAttr("pads", 4, 4, 4, 4)}
		case "few":
			shape = []int{8, 200, 1, 1}
		case "thin":
			x, shape = b.first(x, 47), []int{40, 47, 1, 1}
		case "wide, thin":
			x, shape = b.first(x, 191), []int{40, 191, 1, 1}
		case "3x3", "wide 3x3":
			shape = []int{40, 200, 3, 3}
		case "wide strided":
			attrs = op.Attrs{op.IntsAttr("strides", 1, 2)}
		case "wide padded":
			attrs = op.Attrs{op.IntsAttr("pads", 0, 0, 1, 0)}
		case "slow":
			o.Features = compute.Features{}
		case "wide, slow", "words slow":
			o.Features.FastWords = false
		case "portable":
			o.Portable = true
		}
		weights := b.bytes(tensor.Int8, shape...)
		if name == "wide, too large sums" {
			x = b.add("Concat", op.Attrs{op.IntAttr("axis", 1)}, slices.Repeat([]*graph.Value{x},
				3)...)
			weights = b.bytes(tensor.Int8, 40, 3*200, 1, 1)
			for i := range weights.Data { // 600 · 127 · 2¹⁵ > 2³¹
				weights.Data[i] = 127
			}
		}
		w := b.add("DequantizeLinear", nil, b.constant(weights), scale)
		y := b.add("Conv", attrs, b.onSteps(x, d), w)
		if name == "bytes" {
			y = b.onSteps(b.add("Relu", nil, y), tensor.Uint8)
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
