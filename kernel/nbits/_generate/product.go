package main

import "fmt"

// Registers of products: SI the panel, R12 its zero points or 0, R8 to R11 the rows, three to a
// register with DX between them, R13 the chunks of a block and CX those left of this one, BX the
// blocks that are left.

// row is the operand that starts bytes behind where row i stands.
func row(i, bytes int) string {
	base := fmt.Sprintf("%d(R%d)", bytes, 8+i/3)
	if i%3 > 0 {
		base += fmt.Sprintf("(DX*%d)", i%3)
	}
	return base
}

// advance moves all rows on.
func (a *asm) advance(rows, bytes int) {
	for i := 0; i < rows; i += 3 {
		a.ops(fmt.Sprintf("ADDQ $%d, R%d", bytes, 8+i/3))
	}
}

// product opens a function and loads the registers from its tile. The sums of rows start as zero.
func (a *asm) product(name string, rows, sums int) {
	a.begin(fmt.Sprintf("%s%d", name, rows), "t *tile", 8, "computes a tile of that many rows.")
	a.ops("MOVQ t+0(FP), AX", "MOVQ tile_q(AX), SI", "MOVQ tile_zeros(AX), R12",
		"MOVQ tile_a(AX), R8", "MOVQ tile_lda(AX), DX",
		"MOVQ tile_blocks(AX), BX", "MOVQ tile_chunks(AX), R13")
	for i := 3; i < rows; i += 3 {
		a.ops(fmt.Sprintf("LEAQ (R%d)(DX*2), R%d", 7+i/3, 8+i/3),
			fmt.Sprintf("ADDQ DX, R%d", 8+i/3))
	}
	for i := range rows {
		a.clear(sums + i)
	}
}

// block opens the loop over blocks, with their scales in a register.
func (a *asm) block(scale int) {
	a.label("block")
	a.op("VMOVUPS", "(SI)", scale)
	a.ops(fmt.Sprintf("ADDQ $%d, SI", 4*a.v.lanes), "MOVQ R13, CX")
}

// chunk opens the loop over the chunks of a block, with one in a register.
func (a *asm) chunk(q int) {
	a.label("chunk")
	a.op(a.v.load, "(SI)", q)
}

// chunkEnd closes it.
func (a *asm) chunkEnd(rows, bytes int) {
	a.ops(fmt.Sprintf("ADDQ $%d, SI", 4*a.v.lanes))
	a.advance(rows, bytes)
	a.ops("DECQ CX", "JNZ chunk")
}

// blockEnd closes the loop over blocks, each of which is followed by that many bytes in the rows,
// and stores the sums.
func (a *asm) blockEnd(rows, bytes, sums int) {
	a.advance(rows, bytes)
	a.ops("DECQ BX", "JNZ block", "MOVQ t+0(FP), AX", "MOVQ tile_c(AX), DI",
		"MOVQ tile_ldc(AX), DX")
	for i := range rows {
		a.op("VMOVUPS", sums+i, "(DI)")
		if i+1 < rows {
			a.ops("ADDQ DX, DI")
		}
	}
	a.end()
}

// offCentre adds to the register of each row 8 less the zero points of the block, times the sum
// that the rows have at an offset, unless there are no zero points.
func (a *asm) offCentre(rows, offset, zero, eight, scratch int, x func(i int) int) {
	a.ops("TESTQ R12, R12", "JZ centred")
	a.op("VPMOVZXBD", "(R12)", zero)
	a.ops(fmt.Sprintf("ADDQ $%d, R12", a.v.lanes))
	a.op("VPSUBD", zero, eight, zero)
	a.op("VCVTDQ2PS", zero, zero)
	for i := range rows {
		a.addTimes(row(i, offset), zero, x(i), scratch)
	}
	a.label("centred")
}

// addTimes adds a float in memory times register x to register sum.
func (a *asm) addTimes(at string, x, sum, scratch int) {
	if a.v.wide() {
		a.op("VFMADD231PS.BCST", at, x, sum)
		return
	}
	a.op("VBROADCASTSS", at, scratch)
	a.op("VFMADD231PS", scratch, x, sum)
}

// floats writes products of rows of floats. A row's block is its floats and then their sum.
func floats(a *asm) {
	name := "floats" + a.v.name
	for rows := 1; rows <= a.v.mostFloats; rows++ {
		a.floatRows(name, rows)
	}
	a.choice(name, a.v.mostFloats, "floatsGo")
}

func (a *asm) floatRows(name string, rows int) {
	parts := 1 // of the sum of a block, which hide how long an addition takes
	switch {
	case rows == 1:
		parts = 4
	case rows < 8:
		parts = 2
	}
	// and the sums of a block from 0 on
	q, w, eight, table, sums, scale, zero, scratch := 8, 9, 10, 11, 12, 15, 7, 6
	if a.v.wide() {
		q, w, eight, table, sums, scale, zero = 24, 25, 26, 27, rows*parts, 28, 29
	}
	a.product(name, rows, sums)
	a.spread(eight, 8)
	if a.v.wide() {
		a.op("VMOVUPS", "·centred<>(SB)", table)
	} else {
		a.spread(table, 15)
	}
	a.block(scale)
	for i := range rows * parts {
		a.clear(i)
	}
	a.chunk(q)
	for p := range 8 {
		a.weight(p, q, w, eight, table)
		for i := range rows {
			a.addTimes(row(i, 4*place(p)), w, i*parts+p%parts, scratch)
		}
	}
	a.chunkEnd(rows, 32)
	for i := range rows {
		for p := parts / 2; p > 0; p /= 2 {
			for part := range p {
				a.op("VADDPS", i*parts+part+p, i*parts+part, i*parts+part)
			}
		}
	}
	a.offCentre(rows, 0, zero, eight, scratch, func(i int) int { return i * parts })
	for i := range rows {
		a.op("VFMADD231PS", scale, i*parts, sums+i)
	}
	a.blockEnd(rows, 4, sums)
}

// place is the step of K, of the eight of a chunk, whose number is the p-th of four bits in a word:
// of bytes the low halves come first.
func place(p int) int { return p/2 + p%2*4 }

// weight makes floats of the p-th numbers of words, less 8.
func (a *asm) weight(p, q, w, eight, table int) {
	from := q
	if p > 0 {
		a.op("VPSRLD", fmt.Sprintf("$%d", 4*p), q, w)
		from = w
	}
	if a.v.wide() { // which looks at the lowest four bits only
		a.op("VPERMPS", table, from, w)
		return
	}
	a.op("VPAND", table, from, w)
	a.op("VPSUBD", eight, w, w)
	a.op("VCVTDQ2PS", w, w)
}

// byteProducts writes products of rows of bytes. A row's block is -8 times the sum of its bytes, in
// 32 bits, its bytes, its scale and the sum of its bytes as a float.
func byteProducts(a *asm) {
	name := "bytes" + a.v.name
	for rows := 1; rows <= a.v.mostBytes; rows++ {
		a.byteRows(name, rows)
	}
	a.choice(name, a.v.mostBytes, "bytesGo")
}

func (a *asm) byteRows(name string, rows int) {
	sums, low, high, mask, scale, zero, eight, scratch, ones, more := 3, 6, 7, 8, 9, 10, 11, 12, 13,
		14
	if a.v.wide() {
		sums, low, high, mask, scale, zero, eight, scratch = 12, 24, 25, 26, 27, 28, 29, 30
	}
	a.product(name, rows, sums)
	a.spread(mask, 0x0f0f0f0f)
	a.spread(eight, 8)
	if !a.v.wide() {
		a.spread(ones, 0x00010001)
	}
	a.block(scale)
	for i := range rows {
		a.op("VPBROADCASTD", row(i, 0), i)
	}
	a.advance(rows, 4)
	a.chunk(low)
	a.op("VPSRLD", "$4", low, high)
	a.op(a.v.and, mask, low, low)
	a.op(a.v.and, mask, high, high)
	if a.v.wide() {
		for part, w := range []int{low, high} {
			for i := range rows {
				a.op("VPDPBUSD.BCST", row(i, 4*part), w, i)
			}
		}
	} else { // sums of two products of 15 by 128, and of two such sums, fit in 16 bits
		for i := range rows {
			a.op("VPBROADCASTD", row(i, 0), scratch)
			a.op("VPBROADCASTD", row(i, 4), more)
			a.op("VPMADDUBSW", scratch, low, scratch)
			a.op("VPMADDUBSW", more, high, more)
			a.op("VPADDW", more, scratch, scratch)
			a.op("VPMADDWD", ones, scratch, scratch)
			a.op("VPADDD", scratch, i, i)
		}
	}
	a.chunkEnd(rows, 8)
	for i := range rows {
		a.op("VCVTDQ2PS", i, i)
	}
	a.offCentre(rows, 4, zero, eight, scratch, func(i int) int { return i })
	for i := range rows {
		if a.v.wide() {
			a.op("VMULPS.BCST", row(i, 0), scale, scratch)
		} else {
			a.op("VBROADCASTSS", row(i, 0), scratch)
			a.op("VMULPS", scratch, scale, scratch)
		}
		a.op("VFMADD231PS", scratch, i, sums+i)
	}
	a.blockEnd(rows, 8, sums)
}
