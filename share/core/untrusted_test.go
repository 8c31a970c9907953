package core_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// TestRevokedAmidIterations: a job that always has an iteration in progress is told to give way
// once those have ended that were when it was revoked.
func TestRevokedAmidIterations(t *testing.T) {
	d := under(t, "fifo")
	a := d.admit("a", share.Share{})
	d.do(a, core.Want, core.Begin, core.Begin)
	if err := d.step(core.Event{Kind: core.Switch, Policy: "fair"}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		d.now += ms
		d.do(a, core.Begin)
		d.do(a, core.Finish)
		if told := d.heard(core.Revoked, a); told != (i == 1) {
			t.Fatalf("told to give way: %v after %d of 2 iterations", told, i+1)
		}
	}
}

// TestForecastsStayTimes: what a job says of its iterations, however large, never becomes a time
// below 0 or one with which policies cannot reckon.
func TestForecastsStayTimes(t *testing.T) {
	d := under(t, "srtf")
	a := d.admit("a", share.Share{})
	for _, f := range []share.Forecast{{Time: share.Forever}, {Target: share.Forever}} {
		if err := d.step(core.Event{Kind: core.Expect, Job: a, Next: &f}); err == nil {
			t.Errorf("%+v: want an error", f)
		}
	}
	d.expect(a, share.Forecast{Time: 1})
	d.do(a, core.Want, core.Begin)
	d.now = sec
	d.do(a, core.Finish)
	d.expect(a, share.Forecast{Time: 1000 * time.Hour})
	if next := d.job(a).Next.Time; next <= 0 || next+sec <= 0 {
		t.Errorf("next iteration expected to take %v", next)
	}
}

// TestBeyondItsEnd: under srtf a job that goes on after the last of the iterations that it named
// does not go before those that still have theirs to do.
func TestBeyondItsEnd(t *testing.T) {
	d := under(t, "srtf")
	admit := func(name string, n int64) share.JobID {
		err := d.step(core.Event{Kind: core.Admit,
			Spec: &share.Job{Name: name, Share: share.Share{Memory: 1}, Iterations: n}})
		if err != nil {
			t.Fatal(err)
		}
		return d.said[0].Job
	}
	a, b := admit("a", 1), admit("b", 100)
	d.do(a, core.Want, core.Begin)
	d.do(b, core.Want)
	d.now = ms
	d.do(a, core.Finish, core.Return)
	d.do(b, core.Begin)
	d.now = 2 * ms
	d.do(b, core.Finish, core.Return)
	if !d.c.Holds(b) {
		t.Error("a job with no iterations left goes before one with 99")
	}
}

// TestSwitchKeepsPromises: a policy whose rule for admission let in more than fits gives way only
// to one that lets in as much.
func TestSwitchKeepsPromises(t *testing.T) {
	for want, s := range map[error]share.Share{
		core.ErrNoMemory:  {Memory: share.GiB},
		core.ErrNoCompute: {Memory: 1, Compute: 0.6},
	} {
		p := &scripted{decide: everyone,
			admit: func(*share.Snapshot, *share.JobState) error { return nil }}
		d := newDrive(t, core.Config{Policy: admitting{p}, Needs: share.Can{Overlap: true}})
		d.admit("a", s)
		d.admit("b", s)
		err := d.step(core.Event{Kind: core.Switch, Policy: "fair"})
		if !errors.Is(err, want) || d.c.Policy() != "scripted" {
			t.Errorf("switched to %s with an error %v, want %v", d.c.Policy(), err, want)
		}
	}
}

// TestRevokedBetweenIterations: a job that gives way at the end of its iteration, and is in none,
// is told at once.
func TestRevokedBetweenIterations(t *testing.T) {
	d := under(t, "fifo")
	a := d.admit("a", share.Share{})
	d.do(a, core.Want)
	if err := d.step(core.Event{Kind: core.Switch, Policy: "fair"}); err != nil {
		t.Fatal(err)
	}
	if !d.heard(core.Revoked, a) {
		t.Errorf("said %v", d.said)
	}
}

// TestCannot: a device that cannot resize what a job holds, or spill its memory, is not told to,
// and a policy that wants to be woken at once is asked again, but not at the same time for ever.
func TestCannot(t *testing.T) {
	var next share.Terms
	decide := func(s *share.Snapshot) share.Decision {
		return share.Decision{Set: []share.Terms{next}, Wake: s.Now}
	}
	k, err := core.New(core.Config{Device: "cpu:0", Units: 4, Memory: share.GiB,
		Policy: &scripted{decide: decide}})
	if err != nil {
		t.Fatal(err)
	}
	d := &drive{t: t, c: k}
	next.Job = 1
	a := d.admit("a", share.Share{Memory: share.GiB})
	if err := d.step(core.Event{Kind: core.Reserve, Job: a, Bytes: share.MiB}); err != nil {
		t.Fatal(err)
	}
	next = share.Terms{Job: a, Units: share.UnitRange(0, 1), Until: share.Forever}
	d.now = ms
	d.do(a, core.Want)
	next.Resident = share.Nothing
	if d.do(a, core.Arrive); d.heard(core.Evicted, a) {
		t.Error("told to move memory to the host on a device that cannot")
	}
	next.Units = share.UnitRange(0, 2)
	if d.do(a, core.Arrive); d.heard(core.Resized, a) || !d.heard(core.Revoked, a) {
		t.Errorf("more units on a device that cannot: said %v", d.said)
	}
	if w := k.Wake(); w <= d.now {
		t.Errorf("to be woken at %v, at %v", w, d.now)
	}
}

// TestResumeBesideOthers: a job that rested while others were let on its units runs beside them
// only if the policy lets it.
func TestResumeBesideOthers(t *testing.T) {
	for spec, want := range map[string]bool{"pack:jobs=1": false, "orion": false, "mps": true} {
		d := under(t, spec)
		a := d.admit("a", share.Share{Class: share.Latency})
		b := d.admit("b", share.Share{})
		d.do(b, core.Want, core.Rest)
		d.do(a, core.Want)
		d.do(b, core.Want)
		if !d.c.Holds(a) || d.c.Holds(b) != want {
			t.Errorf("%s: the one that comes runs: %v; the one that rested: %v, want %v", spec,
				d.c.Holds(a), d.c.Holds(b), want)
		}
	}
}
