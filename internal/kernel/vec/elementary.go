package vec

// Neg computes dst[i] = -x[i] (ONNX Neg-13): the sign bit is flipped, also of zero and NaN.
func Neg(dst, x []float32) { neg(dst, x[:len(dst)]) }

// Abs computes dst[i] = |x[i]| (ONNX Abs-13): the sign bit is cleared, also of NaN.
func Abs(dst, x []float32) { abs(dst, x[:len(dst)]) }

// Square computes dst[i] = x[i]*x[i]: ONNX Pow-15 with exponent 2.
func Square(dst, x []float32) { square(dst, x[:len(dst)]) }

// Cube computes dst[i] = (x[i]*x[i])*x[i]: ONNX Pow-15 with exponent 3.
func Cube(dst, x []float32) { cube(dst, x[:len(dst)]) }

// RoundEven computes dst[i] = the integral number nearest to x[i], of two the even one (ONNX
// Round-11).
func RoundEven(dst, x []float32) { roundEven(dst, x[:len(dst)]) }

// Floor computes dst[i] = the greatest integral number not above x[i] (ONNX Floor-13).
func Floor(dst, x []float32) { floor(dst, x[:len(dst)]) }

// Ceil computes dst[i] = the least integral number not below x[i] (ONNX Ceil-13).
func Ceil(dst, x []float32) { ceil(dst, x[:len(dst)]) }

// Sqrt computes dst[i] = sqrt(x[i]), correctly rounded (ONNX Sqrt-13). It is NaN below zero and -0
// at -0, which differs from Pow with exponent 0.5 only in that Pow gives +Inf at -Inf and +0 at -0.
func Sqrt(dst, x []float32) { sqrt(dst, x[:len(dst)]) }

// Rsqrt computes dst[i] = 1/sqrt(x[i]), with two correctly rounded steps.
func Rsqrt(dst, x []float32) { rsqrt(dst, x[:len(dst)]) }

// Reciprocal computes dst[i] = 1/x[i], correctly rounded (ONNX Reciprocal-13).
func Reciprocal(dst, x []float32) { rdivScalar(dst, x[:len(dst)], 1) }

// Exp computes dst[i] = e to the power x[i] (ONNX Exp-13): +Inf above 88.7228, 0 below -103.97.
func Exp(dst, x []float32) { exp(dst, x[:len(dst)]) }

// Log computes dst[i] = the natural logarithm of x[i] (ONNX Log-13): -Inf at 0, NaN below.
func Log(dst, x []float32) { log(dst, x[:len(dst)]) }

// Tanh computes dst[i] = tanh(x[i]) (ONNX Tanh-13).
func Tanh(dst, x []float32) { tanh(dst, x[:len(dst)]) }

// Erf computes dst[i] = erf(x[i]) (ONNX Erf-13).
func Erf(dst, x []float32) { erf(dst, x[:len(dst)]) }
