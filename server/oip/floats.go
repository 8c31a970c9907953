package oip

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// within is how many bytes [float] looks at, at most.
const within = 32

// float reads the number at the front of b that is written as most are: few digits, perhaps with a
// point, no exponent. It returns its length too; 0 where it is none of those. [cursor.number] reads
// whatever this does, to the same value.
func float(b *[within]byte) (f float32, length uint) {
	at := uint(0)
	if b[0] == '-' {
		at = 1
	}
	p := (*[within - 1]byte)(b[at:])
	whole := uint64(p[0] - '0')
	if whole > 9 || p[1] != '.' {
		return longer(b, at)
	}
	// one digit and a point: all that follows is at known places
	chars, rest := binary.LittleEndian.Uint64(p[2:]), binary.LittleEndian.Uint64(p[10:])
	first, second := digitsOf(chars), digitsOf(rest)
	second &= -(first / 8) // none behind fewer than eight; a branch would be guessed wrong
	digits := whole*tens[first%16] + number8(chars, first)
	digits = digits*tens[second%16] + number8(rest, second)
	if first == 0 {
		return 0, 0
	}
	return ended(b, digits, at, first+second, at+2+first+second)
}

// longer is float for numbers without a point, or with several digits before it.
func longer(b *[within]byte, at uint) (f float32, length uint) {
	sign, chars := at, binary.LittleEndian.Uint64(b[at:])
	whole := digitsOf(chars)
	if whole-1 > 6 || whole > 1 && b[at] == '0' { // none or eight
		return 0, 0
	}
	digits, places := number8(chars, whole), uint(0)
	at += whole
	if b[at] == '.' {
		at++
		chars = binary.LittleEndian.Uint64(b[at:])
		first := digitsOf(chars)
		// behind the first eight; where there are fewer, none
		rest := binary.LittleEndian.Uint64(b[at+first:])
		second := digitsOf(rest)
		if places = first + second; first == 0 || whole+places > maxDigits {
			return 0, 0
		}
		digits = digits*tens[first] + number8(chars, first)
		digits = digits*tens[second] + number8(rest, second)
		at += places
	}
	return ended(b, digits, sign, places, at)
}

// ended is the number of digits of which so many are places behind the point, and that ends at b's
// byte at; sign is 1 of one that is negative.
func ended(b *[within]byte, digits uint64, sign, places, at uint) (f float32, length uint) {
	wide := float64(digits) / powers[places%32]
	// rounded twice, as narrow has it: a number of so few digits is zero or normal
	half := math.Float64bits(wide)&below == 1<<28
	if digits >= 1<<53 || places == 16 || b[at%within]|' ' == 'e' || half {
		return 0, 0
	}
	return math.Float32frombits(math.Float32bits(float32(wide)) | uint32(sign)<<31), at
}

// tens are powers of ten.
var tens = [16]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

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
