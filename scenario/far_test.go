package scenario

import (
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// TestFar shares a device whose memory the host cannot address, and that runs work in an order of
// its own: alone, under every policy, as goroutine pools and as processes. A job that is to have
// one byte less than its plan is refused in each.
func TestFar(t *testing.T) {
	s := &Scenario{Device: "far:0", Duration: time.Minute, Seed: 3, Jobs: []Job{
		{Job: share.Job{Name: "a", Iterations: 6, Share: share.Share{Class: share.Latency}},
			Model: "a", Graph: vision(t, "mobilenetv2"), Arrival: Arrival{Closed: 1}},
		{Job: share.Job{Name: "b", Iterations: 3, Share: share.Share{Class: share.Opportunistic}},
			Model: "b", Graph: vision(t, "resnet50"), Arrival: Arrival{Closed: 1}},
	}}
	o := Options{Threads: 2, Solo: true, Compare: []Mode{Threads, Processes},
		Child: asChild(t, "yes")}
	for _, p := range policy.All() {
		o.Policies = append(o.Policies, p.Name)
	}
	res := run1(t, s, o)
	if n := 1 + len(o.Policies) + len(o.Compare); len(res.Phases) != n {
		t.Errorf("%d phases, want %d", len(res.Phases), n)
	}
	for _, p := range res.Phases {
		checkPhase(t, &p)
		if p.Device != "far:0" {
			t.Errorf("phase on %q", p.Device)
		}
	}
	few := *s
	few.Jobs = slices.Clone(s.Jobs)
	few.Jobs[1].Memory = share.Bytes(res.Jobs[1].PlanBytes - 1)
	few.Jobs[0].Memory = share.Bytes(res.Jobs[0].PlanBytes)
	for i, want := range []string{StatusDone, StatusRefused} {
		if j := run1(t, &few, Options{Threads: 1}).Jobs[i]; j.Status != want {
			t.Errorf("%s, that has %d bytes of %d, is %s: %s", j.Name, few.Jobs[i].Memory,
				j.PlanBytes, j.Status, j.Error)
		}
	}
}
