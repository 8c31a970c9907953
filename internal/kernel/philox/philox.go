// Package philox draws random numbers from counters: number i of a stream is a function of the
// stream and of i alone, so that any part of it can be drawn by anybody, in any order, again.
//
// Meet first: [Drop], the loop of weir:Dropout, whose definition is in package internal/op.
//
// The generator is Philox4x32-10 of Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3
// (2011), which PyTorch and TensorFlow draw from on GPUs.
//
// Concurrency: nothing here has state.
//
// What it refuses: nothing.
package philox

import "math/bits"

// Multipliers of a round, and what is added to the key after it.
const (
	multiplierA, multiplierB = 0xd2511f53, 0xcd9e8d57
	weylA, weylB             = 0x9e3779b9, 0xbb67ae85
	rounds                   = 10
)

// Stream is a sequence of numbers.
type Stream struct {
	Seed uint64
	Node uint32
	Step uint64
}

// Of returns numbers 4·block to 4·block+3 of the stream.
func (s Stream) Of(block uint32) (a, b, c, d uint32) {
	a, b, c, d = block, s.Node, uint32(s.Step), uint32(s.Step>>32)
	k, l := uint32(s.Seed), uint32(s.Seed>>32)
	for range rounds {
		ph, pl := bits.Mul32(multiplierA, a)
		qh, ql := bits.Mul32(multiplierB, c)
		a, b, c, d = qh^b^k, ql, ph^d^l, pl
		k, l = k+weylA, l+weylB
	}
	return a, b, c, d
}

// Drop writes element i of x, times scale, to element i of y where number from+i of the stream is
// not below a border, and 0 elsewhere. From is a multiple of 4; y may be x.
func Drop(y, x []float32, s Stream, from int, border uint32, scale float32) {
	block := uint32(from / 4)
	keep := func(v float32, n uint32) float32 {
		if n < border {
			return 0
		}
		return v * scale
	}
	for ; len(x) >= 4; x, y = x[4:], y[4:] {
		a, b, c, d := s.Of(block)
		x, y := x[:4:4], y[:4:4]
		y[0], y[1], y[2], y[3] = keep(x[0], a), keep(x[1], b), keep(x[2], c), keep(x[3], d)
		block++
	}
	if len(x) > 0 {
		a, b, c, d := s.Of(block)
		last := [4]uint32{a, b, c, d}
		for i, v := range x {
			y[i] = keep(v, last[i])
		}
	}
}
