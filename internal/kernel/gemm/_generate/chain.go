package main

import "strings"

// chain is what only tiles of amd64 do beside computing theirs: columns in strips, a part of them
// under masks, memory fetched ahead, and the next tile in the same call.
type chain struct {
	// strips says that the kernel computes all columns of the tile, one register of them after
	// another, with the sums of the kernel of two registers.
	strips bool
	// single says that the kernel is the one of strips for tiles of one register of columns, which
	// has time to fetch what comes after it.
	single bool
	// rest says that the kernel computes the last rows of a product, in the order of those before.
	rest bool
	// narrow says that the kernel computes rows of a product of at most one register of columns.
	narrow bool
	// whole says that a kernel of arm64 has partial sums.
	whole bool
	// dense says that the steps of A lie side by side: a kernel of arm64 then reads some at once.
	dense bool
	// lying says that rows of A are read where they lie, with the sums of rest.
	lying bool
}

// aheadRows is the least rows of a kernel that fetches memory which is needed after it: fewer leave
// no time for that, and a few instructions matter to them. Two registers of AVX2 are as many as one
// of AVX-512.
const (
	aheadRows     = 8
	aheadRowsAVX2 = 4
)

// suffix ends the name of the routine.
func (t *tile) suffix() string {
	name := ""
	for _, is := range []struct {
		so   bool
		name string
	}{{t.single, "ahead"}, {t.rest, "rest"}, {t.narrow, "narrow"}, {t.whole, "whole"},
		{t.dense, "dense"}, {t.lying, "rows"}} {
		if is.so {
			name += is.name
		}
	}
	return name
}

// again is where the next tile begins, and the next strip of one.
func (t *tile) again() {
	if t.ARM64() {
		return
	}
	t.Label("tile")
	if t.strips {
		t.Op("XORL R15, R15") // the bytes of a row that earlier strips have dealt with
		t.Label("strip")
	}
}

// stripBegins moves the pointers into B and C to the strip.
func (t *tile) stripBegins() {
	if t.strips {
		t.Ops("ADDQ R15, DI", "ADDQ R15, R8")
	}
}

// finishes writes the end of a tile: with masks, where it may have less columns than its kernel.
func (t *tile) finishes() {
	if t.ARM64() {
		t.finish("", false)
		return
	}
	if t.Wide() {
		t.masks()
		t.finish("", true)
		return
	}
	t.Op("CMPQ tile_cols(BX), $%d", t.nv*t.Lanes)
	t.Op("JLT tail")
	t.finish("", false)
	t.Label("tail")
	t.finish("t", true)
}

// masks sets K1, and K2 for the second register, to the lanes of the tile.
func (t *tile) masks() {
	t.Op("MOVL tile_mask(BX), DX")
	if t.strips {
		t.Ops("MOVL R15, CX", "SHRL $2, CX", "SHRL CX, DX")
	}
	t.Ops("KMOVW DX, K1", "SHRL $16, DX", "KMOVW DX, K2")
}

// prefetch fetches the lines of C, and of a residual.
func (t *tile) prefetch() {
	if t.ARM64() {
		return
	}
	t.Op("MOVQ R8, R12")
	t.prefetchRows("R9")
	if !t.aheads() && !t.strips || t.rows < aheadRowsAVX2 {
		return
	}
	t.Ops("TESTL $const_flagResidual, tile_flags(BX)", "JZ fetched",
		"MOVQ tile_res(BX), R12", "MOVQ tile_ldr(BX), R14", "SHLQ $2, R14")
	t.skip("R12")
	t.prefetchRows("R14")
	t.Label("fetched")
}

// prefetchRows fetches the registers of a row after the other.
func (t *tile) prefetchRows(stride string) {
	for i := range t.rows {
		for j := range t.nv {
			t.Op("PREFETCHT0 %d(R12)", j*t.Size())
		}
		if i < t.rows-1 {
			t.Op("ADDQ %s, R12", stride)
		}
	}
}

// lyingRows is how the rows of an A that lies as it is are addressed: from the first one, by their
// distance and three and five times that.
var lyingRows = []string{"", "(AX*1)", "(AX*2)", "(R13*1)", "(AX*4)", "(R15*1)"}

// fifthRow sets where the last of six rows is, in a register that fetches has used.
func (t *tile) fifthRow() {
	if t.lying && t.rows == len(lyingRows) {
		t.Op("LEAQ (AX)(AX*4), R15")
	}
}

// fetches sets what the tile fetches ahead, from R12 on, R14 bytes a step: where there is an
// aheadLast, that or the tile below, and else where the tile before has stopped. It does not
// branch: between branches of unknown length and PCALIGN the assembler finds no end.
func (t *tile) fetches() {
	if !t.aheads() {
		return
	}
	t.Ops("MOVQ tile_ahead(BX), R12", "MOVQ tile_aheadLast(BX), R15", "MOVQ tile_nextA(BX), R14",
		"ADDQ SI, R14", "CMPQ tile_more(BX), $0", "CMOVQLE R15, R14", "TESTQ R15, R15",
		"CMOVQNE R14, R12", "MOVQ tile_aheadStep(BX), R14")
}

// fetched keeps where the tile has stopped to fetch.
func (t *tile) fetched() {
	if t.aheads() {
		t.Op("MOVQ R12, tile_ahead(BX)")
	}
}

// aheads says that the kernel fetches memory that is needed after it.
func (t *tile) aheads() bool {
	switch t.Name {
	case avx512.set.Name:
		return t.rows >= aheadRows && !t.strips
	case avx2.set.Name:
		return t.rows >= aheadRowsAVX2 && t.nv == 2
	}
	return false
}

// ahead fetches a line.
func (t *tile) ahead() {
	if t.aheads() {
		t.Ops("PREFETCHT1 (R12)", "ADDQ R14, R12")
	}
}

// maskLanes reads the masks of columns into registers, where there are no registers for masks.
func (t *tile) maskLanes(masked bool) {
	if !masked || t.Wide() {
		return
	}
	t.Ops("MOVQ tile_cols(BX), R12", "NEGQ R12", "LEAQ ·laneMask<>(SB), R13",
		"LEAQ 64(R13)(R12*4), R13")
	for j := range t.nv {
		t.Op("VMOVUPS %d(R13), %s", j*t.Size(), t.R(t.tmp(2+j)))
	}
}

// loadMasked reads register j of a row, only the lanes inside the tile.
func (t *tile) loadMasked(at, to, j int) {
	if t.Wide() {
		t.Op("VMOVUPS.Z %d(R12), K%d, %s", at, j+1, t.R(to))
		return
	}
	t.Op("VMASKMOVPS %d(R12), %s, %s", at, t.R(t.tmp(2+j)), t.R(to))
}

// storeMasked is the opposite of loadMasked.
func (t *tile) storeMasked(at, from, j int) {
	if t.Wide() {
		t.Op("VMOVUPS %s, K%d, %d(R12)", t.R(from), j+1, at)
		return
	}
	t.Op("VMASKMOVPS %s, %s, %d(R12)", t.R(from), t.R(t.tmp(2+j)), at)
}

// skip moves a pointer into a row to the columns of the strip.
func (t *tile) skip(reg string) {
	if t.strips {
		t.Op("ADDQ R15, %s", reg)
	}
}

// onward begins the next tile below, or the first of the next product, or returns after the last.
func (t *tile) onward(suffix string) {
	if t.ARM64() {
		t.Return()
		return
	}
	if t.strips {
		t.Ops("ADDQ $64, R15", "MOVQ tile_cols(BX), DX", "SHLQ $2, DX", "CMPQ R15, DX", "JLT strip")
	}
	advance := func(by string, operands ...string) {
		for _, x := range operands {
			t.Op("MOVQ tile_%s%s(BX), DX", by, x)
			t.Op("ADDQ DX, tile_%s(BX)", strings.ToLower(x))
		}
	}
	t.Ops("DECQ tile_more(BX)", "JLT last"+suffix)
	advance("next", "A", "C", "Bias", "Res")
	t.Op("JMP tile")
	t.Label("last" + suffix)
	t.Ops("DECQ tile_again(BX)", "JLT out"+suffix, "MOVQ tile_below(BX), DX",
		"MOVQ DX, tile_more(BX)")
	advance("again", "A", "B", "C")
	if t.aheads() {
		t.Ops("MOVQ tile_againAheadLast(BX), DX", "ADDQ DX, tile_aheadLast(BX)")
	}
	t.Op("JMP tile")
	t.Label("out" + suffix)
	t.Ops("VZEROUPPER", "RET")
}
