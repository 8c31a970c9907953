package main

import "github.com/weirgpu/weir/internal/asm"

// finish applies the epilogue in the order that tileGo gives it and stores the tile: all of it, or
// where it is masked the columns that the tile has.
func (t *tile) finish(suffix string, masked bool) {
	t.maskLanes(masked)
	t.Field32("tile_flags", args, flags)
	t.optional("flagAccumulate", suffix, func() {
		t.Copy(toC, row)
		t.each(strideC, masked, func(r, x int) { t.Do(t.of.add(), r, r, x) })
	})
	if !t.of.bytes() {
		t.epilogue(suffix, masked)
	}
	t.Copy(toC, row)
	t.down(strideC, func(i int) { t.store(i, masked) })
	t.onward(suffix)
}

// epilogue writes what happens to a finished element.
func (t *tile) epilogue(suffix string, masked bool) {
	x, beta, free := t.tmp(0), t.tmp(t.beside()), t.tmp(t.beside()+1)
	t.optional("flagScale", suffix, func() {
		t.Every("tile_alpha", args, x)
		t.all(func(r int) { t.Do(asm.Mul, r, r, x) })
	})
	t.bias(suffix, masked)
	t.optional("flagResidual", suffix, func() {
		t.Field("tile_res", args, row)
		t.stride("tile_ldr", 2, strideR, asm.Reg{})
		t.skip("R12")
		t.Every("tile_beta", args, beta)
		t.each(strideR, masked, func(r, x int) { t.Do(asm.MulAdd, r, beta, x) })
	})
	t.optional("flagLo", suffix, func() {
		t.Every("tile_lo", args, x)
		t.all(func(r int) { t.Raise(r, x, free) })
	})
	t.optional("flagHi", suffix, func() {
		t.Every("tile_hi", args, x)
		t.all(func(r int) { t.Lower(r, x, free) })
	})
}

// bias adds one value per row or one per column.
func (t *tile) bias(suffix string, masked bool) {
	x := t.tmp(0)
	t.optional("flagBiasRow", suffix, func() {
		t.Field("tile_bias", args, row)
		for i := range t.rows {
			t.Every(4*i, row, x)
			for j := range t.nv {
				t.Do(asm.Add, t.result(i, j), t.result(i, j), x)
			}
		}
	})
	t.optional("flagBiasCol", suffix, func() {
		t.Field("tile_bias", args, row)
		t.skip("R12")
		t.load(0, t.nv, masked)
		for i := range t.rows {
			for j := range t.nv {
				t.Do(asm.Add, t.result(i, j), t.result(i, j), x+j)
			}
		}
	})
}

// optional writes a part that runs only when the flag is set.
func (t *tile) optional(flag, suffix string, part func()) {
	past := "no_" + flag + suffix
	t.Unless(flag, flags, bit, past)
	part()
	t.Label(past)
}

// all runs f for the register of every result.
func (t *tile) all(f func(r int)) {
	for i := range t.rows {
		for j := range t.nv {
			f(t.result(i, j))
		}
	}
}

// down runs f for every row, with a pointer walking down by a stride.
func (t *tile) down(stride asm.Reg, f func(i int)) {
	for i := range t.rows {
		f(i)
		if i < t.rows-1 {
			t.AddTimes(row, stride, 1)
		}
	}
}

// beside is how many registers there are beside the results for what is read of a row at once: on
// arm64 for all of it.
func (t *tile) beside() int {
	if t.ARM64() {
		return 4
	}
	return 1
}

// each runs f for the register of every result and that of the number read for it, with a pointer
// walking down the rows by a stride.
func (t *tile) each(stride asm.Reg, masked bool, f func(r, x int)) {
	t.down(stride, func(i int) {
		n := min(t.beside(), t.nv)
		for j := 0; j < t.nv; j += n {
			t.load(j, n, masked)
			for k := range n {
				f(t.result(i, j+k), t.tmp(k))
			}
		}
	})
}

// load reads registers of a row from column j on, only the lanes inside the tile when masked.
func (t *tile) load(j, n int, masked bool) {
	for k := 0; masked && k < n; k++ {
		t.loadMasked((j+k)*t.Size(), t.tmp(k), j+k)
	}
	if !masked {
		t.Load(j*t.Size(), row, consecutive(t.tmp(0), n)...)
	}
}

// store writes a row of results.
func (t *tile) store(i int, masked bool) {
	var regs []int
	for j := range t.nv {
		regs = append(regs, t.result(i, j))
		if masked {
			t.storeMasked(j*t.Size(), t.result(i, j), j)
		}
	}
	if !masked {
		t.Store(0, row, regs...)
	}
}

// consecutive are n numbers from the first on.
func consecutive(first, n int) (list []int) {
	for i := range n {
		list = append(list, first+i)
	}
	return list
}
