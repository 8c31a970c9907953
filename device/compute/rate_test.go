package compute

import (
	"sync"
	"testing"
)

// TestRates holds that a rate is measured once, by whoever is first, to the nearest quarter; that
// one which was kept is not measured, and never replaces one that is known; and that only what was
// measured is to be kept.
func TestRates(t *testing.T) {
	measured := 0
	r := RateOf(func() float64 { measured++; return 1.9 })
	if r.Fresh() != "" || measured != 0 {
		t.Errorf("before: %q, measured %d times", r.Fresh(), measured)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if x := r.Times(); x != 2 {
				t.Errorf("a rate of %v", x)
			}
		})
	}
	all.Wait()
	r.Restore("3")
	if measured != 1 || r.Fresh() != "2" || r.Times() != 2 {
		t.Errorf("measured %d times, %v, to be kept %q", measured, r.Times(), r.Fresh())
	}
	for text, want := range map[string]float64{"1.25": 1.25, "0.25": 0.25, "64": 64, "": 1, "x": 1,
		"0": 1, "-2": 1, "NaN": 1, "+Inf": 1, "65": 1, "1e300": 1} {
		k := RateOf(func() float64 { return 1.1 })
		k.Restore(text)
		if k.Times() != want || (k.Fresh() != "") != (want == 1) {
			t.Errorf("kept %q: %v, to be kept %q", text, k.Times(), k.Fresh())
		}
	}
	for measured, want := range map[float64]float64{0: 0.25, 0.49: 0.5, 1.12: 1, 1.13: 1.25,
		1e9: 64} {
		if x := RateOf(func() float64 { return measured }).Times(); x != want {
			t.Errorf("measured %v: %v, want %v", measured, x, want)
		}
	}
	var none *Rate
	none.Restore("3")
	if none.Times() != 2 || none.Fresh() != "" {
		t.Error("no rate is 2")
	}
}
