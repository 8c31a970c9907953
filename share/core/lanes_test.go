package core_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// withLanes drives a core of 1 GiB whose jobs share ephemeral memory.
func withLanes(t *testing.T, spec string, lanes int) *drive {
	c, err := core.Config{Lanes: lanes}.ForPolicy(spec)
	if err != nil {
		t.Fatal(err)
	}
	return newDrive(t, c)
}

// admitLane lets a job in with memory of its own and of a lane, in MiB.
func (d *drive) admitLane(name string, own, ephemeral share.Bytes) (share.JobID, error) {
	err := d.step(core.Event{Kind: core.Admit, Spec: &share.Job{Name: name,
		Share:     share.Share{Memory: (own + ephemeral) * share.MiB},
		Ephemeral: ephemeral * share.MiB}})
	if err != nil {
		return 0, err
	}
	return d.said[0].Job, nil
}

// TestLanesAdmitMore: jobs of 50 MiB and of 300 MiB while they iterate.
func TestLanesAdmitMore(t *testing.T) {
	for lanes, want := range []int{2, 14, 8, 8} {
		d := withLanes(t, "fair", lanes)
		n := 0
		var err error
		for ; err == nil; n++ {
			_, err = d.admitLane(fmt.Sprint(n), 50, 300)
		}
		if n-1 != want || !errors.Is(err, core.ErrNoMemory) {
			t.Errorf("%d lanes: %d jobs let in, want %d: %v", lanes, n-1, want, err)
		}
	}
}

// TestLaneOf: a new lane where there is memory for it, else the smallest that is large enough, else
// the one that grows least; when jobs end, lanes shrink.
func TestLaneOf(t *testing.T) {
	d := withLanes(t, "fair", 3)
	ids := map[string]share.JobID{}
	for _, tc := range []struct {
		name           string
		own, ephemeral share.Bytes
		lane           int // 0: shares nothing; -1: refused
		ends           string
	}{
		{"a", 100, 200, 1, ""},
		{"b", 100, 400, 2, ""},
		{"c", 50, 150, 3, ""},
		{"shares nothing", 20, 0, 0, ""},
		{"small", 2, 300, 2, ""},
		{"tiny", 1, 1, 3, ""}, // 1023 of 1024
		{"own", 2, 0, -1, ""},
		{"large", 1, 401, -1, "b"},
		{"grows", 50, 320, 2, ""}, // from 300
		{"last", 50, 250, 2, ""},
	} {
		id, err := d.admitLane(tc.name, tc.own, tc.ephemeral)
		ids[tc.name] = id
		if tc.lane < 0 {
			if !errors.Is(err, core.ErrNoMemory) {
				t.Errorf("%s: %v", tc.name, err)
			}
		} else if got := d.job(id).Memory.Lane; err != nil || got != tc.lane {
			t.Errorf("%s: lane %d, want %d: %v", tc.name, got, tc.lane, err)
		}
		if tc.ends != "" {
			d.do(ids[tc.ends], core.End)
		}
	}
}

// TestLaneInTurn: under a policy that lets all run at once, jobs of one lane iterate in turn, each
// within its memory, and none is forgotten.
func TestLaneInTurn(t *testing.T) {
	for _, spec := range []string{"mps", "fair", "priority", "fifo", "timeslice"} {
		d := withLanes(t, spec, 1)
		var ids []share.JobID
		for i := range 3 {
			id, err := d.admitLane(fmt.Sprint(i), 50, 600)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
			d.do(id, core.Want)
		}
		for range 30 {
			running := 0
			for _, id := range ids {
				if d.job(id).Phase != share.Running {
					continue
				}
				running++
				for _, o := range ids {
					err := d.step(core.Event{Kind: core.Begin, Job: o})
					if (err == nil) != (o == id) || err != nil && !errors.Is(err, core.ErrLane) {
						t.Fatalf("%s: job %d begins in the lane of %d: %v", spec, o, id, err)
					}
				}
				reserve := core.Event{Kind: core.Reserve, Job: id, Memory: core.Ephemeral,
					Bytes: 600 * share.MiB}
				if err := d.step(reserve); err != nil {
					t.Fatal(err)
				}
				d.now += 30 * ms
				// It gives way amid the iteration, and goes on, whoever's turn it is.
				if d.do(id, core.Return); d.job(id).Phase != share.Running {
					t.Fatalf("%s: job %d is not let out of the way", spec, id)
				}
				d.now += 3 * ms
				d.do(id, core.Finish)
				reserve.Kind = core.Unreserve
				if err := d.step(reserve); err != nil {
					t.Fatal(err)
				}
				d.do(id, core.Return)
				break
			}
			if running != 1 {
				t.Fatalf("%s: %d jobs of the lane run", spec, running)
			}
		}
		for _, id := range ids {
			if n := d.job(id).Iterations; n < 9 || n > 11 {
				t.Errorf("%s: job %d did %d of 30 iterations", spec, id, n)
			}
		}
		if n, err := d.c.Faults(); n > 0 {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

// TestLaneOfIdle: while the job that occupies a lane waits for something else amid its iteration,
// jobs of other lanes run and those of its own wait.
func TestLaneOfIdle(t *testing.T) {
	for _, spec := range []string{"fair", "priority", "fifo", "timeslice"} {
		d := withLanes(t, spec, 2)
		a, _ := d.admitLane("a", 10, 600)
		b, _ := d.admitLane("b", 10, 600)
		c, err := d.admitLane("c", 10, 300)
		if err != nil {
			t.Fatal(err)
		}
		d.do(a, core.Want, core.Begin, core.Release)
		d.now += ms
		d.do(b, core.Want)
		d.now += ms
		if d.do(c, core.Want); !d.c.Holds(c) || d.c.Holds(b) {
			t.Errorf("%s: b holds %v, c holds %v", spec, d.job(b).Units, d.job(c).Units)
		}
		d.do(c, core.Release)
		d.now += ms
		if d.do(a, core.Finish); !d.c.Holds(b) {
			t.Errorf("%s: the lane is free, and b holds nothing", spec)
		}
		if n, err := d.c.Faults(); n > 0 {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

// TestLaneReservations: what waits for ephemeral memory is reserved once the lane is free.
func TestLaneReservations(t *testing.T) {
	d := withLanes(t, "fair", 1)
	a, _ := d.admitLane("a", 1, 600)
	b, _ := d.admitLane("b", 1, 600)
	reserve := core.Event{Kind: core.Reserve, Memory: core.Ephemeral, Bytes: share.MiB}
	reserve.Job = a
	if err := d.step(reserve); err != nil {
		t.Fatal(err)
	}
	reserve.Job = b
	if err := d.step(reserve); !errors.Is(err, core.ErrLane) {
		t.Errorf("beside another's: %v", err)
	}
	reserve.Wait = true
	if err := d.step(reserve); err != nil || d.job(b).Memory.Ephemeral > 0 {
		t.Errorf("waiting: %v, %+v", err, d.job(b).Memory)
	}
	reserve.Job, reserve.Kind = a, core.Unreserve
	if err := d.step(reserve); err != nil || !d.heard(core.Reserved, b) {
		t.Errorf("free: %v, said %v", err, d.said)
	}
	d.do(b, core.End)
	over := core.Event{Kind: core.Reserve, Job: a, Memory: core.Persistent, Bytes: share.MiB + 1}
	if err := d.step(over); !errors.Is(err, core.ErrOverCap) {
		t.Errorf("persistent memory beyond its own: %v", err)
	}
}

// TestOwnOfALane: who wants more of its own than its cap has is told of the cap, also while another
// has the lane; of what the lane gives it is told that.
func TestOwnOfALane(t *testing.T) {
	d := withLanes(t, "fair", 1)
	a, err := d.admitLane("a", 100, 300)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.admitLane("b", 100, 300)
	if err != nil {
		t.Fatal(err)
	}
	d.do(b, core.Arrive, core.Want, core.Begin)
	if err := d.step(core.Event{Kind: core.Reserve, Job: b, Memory: core.Ephemeral,
		Bytes: 300 * share.MiB}); err != nil {
		t.Fatal(err)
	}
	for kind, want := range []error{core.ErrOverCap, core.ErrLane} {
		if err := d.step(core.Event{Kind: core.Reserve, Job: a, Bytes: 100 * share.MiB}); kind ==
			0 && err != nil {
			t.Fatal(err)
		}
		err := d.step(core.Event{Kind: core.Reserve, Job: a, Memory: core.MemoryKind(kind),
			Bytes: share.MiB})
		if !errors.Is(err, want) {
			t.Errorf("%v memory: %v, want %v", core.MemoryKind(kind), err, want)
		}
	}
}

// TestLaneIsInTheCap: a cap cannot be lowered below what a job holds beside its lane, which it may
// enter at any time.
func TestLaneIsInTheCap(t *testing.T) {
	d := withLanes(t, "fair", 1)
	a, err := d.admitLane("a", 400, 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.reserved(a, 300); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[share.Bytes]error{399: core.ErrOverCap, 400: nil} {
		if err := d.step(core.Event{Kind: core.Change, Job: a, Spec: &share.Job{
			Share: share.Share{Memory: limit * share.MiB}}}); !errors.Is(err, want) {
			t.Errorf("a cap of %d for 300 and a lane of 100: %v", int64(limit), err)
		}
	}
}

// TestLaneGoesWithItsTerms: a job that is let on with what a policy wants another of its lane to
// have keeps that for as long as this decision holds, whatever else it says of the job.
func TestLaneGoesWithItsTerms(t *testing.T) {
	var a, b share.JobID
	together := false
	p := &scripted{decide: func(s *share.Snapshot) share.Decision {
		if !together {
			return everyone(s)
		}
		terms := func(id share.JobID, from, n int) share.Terms {
			return share.Terms{Job: id, Units: share.UnitRange(from, n), Until: share.Forever}
		}
		return share.Decision{Set: []share.Terms{terms(b, 2, 2), terms(a, 0, 2)}}
	}}
	d := newDrive(t, core.Config{Policy: p, Lanes: 1, Needs: share.Can{Overlap: true}})
	for i, id := range []*share.JobID{&a, &b} {
		var err error
		if *id, err = d.admitLane(string(rune('a'+i)), 100, 100); err != nil {
			t.Fatal(err)
		}
	}
	d.do(a, core.Want, core.Begin)
	together = true
	d.do(b, core.Want)
	together = false
	d.do(a, core.Release)
	together = true
	d.do(a, core.Want)
	want := share.UnitRange(2, 2)
	if j := d.job(a); j.Phase != share.Running || j.Units != want || j.Revoking {
		t.Errorf("amid its iteration it holds %v, revoked %v, want %v", j.Units, j.Revoking, want)
	}
}
