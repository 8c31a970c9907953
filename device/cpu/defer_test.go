package cpu

import (
	"context"
	"sync/atomic"
	"testing"
)

// humble is a gate of a job for which nobody waits, or of another.
type humble struct{ defers bool }

func (humble) Revoked() bool               { return false }
func (humble) Renew(context.Context) error { return nil }
func (g humble) Defers() bool              { return g.defers }

// nothing is a region whose chunks do nothing.
type nothing struct{}

func (nothing) Chunk(int, int) {}

// TestDefers: each thread that computes for a job which nobody waits for offers its core after each
// part of a kernel, and no thread that computes for another does.
func TestDefers(t *testing.T) {
	var offers atomic.Int64
	offerCore = func() { offers.Add(1) }
	defer func() { offerCore = yieldThread }()
	p := NewPool(PoolOptions{Threads: 2})
	defer p.Close()
	const chunks = 64
	for _, n := range []int{1, chunks} {
		for _, defers := range []bool{true, false} {
			offers.Store(0)
			if err := p.Run(t.Context(), humble{defers}, n, nothing{}); err != nil {
				t.Fatal(err)
			}
			if got := offers.Load(); defers && got < int64(n) || !defers && got > 0 {
				t.Errorf("defers %v: of %d parts the core was offered after %d", defers, n, got)
			}
		}
	}
}
