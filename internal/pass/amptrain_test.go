package pass_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/pass"
)

// TestAmpCancel: casts that undo each other go, and those that round stay.
func TestAmpCancel(t *testing.T) {
	check(t, true, []rewrite{
		{"widened and narrowed", `input %x: float32[3]
			%a = Cast@13 (%x) {to=10}
			%b = Cast@13 (%a) {to=1}
			%c = Cast@13 (%b) {to=10}
			%d = Cast@13 (%c) {to=1}
			output %d`, "a = Cast (x) {to=10}\nd = Cast (a) {to=1}"},
		{"narrowed and widened", `input %x: float32[3]
			%a = Cast@13 (%x) {to=16}
			%y = Cast@13 (%a) {to=1}
			output %y`, "a = Cast (x) {to=16}\ny = Cast (a) {to=1}"},
		{"to another type", `input %x: float32[3]
			%a = Cast@13 (%x) {to=10}
			%b = Cast@13 (%a) {to=1}
			%c = Cast@13 (%b) {to=16}
			%y = Cast@13 (%c) {to=1}
			output %y`, "a = Cast (x) {to=10}\nb = Cast (a) {to=1}\nc = Cast (b) {to=16}\n" +
			"y = Cast (c) {to=1}"},
	}, "ampcancel", "dead")
}

// chain is a step of training: two products, one of the results of the other, what their gradients
// read again, and the mark.
const chain = head + `opset "weir" 1
	input %x: float32[64,64]
	input %p: float32[64,64]
	input %q: float32[64,64]
	input %scale: float32[]
	const %table: float32[2,2] = {1, 2, 3, 4}
	input %rows: int64[64,64]
	%a = MatMul@13 (%x, %p)
	%b = Tanh@13 (%a)
	%s = LogSoftmax@13 (%a)
	%e = Sigmoid@13 (%x)
	%c = MatMul@13 (%b, %q)
	%f1 = Exp@13 (%c)
	%f2 = Exp@13 (%f1)
	%f3 = Exp@13 (%f2)
	%f4 = Exp@13 (%f3)
	%g1 = Mul@14 (%f4, %b)
	%g2 = Mul@14 (%g1, %s)
	%g3 = Mul@14 (%g2, %e)
	%g4 = Transpose@13 (%b)
	%dq = MatMul@13 (%g4, %g3)
	%y, %m = weir:Unscale@1 (%dq, %scale)
	%z = Mul@14 (%y, %a)
	%o = MatMul@13 (%y, %z)
	output %o
}`

// TestAmpTraining holds what each part makes of a step, each switched off alone, and how it is
// explained.
func TestAmpTraining(t *testing.T) {
	names := []string{"amp", "ampround", "ampcancel", "ampsave"}
	run := func(p pass.Precision, off ...string) (string, *pass.AmpReport) {
		g := parse(t, chain)
		o := only(slices.DeleteFunc(append([]string{"cse", "dead"}, names...),
			func(n string) bool { return slices.Contains(off, n) })...)
		o.Precision = p
		optimise(t, g, o)
		return g.String(), pass.Amp(g, p, able)
	}
	count := func(text, what string) int { return strings.Count(text, what) }
	for _, tc := range []struct {
		precision           pass.Precision
		off                 string
		marked, down, saved int
	}{
		{pass.FP32, "", 0, 0, 0},
		// b alone waits: it comes down from a product, and its gradients read it twice
		{pass.BF16, "", 3, 1, 2},
		{pass.BF16, "ampsave", 3, 0, 0},
		{pass.BF16, "amp", 0, 0, 0},
		{pass.BF16, "ampround", 3, 1, 2},
		// operands and results of three products, b of two of them
		{pass.Auto, "", 3, 1, 2},
		{pass.FP16, "", 3, 9, 2},
		{pass.FP16, "amp", 3, 9, 2},
		{pass.FP16, "ampsave", 3, 9, 0},
		{pass.FP16, "ampround", 0, 0, 0},
	} {
		text, r := run(tc.precision, tc.off)
		marked := count(text, `precision="`)
		down := count(text, "to=10") + count(text, "to=16")
		if saved := count(text, "_saved"); marked != tc.marked || down != tc.down ||
			saved != tc.saved {
			t.Errorf("%s without %q: %d products, %d casts to 16 bits, %d values widened; want "+
				"%d, %d, %d\n%s", tc.precision, tc.off, marked, down, saved, tc.marked, tc.down,
				tc.saved, text)
		}
		chosen, behind := 0, 0
		for _, c := range r.Nodes {
			if c.Chosen {
				chosen++
			}
			if strings.Contains(c.Why, "unscale mark") {
				behind++
			}
		}
		if chosen != tc.marked || behind != 3 {
			t.Errorf("%s without %q: the report has %d products in 16 bits, %d nodes behind the "+
				"mark", tc.precision, tc.off, chosen, behind)
		}
		why, kept := map[string]string{}, ""
		for _, s := range r.Saved {
			if s.Bytes != 2*64*64 || s.Reader == "" || s.Why == "" {
				t.Errorf("%s without %q: saved %+v", tc.precision, tc.off, s)
			}
			if why[s.Value] = s.Why; s.Kept {
				kept += s.Value
			}
		}
		if kept != strings.Repeat("b", min(1, tc.saved)) {
			t.Errorf("%s without %q: %q is kept in 16 bits", tc.precision, tc.off, kept)
		}
		for value, want := range map[string]string{"a": "unscale mark", "s": "does not come down",
			"e": "does not come down"} {
			if tc.precision != pass.FP32 && !strings.Contains(why[value], want) {
				t.Errorf("%s without %q: %s stays wide: %q", tc.precision, tc.off, value,
					why[value])
			}
		}
	}
}
