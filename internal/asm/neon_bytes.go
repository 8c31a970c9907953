package asm

// NEONMatrix is an instruction of arm64 on matrices in vectors, which Go's assembler does not know,
// without the numbers of registers (Arm Architecture Reference Manual, DDI 0487, C7.2).
type NEONMatrix uint32

// The instructions add to the 2x2 numbers of 32 bits in d the product of n with m transposed:
// USMMLA of 2x8 unsigned bytes with 2x8 signed ones, BFMMLA of 2x4 bfloat16 each.
const (
	USMMLA NEONMatrix = 0x4e80ac00
	BFMMLA NEONMatrix = 0x6e40ec00
)

// NEONMatrix writes op on registers n and m, whose result goes to d.
func (t *Text) NEONMatrix(op NEONMatrix, d, n, m int) {
	name, lanes := "USMMLA", "16B"
	if op == BFMMLA {
		name, lanes = "BFMMLA", "8H"
	}
	t.Op("WORD $0x%08x // %s V%d.4S, V%d.%s, V%d.%s", uint32(op)|uint32(m<<16|n<<5|d), name, d, n,
		lanes, m, lanes)
}

// BFCVTN rounds the four floats of n to bfloat16 in the lower half of d, whose upper half becomes
// zero.
func (t *Text) BFCVTN(d, n int) {
	t.Op("WORD $0x%08x // BFCVTN V%d.4H, V%d.4S", uint32(0x0ea16800|n<<5|d), d, n)
}
