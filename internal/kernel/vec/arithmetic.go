package vec

import "math"

// Add computes dst[i] = a[i] + b[i] (ONNX Add-14).
func Add(dst, a, b []float32) { add(dst, a[:len(dst)], b[:len(dst)]) }

// AddInt32 computes dst[i] = a[i] + b[i], which wraps.
func AddInt32(dst, a, b []int32) {
	addBits(floats(dst), floats(a[:len(dst)]), floats(b[:len(dst)]))
}

// AddInt32Scalar computes dst[i] = x[i] + s, which wraps.
func AddInt32Scalar(dst, x []int32, s int32) {
	addBitsScalar(floats(dst), floats(x[:len(dst)]), math.Float32frombits(uint32(s)))
}

// AxpyInt32 computes dst[i] = a*x[i] + y[i], which wraps.
func AxpyInt32(dst []int32, a int32, x, y []int32) {
	axpyBits(floats(dst), floats(x[:len(dst)]), floats(y[:len(dst)]),
		math.Float32frombits(uint32(a)))
}

// Sub computes dst[i] = a[i] - b[i] (ONNX Sub-14).
func Sub(dst, a, b []float32) { sub(dst, a[:len(dst)], b[:len(dst)]) }

// Mul computes dst[i] = a[i] * b[i] (ONNX Mul-14).
func Mul(dst, a, b []float32) { mul(dst, a[:len(dst)], b[:len(dst)]) }

// Div computes dst[i] = a[i] / b[i] (ONNX Div-14) as IEEE 754 division: x/0 is an infinity, 0/0 is
// NaN.
func Div(dst, a, b []float32) { div(dst, a[:len(dst)], b[:len(dst)]) }

// Max computes dst[i] = max(a[i], b[i]) (ONNX Max-13). It is NaN where either is.
func Max(dst, a, b []float32) { maximum(dst, a[:len(dst)], b[:len(dst)]) }

// Min computes dst[i] = min(a[i], b[i]) (ONNX Min-13). It is NaN where either is.
func Min(dst, a, b []float32) { minimum(dst, a[:len(dst)], b[:len(dst)]) }

// AddScalar computes dst[i] = x[i] + s.
func AddScalar(dst, x []float32, s float32) { addScalar(dst, x[:len(dst)], s) }

// SubScalar computes dst[i] = x[i] - s.
func SubScalar(dst, x []float32, s float32) { addScalar(dst, x[:len(dst)], -s) }

// RSubScalar computes dst[i] = s - x[i].
func RSubScalar(dst, x []float32, s float32) { rsubScalar(dst, x[:len(dst)], s) }

// MulScalar computes dst[i] = x[i] * s.
func MulScalar(dst, x []float32, s float32) { mulScalar(dst, x[:len(dst)], s) }

// DivScalar computes dst[i] = x[i] / s, by division: multiplying by 1/s would round twice.
func DivScalar(dst, x []float32, s float32) { divScalar(dst, x[:len(dst)], s) }

// RDivScalar computes dst[i] = s / x[i].
func RDivScalar(dst, x []float32, s float32) { rdivScalar(dst, x[:len(dst)], s) }

// MaxScalar computes dst[i] = max(x[i], s). It is NaN where either is.
func MaxScalar(dst, x []float32, s float32) { maxScalar(dst, x[:len(dst)], s) }

// MinScalar computes dst[i] = min(x[i], s). It is NaN where either is.
func MinScalar(dst, x []float32, s float32) { minScalar(dst, x[:len(dst)], s) }

// Axpy computes dst[i] = a*x[i] + y[i] (BLAS axpy, with its own destination). Fast paths round once
// (fused), plain Go rounds as math.FMA does and then to float32.
func Axpy(dst []float32, a float32, x, y []float32) { axpy(dst, x[:len(dst)], y[:len(dst)], a) }

// FMA computes dst[i] = a[i]*b[i] + c[i], rounded as in Axpy.
func FMA(dst, a, b, c []float32) { fma(dst, a[:len(dst)], b[:len(dst)], c[:len(dst)]) }

// Affine computes dst[i] = x[i]*scale + bias, rounded as in Axpy: one channel of a folded ONNX
// BatchNormalization-15.
func Affine(dst, x []float32, scale, bias float32) { affine(dst, x[:len(dst)], scale, bias) }

// Fill sets dst[i] = s.
func Fill(dst []float32, s float32) {
	const seed = 64
	for i := range min(seed, len(dst)) {
		dst[i] = s
	}
	for n := seed; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}
