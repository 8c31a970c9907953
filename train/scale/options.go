package scale

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// ErrOptions is the kind of error about settings that make no scale.
var ErrOptions = errors.New("bad loss scale")

// Kind is a rule by which a scale changes from step to step.
type Kind string

// The kinds.
const (
	// None is no scale: nothing is added to a graph. The empty kind stands for it.
	None Kind = "none"
	// Constant never changes the scale. Steps whose gradients overflow are skipped.
	Constant Kind = "constant"
	// Torch is the rule of torch.amp.GradScaler: the scale grows after so many steps without an
	// overflow, and shrinks at each overflow, which skips the step.
	Torch Kind = "torch"
	// Auto keeps the largest power of two that leaves the greatest gradient of recent steps a
	// margin below what the format holds. The margin widens at each overflow, which says that
	// gradients of values are so much greater than those of weights, which is all that is seen; so
	// after the first steps none is skipped.
	Auto Kind = "auto"
)

// Options are a rule with its numbers, for each of which 0 stands for its default.
type Options struct {
	Kind Kind
	// Init is the scale of the first step: 65536, as PyTorch's.
	Init float64
	// Growth, Backoff and Interval are those of Torch: 2, 0.5 and 2000 steps.
	Growth, Backoff float64
	Interval        int
	// Largest is the greatest number of the format that gradients are rounded to: 65504, that of
	// float16. Margin is how many times the greatest gradient Auto leaves below it at first: 16.
	// Decay is what the memory of that gradient keeps of itself in a step: 0.99.
	Largest, Margin, Decay float64
}

// Parse reads a setting: the name of a kind, but for constant, or a number, which is a constant
// scale.
func Parse(text string) (Options, error) {
	switch k := Kind(text); k {
	case "", None, Torch, Auto:
		return Options{Kind: k}, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Options{}, fmt.Errorf("%w: %q: want %s, %s, %s or a number", ErrOptions, text, None,
			Torch, Auto)
	}
	o := Options{Kind: Constant, Init: v}
	if v == 0 {
		o.Init = math.NaN()
	}
	_, err = o.complete()
	return o, err
}

// limits bound what Auto makes of a scale.
const (
	leastScale = 0x1p-24
	mostScale  = 0x1p24
	mostMargin = 0x1p16
)

// complete fills in defaults and refuses what makes no scale.
func (o Options) complete() (Options, error) {
	for _, d := range []struct {
		v  *float64
		by float64
	}{{&o.Init, 0x1p16}, {&o.Growth, 2}, {&o.Backoff, 0.5}, {&o.Largest, 65504}, {&o.Margin, 16},
		{&o.Decay, 0.99}} {
		if *d.v == 0 {
			*d.v = d.by
		}
	}
	if o.Interval == 0 {
		o.Interval = 2000
	}
	switch o.Kind {
	case "":
		o.Kind = None
	case None, Constant, Torch, Auto:
	default:
		return o, fmt.Errorf("%w: kind %q: want %s, %s, %s or %s", ErrOptions, o.Kind, None,
			Constant, Torch, Auto)
	}
	switch init := float32(o.Init); {
	case !(init > 0) || math.IsInf(float64(init), 0):
		return o, fmt.Errorf("%w: a scale of %g: want a positive number of float32", ErrOptions,
			o.Init)
	case !(o.Growth >= 1) || !(o.Backoff > 0 && o.Backoff <= 1) || o.Interval < 1:
		return o, fmt.Errorf("%w: growth %g, back-off %g, interval %d: want at least 1, above 0 "+
			"and at most 1, and at least 1", ErrOptions, o.Growth, o.Backoff, o.Interval)
	case !(o.Largest > 0) || !(o.Margin >= 1) || !(o.Decay > 0 && o.Decay <= 1):
		return o, fmt.Errorf("%w: largest %g, margin %g, decay %g: want above 0, at least 1, and "+
			"above 0 and at most 1", ErrOptions, o.Largest, o.Margin, o.Decay)
	}
	return o, nil
}
