package gemm

import (
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// TestFewRowsTakeDotProducts holds that products of fewer than eight rows, on a processor with
// tiles, are computed by dot products, cut as they are where there are no tiles, on a B that is
// packed for tiles: with the same bits. A packed A, and a part of a product of floats, which may
// have more rows elsewhere, is for tiles.
func TestFewRowsTakeDotProducts(t *testing.T) {
	undo := cpuinfo.Limit(cpuinfo.PathAVX512BF16)
	defer undo()
	for _, f := range []Format{BF16, U8S8, S8U8} {
		if !f.hasDot() {
			t.Logf("no dot products of format %d", f)
			continue
		}
		r := rand.New(rand.NewPCG(18, uint64(f)))
		for _, size := range [][3]int{{1, 4096, 4096}, {4, 11008, 4096}, {7, 33, 5000}, {1, 1, 1},
			{5, 70, 45}, {3, 700, 130}, {2, 64, 2 * maxKC}} {
			p := Params{M: size[0], N: size[1], K: size[2], Format: f, PackedB: true,
				ToStore: f.bytes()}
			without, err := New(p)
			if err != nil {
				t.Fatal(err)
			}
			onTiles := cpuinfo.TilesByDefinition()
			with, err := New(p)
			if err != nil {
				t.Fatal(err)
			}
			if with.level.tiles() || with.blocking != without.blocking {
				t.Errorf("format %d, %v: level %d in %+v, want %+v", f, size, with.level,
					with.blocking, without.blocking)
			}
			onTiles()
			if f.bytes() || p.M*p.N*p.K > 5e6 {
				continue // TestBytes compares bytes with their sums
			}
			args := dataFor(r, p)
			args.B = random(r, p.K*p.N)
			run(t, r, p, args)
			want := append([]float32(nil), args.C...)
			onTiles = cpuinfo.TilesByDefinition()
			run(t, r, p, args)
			onTiles()
			sameBits(t, "few rows", args.C, want)
		}
	}
}

// TestWhatTakesTiles states which products do.
func TestWhatTakesTiles(t *testing.T) {
	defer cpuinfo.TilesByDefinition()()
	for _, e := range []struct {
		name string
		p    Params
		want bool
	}{
		{"eight rows", Params{M: 8}, true},
		{"seven rows", Params{M: 7}, false},
		{"one row", Params{M: 1, PackedB: true}, false},
		{"one row of a packed A", Params{M: 1, PackedA: true}, true},
		{"one row of many", Params{M: 1, Part: true}, true},
		{"one row of many, bytes", Params{M: 1, Part: true, Format: U8S8}, false},
		{"one row of bytes", Params{M: 1, Format: S8U8}, false},
		{"many rows of bytes", Params{M: 40, Format: S8U8}, true},
	} {
		p := e.p
		if p.N, p.K = 40, 40; p.Format == F32 {
			p.Format = BF16
		}
		want := e.want || !p.Format.hasDot()
		p.ToStore = p.Format.bytes()
		o, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		if o.level.tiles() != want || !o.packed.tiles() {
			t.Errorf("%s: on tiles %v, want %v; packed for tiles %v", e.name, o.level.tiles(), want,
				o.packed.tiles())
		}
	}
}

// TestChunksOnTilesAreShort holds that a chunk of a product with few rows reads no more of a packed
// B than one without tiles: memory, which such chunks wait for, is no faster. A chunk of many rows
// computes for no longer than one without tiles, at tilesSpeed.
func TestChunksOnTilesAreShort(t *testing.T) {
	defer cpuinfo.TilesByDefinition()()
	for _, f := range []Format{BF16, U8S8, S8U8} {
		for _, m := range []int{8, 9, 16, 31, 32, 33, 48, 64, 96, 128, 500, 4096} {
			for _, size := range [][2]int{{768, 768}, {4096, 4096}, {11008, 4096}, {64, 20000},
				{50000, 64}} {
				o, err := New(Params{M: m, N: size[0], K: size[1], Format: f, PackedB: true,
					ToStore: f.bytes()})
				if err != nil {
					t.Fatal(err)
				}
				words := o.level.steps(size[1])
				if read := min(o.nc, size[0]) * words; read > 3*maxWork/streamRows/2 {
					t.Errorf("format %d, %d rows by %v: a chunk reads %d words of B", f, m, size,
						read)
				}
				if work := o.mc * o.nc * words; work > 3*maxWork*tilesSpeed/2 {
					t.Errorf("format %d, %d rows by %v: a chunk of %d words", f, m, size, work)
				}
				all := float64(max(m, streamRows*tilesSpeed)) * float64(size[0]) * float64(words)
				panels := float64(ceilDiv(size[0], tilesNR))
				least := min(wantChunks, all/(tilesSpeed*minWork)/2, panels)
				if float64(o.chunks) < least {
					t.Errorf("format %d, %d rows by %v: %d chunks, want %.1f", f, m, size, o.chunks,
						least)
				}
			}
		}
	}
}

// TestCallsOnTilesAreShort counts what one call of the assembly computes and moves at most: under
// 100 microseconds on a core of 1.9 GHz to which memory brings 12 GB a second, and all of it comes
// from there.
func TestCallsOnTilesAreShort(t *testing.T) {
	for _, v := range []level{levelTilesBF16, levelTilesU8S8} {
		for rows := tileRows + 1; rows <= tilesMR; rows++ {
			for steps := tileWords; steps <= tilesKC; steps += tileWords {
				x := tile{rows: rows, k: steps}
				n := x.atOnce(v, 1<<20)
				// four products of 16 cycles a step; results are read, and written
				cycles := n * (4*16*steps/tileWords + 2*4*16)
				moved := 4 * (n*rows*steps + tilesNR*steps + 2*n*tilesNR*rows)
				if cycles > 190_000 || moved > 1_200_000 {
					t.Fatalf("%d tiles of %d rows and %d words: %d cycles, %d bytes", n, rows,
						steps, cycles, moved)
				}
			}
		}
	}
}

// TestTilesFetchWholePanels holds that the eight lines that a step of a tile fetches are all of its
// part of the next panel, in a block of so few rows that tiles fetch any.
func TestTilesFetchWholePanels(t *testing.T) {
	rows := aheadTiles(levelTilesBF16) * tilesMR
	if part := 4 * tilesNR * tileWords * tilesMR / rows; part > 8*64 {
		t.Errorf("%d rows fetch parts of %d bytes", rows, part)
	}
}
