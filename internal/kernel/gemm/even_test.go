package gemm

import "testing"

// TestFewChunksKeepWorkersEquallyLong holds how products are cut whose chunks are few: by how much
// longer one, two and four workers take together than work that can be shared out freely.
func TestFewChunksKeepWorkersEquallyLong(t *testing.T) {
	for _, e := range []struct {
		name string
		p    Params
		most float64
	}{
		{"more channels", Params{M: 196, N: 384, K: 64, PackedB: true, TransA: true, TransC: true},
			1.3},
		{"fewer channels", Params{M: 196, N: 64, K: 384, PackedB: true, TransA: true, TransC: true},
			1.2},
		{"image of one panel", Params{M: 320, N: 49, K: 960, PackedA: true}, 1.45},
		{"batch", Params{M: 64, N: 196, K: 16, PackedA: true, Batch: 8}, 1.3},
	} {
		p := e.p
		p.setDefaults()
		b := plan(&p, currentLevel(F32))
		work := float64(p.Batch) * float64(p.M) * float64(p.N) * float64(p.K)
		ratio := b.time(&p, currentLevel(F32)) / (3 * work)
		if ratio > e.most+3*claimWork*float64(b.chunks)/(3*work) {
			t.Errorf("%s: %d chunks take %.2f of the time", e.name, b.chunks, ratio)
		}
	}
}

// TestTilesAreNoHigherThanTheirNumberNeeds holds that tiles of rows which are packed for the
// product are as low as so many can be: the last one then has the most rows, and reads a panel of B
// for more than one or two. With AVX2, where a tile of few rows takes as long as one of four,
// heights are those by which all tiles take the least time.
func TestTilesAreNoHigherThanTheirNumberNeeds(t *testing.T) {
	height := func(v level, m int) int {
		p := Params{M: m, N: 64, K: 64, PackedB: true}
		p.setDefaults()
		b := plan(&p, v)
		return b.mr
	}
	atLevels(t, func(t *testing.T) {
		v := currentLevel(F32)
		for m := 1; m <= 200; m++ {
			mr := height(v, m)
			tiles := ceilDiv(m, v.mr())
			least := ceilDiv(m, mr) == tiles && (mr-1)*tiles < m
			if !least && (v != levelAVX2 || mr < 4) {
				t.Fatalf("%d rows in tiles of %d, want the least of %d tiles", m, mr, tiles)
			}
		}
	})
	for m, want := range map[int]int{1: 1, 3: 3, 5: 5, 7: 4, 8: 4, 9: 5, 10: 6, 16: 6, 32: 4,
		49: 6, 64: 6, 128: 6, 169: 6, 196: 6} {
		if got := height(levelAVX2, m); got != want {
			t.Errorf("%d rows with AVX2 in tiles of %d, want %d", m, got, want)
		}
	}
}

// TestPartsDifferByOneUnit checks that parts follow each other, are whole units and differ by one
// at most.
func TestPartsDifferByOneUnit(t *testing.T) {
	for n := 1; n < 60; n++ {
		for unit := 1; unit < 9; unit++ {
			for parts := 1; parts <= ceilDiv(n, unit); parts++ {
				end, most, least := 0, 0, n
				for i := range parts {
					lo, hi := part(n, parts, unit, i)
					units := ceilDiv(hi-lo, unit)
					most, least = max(most, units), min(least, units)
					if lo != end || lo%unit != 0 || units < 1 {
						t.Fatalf("part %d of %d of %d elements in units of %d: %d to %d after %d",
							i, parts, n, unit, lo, hi, end)
					}
					end = hi
				}
				if end != n || most-least > 1 || most != ceilDiv(ceilDiv(n, unit), parts) {
					t.Fatalf("%d parts of %d elements in units of %d: %d to %d units, up to %d",
						parts, n, unit, least, most, end)
				}
			}
		}
	}
}
