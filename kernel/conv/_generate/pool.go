package main

import "fmt"

// reduceRows writes the loops that pooling reduces rows with.
func reduceRows(s *asm, v vector) {
	for _, larger := range []bool{true, false} {
		name, doc := "addRow"+v.name, fmt.Sprintf("adds src to dst, %d*n floats, n >= 1.", v.lanes)
		if larger {
			name, doc = "maxRow"+v.name, fmt.Sprintf(
				"sets dst to the larger of dst and src, NaN if either is, %d*n floats, n >= 1.",
				v.lanes,
			)
		}
		s.text(name, "dst, src *float32, n int", 24, doc)
		s.ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ n+16(FP), CX")
		s.label("loop")
		s.op("VMOVUPS (DI), %s0", v.reg)
		s.op("VMOVUPS (SI), %s1", v.reg)
		switch {
		case !larger:
			s.op("VADDPS %[1]s1, %[1]s0, %[1]s2", v.reg)
		case v.masked:
			s.ops("VMAXPS Z1, Z0, Z2", "VCMPPS $3, Z1, Z0, K1", "VADDPS Z1, Z0, K1, Z2")
		default:
			s.ops(
				"VMAXPS Y1, Y0, Y2",
				"VCMPPS $3, Y1, Y0, Y3",
				"VADDPS Y1, Y0, Y4",
				"VBLENDVPS Y3, Y4, Y2, Y2",
			)
		}
		s.op("VMOVUPS %s2, (DI)", v.reg)
		s.op("ADDQ $%d, SI", 4*v.lanes)
		s.op("ADDQ $%d, DI", 4*v.lanes)
		s.ops("DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
	}
}

// deinterleave writes the split of a row into its even and odd elements.
func deinterleave(s *asm, v vector) {
	s.text("deinterleave"+v.name, "even, odd, src *float32, n int", 32,
		fmt.Sprintf("writes the even and the odd ones of %d*n floats, n >= 1.", 2*v.lanes))
	s.ops("MOVQ even+0(FP), DI", "MOVQ odd+8(FP), R8", "MOVQ src+16(FP), SI", "MOVQ n+24(FP), CX")
	if v.masked {
		s.ops("VMOVUPS ·evenLanes<>(SB), Z4", "VPTERNLOGD $0xff, Z5, Z5, Z5", "VPSUBD Z5, Z4, Z5")
	}
	s.label("loop")
	s.op("VMOVUPS (SI), %s0", v.reg)
	s.op("VMOVUPS %d(SI), %s1", 4*v.lanes, v.reg)
	if v.masked {
		s.ops("VMOVAPS Z0, Z2", "VPERMT2PS Z1, Z4, Z0", "VPERMT2PS Z1, Z5, Z2")
	} else {
		s.ops(
			"VSHUFPS $0xdd, Y1, Y0, Y2",
			"VSHUFPS $0x88, Y1, Y0, Y0",
			"VPERMPD $0xd8, Y0, Y0",
			"VPERMPD $0xd8, Y2, Y2",
		)
	}
	s.op("VMOVUPS %s0, (DI)", v.reg)
	s.op("VMOVUPS %s2, (R8)", v.reg)
	s.op("ADDQ $%d, SI", 8*v.lanes)
	s.op("ADDQ $%d, DI", 4*v.lanes)
	s.op("ADDQ $%d, R8", 4*v.lanes)
	s.ops("DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
}

// interleave writes the inverse of deinterleave.
func interleave(s *asm, v vector) {
	s.text("interleave"+v.name, "dst, even, odd *float32, n int", 32,
		fmt.Sprintf("writes even[0], odd[0], even[1], ... of %d*n floats each, n >= 1.", v.lanes))
	s.ops("MOVQ dst+0(FP), DI", "MOVQ even+8(FP), SI", "MOVQ odd+16(FP), R8", "MOVQ n+24(FP), CX")
	if v.masked {
		s.ops("VMOVUPS ·pairLanes<>(SB), Z4", "VMOVUPS ·pairLanes<>+64(SB), Z5")
	}
	s.label("loop")
	s.op("VMOVUPS (SI), %s0", v.reg)
	s.op("VMOVUPS (R8), %s1", v.reg)
	if v.masked {
		s.ops("VMOVAPS Z0, Z2", "VPERMT2PS Z1, Z4, Z0", "VPERMT2PS Z1, Z5, Z2")
	} else {
		s.ops(
			"VUNPCKLPS Y1, Y0, Y2",
			"VUNPCKHPS Y1, Y0, Y3",
			"VPERM2F128 $0x20, Y3, Y2, Y0",
			"VPERM2F128 $0x31, Y3, Y2, Y2",
		)
	}
	s.op("VMOVUPS %s0, (DI)", v.reg)
	s.op("VMOVUPS %s2, %d(DI)", v.reg, 4*v.lanes)
	s.op("ADDQ $%d, SI", 4*v.lanes)
	s.op("ADDQ $%d, R8", 4*v.lanes)
	s.op("ADDQ $%d, DI", 8*v.lanes)
	s.ops("DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
}
