package pass_test

import (
	"strings"
	"testing"
)

// TestAttention recognises the forms of exporters and leaves alone what only looks like one.
func TestAttention(t *testing.T) {
	head := "input %q: float32[N,5,2,4]\ninput %k: float32[N,7,2,4]\ninput %v: " +
		"float32[N,2,7,3]\ninput %mask: float32[N,1,1,7]\n" +
		"const %c: float32[] = {2}\nconst %hide: float32[1,7] = {0, 0, -3e38, 0, -3e38, 0, " +
		"0}\ninput %bias: float32[5,7]\n"
	tail := "\noutput %y"
	turned := "%qt: float32[N,2,5,4] = Transpose@17 (%q) {perm=[0,2,1,3]}\n%kt: float32[N,2,4,7] " +
		"= Transpose@17 (%k) {perm=[0,2,3,1]}\n" +
		"%s: float32[N,2,5,7] = MatMul@17 (%qt, %kt)\n"
	end := "%w: float32[N,2,5,7] = Softmax@17 (%m) {axis=-1}\n%y: float32[N,2,5,3] = MatMul@17 " +
		"(%w, %v)"
	masked := "%d: float32[N,2,5,7] = Div@17 (%s, %c)\n%m: float32[N,2,5,7] = Add@17 (%d, %mask)\n"
	tests := []struct{ name, in, want string }{
		{"BERT", turned + masked + end,
			"y = weir:Attention (q, k, v, _, mask) {scale=0.5, rows_first=[1, 1, 0, 0]}"},
		{"scaled before", strings.Replace(strings.Replace(turned, "%s:",
			"%qs: float32[N,2,5,4] = Mul@17 (%c, %qt)\n%s:", 1), "(%qt, %kt)", "(%qs, %kt)", 1) +
			strings.ReplaceAll(end, "%m)", "%s)"),
			"y = weir:Attention (q, k, v) {scale=2.0, rows_first=[1, 1, 0, 0]}"},
		{"result turned back", turned + masked + strings.Replace(end, "%y:", "%o:", 1) +
			"\n%y: float32[N,5,2,3] = Transpose@17 (%o) {perm=[0,2,1,3]}",
			"y = weir:Attention (q, k, v, _, mask) {scale=0.5, rows_first=[1, 1, 0, 1]}"},
		{"two masks", turned + strings.Replace(masked, "%m:", "%n:", 1) +
			"%m: float32[N,2,5,7] = Add@17 (%n, %bias)\n" + end,
			"y_1 = Add (mask, bias)\ny = weir:Attention (q, k, v, _, y_1) {scale=0.5, " +
				"rows_first=[1, 1, 0, 0]}"},
		{"two masks, one of which hides", turned + strings.Replace(masked, "%m:", "%n:", 1) +
			"%m: float32[N,2,5,7] = Add@17 (%n, %hide)\n" + end,
			"y = weir:Attention (q, k, v, hide_keep, mask) {scale=0.5, hidden=-3e+38, added=1, " +
				"rows_first=[1, 1, 0, 0]}"},
		{"softmax over queries", turned + masked + strings.Replace(end, "axis=-1", "axis=2", 1),
			""},
		{"scores read elsewhere", turned + masked + end + "\n%z: float32[N,2,5,7] = Relu@17 " +
			"(%s)\noutput %z", ""},
		{"sum that is no mask",
			turned + strings.Replace(masked, "Add@17 (%d, %mask)", "Add@17 (%mask, %mask)", 1) +
				end, ""},
	}
	var good []rewrite
	for _, tt := range tests {
		if tt.want != "" {
			good = append(good, rewrite{tt.name, head + tt.in + tail, tt.want})
			continue
		}
		g := parse(t, "graph \"g\" {\nopset \"\" 17\n"+head+tt.in+tail+"}")
		if r := optimise(t, g, only("attention")); r.Changes() > 0 {
			t.Errorf("%s: became\n%v", tt.name, g)
		}
	}
	check(t, false, good, "attention")
}
