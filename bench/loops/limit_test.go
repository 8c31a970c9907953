package main

import (
	"errors"
	"fmt"
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
			OfLimit: map[string]float64{}, OfUnits: map[string]float64{},
			Waits: map[string]string{}, text: text, multiplies: map[string]int{"fmla": 1}}
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

// TestQueues reads what llvm-mca says of queues, and holds what the table says of Apple's
// processor: that it is a model of an older one, whose multiplications wait 8 cycles for a factor.
func TestQueues(t *testing.T) {
	m, err := newModel()
	if errors.Is(err, errTools) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	// four chains that begin anew in each round: what waits fills the queue of vectors
	text := ""
	for range 8 {
		for c := range 4 {
			text += fmt.Sprintf("fmla\tv%d.4s, v%[1]d.4s, v31.4s\n", c)
		}
	}
	text += "ldp\tq0, q1, [x1]\nldp\tq2, q3, [x1, #32]\n"
	m1, err := m.cycles("apple-m1", text)
	if err != nil {
		t.Fatal(err)
	}
	if m1.queue != "queue CyUnitVM of 32" || m1.full < 0.85 || m1.units > 0.8*m1.cycles {
		t.Errorf("the fullest queue is %s, %v full; units %v of %v cycles", m1.queue, m1.full,
			m1.units, m1.cycles)
	}
	if a7, err := m.cycles("apple-a7", text); err != nil || a7 != m1 {
		t.Errorf("apple-a7 uses %+v, apple-m1 %+v, %v", a7, m1, err)
	}
	c, err := m.latency("apple-m1", "fmla v0.4s, v0.4s, v31.4s")
	if err != nil || c < 7.5 || c > 9 {
		t.Errorf("a multiplication takes %v cycles, %v", c, err)
	}
}
