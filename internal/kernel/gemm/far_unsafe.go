package gemm

import (
	"unsafe"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// caches are those that products are cut for. Only tests change them.
var caches = cpuinfo.CacheSizes()

// farCache says that products of this level have the processor fetch ahead whatever the second
// cache does not hold, as the third is far: [cpuinfo.Caches.ThirdFar]. Where it is near, a core
// reads from it as fast as it multiplies, and has no instructions to spare.
func (v level) farCache() bool { return v == levelAVX512 && caches.ThirdFar() }

// comesFar reports whether an operand of so many floats comes from behind the second cache, half of
// which other operands take.
func (v level) comesFar(floats int) bool { return v.farCache() && 4*floats > caches.L2/2 }

// ComesFar reports whether an operand of so many floats comes from behind the second cache, and
// from so far that single precision at the current instruction level multiplies it faster where it
// is copied, in stretches as long as may be, than where it lies.
func ComesFar(floats int) bool { return currentLevel(F32).comesFar(floats) }

// onward is what fetch has planned for the tiles of a panel of columns.
type onward struct {
	at   uintptr
	step int
}

// fetchRowsA has the tile of rows from i, of the first panel of columns, prefetch of rows of A that
// are read where they lie what the tile below reads: of each step of K the line where its last row
// lies, as those before it are in the lines that this tile or the next ones fetch. Each step lies
// in a page of its own, where processors fetch nothing ahead by themselves. The last tile fetches
// the next panel of B by itself.
func (o *Product) fetchRowsA(t *tile, a panels, w window, i int, b onward) {
	if next := i + t.rows; next < w.i1 {
		t.ahead = uintptr(unsafe.Pointer(&a.data[min(next+t.rows, w.i1)-1]))
		t.aheadStep = 4 * a.ld
		return
	}
	t.ahead, t.aheadStep = b.at, b.step*ceilDiv(w.i1-w.i0, o.mr)
}
