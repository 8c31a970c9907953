package core_test

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// split has a part of a job's memory be that of a job of its own, in MiB.
func (d *drive) split(id share.JobID, name string, limit, keep, held share.Bytes) (share.JobID,
	error) {
	err := d.step(core.Event{Kind: core.Split, Job: id, Bytes: held * share.MiB,
		Spec: &share.Job{Name: name, Share: share.Share{Memory: limit * share.MiB,
			Keep: keep * share.MiB, Elastic: true}}})
	if err != nil {
		return 0, err
	}
	for _, n := range d.said {
		if n.Kind == core.Admitted {
			return n.Job, nil
		}
	}
	return 0, errors.New("nobody was let in")
}

// keeping lets in a job that keeps its cap, in MiB.
func (d *drive) keeping(name string, limit share.Bytes) (share.JobID, error) {
	err := d.step(core.Event{Kind: core.Admit, Spec: &share.Job{Name: name,
		Share: share.Share{Memory: limit * share.MiB}}, Need: limit * share.MiB})
	if err != nil {
		return 0, err
	}
	return d.said[0].Job, nil
}

// reserved counts so many MiB more as held by a job.
func (d *drive) reserved(id share.JobID, n share.Bytes) error {
	return d.step(core.Event{Kind: core.Reserve, Job: id, Bytes: n * share.MiB})
}

// free gives so many MiB back.
func (d *drive) free(id share.JobID, n share.Bytes) error {
	return d.step(core.Event{Kind: core.Unreserve, Job: id, Bytes: n * share.MiB})
}

// memory is what is known of a job's memory, in MiB.
func (d *drive) memory(id share.JobID) share.Memory {
	j, _ := d.c.Job(id)
	m := j.Memory
	for _, n := range []*share.Bytes{&m.Cap, &m.Need, &m.Persistent, &m.Ephemeral, &m.Bends,
		&m.Asked} {
		*n /= share.MiB
	}
	return m
}

// TestSplit: a part of what a job holds, and of its cap and need, is another job's from then on. In
// all as much is counted, and promised, as before; what an elastic job has beside is set apart for
// it, as far as that fits.
func TestSplit(t *testing.T) {
	d := under(t, "fair") // of 1024
	a, err := d.keeping("a", 600)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.reserved(a, 600); err != nil {
		t.Fatal(err)
	}
	if err := d.free(a, 150); err != nil {
		t.Fatal(err)
	}
	before := d.c.Status()
	b, err := d.split(a, "b", 500, 500, 400)
	if err != nil {
		t.Fatal(err)
	}
	if d.c.Decisions() == before.Decisions {
		t.Error("there is one job more, and the policy is not asked")
	}
	if !d.heard(core.Changed, a) {
		t.Error("the job's share is another, and nobody is told")
	}
	if is := d.c.Status(); is.Reserved != before.Reserved || is.Promised != before.Promised {
		t.Errorf("%v held and %v promised, before %v and %v", is.Reserved, is.Promised,
			before.Reserved, before.Promised)
	}
	if m := d.memory(a); m.Cap != 100 || m.Need != 100 || m.Persistent != 50 || m.Kept() != 100 {
		t.Errorf("the job has %+v", m)
	}
	// of the 600 that it once held, 500 may have been the part's
	if j, _ := d.c.Job(a); j.Peak != 100*share.MiB {
		t.Errorf("the job's peak is %v", j.Peak)
	}
	if m := d.memory(b); m.Cap != 500 || m.Need != 500 || m.Persistent != 400 || m.Kept() != 500 {
		t.Errorf("its part has %+v", m)
	}
	if j, _ := d.c.Job(b); j.Peak != 400*share.MiB {
		t.Errorf("the part's peak is %v", j.Peak)
	}
	if d.do(a, core.End); d.memory(b).Persistent != 400 {
		t.Error("the part went with the job")
	}
	d.do(b, core.End)

	// what is lent is kept from then on, but for the part
	e, _ := d.elastic("e", 800, 100)
	if err := d.reserved(e, 700); err != nil {
		t.Fatal(err)
	}
	f, err := d.split(e, "f", 500, 0, 500)
	if err != nil {
		t.Fatal(err)
	}
	if m, p := d.memory(e), d.memory(f); m.Kept() != 300 || p.Kept() != 0 || p.Bends != 500 {
		t.Errorf("of 800 of which 100 were kept %+v and %+v are", m, p)
	}
	if spec, _ := d.c.Spec(e); spec.Elastic || spec.Keep != 0 || spec.Memory != 300*share.MiB {
		t.Errorf("what is left is %+v", spec.Share)
	}
	// 300 are kept, and 500 used in turn
	if _, err := d.keeping("g", 225); !errors.Is(err, core.ErrNoMemory) {
		t.Errorf("beside them: %v", err)
	}
	if _, err := d.keeping("h", 224); err != nil {
		t.Error(err)
	}
}

// TestSplitRefuses: what a job cannot give is refused, and leaves it as it was.
func TestSplitRefuses(t *testing.T) {
	d := under(t, "fair")
	a, _ := d.elastic("a", 900, 0)
	if err := d.reserved(a, 300); err != nil {
		t.Fatal(err)
	}
	// and 900 in turn, by this one or that
	if _, err := d.elastic("lent", 900, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := d.keeping("other", 124); err != nil {
		t.Fatal(err)
	}
	want := d.job(a).JobState
	for _, tc := range []struct {
		name              string
		limit, keep, held share.Bytes
		kind              error
	}{
		{"a", 300, 0, 300, core.ErrName},
		{"b", 300, 301, 300, share.ErrInvalid},
		{"c", 0, 0, 0, core.ErrEvent},
		{"d", 400, 0, 301, core.ErrNotReserved},
		{"e", 200, 0, 201, core.ErrNotReserved},
		{"f", 400, 0, -1, core.ErrNotReserved},
		{"g", 901, 0, 300, core.ErrOverCap},
		{"h", 700, 0, 99, core.ErrOverCap},   // 201 would be left in 200
		{"i", 700, 0, 300, core.ErrNoMemory}, // 200 would be kept, too
	} {
		if _, err := d.split(a, tc.name, tc.limit, tc.keep, tc.held); !errors.Is(err, tc.kind) {
			t.Errorf("%+v: %v", tc, err)
		}
		if got := d.job(a).JobState; got != want {
			t.Errorf("%+v left %+v for %+v", tc, got, want)
		}
	}
	part := share.Job{Name: "z", Share: share.Share{Memory: 300 * share.MiB, Elastic: true}}
	stiff, ending, lane := part, part, part
	stiff.Elastic, ending.Iterations, lane.Ephemeral = false, 1, share.MiB
	for _, spec := range []*share.Job{&stiff, &ending, &lane, nil} {
		e := core.Event{Kind: core.Split, Job: a, Spec: spec}
		if err := d.step(e); !errors.Is(err, core.ErrEvent) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	d.do(a, core.Begin)
	if _, err := d.split(a, "z", 300, 0, 300); !errors.Is(err, core.ErrEvent) {
		t.Errorf("within an iteration: %v", err)
	}
	d.do(a, core.Finish)
	if err := d.reserveWait(a, 601); err != nil {
		t.Fatal(err)
	}
	if _, err := d.split(a, "z", 300, 0, 300); !errors.Is(err, core.ErrEvent) {
		t.Errorf("while it waits for memory: %v", err)
	}
}

// TestSplitOfALane: what is in a lane has no part that it could give.
func TestSplitOfALane(t *testing.T) {
	d := withLanes(t, "fair", 2)
	a, err := d.admitLane("a", 400, 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.split(a, "b", 300, 0, 0); !errors.Is(err, core.ErrEvent) {
		t.Errorf("of a job in a lane: %v", err)
	}
}

// TestSplitPromises: what is set apart for a job by a split, and others hold, is asked back from
// them at once.
func TestSplitPromises(t *testing.T) {
	l := lending(t, "a")
	for _, name := range []string{"b", "c"} {
		id, err := l.elastic(name, 500, 0)
		if err != nil {
			t.Fatal(err)
		}
		l.ids[name] = id
	}
	l.wants("a", 300)
	l.wants("b", 500)
	l.wants("c", 200)
	if _, err := l.split(l.ids["a"], "part", 100, 0, 0); err != nil {
		t.Fatal(err)
	}
	// 500 of 1024 are kept for a from here on, which holds 300
	l.asked("with more set apart for the other", "b", 324)
}

// TestSplitBeyondTheDevice: where a policy's own rule has let in more than there is, nothing is set
// apart for what is left of a job.
func TestSplitBeyondTheDevice(t *testing.T) {
	rule := &broken{}
	p := &scripted{decide: everyone,
		admit: func(*share.Snapshot, *share.JobState) error { return nil }}
	d := newDrive(t, core.Config{Policy: admitting{p}, Eviction: rule,
		Needs: share.Can{Overlap: true}})
	if _, err := d.keeping("other", 900); err != nil {
		t.Fatal(err)
	}
	a, err := d.keeping("a", 900)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.reserved(a, 100); err != nil {
		t.Fatal(err)
	}
	size := func() share.Bytes {
		d.do(a, core.Want, core.Begin, core.Finish, core.Release)
		return rule.seen[len(rule.seen)-1].Size / share.MiB
	}
	if n := size(); n != 100 {
		t.Errorf("ranked by %d", int64(n))
	}
	if _, err := d.split(a, "part", 400, 0, 80); err != nil {
		t.Fatal(err)
	}
	if m := d.memory(a); m.Kept() != 0 || m.Persistent != 20 || m.Need != 500 {
		t.Errorf("the rest has %+v", m)
	}
	if n := size(); n != 20 {
		t.Errorf("the rest is ranked by %d", int64(n))
	}
}

// TestSplitOfWhatIsNotNeeded: a job needs nothing where its part takes more than it needed.
func TestSplitOfWhatIsNotNeeded(t *testing.T) {
	d := under(t, "fair")
	a := d.admit("a", share.Share{Memory: 600 * share.MiB})
	if _, err := d.split(a, "part", 500, 0, 0); err != nil {
		t.Fatal(err)
	}
	if m := d.memory(a); m.Need != 0 || m.Cap != 100 {
		t.Errorf("the rest has %+v", m)
	}
}
