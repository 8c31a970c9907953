package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

// TestWaitBound works the bounds out by hand for four jobs, of which the last has a step of 7 ms
// and is entitled to what others' guarantees leave, by weight.
func TestWaitBound(t *testing.T) {
	jobs := []share.Share{{Compute: 0.4}, {Compute: 0.3, Class: share.Opportunistic},
		{Compute: 0.4, Limit: 0.4}, {}}
	steps := []time.Duration{ms, 2 * ms, 4 * ms, 7 * ms}
	const none = -1
	for _, tc := range []struct {
		wait policy.Wait
		want [4]time.Duration
	}{
		{policy.Wait{}, [4]time.Duration{none, none, none, none}},
		{policy.Wait{Part: policy.PartAlways}, [4]time.Duration{}},
		{policy.Wait{Part: policy.PartOwned, Slice: ms}, [4]time.Duration{14 * ms, none, 11 * ms,
			none}},
		{policy.Wait{Part: policy.PartEqual, Slice: 2 * ms},
			[4]time.Duration{21 * ms, 20 * ms, 18 * ms, 15 * ms}},
		{policy.Wait{Part: policy.PartEqual, Slice: 2 * ms, Pays: true},
			[4]time.Duration{25 * ms, 28 * ms, 34 * ms, 43 * ms}},
		{policy.Wait{Part: policy.PartWeight, Slice: 3 * ms}, // 0.4, 0.3, 0.4 and 0.1 of 1.2
			[4]time.Duration{22 * ms, 24 * ms, 19 * ms, 43 * ms}},
		{policy.Wait{Part: policy.PartEntitled, Slice: 3 * ms}, // 0.4, 0.15, 0.4 and 0.05
			[4]time.Duration{20500 * us, 32 * ms, 17500 * us, 67 * ms}},
		{policy.Wait{Part: policy.PartGuaranteed, Slice: ms, Pays: true},
			[4]time.Duration{18 * ms, none, 22500 * us, none}},
	} {
		for i, want := range tc.want {
			got, ok := tc.wait.Bound(jobs, steps, i)
			if !ok {
				got = none
			}
			if (got - want).Abs() > us {
				t.Errorf("%+v: job %d waits at most %v, want %v", tc.wait, i, got, want)
			}
		}
	}
}

// TestWaitsAreSaid: every policy says in words how long a job may wait, and each kind of bound in
// words of its own.
func TestWaitsAreSaid(t *testing.T) {
	said := map[string]policy.Part{}
	for _, row := range policy.All() {
		w := row.Honours.Wait
		text := w.String()
		if part, ok := said[text]; text == "" || ok && part != w.Part {
			t.Errorf("%s: waits %q, as under %q", row.Name, text, part)
		}
		if said[text] = w.Part; w.Slice > 0 && !strings.Contains(text, w.Slice.String()) {
			t.Errorf("%s: waits %q does not say %v", row.Name, text, w.Slice)
		}
	}
}

// starved returns jobs of which the last, that always has work, gets nothing from some time on
// under a policy that does not bound its wait. Under most, the first is promised the whole device.
func starved(name string) sim.Scenario {
	first := job("first", share.Share{Class: share.Latency, Compute: 1}, ms, always)
	last := job("last", share.Share{Class: share.Opportunistic}, ms, always)
	switch name {
	case "fifo", "pack": // more requests have come before than can be answered
		first.Arrival = sim.Arrival{Trace: make([]time.Duration, 5000)}
	case "srtf":
		first.Iterations = 1e6
	case "gemini": // at the end of each kernel, one of five is further below its request
		sc := sim.Scenario{Duration: 20 * time.Second}
		for i := range 5 {
			sc.Jobs = append(sc.Jobs,
				job(fmt.Sprint(i), share.Share{Compute: 0.19}, 500*ms, always))
		}
		last = job("last", share.Share{Compute: 0.01}, ms, always)
		sc.Jobs = append(sc.Jobs, last)
		return sc
	}
	return sim.Scenario{Duration: 20 * time.Second, Jobs: []sim.Job{first, last}}
}

// TestWhoStarves: a policy that states no bound for a job lets it starve, and one that does, does
// not.
func TestWhoStarves(t *testing.T) {
	for _, row := range policy.All() {
		sc := starved(row.Name)
		shares := make([]share.Share, len(sc.Jobs))
		for i := range shares {
			shares[i] = sc.Jobs[i].Share
		}
		victim := len(shares) - 1
		_, bounded := row.Honours.Wait.Bound(shares, make([]time.Duration, len(shares)), victim)
		res := run(t, row.Name, sc)
		r := &res.Jobs[victim]
		starves := r.LongestWait(sc.Duration/2, sc.Duration) == sc.Duration/2
		if r.Refused == nil && starves == bounded {
			t.Errorf("%s: bounded: %v, waited for all of 10s: %v", row.Name, bounded, starves)
		}
	}
}
