package microsoft

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/optest"
	"github.com/weirgpu/weir/tensor"
)

func list[T any](v ...T) []T { return v }

func f32(shape []int, v ...float32) *tensor.Tensor { return tensor.From(v, shape...) }

func vec(v ...float32) *tensor.Tensor { return tensor.From(v, len(v)) }

func i64(v ...int64) *tensor.Tensor { return tensor.From(v, len(v)) }

// microsoft is a case of an operator of the domain.
func microsoft(name, typ string, attrs op.Attrs, in, want []*tensor.Tensor) optest.Case {
	return optest.Case{Name: name, Domain: Domain, Type: typ, Version: 1, Attrs: attrs, In: in,
		Want: want}
}

// refuses is a case that ends in an error of that kind.
func refuses(name, typ string, kind error, attrs op.Attrs, in ...*tensor.Tensor) optest.Case {
	c := microsoft(name, typ, attrs, in, nil)
	c.ErrKind = kind
	return c
}

func bytes8(v ...uint8) *tensor.Tensor { return tensor.From(v, len(v)) }

func one32(v float32) *tensor.Tensor { return tensor.Scalar(v) }

func zero8(v uint8) *tensor.Tensor { return tensor.Scalar(v) }

func TestMicrosoftFloat(t *testing.T) {
	e := float32(math.E)
	optest.Run(t, []optest.Case{
		microsoft("", "QuickGelu", op.Attrs{op.FloatAttr("alpha", 0)}, list(vec(2, -4)),
			list(vec(1, -2))),
		microsoft("", "BiasGelu", nil, list(f32([]int{1, 2}, -1, 3), vec(1, -3)),
			list(f32([]int{1, 2}, 0, 0))),
		refuses("bias of another length", "BiasGelu", op.ErrInput, nil, f32([]int{1, 2}, 1, 2),
			vec(1, 2, 3)),
		microsoft("", "BiasAdd", nil,
			list(f32([]int{1, 1, 2}, 1, 2), vec(10, 20), f32([]int{1, 1, 2}, 100, 200)),
			list(f32([]int{1, 1, 2}, 111, 222))),
		microsoft("", "BiasSoftmax", op.Attrs{op.IntAttr("axis", 1)},
			list(f32([]int{1, 2}, 0, 0), vec(1, 0)), list(f32([]int{1, 2}, e/(e+1), 1/(e+1)))),
		microsoft("all from axis on", "BiasSoftmax", op.Attrs{op.IntAttr("axis", 0)},
			list(f32([]int{2, 2}, 1, 1, 1, 1), vec(0, 0)),
			list(f32([]int{2, 2}, 0.25, 0.25, 0.25, 0.25))),
		refuses("axis", "BiasSoftmax", op.ErrAttr, op.Attrs{op.IntAttr("axis", 2)}, vec(1, 2),
			vec(1, 2)),
		microsoft("", "FusedMatMul", op.Attrs{op.IntAttr("transA", 1), op.FloatAttr("alpha", 2)},
			list(f32([]int{2, 1}, 1, 2), f32([]int{2, 1}, 3, 4)), list(f32([]int{1, 1}, 22))),
		microsoft("first axis before the last", "FusedMatMul",
			op.Attrs{op.IntAttr("transBatchA", 1)},
			list(f32([]int{1, 2, 1}, 1, 2), f32([]int{2, 1, 1}, 3, 4)),
			list(f32([]int{2, 1, 1}, 3, 8))),
		microsoft("", "FusedGemm", op.Attrs{op.StringAttr("activation", "Relu")},
			list(f32([]int{1, 1}, 2), f32([]int{1, 2}, 3, -3), vec(1, 1)),
			list(f32([]int{1, 2}, 7, 0))),
		refuses("activation", "FusedGemm", op.ErrUnsupported,
			op.Attrs{op.StringAttr("activation", "Gelu")},
			f32([]int{1, 1}, 2), f32([]int{1, 1}, 3)),
		microsoft("", "FusedConv",
			op.Attrs{op.StringAttr("activation", "Clip"), op.FloatsAttr("activation_params", 0, 5)},
			list(f32([]int{1, 1, 3}, -1, 1, 4), f32([]int{1, 1, 1}, 2), vec(1),
				f32([]int{1, 1, 3}, 0, 1, 0)), list(f32([]int{1, 1, 3}, 0, 4, 5))),
		refuses("too many parameters", "FusedConv", op.ErrAttr,
			op.Attrs{op.StringAttr("activation", "Relu"), op.FloatsAttr("activation_params", 1)},
			f32([]int{1, 1, 1}, 1), f32([]int{1, 1, 1}, 2)),
		microsoft("", "SimplifiedLayerNormalization", op.Attrs{op.FloatAttr("epsilon", 0)},
			list(f32([]int{1, 2}, 3, -3), vec(2, 4)),
			list(f32([]int{1, 2}, 2, -4), f32([]int{1, 1}, 1.0/3))),
		microsoft("", "SkipLayerNormalization", op.Attrs{op.FloatAttr("epsilon", 0)},
			list(f32([]int{1, 1, 2}, 1, 0), f32([]int{1, 2}, 1, 0), vec(1, 1), vec(0, 5),
				vec(2, 0)),
			list(f32([]int{1, 1, 2}, 1, 4), f32([]int{1, 1, 1}, 2), f32([]int{1, 1, 1}, 0.5),
				f32([]int{1, 1, 2}, 4, 0))),
		refuses("rank", "SkipLayerNormalization", op.ErrInput, nil, vec(1, 2), vec(1, 2),
			vec(1, 1)),
		microsoft("", "Inverse", nil, list(f32([]int{2, 2}, 0, 2, 1, 0)),
			list(f32([]int{2, 2}, 0, 1, 0.5, 0))),
		refuses("singular", "Inverse", op.ErrInput, nil, f32([]int{2, 2}, 1, 2, 2, 4)),
		refuses("no square", "Inverse", op.ErrInput, nil, f32([]int{1, 2}, 1, 2)),
	})
}

// TestMicrosoftAttention has values that tell which keys had weight: all of one key, or equal
// shares.
func TestMicrosoftAttention(t *testing.T) {
	heads := op.Attrs{op.IntAttr("num_heads", 1)}
	causal := append(op.Attrs{op.IntAttr("unidirectional", 1)}, heads...)
	q, v := f32([]int{1, 2, 1}, 0, 0), f32([]int{1, 2, 1}, 2, 6) // scores of 0: equal shares
	mask := func(v ...int32) *tensor.Tensor { return tensor.From(v, 1, len(v)) }
	groups := op.Attrs{op.IntAttr("num_heads", 2), op.IntAttr("kv_num_heads", 1)}
	lens, total := tensor.From([]int32{1}, 1), tensor.Scalar[int32](2)
	optest.Run(t, []optest.Case{
		microsoft("", "MultiHeadAttention", heads, list(q, q, v), list(f32([]int{1, 2, 1}, 4, 4))),
		microsoft("causal", "MultiHeadAttention", causal, list(q, q, v),
			list(f32([]int{1, 2, 1}, 2, 4))),
		microsoft("mask", "MultiHeadAttention", heads, list(q, q, v, nil, mask(0, 1)),
			list(f32([]int{1, 2, 1}, 6, 6))),
		microsoft("ends", "MultiHeadAttention", heads,
			list(q, q, v, nil, tensor.From([]int32{1}, 1)), list(f32([]int{1, 2, 1}, 2, 2))),
		microsoft("bias", "MultiHeadAttention", heads, list(q, q, v, vec(0, 0, 1)),
			list(f32([]int{1, 2, 1}, 5, 5))),
		microsoft("cache", "MultiHeadAttention", heads,
			list(q, q, v, nil, nil, nil, f32([]int{1, 1, 1, 1}, 0), f32([]int{1, 1, 1, 1}, 1)),
			list(f32([]int{1, 2, 1}, 3, 3), f32([]int{1, 1, 3, 1}, 0, 0, 0),
				f32([]int{1, 1, 3, 1}, 1, 2, 6))),
		refuses("half a cache", "MultiHeadAttention", op.ErrInput, heads, q, q, v, nil, nil, nil,
			f32([]int{1, 1, 1, 1}, 0)),
		refuses("no heads", "MultiHeadAttention", op.ErrAttr, nil, q, q, v),
		microsoft("", "Attention", heads,
			list(f32([]int{1, 2, 1}, 2, 6), f32([]int{1, 3}, 0, 0, 1), vec(0, 0, 1)),
			list(f32([]int{1, 2, 1}, 5, 5))),
		refuses("rotary", "Attention", op.ErrUnsupported,
			append(op.Attrs{op.IntAttr("do_rotary", 1)}, heads...), q, f32([]int{1, 3}, 0, 0, 1),
			vec(0, 0, 0)),
		refuses("columns", "Attention", op.ErrInput, heads, q, f32([]int{1, 2}, 0, 1), vec(0, 0)),
		microsoft("", "GroupQueryAttention", groups,
			list(f32([]int{1, 2, 2}, 0, 0, 0, 0), q, v, nil, nil, lens, total),
			list(f32([]int{1, 2, 2}, 2, 2, 4, 4),
				f32([]int{1, 1, 2, 1}, 0, 0), f32([]int{1, 1, 2, 1}, 2, 6))),
		microsoft("sink", "GroupQueryAttention",
			append(op.Attrs{op.IntAttr("smooth_softmax", 1)}, groups...),
			list(f32([]int{1, 2, 2}, 0, 0, 0, 0), q, v, nil, nil, lens, total),
			list(f32([]int{1, 2, 2}, 1, 1, 8.0/3, 8.0/3))),
		refuses("lengths", "GroupQueryAttention", op.ErrInput, groups,
			f32([]int{1, 2, 2}, 0, 0, 0, 0), q, v, nil, nil, tensor.From([]int32{7}, 1), total),
		microsoft("", "RotaryEmbedding", nil,
			list(f32([]int{1, 1, 2}, 3, 4), i64(1), f32([]int{2, 1}, 1, 0), f32([]int{2, 1}, 0, 1)),
			list(f32([]int{1, 1, 2}, -4, 3))),
		microsoft("a place each", "RotaryEmbedding", nil,
			list(f32([]int{1, 2, 2}, 3, 4, 3, 4), tensor.From([]int64{1, 0}, 1, 2),
				f32([]int{2, 1}, 1, 0), f32([]int{2, 1}, 0, 1)),
			list(f32([]int{1, 2, 2}, -4, 3, 3, 4))),
		microsoft("from the first place on", "RotaryEmbedding", nil,
			list(f32([]int{1, 2, 2}, 3, 4, 3, 4), i64(1), f32([]int{3, 1}, 1, 0, -1),
				f32([]int{3, 1}, 0, 1, 0)),
			list(f32([]int{1, 2, 2}, -4, 3, -3, -4))),
	})
}

// TestGroupedLengths holds which lengths and caches fit each other: two entries of one or two new
// keys behind a cache of three.
func TestGroupedLengths(t *testing.T) {
	attrs := op.Attrs{op.IntAttr("num_heads", 1), op.IntAttr("kv_num_heads", 1)}
	for _, tc := range []struct {
		name   string
		length int
		lens   []int32
		total  int32
		cache  [2][]int
		fits   bool
	}{
		{"first", 2, []int32{1, 0}, 2, [2][]int{}, true},
		{"none", 2, []int32{1, -1}, 2, [2][]int{}, false},
		{"as long as all", 2, []int32{1, 2}, 2, [2][]int{}, false},
		{"too few lengths", 2, []int32{1}, 2, [2][]int{}, false},
		{"shorter than the queries", 2, []int32{0, 0}, 1, [2][]int{}, false},
		{"behind a cache", 1, []int32{3, 0}, 4, [2][]int{{2, 1, 3, 1}, {2, 1, 3, 1}}, true},
		{"behind more than the cache", 1, []int32{4, 0}, 5, [2][]int{{2, 1, 3, 1}, {2, 1, 3, 1}},
			false},
		{"fewer keys than are new", 2, []int32{3, 0}, 4, [2][]int{{2, 1, 3, 1}, {2, 1, 3, 1}},
			false},
		{"as many keys as are new", 2, []int32{3, 1}, 4, [2][]int{{2, 1, 3, 1}, {2, 1, 3, 1}},
			true},
		{"of another batch", 1, []int32{3, 0}, 4, [2][]int{{1, 1, 3, 1}, {1, 1, 3, 1}}, false},
		{"of other heads", 1, []int32{3, 0}, 4, [2][]int{{2, 2, 3, 1}, {2, 2, 3, 1}}, false},
		{"of another size", 1, []int32{3, 0}, 4, [2][]int{{2, 1, 3, 2}, {2, 1, 3, 2}}, false},
		{"of three axes", 1, []int32{3, 0}, 4, [2][]int{{2, 3, 1}, {2, 3, 1}}, false},
		{"that differ", 1, []int32{3, 0}, 4, [2][]int{{2, 1, 3, 1}, {2, 1, 4, 1}}, false},
	} {
		zeros := func(shape ...int) *tensor.Tensor {
			n, _ := tensor.Count(shape)
			return f32(shape, make([]float32, n)...)
		}
		x := zeros(2, tc.length, 1)
		in := list(x, x, x, nil, nil, tensor.From(tc.lens, len(tc.lens)), tensor.Scalar(tc.total))
		for i, shape := range tc.cache {
			if shape != nil {
				in[3+i] = zeros(shape...)
			}
		}
		call := &op.Call{Domain: Domain, Type: "GroupQueryAttention", Version: 1, Attrs: attrs,
			NumIn: len(in), NumOut: 3}
		_, err := optest.Eval(t, call, in)
		if tc.fits && err != nil || !tc.fits && !errors.Is(err, op.ErrInput) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestMicrosoftIntegers(t *testing.T) {
	packed := tensor.From([]uint8{0xa9, 0, 0, 0, 0, 0, 0, 0}, 1, 1, 8) // 9, 10, zeros
	layout := op.Attrs{op.IntAttr("K", 2), op.IntAttr("N", 1), op.IntAttr("block_size", 16)}
	a := f32([]int{1, 2}, 10, 100)
	two := one32(2)
	optest.Run(t, []optest.Case{
		microsoft("", "MatMulNBits", layout, list(a, packed, f32([]int{1, 1}, 0.5)),
			list(f32([]int{1, 1}, 105))),
		microsoft("zero point", "MatMulNBits", layout,
			list(a, packed, f32([]int{1, 1}, 0.5), tensor.From([]uint8{9}, 1, 1)),
			list(f32([]int{1, 1}, 50))),
		microsoft("zero point of floats", "MatMulNBits", layout,
			list(a, packed, f32([]int{1, 1}, 0.5), f32([]int{1, 1}, 9.5)),
			list(f32([]int{1, 1}, 22.5))),
		microsoft("bias", "MatMulNBits", layout,
			list(a, packed, f32([]int{1, 1}, 0.5), nil, tensor.From([]int32{0, 0}, 2), vec(1)),
			list(f32([]int{1, 1}, 106))),
		refuses("group", "MatMulNBits", op.ErrInput, layout, a, packed, f32([]int{1, 1}, 0.5), nil,
			tensor.From([]int32{0, 1}, 2)),
		refuses("bits", "MatMulNBits", op.ErrUnsupported,
			append(op.Attrs{op.IntAttr("bits", 3)}, layout...), a, packed, f32([]int{1, 1}, 0.5)),
		refuses("block", "MatMulNBits", op.ErrAttr,
			op.Attrs{op.IntAttr("K", 2), op.IntAttr("N", 1), op.IntAttr("block_size", 17)}, a,
			packed, f32([]int{1, 1}, 0.5)),
		refuses("vast", "MatMulNBits", op.ErrInput,
			op.Attrs{op.IntAttr("K", 1<<30), op.IntAttr("N", 1<<30), op.IntAttr("block_size", 16)},
			a, packed, f32([]int{1, 1}, 0.5)),
		microsoft("", "QLinearAdd", nil,
			list(bytes8(1, 2), two, zero8(0), bytes8(5), one32(1), zero8(1), one32(4), zero8(10)),
			list(bytes8(12, 12))),
		microsoft("no zero points", "QLinearMul", nil,
			list(bytes8(3, 200), one32(1), nil, bytes8(2), one32(1), nil, one32(2)),
			list(bytes8(3, 200))),
		microsoft("", "QLinearConcat", op.Attrs{op.IntAttr("axis", 0)},
			list(one32(1), zero8(0), bytes8(3), two, zero8(1), bytes8(7), one32(1), zero8(0)),
			list(bytes8(4, 7))),
		refuses("no triples", "QLinearConcat", op.ErrInput, op.Attrs{op.IntAttr("axis", 0)},
			one32(1), zero8(0), bytes8(3), two),
		refuses("scale of two", "QLinearSigmoid", op.ErrInput, nil, bytes8(1), vec(1, 2), zero8(0),
			one32(1)),
		microsoft("", "QGemm", op.Attrs{op.FloatAttr("alpha", 2)},
			list(tensor.From([]uint8{3}, 1, 1), two, zero8(1), tensor.From([]uint8{5}, 1, 1),
				one32(1), zero8(0), tensor.From([]int32{1}, 1)), list(f32([]int{1, 1}, 44))),
		microsoft("bytes", "QGemm", nil,
			list(tensor.From([]uint8{3}, 1, 1), two, zero8(1), tensor.From([]uint8{5, 10}, 1, 2),
				one32(1), zero8(0), nil, one32(8), zero8(7)),
			list(tensor.From([]uint8{9, 12}, 1, 2))), // 2.5 and 5 steps
		microsoft("", "QLinearConv", nil,
			list(tensor.From([]uint8{1, 9, 5}, 1, 1, 3), two, zero8(1),
				tensor.From([]uint8{3}, 1, 1, 1), one32(1), zero8(0), one32(8), zero8(7),
				tensor.From([]int32{1}, 1)),
			list(tensor.From([]uint8{7, 13, 10}, 1, 1, 3))), // 1/4, 25/4 and 13/4 steps
		microsoft("channels last", "QLinearConv", op.Attrs{op.IntAttr("channels_last", 1)},
			list(tensor.From([]uint8{1, 9, 5, 2}, 1, 2, 2), two, zero8(1),
				tensor.From([]uint8{1, 2}, 1, 2, 1), one32(1), zero8(0), one32(4), zero8(7)),
			list(tensor.From([]uint8{15, 10}, 1, 2, 1))),
		microsoft("", "DynamicQuantizeMatMul", nil,
			list(f32([]int{1, 2}, 255, 3), tensor.From([]uint8{5, 2}, 2, 1), two, zero8(1),
				vec(0.5)), list(f32([]int{1, 1}, 2046.5))),
		microsoft("", "MatMulIntegerToFloat", nil,
			list(tensor.From([]uint8{3}, 1, 1), tensor.From([]uint8{5}, 1, 1), two, one32(1),
				zero8(1), nil, vec(0.5)), list(f32([]int{1, 1}, 20.5))),
		microsoft("wraps", "MatMulInteger16", nil,
			list(tensor.From([]int16{-2}, 1, 1), tensor.From([]int16{300}, 1, 1)),
			list(tensor.From([]int32{-600}, 1, 1))),
		refuses("types", "MatMulInteger16", op.ErrInput, nil, f32([]int{1, 1}, 1),
			f32([]int{1, 1}, 1)),
		microsoft("", "NhwcMaxPool", op.Attrs{op.IntsAttr("kernel_shape", 2)},
			list(tensor.From([]uint8{1, 9, 5, 2}, 1, 2, 2)),
			list(tensor.From([]uint8{5, 9}, 1, 1, 2))),
	})
}

// TestMicrosoftBytes states the operators between bytes in numbers, most of which lie in the middle
// of two steps and become the even one.
func TestMicrosoftBytes(t *testing.T) {
	half, one, none := one32(0.5), one32(1), zero8(0)
	odd := bytes8(1, 3, 5, 7) // halves, of which 0, 2, 2 and 4 are the nearest even numbers
	even := bytes8(0, 2, 2, 4)
	rows := func(v *tensor.Tensor, shape ...int) *tensor.Tensor {
		return tensor.From(v.Data, shape...)
	}
	optest.Run(t, []optest.Case{
		microsoft("", "QLinearAdd", nil, list(odd, half, none, none, one, none, one, none),
			list(even)),
		microsoft("", "QLinearMul", nil,
			list(odd, half, none, bytes8(1), one, none, one, none), list(even)),
		microsoft("", "QLinearConcat", op.Attrs{op.IntAttr("axis", 0)},
			list(one, none, odd, half, none, bytes8(11), half, none),
			list(bytes8(0, 2, 2, 4, 6))),
		microsoft("", "QLinearWhere", nil,
			list(tensor.From([]bool{true, false, true, false}, 4), odd, half, none, odd, half,
				zero8(2), one, zero8(10)), list(bytes8(10, 10, 12, 12))),
		microsoft("", "QLinearLeakyRelu", op.Attrs{op.FloatAttr("alpha", 0.25)},
			list(tensor.From([]int8{1, 3, -4, -12}, 4), half, nil, one, nil),
			list(tensor.From([]int8{0, 2, 0, -2}, 4))),
		microsoft("", "QLinearSigmoid", nil, list(bytes8(128, 0, 255), one, zero8(128),
			one32(1./128), zero8(3)), list(bytes8(67, 3, 131))),
		microsoft("half a step", "QLinearSigmoid", nil, list(none, one, none, one, zero8(3)),
			list(zero8(3))),
		microsoft("", "QLinearSoftmax", nil, list(rows(bytes8(9, 9, 9, 9), 1, 4), one, none,
			one32(1./256), none), list(rows(bytes8(64, 64, 64, 64), 1, 4))),
		microsoft("half a step", "QLinearSoftmax", nil,
			list(rows(bytes8(9, 9), 1, 2), one, none, one, zero8(3)),
			list(rows(bytes8(3, 3), 1, 2))),
		microsoft("", "QLinearAveragePool", op.Attrs{op.IntsAttr("kernel_shape", 2)},
			list(rows(bytes8(0, 1, 2, 3), 1, 1, 4), one, none, one, none),
			list(rows(bytes8(0, 2, 2), 1, 1, 3))),
		microsoft("", "QLinearGlobalAveragePool", nil,
			list(rows(bytes8(0, 1, 2, 3), 1, 2, 2), one, none, one, none),
			list(rows(bytes8(0, 2), 1, 2, 1))),
		microsoft("", "QLinearReduceMean", op.Attrs{op.IntsAttr("axes", 1)},
			list(rows(bytes8(0, 1, 2, 3), 2, 2), one, none, one, none),
			list(rows(bytes8(0, 2), 2, 1))),
	})
}

// TestExpansionsAreWhole checks that an expansion names each value once, before it is read.
func TestExpansionsAreWhole(t *testing.T) {
	q := op.Concrete(tensor.Float32, 2, 3, 4)
	call := &op.Call{Domain: Domain, Type: "MultiHeadAttention", Version: 1, NumIn: 3,
		NumOut: 1,
		Attrs:  op.Attrs{op.IntAttr("num_heads", 2), op.IntAttr("unidirectional", 1)}}
	for _, opset := range []int{0, 13, 17, 20} {
		e, ok, err := optest.Row(t, call).Expand(call, list(q, q, q), list(true, true, true), opset)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		known := map[int]bool{-1: true, 0: true, 1: true, 2: true}
		for v := range e.Consts {
			known[v] = true
		}
		for _, s := range e.Steps {
			for _, v := range s.In {
				if !known[v] {
					t.Errorf("opset %d: %s reads value %d before it is there", opset, s.Call.Type,
						v)
				}
			}
			for _, v := range s.Out {
				if known[v] {
					t.Errorf("opset %d: value %d is computed twice", opset, v)
				}
				known[v] = true
			}
			if opset > 0 && s.Call.Version != opset {
				t.Errorf("opset %d: %s has version %d", opset, s.Call.Type, s.Call.Version)
			}
		}
		if !known[e.Out[0]] {
			t.Errorf("opset %d: the output is not computed", opset)
		}
	}
	if _, ok, err := optest.Row(t, call).Expand(call, make([]op.Type, 3), list(true, true, true),
		0); ok || err != nil {
		t.Errorf("of nothing: %v, %v", ok, err)
	}
}

// TestRoundToBytes holds that the operands of DynamicQuantizeLSTM are rounded to even.
func TestRoundToBytes(t *testing.T) {
	v := []float64{0, 255, 0.5, 1.5, 2.5, 2.6}
	roundToBytes(v)
	if want := []float64{0, 255, 0, 2, 2, 3}; !slices.Equal(v, want) {
		t.Errorf("got %v, want %v", v, want)
	}
}

// TestDynamicLSTM writes out two steps of DynamicQuantizeLSTM whose gates see, but for the one of
// the cell, nothing, and so are one half. The scale that just holds X moves the number of the
// second by 0.3 of its steps.
func TestDynamicLSTM(t *testing.T) {
	const step = 2.0 / 255
	x := f32([]int{2, 1, 2}, 2, 0, 100.3*step, 0)
	weights := func(rows int) *tensor.Tensor { // of the cell's gate and the first row: 3 less 1
		w := make([]uint8, rows*4)
		for i := range w {
			w[i] = 1
		}
		w[3] = 3
		return tensor.From(w, 1, rows, 4)
	}
	var c, h float64
	var y []float32
	for _, v := range []float64{255 * step, 100 * step} {
		c = (c + math.Tanh(v+h)) / 2 // a state of one element is on its scale
		h = math.Tanh(c) / 2
		y = append(y, float32(h))
	}
	half, one := vec(0.5), tensor.From([]uint8{1}, 1)
	optest.Run(t, []optest.Case{microsoft("", "DynamicQuantizeLSTM",
		op.Attrs{op.IntAttr("hidden_size", 1)},
		list(x, weights(2), weights(1), nil, nil, nil, nil, nil, half, one, half, one),
		list(f32([]int{2, 1, 1, 1}, y...), f32([]int{1, 1, 1}, y[1]),
			f32([]int{1, 1, 1}, float32(c))))})
}
