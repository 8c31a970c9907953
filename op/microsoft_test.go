package op

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// microsoft is a case of an operator of the domain.
func microsoft(name, op string, attrs Attrs, in, want []*tensor.Tensor) evalCase {
	return evalCase{name: name, domain: MicrosoftDomain, op: op, version: 1, attrs: attrs, in: in,
		want: want}
}

// refuses is a case that ends in an error of that kind.
func refuses(name, op string, kind error, attrs Attrs, in ...*tensor.Tensor) evalCase {
	return evalCase{name: name, domain: MicrosoftDomain, op: op, version: 1, attrs: attrs, in: in,
		err: kind}
}

func bytes8(v ...uint8) *tensor.Tensor { return tensor.From(v, len(v)) }

func one32(v float32) *tensor.Tensor { return tensor.Scalar(v) }

func zero8(v uint8) *tensor.Tensor { return tensor.Scalar(v) }

func TestMicrosoftFloat(t *testing.T) {
	e := float32(math.E)
	runCases(t, []evalCase{
		microsoft("", "QuickGelu", Attrs{FloatAttr("alpha", 0)}, list(vec(2, -4)),
			list(vec(1, -2))),
		microsoft("", "BiasGelu", nil, list(f32([]int{1, 2}, -1, 3), vec(1, -3)),
			list(f32([]int{1, 2}, 0, 0))),
		refuses("bias of another length", "BiasGelu", ErrInput, nil, f32([]int{1, 2}, 1, 2),
			vec(1, 2, 3)),
		microsoft("", "BiasAdd", nil,
			list(f32([]int{1, 1, 2}, 1, 2), vec(10, 20), f32([]int{1, 1, 2}, 100, 200)),
			list(f32([]int{1, 1, 2}, 111, 222))),
		microsoft("", "BiasSoftmax", Attrs{IntAttr("axis", 1)},
			list(f32([]int{1, 2}, 0, 0), vec(1, 0)), list(f32([]int{1, 2}, e/(e+1), 1/(e+1)))),
		microsoft("all from axis on", "BiasSoftmax", Attrs{IntAttr("axis", 0)},
			list(f32([]int{2, 2}, 1, 1, 1, 1), vec(0, 0)),
			list(f32([]int{2, 2}, 0.25, 0.25, 0.25, 0.25))),
		refuses("axis", "BiasSoftmax", ErrAttr, Attrs{IntAttr("axis", 2)}, vec(1, 2), vec(1, 2)),
		microsoft("", "FusedMatMul", Attrs{IntAttr("transA", 1), FloatAttr("alpha", 2)},
			list(f32([]int{2, 1}, 1, 2), f32([]int{2, 1}, 3, 4)),
			list(f32([]int{1, 1}, 22))),
		microsoft("first axis before the last", "FusedMatMul", Attrs{IntAttr("transBatchA", 1)},
			list(f32([]int{1, 2, 1}, 1, 2), f32([]int{2, 1, 1}, 3, 4)),
			list(f32([]int{2, 1, 1}, 3, 8))),
		microsoft("", "FusedGemm", Attrs{StringAttr("activation", "Relu")},
			list(f32([]int{1, 1}, 2), f32([]int{1, 2}, 3, -3), vec(1, 1)),
			list(f32([]int{1, 2}, 7, 0))),
		refuses("activation", "FusedGemm", ErrUnsupported, Attrs{StringAttr("activation", "Gelu")},
			f32([]int{1, 1}, 2), f32([]int{1, 1}, 3)),
		microsoft("", "FusedConv",
			Attrs{StringAttr("activation", "Clip"), FloatsAttr("activation_params", 0, 5)},
			list(f32([]int{1, 1, 3}, -1, 1, 4), f32([]int{1, 1, 1}, 2), vec(1),
				f32([]int{1, 1, 3}, 0, 1, 0)), list(f32([]int{1, 1, 3}, 0, 4, 5))),
		refuses("too many parameters", "FusedConv", ErrAttr,
			Attrs{StringAttr("activation", "Relu"), FloatsAttr("activation_params", 1)},
			f32([]int{1, 1, 1}, 1), f32([]int{1, 1, 1}, 2)),
		microsoft("", "SimplifiedLayerNormalization", Attrs{FloatAttr("epsilon", 0)},
			list(f32([]int{1, 2}, 3, -3), vec(2, 4)),
			list(f32([]int{1, 2}, 2, -4), f32([]int{1, 1}, 1.0/3))),
		microsoft("", "SkipLayerNormalization", Attrs{FloatAttr("epsilon", 0)},
			list(f32([]int{1, 1, 2}, 1, 0), f32([]int{1, 2}, 1, 0), vec(1, 1), vec(0, 5),
				vec(2, 0)),
			list(f32([]int{1, 1, 2}, 1, 4), f32([]int{1, 1, 1}, 2), f32([]int{1, 1, 1}, 0.5),
				f32([]int{1, 1, 2}, 4, 0))),
		refuses("rank", "SkipLayerNormalization", ErrInput, nil, vec(1, 2), vec(1, 2), vec(1, 1)),
		microsoft("", "Inverse", nil, list(f32([]int{2, 2}, 0, 2, 1, 0)),
			list(f32([]int{2, 2}, 0, 1, 0.5, 0))),
		refuses("singular", "Inverse", ErrInput, nil, f32([]int{2, 2}, 1, 2, 2, 4)),
		refuses("no square", "Inverse", ErrInput, nil, f32([]int{1, 2}, 1, 2)),
	})
}

// TestMicrosoftAttention has values that tell which keys had weight: all of one key, or equal
// shares.
func TestMicrosoftAttention(t *testing.T) {
	heads := Attrs{IntAttr("num_heads", 1)}
	causal := append(Attrs{IntAttr("unidirectional", 1)}, heads...)
	q, v := f32([]int{1, 2, 1}, 0, 0), f32([]int{1, 2, 1}, 2, 6) // scores of 0: equal shares
	mask := func(v ...int32) *tensor.Tensor { return tensor.From(v, 1, len(v)) }
	groups := Attrs{IntAttr("num_heads", 2), IntAttr("kv_num_heads", 1)}
	lens, total := tensor.From([]int32{1}, 1), tensor.Scalar[int32](2)
	runCases(t, []evalCase{
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
		refuses("half a cache", "MultiHeadAttention", ErrInput, heads, q, q, v, nil, nil, nil,
			f32([]int{1, 1, 1, 1}, 0)),
		refuses("no heads", "MultiHeadAttention", ErrAttr, nil, q, q, v),
		microsoft("", "Attention", heads,
			list(f32([]int{1, 2, 1}, 2, 6), f32([]int{1, 3}, 0, 0, 1), vec(0, 0, 1)),
			list(f32([]int{1, 2, 1}, 5, 5))),
		refuses("rotary", "Attention", ErrUnsupported,
			append(Attrs{IntAttr("do_rotary", 1)}, heads...), q, f32([]int{1, 3}, 0, 0, 1),
			vec(0, 0, 0)),
		refuses("columns", "Attention", ErrInput, heads, q, f32([]int{1, 2}, 0, 1), vec(0, 0)),
		microsoft("", "GroupQueryAttention", groups,
			list(f32([]int{1, 2, 2}, 0, 0, 0, 0), q, v, nil, nil, lens, total),
			list(f32([]int{1, 2, 2}, 2, 2, 4, 4),
				f32([]int{1, 1, 2, 1}, 0, 0), f32([]int{1, 1, 2, 1}, 2, 6))),
		microsoft("sink", "GroupQueryAttention",
			append(Attrs{IntAttr("smooth_softmax", 1)}, groups...),
			list(f32([]int{1, 2, 2}, 0, 0, 0, 0), q, v, nil, nil, lens, total),
			list(f32([]int{1, 2, 2}, 1, 1, 8.0/3, 8.0/3))),
		refuses("lengths", "GroupQueryAttention", ErrInput, groups, f32([]int{1, 2, 2}, 0, 0, 0, 0),
			q, v, nil, nil, tensor.From([]int32{7}, 1), total),
		microsoft("", "RotaryEmbedding", nil,
			list(f32([]int{1, 1, 2}, 3, 4), i64(1), f32([]int{2, 1}, 1, 0), f32([]int{2, 1}, 0, 1)),
			list(f32([]int{1, 1, 2}, -4, 3))),
	})
}

func TestMicrosoftIntegers(t *testing.T) {
	packed := tensor.From([]uint8{0xa9, 0, 0, 0, 0, 0, 0, 0}, 1, 1, 8) // 9, 10, zeros
	layout := Attrs{IntAttr("K", 2), IntAttr("N", 1), IntAttr("block_size", 16)}
	a := f32([]int{1, 2}, 10, 100)
	two := one32(2)
	runCases(t, []evalCase{
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
		refuses("group", "MatMulNBits", ErrInput, layout, a, packed, f32([]int{1, 1}, 0.5), nil,
			tensor.From([]int32{0, 1}, 2)),
		refuses("bits", "MatMulNBits", ErrUnsupported, append(Attrs{IntAttr("bits", 3)}, layout...),
			a, packed, f32([]int{1, 1}, 0.5)),
		refuses("block", "MatMulNBits", ErrAttr,
			Attrs{IntAttr("K", 2), IntAttr("N", 1), IntAttr("block_size", 17)}, a, packed,
			f32([]int{1, 1}, 0.5)),
		refuses("vast", "MatMulNBits", ErrInput,
			Attrs{IntAttr("K", 1<<30), IntAttr("N", 1<<30), IntAttr("block_size", 16)}, a, packed,
			f32([]int{1, 1}, 0.5)),
		microsoft("", "QLinearAdd", nil,
			list(bytes8(1, 2), two, zero8(0), bytes8(5), one32(1), zero8(1), one32(4), zero8(10)),
			list(bytes8(12, 12))),
		microsoft("no zero points", "QLinearMul", nil,
			list(bytes8(3, 200), one32(1), nil, bytes8(2), one32(1), nil, one32(2)),
			list(bytes8(3, 200))),
		microsoft("", "QLinearConcat", Attrs{IntAttr("axis", 0)},
			list(one32(1), zero8(0), bytes8(3), two, zero8(1), bytes8(7), one32(1), zero8(0)),
			list(bytes8(4, 7))),
		refuses("no triples", "QLinearConcat", ErrInput, Attrs{IntAttr("axis", 0)}, one32(1),
			zero8(0), bytes8(3), two),
		refuses("scale of two", "QLinearSigmoid", ErrInput, nil, bytes8(1), vec(1, 2), zero8(0),
			one32(1)),
		microsoft("", "QGemm", Attrs{FloatAttr("alpha", 2)},
			list(tensor.From([]uint8{3}, 1, 1), two, zero8(1), tensor.From([]uint8{5}, 1, 1),
				one32(1), zero8(0),
				tensor.From([]int32{1}, 1)), list(f32([]int{1, 1}, 44))),
		microsoft("", "MatMulIntegerToFloat", nil,
			list(tensor.From([]uint8{3}, 1, 1), tensor.From([]uint8{5}, 1, 1), two, one32(1),
				zero8(1), nil, vec(0.5)), list(f32([]int{1, 1}, 20.5))),
		microsoft("wraps", "MatMulInteger16", nil,
			list(tensor.From([]int16{-2}, 1, 1), tensor.From([]int16{300}, 1, 1)),
			list(tensor.From([]int32{-600}, 1, 1))),
		refuses("types", "MatMulInteger16", ErrInput, nil, f32([]int{1, 1}, 1),
			f32([]int{1, 1}, 1)),
		microsoft("", "NhwcMaxPool", Attrs{IntsAttr("kernel_shape", 2)},
			list(tensor.From([]uint8{1, 9, 5, 2}, 1, 2, 2)),
			list(tensor.From([]uint8{5, 9}, 1, 1, 2))),
	})
}

// TestExpansionsAreWhole checks that an expansion names each value once, before it is read.
func TestExpansionsAreWhole(t *testing.T) {
	q := Concrete(tensor.Float32, 2, 3, 4)
	call := &Call{Domain: MicrosoftDomain, Type: "MultiHeadAttention", Version: 1, NumIn: 3,
		NumOut: 1,
		Attrs:  Attrs{IntAttr("num_heads", 2), IntAttr("unidirectional", 1)}}
	for _, opset := range []int{0, 13, 17, 20} {
		e, ok, err := row(t, call).Expand(call, list(q, q, q), list(true, true, true), opset)
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
	if _, ok, err := row(t, call).Expand(call, make([]Type, 3), list(true, true, true), 0); ok || err != nil {
		t.Errorf("of nothing: %v, %v", ok, err)
	}
}
