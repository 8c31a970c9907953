package seat_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/machine"
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

// TestDefers: jobs of class opportunistic have other threads go first, from the share on that makes
// them so.
func TestDefers(t *testing.T) {
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 4})
	defer pool.Close()
	b, err := broker.New(broker.Config{Config: core.Config{Device: "cpu:0", Units: 4,
		Memory: share.GiB, Policy: halves{share.Chunk}}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, class := range []share.Class{share.Latency, share.Opportunistic} {
		j, err := b.Admit(share.Job{Name: class.String(), Share: share.Share{Class: class}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		s := seat.New(j, pool)
		if got := s.Defers(); got != (class == share.Opportunistic) {
			t.Errorf("a job of class %v defers: %v", class, got)
		}
		other := share.Latency + share.Opportunistic - class
		if err := j.SetShare(share.Share{Class: other}); err != nil {
			t.Fatal(err)
		}
		if got := s.Defers(); got != (other == share.Opportunistic) {
			t.Errorf("a job that became one of class %v defers: %v", other, got)
		}
	}
}

// counter counts chunks.
type counter struct{ atomic.Int64 }

func (c *counter) Chunk(_, _ int) { c.Add(1) }

// TestMoreCoresThanUnits: of a machine with more cores than a lease can name, those are shared that
// it can.
func TestMoreCoresThanUnits(t *testing.T) {
	m, err := machine.Open("cpu:0", machine.Options{Threads: share.MaxUnits + 88})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b := brokerOf(t, seat.Device("cpu:0", m), "fifo")
	defer b.Close()
	j, err := b.Admit(share.Job{Name: "a"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := seat.New(j, m.Pool)
	g, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	units := g.(device.Confined).Units()
	if !units.Covers(share.MaxUnits) {
		t.Errorf("the only job holds %x", units)
	}
	const chunks = 1000
	var n counter
	if err := m.Pool.Run(t.Context(), g, chunks, &n); err != nil || n.Load() != chunks {
		t.Errorf("%d of %d chunks ran, %v", n.Load(), chunks, err)
	}
}

// TestSeatLeaves: a lease that is left within an iteration is somebody else's at once, and is not
// paid for; renewed, it is waited for like any other, and it may be released while it is left.
func TestSeatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
		defer pool.Close()
		c, err := core.Config{Device: "cpu:0", Units: 1, Memory: share.GiB}.ForPolicy("fair")
		if err != nil {
			t.Fatal(err)
		}
		b, err := broker.New(broker.Config{Config: c})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		var jobs [2]*broker.Job
		var seats [2]*seat.Seat
		for i := range jobs {
			if jobs[i], err = b.Admit(share.Job{Name: string(rune('a' + i))}, 1); err != nil {
				t.Fatal(err)
			}
			seats[i] = seat.New(jobs[i], pool)
			seats[i].Arrive()
		}
		if _, err := seats[0].Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		seats[0].Begin()
		seats[0].Leave()
		if _, err := seats[1].Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		renewed := make(chan error, 1)
		go func() { renewed <- seats[0].Renew(t.Context()) }()
		synctest.Wait()
		if len(renewed) > 0 {
			t.Error("two jobs have the device at once")
		}
		seats[1].Release()
		if err := <-renewed; err != nil || seats[0].Revoked() {
			t.Errorf("renewed: error %v, revoked %v", err, seats[0].Revoked())
		}
		if used := jobs[0].Status().Used; used != 0 {
			t.Errorf("the job that had left paid for %v", used)
		}
		seats[0].Leave()
		seats[0].Release()
		if _, err := seats[0].Acquire(t.Context()); err != nil {
			t.Errorf("after a release: %v", err)
		}
		if err := seats[0].Renew(t.Context()); err != nil {
			t.Errorf("a lease that is held is renewed: %v", err)
		}
		seats[0].Release()
	})
}
