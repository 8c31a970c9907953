package main

import (
	"errors"
	"testing"
)

// TestWhatIsCarriedFromRoundToRound finds the registers to which a loop adds, and not those that it
// writes anew.
func TestWhatIsCarriedFromRoundToRound(t *testing.T) {
	const text = "ldp\tq26, q27, [x3]\n" +
		"fmla\tv0.4s, v26.4s, v24.s[0]\n" +
		"fmla\tv1.4s, v27.4s, v24.s[0]\n" +
		"fmla\tv0.4s, v26.4s, v24.s[1]\n" +
		"fmul\tv3.4s, v26.4s, v27.4s\n" +
		"fmla\tv3.4s, v26.4s, v24.s[1]\n" + // begins with the product
		"fmla\tv27.4s, v0.4s, v24.s[1]\n" + // with what was loaded
		"fadd\tv5.4s, v5.4s, v3.4s\n" +
		"add\tx3, x3, #32\n" +
		"stp\tq3, q27, [x0]\n"
	got := carried(text)
	want := map[string]chain{"fmla": {"fmla\tv0.4s, v26.4s, v24.s[1]", 2},
		"fadd": {"fadd\tv5.4s, v5.4s, v3.4s", 1}}
	if len(got) != len(want) {
		t.Errorf("chains %v", got)
	}
	for name, c := range want {
		if got[name] != c {
			t.Errorf("chain of %s: %v, want %v", name, got[name], c)
		}
	}
}

// TestLimits holds that a chain is its own limit, and divisions are that of what they keep busy.
func TestLimits(t *testing.T) {
	m, err := newModel()
	if errors.Is(err, errTools) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"fmla\tv0.4s, v30.4s, v31.4s\nfmla\tv0.4s, v30.4s, v31.4s\n",
		"fdiv\tv0.4s, v30.4s, v31.4s\nfadd\tv1.4s, v30.4s, v31.4s\n",
	} {
		l := &loop{Cycles: map[string]float64{}, Share: map[string]float64{},
			OfLimit: map[string]float64{}, text: text, multiplies: map[string]int{"fmla": 1}}
		if err := l.measure(m, "neoverse-n1"); err != nil || l.OfLimit["neoverse-n1"] < 0.95 ||
			l.Share["neoverse-n1"] > 0.5 {
			t.Errorf("%q: %v of its limit, %v of the multipliers, %v", text, l.OfLimit, l.Share,
				err)
		}
	}
	if s := sharesOf([]float64{0.9, 0.84, 1}); s.Worst != 0.84 || s.Median != 0.9 || s.hold() {
		t.Errorf("0.84, 0.9 and 1 are %+v", s)
	}
}
