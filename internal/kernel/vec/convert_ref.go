package vec

import "math"

func float16ToFloat32Ref(dst []float32, x []uint16) {
	for i := range dst {
		dst[i] = widenFloat16(x[i])
	}
}

func widenFloat16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent := uint32(h >> 10 & 0x1f)
	fraction := uint32(h & 0x3ff)
	switch exponent {
	case 0: // zero or subnormal: fraction × 2⁻²⁴
		return math.Float32frombits(math.Float32bits(float32(fraction)/(1<<24)) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

func float32ToFloat16Ref(dst []uint16, x []float32) {
	for i := range dst {
		dst[i] = roundFloat16(x[i])
	}
}

func roundFloat16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	bits &= 0x7fffffff
	switch {
	case bits > 0x7f800000:
		return sign | 0x7e00
	case bits >= 0x477ff000: // 65520 is halfway between the greatest binary16 and 2¹⁶
		return sign | 0x7c00
	case bits < 0x38800000: // below 2⁻¹⁴
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(bits))*(1<<24)))
	}
	bits += 0xfff + bits>>13&1
	return sign | uint16(bits>>13-(127-15)<<10)
}

func bfloat16ToFloat32Ref(dst []float32, x []uint16) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(x[i]) << 16)
	}
}

func float32ToBFloat16Ref(dst []uint16, x []float32) {
	for i := range dst {
		bits := math.Float32bits(x[i])
		if bits&0x7fffffff > 0x7f800000 {
			dst[i] = uint16(bits>>16 | 0x40)
			continue
		}
		dst[i] = uint16((bits + 0x7fff + bits>>16&1) >> 16)
	}
}

func int32ToFloat32Ref(dst []float32, x []int32) {
	for i := range dst {
		dst[i] = float32(x[i])
	}
}

func float32ToInt32Ref(dst []int32, x []float32) {
	for i := range dst {
		switch v := x[i]; {
		case v >= 1<<31:
			dst[i] = math.MaxInt32
		case v >= -1<<31:
			dst[i] = int32(v)
		case v < -1<<31:
			dst[i] = math.MinInt32
		default:
			dst[i] = 0
		}
	}
}

func int64ToFloat32Ref(dst []float32, x []int64) {
	for i := range dst {
		dst[i] = float32(x[i])
	}
}

func float32ToInt64Ref(dst []int64, x []float32) {
	for i := range dst {
		switch v := x[i]; {
		case v >= 1<<63:
			dst[i] = math.MaxInt64
		case v >= -1<<63:
			dst[i] = int64(v)
		case v < -1<<63:
			dst[i] = math.MinInt64
		default:
			dst[i] = 0
		}
	}
}

func uint8ToFloat32Ref(dst []float32, x []uint8) {
	for i := range dst {
		dst[i] = float32(x[i])
	}
}

func int8ToFloat32Ref(dst []float32, x []int8) {
	for i := range dst {
		dst[i] = float32(x[i])
	}
}

func float32ToUint8Ref(dst []uint8, x []float32) {
	for i := range dst {
		dst[i] = uint8(saturated(x[i], 0, 255))
	}
}

func float32ToInt8Ref(dst []int8, x []float32) {
	for i := range dst {
		dst[i] = int8(saturated(x[i], -128, 127))
	}
}

// saturated is x rounded and brought into a range, lo for NaN.
func saturated(x float32, lo, hi float64) float64 {
	if !(float64(x) > lo) {
		return lo
	}
	return min(math.RoundToEven(float64(x)), hi)
}
