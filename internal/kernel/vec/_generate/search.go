package main

import "github.com/weirgpu/weir/internal/asm"

// raw is a routine whose Go side is written by hand.
type raw func(t *asm.Text, set asm.Vector)

func (r raw) write(t *asm.Text, set asm.Vector, _ *constants) { r(t, set) }
func (raw) declaration(asm.Vector) string                     { return "" }
func (raw) dispatch() string                                  { return "" }
func (raw) reference() string                                 { return "" }

// search writes find, which returns the index of the first element that equals v, or -1.
func search() []routine {
	return []routine{raw(func(t *asm.Text, set asm.Vector) {
		compare := "\tVCMPPS $0, (SI)(AX*4), Y0, Y1\n\tVMOVMSKPS Y1, BX\n\tTESTL BX, BX\n\tJNZ " +
			"found"
		tail := `	LEAQ lanes<>+32(SB), BX
	SHLQ $2, CX
	SUBQ CX, BX
	VMOVUPS (BX), Y15
	VMASKMOVPS (SI)(AX*4), Y15, Y1
	VCMPPS $0, Y1, Y0, Y1
	VANDPS Y15, Y1, Y1
	VMOVMSKPS Y1, BX`
		if set.Wide() {
			compare = "\tVCMPPS $0, (SI)(AX*4), Z0, K1\n\tKORTESTW K1, K1\n\tJNZ mask"
			tail = `	MOVL $1, BX
	SHLL CX, BX
	DECL BX
	KMOVW BX, K2
	VMOVUPS.Z (SI)(AX*4), K2, Z1
	VCMPPS $0, Z1, Z0, K2, K1
mask:
	KMOVW K1, BX`
		}
		t.Open("find"+set.Name, "(x []float32, v float32) int", frame, 40)
		t.Line(`	MOVQ x_base+0(FP), SI
	MOVQ x_len+8(FP), CX
	VBROADCASTSS v+24(FP), %[1]s0
	XORQ AX, AX
	SUBQ $%[2]d, CX
	JL tail
loop:
%[3]s
	ADDQ $%[2]d, AX
	SUBQ $%[2]d, CX
	JGE loop
tail:
	ADDQ $%[2]d, CX
	JZ none
%[4]s
	TESTL BX, BX
	JZ none
found:
	BSFL BX, BX
	ADDQ BX, AX
	VZEROUPPER
	MOVQ AX, ret+32(FP)
	RET
none:
	VZEROUPPER
	MOVQ $-1, ret+32(FP)
	RET`, set.Reg, set.Lanes, compare, tail)
	})}
}
