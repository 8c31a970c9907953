package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// reduceRows writes the loops that pooling reduces rows with.
func reduceRows(s *asm.File, v asm.Vector) {
	for _, larger := range []bool{true, false} {
		name, doc := "addRow"+v.Name, fmt.Sprintf("adds src to dst, %d*n floats, n >= 1.", v.Lanes)
		if larger {
			name, doc = "maxRow"+v.Name, fmt.Sprintf(
				"sets dst to the larger of dst and src, NaN if either is, %d*n floats, n >= 1.",
				v.Lanes)
		}
		s.Func(name, "dst, src *float32, n int", 24, doc)
		s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ n+16(FP), CX")
		s.Label("loop")
		s.Op("VMOVUPS (DI), %s0", v.Reg)
		s.Op("VMOVUPS (SI), %s1", v.Reg)
		switch {
		case !larger:
			s.Op("VADDPS %[1]s1, %[1]s0, %[1]s2", v.Reg)
		case v.Wide():
			s.Ops("VMAXPS Z1, Z0, Z2", "VCMPPS $3, Z1, Z0, K1", "VADDPS Z1, Z0, K1, Z2")
		default:
			s.Ops("VMAXPS Y1, Y0, Y2", "VCMPPS $3, Y1, Y0, Y3", "VADDPS Y1, Y0, Y4",
				"VBLENDVPS Y3, Y4, Y2, Y2")
		}
		s.Op("VMOVUPS %s2, (DI)", v.Reg)
		s.Op("ADDQ $%d, SI", 4*v.Lanes)
		s.Op("ADDQ $%d, DI", 4*v.Lanes)
		s.Ops("DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
	}
}

// deinterleave writes the split of a row into its even and odd elements.
func deinterleave(s *asm.File, v asm.Vector) {
	s.Func("deinterleave"+v.Name, "even, odd, src *float32, n int", 32,
		fmt.Sprintf("writes the even and the odd ones of %d*n floats, n >= 1.", 2*v.Lanes))
	s.Ops("MOVQ even+0(FP), DI", "MOVQ odd+8(FP), R8", "MOVQ src+16(FP), SI", "MOVQ n+24(FP), CX")
	if v.Wide() {
		s.Ops("VMOVUPS ·evenLanes<>(SB), Z4", "VPTERNLOGD $0xff, Z5, Z5, Z5", "VPSUBD Z5, Z4, Z5")
	}
	s.Label("loop")
	s.Op("VMOVUPS (SI), %s0", v.Reg)
	s.Op("VMOVUPS %d(SI), %s1", 4*v.Lanes, v.Reg)
	if v.Wide() {
		s.Ops("VMOVAPS Z0, Z2", "VPERMT2PS Z1, Z4, Z0", "VPERMT2PS Z1, Z5, Z2")
	} else {
		s.Ops("VSHUFPS $0xdd, Y1, Y0, Y2", "VSHUFPS $0x88, Y1, Y0, Y0", "VPERMPD $0xd8, Y0, Y0",
			"VPERMPD $0xd8, Y2, Y2")
	}
	s.Op("VMOVUPS %s0, (DI)", v.Reg)
	s.Op("VMOVUPS %s2, (R8)", v.Reg)
	s.Op("ADDQ $%d, SI", 8*v.Lanes)
	s.Op("ADDQ $%d, DI", 4*v.Lanes)
	s.Op("ADDQ $%d, R8", 4*v.Lanes)
	s.Ops("DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
}

// interleave writes the inverse of deinterleave.
func interleave(s *asm.File, v asm.Vector) {
	s.Func("interleave"+v.Name, "dst, even, odd *float32, n int", 32,
		fmt.Sprintf("writes even[0], odd[0], even[1], ... of %d*n floats each, n >= 1.", v.Lanes))
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ even+8(FP), SI", "MOVQ odd+16(FP), R8", "MOVQ n+24(FP), CX")
	if v.Wide() {
		s.Ops("VMOVUPS ·pairLanes<>(SB), Z4", "VMOVUPS ·pairLanes<>+64(SB), Z5")
	}
	s.Label("loop")
	s.Op("VMOVUPS (SI), %s0", v.Reg)
	s.Op("VMOVUPS (R8), %s1", v.Reg)
	if v.Wide() {
		s.Ops("VMOVAPS Z0, Z2", "VPERMT2PS Z1, Z4, Z0", "VPERMT2PS Z1, Z5, Z2")
	} else {
		s.Ops("VUNPCKLPS Y1, Y0, Y2", "VUNPCKHPS Y1, Y0, Y3", "VPERM2F128 $0x20, Y3, Y2, Y0",
			"VPERM2F128 $0x31, Y3, Y2, Y2")
	}
	s.Op("VMOVUPS %s0, (DI)", v.Reg)
	s.Op("VMOVUPS %s2, %d(DI)", v.Reg, 4*v.Lanes)
	s.Op("ADDQ $%d, SI", 4*v.Lanes)
	s.Op("ADDQ $%d, R8", 4*v.Lanes)
	s.Op("ADDQ $%d, DI", 8*v.Lanes)
	s.Ops("DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
}
