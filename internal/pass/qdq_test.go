package pass_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// qdqNet is a convolution or a matrix product between quantised values, with or without scales by
// channel, a bias and bounds.
type qdqNet struct {
	t     *testing.T
	r     *rand.Rand
	g     *graph.Graph
	count int
}

func (b *qdqNet) add(typ string, attrs op.Attrs, in ...*graph.Value) *graph.Value {
	b.count++
	n := graph.NewNode(fmt.Sprint(typ, b.count), typ, 13, attrs, in, fmt.Sprint("v", b.count))
	b.g.Nodes = append(b.g.Nodes, n)
	return n.Out[0]
}

func (b *qdqNet) constant(x *tensor.Tensor) *graph.Value {
	b.count++
	return graph.NewConst(fmt.Sprint("c", b.count), x)
}

func (b *qdqNet) bytes(d tensor.DType, shape ...int) *tensor.Tensor {
	x, err := tensor.New(d, shape...)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range x.Data {
		x.Data[i] = byte(b.r.Uint32())
	}
	return x
}

func (b *qdqNet) scale(most float32, shape ...int) *graph.Value {
	n := 1
	for _, d := range shape {
		n *= d
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = most * (0.5 + b.r.Float32()/2)
	}
	return b.constant(tensor.From(x, shape...))
}

// weights are constant bytes on a scale, in every third case quantised in the model.
func (b *qdqNet) weights(axis int64, scale *graph.Value, shape ...int) *graph.Value {
	attrs := op.Attrs{op.IntAttr("axis", axis)}
	w := b.constant(b.bytes(tensor.Int8, shape...))
	if b.r.IntN(3) == 0 {
		x := make([]float32, w.Const().Len())
		for i := range x {
			x[i] = float32(int8(w.Const().Data[i])) / 100
		}
		zero, err := tensor.New(tensor.Int8, scale.Const().Shape...)
		if err != nil {
			b.t.Fatal(err)
		}
		w = b.add("QuantizeLinear", attrs, b.constant(tensor.From(x, shape...)), scale,
			b.constant(zero))
	}
	return b.add("DequantizeLinear", attrs, w, scale)
}

func TestQDQ(t *testing.T) {
	for seed := range uint64(60) {
		b := &qdqNet{t: t, r: rand.New(rand.NewPCG(seed, 5)),
			g: &graph.Graph{Name: "qdq", Opsets: map[string]int{"": 13}}}
		x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Uint8, 1, 6, 8, 8)}
		b.g.Inputs = []*graph.Value{x}
		a := b.add("DequantizeLinear", nil, x, b.scale(0.02), b.constant(b.bytes(tensor.Uint8)))
		channel := seed%2 == 0
		var shape []int
		if channel {
			shape = []int{8}
		}
		var y *graph.Value
		if seed%3 == 0 {
			w := b.weights(1, b.scale(0.01, shape...), 8, 8)
			y = b.add("MatMul", nil, a, w)
		} else {
			w := b.weights(0, b.scale(0.01, shape...), 8, 6, 3, 3)
			y = b.add("Conv", op.Attrs{op.IntsAttr("pads", 1, 1, 1, 1)}, a, w, b.scale(0.3, 8))
		}
		zero := b.constant(b.bytes(tensor.Uint8))
		if seed%5 == 0 {
			y, zero = b.add("Relu", nil, y), nil
		}
		q := b.add("QuantizeLinear", nil, y, b.scale(0.05), zero)
		b.g.Outputs = []*graph.Value{q}
		if err := b.g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		before := b.g.Clone()
		optimise(t, b.g, pass.Options{Check: true})
		if text := short(b.g); strings.Count(text, "\n") > 0 || !strings.Contains(text, "QLinear") {
			t.Fatalf("seed %d: became\n%v", seed, b.g)
		}
		in := []*tensor.Tensor{b.bytes(tensor.Uint8, 1, 6, 8, 8)}
		got, want := eval(t, b.g, in)[0], eval(t, before, in)[0]
		for i := range want.Data {
			if d := int(got.Data[i]) - int(want.Data[i]); d < -1 || d > 1 {
				t.Fatalf("seed %d: element %d is %d, want %d", seed, i, got.Data[i], want.Data[i])
			}
		}
	}
}

// TestQDQLeavesBounds keeps a bound that saturation does not imply.
func TestQDQLeavesBounds(t *testing.T) {
	b := &qdqNet{t: t, r: rand.New(rand.NewPCG(1, 5)),
		g: &graph.Graph{Name: "qdq", Opsets: map[string]int{"": 13}}}
	x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Float32, 4)}
	b.g.Inputs = []*graph.Value{x}
	y := b.add("Relu", nil, x)
	zero := b.constant(tensor.Scalar[uint8](100))
	b.g.Outputs = []*graph.Value{
		b.add("QuantizeLinear", nil, y, b.constant(tensor.Scalar[float32](0.1)), zero)}
	if err := b.g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	if r := optimise(t, b.g, only("qdq")); r.Changes() > 0 {
		t.Errorf("became\n%v", b.g)
	}
}

// TestQDQLeavesLargeBias holds that a bias of 2^30 steps or more keeps a convolution as it is: half
// of what an int32 holds is left for the products.
func TestQDQLeavesLargeBias(t *testing.T) {
	const steps = 1 << 30
	for bias, joined := range map[float32]bool{steps - 64: true, 64 - steps: true, steps: false,
		-steps: false, 4 * steps: false, float32(math.NaN()): false} {
		b := &qdqNet{t: t, r: rand.New(rand.NewPCG(1, 5)),
			g: &graph.Graph{Name: "qdq", Opsets: map[string]int{"": 13}}}
		x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Uint8, 1, 2, 3, 3)}
		b.g.Inputs = []*graph.Value{x}
		one, zero := b.constant(tensor.Scalar[float32](1)), b.constant(tensor.Scalar[uint8](0))
		w := b.add("DequantizeLinear", nil, b.constant(b.bytes(tensor.Int8, 1, 2, 1, 1)), one)
		y := b.add("Conv", nil, b.add("DequantizeLinear", nil, x, one, zero), w,
			b.constant(tensor.From([]float32{bias}, 1)))
		b.g.Outputs = []*graph.Value{b.add("QuantizeLinear", nil, y, one, zero)}
		if err := b.g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		optimise(t, b.g, only("qdq"))
		if text := short(b.g); strings.Contains(text, "QLinearConv") != joined {
			t.Errorf("bias of %g steps: became\n%v", bias, b.g)
		}
	}
}

// TestQDQElementwise joins what stands between quantised values: sums, and normalisation or
// arithmetic by channel after a product or alone.
func TestQDQElementwise(t *testing.T) {
	for seed := range uint64(60) {
		b := &qdqNet{t: t, r: rand.New(rand.NewPCG(seed, 6)),
			g: &graph.Graph{Name: "qdq", Opsets: map[string]int{"": 13}}}
		d := []tensor.DType{tensor.Uint8, tensor.Int8}[seed%2]
		x := &graph.Value{Name: "x", Type: op.Concrete(d, 1, 6, 5, 7)}
		z := &graph.Value{Name: "z", Type: op.Concrete(d, 1, 6, 5, 7)}
		b.g.Inputs = []*graph.Value{x, z}
		y := b.add("DequantizeLinear", nil, x, b.scale(0.02), b.constant(b.bytes(d)))
		want := "Rescale"
		if seed%3 == 0 {
			w := b.add("DequantizeLinear", op.Attrs{op.IntAttr("axis", 0)},
				b.constant(b.bytes(tensor.Int8, 6, 6, 3, 3)), b.scale(0.01, 6))
			y = b.add("Conv", op.Attrs{op.IntsAttr("pads", 1, 1, 1, 1)}, y, w, b.scale(0.3, 6))
			scale, zero := b.scale(0.05), b.constant(b.bytes(tensor.Uint8))
			y = b.add("DequantizeLinear", nil, b.add("QuantizeLinear", nil, y, scale, zero), scale,
				zero)
			want = "QLinearConv"
		}
		switch seed % 4 {
		case 0:
			y = b.add("BatchNormalization", nil, y, b.scale(1, 6), b.scale(1, 6), b.scale(0.5, 6),
				b.scale(2, 6))
		case 1:
			y = b.add("Mul", nil, y, b.scale(2, 6, 1, 1))
		case 2:
			y = b.add("Sub", nil, b.scale(2), y)
		default:
			y, want = b.add("Add", nil, y,
				b.add("DequantizeLinear", nil, z, b.scale(0.03), b.constant(b.bytes(d)))),
				"QLinearAdd"
		}
		b.g.Outputs = []*graph.Value{
			b.add("QuantizeLinear", nil, y, b.scale(0.05), b.constant(b.bytes(tensor.Uint8)))}
		if err := b.g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		before := b.g.Clone()
		optimise(t, b.g, pass.Options{Check: true})
		mixed := seed%12 == 3 || seed%12 == 9 // bytes of the convolution and of z
		if text := short(b.g); !strings.Contains(text, want) && !mixed ||
			strings.Contains(text, "DequantizeLinear") && !mixed {
			t.Fatalf("seed %d: became\n%v", seed, b.g)
		}
		in := []*tensor.Tensor{b.bytes(d, 1, 6, 5, 7), b.bytes(d, 1, 6, 5, 7)}
		got, right := eval(t, b.g, in)[0], eval(t, before, in)[0]
		far := 1
		if want == "QLinearConv" {
			far = 3 // a step of the convolution is more than one of the result
		}
		for i := range right.Data {
			if d := int(got.Data[i]) - int(right.Data[i]); d < -far || d > far {
				t.Fatalf("seed %d: element %d is %d, want %d", seed, i, got.Data[i], right.Data[i])
			}
		}
	}
}

// TestQDQTable makes one table of what is computed of one quantised value, exactly as the operators
// define it.
func TestQDQTable(t *testing.T) {
	for seed := range uint64(40) {
		b := &qdqNet{t: t, r: rand.New(rand.NewPCG(seed, 7)),
			g: &graph.Graph{Name: "qdq", Opsets: map[string]int{"": 14}}}
		d := []tensor.DType{tensor.Uint8, tensor.Int8}[seed%2]
		x := &graph.Value{Name: "x", Type: op.Concrete(d, 1, 4, 16, 16)}
		b.g.Inputs = []*graph.Value{x}
		start := b.add("DequantizeLinear", nil, x, b.scale(0.05), b.constant(b.bytes(d)))
		again := func(y *graph.Value) *graph.Value {
			scale, zero := b.scale(0.05), b.constant(b.bytes(tensor.Uint8))
			return b.add("DequantizeLinear", nil, b.add("QuantizeLinear", nil, y, scale, zero),
				scale, zero)
		}
		y := start
		switch seed % 4 {
		case 0: // x · clip(x + 3, 0, 6) / 6, rounded at every step
			y = again(b.add("Add", nil, y, b.constant(tensor.From([]float32{3}, 1, 1, 1))))
			y = again(b.add("Clip", nil, y, b.constant(tensor.Scalar[float32](0)),
				b.constant(tensor.Scalar[float32](6))))
			y = again(b.add("Mul", nil, start, y))
			y = b.add("Div", nil, y, b.constant(tensor.Scalar[float32](6)))
		case 1:
			y = b.add("HardSigmoid", nil, y)
		case 2:
			y = b.add("Mul", nil, b.add("Sigmoid", nil, y), y)
		default:
			y = b.add("Tanh", nil, again(b.add("Relu", nil, y)))
		}
		b.g.Outputs = []*graph.Value{
			b.add("QuantizeLinear", nil, y, b.scale(0.03), b.constant(b.bytes(tensor.Uint8)))}
		if err := b.g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		before := b.g.Clone()
		optimise(t, b.g, pass.Options{Check: true})
		if text := short(b.g); !strings.Contains(text, "Table") || strings.Contains(text, "\n") {
			t.Fatalf("seed %d: became\n%v", seed, b.g)
		}
		in := []*tensor.Tensor{b.bytes(d, 1, 4, 16, 16)}
		if got, want := eval(t, b.g, in)[0], eval(t, before, in)[0]; !tensor.Equal(got, want) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}

// TestQDQGemm multiplies fully connected layers in bytes, with scales by channel or one, and with a
// bias or none.
func TestQDQGemm(t *testing.T) {
	for seed := range uint64(30) {
		b := &qdqNet{t: t, r: rand.New(rand.NewPCG(seed, 8)),
			g: &graph.Graph{Name: "qdq", Opsets: map[string]int{"": 13}}}
		x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Uint8, 3, 20)}
		b.g.Inputs = []*graph.Value{x}
		var shape []int
		if seed%2 == 0 {
			shape = []int{30}
		}
		in := []*graph.Value{b.add("DequantizeLinear", nil, x, b.scale(0.02),
			b.constant(b.bytes(tensor.Uint8))),
			b.weights(0, b.scale(0.01, shape...), 30, 20), b.scale(0.5, 30)}
		y := b.add("Gemm", op.Attrs{op.IntAttr("transB", 1)}, in[:2+seed%3/2]...)
		b.g.Outputs = []*graph.Value{
			b.add("QuantizeLinear", nil, y, b.scale(0.05), b.constant(b.bytes(tensor.Uint8)))}
		if err := b.g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		before := b.g.Clone()
		optimise(t, b.g, pass.Options{Check: true})
		if text := short(b.g); !strings.Contains(text, "QLinearConv") ||
			strings.Contains(text, "Dequantize") {
			t.Fatalf("seed %d: became\n%v", seed, b.g)
		}
		bytes := []*tensor.Tensor{b.bytes(tensor.Uint8, 3, 20)}
		got, want := eval(t, b.g, bytes)[0], eval(t, before, bytes)[0]
		for i := range want.Data {
			if d := int(got.Data[i]) - int(want.Data[i]); d < -1 || d > 1 {
				t.Fatalf("seed %d: element %d is %d, want %d", seed, i, got.Data[i], want.Data[i])
			}
		}
	}
}
