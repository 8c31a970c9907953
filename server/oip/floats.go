package oip

import (
	"encoding/binary"
	"math/bits"
)

// within is how many bytes [float] looks at, at most.
const within = 32

// float reads the number at the front of b that is written as most are: few digits, perhaps with a
// point, no exponent, and not among the last bytes of b. It returns its length too; 0 where it is
// none of those. [cursor.number] reads whatever this does, to the same value.
func float(b []byte) (f float32, length int) {
	if len(b) < within {
		return 0, 0
	}
	at := 0
	if b[0] == '-' {
		at = 1
	}
	chars := binary.LittleEndian.Uint64(b[at:])
	whole := digitsOf(chars)
	if whole-1 > 6 || whole > 1 && b[at] == '0' { // none or eight
		return 0, 0
	}
	digits, places := number8(chars, whole), uint(0)
	at += int(whole)
	if b[at] == '.' {
		at++
		chars = binary.LittleEndian.Uint64(b[at:])
		first := digitsOf(chars)
		// behind the first eight; where there are fewer, none
		rest := binary.LittleEndian.Uint64(b[at+int(first):])
		second := digitsOf(rest)
		if places = first + second; first == 0 || whole+places > maxDigits {
			return 0, 0
		}
		digits = digits*tens[first] + number8(chars, first)
		digits = digits*tens[second] + number8(rest, second)
		at += int(places)
	}
	next := b[at]
	if digits >= 1<<53 || places == 16 || next|' ' == 'e' {
		return 0, 0
	}
	wide := float64(digits) / powers[places]
	if b[0] == '-' {
		wide = -wide
	}
	f, ok := narrow(wide)
	if !ok {
		return 0, 0
	}
	return f, at
}

// tens are powers of ten.
var tens = [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

const zeros = 0x3030303030303030

// digitsOf returns how many of eight characters, the first in the lowest byte, are digits before
// one is none.
func digitsOf(chars uint64) uint {
	const carry, high = 0x0606060606060606, 0xf0f0f0f0f0f0f0f0
	// a carry into the next byte comes from what is no digit
	other := (chars&high ^ zeros) | ((chars+carry)&high ^ zeros)
	return uint(bits.TrailingZeros64(other)) / 8
}

// number8 is the number that the first n of eight characters are, all digits (Lemire, "Quickly
// parsing eight digits", 2018: pairs, fours and eights by one product each).
func number8(chars uint64, n uint) uint64 {
	chars = (chars - zeros) << (64 - 8*n) // zeros before them
	chars = chars*10 + chars>>8
	const mask = 0x000000ff000000ff
	return ((chars&mask)*(100+1_000_000<<32) + (chars>>16&mask)*(1+10_000<<32)) >> 32
}
