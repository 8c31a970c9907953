//go:build !noasm

#include "textflag.h"

// skip is a handler of signals. The third argument of one is the context (the kernel's
// arch/arm64/include/uapi/asm/sigcontext.h), which has the program counter at byte 440.
TEXT skip<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVD 440(R2), R3
	ADD $4, R3
	MOVD R3, 440(R2)
	RET

// func skipHandler() uintptr
TEXT ·skipHandler(SB), NOSPLIT, $0-8
	MOVD $skip<>(SB), R0
	MOVD R0, ret+0(FP)
	RET
