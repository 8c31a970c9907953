package vec

// Relu computes dst[i] = x[i] where it is not below zero, else 0 (ONNX Relu-14).
func Relu(dst, x []float32) { relu(dst, x[:len(dst)]) }

// Clip computes dst[i] = min(max(x[i], lo), hi) (ONNX Clip-13): hi where lo > hi. Neither bound may
// be NaN.
func Clip(dst, x []float32, lo, hi float32) { clip(dst, x[:len(dst)], lo, hi) }

// Grid computes dst[i] = round(min(max(x[i]/scale, lo), hi)) · scale, ties to even, with lo for NaN
// and 0 for -0 before the product: ONNX DequantizeLinear-21 of QuantizeLinear-21 on one scale,
// where lo and hi are the least and the greatest integer of the type, each less the zero point.
// Neither bound may be NaN.
func Grid(dst, x []float32, scale, lo, hi float32) {
	x = x[:len(dst)]
	if !onFastGrid(scale, lo, hi) {
		gridPlain(dst, x, scale, lo, hi)
		return
	}
	least, most, inverse, apart := gridParts(scale, lo, hi)
	grid(dst, x, scale, least, most, inverse, apart)
}

// onFastGrid reports whether a number is rounded to a grid by products alone.
func onFastGrid(scale, lo, hi float32) bool {
	return scale >= leastGridScale && scale <= 1/leastGridScale && gridBound(lo) &&
		gridBound(hi) && lo <= hi
}

// gridParts are the bounds of numbers on a grid, and the inverse of its scale in two parts.
func gridParts(scale, lo, hi float32) (least, most, inverse, apart float32) {
	whole := 1 / float64(scale)
	near := float32(whole)
	return lo * scale, hi * scale, near, float32(whole - float64(near))
}

// leastGridScale is the scale from which on nothing that decides how a number is rounded is
// subnormal, and whose inverse is the scale up to which nothing overflows.
const leastGridScale = 0x1p-100

// gridBound reports whether a bound is an integer, whose product with a scale is off by less than
// half a step.
func gridBound(x float32) bool { return x >= -0x1p20 && x <= 0x1p20 && x == float32(int32(x)) }

// LeakyRelu computes dst[i] = x[i] where x[i] is not below zero, else alpha*x[i] (ONNX
// LeakyRelu-16, and PRelu-16 with a slope of one number).
func LeakyRelu(dst, x []float32, alpha float32) { leakyRelu(dst, x[:len(dst)], alpha) }

// HardSigmoid computes dst[i] = max(0, min(1, alpha*x[i] + beta)) (ONNX HardSigmoid-22), the sum
// rounded as in Axpy.
func HardSigmoid(dst, x []float32, alpha, beta float32) {
	hardSigmoid(dst, x[:len(dst)], alpha, beta)
}

// HardSwish computes dst[i] = x[i] * max(0, min(1, x[i]/6 + 0.5)) (ONNX HardSwish-22), within 4
// units in the last place of the sum's terms: 6e-8 times the larger of |x[i]| and x[i]².
func HardSwish(dst, x []float32) { hardSwish(dst, x[:len(dst)]) }

// Sigmoid computes dst[i] = 1/(1 + exp(-x[i])) (ONNX Sigmoid-13).
func Sigmoid(dst, x []float32) { sigmoid(dst, x[:len(dst)]) }

// Silu computes dst[i] = x[i] * sigmoid(x[i]) (ONNX Swish-24 with alpha 1). At -Inf the product is
// NaN, as the formula says.
func Silu(dst, x []float32) { silu(dst, x[:len(dst)]) }

// Gelu computes dst[i] = x[i]/2 * (1 + erf(x[i]/√2)) (ONNX Gelu-20, approximate="none"). For
// negative x the sum cancels in float32, as it does in the operator's function body: the error is
// at most 2e-7 times |x[i]|.
func Gelu(dst, x []float32) { gelu(dst, x[:len(dst)]) }

// GeluTanh computes dst[i] = x[i]/2 * (1 + tanh(√(2/π) * (x[i] + 0.044715 x[i]³))) (ONNX Gelu-20,
// approximate="tanh"). The relative error grows with the argument of tanh, a, as 4e-7 * (1 + |a|).
func GeluTanh(dst, x []float32) { geluTanh(dst, x[:len(dst)]) }

// Softplus computes dst[i] = log(1 + exp(x[i])) (ONNX Softplus-22).
func Softplus(dst, x []float32) { softplus(dst, x[:len(dst)]) }

// Elu computes dst[i] = x[i] where it is not below zero, else alpha*(exp(x[i]) - 1) (ONNX Elu-22).
func Elu(dst, x []float32, alpha float32) { elu(dst, x[:len(dst)], alpha) }

// Mish computes dst[i] = x[i] * tanh(softplus(x[i])) (ONNX Mish-22).
func Mish(dst, x []float32) { mish(dst, x[:len(dst)]) }
