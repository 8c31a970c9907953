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
func (k *kernels) advance(rows, bytes int) {
	for i := 0; i < rows; i += 3 {
		k.Ops(fmt.Sprintf("ADDQ $%d, R%d", bytes, 8+i/3))
	}
}

// product opens a function and loads the registers from its tile. The sums of rows start as zero.
func (k *kernels) product(name string, rows, sums int) {
	k.Func(fmt.Sprintf("%s%d", name, rows), "t *tile", 8, "computes a tile of that many rows.")
	k.Ops("MOVQ t+0(FP), AX", "MOVQ tile_q(AX), SI", "MOVQ tile_zeros(AX), R12",
		"MOVQ tile_a(AX), R8", "MOVQ tile_lda(AX), DX",
		"MOVQ tile_blocks(AX), BX", "MOVQ tile_chunks(AX), R13")
	for i := 3; i < rows; i += 3 {
		k.Ops(fmt.Sprintf("LEAQ (R%d)(DX*2), R%d", 7+i/3, 8+i/3),
			fmt.Sprintf("ADDQ DX, R%d", 8+i/3))
	}
	for i := range rows {
		k.clear(sums + i)
	}
}

// block opens the loop over blocks, with their scales in a register.
func (k *kernels) block(scale int) {
	k.Label("block")
	k.op("VMOVUPS", "(SI)", scale)
	k.Ops(fmt.Sprintf("ADDQ $%d, SI", 4*k.v.Lanes), "MOVQ R13, CX")
}

// chunk opens the loop over the chunks of a block, with one in a register.
func (k *kernels) chunk(q int) {
	k.Label("chunk")
	k.op(k.v.load, "(SI)", q)
}

// chunkEnd closes it.
func (k *kernels) chunkEnd(rows, bytes int) {
	k.Ops(fmt.Sprintf("ADDQ $%d, SI", 4*k.v.Lanes))
	k.advance(rows, bytes)
	k.Ops("DECQ CX", "JNZ chunk")
}

// blockEnd closes the loop over blocks, each of which is followed by that many bytes in the rows,
// and stores the sums.
func (k *kernels) blockEnd(rows, bytes, sums int) {
	k.advance(rows, bytes)
	k.Ops("DECQ BX", "JNZ block", "MOVQ t+0(FP), AX", "MOVQ tile_c(AX), DI",
		"MOVQ tile_ldc(AX), DX")
	for i := range rows {
		k.op("VMOVUPS", sums+i, "(DI)")
		if i+1 < rows {
			k.Ops("ADDQ DX, DI")
		}
	}
	k.end()
}

// offCentre adds to the register of each row 8 less the zero points of the block, times the sum
// that the rows have at an offset, unless there are no zero points.
func (k *kernels) offCentre(rows, offset, zero, eight, scratch int, x func(i int) int) {
	k.Ops("TESTQ R12, R12", "JZ centred")
	k.op("VPMOVZXBD", "(R12)", zero)
	k.Ops(fmt.Sprintf("ADDQ $%d, R12", k.v.Lanes))
	k.op("VPSUBD", zero, eight, zero)
	k.op("VCVTDQ2PS", zero, zero)
	for i := range rows {
		k.addTimes(row(i, offset), zero, x(i), scratch)
	}
	k.Label("centred")
}

// addTimes adds a float in memory times register x to register sum.
func (k *kernels) addTimes(at string, x, sum, scratch int) {
	if k.v.Wide() {
		k.op("VFMADD231PS.BCST", at, x, sum)
		return
	}
	k.op("VBROADCASTSS", at, scratch)
	k.op("VFMADD231PS", scratch, x, sum)
}

// floats writes products of rows of floats. A row's block is its floats and then their sum.
func floats(k *kernels) {
	name := "floats" + k.v.Name
	for rows := 1; rows <= k.v.mostFloats; rows++ {
		k.floatRows(name, rows)
	}
	k.choice(name, k.v.mostFloats, "floatsGo")
}

func (k *kernels) floatRows(name string, rows int) {
	parts := 1 // of the sum of a block, which hide how long an addition takes
	switch {
	case rows == 1:
		parts = 4
	case rows < 8:
		parts = 2
	}
	// and the sums of a block from 0 on
	q, w, eight, table, sums, scale, zero, scratch := 8, 9, 10, 11, 12, 15, 7, 6
	if k.v.Wide() {
		q, w, eight, table, sums, scale, zero = 24, 25, 26, 27, rows*parts, 28, 29
	}
	k.product(name, rows, sums)
	k.spread(eight, 8)
	if k.v.Wide() {
		k.op("VMOVUPS", "·centred<>(SB)", table)
	} else {
		k.spread(table, 15)
	}
	k.block(scale)
	for i := range rows * parts {
		k.clear(i)
	}
	k.chunk(q)
	for p := range 8 {
		k.weight(p, q, w, eight, table)
		for i := range rows {
			k.addTimes(row(i, 4*place(p)), w, i*parts+p%parts, scratch)
		}
	}
	k.chunkEnd(rows, 32)
	for i := range rows {
		for p := parts / 2; p > 0; p /= 2 {
			for part := range p {
				k.op("VADDPS", i*parts+part+p, i*parts+part, i*parts+part)
			}
		}
	}
	k.offCentre(rows, 0, zero, eight, scratch, func(i int) int { return i * parts })
	for i := range rows {
		k.op("VFMADD231PS", scale, i*parts, sums+i)
	}
	k.blockEnd(rows, 4, sums)
}

// place is the step of K, of the eight of a chunk, whose number is the p-th of four bits in a word:
// of bytes the low halves come first.
func place(p int) int { return p/2 + p%2*4 }

// weight makes floats of the p-th numbers of words, less 8.
func (k *kernels) weight(p, q, w, eight, table int) {
	from := q
	if p > 0 {
		k.op("VPSRLD", fmt.Sprintf("$%d", 4*p), q, w)
		from = w
	}
	if k.v.Wide() { // which looks at the lowest four bits only
		k.op("VPERMPS", table, from, w)
		return
	}
	k.op("VPAND", table, from, w)
	k.op("VPSUBD", eight, w, w)
	k.op("VCVTDQ2PS", w, w)
}

// byteProducts writes products of rows of bytes. A row's block is -8 times the sum of its bytes, in
// 32 bits, its bytes, its scale and the sum of its bytes as a float.
func byteProducts(k *kernels) {
	name := "bytes" + k.v.Name
	for rows := 1; rows <= k.v.mostBytes; rows++ {
		k.byteRows(name, rows)
	}
	k.choice(name, k.v.mostBytes, "bytesGo")
}

func (k *kernels) byteRows(name string, rows int) {
	sums, low, high, mask, scale, zero, eight, scratch, ones, more := 3, 6, 7, 8, 9, 10, 11, 12, 13,
		14
	if k.v.Wide() {
		sums, low, high, mask, scale, zero, eight, scratch = 12, 24, 25, 26, 27, 28, 29, 30
	}
	k.product(name, rows, sums)
	k.spread(mask, 0x0f0f0f0f)
	k.spread(eight, 8)
	if !k.v.Wide() {
		k.spread(ones, 0x00010001)
	}
	k.block(scale)
	for i := range rows {
		k.op("VPBROADCASTD", row(i, 0), i)
	}
	k.advance(rows, 4)
	k.chunk(low)
	k.op("VPSRLD", "$4", low, high)
	k.op(k.v.and, mask, low, low)
	k.op(k.v.and, mask, high, high)
	if k.v.Wide() {
		for part, w := range []int{low, high} {
			for i := range rows {
				k.op("VPDPBUSD.BCST", row(i, 4*part), w, i)
			}
		}
	} else { // sums of two products of 15 by 128, and of two such sums, fit in 16 bits
		for i := range rows {
			k.op("VPBROADCASTD", row(i, 0), scratch)
			k.op("VPBROADCASTD", row(i, 4), more)
			k.op("VPMADDUBSW", scratch, low, scratch)
			k.op("VPMADDUBSW", more, high, more)
			k.op("VPADDW", more, scratch, scratch)
			k.op("VPMADDWD", ones, scratch, scratch)
			k.op("VPADDD", scratch, i, i)
		}
	}
	k.chunkEnd(rows, 8)
	for i := range rows {
		k.op("VCVTDQ2PS", i, i)
	}
	k.offCentre(rows, 4, zero, eight, scratch, func(i int) int { return i })
	for i := range rows {
		if k.v.Wide() {
			k.op("VMULPS.BCST", row(i, 0), scale, scratch)
		} else {
			k.op("VBROADCASTSS", row(i, 0), scratch)
			k.op("VMULPS", scratch, scale, scratch)
		}
		k.op("VFMADD231PS", scratch, i, sums+i)
	}
	k.blockEnd(rows, 8, sums)
}
