package broker_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// scripted is a policy that says what it is told to.
type scripted struct {
	decide func(*share.Snapshot) share.Decision
}

func (scripted) Name() string                              { return "scripted" }
func (p scripted) Decide(s *share.Snapshot) share.Decision { return p.decide(s) }
func first(s *share.Snapshot, units int) (share.Terms, bool) {
	for _, j := range s.Jobs {
		if j.Phase == share.Waiting {
			return share.Terms{Job: j.ID, Units: s.Free().First(units), Until: share.Forever}, true
		}
	}
	return share.Terms{}, false
}

// TestUnsoundDecisions: whatever a policy says, the device is not given away twice, and a job that
// the policy forgets is served once it remembers.
func TestUnsoundDecisions(t *testing.T) {
	for _, tc := range []struct {
		name string
		say  func(s *share.Snapshot, g share.Terms) share.Decision
		want error
	}{
		{"unknown job", func(_ *share.Snapshot, g share.Terms) share.Decision {
			g.Job += 100
			return share.Decision{Set: []share.Terms{g}}
		}, core.ErrUnknownJob},
		{"too many units", func(s *share.Snapshot, g share.Terms) share.Decision {
			g.Units = share.UnitRange(0, s.Units+1)
			return share.Decision{Set: []share.Terms{g}}
		}, core.ErrUnits},
		{"panics", func(*share.Snapshot, share.Terms) share.Decision {
			panic("index out of range")
		}, core.ErrPanic},
		{"over before it begins", func(s *share.Snapshot, g share.Terms) share.Decision {
			g.Until = s.Now
			return share.Decision{Set: []share.Terms{g}}
		}, core.ErrUntil},
		{"revokes an unknown job", func(_ *share.Snapshot, _ share.Terms) share.Decision {
			return share.Decision{Set: []share.Terms{{Job: -1}}}
		}, core.ErrUnknownJob},
		{"wakes in the past", func(s *share.Snapshot, _ share.Terms) share.Decision {
			return share.Decision{Wake: max(1, s.Now-ms)}
		}, core.ErrWake},
		{"says nothing", func(*share.Snapshot, share.Terms) share.Decision {
			return share.Decision{}
		}, core.ErrStalled},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := scripted{func(s *share.Snapshot) share.Decision {
				g, ok := first(s, s.Units)
				if !ok {
					return share.Decision{}
				}
				if s.Now < 20*ms {
					return tc.say(s, g)
				}
				return share.Decision{Set: []share.Terms{g}}
			}}
			b, _ := newBroker(t, p)
			time.Sleep(ms)
			j := admit(t, b, "a", share.Share{})
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			lease, err := j.Acquire(ctx)
			if err != nil {
				t.Errorf("%s: the job was never served: %v", tc.name, err)
				return
			}
			lease.Release()
			n, err := b.Faults()
			if n == 0 || !errors.Is(err, tc.want) {
				t.Errorf("%s: %d faults, the first %v, want %v", tc.name, n, err, tc.want)
			}
			if s := b.Status(); s.Decisions > 20 {
				t.Errorf("%s: the policy was called %d times", tc.name, s.Decisions)
			}
		})
	}
}

// TestSideBySide: a policy may split the units.
func TestSideBySide(t *testing.T) {
	p := scripted{func(s *share.Snapshot) share.Decision {
		g, ok := first(s, 1)
		if !ok || s.Free().Empty() {
			return share.Decision{}
		}
		return share.Decision{Set: []share.Terms{g}}
	}}
	synctest.Test(t, func(t *testing.T) {
		b, m := newBroker(t, p)
		tenants := []tenant{{name: "a", step: ms, steps: 10}, {name: "b", step: ms, steps: 10},
			{name: "c", step: ms, steps: 10}}
		for _, j := range together(t, b, time.Second, tenants) {
			a := j.Account()
			// The last iteration may end after the second.
			if a.Used < 250*ms || a.Used > 253*ms {
				t.Errorf("job %d used %v of the device, want a quarter of 1s", a.Job, a.Used)
			}
		}
		if held := m.Held(); !held.Empty() {
			t.Errorf("units %v held in the end", held)
		}
	})
}

// TestMadPolicy: a policy that decides at random cannot break the broker.
func TestMadPolicy(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := scripted{func(s *share.Snapshot) share.Decision {
			var d share.Decision
			for range r.IntN(4) {
				d.Set = append(d.Set, share.Terms{
					Job: share.JobID(r.IntN(6)), Units: share.UnitRange(r.IntN(4), r.IntN(7)-1),
					Until: s.Now + time.Duration(r.IntN(int(3*ms))) - ms,
					Yield: share.Boundary(r.IntN(3)),
				}, share.Terms{Job: share.JobID(r.IntN(6))})
			}
			if r.IntN(2) == 0 {
				d.Wake = s.Now + time.Duration(r.IntN(int(3*ms))) - ms
			}
			return d
		}}
		synctest.Test(t, func(t *testing.T) {
			b, m := newBroker(t, p)
			tenants := []tenant{
				{name: "a", step: ms, steps: 3}, {name: "b", step: ms / 3, steps: 20},
				{name: "c", step: 2 * ms, steps: 2, every: 9 * ms},
			}
			together(t, b, 100*ms, tenants)
			if held := m.Held(); !held.Empty() {
				t.Errorf("seed %d: units %v held in the end", seed, held)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// TestEarlierWake: a policy that asks to be woken earlier than it asked before is woken then, and
// the lease tells where it said that the job gives way.
func TestEarlierWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := time.Hour
		b, _ := newBroker(t, scripted{func(s *share.Snapshot) (d share.Decision) {
			if x, ok := first(s, units); ok && s.Now >= asked {
				x.Yield = share.Iteration
				d.Set = append(d.Set, x)
			}
			d.Wake = asked
			return d
		}})
		y := admit(t, b, "y", share.Share{})
		y.Arrive()
		asked = time.Second
		x := admit(t, b, "x", share.Share{})
		from := time.Now()
		lease, err := x.Acquire(t.Context())
		if took := time.Since(from); err != nil || took > 2*time.Second {
			t.Fatalf("granted after %v, %v", took, err)
		}
		if lease.Yield() != share.Iteration {
			t.Errorf("gives way at %v", lease.Yield())
		}
		lease.Release()
	})
}
