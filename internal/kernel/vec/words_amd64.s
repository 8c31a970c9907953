//go:build !noasm

#include "funcdata.h"
#include "textflag.h"

// func joinWordsAVX2(dst *float32, x *int32, n int, add int32, scale, bias float32)
// Described in words_amd64.s.
//
// In each lane of 64 bits the high sum comes down, times 256, to be added to the low one.
TEXT ·joinWordsAVX2(SB), 0, $8-36
	NO_LOCAL_POINTERS
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	MOVL add+24(FP), AX
	VMOVD AX, X4
	VPBROADCASTD X4, Y4
	VBROADCASTSS scale+28(FP), Y5
	VBROADCASTSS bias+32(FP), Y6
	PCALIGN $32
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VPSRLQ $32, Y0, Y2
	VPSRLQ $32, Y1, Y3
	VPSLLD $8, Y2, Y2
	VPSLLD $8, Y3, Y3
	VPADDD Y2, Y0, Y0
	VPADDD Y3, Y1, Y1
	VSHUFPS $0x88, Y1, Y0, Y0
	VPERMQ $0xd8, Y0, Y0
	VPADDD Y4, Y0, Y0
	VCVTDQ2PS Y0, Y0
	VFMADD213PS Y6, Y5, Y0
	VMOVUPS Y0, (DI)
	ADDQ $64, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JG loop
	VZEROUPPER
	RET
