package op

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// codes makes a tensor of elements of at most 8 bits.
func codes(d tensor.DType, v ...uint8) *tensor.Tensor { return tensor.FromCodes(d, v, len(v)) }

func TestCastToSmallTypes(t *testing.T) {
	to := func(d tensor.DType, more ...Attr) Attrs {
		return append(Attrs{IntAttr("to", int64(d))}, more...)
	}
	keep, up, down, nearest := IntAttr("saturate", 0), StringAttr("round_mode", "up"),
		StringAttr("round_mode", "down"), StringAttr("round_mode", "nearest")
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	f := func(v ...float32) *tensor.Tensor { return tensor.From(v, len(v)) }
	runCases(t, []evalCase{
		{op: "Cast", name: "e4m3fn", attrs: to(tensor.Float8E4M3FN),
			in:   list(f(1, -0.0625, 464, 1e6, -inf, nan)),
			want: list(codes(tensor.Float8E4M3FN, 0x38, 0x98, 0x7e, 0x7e, 0xfe, 0x7f))},
		{op: "Cast", name: "e4m3fn, no saturation", attrs: to(tensor.Float8E4M3FN, keep),
			in: list(f(464, 465, inf)), want: list(codes(tensor.Float8E4M3FN, 0x7e, 0x7f, 0x7f))},
		{op: "Cast", name: "e5m2, no saturation", attrs: to(tensor.Float8E5M2, keep),
			in:   list(f(61439, 61440, -inf)),
			want: list(codes(tensor.Float8E5M2, 0x7b, 0x7c, 0xfc))},
		{op: "Cast", name: "fnuz zero", attrs: to(tensor.Float8E4M3FNUZ),
			in:   list(f(float32(math.Copysign(0, -1)), -1e-9, 240)),
			want: list(codes(tensor.Float8E4M3FNUZ, 0, 0, 0x7f))},
		{op: "Cast", name: "e8m0 is up by default", attrs: to(tensor.Float8E8M0),
			in: list(f(1, 1.1, 0, inf)), want: list(codes(tensor.Float8E8M0, 127, 128, 0, 254))},
		{op: "Cast", name: "e8m0 down", attrs: to(tensor.Float8E8M0, down), in: list(f(1.9)),
			want: list(codes(tensor.Float8E8M0, 127))},
		{op: "Cast", name: "e8m0 nearest", attrs: to(tensor.Float8E8M0, nearest, keep),
			in:   list(f(1.4, 1.5, 0, inf)),
			want: list(codes(tensor.Float8E8M0, 127, 128, 255, 255))},
		{op: "Cast", name: "e8m0 of int64", attrs: to(tensor.Float8E8M0, up),
			in: list(i64(1<<60, 1<<60+1, 3)), want: list(codes(tensor.Float8E8M0, 187, 188, 129))},
		{op: "Cast", name: "no such rounding",
			attrs: to(tensor.Float8E8M0, StringAttr("round_mode", "sideways")), in: list(f(1)),
			err: ErrAttr},
		{op: "Cast", name: "e2m1", attrs: to(tensor.Float4E2M1, keep),
			in:   list(f(0.48, 0.25, -3.5, 9, -inf)),
			want: list(codes(tensor.Float4E2M1, 1, 0, 14, 7, 15))},
		{op: "Cast", name: "double rounds once", attrs: to(tensor.Float8E4M3FN),
			in:   list(tensor.From(list(1.0625+0x1p-50, 1.0625), 2)),
			want: list(codes(tensor.Float8E4M3FN, 0x39, 0x38))},
		{op: "Cast", name: "int4 keeps low bits", attrs: to(tensor.Int4),
			in:   list(f(-9.9, 8, 7, -8, 1e30, nan)),
			want: list(codes(tensor.Int4, 7, 8, 7, 8, 0, 0))},
		{op: "Cast", name: "int64 to uint2", attrs: to(tensor.Uint2), in: list(i64(5, -1, 2, 3, 4)),
			want: list(codes(tensor.Uint2, 1, 3, 2, 3, 0))},
		{op: "Cast", name: "int4 to int2", attrs: to(tensor.Int2),
			in: list(codes(tensor.Int4, 7, 8, 13)), want: list(codes(tensor.Int2, 3, 0, 1))},
		{op: "Cast", name: "int4 to int8", attrs: to(tensor.Int8),
			in:   list(codes(tensor.Int4, 7, 8, 15)),
			want: list(tensor.From(list[int8](7, -8, -1), 3))},
		{op: "Cast", name: "uint4 to e5m2", attrs: to(tensor.Float8E5M2),
			in: list(codes(tensor.Uint4, 15, 1)), want: list(codes(tensor.Float8E5M2, 0x4c, 0x3c))},
		{op: "Cast", name: "float8 to bool", attrs: to(tensor.Bool),
			in:   list(codes(tensor.Float8E5M2, 0, 0x80, 1)),
			want: list(tensor.From(list(false, false, true), 3))},
		{op: "Cast", name: "e5m2 to string", attrs: to(tensor.String),
			in:   list(codes(tensor.Float8E5M2, 0x3e, 0x7c)),
			want: list(tensor.FromStrings(list("1.5", "INF"), 2))},
		{op: "Cast", name: "string to int4", attrs: to(tensor.Int4),
			in: list(tensor.FromStrings(list("-8", "7"), 2)), want: list(codes(tensor.Int4, 8, 7))},
		{op: "Cast", name: "same", attrs: to(tensor.Int4), in: list(codes(tensor.Int4, 1, 2, 3)),
			want: list(codes(tensor.Int4, 1, 2, 3))},
		{op: "CastLike", name: "no saturation", attrs: Attrs{keep},
			in:   list(f(1e6), codes(tensor.Float8E4M3FN)),
			want: list(codes(tensor.Float8E4M3FN, 0x7f))},
		{op: "BitCast", name: "int4", version: 26, attrs: to(tensor.Uint4),
			in: list(codes(tensor.Int4, 15, 1, 8)), want: list(codes(tensor.Uint4, 15, 1, 8))},
		{op: "BitCast", name: "float8", version: 26, attrs: to(tensor.Uint8),
			in:   list(codes(tensor.Float8E8M0, 15, 200)),
			want: list(tensor.From(list[uint8](15, 200), 2))},
		{op: "BitCast", name: "complex", version: 26, attrs: to(tensor.Float64),
			in: list(tensor.From(list[complex64](0), 1)), want: list(tensor.From(list(0.0), 1))},
		{op: "BitCast", name: "widths", version: 26, attrs: to(tensor.Uint8),
			in: list(codes(tensor.Int4, 15, 1)), err: ErrInput},
		{op: "BitCast", name: "strings", version: 26, attrs: to(tensor.String),
			in: list(tensor.FromStrings(list("a"), 1)), err: ErrInput},
	})
}

// Operators that move elements move packed ones, whose neighbours share bytes.
func TestMovementOfPackedElements(t *testing.T) {
	seven := codes(tensor.Int4, 1, 2, 3, 4, 5, 6, 7)
	grid := tensor.FromCodes(tensor.Uint2, []uint8{0, 1, 2, 3, 0, 1}, 2, 3)
	runCases(t, []evalCase{
		{op: "Identity", in: list(seven), want: list(seven)},
		{op: "Transpose", in: list(grid),
			want: list(tensor.FromCodes(tensor.Uint2, []uint8{0, 3, 1, 0, 2, 1}, 3, 2))},
		{op: "Reshape", in: list(grid, i64(3, -1)),
			want: list(tensor.FromCodes(tensor.Uint2, []uint8{0, 1, 2, 3, 0, 1}, 3, 2))},
		{op: "Concat", attrs: Attrs{IntAttr("axis", 0)},
			in:   list(codes(tensor.Int4, 1), codes(tensor.Int4, 2, 3), codes(tensor.Int4, 4)),
			want: list(codes(tensor.Int4, 1, 2, 3, 4))},
		{op: "Gather", in: list(seven, i64(6, 0, -2)), want: list(codes(tensor.Int4, 7, 1, 6))},
		{op: "Slice", in: list(seven, i64(5), i64(0), i64(0), i64(-2)),
			want: list(codes(tensor.Int4, 6, 4, 2))},
		{op: "Split", attrs: Attrs{IntAttr("num_outputs", 2)}, in: list(seven),
			want: list(codes(tensor.Int4, 1, 2, 3, 4), codes(tensor.Int4, 5, 6, 7))},
		{op: "Where", in: list(tensor.From(list(true, false, true), 3),
			codes(tensor.Uint2, 1, 2, 3), codes(tensor.Uint2, 0)),
			want: list(codes(tensor.Uint2, 1, 0, 3))},
		{op: "Pad", in: list(codes(tensor.Int4, 1, 2), i64(1, 2),
			tensor.FromCodes(tensor.Int4, []uint8{9})),
			want: list(codes(tensor.Int4, 9, 1, 2, 9, 9))},
		{op: "Pad", attrs: Attrs{StringAttr("mode", "reflect")},
			in:   list(codes(tensor.Float4E2M1, 1, 2, 3), i64(2, 0)),
			want: list(codes(tensor.Float4E2M1, 3, 2, 1, 2, 3))},
		{op: "Expand", in: list(codes(tensor.Uint4, 5), i64(3)),
			want: list(codes(tensor.Uint4, 5, 5, 5))},
		{op: "Tile", in: list(codes(tensor.Uint4, 5, 6), i64(2)),
			want: list(codes(tensor.Uint4, 5, 6, 5, 6))},
		{op: "ConstantOfShape", attrs: Attrs{TensorAttr("value", codes(tensor.Int4, 0xd))},
			in: list(i64(3)), want: list(codes(tensor.Int4, 0xd, 0xd, 0xd))},
		{op: "Shape", in: list(grid), want: list(i64(2, 3))},
		{op: "Size", in: list(grid), want: list(tensor.Scalar[int64](6))},
		{op: "EyeLike", attrs: Attrs{IntAttr("dtype", int64(tensor.Int4))}, in: list(seq(2, 2)),
			want: list(tensor.FromCodes(tensor.Int4, []uint8{1, 0, 0, 1}, 2, 2))},
		{op: "ScatterElements", in: list(seven, i64(0, 3), codes(tensor.Int4, 9, 10)),
			want: list(codes(tensor.Int4, 9, 2, 3, 10, 5, 6, 7))},
	})
}

func TestQuantizeToSmallTypes(t *testing.T) {
	f := func(v ...float32) *tensor.Tensor { return tensor.From(v, len(v)) }
	h := func(v ...float32) *tensor.Tensor {
		out := make([]tensor.Half, len(v))
		for i := range v {
			out[i] = tensor.HalfOf(v[i])
		}
		return tensor.From(out, len(out))
	}
	s := tensor.Scalar[float32]
	zero := func(d tensor.DType, code uint8) *tensor.Tensor {
		return tensor.FromCodes(d, []uint8{code})
	}
	as := func(d tensor.DType, more ...Attr) Attrs {
		return append(Attrs{IntAttr("output_dtype", int64(d))}, more...)
	}
	blocks := Attrs{IntAttr("axis", 0), IntAttr("block_size", 2)}
	runCases(t, []evalCase{
		{op: "QuantizeLinear", name: "int4",
			in:   list(f(0, 3, -100, 100), s(2), zero(tensor.Int4, 1)),
			want: list(codes(tensor.Int4, 1, 3, 8, 7))},
		{op: "QuantizeLinear", name: "uint2", attrs: as(tensor.Uint2),
			in: list(f(-1, 1, 2, 9), s(1)), want: list(codes(tensor.Uint2, 0, 1, 2, 3))},
		{op: "QuantizeLinear", name: "int2", attrs: as(tensor.Int2),
			in: list(f(-9, -1, 0.5, 9), s(1)), want: list(codes(tensor.Int2, 2, 3, 0, 1))},
		{op: "QuantizeLinear", name: "e4m3fn",
			in:   list(f(0, 1, 2, 100000, 200), s(2), zero(tensor.Float8E4M3FN, 0)),
			want: list(codes(tensor.Float8E4M3FN, 0, 0x30, 0x38, 0x7e, 0x6c))},
		{op: "QuantizeLinear", name: "e4m3fn, no saturation",
			attrs: as(tensor.Float8E4M3FN, IntAttr("saturate", 0)), in: list(f(1e9), s(2)),
			want: list(codes(tensor.Float8E4M3FN, 0x7f))},
		{op: "QuantizeLinear", name: "e2m1 is not rounded to integers",
			attrs: as(tensor.Float4E2M1), in: list(f(0.5, 1.5, 99), s(1)),
			want: list(codes(tensor.Float4E2M1, 1, 3, 7))},
		{op: "QuantizeLinear", name: "scale of float8e8m0", attrs: as(tensor.Int8),
			in:   list(f(6, -8), tensor.FromCodes(tensor.Float8E8M0, []uint8{128})),
			want: list(tensor.From(list[int8](3, -4), 2))},
		{op: "QuantizeLinear", name: "quotient in float16", attrs: as(tensor.Int8),
			in: list(h(1000), h(0.3999)), want: list(tensor.From(list[int8](127), 1))},
		{op: "QuantizeLinear", name: "quotient is rounded to float16 first",
			attrs: as(tensor.Int16), in: list(h(2049), tensor.From(list(tensor.HalfOf(1)), 1)),
			want: list(tensor.From(list[int16](2048), 1))},
		{op: "QuantizeLinear", name: "precision",
			attrs: as(tensor.Int16, IntAttr("precision", int64(tensor.Float16))),
			in:    list(f(2049), s(1)), want: list(tensor.From(list[int16](2048), 1))},
		{op: "QuantizeLinear", name: "no such precision",
			attrs: Attrs{IntAttr("precision", int64(tensor.Uint8))}, in: list(f(1), s(1)),
			err: ErrAttr},
		{op: "QuantizeLinear", name: "two types", attrs: as(tensor.Int8),
			in: list(f(1), s(1), zero(tensor.Int4, 0)), err: ErrInput},
		{op: "QuantizeLinear", name: "blocks", attrs: append(as(tensor.Uint4), blocks...),
			in: list(f(8, 8, 8), f(1, 4)), want: list(codes(tensor.Uint4, 8, 8, 2))},
		{op: "DequantizeLinear", name: "int4",
			in:   list(codes(tensor.Int4, 7, 8, 15), s(2), zero(tensor.Int4, 1)),
			want: list(f(12, -18, -4))},
		{op: "DequantizeLinear", name: "uint2",
			in:   list(codes(tensor.Uint2, 0, 1, 2, 3), s(0.5), zero(tensor.Uint2, 1)),
			want: list(f(-0.5, 0, 0.5, 1))},
		{op: "DequantizeLinear", name: "float8, no zero point",
			in: list(codes(tensor.Float8E5M2, 0x3c, 0xbc), s(3)), want: list(f(3, -3))},
		{op: "DequantizeLinear", name: "e2m1", in: list(codes(tensor.Float4E2M1, 1, 7, 15), s(2)),
			want: list(f(1, 12, -12))},
		{op: "DequantizeLinear", name: "microscaling", attrs: append(as(tensor.Float16), blocks...),
			in:   list(codes(tensor.Float4E2M1, 1, 2, 7), codes(tensor.Float8E8M0, 126, 129)),
			want: list(h(0.25, 0.5, 24))},
		{op: "DequantizeLinear", name: "to float8", attrs: as(tensor.Float8E8M0),
			in: list(codes(tensor.Int4, 1), s(1)), err: ErrAttr},
		{op: "DequantizeLinear", name: "scale that is no float",
			in:  list(codes(tensor.Int4, 1), tensor.FromCodes(tensor.Float8E8M0, []uint8{127})),
			err: ErrInput},
	})
}

// Every element of every type comes back from the number that it stands for, whatever power of two
// the scale is.
func TestQuantizeUndoesDequantize(t *testing.T) {
	for d := tensor.Uint8; d <= tensor.Int2; d++ {
		if !quantizedTypes.Has(d) || d.Bits() > 8 {
			continue
		}
		all := make([]uint8, 1<<d.Bits())
		for i := range all {
			all[i] = uint8(i)
		}
		q := codes(d, all...)
		for _, scale := range list[float32](1, 0.25, 64) {
			s := tensor.Scalar(scale)
			x := eval1(t, "DequantizeLinear", nil, q, s)
			back := eval1(t, "QuantizeLinear",
				Attrs{IntAttr("output_dtype", int64(d)), IntAttr("saturate", 0)}, x, s)
			if err := tensor.Close(back, q, 0, 0); err != nil {
				t.Errorf("%v, scale %v: %v", d, scale, err)
			}
		}
	}
}
