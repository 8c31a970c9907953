package pass_test

import "testing"

func TestTransposed(t *testing.T) {
	weights := "const %w: float32[2,3] = {1, 2, 3, 4, 5, -6}\n%t: float32[3,2] = Transpose@17 " +
		"(%w) {perm=[1,0]}\n"
	check(t, false, []rewrite{
		{"product", lines(weights + "%y: float32[N,4,2] = MatMul@17 (%x, %t)"),
			"y = weir:MatMul (x, w) {transB=1}"},
		{"two products", lines(weights + "%a: float32[N,4,2] = MatMul@17 (%x, %t)\n%b: " +
			"float32[N,4,2] = MatMul@17 (%x, %t)\n%y: float32[N,4,2] = Add@17 (%a, %b)"),
			"a = weir:MatMul (x, w) {transB=1}\nb = weir:MatMul (x, w) {transB=1}\ny = Add (a, b)"},
		{"no transpose", lines("const %w: float32[3,2] = {1, 2, 3, 4, 5, -6}\n%t: float32[3,2] = " +
			"Identity@17 (%w)\n%y: float32[N,4,2] = MatMul@17 (%x, %t)"),
			"t = Identity (w)\ny = MatMul (x, t)"},
	}, "transposed")
	check(t, false, []rewrite{
		{"with a bias and an activation", lines(weights + "const %k: float32[2] = {1, -1}\n%m: " +
			"float32[N,4,2] = MatMul@17 (%x, %t)\n" +
			"%a: float32[N,4,2] = Add@17 (%m, %k)\n%y: float32[N,4,2] = Relu@17 (%a)"),
			"y = weir:MatMul (x, w, k) {transB=1, activation=\"Relu\"}"},
	}, "transposed", "bias", "activation")
}
