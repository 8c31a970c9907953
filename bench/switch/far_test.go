package main

import (
	"strings"
	"testing"
	"time"
)

// TestUnevenBusIsRefused: nothing is said of a bus whose copies end late beside a run, or slow it,
// whatever they do alone, or weir's copies in a switch do; and of any other it is, though it is not
// played quite.
func TestUnevenBusIsRefused(t *testing.T) {
	const least = 2.0 // so that 0.1 may be late, and 0.5 slower
	for name, c := range map[string]struct {
		lateSwitched, lateBeset, lateAlone, beset []float64
		why                                       string
	}{
		"even": {[]float64{0, 0}, []float64{0.02, 0.03}, []float64{0, 0},
			[]float64{10, 20}, ""},
		"almost":          {nil, []float64{0.1, 0.1}, nil, []float64{10.5, 20.5}, ""},
		"late":            {nil, []float64{0.11, 0.11}, nil, []float64{10, 20}, "0.110 ms late"},
		"late once":       {nil, []float64{5, 0, 0}, nil, []float64{10, 20, 30}, ""},
		"slow":            {nil, []float64{0, 0}, nil, []float64{10.6, 20.6}, "0.600 ms slower"},
		"late by weir":    {[]float64{5, 5}, []float64{0, 0}, nil, []float64{10, 20}, ""},
		"late alone only": {nil, []float64{0, 0}, []float64{5, 5}, []float64{10, 20}, ""},
	} {
		b := &bench{results: results{Figures: map[string]float64{}}}
		f := &farther{resident: []float64{10, 20, 30}, beset: c.beset, lateBeset: c.lateBeset,
			lateSwitched: c.lateSwitched, lateAlone: c.lateAlone}
		if why := f.uneven(b, "x", least); (why == "") != (c.why == "") ||
			!strings.Contains(why, c.why) {
			t.Errorf("%s: %q, want %q", name, why, c.why)
		}
		if len(b.Figures) != 4 {
			t.Errorf("%s: measured was %v", name, b.Figures)
		}
	}
}

// TestLatestCopy: of the copies of a round the latest counts, and of each round anew.
func TestLatestCopy(t *testing.T) {
	f := &farther{}
	f.ended(10, time.Millisecond)
	f.ended(20, 3*time.Millisecond)
	f.ended(30, 2*time.Millisecond)
	if copies, late := f.came(); len(copies) != 3 || copies[1].bytes != 20 || late != 3 {
		t.Errorf("copies %v, the latest by %v ms", copies, late)
	}
	if copies, late := f.came(); len(copies) != 0 || late != 0 {
		t.Errorf("then copies %v, the latest by %v ms", copies, late)
	}
}
