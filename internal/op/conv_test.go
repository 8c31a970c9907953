package op

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func ones(shape ...int) *tensor.Tensor {
	v := make([]float32, count(shape))
	for i := range v {
		v[i] = 1
	}
	return tensor.From(v, shape...)
}

func TestConv(t *testing.T) {
	x := seq(1, 1, 3, 3)
	box := ones(1, 1, 2, 2)
	pads := IntsAttr("pads", 1, 1, 1, 1)
	runCases(t, []evalCase{
		{op: "Conv", in: list(x, box), want: list(f32([]int{1, 1, 2, 2}, 8, 12, 20, 24))},
		{op: "Conv", name: "bias", in: list(x, box, vec(100)),
			want: list(f32([]int{1, 1, 2, 2}, 108, 112, 120, 124))},
		{op: "Conv", name: "pads and strides", attrs: Attrs{pads, IntsAttr("strides", 2, 2)},
			in:   list(x, box),
			want: list(f32([]int{1, 1, 2, 2}, 0, 3, 9, 24))},
		{op: "Conv", name: "dilations", attrs: Attrs{IntsAttr("dilations", 2, 2)}, in: list(x, box),
			want: list(f32([]int{1, 1, 1, 1}, 16))},
		{op: "Conv", name: "same upper", attrs: Attrs{StringAttr("auto_pad", "SAME_UPPER")},
			in:   list(x, box),
			want: list(f32([]int{1, 1, 3, 3}, 8, 12, 7, 20, 24, 13, 13, 15, 8))},
		{op: "Conv", name: "same lower", attrs: Attrs{StringAttr("auto_pad", "SAME_LOWER")},
			in:   list(x, box),
			want: list(f32([]int{1, 1, 3, 3}, 0, 1, 3, 3, 8, 12, 9, 20, 24))},
		{op: "Conv", name: "one axis", in: list(seq(1, 1, 4), f32([]int{1, 1, 2}, 1, -1)),
			want: list(f32([]int{1, 1, 3}, -1, -1, -1))},
		{op: "Conv", name: "depthwise", attrs: Attrs{IntAttr("group", 2)},
			in:   list(seq(1, 2, 2), f32([]int{2, 1, 1}, 1, 10)),
			want: list(f32([]int{1, 2, 2}, 0, 1, 20, 30))},
		{op: "Conv", name: "channels", in: list(seq(1, 2, 2), f32([]int{2, 2, 1}, 1, 10, 2, 0)),
			want: list(f32([]int{1, 2, 2}, 20, 31, 0, 2))},
		{op: "Conv", name: "no batch", in: list(seq(0, 1, 3, 3), box), want: list(seq(0, 1, 2, 2))},
		{op: "Conv", name: "kernel_shape", attrs: Attrs{IntsAttr("kernel_shape", 3, 3)},
			in: list(x, box), err: ErrAttr},
		{op: "Conv", name: "too large", in: list(x, ones(1, 1, 4, 4)), err: ErrInput},
		{op: "Conv", name: "group", attrs: Attrs{IntAttr("group", 2)}, in: list(x, box),
			err: ErrInput},
		{op: "Conv", name: "stride 0", attrs: Attrs{IntsAttr("strides", 0, 1)}, in: list(x, box),
			err: ErrAttr},
		{op: "Conv", name: "bias length", in: list(x, box, vec(1, 2)), err: ErrInput},
	})
}

func TestConvTranspose(t *testing.T) {
	x := f32([]int{1, 1, 2, 2}, 1, 2, 3, 4)
	two := IntsAttr("strides", 2, 2)
	runCases(t, []evalCase{
		{op: "ConvTranspose", in: list(x, ones(1, 1, 2, 2)),
			want: list(f32([]int{1, 1, 3, 3}, 1, 3, 2, 4, 10, 6, 3, 7, 4))},
		{op: "ConvTranspose", name: "stride fills", attrs: Attrs{two},
			in:   list(x, ones(1, 1, 2, 2), vec(1)),
			want: list(f32([]int{1, 1, 4, 4}, 2, 2, 3, 3, 2, 2, 3, 3, 4, 4, 5, 5, 4, 4, 5, 5))},
		{op: "ConvTranspose", name: "output_padding",
			attrs: Attrs{IntsAttr("strides", 2), IntsAttr("output_padding", 1)},
			in:    list(f32([]int{1, 1, 2}, 1, 2), ones(1, 1, 1)),
			want:  list(f32([]int{1, 1, 4}, 1, 0, 2, 0))},
		{op: "ConvTranspose", name: "pads", attrs: Attrs{IntsAttr("pads", 1, 0)},
			in:   list(f32([]int{1, 1, 2}, 1, 2), ones(1, 1, 2)),
			want: list(f32([]int{1, 1, 2}, 3, 2))},
		{op: "ConvTranspose", name: "output_shape trims the front",
			attrs: Attrs{IntsAttr("output_shape", 2)},
			in:    list(f32([]int{1, 1, 2}, 1, 2), ones(1, 1, 2)),
			want:  list(f32([]int{1, 1, 2}, 3, 2))},
		{op: "ConvTranspose", name: "output_shape grows the end",
			attrs: Attrs{IntsAttr("output_shape", 4)},
			in:    list(f32([]int{1, 1, 2}, 1, 2), ones(1, 1, 2)),
			want:  list(f32([]int{1, 1, 4}, 1, 3, 2, 0))},
		{op: "ConvTranspose", name: "same upper",
			attrs: Attrs{two, StringAttr("auto_pad", "SAME_UPPER")}, in: list(x, ones(1, 1, 3, 3)),
			want: list(f32([]int{1, 1, 4, 4}, 1, 1, 3, 2, 1, 1, 3, 2, 4, 4, 10, 6, 3, 3, 7, 4))},
		{op: "ConvTranspose", name: "groups", attrs: Attrs{IntAttr("group", 2)},
			in:   list(seq(1, 2, 1), f32([]int{2, 2, 1}, 1, 2, 3, 4)),
			want: list(f32([]int{1, 4, 1}, 0, 0, 3, 4))},
		{op: "ConvTranspose", name: "channels", in: list(x, ones(2, 1, 2, 2)), err: ErrInput},
	})
}

// TestConvIsAdjoint checks ⟨Conv(x), y⟩ = ⟨x, ConvTranspose(y)⟩ and the naive sum, on random
// attributes.
func TestConvIsAdjoint(t *testing.T) {
	r := caller{rand.New(rand.NewPCG(11, 12))}
	for range 150 {
		g, in, out := 1+r.IntN(2), 1+r.IntN(2), 1+r.IntN(2)
		attrs := Attrs{IntAttr("group", int64(g)),
			IntsAttr("strides", 1+r.Int64N(3), 1+r.Int64N(2)),
			IntsAttr("dilations", 1+r.Int64N(2), 1+r.Int64N(2)),
			IntsAttr("pads", r.Int64N(3), r.Int64N(2), r.Int64N(2), r.Int64N(3))}
		x := r.tensor(tensor.Float32, []int{1 + r.IntN(2), g * in, 5 + r.IntN(3), 4 + r.IntN(3)})
		w := r.tensor(tensor.Float32, []int{g * out, in, 1 + r.IntN(3), 1 + r.IntN(2)})
		y := eval1(t, "Conv", attrs, x, w)
		same(t, "Conv", naiveConv(x, w, y.Shape, attrs), y)
		z := r.tensor(tensor.Float32, y.Shape)
		back := eval1(t, "ConvTranspose",
			append(attrs, IntsAttr("output_padding", leftover(x, w, y, attrs)...)), z, w)
		if a, b := inner(y, z), inner(x, back); a != b {
			t.Fatalf("%v: ⟨Conv(x), z⟩ = %v, ⟨x, ConvTranspose(z)⟩ = %v", attrs, a, b)
		}
	}
}

// leftover is the output padding with which ConvTranspose gives the size of x back.
func leftover(x, w, y *tensor.Tensor, attrs Attrs) []int64 {
	out := make([]int64, 2)
	for i := range out {
		st, di, pads := attrs.Ints("strides")[i], attrs.Ints("dilations")[i], attrs.Ints("pads")
		out[i] = int64(x.Shape[i+2]) -
			(int64(y.Shape[i+2]-1)*st + (int64(w.Shape[i+2])-1)*di + 1 - pads[i] - pads[i+2])
	}
	return out
}

func inner(a, b *tensor.Tensor) float64 {
	s := 0.0
	for i, v := range tensor.As[float32](a) {
		s += float64(v) * float64(tensor.As[float32](b)[i])
	}
	return s
}

// naiveConv is the definition with an index a loop.
func naiveConv(x, w *tensor.Tensor, shape []int, attrs Attrs) *tensor.Tensor {
	st, di, pads := attrs.Ints("strides"), attrs.Ints("dilations"), attrs.Ints("pads")
	xs, ws, group := x.Shape, w.Shape, int(attrs.Int("group", 1))
	y := make([]float32, count(shape))
	at := 0
	for n := range shape[0] {
		for m := range shape[1] {
			for p := range shape[2] {
				for q := range shape[3] {
					for c := range ws[1] {
						for i := range ws[2] {
							for j := range ws[3] {
								h := p*int(st[0]) + i*int(di[0]) - int(pads[0])
								v := q*int(st[1]) + j*int(di[1]) - int(pads[1])
								if h < 0 || h >= xs[2] || v < 0 || v >= xs[3] {
									continue
								}
								ch := m/(ws[0]/group)*ws[1] + c
								y[at] += tensor.As[float32](
									x)[((n*xs[1]+ch)*xs[2]+h)*xs[3]+v] * tensor.As[float32](
									w)[((m*ws[1]+c)*ws[2]+i)*ws[3]+j]
							}
						}
					}
					at++
				}
			}
		}
	}
	return tensor.From(y, shape...)
}

func TestPool(t *testing.T) {
	x := seq(1, 1, 3, 3)
	kernel, ceil := IntsAttr("kernel_shape", 2, 2), IntAttr("ceil_mode", 1)
	pads, two := IntsAttr("pads", 1, 1, 0, 0), IntsAttr("strides", 2, 2)
	runCases(t, []evalCase{
		{op: "MaxPool", attrs: Attrs{kernel}, in: list(x),
			want: list(f32([]int{1, 1, 2, 2}, 4, 5, 7, 8),
				tensor.From([]int64{4, 5, 7, 8}, 1, 1, 2, 2))},
		{op: "MaxPool", name: "column-major indices",
			attrs: Attrs{kernel, two, ceil, IntAttr("storage_order", 1)}, in: list(x),
			want: list(f32([]int{1, 1, 2, 2}, 4, 5, 7, 8),
				tensor.From([]int64{4, 7, 5, 8}, 1, 1, 2, 2))},
		{op: "MaxPool", name: "indices of all planes", attrs: Attrs{IntsAttr("kernel_shape", 2)},
			in:   list(f32([]int{1, 2, 2}, 5, 5, 1, 2)),
			want: list(f32([]int{1, 2, 1}, 5, 2), tensor.From([]int64{0, 3}, 1, 2, 1))},
		{op: "MaxPool", name: "floor", attrs: Attrs{kernel, two}, in: list(x),
			want: list(f32([]int{1, 1, 1, 1}, 4))},
		{op: "MaxPool", name: "dilations", attrs: Attrs{kernel, IntsAttr("dilations", 2, 2)},
			in: list(x), want: list(f32([]int{1, 1, 1, 1}, 8))},
		{op: "MaxPool", name: "negative at the border", attrs: Attrs{kernel, two, pads},
			in:   list(f32([]int{1, 1, 2, 2}, -1, -2, -3, -4)),
			want: list(f32([]int{1, 1, 1, 1}, -1))},
		{op: "MaxPool", name: "int8", attrs: Attrs{IntsAttr("kernel_shape", 2)},
			in:   list(tensor.From([]int8{-128, -5, 3}, 1, 1, 3)),
			want: list(tensor.From([]int8{-5, 3}, 1, 1, 2))},
		{op: "MaxPool", name: "vast kernel",
			attrs: Attrs{IntsAttr("kernel_shape", 1<<30), IntsAttr("pads", 1<<29, 1<<29)},
			in:    list(f32([]int{1, 1, 3}, 1, 7, 2)), want: list(f32([]int{1, 1, 4}, 7, 7, 7, 7))},
		{op: "MaxPool", name: "no kernel", in: list(x), err: ErrAttr},
		{op: "MaxPool", name: "too large", attrs: Attrs{IntsAttr("kernel_shape", 4, 1)},
			in: list(x), err: ErrInput},
		{op: "AveragePool", attrs: Attrs{kernel, two, pads}, in: list(x),
			want: list(f32([]int{1, 1, 2, 2}, 0, 1.5, 4.5, 6))},
		{op: "AveragePool", name: "padding counts",
			attrs: Attrs{kernel, two, pads, IntAttr("count_include_pad", 1)}, in: list(x),
			want: list(f32([]int{1, 1, 2, 2}, 0, 0.75, 2.25, 6))},
		{op: "AveragePool", name: "beyond the padding never counts",
			attrs: Attrs{IntsAttr("kernel_shape", 2), IntsAttr("strides", 2), ceil,
				IntAttr("count_include_pad", 1)}, in: list(f32([]int{1, 1, 3}, 1, 3, 5)),
			want: list(f32([]int{1, 1, 2}, 2, 5))},
		{op: "AveragePool", name: "no window starts in the padding",
			attrs: Attrs{IntsAttr("kernel_shape", 1), IntsAttr("strides", 2), ceil},
			in:    list(f32([]int{1, 1, 4}, 1, 3, 5, 7)), want: list(f32([]int{1, 1, 2}, 1, 5))},
		{op: "LpPool", attrs: Attrs{IntsAttr("kernel_shape", 2)},
			in: list(f32([]int{1, 1, 3}, 3, -4, 0)), want: list(f32([]int{1, 1, 2}, 5, 4))},
		{op: "GlobalMaxPool", in: list(seq(1, 2, 2, 2)), want: list(f32([]int{1, 2, 1, 1}, 3, 7))},
		{op: "GlobalAveragePool", in: list(seq(1, 2, 2, 2)),
			want: list(f32([]int{1, 2, 1, 1}, 1.5, 5.5))},
		{op: "GlobalLpPool", attrs: Attrs{IntAttr("p", 1)}, in: list(f32([]int{1, 1, 2}, -1, 2)),
			want: list(f32([]int{1, 1, 1}, 3))},
	})
}

// TestPoolsOfTheWhole checks that a window as large as the plane is the global operator.
func TestPoolsOfTheWhole(t *testing.T) {
	x := eval1(t, "Sin", nil, seq(2, 3, 4, 5))
	whole := Attrs{IntsAttr("kernel_shape", 4, 5)}
	same(t, "MaxPool", eval1(t, "GlobalMaxPool", nil, x), eval1(t, "MaxPool", whole, x))
	same(t, "AveragePool", eval1(t, "GlobalAveragePool", nil, x), eval1(t, "AveragePool", whole, x))
	same(t, "ReduceMax", eval1(t, "GlobalMaxPool", nil, x),
		eval1(t, "ReduceMax", nil, x, i64(2, 3)))
}

func TestWindowRules(t *testing.T) {
	n, h := Sym("N"), Sym("H")
	c := newChain(t, map[string]Type{"x": Ranked(tensor.Float32, n, Known(3), h, h.MulInt(2)),
		"w": Concrete(tensor.Float32, 8, 3, 3, 3), "u": Concrete(tensor.Float32, 8, 4, 2, 2)})
	two := IntsAttr("strides", 2, 2)
	c.step("keep", "Conv", Attrs{IntsAttr("pads", 1, 1, 1, 1)}, "x", "w").
		want("keep", "float32[N,8,H,2·H]").
		step("halve", "Conv", Attrs{IntsAttr("pads", 1, 1, 1, 1), two}, "x", "w").
		want("halve", "float32[N,8,floor((H - 1)/2) + 1,H]").
		step("same", "Conv", Attrs{StringAttr("auto_pad", "SAME_UPPER"), two}, "x", "w").
		want("same", "float32[N,8,ceil((H)/2),H]").
		step("twice", "ConvTranspose", Attrs{two}, "keep", "u").
		want("twice", "float32[N,4,2·H,4·H]").
		step("pool", "MaxPool", Attrs{two, IntsAttr("kernel_shape", 2, 2)}, "twice").
		want("pool", "float32[N,4,H,2·H]").
		step("ceil", "MaxPool", Attrs{two, IntsAttr("kernel_shape", 2, 2), IntAttr("ceil_mode", 1)},
			"twice").want("ceil", "float32[N,4,H,2·H]").
		step("one", "GlobalAveragePool", nil, "pool").want("one", "float32[N,4,1,1]")
	flops := row(t, &Call{Type: "Conv", Version: 11, NumIn: 2, NumOut: 1}).Flops
	if got := flops(nil, list(Concrete(1, 1, 4, 8, 8), Concrete(1, 6, 2, 3, 3)),
		list(Concrete(1, 1, 6, 6, 6))); got != 2*6*36*18 {
		t.Errorf("Conv has %d flops, want %d", got, 2*6*36*18)
	}
}

func TestHugeWindowsAreRefused(t *testing.T) {
	for _, a := range []Attrs{
		{IntsAttr("kernel_shape", math.MaxInt64, 1)},
		{IntsAttr("kernel_shape", 1, 1), IntsAttr("pads", -1, 0, 0, 0)},
		{IntsAttr("kernel_shape", 1, 1), IntsAttr("dilations", math.MinInt64, 1)},
	} {
		call := &Call{Type: "MaxPool", Version: 12, Attrs: a, NumIn: 1, NumOut: 1}
		if _, err := InferTypes(row(t, call), call, list(Concrete(tensor.Float32, 1, 1, 1<<60, 1)),
			nil); err == nil {
			t.Errorf("%v is accepted", a)
		}
	}
}

func TestMaxUnpool(t *testing.T) {
	attrs := Attrs{IntsAttr("kernel_shape", 2), IntsAttr("strides", 2)}
	x, at := f32([]int{1, 1, 2}, 5, 6), tensor.From([]int64{1, 2}, 1, 1, 2)
	runCases(t, []evalCase{
		{op: "MaxUnpool", attrs: attrs, in: list(x, at),
			want: list(f32([]int{1, 1, 4}, 0, 5, 6, 0))},
		{op: "MaxUnpool", name: "output_shape", attrs: attrs, in: list(x, at, i64(1, 1, 5)),
			want: list(f32([]int{1, 1, 5}, 0, 5, 6, 0, 0))},
		{op: "MaxUnpool", name: "rows grow", attrs: Attrs{IntsAttr("kernel_shape", 1, 2)},
			in: list(f32([]int{1, 1, 2, 1}, 5, 6),
				tensor.From([]int64{1, 2}, 1, 1, 2, 1), i64(1, 1, 2, 3)),
			want: list(f32([]int{1, 1, 2, 3}, 0, 5, 0, 6, 0, 0))},
		{op: "MaxUnpool", name: "smaller", attrs: attrs, in: list(x, at, i64(1, 1, 3)),
			err: ErrInput},
		{op: "MaxUnpool", name: "index", attrs: attrs,
			in: list(x, tensor.From([]int64{1, 4}, 1, 1, 2)), err: ErrInput},
	})
	y := eval1(t, "Sin", nil, seq(1, 2, 4, 4))
	two := Attrs{IntsAttr("kernel_shape", 2, 2), IntsAttr("strides", 2, 2)}
	pooled, err := rawEval(t, &Call{Type: "MaxPool", Version: 12, Attrs: two, NumIn: 1, NumOut: 2},
		list(y))
	if err != nil {
		t.Fatal(err)
	}
	back := eval1(t, "MaxUnpool", two, pooled[0], pooled[1])
	same(t, "MaxPool of what MaxUnpool spread", pooled[0],
		eval1(t, "MaxPool", two, eval1(t, "Max", nil, back, y)))
}
