package conv

import (
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/generated"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// randomTiled draws a convolution of one group that fills tiles: several steps along K, several
// blocks of positions, and pixels of any number of bytes.
func randomTiled(r *rand.Rand) *pixelCase {
	k := randomPixels(r, false)
	if k.planar || r.IntN(4) == 0 {
		return k
	}
	k.p.C, k.p.M = 1+r.IntN(200), 1+r.IntN(70)
	if r.IntN(2) == 0 {
		k.p.C = 64 * (1 + r.IntN(3))
	}
	k.x, k.w = make([]byte, k.p.N*k.p.C*volume(k.p.In)),
		make([]byte, k.p.M*k.p.C*volume(k.p.Kernel))
	for _, b := range [][]byte{k.x, k.w} {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
	k.drawGrid(r)
	return k
}

// TestNHWCByTilesDefinition holds how images and weights are laid out for tiles, on any machine.
func TestNHWCByTilesDefinition(t *testing.T) {
	defer cpuinfo.TilesByDefinition()()
	r := rand.New(rand.NewPCG(18, 61))
	tiled := 0
	for range 120 {
		k := randomTiled(r)
		op, err := NewNHWC(k.p, k.planar, k.flipX, k.shift)
		if err != nil {
			t.Fatal(err)
		}
		if op.tiles != nil || HasNHWC() {
			k.check(t, r)
		}
		if op.tiles != nil {
			tiled++
		}
	}
	if tiled < 90 {
		t.Errorf("%d of 120 convolutions are on tiles", tiled)
	}
}

// TestNHWCOnTiles holds the processor's tiles to the definition of a convolution, and so to what is
// computed without them.
func TestNHWCOnTiles(t *testing.T) {
	if !HasNHWC() || !gemm.U8S8.OnTiles() {
		t.Skip("this processor has no tiles")
	}
	defer collectOften()()
	r := rand.New(rand.NewPCG(18, 62))
	for range 200 {
		randomTiled(r).check(t, r)
	}
}

// FuzzNHWCOnTiles is TestNHWCOnTiles of any seed.
func FuzzNHWCOnTiles(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		if !HasNHWC() || !gemm.U8S8.OnTiles() {
			t.Skip("this processor has no tiles")
		}
		r := rand.New(rand.NewPCG(seed, 63))
		randomTiled(r).check(t, r)
	})
}

// TestNHWCOnTilesThatAreGone holds that what is planned for tiles is computed by their definition
// where the system keeps none any more, as here on most machines.
func TestNHWCOnTilesThatAreGone(t *testing.T) {
	if cpuinfo.TilesKept() {
		t.Skip("the system keeps tiles")
	}
	r := rand.New(rand.NewPCG(18, 64))
	k := randomTiled(r)
	for k.p.N*k.p.C*volume(k.p.In) < 4000 {
		k = randomTiled(r)
	}
	undo := cpuinfo.TilesByDefinition()
	op, err := NewNHWC(k.p, k.planar, k.flipX, k.shift)
	if err != nil || op.tiles == nil {
		undo()
		t.Fatalf("%+v is not on tiles: %v", k.p, err)
	}
	args := k.args(op)
	undo()
	for i := range op.ImageChunks() {
		op.FillImage(i, args)
	}
	for c := range op.Chunks() {
		op.Run(c, args)
	}
	k.compare(t, args.Y, op.Out())
}

// args are those of a run, packed.
func (k *pixelCase) args(op *NHWC) *NHWCArgs {
	a := &NHWCArgs{X: k.x, Y: make([]byte, k.p.N*op.Out()[0]*op.Out()[1]*k.p.M),
		Weights: make([]float32, op.PackedLen()), Image: make([]byte, op.ImageLen()),
		Grid: op.Grid(), Zero: k.zero, Flip: k.flipX}
	sums := make([]int32, k.p.M)
	op.Pack(a.Weights, sums, k.w, k.flipW)
	k.grid(a.Grid, k.times(sums))
	return a
}

// TestNHWCTilesDisassemble holds the kernel's bytes against the text beside them.
func TestNHWCTilesDisassemble(t *testing.T) {
	generated.Disassembles(t, "nhwc_tiles_amd64.s", 18)
}
