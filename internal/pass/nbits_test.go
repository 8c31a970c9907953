package pass_test

import (
	"strings"
	"testing"
)

func TestNBits(t *testing.T) {
	body := `input %x: float32[N,32]
		const %b: uint8[2,1,16] = {1, 35, 69, 103, 137, 171, 205, 239, 1, 35, 69, 103, 137, 171, 205, 239, 254, 220, 186, 152, 118, 84, 50, 16, 254, 220, 186, 152, 118, 84, 50, 16}
		const %s: float32[2,1] = {0.5, 0.25}
		const %k: float32[2] = {1, -1}
		%p: float32[N,2] = com.microsoft:MatMulNBits@1 (%x, %b, %s) {K=32, N=2, block_size=32}
		%q: float32[N,2] = Add@17 (%k, %p)
		%y: float32[N,2] = Tanh@17 (%q)
		output %y`
	check(t, false, []rewrite{
		{"as it is", body, "p = weir:MatMulNBits (x, b, s) {K=32, N=2, block_size=32}\nq = Add " +
			"(k, p)\ny = Tanh (q)"},
	}, "nbits")
	check(t, false, []rewrite{
		{"with bias and activation", body,
			`y = weir:MatMulNBits (x, b, s, _, _, k) {K=32, N=2, block_size=32, activation="Tanh"}`},
	}, "nbits", "bias", "activation")
	level := strings.Replace(body, "block_size=32}", "block_size=32, accuracy_level=4}", 1)
	g := parse(t, head+level+"\n}")
	optimise(t, g, only("nbits"))
	if got := short(g); !strings.Contains(got,
		"weir:MatMulNBits (x, b, s) {K=32, N=2, block_size=32, accuracy_level=4}") {
		t.Errorf("of accuracy level 4: became\n%v", got)
	}
	reals := strings.NewReplacer("const %s", "const %z: float32[2,1] = {7.5, 8}\n\t\tconst %s",
		"%b, %s)", "%b, %s, %z)").Replace(level)
	g = parse(t, head+reals+"\n}")
	optimise(t, g, only("nbits"))
	if got := short(g); !strings.Contains(got,
		"weir:MatMulNBits (x, b, s, z) {K=32, N=2, block_size=32}") {
		t.Errorf("of accuracy level 4, with zero points of floats: became\n%v", got)
	}
	g = parse(t, head+strings.Replace(body, "const %s: float32[2,1] = {0.5, 0.25}",
		"input %s: float32[2,1]", 1)+"\n}")
	if r := optimise(t, g, only("nbits")); r.Changes() > 0 {
		t.Errorf("scales that are not constant: became\n%v", g)
	}
}
