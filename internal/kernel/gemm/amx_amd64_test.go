//go:build amd64 && !noasm

package gemm

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// TestTilesThatDifferAreNotUsed holds that the comparison before the first use sees one wrong bit,
// results that stay what they were, and rows that are not computed.
func TestTilesThatDifferAreNotUsed(t *testing.T) {
	right := (*tileCall).model
	if err := tilesDiffer(right); err != nil {
		t.Error(err)
	}
	for name, run := range map[string]func(c *tileCall, v level, a, b, out []float32){
		"nothing": func(*tileCall, level, []float32, []float32, []float32) {},
		"a bit": func(c *tileCall, v level, a, b, out []float32) {
			right(c, v, a, b, out)
			out[(c.rows-1)*c.ldc+31]++
		},
		"the last level": func(c *tileCall, v level, a, b, out []float32) {
			if v != levelTilesS8U8 {
				right(c, v, a, b, out)
			}
		},
		"signs": func(c *tileCall, v level, a, b, out []float32) {
			if v == levelTilesU8S8 {
				v = levelTilesS8U8
			}
			right(c, v, a, b, out)
		},
		"no sum": func(c *tileCall, v level, a, b, out []float32) {
			fresh := *c
			fresh.flags = 0
			right(&fresh, v, a, b, out)
		},
		"the lower rows": func(c *tileCall, v level, a, b, out []float32) {
			for i := range c.tiles {
				upper := *c
				upper.rows, upper.tiles = min(c.rows, tileRows), 1
				right(&upper, v, a[i*c.nextA/4:], b, out[i*c.nextC/4:])
			}
		},
		"the second tile": func(c *tileCall, v level, a, b, out []float32) {
			first := *c
			first.tiles = 1
			right(&first, v, a, b, out)
		},
		"rows of A": func(c *tileCall, v level, a, b, out []float32) {
			packed := *c
			packed.rowA = 0
			right(&packed, v, a, b, out)
		},
		"rows side by side": func(c *tileCall, v level, a, b, out []float32) {
			dense := *c
			dense.ldc = tilesNR
			right(&dense, v, a, b, out)
		},
	} {
		if err := tilesDiffer(run); err == nil {
			t.Errorf("%s: no difference is seen", name)
		}
	}
}

// TestTilesAreAskedForOnlyWhereTheyAre holds that products use none where the processor, or who
// runs the program, has none.
func TestTilesAreAskedForOnlyWhereTheyAre(t *testing.T) {
	defer cpuinfo.Limit(cpuinfo.PathAVX512BF16)()
	for _, p := range []Format{F32, BF16, U8S8, S8U8} {
		if currentLevel(p).tiles() {
			t.Errorf("format %d is on tiles", p)
		}
	}
}

// TestArgumentsOfTiles states what the assembly reads of a call.
func TestArgumentsOfTiles(t *testing.T) {
	if size := unsafe.Sizeof(tileConfig{}); size != 64 {
		t.Errorf("a configuration has %d bytes", size)
	}
	for rows, want := range map[int][3]int{ // of the upper registers, of the lower, to the 17th
		1: {1, 1, 0}, 16: {16, 1, 0}, 17: {16, 1, 1024}, 31: {16, 15, 1024}, 32: {16, 16, 1024},
	} {
		c := tileCall{steps: 2, rows: rows, tiles: 3, ldc: 40, nextA: 7, nextC: 9, flags: 255,
			ahead: 11, aheadStep: 13}
		var a tileArgs
		c.args(&a)
		g := a.config.rows
		if got := [3]int{int(g[0]), int(g[2]), a.aTile}; got != want || g[1] != g[0] ||
			g[3] != g[2] || g[4] != g[0] || g[5] != g[2] || g[6] != 16 || g[7] != 16 || g[8] != 0 {
			t.Errorf("%d rows: %v, distance %d; want %v", rows, g, a.aTile, want)
		}
		if a.config.palette != 1 || a.config.colBytes[7] != 64 || a.config.colBytes[8] != 0 ||
			a.aStep != 64*rows || a.aRow != 64 || a.ldc != 160 || a.panels != 3 || a.add != 1 ||
			a.aPanel != 7 || a.cPanel != 9 || a.ahead != 11 || a.aheadStep != 13 {
			t.Errorf("%d rows: %+v", rows, a)
		}
	}
}

// TestTilesAreRunOnlyOncePermitted holds that no tile is used, not even to compare it, before the
// system has permitted that.
func TestTilesAreRunOnlyOncePermitted(t *testing.T) {
	denied := errors.New("denied")
	none := func(*tileCall, level, []float32, []float32, []float32) { t.Error("tiles have run") }
	if err := settled(func() error { return denied }, none); !errors.Is(err, denied) {
		t.Errorf("denied: %v", err)
	}
	allow := func() error { return nil }
	if err := settled(allow, (*tileCall).model); err != nil {
		t.Errorf("right tiles: %v", err)
	}
	nothing := func(*tileCall, level, []float32, []float32, []float32) {}
	if err := settled(allow, nothing); err == nil {
		t.Error("tiles that compute nothing are used")
	}
}
