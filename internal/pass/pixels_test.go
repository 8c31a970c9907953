package pass_test

import (
	"fmt"
	"maps"
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

// imageNet is a net on images of small integers. Bfloat16 has all of them, and what a net of a few
// operators computes of them, so that a rewritten net gives the same bits.
type imageNet struct{ *qdqNet }

func newImages(t *testing.T, seed uint64) imageNet {
	return imageNet{&qdqNet{t: t, r: rand.New(rand.NewPCG(seed, 8)),
		g: &graph.Graph{Name: "images", Opsets: map[string]int{"": 13, op.FusedDomain: 1}}}}
}

// input is an image that is given.
func (b imageNet) input(d tensor.DType, shape ...int) *graph.Value {
	x := &graph.Value{Name: fmt.Sprint("x", len(b.g.Inputs)), Type: op.Concrete(d, shape...)}
	b.g.Inputs = append(b.g.Inputs, x)
	return x
}

// whole are constant integers from lo to hi.
func (b imageNet) whole(lo, hi int, shape ...int) *graph.Value {
	x := make([]float32, op.Concrete(tensor.Float32, shape...).Elements())
	for i := range x {
		x[i] = float32(lo + b.r.IntN(hi-lo+1))
	}
	return b.constant(tensor.From(x, shape...))
}

// fused adds an operator of weir's own.
func (b imageNet) fused(typ string, attrs op.Attrs, in ...*graph.Value) *graph.Value {
	y := b.add(typ, attrs, in...)
	y.Producer.Domain, y.Producer.Version = op.FusedDomain, 1
	return y
}

// conv is a convolution that multiplies in bfloat16 by filters of m x c x k x k, one in eight
// weights of which is not zero.
func (b imageNet) conv(x *graph.Value, m, c, k int, attrs ...op.Attr) *graph.Value {
	return b.fused("Conv", append(op.Attrs{op.StringAttr("precision", "bf16"), pads(k / 2)},
		attrs...), x, b.filters(m, c, k), b.whole(-2, 2, m))
}

func (b imageNet) filters(m, c, k int) *graph.Value {
	w := b.whole(-1, 1, m, c, k, k)
	for i := range tensor.As[float32](w.Const()) {
		if b.r.IntN(6) > 0 {
			tensor.As[float32](w.Const())[i] = 0
		}
	}
	return w
}

// depthwise is a convolution of a group a channel.
func (b imageNet) depthwise(x *graph.Value, c, k int, attrs ...op.Attr) *graph.Value {
	return b.fused("Conv", append(op.Attrs{op.IntAttr("group", int64(c)), pads(k / 2)}, attrs...),
		x, b.filters(c, 1, k), b.whole(-2, 2, c))
}

func pads(n int) op.Attr { return op.IntsAttr("pads", int64(n), int64(n), int64(n), int64(n)) }

func relu() op.Attr { return op.StringAttr("activation", "Relu") }

// ints is a constant list.
func (b imageNet) ints(v ...int64) *graph.Value { return b.constant(tensor.From(v, len(v))) }

// finish types the net, whose results are given.
func (b imageNet) finish(out ...*graph.Value) *graph.Graph {
	b.t.Helper()
	b.g.Outputs = out
	if err := b.g.InferTypes(); err != nil {
		b.t.Fatal(err)
	}
	return b.g
}

// images are operands for a net.
func (b imageNet) images() (in []*tensor.Tensor) {
	for _, v := range b.g.Inputs {
		shape, _ := v.Type.Ints()
		x := b.whole(-2, 2, shape...).Const()
		if v.Type.DType == tensor.BFloat16 {
			h := make([]tensor.BHalf, x.Len())
			for i, f := range tensor.As[float32](x) {
				h[i] = tensor.BHalfOf(f)
			}
			x = tensor.From(h, shape...)
		}
		in = append(in, x)
	}
	return in
}

// withPixels is a device that has kernels for images of bfloat16, and multiplies fast in it.
func withPixels() compute.Features {
	f := able
	f.Pixels, f.Costs.TiledWeights = compute.Ask(func() bool { return true }), 0
	f.Costs.BF16Rate = compute.RateOf(func() float64 { return 8 })
	return f
}

// toImages runs the pass, and those that clear up behind it.
func toImages(t *testing.T, g *graph.Graph) {
	t.Helper()
	o := only("pixels", "dead", "cse", "identity", "ampcancel")
	o.Precision, o.Features = pass.BF16, withPixels()
	optimise(t, g, o)
	if r := optimise(t, g, o); r.Changes() > 0 {
		t.Errorf("a second run changed something: %v\n%v", r, g)
	}
}

// counts are the operators of a graph with their numbers, in order.
func counts(g *graph.Graph) string {
	m := types(g)
	delete(m, "Neg") // see behind
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprint(m[name], " ", name))
	}
	return strings.Join(out, ", ")
}

// imageCase is a net, and the operators that the pass leaves of it.
type imageCase struct {
	name  string
	build func(b imageNet) []*graph.Value
	want  string
}

// one is a list of one value.
func one(v ...*graph.Value) []*graph.Value { return v }

const f32, bf16 = tensor.Float32, tensor.BFloat16

var imageRules = []imageCase{
	{"a convolution", func(b imageNet) []*graph.Value {
		return one(b.conv(b.input(f32, 2, 6, 5, 7), 8, 6, 3, relu()))
	}, "2 Cast, 2 Transpose, 1 weir:NhwcConv"},
	{"convolutions on end", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3, relu())
		return one(b.conv(x, 5, 8, 1))
	}, "2 Cast, 2 Transpose, 2 weir:NhwcConv"},
	{"dilated, with strides and uneven padding", func(b imageNet) []*graph.Value {
		return one(b.fused("Conv", op.Attrs{op.StringAttr("precision", "bf16"),
			op.IntsAttr("dilations", 2, 1), op.IntsAttr("strides", 1, 2),
			op.IntsAttr("pads", 2, 0, 1, 1)}, b.input(f32, 1, 5, 9, 8), b.filters(7, 5, 3)))
	}, "2 Cast, 2 Transpose, 1 weir:NhwcConv"},
	{"padded by itself", func(b imageNet) []*graph.Value {
		return one(b.fused("Conv", op.Attrs{op.StringAttr("precision", "bf16"),
			op.StringAttr("auto_pad", "SAME_LOWER"), op.IntsAttr("strides", 2, 2)},
			b.input(f32, 1, 5, 9, 8), b.filters(7, 5, 3)))
	}, "2 Cast, 2 Transpose, 1 weir:NhwcConv"},
	{"of few channels", func(b imageNet) []*graph.Value {
		return one(b.conv(b.input(f32, 2, 3, 9, 8), 8, 3, 3, op.IntsAttr("strides", 2, 2)))
	}, "1 Cast, 1 Transpose, 1 weir:NhwcConv"},
	{"of four channels", func(b imageNet) []*graph.Value {
		return one(b.conv(b.input(f32, 1, 4, 9, 8), 8, 4, 3))
	}, "1 Cast, 1 Transpose, 1 weir:NhwcConv"},
	{"of five", func(b imageNet) []*graph.Value {
		return one(b.conv(b.input(f32, 1, 5, 9, 8), 8, 5, 3))
	}, "2 Cast, 2 Transpose, 1 weir:NhwcConv"},
	{"of few channels, dilated", func(b imageNet) []*graph.Value {
		return one(b.conv(b.input(f32, 2, 3, 9, 8), 8, 3, 3, op.IntsAttr("dilations", 2, 2)))
	}, "2 Cast, 2 Transpose, 1 weir:NhwcConv"},
	{"a residual", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3, relu())
		y := b.conv(x, 8, 8, 3, relu())
		y.Producer.In = append(y.Producer.In, x)
		return one(y)
	}, "2 Cast, 2 Transpose, 2 weir:NhwcConv"},
	{"a residual of floats", func(b imageNet) []*graph.Value {
		y := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3, relu())
		y.Producer.In = append(y.Producer.In, b.input(f32, 1, 8, 5, 7))
		return one(y)
	}, "3 Cast, 3 Transpose, 1 weir:NhwcConv"},
	{"a scale of weights", func(b imageNet) []*graph.Value {
		y := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3, relu())
		y.Producer.In = append(y.Producer.In, nil, b.whole(1, 2, 8))
		return one(y)
	}, "2 Cast, 2 Transpose, 1 weir:NhwcConv"},
	{"a group a channel", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 6, 7), 8, 6, 3, relu())
		x = b.depthwise(x, 8, 5, relu(), op.IntsAttr("strides", 2, 1))
		x.Producer.In = append(x.Producer.In, nil, b.whole(1, 2, 8))
		return one(b.conv(x, 4, 8, 1))
	}, "2 Cast, 2 Transpose, 3 weir:NhwcConv"},
	{"a sum", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 2, 6, 5, 7), 8, 6, 3)
		return one(b.conv(b.add("Add", nil, x, b.conv(x, 8, 8, 3)), 4, 8, 1))
	}, "1 Add, 2 Cast, 2 Transpose, 3 weir:NhwcConv"},
	{"a product by channels", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 2, 6, 5, 7), 8, 6, 3)
		y := b.conv(b.input(f32, 2, 6, 1, 1), 8, 6, 1)
		return one(b.conv(b.add("Mul", nil, x, y), 4, 8, 1))
	}, "3 Cast, 1 Mul, 3 Transpose, 3 weir:NhwcConv"},
	{"joined channels", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		y := b.add("Concat", op.Attrs{op.IntAttr("axis", 1)}, x, b.conv(x, 5, 8, 3))
		return one(b.conv(y, 4, 13, 1))
	}, "2 Cast, 1 Concat, 2 Transpose, 3 weir:NhwcConv"},
	{"joined channels, counted from the end", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		y := b.add("Concat", op.Attrs{op.IntAttr("axis", -3)}, b.conv(x, 5, 8, 3), x)
		return one(b.conv(y, 4, 13, 1))
	}, "2 Cast, 1 Concat, 2 Transpose, 3 weir:NhwcConv"},
	{"the greatest", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 2, 6, 5, 7), 8, 6, 3)
		y := b.add("MaxPool", op.Attrs{op.IntsAttr("kernel_shape", 3, 2), op.IntsAttr("strides", 2,
			1), op.IntsAttr("pads", 1, 0, 2, 1)}, x)
		return one(b.conv(y, 4, 8, 1))
	}, "2 Cast, 2 Transpose, 2 weir:NhwcConv, 1 weir:NhwcMaxPool"},
	{"the mean", func(b imageNet) []*graph.Value {
		return one(b.add("GlobalAveragePool", nil, b.conv(b.input(f32, 2, 6, 4, 8), 8, 6, 3)))
	}, "1 Cast, 1 Transpose, 1 weir:NhwcConv, 1 weir:NhwcGlobalAveragePool"},
	{"channels apart", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		n := graph.NewNode("apart", "Split", 13, op.Attrs{op.IntAttr("axis", 1)},
			one(x, b.ints(3, 5)), "s0", "s1")
		b.g.Nodes = append(b.g.Nodes, n)
		return one(b.conv(n.Out[0], 4, 3, 1), b.conv(n.Out[1], 4, 5, 3))
	}, "3 Cast, 1 Split, 3 Transpose, 3 weir:NhwcConv"},
	{"some channels", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		y := b.add("Slice", nil, x, b.ints(7), b.ints(1), b.ints(1), b.ints(-2))
		return one(b.conv(y, 4, 3, 1))
	}, "2 Cast, 1 Slice, 2 Transpose, 2 weir:NhwcConv"},
	{"some channels, told in 32 bits", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		at := func(v int32) *graph.Value { return b.constant(tensor.From([]int32{v}, 1)) }
		return one(b.conv(b.add("Slice", nil, x, at(2), at(8), at(-3)), 4, 6, 1))
	}, "2 Cast, 1 Slice, 2 Transpose, 2 weir:NhwcConv"},
	{"repeated by scales", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 2, 6, 5, 7), 8, 6, 3)
		y := b.add("Resize", nearest("asymmetric", "floor"), x, nil,
			b.constant(tensor.From([]float32{1, 1, 3, 2}, 4)))
		return one(b.conv(y, 4, 8, 1))
	}, "2 Cast, 1 Expand, 2 Reshape, 2 Transpose, 2 weir:NhwcConv"},
	{"repeated to sizes", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		y := b.add("Resize", nearest("asymmetric", "floor"), x, nil, nil, b.ints(1, 8, 10, 7))
		return one(b.conv(y, 4, 8, 1))
	}, "2 Cast, 1 Expand, 2 Reshape, 2 Transpose, 2 weir:NhwcConv"},
	{"read as floats too", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		return one(b.conv(x, 4, 8, 3), b.add("Softmax", op.Attrs{op.IntAttr("axis", 1)}, x), x)
	}, "3 Cast, 1 Softmax, 3 Transpose, 2 weir:NhwcConv"},
}

func nearest(coordinates, rounding string) op.Attrs {
	return op.Attrs{op.StringAttr("mode", "nearest"), op.StringAttr("nearest_mode", rounding),
		op.StringAttr("coordinate_transformation_mode", coordinates)}
}

// behind has an operator that reads planar images behind each value, as outputs are not rounded.
func (b imageNet) behind(values []*graph.Value) (out []*graph.Value) {
	for _, v := range values {
		out = append(out, b.add("Neg", nil, v))
	}
	return out
}

// TestPixels holds what each rule makes of a net, and that it computes the same.
func TestPixels(t *testing.T) {
	for _, tc := range imageRules {
		t.Run(tc.name, func(t *testing.T) { tc.run(t) })
	}
}

func (tc *imageCase) run(t *testing.T) {
	b := newImages(t, 1)
	g := b.finish(b.behind(tc.build(b))...)
	was, names := g.Clone(), outputNames(g)
	toImages(t, g)
	if got := counts(g); got != tc.want {
		t.Errorf("got  %s\nwant %s\n%v", got, tc.want, g)
	}
	if got := outputNames(g); !slices.Equal(got, names) {
		t.Errorf("outputs are now %v, were %v", got, names)
	}
	for range 3 {
		in := b.images()
		if err := compare(eval(t, g, in), eval(t, was, in), true); err != nil {
			t.Errorf("%v\nbefore\n%v\nafter\n%v", err, was, g)
		}
	}
}

// imageRefusals are nets in which the pass leaves an operator as it is: each is followed by what
// remains, and NhwcConv is what comes before it.
var imageRefusals = []imageCase{
	{"multiplies in float32", func(b imageNet) []*graph.Value {
		return one(b.add("Conv", op.Attrs{pads(1)}, b.input(f32, 1, 6, 5, 7), b.filters(8, 6, 3)))
	}, "1 Conv"},
	{"weights are computed", func(b imageNet) []*graph.Value {
		y := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		y.Producer.In[1] = b.input(f32, 8, 6, 3, 3)
		return one(y)
	}, "1 weir:Conv"},
	{"a bias is computed", func(b imageNet) []*graph.Value {
		y := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		y.Producer.In[2] = b.input(f32, 8)
		return one(y)
	}, "1 weir:Conv"},
	{"a scale is computed", func(b imageNet) []*graph.Value {
		y := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		y.Producer.In = append(y.Producer.In, nil, b.input(f32, 8))
		return one(y)
	}, "1 weir:Conv"},
	{"one spatial axis", func(b imageNet) []*graph.Value {
		return one(b.fused("Conv", op.Attrs{op.StringAttr("precision", "bf16")},
			b.input(f32, 1, 6, 9), b.whole(-1, 1, 8, 6, 3)))
	}, "1 weir:Conv"},
	{"groups of several channels", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		return one(b.fused("Conv", op.Attrs{op.StringAttr("precision", "bf16"),
			op.IntAttr("group", 2)}, x, b.filters(8, 4, 3)))
	}, "2 Cast, 2 Transpose, 1 weir:Conv, 1 weir:NhwcConv"},
	{"two filters a channel", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		return one(b.fused("Conv", op.Attrs{op.IntAttr("group", 8)}, x, b.filters(16, 1, 3)))
	}, "2 Cast, 2 Transpose, 1 weir:Conv, 1 weir:NhwcConv"},
	{"a group a channel, of floats", func(b imageNet) []*graph.Value {
		return one(b.depthwise(b.input(f32, 1, 8, 5, 7), 8, 3))
	}, "1 weir:Conv"},
	{"a group a channel, with a residual", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		y := b.depthwise(x, 8, 3)
		y.Producer.In = append(y.Producer.In, x)
		return one(y)
	}, "2 Cast, 2 Transpose, 1 weir:Conv, 1 weir:NhwcConv"},
	{"a group a channel, of a large window", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		return one(b.depthwise(x, 8, 17))
	}, "2 Cast, 2 Transpose, 1 weir:Conv, 1 weir:NhwcConv"},
	{"a sum with floats", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		return one(b.add("Add", nil, x, b.input(f32, 1, 8, 5, 7)))
	}, "1 Add, 2 Cast, 2 Transpose, 1 weir:NhwcConv"},
	{"a product with a constant", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		return one(b.add("Mul", nil, b.whole(1, 2, 8, 1, 1), x))
	}, "2 Cast, 1 Mul, 2 Transpose, 1 weir:NhwcConv"},
	{"rows joined", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		return one(b.add("Concat", op.Attrs{op.IntAttr("axis", 2)}, x, x))
	}, "2 Cast, 1 Concat, 2 Transpose, 1 weir:NhwcConv"},
	{"channels joined with floats", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		return one(b.add("Concat", op.Attrs{op.IntAttr("axis", 1)}, x, b.input(f32, 1, 2, 5, 7)))
	}, "2 Cast, 1 Concat, 2 Transpose, 1 weir:NhwcConv"},
	{"images joined", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		return one(b.add("Concat", op.Attrs{op.IntAttr("axis", -4)}, x, x))
	}, "2 Cast, 1 Concat, 2 Transpose, 1 weir:NhwcConv"},
	{"images apart", func(b imageNet) []*graph.Value {
		return b.apart(op.Attrs{})
	}, "2 Cast, 1 Split, 2 Transpose, 1 weir:NhwcConv"},
	{"rows apart", func(b imageNet) []*graph.Value {
		return b.apart(op.Attrs{op.IntAttr("axis", -2)})
	}, "2 Cast, 1 Split, 2 Transpose, 1 weir:NhwcConv"},
	{"some rows", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		return one(b.add("Slice", nil, x, b.ints(1), b.ints(3), b.ints(2)))
	}, "2 Cast, 1 Slice, 2 Transpose, 1 weir:NhwcConv"},
	{"some rows of some channels", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
		return one(b.add("Slice", nil, x, b.ints(1, 1), b.ints(3, 3), b.ints(1, 2)))
	}, "2 Cast, 1 Slice, 2 Transpose, 1 weir:NhwcConv"},
	{"some images", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 3, 6, 5, 7), 8, 6, 3)
		return one(b.add("Slice", nil, x, b.ints(1), b.ints(3)))
	}, "2 Cast, 1 Slice, 2 Transpose, 1 weir:NhwcConv"},
	{"windows rounded up", func(b imageNet) []*graph.Value {
		return b.greatest(op.IntAttr("ceil_mode", 1), op.IntsAttr("strides", 2, 2))
	}, "2 Cast, 1 MaxPool, 2 Transpose, 1 weir:NhwcConv"},
	{"windows padded by themselves", func(b imageNet) []*graph.Value {
		return b.greatest(op.StringAttr("auto_pad", "SAME_UPPER"))
	}, "2 Cast, 1 MaxPool, 2 Transpose, 1 weir:NhwcConv"},
	{"windows with holes", func(b imageNet) []*graph.Value {
		return b.greatest(op.IntsAttr("dilations", 1, 2))
	}, "2 Cast, 1 MaxPool, 2 Transpose, 1 weir:NhwcConv"},
	{"large windows", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 18, 18), 8, 6, 3)
		return one(b.add("MaxPool", op.Attrs{op.IntsAttr("kernel_shape", 17, 17)}, x))
	}, "2 Cast, 1 MaxPool, 2 Transpose, 1 weir:NhwcConv"},
	{"the greatest and where it is", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 6, 8), 8, 6, 3)
		n := graph.NewNode("greatest", "MaxPool", 12, op.Attrs{op.IntsAttr("kernel_shape", 2, 2)},
			one(x), "m0", "m1")
		b.g.Nodes = append(b.g.Nodes, n)
		return n.Out
	}, "2 Cast, 1 MaxPool, 2 Transpose, 1 weir:NhwcConv"},
	{"repeated around centres", func(b imageNet) []*graph.Value {
		return b.resized(nearest("half_pixel", "floor"), 2, 2)
	}, "2 Cast, 1 Resize, 2 Transpose, 1 weir:NhwcConv"},
	{"repeated from above", func(b imageNet) []*graph.Value {
		return b.resized(nearest("asymmetric", "ceil"), 2, 2)
	}, "2 Cast, 1 Resize, 2 Transpose, 1 weir:NhwcConv"},
	{"between elements", func(b imageNet) []*graph.Value {
		attrs := nearest("asymmetric", "floor")
		attrs[0] = op.StringAttr("mode", "linear")
		return b.resized(attrs, 2, 2)
	}, "2 Cast, 1 Resize, 2 Transpose, 1 weir:NhwcConv"},
	{"repeated by a fraction", func(b imageNet) []*graph.Value {
		return b.resized(nearest("asymmetric", "floor"), 2, 1.5)
	}, "2 Cast, 1 Resize, 2 Transpose, 1 weir:NhwcConv"},
	{"repeated by nearly a factor", func(b imageNet) []*graph.Value {
		return b.resized(nearest("asymmetric", "floor"), 2, 2.1)
	}, "2 Cast, 1 Resize, 2 Transpose, 1 weir:NhwcConv"},
	{"left out", func(b imageNet) []*graph.Value {
		return b.resized(nearest("asymmetric", "floor"), 0.5, 1)
	}, "2 Cast, 1 Resize, 2 Transpose, 1 weir:NhwcConv"},
	{"the mean of windows", func(b imageNet) []*graph.Value {
		x := b.conv(b.input(f32, 1, 6, 6, 8), 8, 6, 3)
		return one(b.add("AveragePool", op.Attrs{op.IntsAttr("kernel_shape", 2, 2)}, x))
	}, "1 AveragePool, 2 Cast, 2 Transpose, 1 weir:NhwcConv"},
	{"images of bfloat16 in rows", func(b imageNet) []*graph.Value {
		x := b.add("Cast", op.Attrs{op.IntAttr("to", int64(f32))}, b.input(bf16, 1, 8, 6, 5))
		return one(b.add("GlobalAveragePool", nil, x))
	}, "1 Cast, 1 GlobalAveragePool"},
}

// apart splits a planar image into two.
func (b imageNet) apart(attrs op.Attrs) []*graph.Value {
	x := b.conv(b.input(f32, 2, 6, 6, 8), 8, 6, 3)
	n := graph.NewNode("apart", "Split", 13, attrs, one(x), "s0", "s1")
	b.g.Nodes = append(b.g.Nodes, n)
	return n.Out
}

// greatest takes the greatest of windows of 2 x 2.
func (b imageNet) greatest(attrs ...op.Attr) []*graph.Value {
	x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
	return one(b.add("MaxPool", append(op.Attrs{op.IntsAttr("kernel_shape", 2, 2)}, attrs...), x))
}

// resized makes a planar image so many times as high and wide.
func (b imageNet) resized(attrs op.Attrs, high, wide float32) []*graph.Value {
	x := b.conv(b.input(f32, 1, 6, 6, 8), 8, 6, 3)
	return one(b.add("Resize", attrs, x, nil,
		b.constant(tensor.From([]float32{1, 1, high, wide}, 4))))
}

// TestPixelsRefuse holds what the pass leaves as it is.
func TestPixelsRefuse(t *testing.T) {
	for _, tc := range imageRefusals {
		t.Run(tc.name, func(t *testing.T) { tc.run(t) })
	}
}

// TestPixelsAreAskedFor holds for what devices and precisions images are turned, but for those that
// are outputs of the graph.
func TestPixelsAreAskedFor(t *testing.T) {
	asked := 0
	device := func(has bool) compute.Features {
		f := withPixels()
		f.Pixels = compute.Ask(func() bool { asked++; return has })
		return f
	}
	var none compute.Features = withPixels()
	none.Pixels = nil
	for _, tc := range []struct {
		name string
		o    pass.Options
		want int // convolutions of pixels
	}{
		{"bf16", pass.Options{Precision: pass.BF16, Features: device(true)}, 1},
		{"auto", pass.Options{Precision: pass.Auto, Features: device(true)}, 1},
		{"fp32", pass.Options{Features: device(true)}, 0},
		{"fp16", pass.Options{Precision: pass.FP16, Features: device(true)}, 0},
		{"portable", pass.Options{Precision: pass.BF16, Features: device(true), Portable: true},
			0},
		{"ahead", pass.Options{Precision: pass.BF16, Features: device(true), Ahead: true}, 0},
		{"without kernels", pass.Options{Precision: pass.BF16, Features: none}, 0},
		{"denied", pass.Options{Precision: pass.BF16, Features: device(false)}, 0},
	} {
		b, was := newImages(t, 1), asked
		g := b.finish(b.conv(b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3), 8, 8, 3))
		tc.o.Check = true
		optimise(t, g, tc.o)
		if got := types(g)["weir:NhwcConv"]; got != tc.want {
			t.Errorf("%s: %d convolutions of pixels, want %d\n%v", tc.name, got, tc.want, g)
		}
		if has := tc.name == "denied" || tc.want > 0; (asked > was) != has {
			t.Errorf("%s: the device was asked %d times", tc.name, asked-was)
		}
	}
}

// TestPixelsLeaveTraining leaves a step of training as it is.
func TestPixelsLeaveTraining(t *testing.T) {
	b := newImages(t, 1)
	x := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 3)
	n := graph.NewNode("mark", op.Unscale, 1, nil, one(x, b.input(f32)), "g0", "finite")
	n.Domain = op.FusedDomain
	b.g.Nodes = append(b.g.Nodes, n)
	g := b.finish(n.Out[0])
	if toImages(t, g); types(g)["weir:Conv"] != 1 {
		t.Errorf("a step of training became\n%v", g)
	}
}

// TestPixelsAreExplained holds what is said of a net of pixels.
func TestPixelsAreExplained(t *testing.T) {
	b := newImages(t, 1)
	x := b.conv(b.input(f32, 1, 3, 5, 7), 8, 3, 3)
	x = b.conv(b.depthwise(x, 8, 3), 8, 8, 1)
	x.Producer.In = append(x.Producer.In, b.input(f32, 1, 8, 5, 7))
	y := b.conv(b.input(f32, 1, 6, 5, 7), 8, 6, 1)
	g := b.finish(b.add("GlobalAveragePool", nil, b.add("Add", nil, x, y)), b.add("Neg", nil, y))
	toImages(t, g)
	r := pass.Amp(g, pass.BF16, withPixels())
	fates := func(n *pass.AmpChoice) (s string) {
		for _, c := range n.Casts {
			s += string(c.Fate) + " "
		}
		return s
	}
	var got []string
	for i := range r.Nodes {
		if n := &r.Nodes[i]; strings.HasPrefix(n.Operator, "weir:") || n.Operator == "Add" {
			got = append(got, fmt.Sprint(n.Operator, " ", n.List, " ", n.Chosen, " ", n.Narrow, " ",
				fates(n)))
		}
	}
	want := []string{"weir:NhwcConv allow true true fused folded eliminated ",
		"weir:NhwcConv allow false true ",
		"weir:NhwcConv allow true true eliminated folded node eliminated ",
		"weir:NhwcConv allow true true node folded node ", "Add deny false true ",
		"weir:NhwcGlobalAveragePool deny false false "}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("got\n%s\nwant\n%s\n%v", strings.Join(got, "\n"), strings.Join(want, "\n"), g)
	}
	if r.Casts.Left() != 3 || r.NarrowValues != 5 || r.NarrowBytes != 5*4*8*5*7 {
		t.Errorf("%d casts left, %d values of %d bytes are bfloat16", r.Casts.Left(),
			r.NarrowValues, r.NarrowBytes)
	}
}

// grow adds an operator on images of 8 channels, 6 x 5 pixels, to some that there are.
func (b imageNet) grow(x, y *graph.Value) *graph.Value {
	switch b.r.IntN(12) {
	case 0, 1, 2:
		return b.add("Conv", op.Attrs{pads(1)}, x, b.filters(8, 8, 3), b.whole(-1, 1, 8))
	case 3:
		return b.add("Conv", op.Attrs{pads(1), op.IntAttr("group", 8)}, x, b.filters(8, 1, 3))
	case 4:
		return b.add("Add", nil, x, y)
	case 5:
		mean := b.add("GlobalAveragePool", nil, y)
		return b.add("Mul", nil, x, b.add("Sigmoid", nil, b.conv(mean, 8, 8, 1)))
	case 6:
		return b.add("Conv", nil, b.add("Concat", op.Attrs{op.IntAttr("axis", 1)}, x, y),
			b.filters(8, 16, 1))
	case 7:
		return b.add("MaxPool", op.Attrs{op.IntsAttr("kernel_shape", 3, 3), pads(1)}, x)
	case 8:
		n := graph.NewNode("apart", "Split", 13, op.Attrs{op.IntAttr("axis", 1)},
			one(x, b.ints(3, 5)), fmt.Sprint("s", b.count), fmt.Sprint("t", b.count))
		b.g.Nodes = append(b.g.Nodes, n)
		return b.add("Concat", op.Attrs{op.IntAttr("axis", -3)}, n.Out[1], n.Out[0])
	case 9:
		wide := b.add("Resize", nearest("asymmetric", "floor"), x, nil,
			b.constant(tensor.From([]float32{1, 1, 2, 2}, 4)))
		return b.add("Conv", op.Attrs{op.IntsAttr("strides", 2, 2)}, wide, b.filters(8, 8, 1))
	case 10:
		half := b.add("Slice", nil, x, b.ints(2), b.ints(6), b.ints(1))
		return b.add("Conv", nil, half, b.filters(8, 4, 1))
	}
	return b.add([]string{"Relu", "Sigmoid", "Tanh", "HardSwish"}[b.r.IntN(4)], nil, x)
}

// random makes a net of n operators.
func (b imageNet) random(n int) *graph.Graph {
	values := one(b.add("Conv", op.Attrs{pads(1)}, b.input(f32, 1, 3, 6, 5), b.filters(8, 3, 3)))
	pick := func() *graph.Value {
		return values[max(0, len(values)-1-b.r.IntN(min(len(values), 3)))]
	}
	for range n {
		values = append(values, b.grow(pick(), pick()))
	}
	for _, n := range b.g.Nodes {
		if n.Type == "HardSwish" {
			n.Version = 14
		}
	}
	out := one(values[len(values)-1])
	if b.r.IntN(3) == 0 {
		out = append(out, values[len(values)/2])
	}
	b.g.Opsets[""] = 14
	return b.finish(out...)
}

// TestPixelsOfRandomNets compares random nets in all passes with themselves, as far as numbers of
// bfloat16 tell.
func TestPixelsOfRandomNets(t *testing.T) {
	turned := 0
	for seed := range uint64(150) {
		b := newImages(t, seed)
		g := b.random(2 + int(seed%9))
		was := g.Clone()
		optimise(t, g, pass.Options{Check: true, Precision: pass.BF16, Features: withPixels()})
		turned += types(g)["weir:NhwcConv"]
		in := b.images()
		got, want := eval(t, g, in), eval(t, was, in)
		for i := range want {
			if err := tensor.Close(got[i], want[i], 0, 0.03*largest(want[i])+1e-6); err != nil {
				t.Fatalf("seed %d, output %d: %v\nbefore\n%v\nafter\n%v", seed, i, err, was, g)
			}
		}
	}
	if turned < 300 {
		t.Errorf("%d convolutions are turned", turned)
	}
}

// largest is the greatest magnitude in a tensor of floats.
func largest(x *tensor.Tensor) float64 {
	most := float32(0)
	for _, v := range tensor.As[float32](x) {
		most = max(most, v, -v)
	}
	return float64(most)
}
