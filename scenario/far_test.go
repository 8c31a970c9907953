package scenario

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/graph"
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
		Policies: []string{AllPolicies}, Child: asChild(t, "yes")}
	policies := len(policy.All())
	if testing.Short() { // TestEveryPolicyLive has the race detector see all of them
		o.Policies, policies = []string{"fair"}, 1
	}
	res := run1(t, s, o)
	if n := 1 + policies - len(res.LeftOut) + len(o.Compare); len(res.Phases) != n {
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

// TestFarHostCap holds that a job's cap bounds what it holds of the host beside a device whose
// memory the host cannot address: its request, and values whose shape depends on data, which on
// this device take more than its plan. The job beside it goes on, and a job without a cap has what
// it needs.
func TestFarHostCap(t *testing.T) {
	g, err := graph.Parse(`graph "selective" {
		opset "" 17
		input %x: float32[1000]
		%y: float32[1000] = Add@17 (%x, %x)
		%c: int64[1,?] = NonZero@17 (%y)
		%v: float32[1,?] = Gather@17 (%y, %c)
		output %v
	}`)
	if err != nil {
		t.Fatal(err)
	}
	job := func(name string) Job {
		return Job{Job: share.Job{Name: name, Iterations: 3}, Model: name, Graph: g,
			Arrival: Arrival{Closed: 1}}
	}
	s := &Scenario{Device: "far:0", Duration: time.Minute, Seed: 3,
		Jobs: []Job{job("a"), job("b")}}
	const dynamic = 1000 * (8 + 4)
	const request = 4000
	s.Jobs[0].Memory = 2*4032 + request + dynamic - 1
	res := run1(t, s, Options{Threads: 1})
	if j := res.Jobs[0]; j.PlanBytes >= dynamic || j.Status == StatusDone ||
		!strings.Contains(j.Error, "job a: memory of the host: wants 23.5KiB, cap") {
		t.Errorf("of %d bytes, a plan of %d: %s: %s", s.Jobs[0].Memory, j.PlanBytes, j.Status,
			j.Error)
	}
	if j := res.Jobs[1]; j.Status != StatusDone {
		t.Errorf("the job beside it is %s: %s", j.Status, j.Error)
	}
	s.Jobs[0].Memory++
	if j := run1(t, s, Options{Threads: 1}).Jobs[0]; j.Status != StatusDone {
		t.Errorf("of %d bytes: %s: %s", s.Jobs[0].Memory, j.Status, j.Error)
	}
}
