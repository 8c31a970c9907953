package conv

import (
	"math"

	"github.com/weirgpu/weir/internal/kernel/vec"
)

// NHWCGrid says what becomes of the sums of each output channel, as [vec.Requantization] does:
// (sum + add) · scale on a grid of bytes and then, where there is a second stage, that times scale
// plus bias on another.
type NHWCGrid struct {
	at                         func(c int) int // where the kernels want the numbers of a channel
	repeat, channels           int             // how often, so many channels apart
	add                        []int32
	scale, thenScale, thenBias []float32
	to, then                   vec.Bytes
	twice                      bool
	large                      bool // whether a scale is not below 1
}

func newNHWCGrid(channels, block int, at func(c int) int) *NHWCGrid {
	n := (channels + block - 1) / block * block
	return &NHWCGrid{at: at, repeat: 1, add: make([]int32, n), scale: make([]float32, n),
		thenScale: make([]float32, n), thenBias: make([]float32, n)}
}

// Set sets the first stage of channel c, which is the only one unless [NHWCGrid.Then] adds another
// afterwards.
func (g *NHWCGrid) Set(c int, add int32, scale float32, to vec.Bytes) {
	g.to = to
	for k := range g.repeat {
		i := g.at(c + k*g.channels)
		g.add[i], g.scale[i], g.thenScale[i], g.thenBias[i] = add, scale, 1, 0
	}
	if !(scale > -1 && scale < 1) {
		g.large = true
	}
}

// Then sets the second stage of channel c, and there must be one for all channels or for none. Its
// results must be [InRange].
func (g *NHWCGrid) Then(c int, scale, bias float32, to vec.Bytes) {
	g.then, g.twice = to, true
	for k := range g.repeat {
		i := g.at(c + k*g.channels)
		g.thenScale[i], g.thenBias[i] = scale, bias
	}
}

// InRange reports whether a byte times scale plus bias stays within 32-bit integers.
func InRange(scale, bias float32) bool {
	return 256*math.Abs(float64(scale))+math.Abs(float64(bias)) < 1<<30
}

// pixelScale is the part of an NHWCGrid that one call needs; the assembly reads it.
type pixelScale struct {
	add                        *int32
	scale, thenScale, thenBias *float32
	lo, hi                     float32
	zero                       float32 // of the first of two stages
	// the zero point of the result as an unsigned byte, in both halves
	offset uint32
	flip   uint32 // makes signed bytes of unsigned ones
	twice  uint32
}

// from returns what channels from number c in the kernels' order on need. The kernels limit sums
// only before a second stage; where a scale is so large that scaled sums may leave the integers,
// that is one that changes nothing.
func (g *NHWCGrid) from(c int) pixelScale {
	s := pixelScale{add: &g.add[c], scale: &g.scale[c], thenScale: &g.thenScale[c],
		thenBias: &g.thenBias[c], zero: float32(g.to.Zero)}
	s.lo, s.hi = g.to.Limits()
	last := g.to
	switch {
	case g.twice:
		last, s.twice = g.then, 1
	case g.large:
		last, s.twice = vec.Bytes{Signed: g.to.Signed}, 1
	}
	if last.Signed {
		last.Zero, s.flip = last.Zero+128, 0x80808080
	}
	s.offset = uint32(last.Zero) * 0x00010001
	return s
}
