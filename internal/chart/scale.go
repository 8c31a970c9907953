package chart

import (
	"math"
	"strconv"
	"strings"
)

// Axis is one axis of a chart, from Min to Max.
type Axis struct {
	Label    string
	Log      bool
	Min, Max float64
	Format   func(float64) string // of ticks; nil for Number
	Ticks    []Tick               // in place of those at 1, 2 and 5 times powers of ten
}

// Tick is a marked place of an axis.
type Tick struct {
	At   float64
	Text string
}

// alike is the part of the greater of two numbers that they differ in by no more than rounding.
const alike = 1e-9

// apart reports whether ticks can lie between two numbers: hi is greater by more than rounding, and
// both are finite.
func apart(lo, hi float64) bool {
	return hi-lo > alike*max(math.Abs(lo), math.Abs(hi)) && !math.IsInf(hi-lo, 0)
}

// span returns an axis whose ends differ and that a logarithm can be taken of.
func (a Axis) span() Axis {
	if a.Log {
		a.Min = max(a.Min, 1e-12)
	}
	if math.IsNaN(a.Min) || math.IsInf(a.Min, 0) {
		a.Min = 1
	}
	if !apart(a.Min, a.Max) {
		if a.Log {
			a.Max = 10 * a.Min
		} else {
			a.Max = a.Min + max(1, math.Abs(a.Min)/1000)
		}
	}
	return a
}

// place returns where a value lies, 0 at Min and 1 at Max, and whether it has a place.
func (a Axis) place(v float64) (float64, bool) {
	if a.Log && v <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, false
	}
	if a.Log {
		return math.Log(v/a.Min) / math.Log(a.Max/a.Min), true
	}
	return (v - a.Min) / (a.Max - a.Min), true
}

// ticks returns at most that many marked places, in ascending order.
func (a Axis) ticks(most int) []Tick {
	if a.Ticks != nil {
		return a.Ticks
	}
	at := Linear(a.Min, a.Max, most)
	if a.Log {
		at = Log(a.Min, a.Max, most)
	}
	format := a.Format
	if format == nil {
		format = Number
	}
	ticks := make([]Tick, len(at))
	for i, v := range at {
		ticks[i] = Tick{v, format(v)}
	}
	return ticks
}

// Linear returns at most that many multiples of 1, 2 or 5 times a power of ten from lo to hi, of
// the finest such step; of a finer one where there would be no two of them. There are none between
// numbers that differ by no more than rounding, or that are not finite.
func Linear(lo, hi float64, most int) []float64 {
	if !apart(lo, hi) || most < 1 {
		return nil
	}
	var finer []float64
	for k := math.Floor(math.Log10((hi-lo)/float64(most))) - 1; ; k++ {
		for _, m := range []float64{1, 2, 5} {
			step := m * math.Pow(10, k)
			var at []float64
			for n := math.Ceil(lo/step - 1e-9); n <= math.Floor(hi/step+1e-9); n++ {
				at = append(at, n*step)
			}
			switch {
			case len(at) < 2 && finer != nil:
				return finer
			case len(at) <= most:
				return at
			}
			finer = at
		}
	}
}

// Log returns at most that many numbers from lo to hi that are 1, 2 or 5 times a power of ten, or
// powers of ten only, or every other one, where that would be too many. A range too short to hold
// two of them has the ticks of [Linear].
func Log(lo, hi float64, most int) []float64 {
	if !(lo > 0 && apart(lo, hi)) || most < 1 {
		return nil
	}
	for decades := 0; ; decades++ {
		factors, every := []float64{1, 2, 5}, 1
		if decades > 0 {
			factors, every = factors[:1], decades
		}
		var at []float64
		for k := math.Floor(math.Log10(lo)) - 1; k <= math.Ceil(math.Log10(hi)); k++ {
			if math.Mod(k, float64(every)) != 0 {
				continue
			}
			for _, m := range factors {
				if v := m * math.Pow(10, k); v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
					at = append(at, v)
				}
			}
		}
		if len(at) < 2 {
			return Linear(lo, hi, most)
		}
		if len(at) <= most {
			return at
		}
	}
}

// Number prints a number to three digits, without an exponent and without zeros that say nothing.
func Number(v float64) string {
	if v == 0 {
		return "0" // of either sign
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	s := strconv.FormatFloat(v, 'f', min(decimals, 12), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
