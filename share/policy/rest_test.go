package policy_test

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

// lingering runs three jobs with work throughout for two seconds, of which the first rests as soon
// as it is granted units, takes 10 ms to give them back when asked, and wants them again. It
// returns the device time of each.
func lingering(t *testing.T, spec string,
	class share.Class) (used [3]time.Duration) {
	t.Helper()
	can := share.Can{Partition: true, Overlap: true, Resize: true, Launches: true, Copies: true,
		Bandwidth: true}
	c, err := core.Config{Device: "test:0", Units: 4, Memory: share.GiB, Can: can}.ForPolicy(spec)
	if err != nil {
		t.Fatal(err)
	}
	k, err := core.New(c)
	if err != nil {
		t.Fatal(err)
	}
	tell := func(now time.Duration, id share.JobID, kinds ...core.EventKind) {
		t.Helper()
		for _, kind := range kinds {
			e := core.Event{Kind: kind, At: now, Job: id}
			if kind == core.Admit {
				e.Spec = &share.Job{Name: string(rune('a' + id)),
					Share: share.Share{Memory: 1, Class: class}}
			}
			if _, err := k.Step(e); err != nil {
				t.Fatalf("%s: %v", spec, err)
			}
		}
	}
	for id := range share.JobID(3) {
		tell(0, id+1, core.Admit, core.Want)
	}
	var asked time.Duration
	for now := time.Duration(0); now < 2*time.Second; now += ms / 10 {
		if w := k.Wake(); w != 0 && w <= now {
			tell(now, 0, core.Tick)
		}
		switch j, _ := k.Job(1); {
		case j.Phase == share.Running:
			tell(now, 1, core.Rest)
			asked = 0
		case j.Revoking && asked == 0:
			asked = now
		case j.Revoking && now >= asked+10*ms:
			tell(now, 1, core.Release, core.Want)
		}
		for id := share.JobID(2); id <= 3; id++ {
			j, _ := k.Job(id)
			if j.Phase == share.Running && !j.InIteration {
				tell(now, id, core.Begin)
			}
			if j.Phase == share.Running && (j.Revoking || now >= min(j.Until, j.Granted+ms)) {
				tell(now, id, core.Finish, core.Return)
			}
		}
	}
	for i := range used {
		j, _ := k.Job(share.JobID(i + 1))
		used[i] = j.Used
	}
	return used
}

// TestLingering: nobody loses a turn to a job that takes longer than a slice to give back what it
// rested on, under any policy but fill, where all wait for the first that never does.
func TestLingering(t *testing.T) {
	for _, row := range policy.All() {
		for class := range share.Class(3) {
			used := lingering(t, row.Name, class)
			if row.Name != "fill" && (used[1] < used[2]/2 || used[2] < used[1]/2 || used[1] == 0) {
				t.Errorf("%s, %v: %v used by equal jobs beside one that lingers", row.Name, class,
					used[1:])
			}
		}
	}
}

// TestLingeringPaid: time after a rest is charged like any other where policies charge by time.
func TestLingeringPaid(t *testing.T) {
	specs := []string{"fair", "priority", "gemini", "cgpu:mode=fair", "cgpu", "vgpu", "gaia",
		"mergeslice", "gpushare"}
	for _, spec := range specs {
		used := lingering(t, spec, share.Standard)
		if most := used[1] * 5 / 4; used[0] > most {
			t.Errorf("%s: %v used by one that lingers, %v by others", spec, used[0], used[1:])
		}
	}
}

// TestLingeringIsOwed: what a job holds while it is slow to give back what it rested on is made up
// to all others, and not only to such as need little and go away with what they are owed.
func TestLingeringIsOwed(t *testing.T) {
	slow := job("slow", share.Share{}, ms/20, sim.Arrival{Closed: 3, Think: 2 * ms})
	slow.Rests, slow.Linger = true, 15*ms
	jobs := []sim.Job{
		job("large", share.Share{Compute: 0.57}, 27*ms/100, sim.Arrival{Closed: 3, Think: 5 * ms}),
		job("small", share.Share{Compute: 0.3}, ms/10, always),
		job("least", share.Share{Compute: 0.01}, 3*ms, always),
		job("seldom", share.Share{}, ms/100, sim.Arrival{Poisson: 150}),
		slow,
	}
	for _, spec := range []string{"fair", "mergeslice", "gpushare:switch=1ns", "priority"} {
		res := run(t, spec, sim.Scenario{Duration: 8 * time.Second, Seed: 1, Jobs: jobs})
		if got := res.Jobs[4].Share; got > 0.15 {
			t.Errorf("%s: a job that lingers got %.3f of the device, want 0.13 at most", spec, got)
		}
		if got := res.Jobs[1].Share; got < 0.29 {
			t.Errorf("%s: a job guaranteed 0.3 got %.3f beside one that lingers", spec, got)
		}
	}
}

// TestStealBesideRests: an owner does not wait for units that it would only be lent, while another
// that rests on them is slow to give them back.
func TestStealBesideRests(t *testing.T) {
	slow := job("slow", share.Share{Compute: 0.25}, ms/100, sim.Arrival{Poisson: 100})
	slow.Rests, slow.Linger = true, 15*ms
	for _, resize := range []bool{false, true} {
		sc := sim.Scenario{Duration: 2 * time.Second, Jobs: []sim.Job{
			job("owner", share.Share{Compute: 0.75}, ms, always), slow},
			Device: sim.Device{Units: 4, Can: share.Can{Resize: resize}}}
		res := run(t, "steal", sc)
		r := &res.Jobs[0]
		if wait := r.LongestWait(0, sc.Duration); r.Share < 0.75 || wait > ms {
			t.Errorf("an owner of three units of four got %.3f of the device, and waited %v",
				r.Share, wait)
		}
	}
}
