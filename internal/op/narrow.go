package op

import (
	"math"

	"github.com/weirgpu/weir/tensor"
)

// narrowing says what becomes of numbers that an 8-bit floating-point type does not hold (ONNX
// operator Cast, version 19 to 25).
type narrowing struct {
	saturate bool         // beyond the largest number, to it; else to infinity or NaN
	round    tensor.Round // to float8e8m0, whose numbers are powers of two
}

// saturating is what operators without such attributes do.
var saturating = narrowing{saturate: true}

// narrowingOf reads attributes saturate (opset 19) and round_mode (opset 24).
func narrowingOf(c *Call) (narrowing, error) {
	by := narrowing{saturate: c.Attrs.Int("saturate", 1) != 0}
	switch mode := c.Attrs.String("round_mode", "up"); mode {
	case "up":
		by.round = tensor.RoundUp
	case "down":
		by.round = tensor.RoundDown
	case "nearest":
		by.round = tensor.RoundNearest
	default:
		return by, c.Errorf(ErrAttr, "round_mode is %q, want up, down or nearest", mode)
	}
	return by, nil
}

// widenMinifloats reads floating-point elements of at most 8 bits; false when src has others.
func widenMinifloats(buf []float64, src *tensor.Tensor, at int) bool {
	if !src.DType.IsMinifloat() {
		return false
	}
	for i := range buf {
		buf[i] = float64(src.DType.Minifloat(src.Code(at + i)))
	}
	return true
}

// widenPacked reads integers of 2 or 4 bits; false when src has other elements.
func widenPacked(buf []int64, src *tensor.Tensor, at int) bool {
	if !src.DType.Packed() || !src.DType.IsInteger() {
		return false
	}
	unused := 64 - src.DType.Bits()
	for i := range buf {
		if v := uint64(src.Code(at + i)); src.DType.IsSigned() {
			buf[i] = int64(v<<unused) >> unused
		} else {
			buf[i] = int64(v)
		}
	}
	return true
}

// codes converts to elements of at most 8 bits that are no bytes: 2-bit and 4-bit integers, small
// floats. False when dst has others.
func (by narrowing) codes(dst *tensor.Tensor, at int, buf []float64) bool {
	convert := by.codeOf(dst.DType)
	if convert == nil {
		return false
	}
	for i, v := range buf {
		dst.SetCode(at+i, convert(v))
	}
	return true
}

// codeOf returns the conversion of one number, nil when there is none to the type.
func (by narrowing) codeOf(d tensor.DType) func(v float64) uint8 {
	switch {
	case d == tensor.Float8E8M0:
		return func(v float64) uint8 { return tensor.E8M0Of(v, by.round, by.saturate) }
	case d.IsMinifloat():
		return func(v float64) uint8 { return tensor.MinifloatOf(d, v, by.saturate) }
	case d.Packed():
		return lowBits
	}
	return nil
}

// lowBits are the low bits of an integral number without its fraction, 0 of what is not finite.
func lowBits(v float64) uint8 {
	if v != v || math.IsInf(v, 0) {
		return 0
	}
	return uint8(int64(math.Mod(math.Trunc(v), 256)))
}

// intCodes is codes for integers.
func (by narrowing) intCodes(dst *tensor.Tensor, at int, buf []int64) bool {
	if dst.DType.IsMinifloat() {
		convert := by.codeOf(dst.DType)
		for i, v := range buf {
			dst.SetCode(at+i, convert(oddFloat(v)))
		}
		return true
	}
	if !dst.DType.Packed() {
		return false
	}
	for i, v := range buf {
		dst.SetCode(at+i, uint8(v))
	}
	return true
}
