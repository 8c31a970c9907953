package engine

import (
	"slices"
	"time"
)

// pace is what the last two transfers of a group of weights took a byte, in nanoseconds, the later
// one first; 0 where there was none. The lesser counts: whatever else goes on only adds to what a
// transfer takes, often many times that, and a way that has become slower shows in both.
type pace [2]float64

// note adds a transfer.
func (p *pace) note(bytes int64, took time.Duration) {
	*p = pace{float64(took) / float64(max(1, bytes)), p[0]}
}

// perByte returns what a byte takes, 0 where nothing is known.
func (p pace) perByte() float64 {
	if p[1] == 0 {
		return p[0]
	}
	return min(p[0], p[1])
}

// paces are those of groups of weights. The zero value knows nothing.
type paces struct {
	borders []int64 // at which the groups end
	last    []pace
	known   time.Duration // of all, by the groups before these
}

// cut has other groups from now on, if they are others.
func (p *paces) cut(borders []int64) {
	if !slices.Equal(p.borders, borders) {
		p.known, p.borders, p.last = p.whole(), borders, make([]pace, len(borders))
	}
}

// whole returns how long all groups take, those that never came at the mean of the others; 0 where
// nothing is known.
func (p *paces) whole() time.Duration {
	var came, from int64
	took := 0.0
	for i, last := range p.last {
		n := p.borders[i] - from
		if last.perByte() > 0 {
			came, took = came+n, took+last.perByte()*float64(n)
		}
		from = p.borders[i]
	}
	if came == 0 {
		return p.known
	}
	return time.Duration(took / float64(came) * float64(from))
}
