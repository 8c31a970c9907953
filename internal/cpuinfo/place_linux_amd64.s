//go:build !noasm

#include "textflag.h"

// func placed() uint32
TEXT ·placed(SB), NOSPLIT, $0-4
	RDTSCP
	MOVL CX, ret+0(FP)
	RET
