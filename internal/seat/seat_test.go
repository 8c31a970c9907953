package seat_test

import (
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// halves gives the job of number 1 the lower half of the units and the others the upper, to be
// given back where yield says.
type halves struct{ yield share.Boundary }

func (halves) Name() string { return "halves" }

func (p halves) Decide(s *share.Snapshot) (d share.Decision) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		first := 0
		if j.ID > 1 {
			first = s.Units / 2
		}
		if j.Phase == share.Waiting {
			d.Set = append(d.Set, share.Terms{Job: j.ID, Units: share.UnitRange(first, s.Units/2),
				Until: share.Forever, Yield: p.yield})
		}
	}
	return d
}

// TestLeaseAsGate: two jobs hold halves of a device at the same time, and their gates say so to the
// device.
func TestLeaseAsGate(t *testing.T) {
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 4})
	defer pool.Close()
	for _, yield := range []share.Boundary{share.Chunk, share.Kernel} {
		b, err := broker.New(broker.Config{Config: core.Config{Device: "cpu:0", Units: 4,
			Memory: share.GiB, Policy: halves{yield}}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		for i, want := range []device.Units{{0b0011}, {0b1100}} {
			j, err := b.Admit(share.Job{Name: string(rune('a' + i))}, 1)
			if err != nil {
				t.Fatal(err)
			}
			s := seat.New(j, pool)
			g, err := s.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			c, ok := g.(device.Confined)
			if !ok {
				t.Fatal("the gate of a lease says no units")
			}
			if got := c.Units(); got != want {
				t.Errorf("job %d: units %b, want %b", i, got[0], want[0])
			}
			if c.Splits() != (yield == share.Chunk) {
				t.Errorf("yield at a %v: Splits is %v", yield, c.Splits())
			}
		}
	}
}
