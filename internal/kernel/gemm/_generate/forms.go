package main

import "github.com/weirgpu/weir/internal/asm"

// numbers is what a product multiplies: A with B.
type numbers int

const (
	floats numbers = iota
	bf16           // pairs of bfloat16
	u8s8           // words of four bytes, unsigned with signed ones
	s8u8           // the opposite
)

// bytes says that sums are those of bytes, which have no epilogue.
func (n numbers) bytes() bool { return n == u8s8 || n == s8u8 }

// add is how sums are added.
func (n numbers) add() asm.Operation {
	if n.bytes() {
		return asm.AddInt32
	}
	return asm.Add
}

// form is the tiles of an instruction set for one form of numbers. A new one is a line here, and
// where it multiplies otherwise than those there are, a [way].
type form struct {
	set asm.Vector // whose name functions end in
	mr  int        // largest number of rows of a tile
	of  numbers
	way way
}

// prefix begins the names of tiles.
func (v form) prefix() string {
	if _, is := v.way.(matrix); is {
		return "matrix"
	}
	return "tile"
}

// columns is how many columns a register of results has.
func (v form) columns() int { return v.set.Lanes }

// named is an instruction set under another name.
func named(v asm.Vector, name string) asm.Vector {
	v.Name = name
	return v
}

// The tiles, by the file that they are written to. The name of a set says which level of package
// cpuinfo has it: of amd64 Wide is AVX-512 without dot products, of arm64 Dot and Bytes with and
// without them.
var (
	avx2   = form{asm.AVX2, 6, floats, direct{}}
	avx512 = form{asm.AVX512, 14, floats, direct{}}

	bf16AMD64  = []form{{named(asm.AVX512, "AVX512BF16"), 14, bf16, direct{}}}
	bytesAMD64 = []form{
		{named(asm.AVX512, "AVX512U8S8"), 14, u8s8, direct{}},
		{named(asm.AVX512, "AVX512S8U8"), 14, s8u8, direct{}},
	}
	wideAMD64 = []form{
		{named(asm.AVX2, "AVX2U8S8"), 6, u8s8, widened{}},
		{named(asm.AVX512, "WideU8S8"), 14, u8s8, widened{}},
		{named(asm.AVX2, "AVX2S8U8"), 6, s8u8, widened{}},
		{named(asm.AVX512, "WideS8U8"), 14, s8u8, widened{}},
	}

	neon       = []form{{asm.VectorNEON, 6, floats, direct{}}}
	bytesARM64 = []form{
		{named(asm.VectorNEON, "DotU8S8"), 6, u8s8, direct{}},
		{named(asm.VectorNEON, "DotS8U8"), 6, s8u8, direct{}},
		{named(asm.VectorNEON, "BytesU8S8"), 6, u8s8, widened{}},
		{named(asm.VectorNEON, "BytesS8U8"), 6, s8u8, widened{}},
	}
	matricesARM64 = []form{
		{named(asm.VectorNEON, "BF16"), 6, bf16, matrix{}},
		{named(asm.VectorNEON, "U8S8"), 6, u8s8, matrix{}},
		{named(asm.VectorNEON, "S8U8"), 6, s8u8, matrix{}},
	}
)

// tiles writes every tile of some forms and the functions that pick one.
func tiles(s *asm.File, forms ...form) {
	for _, v := range forms {
		v.dispatch(s)
		for _, t := range v.all() {
			t.Code = asm.Code{File: s, Vector: v.set}
			t.form = v
			t.emit()
		}
	}
}

// all are the tiles of a form.
func (v form) all() []*tile {
	if v.set.Reg == asm.VectorNEON.Reg {
		return v.allNEON()
	}
	var list []*tile
	for nv := 1; nv <= 2; nv++ {
		for r := 1; r <= v.mr; r++ {
			add := func(split int, c chain) {
				list = append(list, &tile{rows: r, nv: nv, split: split, chain: c})
			}
			n := v.sums(r)
			strips := v.set.Name == avx512.set.Name && nv == 1 && n == 1
			add(n, chain{strips: strips})
			if strips && r >= aheadRows {
				add(n, chain{single: true})
			}
			if r <= v.rests() {
				add(1, chain{rest: true})
			}
			if v.lies() {
				add(1, chain{lying: true})
			}
			if narrow := v.narrowSums(); narrow > 0 && nv == 1 && n != narrow {
				add(narrow, chain{narrow: true})
			}
		}
	}
	return list
}

// allNEON are the tiles of a form for arm64: of a way that has them, also those of few rows that
// have partial sums, and of floats those for an A whose steps lie side by side.
func (v form) allNEON() (list []*tile) {
	for r := 1; r <= v.mr; r++ {
		for nv := 2; nv <= v.way.most(); nv += 2 {
			list = append(list, &tile{rows: r, nv: nv, split: 1})
			if v.of == floats {
				list = append(list, &tile{rows: r, nv: nv, split: 1, chain: chain{dense: true}})
			}
		}
	}
	if _, is := v.way.(direct); !is {
		return list
	}
	for r := 1; r <= neonFew; r++ {
		for nv := 2; nv <= 4; nv += 2 {
			list = append(list, &tile{rows: r, nv: nv, split: neonSums(r),
				chain: chain{whole: true}})
		}
	}
	return list
}

// neonFew is the most rows of a product whose results have partial sums. Processors have up to
// sixteen FMLA under way: four begin in each of the four cycles that one takes.
const neonFew = 3

// neonSums are the partial sums of the results of products of so few rows.
func neonSums(rows int) int {
	if rows == 1 {
		return 4
	}
	return 2
}

// Each of few rows has partial sums, as long as a tile of one register of columns has fewer
// accumulators than fused multiply-adds are under way, two of which begin in each of the four
// cycles that one takes, and as far as there are registers for a tile of two.
const (
	fewRows  = 4
	inFlight = 8
)

// sums is the number of partial sums of an element of a product of so many rows.
func (v form) sums(rows int) int {
	n := 1
	for rows <= fewRows && n < 4 && n*rows < inFlight && 4*n*rows <= v.set.Regs-4 {
		n *= 2
	}
	return n
}

// rests is the most rows for which there is a kernel that computes the last ones of a product of
// more rows than a tile has, whose elements have one sum each. Sums of bytes are the same in any
// order.
func (v form) rests() (rows int) {
	for !v.of.bytes() && v.sums(rows+1) > 1 {
		rows++
	}
	return rows
}

// lies says that there are kernels which read rows of A where they lie. Of AVX-512's rows a packed
// panel holds so many that packing takes a part of it.
func (v form) lies() bool { return v.set.Name == avx2.set.Name }

// narrowSums is the number of partial sums of every element of a product of several rows whose
// columns fit into one register, where a tile of the most rows has fewer accumulators than fused
// multiply-adds are under way; else 0.
func (v form) narrowSums() int {
	if v.set.Name == avx2.set.Name && v.mr < inFlight {
		return 2
	}
	return 0
}
