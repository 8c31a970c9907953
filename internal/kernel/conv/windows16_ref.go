package conv

import "math"

// windows16Call is windows of neighbouring results, which see the same elements, each xStep
// elements further. Of each block of channels w has the bias, block floats apart, and then weights;
// with max there are none. Where wide is not nil the results go there, as float32.
type windows16Call struct {
	x        []uint16
	y        []uint16
	wide     []float32
	w        []float32
	block    int
	offs, at []int // bytes, of elements and of their weights
	pixels   int
	xStep    int
	channels int
	max      bool
	silu     bool // instead of limits
	lo, hi   float32
	// three says that the elements are all of a window of 3 x 3, column by column, whose columns
	// are neighbours, and xStep one or two of them.
	three bool
}

// model defines a call.
func (c *windows16Call) model() {
	for i := range c.pixels {
		for ch := range c.channels {
			v := c.one(i*c.xStep+ch, ch)
			if c.wide != nil {
				c.wide[i*c.channels+ch] = v
				continue
			}
			if c.max {
				c.y[i*c.channels+ch] = uint16(math.Float32bits(v) >> 16)
			} else {
				c.y[i*c.channels+ch] = roundFlushed(v)
			}
		}
	}
}

// one is the result of the window from an element on, in a channel.
func (c *windows16Call) one(from, ch int) float32 {
	at := func(off int) float32 {
		return math.Float32frombits(uint32(c.x[from+off/2]) << 16)
	}
	if c.max {
		v := negInf
		for _, off := range c.offs {
			if x := at(off); x > v || x != x {
				v = x
			}
			if v != v {
				return math.Float32frombits(0x7fc00000)
			}
		}
		return v
	}
	w := c.w[ch/block16*c.block+inBlock16(ch%block16):]
	v := w[0]
	for i, off := range c.offs {
		v = float32(math.FMA(float64(at(off)), float64(w[block16+c.at[i]/4]), float64(v)))
	}
	if c.silu {
		return silu16(v)
	}
	return clampTo(v, c.lo, c.hi)
}
