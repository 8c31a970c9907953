package conv

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// TestParallel claims chunks from several goroutines, each with its own scratch, and wants the bits
// of a serial run.
func TestParallel(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, p := range []Params{square(24, 48, 30, 3, 1, 1, 1), square(64, 64, 7, 3, 1, 1, 1),
		square(40, 40, 60, 3, 2, 1, 40)} {
		args := dataFor(t, r, p)
		op, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		packed := make([]float32, op.PackedLen())
		op.PackWeights(packed, args.W)
		args.W = packed
		scratch := make([]float32, op.ScratchLen())
		for c := range op.Chunks() {
			op.Run(c, &args, scratch)
		}
		serial := args.Y
		args.Y = make([]float32, len(serial))
		var next atomic.Int64
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				scratch := make([]float32, op.ScratchLen())
				for c := int(next.Add(1)) - 1; c < op.Chunks(); c = int(next.Add(1)) - 1 {
					op.Run(c, &args, scratch)
				}
			})
		}
		workers.Wait()
		compare(t, "parallel", args.Y, serial, 0)
	}
}
