package broker_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
)

// scripted is a policy that says what it is told to.
type scripted struct {
	decide func(*share.Snapshot) share.Decision
}

func (scripted) Name() string                              { return "scripted" }
func (p scripted) Decide(s *share.Snapshot) share.Decision { return p.decide(s) }
func first(s *share.Snapshot, units int) (share.Grant, bool) {
	for _, j := range s.Jobs {
		if j.Phase == share.Waiting {
			return share.Grant{Job: j.ID, Units: units, Until: share.Forever}, true
		}
	}
	return share.Grant{}, false
}

// TestUnsoundDecisions: whatever a policy says, the device is not given away twice, and a job that
// the policy forgets is served once it remembers.
func TestUnsoundDecisions(t *testing.T) {
	for _, tc := range []struct {
		name string
		say  func(s *share.Snapshot, g share.Grant) share.Decision
		want error
	}{
		{"unknown job", func(_ *share.Snapshot, g share.Grant) share.Decision {
			g.Job += 100
			return share.Decision{Run: []share.Grant{g}}
		}, share.ErrUnknownJob},
		{"too many units", func(s *share.Snapshot, g share.Grant) share.Decision {
			g.Units = s.Units + 1
			return share.Decision{Run: []share.Grant{g}}
		}, share.ErrUnits},
		{"twice", func(_ *share.Snapshot, g share.Grant) share.Decision {
			g.Units = 2
			return share.Decision{Run: []share.Grant{g, g}}
		}, share.ErrNotWaiting},
		{"over before it begins", func(s *share.Snapshot, g share.Grant) share.Decision {
			g.Until = s.Now
			return share.Decision{Run: []share.Grant{g}}
		}, share.ErrUntil},
		{"revokes a waiting job", func(_ *share.Snapshot, g share.Grant) share.Decision {
			return share.Decision{Revoke: []share.JobID{g.Job}}
		}, broker.ErrNotRunning},
		{"revokes an unknown job", func(_ *share.Snapshot, _ share.Grant) share.Decision {
			return share.Decision{Revoke: []share.JobID{-1}}
		}, share.ErrUnknownJob},
		{"wakes in the past", func(s *share.Snapshot, _ share.Grant) share.Decision {
			return share.Decision{Wake: max(1, s.Now-ms)}
		}, broker.ErrWake},
		{"says nothing", func(*share.Snapshot, share.Grant) share.Decision {
			return share.Decision{}
		}, broker.ErrStalled},
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
				return share.Decision{Run: []share.Grant{g}}
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
			if s := b.Snapshot(); s.Decisions > 20 {
				t.Errorf("%s: the policy was called %d times", tc.name, s.Decisions)
			}
		})
	}
}

// TestSideBySide: a policy may split the units.
func TestSideBySide(t *testing.T) {
	p := scripted{func(s *share.Snapshot) share.Decision {
		g, ok := first(s, 1)
		if !ok || s.Free() == 0 {
			return share.Decision{}
		}
		return share.Decision{Run: []share.Grant{g}}
	}}
	synctest.Test(t, func(t *testing.T) {
		b, m := newBroker(t, p)
		tenants := []tenant{{name: "a", step: ms, steps: 10}, {name: "b", step: ms, steps: 10},
			{name: "c", step: ms, steps: 10}}
		together(t, b, time.Second, tenants)
		for _, a := range b.Accounts() {
			// The last iteration may end after the second.
			if a.Used < 250*ms || a.Used > 253*ms {
				t.Errorf("job %d used %v of the device, want a quarter of 1s", a.Job, a.Used)
			}
		}
		if m.held != 0 {
			t.Errorf("%d units held in the end", m.held)
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
				d.Run = append(d.Run, share.Grant{
					Job: share.JobID(r.IntN(6)), Units: r.IntN(7) - 1,
					Until: s.Now + time.Duration(r.IntN(int(3*ms))) - ms,
				})
				d.Revoke = append(d.Revoke, share.JobID(r.IntN(6)))
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
			if m.held != 0 {
				t.Errorf("seed %d: %d units held in the end", seed, m.held)
			}
		})
		if t.Failed() {
			return
		}
	}
}
