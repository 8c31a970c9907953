package oip

import (
	"math"
	"strconv"
)

// number is one of JSON's numbers: (-1 if negative) · digits · 10^exponent where exact says so.
type number struct {
	text     []byte
	digits   uint64
	exponent int
	negative bool
	exact    bool // digits and exponent are all that the text says
	integer  bool // written without a fraction and an exponent
}

// maxDigits is how many decimal digits always fit a uint64.
const maxDigits = 19

// number reads a number, which is valid until the next is read.
func (c *cursor) number() (*number, error) {
	n := &c.last
	*n = number{exact: true, integer: true}
	c.peek()
	begin := c.at
	if c.at < len(c.b) && c.b[c.at] == '-' {
		n.negative = true
		c.at++
	}
	first := c.at
	places := c.run(n, 0)
	if places == 0 || places > 1 && c.b[first] == '0' {
		return n, c.wrong("a value should follow, such as 1.5")
	}
	if c.at < len(c.b) && c.b[c.at] == '.' {
		c.at++
		fraction := c.run(n, places)
		if fraction == 0 {
			return n, c.wrong("a digit should follow the point")
		}
		n.integer, n.exponent = false, -fraction
	}
	if c.at < len(c.b) && c.b[c.at]|' ' == 'e' {
		if err := c.power(n); err != nil {
			return n, err
		}
	}
	n.text = c.b[begin:c.at]
	return n, nil
}

// run reads decimal digits after those places that were read, and returns how many.
func (c *cursor) run(n *number, places int) int {
	digits, length := n.digits, 0
	for _, b := range c.b[c.at:] {
		d := b - '0'
		if d > 9 {
			break
		}
		digits = digits*10 + uint64(d)
		length++
	}
	n.digits = digits
	if length+places > maxDigits {
		n.exact = false
	}
	c.at += length
	return length
}

// power reads an exponent.
func (c *cursor) power(n *number) error {
	n.integer = false
	c.at++
	down := false
	if c.at < len(c.b) && (c.b[c.at] == '+' || c.b[c.at] == '-') {
		down = c.b[c.at] == '-'
		c.at++
	}
	var e number
	e.exact = true
	if c.run(&e, 0) == 0 {
		return c.wrong("a digit should follow the e")
	}
	if !e.exact || e.digits > 1000 {
		n.exact = false
		return nil
	}
	if down {
		n.exponent -= int(e.digits)
	} else {
		n.exponent += int(e.digits)
	}
	return nil
}

// powers are the powers of ten that a float64 holds exactly.
var powers = [32]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13,
	1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// quick returns the float64 nearest to n where one division or product of numbers that are exact
// gives it (Clinger, "How to Read Floating Point Numbers Accurately", PLDI 1990, section 5).
func (n *number) quick() (float64, bool) {
	if !n.exact || n.digits >= 1<<53 || n.exponent < -22 || n.exponent > 22 {
		return 0, false
	}
	f := float64(n.digits)
	if n.exponent < 0 {
		f /= powers[-n.exponent]
	} else {
		f *= powers[n.exponent]
	}
	if n.negative {
		f = -f
	}
	return f, true
}

// float64 returns the nearest float64; ok is false where n is out of range.
func (n *number) float64() (f float64, ok bool) {
	if f, ok := n.quick(); ok {
		return f, true
	}
	f, err := strconv.ParseFloat(string(n.text), 64)
	return f, err == nil
}

// float32 returns the nearest float32; ok is false where n is out of range.
func (n *number) float32() (f float32, ok bool) {
	if wide, ok := n.quick(); ok {
		if f, ok := narrow(wide); ok {
			return f, true
		}
	}
	wide, err := strconv.ParseFloat(string(n.text), 32)
	return float32(wide), err == nil
}

// below are the bits of a float64's fraction that a float32 has not.
const below = 1<<29 - 1

// narrow returns the float32 nearest to a number from the float64 nearest to it; ok is false where
// that does not tell. Rounding twice is rounding once unless the first ends half-way between two
// float32: rounding is monotone, and half-ways are float64 themselves.
func narrow(f float64) (nearest float32, ok bool) {
	a := math.Abs(f)
	ok = a == 0 || a >= 0x1p-126 && a < 0x1p127 && math.Float64bits(f)&below != 1<<28
	return float32(f), ok
}

// signed returns n as an integer of so many bits; ok is false where it is none.
func (n *number) signed(bits int) (v int64, ok bool) {
	if !n.integer || !n.exact {
		return 0, false
	}
	limit := uint64(1) << (bits - 1)
	if n.negative {
		return -int64(n.digits), n.digits <= limit
	}
	return int64(n.digits), n.digits < limit
}

// unsigned is signed for types without a sign.
func (n *number) unsigned(bits int) (v uint64, ok bool) {
	if !n.integer || n.negative && n.digits != 0 {
		return 0, false
	}
	if !n.exact {
		v, err := strconv.ParseUint(string(n.text), 10, bits)
		return v, err == nil
	}
	return n.digits, bits == 64 || n.digits>>bits == 0
}

// value is n as a parameter: an int64 where it is one.
func (n *number) value() (any, bool) {
	if v, ok := n.signed(64); ok {
		return v, true
	}
	return n.float64()
}
