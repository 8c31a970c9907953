package trace

import "math"

// Arg is a named value shown with an event; make one with [Int], [Float] or [String].
type Arg struct {
	key  string
	text string
	bits uint64
	kind argKind
}

type argKind uint8

const (
	textArg argKind = iota
	intArg
	floatArg
)

// Int is an argument with an integer value.
func Int(key string, v int64) Arg { return Arg{key: key, kind: intArg, bits: uint64(v)} }

// Float is an argument with a floating-point value. One that is not finite is shown as text,
// because JSON has no such numbers.
func Float(key string, v float64) Arg {
	return Arg{key: key, kind: floatArg, bits: math.Float64bits(v)}
}

// String is an argument with a text.
func String(key, v string) Arg { return Arg{key: key, kind: textArg, text: v} }
