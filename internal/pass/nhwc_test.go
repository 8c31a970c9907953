package pass_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// grid makes the scale and zero point of a value.
func (b *qdqNet) grid(d tensor.DType) (scale, zero *graph.Value) {
	return b.scale(0.1), b.constant(b.bytes(d))
}

// requantized is y on a grid, and the numbers that it stands for there.
func (b *qdqNet) requantized(y, scale, zero *graph.Value) *graph.Value {
	return b.add("DequantizeLinear", nil, b.add("QuantizeLinear", nil, y, scale, zero), scale, zero)
}

// conv convolves numbers on a grid.
func (b *qdqNet) conv(d tensor.DType, x *graph.Value, group int, shape ...int) *graph.Value {
	w := b.weights(0, b.scale(0.01, shape[0]), shape...)
	pad := int64(shape[2] / 2)
	attrs := op.Attrs{op.IntsAttr("pads", pad, pad, pad, pad), op.IntAttr("group", int64(group))}
	scale, zero := b.grid(d)
	return b.requantized(b.add("Conv", attrs, x, w, b.scale(0.3, shape[0])), scale, zero)
}

// pixelNet is a net of convolutions, a residual, pooling and a table, between a planar image and a
// planar result.
func pixelNet(t *testing.T, seed uint64, d tensor.DType) *qdqNet {
	b := &qdqNet{t: t, r: rand.New(rand.NewPCG(seed, 6)),
		g: &graph.Graph{Name: "nhwc", Opsets: map[string]int{"": 13}}}
	x := &graph.Value{Name: "x", Type: op.Concrete(d, 1, 3, 9, 10)}
	b.g.Inputs = []*graph.Value{x}
	scale, zero := b.grid(d)
	a := b.conv(d, b.add("DequantizeLinear", nil, x, scale, zero), 1, 8, 3, 3, 3)
	q := from(t, a)
	pool := b.add("MaxPool", op.Attrs{op.IntsAttr("kernel_shape", 3, 3),
		op.IntsAttr("strides", 2, 2), op.IntsAttr("pads", 1, 1, 1, 1)}, a)
	y := b.requantized(pool, q.In[1], q.In[2])
	side := b.conv(d, b.conv(d, y, 8, 8, 1, 3, 3), 1, 8, 8, 1, 1)
	scale, zero = b.grid(d)
	y = b.requantized(b.add("Add", nil, y, side), scale, zero)
	scale, zero = b.grid(d)
	y = b.requantized(b.add("Sigmoid", nil, y), scale, zero)
	y = b.conv(d, y, 1, 5, 8, 3, 3)
	b.g.Outputs = []*graph.Value{y.Producer.In[0]}
	if err := b.g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	return b
}

// from is the node that made the bytes behind v.
func from(t *testing.T, v *graph.Value) *graph.Node {
	t.Helper()
	if v.Producer == nil || v.Producer.Type != "DequantizeLinear" {
		t.Fatal("no dequantised value")
	}
	return v.Producer
}

// TestNHWCAsksTheDevice holds that no image is turned for a device that has no kernels for it.
func TestNHWCAsksTheDevice(t *testing.T) {
	for _, has := range []bool{false, true} {
		g := pixelNet(t, 0, tensor.Uint8).g
		optimise(t, g, pass.Options{Features: compute.Features{NHWC: has, BF16: true}})
		if got := strings.Contains(short(g), "NhwcQLinearConv"); got != has {
			t.Errorf("pixels %v: images are turned: %v", has, got)
		}
	}
}

func TestNHWC(t *testing.T) {
	for seed := range uint64(12) {
		d := []tensor.DType{tensor.Uint8, tensor.Int8}[seed%2]
		b := pixelNet(t, seed, d)
		planar := b.g.Clone()
		optimise(t, b.g, pass.Options{Check: true})
		optimise(t, planar, pass.Options{Check: true, Off: []string{"nhwc"}})
		text := short(b.g)
		for what, n := range map[string]int{"NhwcQLinearConv": 4, "NhwcMaxPool": 1, "QLinearAdd": 1,
			"Table": 1, "Transpose": 1, " = QuantizeLinear": 0} {
			if got := strings.Count(text, what); got != n {
				t.Errorf("seed %d: %d times %s, want %d:\n%v", seed, got, what, n, b.g)
			}
		}
		in := []*tensor.Tensor{b.bytes(d, 1, 3, 9, 10)}
		got, want := eval(t, b.g, in)[0], eval(t, planar, in)[0]
		if !tensor.Equal(got, want) {
			t.Errorf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}

// TestNHWCAlone leaves a convolution that has no other near it as it is, unless its weights lie
// around another byte than 0.
func TestNHWCAlone(t *testing.T) {
	b := &qdqNet{t: t, r: rand.New(rand.NewPCG(1, 7)),
		g: &graph.Graph{Name: "alone", Opsets: map[string]int{"": 13}}}
	x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Uint8, 1, 8, 9, 9)}
	b.g.Inputs = []*graph.Value{x}
	scale, zero := b.grid(tensor.Uint8)
	y := b.conv(tensor.Uint8, b.add("DequantizeLinear", nil, x, scale, zero), 1, 8, 8, 3, 3)
	b.g.Outputs = []*graph.Value{y}
	if err := b.g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	around := b.g.Clone()
	if optimise(t, b.g, pass.Options{Check: true}); strings.Contains(short(b.g), "Nhwc") {
		t.Errorf("became\n%v", b.g)
	}
	for _, n := range around.Nodes { // weights around another byte than 0
		if n.Type == "DequantizeLinear" && len(n.In) == 2 {
			zero := b.bytes(tensor.Int8, n.In[1].Const().Shape...)
			for i := range zero.Data {
				zero.Data[i] = 3
			}
			n.In = append(n.In, b.constant(zero))
		}
	}
	if optimise(t, around, pass.Options{Check: true}); !strings.Contains(short(around),
		"NhwcQLinearConv") {
		t.Errorf("weights around 3: became\n%v", around)
	}
}

// TestNHWCTakesFewChannelsAsTheyAre holds that an image of up to four channels is not turned for
// its first convolution.
func TestNHWCTakesFewChannelsAsTheyAre(t *testing.T) {
	for channels, want := range map[int]bool{1: true, 3: true, 4: true, 5: false} {
		b := &qdqNet{t: t, r: rand.New(rand.NewPCG(1, 6)),
			g: &graph.Graph{Name: "nhwc", Opsets: map[string]int{"": 13}}}
		x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Uint8, 1, channels, 9, 10)}
		b.g.Inputs = []*graph.Value{x}
		scale, zero := b.grid(tensor.Uint8)
		a := b.conv(tensor.Uint8, b.add("DequantizeLinear", nil, x, scale, zero), 1, 8, channels, 3,
			3)
		y := b.conv(tensor.Uint8, a, 1, 8, 8, 3, 3)
		b.g.Outputs = []*graph.Value{y.Producer.In[0]}
		if err := b.g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		optimise(t, b.g, pass.Options{Check: true})
		for _, n := range b.g.Nodes {
			if n.Type == "NhwcQLinearConv" {
				if got := n.Attrs.Bool("planar", false); got != want || (n.In[0] == x) != want {
					t.Errorf("%d channels: as they are: %v\n%v", channels, got, b.g)
				}
				break
			}
		}
	}
}
