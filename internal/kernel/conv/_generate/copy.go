package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// copyArgs loads the arguments that the masked copies share.
func copyArgs(s *asm.File) {
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ dstStride+8(FP), R10", "MOVQ src+16(FP), SI",
		"MOVQ at+24(FP), AX", "LEAQ (SI)(AX*4), SI", "MOVQ srcStride+32(FP), R9",
		"MOVQ n+40(FP), CX", "SHLQ $2, R10", "SHLQ $2, R9")
}

// copyLanes writes the copy of up to 32 neighbouring floats of each of n rows.
func copyLanes(s *asm.File) {
	s.Func(
		"copyLanesAVX512",
		"dst *float32, dstStride int, src *float32, at, srcStride, n int, load, store uint32",
		56,
		"copies, in each of n >= 1 rows, lanes at+i of src to lanes i of dst for the bits i of "+
			"store: zero where load has no bit. It touches no other lane of either.",
	)
	copyArgs(s)
	s.Ops("MOVL load+48(FP), AX", "MOVL store+52(FP), BX", "KMOVW AX, K1", "SHRL $16, AX",
		"KMOVW AX, K2", "KMOVW BX, K3", "SHRL $16, BX", "KMOVW BX, K4", "JZ narrow")
	s.Label("wide")
	s.Ops("VMOVUPS.Z (SI), K1, Z0", "VMOVUPS.Z 64(SI), K2, Z1", "VMOVUPS Z0, K3, (DI)",
		"VMOVUPS Z1, K4, 64(DI)", "ADDQ R9, SI", "ADDQ R10, DI", "DECQ CX", "JNZ wide",
		"VZEROUPPER", "RET")
	s.Label("narrow")
	s.Ops("VMOVUPS.Z (SI), K1, Z0", "VMOVUPS Z0, K3, (DI)", "ADDQ R9, SI", "ADDQ R10, DI",
		"DECQ CX", "JNZ narrow", "VZEROUPPER", "RET")
}

// copyEven writes the copy of every second of up to 64 floats of each of n rows.
func copyEven(s *asm.File) {
	s.Func(
		"copyEvenAVX512",
		"dst *float32, dstStride int, src *float32, at, srcStride, n int, load uint64, store "+
			"uint32",
		60,
		"copies, in each of n >= 1 rows, lanes at+2*i of src to lanes i of dst for the bits i of "+
			"store: zero where load has no bit 2*i. It touches no lane at+j of src whose bit j is "+
			"not in load.",
	)
	copyArgs(s)
	s.Ops("MOVQ load+48(FP), AX", "MOVL store+56(FP), BX", "KMOVW AX, K1", "SHRQ $16, AX",
		"KMOVW AX, K2", "SHRQ $16, AX", "KMOVW AX, K3", "SHRQ $16, AX", "KMOVW AX, K4",
		"KMOVW BX, K5", "SHRL $16, BX", "KMOVW BX, K6", "VMOVUPS ·evenLanes<>(SB), Z4",
		"TESTL BX, BX", "JZ narrow")
	s.Label("wide")
	s.Ops("VMOVUPS.Z (SI), K1, Z0", "VMOVUPS.Z 64(SI), K2, Z1", "VMOVUPS.Z 128(SI), K3, Z2",
		"VMOVUPS.Z 192(SI), K4, Z3", "VPERMT2PS Z1, Z4, Z0", "VPERMT2PS Z3, Z4, Z2",
		"VMOVUPS Z0, K5, (DI)", "VMOVUPS Z2, K6, 64(DI)", "ADDQ R9, SI", "ADDQ R10, DI", "DECQ CX",
		"JNZ wide", "VZEROUPPER", "RET")
	s.Label("narrow")
	s.Ops("VMOVUPS.Z (SI), K1, Z0", "VMOVUPS.Z 64(SI), K2, Z1", "VPERMT2PS Z1, Z4, Z0",
		"VMOVUPS Z0, K5, (DI)", "ADDQ R9, SI", "ADDQ R10, DI", "DECQ CX", "JNZ narrow",
		"VZEROUPPER", "RET")
}

// copyThird writes the copy of every third of up to 48 floats of each of n rows.
func copyThird(s *asm.File) {
	// Lanes of the first two vectors, and then of what came of them and the third.
	s.Words("thirdLanes", "%d", 32, func(i int) any {
		switch k := i - 16; {
		case k < 0:
			return 3 * i % 32
		case 3*k >= 32:
			return 3*k - 16
		default:
			return k
		}
	})
	s.Func(
		"copyThirdAVX512",
		"dst *float32, dstStride int, src *float32, at, srcStride, n int, load uint64, store "+
			"uint32",
		60,
		"copies, in each of n >= 1 rows, lanes at+3*i of src to lanes i of dst for the bits i of "+
			"store, of which there are 16: zero where load has no bit 3*i. It touches no lane "+
			"at+j of src whose bit j is not in load.",
	)
	copyArgs(s)
	s.Ops("MOVQ load+48(FP), AX", "MOVL store+56(FP), BX", "KMOVW AX, K1", "SHRQ $16, AX",
		"KMOVW AX, K2", "SHRQ $16, AX", "KMOVW AX, K3", "KMOVW BX, K5",
		"VMOVUPS ·thirdLanes<>+0(SB), Z4", "VMOVUPS ·thirdLanes<>+64(SB), Z5")
	s.Label("loop")
	s.Ops("VMOVUPS.Z (SI), K1, Z0", "VMOVUPS.Z 64(SI), K2, Z1", "VMOVUPS.Z 128(SI), K3, Z2",
		"VPERMT2PS Z1, Z4, Z0", "VPERMT2PS Z2, Z5, Z0", "VMOVUPS Z0, K5, (DI)", "ADDQ R9, SI",
		"ADDQ R10, DI", "DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
}

// copyThirdNarrow writes the copy of every third of up to 22 floats of each of n rows.
func copyThirdNarrow(s *asm.File) {
	// Vectors of neighbours have elements 0, 3 and 6, 1, 4 and 7, and 2 and 5 of theirs.
	s.Words("thirdOrder", "%d", 8, func(i int) any { return 3 * i % 8 })
	s.Func(
		"copyThirdAVX2",
		"dst *float32, dstStride int, src *float32, at, srcStride, n int, load uint32",
		52,
		"writes, in each of n >= 1 rows, 8 lanes: lane i is src[at+3*i] where load has bit 3*i, "+
			"and zero elsewhere. It has no other bits, and no element of src is touched whose bit "+
			"is not in it.",
	)
	copyArgs(s)
	s.Op("MOVL load+48(FP), AX")
	narrowMasks(s, "AX", 3, 12)
	s.Op("VMOVUPS ·thirdOrder<>(SB), Y5")
	s.Label("loop")
	s.Ops("VMASKMOVPS (SI), Y12, Y0", "VMASKMOVPS 32(SI), Y13, Y1", "VMASKMOVPS 64(SI), Y14, Y2",
		"VORPS Y1, Y0, Y0", "VORPS Y2, Y0, Y0", "VPERMPS Y0, Y5, Y0", "VMOVUPS Y0, (DI)",
		"ADDQ R9, SI", "ADDQ R10, DI", "DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
}

// copyOverlapping writes the copies of 8 to 16 floats of each of n rows by two vectors that may
// overlap, which needs no masks.
func copyOverlapping(s *asm.File) {
	const params = "dst *float32, dstStride int, src *float32, srcStride, n, m int"
	for _, even := range []bool{false, true} {
		name, doc := "copyLanesAVX2", "copies the first m floats, 8 to 16, of each of n >= 1 rows."
		if even {
			name, doc = "copyEvenAVX2", "copies floats 0, 2, ... 2*(m-1), for m of 8 to 16, of "+
				"each of n >= 1 rows."
		}
		s.Func(name, params, 48, doc)
		s.Ops("MOVQ dst+0(FP), DI", "MOVQ dstStride+8(FP), R10", "MOVQ src+16(FP), SI",
			"MOVQ srcStride+24(FP), R9", "MOVQ n+32(FP), CX", "MOVQ m+40(FP), BX", "SHLQ $2, R10",
			"SHLQ $2, R9", "SUBQ $8, BX")
		s.Label("loop")
		if even {
			s.Ops("VMOVUPS (SI), Y0", "VMOVUPS 28(SI), Y1", "VMOVUPS (SI)(BX*8), Y2",
				"VMOVUPS 28(SI)(BX*8), Y3", "VSHUFPS $0xd8, Y1, Y0, Y0",
				"VSHUFPS $0xd8, Y3, Y2, Y2", "VPERMPD $0xd8, Y0, Y0", "VPERMPD $0xd8, Y2, Y1")
		} else {
			s.Ops("VMOVUPS (SI), Y0", "VMOVUPS (SI)(BX*4), Y1")
		}
		s.Ops("VMOVUPS Y0, (DI)", "VMOVUPS Y1, (DI)(BX*4)", "ADDQ R9, SI", "ADDQ R10, DI",
			"DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
	}
}

// padRows writes the copy of rows into padded rows, for stride 2 with the even and the odd columns
// apart.
func padRows(s *asm.File, stride int) {
	s.Func(
		fmt.Sprintf("padRowsS%dAVX512", stride),
		"dst, src *float32, at, cols, n, vectors int, masks *uint32",
		56,
		fmt.Sprintf(
			"is padRows for a stride of %d: lane i of vector v of a padded row is element "+
				"at+%d*v+i of the row of src when bit i of masks[v] is set, and zero when not.",
			stride,
			16*stride,
		),
	)
	padRowsArgs(s)
	if stride == 2 {
		s.Ops("MOVQ R10, R12", "SHLQ $6, R12", "VMOVUPS ·evenLanes<>(SB), Z4",
			"VPTERNLOGD $0xff, Z5, Z5, Z5", "VPSUBD Z5, Z4, Z5")
	}
	s.Label("row")
	s.Ops("MOVQ SI, R8", "XORL DX, DX")
	s.Label("vector")
	s.Ops("MOVL (R11)(DX*4), AX", "KMOVW AX, K1", "VMOVUPS.Z (R8), K1, Z0")
	if stride == 1 {
		s.Ops("VMOVUPS Z0, (DI)", "ADDQ $64, R8", "ADDQ $64, DI", "INCQ DX", "CMPQ DX, R10",
			"JLT vector")
	} else {
		s.Ops("SHRL $16, AX", "KMOVW AX, K2", "VMOVUPS.Z 64(R8), K2, Z1", "VMOVAPS Z0, Z2",
			"VPERMT2PS Z1, Z4, Z0", "VPERMT2PS Z1, Z5, Z2", "VMOVUPS Z0, (DI)",
			"VMOVUPS Z2, (DI)(R12*1)", "ADDQ $128, R8", "ADDQ $64, DI", "INCQ DX", "CMPQ DX, R10",
			"JLT vector", "ADDQ R12, DI")
	}
	s.Ops("ADDQ R9, SI", "DECQ CX", "JNZ row", "VZEROUPPER", "RET")
}

// padRowsArgs loads what padRows takes.
func padRowsArgs(s *asm.File) {
	s.Ops("MOVQ dst+0(FP), DI", "MOVQ src+8(FP), SI", "MOVQ at+16(FP), AX", "LEAQ (SI)(AX*4), SI",
		"MOVQ cols+24(FP), R9", "MOVQ n+32(FP), CX", "MOVQ vectors+40(FP), R10",
		"MOVQ masks+48(FP), R11", "SHLQ $2, R9")
}

// padRowsNarrow writes the same without mask registers: bits of a mask become lanes eight at a
// time.
func padRowsNarrow(s *asm.File, stride int) {
	s.Func(fmt.Sprintf("padRowsS%dAVX2", stride),
		"dst, src *float32, at, cols, n, vectors int, masks *uint32", 56,
		fmt.Sprintf("does what padRowsS%dAVX512 does.", stride))
	padRowsArgs(s)
	for g := range 2 * stride {
		s.Op("VMOVUPS ·laneBits<>+%d(SB), Y%d", 32*g, 12+g)
	}
	if stride == 2 {
		s.Ops("MOVQ R10, R12", "SHLQ $6, R12")
	}
	s.Label("row")
	s.Ops("MOVQ SI, R8", "XORL DX, DX")
	s.Label("vector")
	s.Op("VPBROADCASTD (R11)(DX*4), Y4")
	for g := range 2 * stride {
		s.Op("VPAND Y%d, Y4, Y5", 12+g)
		s.Op("VPCMPEQD Y%d, Y5, Y5", 12+g)
		s.Op("VMASKMOVPS %d(R8), Y5, Y%d", 32*g, g)
	}
	if stride == 1 {
		s.Ops("VMOVUPS Y0, (DI)", "VMOVUPS Y1, 32(DI)", "ADDQ $64, R8", "ADDQ $64, DI", "INCQ DX",
			"CMPQ DX, R10", "JLT vector")
	} else {
		for half := range 2 {
			a, b := 2*half, 2*half+1
			s.Op("VSHUFPS $0x88, Y%d, Y%d, Y6", b, a)
			s.Op("VSHUFPS $0xdd, Y%d, Y%d, Y7", b, a)
			s.Op("VPERMPD $0xd8, Y6, Y6")
			s.Op("VPERMPD $0xd8, Y7, Y7")
			s.Op("VMOVUPS Y6, %d(DI)", 32*half)
			s.Op("VMOVUPS Y7, %d(DI)(R12*1)", 32*half)
		}
		s.Ops("ADDQ $128, R8", "ADDQ $64, DI", "INCQ DX", "CMPQ DX, R10", "JLT vector",
			"ADDQ R12, DI")
	}
	s.Ops("ADDQ R9, SI", "DECQ CX", "JNZ row", "VZEROUPPER", "RET")
}

// copyMasked writes the copies of up to 16 floats, neighbours or every second one, of each of n
// rows, with masks in vectors. What is stored is whole vectors: stores under such masks take many
// times as long as loads.
func copyMasked(s *asm.File, stride, vectors int) {
	s.Func(
		fmt.Sprintf("copyMasked%dx%dAVX2", stride, vectors),
		"dst *float32, dstStride int, src *float32, at, srcStride, n int, load uint32",
		52,
		fmt.Sprintf(
			"writes, in each of n >= 1 rows, %d lanes: lane i is src[at+%d*i] where load has bit "+
				"%d*i, and zero elsewhere. It touches no element of src whose bit is not in "+
				"load.",
			8*vectors,
			stride,
			stride,
		),
	)
	copyArgs(s)
	s.Op("MOVL load+48(FP), AX")
	loads := stride * vectors
	narrowMasks(s, "AX", loads, 12)
	s.Label("loop")
	for g := range loads {
		s.Op("VMASKMOVPS %d(SI), Y%d, Y%d", 32*g, 12+g, g)
	}
	for v := range vectors {
		if stride == 2 {
			s.Op("VSHUFPS $0x88, Y%d, Y%d, Y%d", 2*v+1, 2*v, v)
			s.Op("VPERMPD $0xd8, Y%d, Y%d", v, v)
		}
		s.Op("VMOVUPS Y%d, %d(DI)", v, 32*v)
	}
	s.Ops("ADDQ R9, SI", "ADDQ R10, DI", "DECQ CX", "JNZ loop", "VZEROUPPER", "RET")
}
