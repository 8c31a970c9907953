package gemm

import "unsafe"

// aheadTiles is the number of rows of tiles from which computing takes so much longer than fetching
// that memory has time to spare: with fewer, what is fetched ahead comes in the way of what is
// needed now.
const aheadTiles = 3

// fetch has the tiles of the panel of columns from j fetch the next panel of a packed B, a part
// each. Packed operands are constants, which other data may have driven out of the caches since the
// run before; the first tile of a panel would read it faster than memory gives it, and processors
// that fetch ahead by themselves begin anew at every page.
func (o *Op) fetch(t *tile, w window, b []float32, j, k0, k int) {
	p, nr, steps := &o.p, o.level.nr(), o.level.steps
	t.ahead, t.aheadStep = uintptr(unsafe.Pointer(unsafe.SliceData(t.b))), 0
	if !p.PackedB || w.i1-w.i0 < aheadTiles*o.level.mr() {
		return
	}
	next := (j+nr)*steps(p.K) + steps(k0)*nr
	if j+nr >= w.j1 && k0+k < p.K {
		next = w.j0*steps(p.K) + steps(k0+k)*nr
	}
	if next < len(b) {
		t.ahead = uintptr(unsafe.Pointer(&b[next]))
		t.aheadStep = 4 * nr * o.level.mr() / max(w.i1-w.i0, o.level.mr())
	}
}
