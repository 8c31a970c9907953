//go:build !noasm

#include "textflag.h"

// Each function runs one instruction on V0, which has d and takes the result, and on V1 and V2,
// which have n and m. The instructions are those of the Arm Architecture Reference Manual, C7.2.

#define LOAD VLD1 (R0), [V0.B16]; VLD1 (R1), [V1.B16]; VLD1 (R2), [V2.B16]

// func probeSDOT(d, n, m *vector)
TEXT ·probeSDOT(SB), NOSPLIT, $0-24
	MOVD d+0(FP), R0
	MOVD n+8(FP), R1
	MOVD m+16(FP), R2
	LOAD
	WORD $0x4fa2e020 // SDOT V0.4S, V1.16B, V2.4B[1]
	VST1 [V0.B16], (R0)
	RET

// func probeUDOT(d, n, m *vector)
TEXT ·probeUDOT(SB), NOSPLIT, $0-24
	MOVD d+0(FP), R0
	MOVD n+8(FP), R1
	MOVD m+16(FP), R2
	LOAD
	WORD $0x6e829420 // UDOT V0.4S, V1.16B, V2.16B
	VST1 [V0.B16], (R0)
	RET

// func probeUSMMLA(d, n, m *vector)
TEXT ·probeUSMMLA(SB), NOSPLIT, $0-24
	MOVD d+0(FP), R0
	MOVD n+8(FP), R1
	MOVD m+16(FP), R2
	LOAD
	WORD $0x4e82ac20 // USMMLA V0.4S, V1.16B, V2.16B
	VST1 [V0.B16], (R0)
	RET

// func probeBFMMLA(d, n, m *vector)
TEXT ·probeBFMMLA(SB), NOSPLIT, $0-24
	MOVD d+0(FP), R0
	MOVD n+8(FP), R1
	MOVD m+16(FP), R2
	LOAD
	WORD $0x6e42ec20 // BFMMLA V0.4S, V1.8H, V2.8H
	VST1 [V0.B16], (R0)
	RET

// func probeBFCVTN(d, n, m *vector)
TEXT ·probeBFCVTN(SB), NOSPLIT, $0-24
	MOVD d+0(FP), R0
	MOVD n+8(FP), R1
	MOVD m+16(FP), R2
	LOAD
	WORD $0x0ea16820 // BFCVTN V0.4H, V1.4S
	VST1 [V0.B16], (R0)
	RET
