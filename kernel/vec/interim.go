package vec

func find(x []float32, v float32) int { return findRef(x, v) }
func transpose(dst, src []uint32, rows, cols, ldDst, ldSrc int) {
	transposeRef(dst, src, rows, cols, ldDst, ldSrc)
}
func float16ToFloat32(dst []float32, x []uint16)  { float16ToFloat32Ref(dst, x) }
func float32ToFloat16(dst []uint16, x []float32)  { float32ToFloat16Ref(dst, x) }
func bfloat16ToFloat32(dst []float32, x []uint16) { bfloat16ToFloat32Ref(dst, x) }
func float32ToBFloat16(dst []uint16, x []float32) { float32ToBFloat16Ref(dst, x) }
func int32ToFloat32(dst []float32, x []int32)     { int32ToFloat32Ref(dst, x) }
func float32ToInt32(dst []int32, x []float32)     { float32ToInt32Ref(dst, x) }
func int64ToFloat32(dst []float32, x []int64)     { int64ToFloat32Ref(dst, x) }
func float32ToInt64(dst []int64, x []float32)     { float32ToInt64Ref(dst, x) }
func uint8ToFloat32(dst []float32, x []uint8)     { uint8ToFloat32Ref(dst, x) }
func int8ToFloat32(dst []float32, x []int8)       { int8ToFloat32Ref(dst, x) }

// block is how many elements one call of assembly handles. Assembly has no point at which it can be preempted, so that a
// call must end within some tens of microseconds even where memory is slow.
const block = 8192
