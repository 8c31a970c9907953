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

// searchNEON writes what find asks on arm64: which 16 elements have one that equals v.
func searchNEON(f *asm.File) {
	f.Func("findNEON", "x *float32, n int, v float32) (blocks int", 32, "returns how many of n "+
		"blocks of 16 elements come before one that has an element equal to v: n, which is 1 at "+
		"least, where none has.")
	f.Ops("MOVD x+0(FP), R1", "MOVD n+8(FP), R3", "FMOVS v+16(FP), F16",
		"VDUP V16.S[0], V16.S4", "MOVD ZR, R0")
	f.Label("loop")
	f.Ops("FLDPQ.P 32(R1), (F0, F1)", "FLDPQ.P 32(R1), (F2, F3)")
	for i := range 4 {
		f.Vec("FCMEQ", i, i, 16)
	}
	f.Vec("ORR", 0, 0, 1)
	f.Vec("ORR", 2, 2, 3)
	f.Vec("ORR", 0, 0, 2)
	f.Ops("VMOV V0.D[0], R4", "VMOV V0.D[1], R5", "ORR R4, R5", "CBNZ R5, done", "ADD $1, R0",
		"CMP R0, R3", "BNE loop")
	f.Label("done")
	f.Ops("MOVD R0, blocks+24(FP)", "RET")
}
