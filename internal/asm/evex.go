package asm

import "fmt"

// EVEX is an instruction of 512 bits on three vector registers, of opcode map 0F38 and with W = 0:
// the form of those that the kernels need and Go's assembler does not know (Intel, "Software
// Developer's Manual", volume 2, section 2.7, EVEX encoding).
type EVEX struct {
	Prefix Prefix
	Opcode byte
	Dst    int // the destination, ModRM.reg
	Src1   int // the first source in Intel's order, EVEX.vvvv
	Src2   int // the second source, ModRM.rm
}

// Prefix is the field pp of EVEX, the legacy prefix that it stands for.
type Prefix byte

// The prefixes.
const (
	PrefixNone Prefix = iota
	Prefix66
	PrefixF3
	PrefixF2
)

// Encode returns the bytes of the instruction. It refuses registers other than 0 to 31.
func (e EVEX) Encode() ([6]byte, error) {
	for _, r := range []int{e.Dst, e.Src1, e.Src2} {
		if r < 0 || r > 31 {
			return [6]byte{}, fmt.Errorf("register Z%d of opcode %#02x: EVEX names Z0 to Z31", r,
				e.Opcode)
		}
	}
	inverted := func(r, bit int) byte { return byte(^r >> bit & 1) }
	return [6]byte{
		0x62,
		inverted(e.Dst, 3)<<7 | inverted(e.Src2, 4)<<6 | inverted(e.Src2, 3)<<5 |
			inverted(e.Dst, 4)<<4 | 2,
		byte(^e.Src1&15)<<3 | 4 | byte(e.Prefix),
		2<<5 | inverted(e.Src1, 4)<<3,
		e.Opcode,
		0xc0 | byte(e.Dst&7)<<3 | byte(e.Src2&7),
	}, nil
}
