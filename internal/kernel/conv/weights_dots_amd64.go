//go:build amd64 && !noasm

package conv

import "github.com/weirgpu/weir/internal/cpuinfo"

// dotArgs is a call of the assembly, which reads this struct. Distances are bytes.
type dotArgs struct {
	a, b     *uint16
	c        *float32
	offs     *int
	lda, ldc int
	steps    int
	tiles    int
}

// maxDotSteps bounds the steps of the tiles of one call, some twenty microseconds.
const maxDotSteps = 1 << 12

// run computes what model defines.
func (t *dotTile) run() {
	if !cpuinfo.HasAVX512BF16() || t.steps == 0 {
		t.model()
		return
	}
	var offs [dotCols]int
	for i, at := range t.offs {
		_ = t.b[at+t.steps*dotStep-1]
		offs[i] = 2 * at
	}
	most := max(1, maxDotSteps/t.steps)
	for i := 0; i < t.tiles; i += most {
		n := min(most, t.tiles-i)
		a, c := t.a[i*dotRows*t.lda:], t.c[i*dotRows*t.ldc:]
		_, _ = a[(n*dotRows-1)*t.lda+t.steps*dotStep-1], c[(n*dotRows-1)*t.ldc+dotCols-1]
		dotsAVX512(&dotArgs{a: &a[0], b: &t.b[0], c: &c[0], offs: &offs[0], lda: 2 * t.lda,
			ldc: 4 * t.ldc, steps: t.steps, tiles: n})
	}
}

// evenHalves does what evenHalvesGo does.
func evenHalves(dst, src []uint16) {
	if len(dst) == 0 || !cpuinfo.HasAVX512BF16() {
		evenHalvesGo(dst, src)
		return
	}
	_ = src[2*len(dst)-2]
	evenHalvesAVX512(&dst[0], &src[0], len(dst))
}
