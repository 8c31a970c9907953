package pass_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/pass"
)

// lines joins statements with the usual input and output around them.
func lines(statements string) string {
	return "input %x: float32[N,4,3]\n" + strings.ReplaceAll(statements, ";", "\n") + "\noutput %y"
}

const layerNorm = `%m: float32[N,4,1] = ReduceMean@17 (%x) {axes=[-1]}
	%d: float32[N,4,3] = Sub@17 (%x, %m)
	const %two: float32[] = {2}
	const %eps: float32[] = {1e-05}
	`

func TestLayerNorm(t *testing.T) {
	affine := `const %g: float32[3] = {1.5, 2, -1}
		const %b: float32[1,3] = {0.5, 0, 1}
		%w: float32[N,4,3] = Mul@17 (%g, %n)
		%y: float32[N,4,3] = Add@17 (%w, %b)`
	tail := `%v: float32[N,4,1] = ReduceMean@17 (%p) {axes=[2]}
		%e: float32[N,4,1] = Add@17 (%v, %eps)
		%s: float32[N,4,1] = Sqrt@17 (%e)
		`
	check(t, false, []rewrite{
		{"with scale and bias", lines(layerNorm + `%p: float32[N,4,3] = Pow@17 (%d, %two)
			` + tail + `%n: float32[N,4,3] = Div@17 (%d, %s)
			` + affine), "y = LayerNormalization (x, g, b_1) {axis=-1, epsilon=1e-05}"},
		{"square as a product, division as a reciprocal",
			lines(layerNorm + `%p: float32[N,4,3] = Mul@17 (%d, %d)
			` + tail + `%r: float32[N,4,1] = Reciprocal@17 (%s)
			%n: float32[N,4,3] = Mul@17 (%r, %d)
			` + affine), "y = LayerNormalization (x, g, b_1) {axis=-1, epsilon=1e-05}"},
		{"alone", lines(layerNorm + `%p: float32[N,4,3] = Mul@17 (%d, %d)
			` + tail + `%y: float32[N,4,3] = Div@17 (%d, %s)`),
			"y = LayerNormalization (x, y_scale) {axis=-1, epsilon=1e-05}"},
	}, "layernorm")
	tests := []rewrite{
		{"another axis", strings.ReplaceAll(lines(layerNorm+`%p: float32[N,4,3] = Pow@17 (%d, %two)
			`+tail+`%y: float32[N,4,3] = Div@17 (%d, %s)`), "axes=[-1]", "axes=[1]"), ""},
		{"the deviation is read elsewhere",
			lines(layerNorm + `%p: float32[N,4,3] = Pow@17 (%d, %two)
			` + tail + `%n: float32[N,4,3] = Div@17 (%d, %s)
			%y: float32[N,4,3] = Add@17 (%n, %d)`), ""},
		{"the cube", strings.ReplaceAll(lines(layerNorm+`%p: float32[N,4,3] = Pow@17 (%d, %two)
			`+tail+`%y: float32[N,4,3] = Div@17 (%d, %s)`), "{2}", "{3}"), ""},
	}
	for _, tt := range tests {
		g := parse(t, strings.ReplaceAll(head+tt.in+"}", "float32[N,4,1]", "float32[?,?,?]"))
		if r := optimise(t, g, only("layernorm")); r.Changes() > 0 {
			t.Errorf("%s: became\n%v", tt.name, g)
		}
	}
}

func TestGelu(t *testing.T) {
	half, root := "const %half: float32[] = {0.5};const %one: float32[] = {1};",
		fmt.Sprint(float32(math.Sqrt2))
	erf := half + "const %r: float32[] = {" + root + "};%d: float32[N,4,3] = Div@17 (%x, %r);%e: " +
		"float32[N,4,3] = Erf@17 (%d);%a: float32[N,4,3] = Add@17 (%e, %one);"
	tanh := half + "const %k: float32[] = {0.044714998};const %s: float32[] = {0.79788458};const " +
		"%three: float32[] = {3};"
	end := "%i: float32[N,4,3] = Mul@17 (%s, %p);%t: float32[N,4,3] = Tanh@17 (%i);%a: " +
		"float32[N,4,3] = Add@17 (%one, %t);%h: float32[N,4,3] = Mul@17 (%x, %half);%y: " +
		"float32[N,4,3] = Mul@17 (%h, %a)"
	check(t, false, []rewrite{
		{"erf, one half last",
			lines(erf + "%m: float32[N,4,3] = Mul@17 (%x, %a);%y: float32[N,4,3] = Mul@17 (%m, " +
				"%half)"), "y = Gelu (x)"},
		{"erf, one half first",
			lines(erf + "%h: float32[N,4,3] = Mul@17 (%half, %x);%y: float32[N,4,3] = Mul@17 " +
				"(%a, %h)"), "y = Gelu (x)"},
		{"erf, one half on the other side",
			lines(erf + "%h: float32[N,4,3] = Mul@17 (%a, %half);%y: float32[N,4,3] = Mul@17 " +
				"(%x, %h)"), "y = Gelu (x)"},
		{"tanh, cube as a power", lines(tanh + "%c: float32[N,4,3] = Pow@17 (%x, %three);%q: " +
			"float32[N,4,3] = Mul@17 (%c, %k);%p: float32[N,4,3] = Add@17 (%x, %q);" + end),
			`y = Gelu (x) {approximate="tanh"}`},
		{"tanh, cube as products", lines(tanh + "%c: float32[N,4,3] = Mul@17 (%x, %x);%c3: " +
			"float32[N,4,3] = Mul@17 (%c, %x);%q: float32[N,4,3] = Mul@17 (%k, %c3);%p: " +
			"float32[N,4,3] = Add@17 (%q, %x);" + end),
			`y = Gelu (x) {approximate="tanh"}`},
		{"tanh, x taken out", lines(tanh + "%c: float32[N,4,3] = Mul@17 (%x, %x);%q: " +
			"float32[N,4,3] = Mul@17 (%k, %c);%o: float32[N,4,3] = Add@17 (%one, %q);%p: " +
			"float32[N,4,3] = Mul@17 (%o, %x);" + end),
			`y = Gelu (x) {approximate="tanh"}`},
	}, "gelu")
	g := parse(t, head+lines(strings.Replace(erf, root, "1.5",
		1)+"%m: float32[N,4,3] = Mul@17 (%x, %a);%y: float32[N,4,3] = Mul@17 (%m, %half)")+"}")
	if r := optimise(t, g, only("gelu")); r.Changes() > 0 {
		t.Errorf("Erf(x / 1.5) was taken for a Gelu:\n%v", g)
	}
}

func TestSwish(t *testing.T) {
	clip := "const %three: float32[] = {3};const %zero: float32[] = {0};const %six: float32[] = " +
		"{6};%p: float32[N,4,3] = Add@17 (%three, %x);%c: float32[N,4,3] = Clip@17 (%p, %zero, " +
		"%six);"
	check(t, false, []rewrite{
		{"SiLU", lines("%s: float32[N,4,3] = Sigmoid@17 (%x);%y: float32[N,4,3] = Mul@17 (%s, %x)"),
			"y = weir:Silu (x)"},
		{"division last", lines(clip +
			"%m: float32[N,4,3] = Mul@17 (%x, %c);%y: float32[N,4,3] = Div@17 (%m, %six)"),
			"y = HardSwish (x)"},
		{"division first", lines(clip +
			"%d: float32[N,4,3] = Div@17 (%c, %six);%y: float32[N,4,3] = Mul@17 (%d, %x)"),
			"y = HardSwish (x)"},
		{"multiplied by a sixth", lines(clip + "const %k: float32[] = {0.16666667};%d: " +
			"float32[N,4,3] = Mul@17 (%k, %c);%y: float32[N,4,3] = Mul@17 (%d, %x)"),
			"y = HardSwish (x)"},
		{"by HardSigmoid", lines(
			"%s: float32[N,4,3] = HardSigmoid@17 (%x) {alpha=0.16666667};%y: float32[N,4,3] = " +
				"Mul@17 (%x, %s)"), "y = HardSwish (x)"},
		{"the slope of ONNX's default is none", lines("%s: float32[N,4,3] = HardSigmoid@17 " +
			"(%x);%y: float32[N,4,3] = Mul@17 (%x, %s)"),
			"s = HardSigmoid (x)\ny = Mul (x, s)"},
		{"the gate is read elsewhere", lines("%s: float32[N,4,3] = Sigmoid@17 (%x);%m: " +
			"float32[N,4,3] = Mul@17 (%s, %x);%y: float32[N,4,3] = Add@17 (%s, %m)"),
			"s = Sigmoid (x)\nm = Mul (s, x)\ny = Add (s, m)"},
		{"the gate of another value", lines("%z: float32[N,4,3] = Neg@17 (%x);%s: float32[N,4,3] " +
			"= Sigmoid@17 (%z);%y: float32[N,4,3] = Mul@17 (%s, %x)"),
			"z = Neg (x)\ns = Sigmoid (z)\ny = Mul (s, x)"},
	}, "swish")
}

const conv = `input %x: float32[N,2,H,W]
	const %w: float32[2,2,1,1] = {1, 0.5, -1, 2}
	const %b: float32[2] = {0.25, -1}
	`

func TestBatchNorm(t *testing.T) {
	norm := `const %scale: float32[2] = {2, 0.5}
		const %beta: float32[2] = {1, -1}
		const %mean: float32[2] = {0.5, -0.25}
		const %var: float32[2] = {0.75, 1.5}
		%y: float32[N,?,?,?] = BatchNormalization@15 (%c, %scale, %beta, %mean, %var)
		output %y`
	check(t, false, []rewrite{
		{"bias", conv + "%c: float32[N,2,H,W] = Conv@17 (%x, %w, %b)\n" + norm,
			"y = Conv (x, w_1, y_bias)"},
		{"no bias", conv + "%c: float32[N,2,H,W] = Conv@17 (%x, %w) {kernel_shape=[1, 1]}\n" + norm,
			"y = Conv (x, w_1, y_bias) {kernel_shape=[1, 1]}"},
		{"groups", `input %x: float32[N,2,H,W]
			const %w: float32[2,1,3,1] = {1, 0.5, -1, 2, 3, 4}
			%c: float32[N,2,?,W] = Conv@17 (%x, %w) {group=2}
			` + norm, "y = Conv (x, w_1, y_bias) {group=2}"},
		{"transposed", `input %x: float32[N,3,H,W]
			const %w: float32[3,2,1,2] = {1, 0.5, -1, 2, 3, 4, 5, 6, 7, 8, 9, 1}
			%c: float32[N,2,H,?] = ConvTranspose@17 (%x, %w)
			` + norm, "y = ConvTranspose (x, w_1, y_bias)"},
		{"transposed, groups", `input %x: float32[N,4,H,W]
			const %w: float32[4,1,1,2] = {1, 0.5, -1, 2, 3, 4, 5, 6}
			%c: float32[N,2,H,?] = ConvTranspose@17 (%x, %w) {group=2}
			` + norm, "y = ConvTranspose (x, w_1, y_bias) {group=2}"},
		{"after something else",
			"input %c: float32[N,2,H]\n" + strings.Replace(norm, "[N,?,?,?]", "[N,2,H]", 1),
			"y = BatchNormalization (c, scale, beta, mean, var)"},
		{"the convolution is read elsewhere",
			conv + "%c: float32[N,2,H,W] = Conv@17 (%x, %w, %b)\n" + norm + "\noutput %c",
			"c = Conv (x, w, b)\ny = BatchNormalization (c, scale, beta, mean, var)"},
	}, "batchnorm")
}

func TestScaleShift(t *testing.T) {
	norm := `input %x: float32[N,2,H,W]
		const %scale: float32[2] = {2, 0.5}
		const %beta: float32[2] = {1, -1}
		const %mean: float32[2] = {0.5, -0.25}
		const %var: float32[2] = {0.75, 1.5}
		const %k: float32[2,1,1] = {2, -3}
		const %q: float32[] = {0.5}
		const %v: float32[6,1] = {2, -3, 1, 2, 3, 4}
		%c: float32[N,2,H,W] = BatchNormalization@15 (%x, %scale, %beta, %mean, %var)
		`
	check(t, false, []rewrite{
		{"product", norm + "%y: float32[N,2,H,W] = Mul@17 (%k, %c)\noutput %y",
			"y = BatchNormalization (x, scale_1, beta_1, mean, var)"},
		{"sum", norm + "%y: float32[N,2,H,W] = Add@17 (%c, %k)\noutput %y",
			"y = BatchNormalization (x, scale_1, beta_1, mean, var)"},
		{"difference from one number", norm + "%y: float32[N,2,H,W] = Sub@17 (%q, %c)\noutput %y",
			"y = BatchNormalization (x, scale_1, beta_1, mean, var)"},
		{"product and sum", norm + "%m: float32[N,2,H,W] = Mul@17 (%c, %k)\n%y: float32[N,2,H,W] " +
			"= Add@17 (%m, %q)\noutput %y",
			"y = BatchNormalization (x, scale_1_1, beta_1_1, mean, var)"},
		{"along another axis", norm + "%y: float32[N,2,H,W] = Mul@17 (%c, %v)\noutput %y",
			"c = BatchNormalization (x, scale, beta, mean, var)\ny = Mul (c, v)"},
		{"the normalised is read elsewhere",
			norm + "%y: float32[N,2,H,W] = Mul@17 (%k, %c)\noutput %y\noutput %c",
			"c = BatchNormalization (x, scale, beta, mean, var)\ny = Mul (k, c)"},
		{"of rank 2", `input %x: float32[N,2]
			const %scale: float32[2] = {2, 0.5}
			const %beta: float32[2] = {1, -1}
			const %mean: float32[2] = {0.5, -0.25}
			const %var: float32[2] = {0.75, 1.5}
			const %k: float32[2] = {2, -3}
			%c: float32[N,2] = BatchNormalization@15 (%x, %scale, %beta, %mean, %var)
			%y: float32[N,2] = Mul@17 (%k, %c)
			output %y`, "y = BatchNormalization (x, scale_1, beta_1, mean, var)"},
	}, "scaleshift")
}

func TestChannel(t *testing.T) {
	c := conv + "const %k: float32[1,2,1,1] = {2, -3}\n%c: float32[N,2,H,W] = Conv@17 (%x, %w, " +
		"%b)\n"
	folded := "y = Conv (x, w_1, y_bias)"
	check(t, false, []rewrite{
		{"product", c + "%y: float32[N,2,H,W] = Mul@17 (%k, %c)\noutput %y", folded},
		{"quotient", c + "%y: float32[N,2,H,W] = Div@17 (%c, %k)\noutput %y", folded},
		{"sum", c + "%y: float32[N,2,H,W] = Add@17 (%c, %k)\noutput %y", "y = Conv (x, w, y_bias)"},
		{"difference", c + "%y: float32[N,2,H,W] = Sub@17 (%c, %k)\noutput %y",
			"y = Conv (x, w, y_bias)"},
		{"difference from", c + "%y: float32[N,2,H,W] = Sub@17 (%k, %c)\noutput %y", folded},
		{"scalar", c + "const %s: float32[] = {4}\n%y: float32[N,2,H,W] = Mul@17 (%c, " +
			"%s)\noutput %y", folded},
		{"reciprocal stays", c + "%y: float32[N,2,H,W] = Div@17 (%k, %c)\noutput %y",
			"c = Conv (x, w, b)\ny = Div (k, c)"},
		{"along another axis stays",
			conv + "const %k: float32[2] = {2, -3}\n%c: float32[N,2,H,2] = Conv@17 (%x, %w, %b) " +
				"{strides=[1, 3]}\n%y: float32[N,2,H,2] = Mul@17 (%k, %c)\noutput %y",
			"c = Conv (x, w, b) {strides=[1, 3]}\ny = Mul (k, c)"},
		{"of one axis", `input %x: float32[N,3,W]
			const %w: float32[2,3,1] = {1, 0.5, -1, 2, 3, 4}
			const %k: float32[2,1] = {2, -3}
			%c: float32[N,2,W] = Conv@17 (%x, %w)
			%y: float32[N,2,W] = Mul@17 (%k, %c)
			output %y`, "y = Conv (x, w_1, y_bias)"},
	}, "channel")
}

func TestInputScale(t *testing.T) {
	x := `input %x: float32[N,4,H,W]
		const %w: float32[2,2,1,3] = {1, 0.5, -1, 2, 1, 0, 3, -2, 0.25, 1, 2, -1}
		const %b: float32[2] = {0.25, -1}
		const %k: float32[4,1,1] = {2, -3, 0.5, 1}
		const %s: float32[1] = {-0.75}
		const %a: float32[] = {4}
		`
	plain := `%y: float32[N,2,H,?] = Conv@17 (%p, %w, %b) {group=2}
		output %y`
	pads := strings.Replace(plain, "group=2", "group=2, pads=[0, 1, 0, 1]", 1)
	product, sum := "%p: float32[N,4,H,W] = Mul@17 (%k, %x)\n",
		"%p: float32[N,4,H,W] = Add@17 (%x, %s)\n"
	both := "%m: float32[N,4,H,W] = Mul@17 (%a, %x)\n%p: float32[N,4,H,W] = Add@17 (%m, %k)\n"
	check(t, false, []rewrite{
		{"product", x + product + plain, "y = Conv (x, w_1, b) {group=2}"},
		{"product, padded", x + product + pads,
			"y = Conv (x, w_1, b) {group=2, pads=[0, 1, 0, 1]}"},
		{"sum", x + sum + plain, "y = Conv (x, w, y_bias) {group=2}"},
		{"sum, padded", x + sum + pads, "p = Add (x, float32[1] {-0.75})\ny = Conv (p, w, b) " +
			"{group=2, pads=[0, 1, 0, 1]}"},
		{"both", x + both + plain, "y = Conv (x, w_1, y_bias) {group=2}"},
		{"both, padded", x + both + pads,
			"p_1 = Add (x, p_shift)\ny = Conv (p_1, w_1, b) {group=2, pads=[0, 1, 0, 1]}"},
		{"no bias", x + sum + strings.Replace(plain, ", %b", "", 1),
			"y = Conv (x, w, y_bias) {group=2}"},
		{"read elsewhere", x + product + plain + "\noutput %p",
			"p = Mul (k, x)\ny = Conv (p, w, b) {group=2}"},
	}, "inputscale")
}

func TestBias(t *testing.T) {
	m := "const %w: float32[3,2] = {1, 2, 3, 4, 5, 6};%m: float32[N,4,2] = MatMul@17 (%x, %w);"
	check(t, false, []rewrite{
		{"vector", lines(m + "const %k: float32[2] = {1, -1};%y: float32[N,4,2] = Add@17 (%k, %m)"),
			"y = weir:MatMul (x, w, k)"},
		{"row",
			lines(m + "const %k: float32[1,1,2] = {1, -1};%y: float32[N,4,2] = Add@17 (%m, %k)"),
			"y = weir:MatMul (x, w, k_1)"},
		{"column", lines(m + "const %k: float32[4,1] = {1, -1, 2, 3};%y: float32[N,4,2] = Add@17 " +
			"(%m, %k)"),
			"m = MatMul (x, w)\ny = Add (m, k)"},
		{"read elsewhere", lines(m + "const %k: float32[2] = {1, -1};%a: float32[N,4,2] = Add@17 " +
			"(%k, %m);%y: float32[N,4,2] = Mul@17 (%a, %m)"),
			"m = MatMul (x, w)\na = Add (k, m)\ny = Mul (a, m)"},
	}, "bias")
}

func TestEpilogue(t *testing.T) {
	c := conv + "%c: float32[N,2,H,W] = Conv@17 (%x, %w, %b)\n"
	tests := []rewrite{
		{"residual and activation", c + `%r: float32[N,2,H,W] = Exp@17 (%x)
			%s: float32[N,2,H,W] = Add@17 (%r, %c)
			%y: float32[N,2,H,W] = Relu@17 (%s)
			output %y`, "r = Exp (x)\ny = weir:Conv (x, w, b, r) {activation=\"Relu\"}"},
		{"no bias", conv + `%c: float32[N,2,H,W] = Conv@17 (%x, %w)
			%s: float32[N,2,H,W] = Add@17 (%c, %x)
			output %s`, "s = weir:Conv (x, w, _, x)"},
		{"two convolutions meet", c + `%d: float32[N,2,H,W] = Conv@17 (%c, %w)
			%e: float32[N,2,H,W] = Conv@17 (%c, %w, %b)
			%y: float32[N,2,H,W] = Add@17 (%d, %e)
			output %y`, "c = Conv (x, w, b)\ne = Conv (c, w, b)\ny = weir:Conv (c, w, _, e)"},
		{"a residual that depends on the convolution", c + `%r: float32[N,2,H,W] = Exp@17 (%c)
			%y: float32[N,2,H,W] = Add@17 (%c, %r)
			output %y`, "c = Conv (x, w, b)\nr = Exp (c)\ny = Add (c, r)"},
		{"a sum with itself", c + "%y: float32[N,2,H,W] = Add@17 (%c, %c)\noutput %y",
			"c = Conv (x, w, b)\ny = Add (c, c)"},
		{"a residual that is broadcast", c + `input %r: float32[W]
			%y: float32[N,2,H,W] = Add@17 (%c, %r)
			output %y`, "c = Conv (x, w, b)\ny = Add (c, r)"},
		{"activation before the sum", c + `%a: float32[N,2,H,W] = Relu@17 (%c)
			%y: float32[N,2,H,W] = Add@17 (%a, %x)
			output %y`, "a = weir:Conv (x, w, b) {activation=\"Relu\"}\ny = Add (a, x)"},
		{"the product is an output",
			c + "%y: float32[N,2,H,W] = Relu@17 (%c)\noutput %y\noutput %c",
			"c = Conv (x, w, b)\ny = Relu (c)"},
		{"one activation only", c + "%r: float32[N,2,H,W] = Relu@17 (%c)\n%y: float32[N,2,H,W] = " +
			"Tanh@17 (%r)\noutput %y",
			"r = weir:Conv (x, w, b) {activation=\"Relu\"}\ny = Tanh (r)"},
		{"Gemm", `input %x: float32[N,3]
			const %w: float32[2,3] = {1, 2, 3, 4, 5, 6}
			const %b: float32[2] = {0.25, -1}
			%g: float32[N,2] = Gemm@17 (%x, %w, %b) {transB=1, alpha=0.5}
			%y: float32[N,2] = Tanh@17 (%g)
			output %y`, "y = weir:Gemm (x, w, b) {transB=1, alpha=0.5, activation=\"Tanh\"}"},
		{"through a reshape", `input %x: float32[N,3]
			const %w: float32[3,2] = {1, 2, 3, 4, 5, 6}
			const %s: int64[2] = {-1, 1}
			%g: float32[N,2] = Gemm@17 (%x, %w)
			%r: float32[2·N,1] = Reshape@17 (%g, %s)
			%y: float32[2·N,1] = Relu@17 (%r)
			output %y`, "y_1 = weir:Gemm (x, w) {activation=\"Relu\"}\ny = Reshape (y_1, s)"},
		{"MatMul with bias", lines("const %w: float32[3,2] = {1, 2, 3, 4, 5, 6};const %k: " +
			"float32[2] = {1, -1};%m: float32[N,4,2] = MatMul@17 (%x, %w);%a: float32[N,4,2] = " +
			"Add@17 (%m, %k);%y: float32[N,4,2] = Sigmoid@17 (%a)"),
			"y = weir:MatMul (x, w, k) {activation=\"Sigmoid\"}"},
	}
	for _, a := range []struct{ node, attrs string }{
		{"Relu@17 (%c)", `"Relu"`}, {"Sigmoid@17 (%c)", `"Sigmoid"`}, {"Tanh@17 (%c)", `"Tanh"`},
		{"HardSwish@17 (%c)", `"HardSwish"`},
		{"weir:Silu@1 (%c)", `"Silu"`},
		{"weir:Grid@1 (%c, %step, %ten)",
			`"Grid", activation_alpha=0.5, activation_beta=-10.0, activation_gamma=65525.0`},
		{"Gelu@20 (%c)", `"Gelu"`},
		{`Gelu@20 (%c) {approximate="tanh"}`, `"GeluTanh"`},
		{"LeakyRelu@17 (%c)", `"LeakyRelu", activation_alpha=0.01`},
		{"HardSigmoid@17 (%c) {alpha=0.25}",
			`"HardSigmoid", activation_alpha=0.25, activation_beta=0.5`},
		{"Clip@6 (%c) {min=-1.0, max=0.5}", `"Clip", activation_alpha=-1.0, activation_beta=0.5`},
		{"Clip@11 (%c, %lo)", `"Clip", activation_alpha=-1.0, activation_beta=3.4028235e+38`},
		{"Clip@6 (%c) {max=0.5}", `"Clip", activation_alpha=-3.4028235e+38, activation_beta=0.5`},
		{"Clip@17 (%c, _, %lo)", `"Clip", activation_alpha=-3.4028235e+38, activation_beta=-1.0`},
		{"Clip@17 (%c, %lo)", `"Clip", activation_alpha=-1.0, activation_beta=3.4028235e+38`},
	} {
		tests = append(tests, rewrite{a.node,
			c + "const %lo: float32[] = {-1}\nconst %step: float32[] = {0.5}\n" +
				"const %ten: uint16[] = {10}\n%y: float32[N,2,H,W] = " + a.node + "\noutput %y",
			"y = weir:Conv (x, w, b) {activation=" + a.attrs + "}"})
	}
	check(t, false, tests, "bias", "residual", "activation")
}

func TestClipBoundsThatVaryStay(t *testing.T) {
	g := parse(t, head+conv+`input %lo: float32[]
		%c: float32[N,2,H,W] = Conv@17 (%x, %w, %b)
		%y: float32[N,2,H,W] = Clip@17 (%c, %lo)
		output %y
		}`)
	if r := optimise(t, g, pass.Options{}); r.Changes() > 0 {
		t.Errorf("became\n%v", g)
	}
}
