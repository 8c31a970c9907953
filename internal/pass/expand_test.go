package pass_test

import "testing"

func TestExpand(t *testing.T) {
	check(t, true, []rewrite{
		{"activation", `input %x: float32[N,3]
			const %b: float32[3] = {1, 2, 3}
			%y: float32[N,3] = com.microsoft:BiasGelu@1 (%x, %b)
			output %y`, "y_1 = Add (x, b)\ny = Gelu (y_1)"},
		{"product of matrices", `input %a: float32[N,3]
			input %b: float32[4,3]
			%y: float32[N,4] = com.microsoft:FusedMatMul@1 (%a, %b) {transB=1, alpha=0.5}
			output %y`, "y = Gemm (a, b) {transB=1, alpha=0.5}"},
		{"product of stacks", `input %a: float32[N,2,3]
			input %b: float32[N,4,3]
			%y: float32[N,2,4] = com.microsoft:FusedMatMul@1 (%a, %b) {transB=1}
			output %y`, "y_1 = Transpose (b) {perm=[0, 2, 1]}\ny = MatMul (a, y_1)"},
		{"results that nobody reads", `input %x: float32[N,S,2]
			input %z: float32[N,S,2]
			const %g: float32[2] = {1, 2}
			%y: float32[N,S,2], _, _, %s: float32[N,S,2] = com.microsoft:SkipLayerNormalization@1 (%x, %z, %g)
			output %y
			output %s`, "s = Add (x, z)\ny = LayerNormalization (s, g) {axis=-1, epsilon=1e-12}"},
		{"ONNX's own domain", `input %x: float32[N,2]
			const %g: float32[2] = {1, 2}
			%y: float32[N,2] = SimplifiedLayerNormalization@17 (%x, %g)
			output %y`, `y_1 = Mul (x, x)
y_2 = ReduceMean (y_1) {axes=[1]}
y_3 = Add (y_2, float32[] {1e-05})
y_4 = Sqrt (y_3)
y_5 = Div (x, y_4)
y = Mul (y_5, g)`},
	}, "expand")
}

// TestExpandLeaves keeps operators that it cannot write in others, or must not.
func TestExpandLeaves(t *testing.T) {
	for _, body := range []string{
		`input %x: float32[...]
			input %b: float32[...]
			%y: float32[...] = com.microsoft:FusedMatMul@1 (%x, %b) {transB=1}
			output %y`,
		`input %x: float16[N]
			%y: float16[N] = com.microsoft:QuickGelu@1 (%x)
			output %y`,
		`input %x: float32[N,3]
			const %b: float32[2] = {1, 2}
			%y: float32[N,3] = com.microsoft:BiasGelu@1 (%x, %b)
			output %y`,
		`input %x: float32[N,32]
			input %b: uint8[1,1,16]
			const %s: float32[1,1] = {1}
			%y: float32[N,1] = com.microsoft:MatMulNBits@1 (%x, %b, %s) {K=32, N=1, block_size=32}
			output %y`,
	} {
		g := parse(t, head+body+"\n}")
		before := short(g)
		if optimise(t, g, only("expand")); short(g) != before {
			t.Errorf("%s became\n%s", before, short(g))
		}
	}
}
