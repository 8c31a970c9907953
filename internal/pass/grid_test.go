package pass_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// gridNet makes a graph of floats in which every value is rounded to the steps of integers.
func gridNet(t *testing.T, seed uint64) (b *qdqNet, x *graph.Value) {
	x = &graph.Value{Name: "x", Type: op.Concrete(tensor.Float32, 2, 6, 5, 7)}
	b = &qdqNet{t: t, r: rand.New(rand.NewPCG(seed, 21)),
		g: &graph.Graph{Name: "grid", Opsets: map[string]int{"": 21}, Inputs: []*graph.Value{x}}}
	return b, x
}

// round is there and back, with parameters of the own for the way back.
func (b *qdqNet) round(y *graph.Value, d tensor.DType, attrs op.Attrs, shape ...int) *graph.Value {
	scale, zero := b.scale(0.01, shape...), b.constant(b.bytes(d, shape...))
	q := b.add("QuantizeLinear", attrs, y, scale, zero)
	return b.add("DequantizeLinear", attrs, q, b.constant(scale.Const().Clone()),
		b.constant(zero.Const().Clone()))
}

// done ends the graph with y and returns what it computes of some numbers before and after the
// passes that o leaves on, and its text then.
func (b *qdqNet) done(y *graph.Value, o pass.Options) (before, after *tensor.Tensor, text string) {
	b.t.Helper()
	b.g.Outputs = append([]*graph.Value{y}, b.g.Outputs...)
	if err := b.g.InferTypes(); err != nil {
		b.t.Fatal(err)
	}
	shape, _ := b.g.Inputs[0].Type.Ints()
	x, err := tensor.New(tensor.Float32, shape...)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range tensor.As[float32](x) {
		tensor.As[float32](x)[i] = float32(b.r.NormFloat64()) * 10
	}
	copy(tensor.As[float32](x), []float32{float32(math.NaN()), float32(math.Inf(1)), -1e-9, 0.005})
	before = eval(b.t, b.g.Clone(), []*tensor.Tensor{x})[0]
	optimise(b.t, b.g, o)
	return before, eval(b.t, b.g, []*tensor.Tensor{x})[0], short(b.g)
}

// TestGrid rounds without making integers: the same bits, on one scale or one an index of an axis.
func TestGrid(t *testing.T) {
	types := []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16}
	for seed := range uint64(24) {
		b, y := gridNet(t, seed)
		var attrs op.Attrs
		var shape []int
		if seed%3 == 0 {
			axis := int64(seed % 4)
			attrs, shape = op.Attrs{op.IntAttr("axis", axis-4*int64(seed%2))},
				[]int{[]int{2, 6, 5, 7}[axis]}
		}
		before, after, text := b.done(b.round(y, types[seed%4], attrs, shape...),
			pass.Options{Check: true})
		if !strings.Contains(text, "weir:Grid") || strings.Contains(text, "\n") {
			t.Fatalf("seed %d: became\n%v", seed, b.g)
		}
		if !tensor.Equal(before, after) {
			t.Fatalf("seed %d: got %v, want %v", seed, after, before)
		}
	}
}

// TestGridInConv rounds inside a convolution, and leaves out the bounds that saturation implies and
// the second of two roundings to the same steps.
func TestGridInConv(t *testing.T) {
	for _, d := range []tensor.DType{tensor.Uint16, tensor.Int16} {
		b, y := gridNet(t, 5)
		w := b.add("DequantizeLinear", nil, b.constant(b.bytes(d, 4, 6, 3, 3)),
			b.constant(tensor.Scalar[float32](1e-6)))
		y = b.add("Relu", nil, b.add("Conv", nil, y, w))
		scale := b.constant(tensor.Scalar[float32](1e-4))
		zero := b.constant(&tensor.Tensor{DType: d, Data: make([]byte, 2)})
		if d == tensor.Int16 {
			tensor.As[int16](zero.Const())[0] = math.MinInt16
		}
		for range 2 {
			q := b.add("QuantizeLinear", nil, y, scale, zero)
			y = b.add("DequantizeLinear", nil, q, scale, zero)
			if len(b.g.Nodes) < 6 {
				y = b.add("MaxPool", op.Attrs{op.IntsAttr("kernel_shape", 2, 2)}, y)
			}
		}
		before, after, text := b.done(y, pass.Options{Check: true})
		if strings.Count(text, "\n") != 1 || !strings.Contains(text, `activation="Grid"`) ||
			strings.Contains(text, "Relu") {
			t.Fatalf("%v: became\n%v", d, b.g)
		}
		if !tensor.Equal(before, after) {
			t.Fatalf("%v: got %v, want %v", d, after, before)
		}
	}
}

// TestGridLeaves leaves integers that something else reads, and ways back that are not those there.
func TestGridLeaves(t *testing.T) {
	scale, other := tensor.Scalar[float32](0.5), tensor.Scalar[float32](0.25)
	zero, one := tensor.Scalar[uint16](0), tensor.Scalar[uint16](1)
	for name, back := range map[string][2]*tensor.Tensor{"scale": {other, zero},
		"zero point": {scale, one}, "": {scale, zero}, "read": {scale, zero},
		"output": {scale, zero}, "precision": {scale, zero}} {
		b, y := gridNet(t, 3)
		var attrs op.Attrs
		if name == "precision" {
			attrs = op.Attrs{op.IntAttr("precision", int64(tensor.Float16))}
		}
		q := b.add("QuantizeLinear", attrs, y, b.constant(scale), b.constant(zero))
		b.g.Nodes[0].Version = 23
		y = b.add("DequantizeLinear", nil, q, b.constant(back[0]), b.constant(back[1]))
		b.g.Opsets[""] = 23
		if name == "read" {
			y = b.add("Add", nil, y, b.add("Cast",
				op.Attrs{op.IntAttr("to", int64(tensor.Float32))}, q))
		}
		if name == "output" {
			b.g.Outputs = append(b.g.Outputs, q)
		}
		if _, _, text := b.done(y, only("grid")); strings.Contains(text, "Grid") != (name == "") {
			t.Errorf("%s: became\n%v", name, b.g)
		}
	}
	for name, axis := range map[string]int64{"there": 1, "elsewhere": 2} {
		b, y := gridNet(t, 3)
		b.g.Inputs[0].Type = op.Concrete(tensor.Float32, 2, 4, 4)
		q := b.add("QuantizeLinear", nil, y, b.constant(tensor.From([]float32{1, 2, 3, 4}, 4)),
			b.constant(tensor.From(make([]int8, 4), 4)))
		y = b.add("DequantizeLinear", op.Attrs{op.IntAttr("axis", axis)}, q,
			b.constant(tensor.From([]float32{1, 2, 3, 4}, 4)),
			b.constant(tensor.From(make([]int8, 4), 4)))
		if _, _, text := b.done(y, only("grid")); strings.Contains(text, "Grid") != (axis == 1) {
			t.Errorf("%s: became\n%v", name, b.g)
		}
	}
}

// TestGridTransposed rounds again by channel what was rounded by channel before a transpose.
func TestGridTransposed(t *testing.T) {
	b, y := gridNet(t, 4)
	b.g.Inputs[0].Type = op.Concrete(tensor.Float32, 2, 3, 3)
	scale := b.constant(tensor.From([]float32{1, 2, 3}, 3))
	zero := b.constant(tensor.From([]int16{0, 1, 2}, 3))
	for range 2 {
		y = b.add("Transpose", op.Attrs{op.IntsAttr("perm", 0, 2, 1)}, y)
		q := b.add("QuantizeLinear", nil, y, scale, zero)
		y = b.add("DequantizeLinear", nil, q, scale, zero)
	}
	before, after, _ := b.done(y, only("grid"))
	if !tensor.Equal(before, after) {
		t.Errorf("got %v, want %v", after, before)
	}
}

// TestGridTwice rounds again what was rounded to other steps, or added since.
func TestGridTwice(t *testing.T) {
	for name, grids := range map[string]int{"other steps": 2, "the same": 1, "added": 2} {
		b, y := gridNet(t, 3)
		for i, step := range []float32{0.5, 0.25} {
			if name != "other steps" {
				step = 0.5
			}
			scale, zero := b.constant(tensor.Scalar(step)), b.constant(tensor.Scalar[uint16](9))
			y = b.add("DequantizeLinear", nil, b.add("QuantizeLinear", nil, y, scale, zero), scale,
				zero)
			if name == "added" && i == 0 {
				y = b.add("Sin", nil, y)
			}
		}
		before, after, text := b.done(y, only("grid"))
		if strings.Count(text, "Grid") != grids || !tensor.Equal(before, after) {
			t.Errorf("%s: became\n%v", name, b.g)
		}
	}
}

// TestGridBefore rounds before an image is enlarged and before parts are joined, where nothing else
// reads them, and gives the same bits.
func TestGridBefore(t *testing.T) {
	for name, want := range map[string]bool{"": true, "joined": true, "both": true, "read": false,
		"smaller": false, "linear": false, "cropped": false, "channels": false} {
		b, x := gridNet(t, 3)
		attrs, by, shape := op.Attrs{}, float32(2), []int{}
		switch name {
		case "smaller":
			by = 0.5
		case "linear":
			attrs = op.Attrs{op.StringAttr("mode", "linear")}
		case "cropped":
			attrs = op.Attrs{
				op.StringAttr("coordinate_transformation_mode", "tf_crop_and_resize")}
		case "channels":
			shape = []int{6}
		}
		sizes := b.constant(tensor.From([]float32{1, 1, by, 1}, 4))
		roi := b.constant(tensor.From([]float32{0, 0, 0, 0, 1, 1, 1.5, 1}, 8))
		y := b.add("Sin", nil, x)
		if name != "joined" {
			y = b.add("Resize", attrs, y, roi, sizes)
		}
		if name == "joined" || name == "both" {
			y = b.add("Concat", op.Attrs{op.IntAttr("axis", 0)}, y, y)
		}
		z := b.round(y, tensor.Uint16, nil, shape...)
		if name == "read" {
			z = b.add("Sub", nil, z, y)
		}
		before, after, text := b.done(z, only("grid"))
		grid, moved := strings.Index(text, "weir:Grid"), strings.LastIndex(text, " = Resize")
		moved = max(moved, strings.Index(text, " = Concat"))
		if (grid < moved) != want || !tensor.Equal(before, after) {
			t.Errorf("%s: became\n%v", name, text)
		}
	}
}
