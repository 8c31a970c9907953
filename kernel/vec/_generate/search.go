package main

import "fmt"

// raw is a routine whose Go side is written by hand.
type raw func(set isa) string

func (r raw) write(set isa, _ *constants) string { return r(set) }
func (raw) declaration(isa) string               { return "" }
func (raw) dispatch() string                     { return "" }
func (raw) reference() string                    { return "" }

// search writes find, which returns the index of the first element that equals v, or -1.
func search() []routine {
	return []routine{raw(func(set isa) string {
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
		if set.vector == "Z" {
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
		return fmt.Sprintf(`// func find%[1]s(x []float32, v float32) int
TEXT ·find%[1]s(SB), 0, $128-40
	NO_LOCAL_POINTERS
	MOVQ x_base+0(FP), SI
	MOVQ x_len+8(FP), CX
	VBROADCASTSS v+24(FP), %[2]s0
	XORQ AX, AX
	SUBQ $%[3]d, CX
	JL tail
loop:
%[4]s
	ADDQ $%[3]d, AX
	SUBQ $%[3]d, CX
	JGE loop
tail:
	ADDQ $%[3]d, CX
	JZ none
%[5]s
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
	RET

`, set.name, set.vector, set.lanes, compare, tail)
	})}
}
