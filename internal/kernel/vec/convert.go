package vec

// Float16ToFloat32 widens IEEE 754 binary16 numbers exactly (ONNX Cast-21).
func Float16ToFloat32[H ~uint16](dst []float32, x []H) {
	float16ToFloat32(dst, halves(x[:len(dst)]))
}

// Float32ToFloat16 rounds to the nearest binary16, ties to even (ONNX Cast-21): overflow gives an
// infinity, results below the normal range are subnormal, NaN stays NaN.
func Float32ToFloat16[H ~uint16](dst []H, x []float32) {
	float32ToFloat16(halves(dst), x[:len(dst)])
}

// BFloat16ToFloat32 widens bfloat16 numbers exactly (ONNX Cast-21).
func BFloat16ToFloat32[H ~uint16](dst []float32, x []H) {
	bfloat16ToFloat32(dst, halves(x[:len(dst)]))
}

// Float32ToBFloat16 rounds to the nearest bfloat16, ties to even (ONNX Cast-21). NaN stays NaN.
func Float32ToBFloat16[H ~uint16](dst []H, x []float32) {
	float32ToBFloat16(halves(dst), x[:len(dst)])
}

// Int32ToFloat32 rounds integers to the nearest float32, ties to even.
func Int32ToFloat32(dst []float32, x []int32) { int32ToFloat32(dst, x[:len(dst)]) }

// Float32ToInt32 rounds toward zero. Numbers out of range become the nearest int32 and NaN becomes
// 0, where ONNX Cast-21 leaves the result undefined.
func Float32ToInt32(dst []int32, x []float32) { float32ToInt32(dst, x[:len(dst)]) }

// Int64ToFloat32 rounds integers to the nearest float32, ties to even.
func Int64ToFloat32(dst []float32, x []int64) { int64ToFloat32(dst, x[:len(dst)]) }

// Float32ToInt64 rounds toward zero. Numbers out of range become the nearest int64 and NaN becomes
// 0, where ONNX Cast-21 leaves the result undefined.
func Float32ToInt64(dst []int64, x []float32) { float32ToInt64(dst, x[:len(dst)]) }

// Float32ToUint8 rounds to the nearest integer, ties to even, and brings it into the range from 0
// to 255. NaN becomes 0.
func Float32ToUint8(dst []uint8, x []float32) { float32ToUint8(dst, x[:len(dst)]) }

// Float32ToInt8 rounds to the nearest integer, ties to even, and brings it into the range from -128
// to 127. NaN becomes -128.
func Float32ToInt8(dst []int8, x []float32) { float32ToInt8(dst, x[:len(dst)]) }

// Uint8ToFloat32 converts exactly.
func Uint8ToFloat32(dst []float32, x []uint8) { uint8ToFloat32(dst, x[:len(dst)]) }

// Int8ToFloat32 converts exactly.
func Int8ToFloat32(dst []float32, x []int8) { int8ToFloat32(dst, x[:len(dst)]) }
