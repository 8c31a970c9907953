package pass_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// channelNet is a convolution, whose result has a scale for each of 6 channels, and a depthwise one
// of as many outputs a channel as multiple says, whose result has one scale.
type channelNet struct {
	*qdqNet
	multiple int
	axis     int64 // of the scales of channels
	zeros    func(zero *tensor.Tensor)
	group    int
	signed   bool
	empty    float32 // the scale of channel 2, which has another zero point, unless 0
}

func (b *channelNet) graph() *graph.Graph {
	d := tensor.Uint8
	if b.signed {
		d = tensor.Int8
	}
	x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Uint8, 1, 4, 6, 6)}
	b.g.Inputs = []*graph.Value{x}
	a := b.add("DequantizeLinear", nil, x, b.scale(0.02), b.constant(b.bytes(tensor.Uint8)))
	y := b.add("Conv", nil, a, b.weights(0, b.scale(0.01, 6), 6, 4, 1, 1), b.scale(0.3, 6))
	zero, scale := b.bytes(d, 6), b.scale(0.05, 6)
	for i := range zero.Data {
		zero.Data[i] = 117
	}
	if b.zeros != nil {
		b.zeros(zero)
	}
	if b.empty > 0 {
		zero.Data[2], tensor.As[float32](scale.Const())[2] = 0, b.empty
	}
	attrs := op.Attrs{op.IntAttr("axis", b.axis)}
	q := b.add("QuantizeLinear", attrs, y, scale, b.constant(zero))
	c := b.add("DequantizeLinear", attrs, q, scale, b.constant(zero))
	w := b.weights(0, b.scale(0.01, 6*b.multiple), 6*b.multiple, 6/b.group, 3, 3)
	y = b.add("Conv", op.Attrs{op.IntsAttr("pads", 1, 1, 1, 1), op.IntAttr("group",
		int64(b.group))}, c, w, b.scale(0.3, 6*b.multiple))
	b.g.Outputs = []*graph.Value{q,
		b.add("QuantizeLinear", nil, y, b.scale(0.05), b.constant(b.bytes(tensor.Uint8)))}
	return b.g
}

func newChannelNet(t *testing.T, seed uint64) *channelNet {
	return &channelNet{multiple: 1 + int(seed%2), axis: 1 - 4*int64(seed/2%2), group: 6,
		signed: seed%3 == 0, qdqNet: &qdqNet{t: t, r: rand.New(rand.NewPCG(seed, 18)),
			g: &graph.Graph{Name: "channels", Opsets: map[string]int{"": 13}}}}
}

// TestQDQChannels takes the scales of channels before a depthwise convolution into the weights. A
// step of the first result is some of the second.
func TestQDQChannels(t *testing.T) {
	for seed := range uint64(40) {
		b := newChannelNet(t, seed)
		g := b.graph()
		if err := g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		before := g.Clone()
		optimise(t, g, pass.Options{Check: true})
		if text := short(g); strings.Count(text, "QLinearConv") != 2 ||
			strings.Contains(text, "QuantizeLinear") {
			t.Fatalf("seed %d: became\n%v", seed, g)
		}
		in := []*tensor.Tensor{b.bytes(tensor.Uint8, 1, 4, 6, 6)}
		got, want := eval(t, g, in), eval(t, before, in)
		for k, most := range []int{1, 2} {
			for i, w := range want[k].Data {
				d := int(got[k].Data[i]) - int(w)
				if want[k].DType == tensor.Int8 {
					d = int(int8(got[k].Data[i])) - int(int8(w))
				}
				if d < -most || d > most {
					t.Fatalf("seed %d: element %d of result %d is %d, want %d", seed, i, k,
						got[k].Data[i], w)
				}
			}
		}
	}
}

// TestQDQLeavesChannels keeps what no operator on bytes computes: channels of unlike zero points,
// scales of another axis, and convolutions that mix the channels.
func TestQDQLeavesChannels(t *testing.T) {
	for name, change := range map[string]func(b *channelNet){
		"zero points": func(b *channelNet) {
			b.zeros = func(z *tensor.Tensor) { z.Data[3] = 9 }
		},
		"axis":      func(b *channelNet) { b.axis = 2 },
		"one group": func(b *channelNet) { b.group = 1 },
		"groups":    func(b *channelNet) { b.group = 3 },
	} {
		b := newChannelNet(t, 1)
		change(b)
		g := b.graph()
		if err := g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		before := g.Clone()
		optimise(t, g, pass.Options{Check: true})
		text := short(g)
		if n := strings.Count(text, "QLinearConv"); n > 1 || b.group == 6 && n > 0 {
			t.Errorf("%s: became\n%v", name, g)
		}
		in := []*tensor.Tensor{b.bytes(tensor.Uint8, 1, 4, 6, 6)}
		got, want := eval(t, g, in), eval(t, before, in)
		for k := range want {
			for i, w := range want[k].Data {
				if d := int(got[k].Data[i]) - int(w); d < -2 || d > 2 {
					t.Fatalf("%s: element %d of result %d is %d, want %d", name, i, k,
						got[k].Data[i], w)
				}
			}
		}
	}
}

// TestQDQEmptyChannels gives a channel that holds nothing the zero point of the others, and leaves
// one that holds something.
func TestQDQEmptyChannels(t *testing.T) {
	for seed := range uint64(24) {
		b := newChannelNet(t, seed)
		b.empty = []float32{1e-8, 1e-3}[seed/12]
		g := b.graph()
		g.Outputs = g.Outputs[1:] // the bytes of the channel themselves are others
		if err := g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		before := g.Clone()
		optimise(t, g, pass.Options{Check: true})
		if n := strings.Count(short(g), "QLinearConv"); (n == 2) != (b.empty < 1e-6) {
			t.Fatalf("seed %d, scale %g: became\n%v", seed, b.empty, g)
		}
		in := []*tensor.Tensor{b.bytes(tensor.Uint8, 1, 4, 6, 6)}
		got, want := eval(t, g, in)[0], eval(t, before, in)[0]
		for i, w := range want.Data {
			if d := int(got.Data[i]) - int(w); d < -2 || d > 2 {
				t.Fatalf("seed %d: element %d is %d, want %d", seed, i, got.Data[i], w)
			}
		}
	}
}
