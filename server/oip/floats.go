package oip

import "encoding/binary"

// float reads a number that is written as most are: few digits, perhaps with a point, no exponent.
// Where it is not, ok is false and nothing is read. [cursor.number] reads whatever this does, to
// the same value.
func (c *cursor) float() (f float32, ok bool) {
	b := c.b[c.at:]
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	digits, whole := digitsOf(b, 0)
	if whole == 0 || whole > 1 && b[0] == '0' {
		return 0, false
	}
	rest, places := b[whole:], 0
	if len(rest) > 0 && rest[0] == '.' {
		digits, places = digitsOf(rest[1:], digits)
		if places == 0 {
			return 0, false
		}
		rest = rest[1+places:]
	}
	if whole+places > maxDigits || digits >= 1<<53 || len(rest) > 0 && rest[0]|' ' == 'e' {
		return 0, false
	}
	wide := float64(digits) / powers[places]
	if negative {
		wide = -wide
	}
	if f, ok = narrow(wide); ok {
		c.at = len(c.b) - len(rest)
	}
	return f, ok
}

// digitsOf puts the decimal digits at the front of b behind those of before, and counts them.
func digitsOf(b []byte, before uint64) (digits uint64, count int) {
	digits = before
	for len(b)-count >= 8 {
		v, ok := eight(binary.LittleEndian.Uint64(b[count:]))
		if !ok {
			break
		}
		digits = digits*100_000_000 + v
		count += 8
	}
	for _, d := range b[count:] {
		if d -= '0'; d > 9 {
			break
		}
		digits = digits*10 + uint64(d)
		count++
	}
	return digits, count
}

// eight reads eight characters, the first in the lowest byte, as a number; ok is false where one is
// no digit (Lemire, "Quickly parsing eight digits", 2018: pairs, fours and eights by one product
// each).
func eight(chars uint64) (v uint64, ok bool) {
	const zeros, carry, high = 0x3030303030303030, 0x0606060606060606, 0xf0f0f0f0f0f0f0f0
	if chars&high != zeros || (chars+carry)&high != zeros {
		return 0, false
	}
	chars -= zeros
	chars = chars*10 + chars>>8
	const mask = 0x000000ff000000ff
	return ((chars&mask)*(100+1_000_000<<32) + (chars>>16&mask)*(1+10_000<<32)) >> 32, true
}
