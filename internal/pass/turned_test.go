package pass_test

import "testing"

func TestTurned(t *testing.T) {
	conv := func(perm, steps, group string) string {
		return "input %g: float32[1,4,3,5]\ninput %w: float32[4,4,3,1]\n" +
			"const %s: int64[2] = {-1, -1}\nconst %e: int64[2] = {-9223372036854775808, " +
			"-9223372036854775808}\nconst %a: int64[2] = {2, 3}\nconst %d: int64[2] = " + steps +
			"\n%k: float32[...] = Slice@17 (%w, %s, %e, %a, %d)\n%t: float32[...] = " +
			"Transpose@17 (%k) {perm=" + perm + "}\n%y: float32[...] = Conv@17 (%g, %t) " +
			"{group=" + group + ", pads=[2,0,2,0]}\noutput %y"
	}
	check(t, false, []rewrite{
		{"turned", conv("[1,0,2,3]", "{-1, -1}", "1"),
			"y = weir:Conv (g, w) {turned=1, group=1, pads=[2, 0, 2, 0]}"},
		{"axes changed", conv("[1,0,3,2]", "{-1, -1}", "1"), `k = Slice (w, s, e, a, d)
t = Transpose (k) {perm=[1, 0, 3, 2]}
y = Conv (g, t) {group=1, pads=[2, 0, 2, 0]}`},
		{"every other", conv("[1,0,2,3]", "{-2, -1}", "1"), `k = Slice (w, s, e, a, d)
t = Transpose (k) {perm=[1, 0, 2, 3]}
y = Conv (g, t) {group=1, pads=[2, 0, 2, 0]}`},
	}, "turned", "dead")
}
