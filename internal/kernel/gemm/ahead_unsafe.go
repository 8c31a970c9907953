package gemm

import (
	"unsafe"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// aheadTiles is the number of rows of tiles from which a panel takes so much longer to compute than
// to fetch that memory has time to spare. With fewer rows, fetching ahead delays what is needed
// now. Where products of AVX-512 take twice as long, one row of tiles is enough.
func aheadTiles(v level) int {
	if v.tiles() { // of so many, a step of each fetches all of its part by the lines that it has
		return 4
	}
	if v.floats() == levelAVX512 && cpuinfo.HalfRateAVX512() {
		return 1
	}
	return 3
}

// fetchNothing has a tile fetch no more than the panel that it reads: kernels fetch something in
// any case, and an address outside of the program would have the processor look for its page each
// time.
func (t *tile) fetchNothing() {
	t.ahead, t.aheadStep = uintptr(unsafe.Pointer(unsafe.SliceData(t.b))), 0
	t.aheadLast, t.againAheadLast = 0, 0
}

// fetch has the tiles of the panel of columns from j prefetch the next panel of a packed B, a part
// each. Packed operands are constants, which other data may have driven out of the caches since the
// last run. Without this the first tile of a panel would read it faster than memory delivers it,
// since the prefetchers of processors begin anew at every page.
func (o *Product) fetch(t *tile, w window, b []float32, j, k0, k int) {
	p, nr, whole := &o.p, o.level.nr(), o.packed.steps(o.p.K)
	t.fetchNothing()
	if !p.PackedB || p.PackedA && !o.level.tiles() || w.i1-w.i0 < o.aheadRows {
		return
	}
	next := (j+nr)*whole + o.level.steps(k0)*nr
	if j+nr >= w.j1 && k0+k < p.K {
		next = w.j0*whole + o.level.steps(k0+k)*nr
	}
	if next < len(b) {
		t.ahead = uintptr(unsafe.Pointer(&b[next]))
		t.aheadStep = 4 * nr * o.mr / max(w.i1-w.i0, o.mr)
	}
}

// fetchA has each of n tiles of rows from i, in the first panel of columns, prefetch the tile of a
// packed A that is read next. That is the tile of the rows below. In a batch, the last tile of a
// window is followed by the first tile of the same window in the next product, or, after the last
// product, by the rows below in the first one. Tiles of further panels find theirs in a cache.
// Where one call computes several products of more rows than its tiles have, the last of each
// fetches the rows below of its own product, which are read later.
func (o *Product) fetchA(t *tile, a panels, w window, args *Args, i, n int) {
	p := &o.p
	next := i + n*t.rows
	last := offset(p.OffA, p.StrideA, w.batch) + next*a.step + a.skip*o.mr
	if next >= w.i1 && p.Batch > 1 {
		last = offset(p.OffA, p.StrideA, 0) + next*a.step
		if w.batch+1 < p.Batch {
			last = offset(p.OffA, p.StrideA, w.batch+1) + w.i0*a.step
		}
	}
	if len(args.A) == 0 || last >= len(args.A) && n == 1 {
		return
	}
	t.aheadStep, t.againAheadLast = 4*t.rows, 4*p.StrideA
	t.aheadLast = uintptr(unsafe.Pointer(&args.A[min(last, len(args.A)-1)]))
}
