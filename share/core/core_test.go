package core_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// drive tells a core of events, and keeps what it said last.
type drive struct {
	t    testing.TB
	c    *core.Core
	now  time.Duration
	said []core.Notice
	err  error
}

// newDrive drives a core of 4 units and 1 GiB that can do all there is.
func newDrive(t testing.TB, c core.Config) *drive {
	t.Helper()
	c.Device, c.Units, c.Memory, c.Can = "cpu:0", 4, share.GiB, everything
	k, err := core.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &drive{t: t, c: k}
}

var everything = share.Can{Partition: true, Overlap: true, Resize: true, Spill: true, Preempt: true,
	Launches: true, Copies: true, Bandwidth: true}

func under(t testing.TB, spec string) *drive {
	t.Helper()
	c, err := core.Config{}.ForPolicy(spec)
	if err != nil {
		t.Fatal(err)
	}
	return newDrive(t, c)
}

// step tells of an event now, which may be refused.
func (d *drive) step(e core.Event) error {
	e.At = d.now
	d.said, d.err = d.c.Step(e)
	return d.err
}

// do tells of events of one job now, which must be accepted.
func (d *drive) do(id share.JobID, kinds ...core.EventKind) {
	d.t.Helper()
	for _, kind := range kinds {
		if err := d.step(core.Event{Kind: kind, Job: id}); err != nil {
			d.t.Fatalf("%v of job %d at %v: %v", kind, id, d.now, err)
		}
	}
}

// admit lets a job in and returns its number.
func (d *drive) admit(name string, s share.Share) share.JobID {
	d.t.Helper()
	e := core.Event{Kind: core.Admit, Spec: &share.Job{Name: name, Share: s}}
	if err := d.step(e); err != nil {
		d.t.Fatal(err)
	}
	i := slices.IndexFunc(d.said, func(n core.Notice) bool { return n.Kind == core.Admitted })
	return d.said[i].Job
}

// heard reports whether the last step said so of a job.
func (d *drive) heard(kind core.NoticeKind, id share.JobID) bool {
	return slices.ContainsFunc(d.said,
		func(n core.Notice) bool { return n.Kind == kind && n.Job == id })
}

func (d *drive) job(id share.JobID) core.JobStatus {
	s, _ := d.c.Job(id)
	return s
}

// scripted is a policy that says what it is told to, and needs no state.
type scripted struct {
	decide func(*share.Snapshot) share.Decision
	admit  func(*share.Snapshot, *share.JobState) error
	state  func() any
}

func (*scripted) Name() string                              { return "scripted" }
func (p *scripted) Decide(s *share.Snapshot) share.Decision { return p.decide(s) }

type admitting struct{ *scripted }

func (p admitting) Admit(s *share.Snapshot, j *share.JobState) error { return p.admit(s, j) }

type stateful struct{ *scripted }

func (p stateful) NewJobState() any { return p.state() }

// everyone grants all units to all who wait, side by side.
func everyone(s *share.Snapshot) share.Decision {
	var d share.Decision
	for _, j := range s.Jobs {
		if j.Phase == share.Waiting {
			d.Set = append(d.Set, share.Terms{Job: j.ID, Units: s.All(), Until: share.Forever})
		}
	}
	return d
}

// The states that a job can be in, and how it comes there beside another job.
var states = []struct {
	name string
	to   func(d *drive, id, other share.JobID)
}{
	{"idle", func(*drive, share.JobID, share.JobID) {}},
	{"waiting", func(d *drive, id, other share.JobID) {
		d.do(other, core.Want)
		d.do(id, core.Want)
	}},
	{"running", func(d *drive, id, _ share.JobID) { d.do(id, core.Want) }},
	{"revoked", func(d *drive, id, _ share.JobID) {
		d.do(id, core.Want)
		_ = d.step(core.Event{Kind: core.Switch, Policy: "fifo"})
	}},
	{"resting", func(d *drive, id, _ share.JobID) { d.do(id, core.Want, core.Rest) }},
	{"recalled", func(d *drive, id, other share.JobID) {
		d.do(id, core.Want, core.Rest)
		d.do(other, core.Want)
	}},
}

// TestEvents tells of every event in every state: "" stays as it is, an error's name is refused.
func TestEvents(t *testing.T) {
	kinds := map[string]error{"held": core.ErrHeld, "free": core.ErrNotHeld}
	for _, tc := range []struct {
		kind core.EventKind
		// what becomes of a job that is idle, waiting, running, revoked, resting, recalled
		becomes [6]string
	}{
		{core.Want, [6]string{"running", "held", "held", "held", "running", "held"}},
		{core.Cancel, [6]string{"", "idle", "", "", "", ""}},
		{core.Return, [6]string{"free", "free", "running", "running", "running", "waiting"}},
		{core.Release, [6]string{"free", "free", "idle", "idle", "idle", "idle"}},
		{core.Rest, [6]string{"free", "free", "resting", "recalled", "free", "free"}},
		{core.End, [6]string{"ended", "ended", "ended", "ended", "ended", "ended"}},
		{core.Arrive, [6]string{}},
		{core.Complete, [6]string{}},
		{core.Begin, [6]string{}},
		{core.Finish, [6]string{}},
		{core.Unreserve, [6]string{}},
		{core.Withdraw, [6]string{}},
		{core.Tick, [6]string{}},
		{core.Shelve, [6]string{}},
		{core.Look, [6]string{}},
	} {
		for i, state := range states {
			d := under(t, "fifo")
			other, id := d.admit("other", share.Share{}), d.admit("job", share.Share{})
			d.now = ms
			state.to(d, id, other)
			if got := stateOf(d, id); got != state.name {
				t.Fatalf("%s: the job is %s", state.name, got)
			}
			was, now := d.c.Status(), d.now+ms
			d.now = now
			err := d.step(core.Event{Kind: tc.kind, Job: id})
			want := tc.becomes[i]
			if refusal := kinds[want]; refusal != nil || err != nil {
				if !errors.Is(err, refusal) || refusal == nil {
					t.Errorf("%v while %s: %v, want %v", tc.kind, state.name, err, refusal)
				}
				d.checkUntouched(fmt.Sprint(tc.kind, " while ", state.name), was)
				continue
			}
			if want == "" {
				want = state.name
			}
			if got := stateOf(d, id); got != want {
				t.Errorf("%v while %s: it is %s, want %s", tc.kind, state.name, got, want)
			}
		}
	}
}

// stateOf names the state of a job.
func stateOf(d *drive, id share.JobID) string {
	s, ok := d.c.Job(id)
	switch {
	case !ok:
		return "ended"
	case s.Phase == share.Idle && s.Revoking:
		return "recalled"
	case s.Phase == share.Idle && d.c.Holds(id):
		return "resting"
	case s.Revoking:
		return "revoked"
	}
	return s.Phase.String()
}

// checkUntouched: but for the time and what it costs, all is as it was.
func (d *drive) checkUntouched(what string, was core.Status) {
	d.t.Helper()
	is := d.c.Status()
	is.Now, was.Now = 0, 0
	for _, s := range []core.Status{is, was} {
		for i := range s.Jobs {
			s.Jobs[i].Used = 0
		}
	}
	got, want := fmt.Sprintf("%+v", is), fmt.Sprintf("%+v", was)
	if got != want || len(d.said) > 0 {
		d.t.Errorf("%s: refused, and left\n%s for\n%s, saying %v", what, got, want, d.said)
	}
}

// TestRefusals: an event that makes no sense says so, and changes nothing.
func TestRefusals(t *testing.T) {
	d := under(t, "fair")
	a := d.admit("a", share.Share{Compute: 0.5, Memory: share.MiB})
	d.admit("b", share.Share{Compute: 0.4, Memory: share.MiB})
	d.do(a, core.Want)
	spec := func(s share.Share) *share.Job { return &share.Job{Name: "c", Share: s} }
	for _, tc := range []struct {
		e    core.Event
		want error
	}{
		{core.Event{Kind: core.Admit}, core.ErrEvent},
		{core.Event{Kind: core.Admit, Spec: &share.Job{}}, share.ErrInvalid},
		{core.Event{Kind: core.Admit, Spec: &share.Job{Name: "a"}}, core.ErrName},
		{core.Event{Kind: core.Admit, Spec: spec(share.Share{Compute: 0.2})}, core.ErrNoCompute},
		{core.Event{Kind: core.Admit, Spec: spec(share.Share{Memory: share.GiB})},
			core.ErrNoMemory},
		{core.Event{Kind: core.Admit, Spec: spec(share.Share{}), Need: -1}, core.ErrOverCap},
		{core.Event{Kind: core.Want, Job: 7}, core.ErrEnded},
		{core.Event{Kind: core.Want, Job: -7}, core.ErrEnded},
		{core.Event{Kind: 99, Job: a}, core.ErrEvent},
		{core.Event{Kind: core.Change, Job: a}, core.ErrEvent},
		{core.Event{Kind: core.Change, Job: a, Spec: spec(share.Share{Compute: 0.7})},
			core.ErrNoCompute},
		{core.Event{Kind: core.Change, Job: a, Spec: spec(share.Share{Compute: 7})},
			share.ErrInvalid},
		{core.Event{Kind: core.Change, Job: a, Spec: spec(share.Share{Memory: 2 * share.GiB})},
			core.ErrNoMemory},
		{core.Event{Kind: core.Expect, Job: a}, core.ErrEvent},
		{core.Event{Kind: core.Expect, Job: a, Next: &share.Forecast{Time: -1}}, core.ErrEvent},
		{core.Event{Kind: core.Expect, Job: a, Next: &share.Forecast{Bandwidth: nan}},
			core.ErrEvent},
		{core.Event{Kind: core.Reserve, Job: a, Bytes: share.MiB + 1}, core.ErrOverCap},
		{core.Event{Kind: core.Reserve, Job: a, Bytes: -1}, core.ErrOverCap},
		{core.Event{Kind: core.Reserve, Job: a, Bytes: -1, Wait: true}, core.ErrOverCap},
		{core.Event{Kind: core.Reserve, Job: a, Bytes: share.MiB + 1, Wait: true}, core.ErrOverCap},
		{core.Event{Kind: core.Unreserve, Job: a, Bytes: 1}, core.ErrNotReserved},
		{core.Event{Kind: core.Unreserve, Job: a, Bytes: -1}, core.ErrNotReserved},
		{core.Event{Kind: core.Switch, Policy: "fare"}, policy.ErrUnknown},
		{core.Event{Kind: core.Switch, Policy: "fair:slice=no"}, policy.ErrParam},
	} {
		d.now += ms
		was := d.c.Status()
		if err := d.step(tc.e); !errors.Is(err, tc.want) {
			t.Errorf("%+v: %v, want %v", tc.e, err, tc.want)
		}
		d.checkUntouched(fmt.Sprintf("%+v", tc.e), was)
	}
}

// TestRest: a holder that rests pays nothing while nobody is to have its units; from the time when
// another is, it pays until it has given them back, and the other is not let in before.
func TestRest(t *testing.T) {
	for _, spec := range []string{"fair", "priority", "fifo", "timeslice"} {
		d := under(t, spec)
		a, b := d.admit("a", share.Share{}), d.admit("b", share.Share{})
		d.do(a, core.Want)
		d.now = 10 * ms
		d.do(a, core.Rest)
		d.now = 20 * ms
		d.do(b, core.Want)
		if !d.heard(core.Revoked, a) || d.c.Holds(b) {
			t.Errorf("%s: revoked: %v, the next holds %v", spec, d.heard(core.Revoked, a),
				d.job(b).Units)
		}
		d.now = 70 * ms
		d.do(b, core.Begin) // anything at all
		if err := d.step(core.Event{Kind: core.Want, Job: a}); !errors.Is(err, core.ErrHeld) {
			t.Errorf("%s: a job goes on with what others are to have: %v", spec, err)
		}
		if d.c.Holds(b) {
			t.Errorf("%s: let in beside a holder that has not given back", spec)
		}
		d.now = 80 * ms
		d.do(a, core.Release)
		if !d.heard(core.Granted, b) {
			t.Errorf("%s: not granted what was given back", spec)
		}
		d.now = 100 * ms
		if d.do(b, core.Rest); !d.heard(core.Rested, b) {
			t.Errorf("%s: a rest is not told of: %v", spec, d.said)
		}
		d.now = 120 * ms
		d.do(b, core.Want)
		if d.job(b).Phase != share.Running || !d.heard(core.Resumed, b) || len(d.said) > 2 {
			t.Errorf("%s: a job that rested does not run on: %v", spec, d.said)
		}
		for _, n := range d.said {
			if n.Kind == core.Resumed && n.From != 100*ms {
				t.Errorf("%s: rested since %v, want 100ms", spec, n.From)
			}
		}
		d.now = 121 * ms
		d.do(b, core.Release)
		x, y := d.job(a).Used, d.job(b).Used
		if x != 70*ms || y != 21*ms {
			t.Errorf("%s: used %v and %v, want 70ms and 21ms", spec, x, y)
		}
	}
}

// TestRestInIteration: a job told to give way at the end of its iteration gives way when it rests
// in it, or the device would wait for what a job waits for.
func TestRestInIteration(t *testing.T) {
	d := under(t, "fifo")
	a, b := d.admit("a", share.Share{}), d.admit("b", share.Share{})
	d.do(a, core.Want, core.Begin)
	d.do(b, core.Want)
	if err := d.step(core.Event{Kind: core.Switch, Policy: "fair"}); err != nil {
		t.Fatal(err)
	}
	if d.heard(core.Revoked, a) {
		t.Error("told of the revocation within the iteration")
	}
	d.do(a, core.Rest)
	if !d.heard(core.Revoked, a) {
		t.Error("rests, and is not told")
	}
	d.do(a, core.Release)
	if !d.c.Holds(b) {
		t.Error("the next is not let in")
	}
}

// TestRestLetsFreeUnitsGo: a policy that lends free units is shown those that are rested on, and is
// told when it leaves a job waiting beside nothing but resting ones.
func TestRestLetsFreeUnitsGo(t *testing.T) {
	lend := true
	d := newDrive(t, core.Config{Policy: &scripted{decide: func(s *share.Snapshot) share.Decision {
		for _, j := range s.Jobs {
			if free := s.Free(); j.Phase == share.Waiting && !free.Empty() && lend {
				return share.Decision{Set: []share.Terms{{Job: j.ID, Units: free,
					Until: share.Forever}}}
			}
		}
		return share.Decision{}
	}}})
	a, b := d.admit("a", share.Share{}), d.admit("b", share.Share{})
	d.do(a, core.Want, core.Rest)
	lend = false
	d.do(b, core.Want)
	if _, err := d.c.Faults(); !errors.Is(err, core.ErrStalled) || d.c.Wake() == 0 {
		t.Errorf("a job waits for one that rests: %v, wake at %v", err, d.c.Wake())
	}
	lend = true
	d.now = d.c.Wake()
	if d.do(a, core.Tick); !d.heard(core.Revoked, a) {
		t.Errorf("said %v, want job %d revoked", d.said, a)
	}
	d.do(a, core.Release)
	if d.job(b).Units.Len() != 4 {
		t.Errorf("the next holds %v", d.job(b).Units)
	}
}

// TestReservations: one that waits is counted as soon as it fits, and not before.
func TestReservations(t *testing.T) {
	d := under(t, "fair")
	a := d.admit("a", share.Share{Memory: 100})
	reserve := func(n share.Bytes, wait bool) error {
		return d.step(core.Event{Kind: core.Reserve, Job: a, Bytes: n, Wait: wait,
			Memory: core.Ephemeral})
	}
	free := func(n share.Bytes) {
		t.Helper()
		if err := d.step(core.Event{Kind: core.Unreserve, Job: a, Bytes: n,
			Memory: core.Ephemeral}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, held, asked share.Bytes, told bool) {
		t.Helper()
		m := d.job(a).Memory
		if m.Ephemeral != held || m.Asked != asked || d.heard(core.Reserved, a) != told {
			t.Errorf("%s: %+v, said %v", what, m, d.said)
		}
	}
	_ = reserve(80, true)
	check("what fits", 80, 0, false)
	_ = reserve(30, true)
	check("what does not", 80, 30, false)
	if err := reserve(10, true); !errors.Is(err, core.ErrWaits) {
		t.Errorf("two at once: %v", err)
	}
	_ = reserve(10, false)
	check("what need not wait", 90, 30, false)
	free(15)
	check("too little given back", 75, 30, false)
	free(5)
	check("enough given back", 100, 0, true)
	_ = reserve(20, true)
	d.do(a, core.Withdraw)
	free(50)
	check("withdrawn", 50, 0, false)
	_ = reserve(60, true)
	if err := d.step(core.Event{Kind: core.Change, Job: a,
		Spec: &share.Job{Share: share.Share{Memory: 110}}}); err != nil {
		t.Fatal(err)
	}
	check("a higher cap", 110, 0, true)
	free(110)
	_ = reserve(50, false)
	_ = reserve(100, true)
	if err := d.step(core.Event{Kind: core.Change, Job: a,
		Spec: &share.Job{Share: share.Share{Memory: 99}}}); !errors.Is(err, core.ErrOverCap) {
		t.Errorf("a cap below what it waits for: %v", err)
	}
	if err := d.step(core.Event{Kind: core.Change, Job: a,
		Spec: &share.Job{Share: share.Share{Memory: 100}}}); err != nil {
		t.Errorf("a cap of what it waits for: %v", err)
	}
	check("a lower cap", 50, 100, false)
	free(50)
	check("all given back", 100, 0, true)
}

// TestChange: a share can be changed while the job lives, if the promises can still be kept; one's
// own can always be lowered, even after a policy that promised more than there is.
func TestChange(t *testing.T) {
	broken := false
	decide := func(s *share.Snapshot) share.Decision {
		if broken {
			panic("broken")
		}
		return everyone(s)
	}
	d := newDrive(t, core.Config{Policy: admitting{&scripted{decide: decide,
		admit: func(*share.Snapshot, *share.JobState) error { return nil }}},
		Needs: share.Can{Overlap: true}})
	a := d.admit("a", share.Share{Compute: 0.9, Memory: 800 * share.MiB})
	d.admit("b", share.Share{Compute: 0.9, Memory: 800 * share.MiB})
	change := func(s share.Share) error {
		return d.step(core.Event{Kind: core.Change, Job: a, Spec: &share.Job{Share: s}})
	}
	if err := change(share.Share{Compute: 1}); err != nil {
		t.Errorf("the policy's own rule lets it: %v", err)
	}
	broken = true
	if err := d.step(core.Event{Kind: core.Tick}); err != nil || d.c.Policy() != "fair" {
		t.Fatalf("%v, policy %s", err, d.c.Policy())
	}
	if err := change(share.Share{Compute: 0.7, Memory: 700 * share.MiB}); err != nil {
		t.Errorf("lower: %v", err)
	}
	if err := change(share.Share{Compute: 0.8}); !errors.Is(err, core.ErrNoCompute) {
		t.Errorf("higher: %v", err)
	}
	s := d.job(a)
	if s.Share.Compute != 0.7 || s.Memory.Cap != 700*share.MiB {
		t.Errorf("it has %+v, %+v", s.Share, s.Memory)
	}
}

// TestChangeAsksThePolicy: its own rule sees the other jobs, now, without the one that changes.
func TestChangeAsksThePolicy(t *testing.T) {
	var seen []share.JobID
	var at time.Duration
	d := newDrive(t, core.Config{Policy: admitting{&scripted{decide: everyone,
		admit: func(s *share.Snapshot, j *share.JobState) error {
			seen, at = nil, s.Now
			for _, o := range s.Jobs {
				seen = append(seen, o.ID)
			}
			if j.Share.Compute > 0.5 {
				return errors.New("more than a half")
			}
			return nil
		}}}, Needs: share.Can{Overlap: true}})
	for _, name := range []string{"a", "b", "c"} {
		d.admit(name, share.Share{})
	}
	d.now = 7 * ms
	err := d.step(core.Event{Kind: core.Change, Job: 2,
		Spec: &share.Job{Share: share.Share{Compute: 0.6}}})
	if err == nil || !slices.Equal(seen, []share.JobID{1, 3}) || at != 7*ms {
		t.Errorf("%v; it saw jobs %v at %v", err, seen, at)
	}
	if got := d.job(2).Share.Compute; got != 0 {
		t.Errorf("refused, and has %v", got)
	}
}

// TestSwitch: after a change of policy nothing is held for as long as the policy before saw fit.
func TestSwitch(t *testing.T) {
	for _, to := range []string{"fair", "priority", "timeslice", "fifo"} {
		d := newDrive(t, core.Config{Policy: &scripted{decide: everyone},
			Needs: share.Can{Overlap: true}})
		a, b, c := d.admit("a", share.Share{}), d.admit("b", share.Share{}),
			d.admit("c", share.Share{})
		d.do(a, core.Want)
		d.do(b, core.Want)
		d.now = ms
		if err := d.step(core.Event{Kind: core.Switch, Policy: to}); err != nil {
			t.Fatal(err)
		}
		if !d.heard(core.Revoked, a) || !d.heard(core.Revoked, b) || d.c.Policy() != to {
			t.Errorf("%s: said %v", to, d.said)
		}
		d.do(c, core.Want)
		d.do(a, core.Return)
		if d.c.Holds(c) || d.c.Holds(a) {
			t.Errorf("%s: granted what another still holds", to)
		}
		d.do(b, core.Return)
		if d.c.Holds(a) == d.c.Holds(c) || d.c.Holds(b) && d.c.Holds(c) {
			t.Errorf("%s: not one of those who wait runs", to)
		}
		if n, err := d.c.Faults(); n > 0 {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestPanics: a policy that panics anywhere is replaced, and everybody is served.
func TestPanics(t *testing.T) {
	boom := func() { panic("index out of range") }
	grant := func(s *share.Snapshot) share.Decision { return everyone(s) }
	calls := 0
	for _, tc := range []struct {
		name string
		p    func() share.Policy
	}{
		{"Decide", func() share.Policy {
			return &scripted{decide: func(*share.Snapshot) share.Decision {
				boom()
				return share.Decision{}
			}}
		}},
		{"Decide, once in use", func() share.Policy {
			return &scripted{decide: func(s *share.Snapshot) share.Decision {
				if len(s.Jobs) == 2 && s.Jobs[1].Phase == share.Waiting {
					boom()
				}
				return grant(s)
			}}
		}},
		{"NewJobState", func() share.Policy {
			return stateful{&scripted{decide: grant, state: func() any {
				boom()
				return nil
			}}}
		}},
		{"the second NewJobState", func() share.Policy {
			calls = 0
			return stateful{&scripted{decide: grant, state: func() any {
				if calls++; calls == 2 {
					boom()
				}
				return new(int)
			}}}
		}},
		{"Admit", func() share.Policy {
			return admitting{&scripted{decide: grant,
				admit: func(*share.Snapshot, *share.JobState) error {
					boom()
					return nil
				}}}
		}},
	} {
		d := newDrive(t, core.Config{Policy: tc.p(), Needs: share.Can{Overlap: true}})
		a := d.admit("a", share.Share{})
		d.do(a, core.Want)
		b := d.admit("b", share.Share{})
		d.do(b, core.Want)
		n, err := d.c.Faults()
		if n == 0 || !errors.Is(err, core.ErrPanic) || d.c.Policy() != policy.Default {
			t.Errorf("%s: under %s, %d faults: %v", tc.name, d.c.Policy(), n, err)
		}
		for range 4 {
			d.now += 30 * ms
			for _, id := range []share.JobID{a, b} {
				if d.c.Holds(id) {
					d.do(id, core.Return)
					break
				}
			}
		}
		if d.job(a).Grants == 0 || d.job(b).Grants == 0 {
			t.Errorf("%s: grants of %d and %d", tc.name, d.job(a).Grants, d.job(b).Grants)
		}
	}
}

// TestPanicInAdmit: jobs that wait on an idle device for a policy that wanted to be woken later do
// not wait for ever when it is replaced while another job is refused.
func TestPanicInAdmit(t *testing.T) {
	d := newDrive(t, core.Config{Policy: admitting{&scripted{
		decide: func(s *share.Snapshot) share.Decision { return share.Decision{Wake: s.Now + sec} },
		admit: func(s *share.Snapshot, _ *share.JobState) error {
			if len(s.Jobs) > 0 {
				panic("no")
			}
			return nil
		}}}})
	a := d.admit("a", share.Share{Compute: 0.8})
	d.do(a, core.Want)
	err := d.step(core.Event{Kind: core.Admit,
		Spec: &share.Job{Name: "b", Share: share.Share{Compute: 0.8}}})
	if !errors.Is(err, core.ErrNoCompute) || !d.c.Holds(a) {
		t.Errorf("%v; the waiting job holds %v, wake at %v", err, d.job(a).Units, d.c.Wake())
	}
}

// TestOverlap: a unit held by k jobs costs each 1/k of it, and all together what is in use.
func TestOverlap(t *testing.T) {
	sets := map[share.JobID]share.UnitSet{1: share.UnitRange(0, 4), 2: share.UnitRange(0, 2),
		3: share.UnitRange(1, 1)}
	d := newDrive(t, core.Config{Needs: share.Can{Overlap: true},
		Policy: &scripted{decide: func(s *share.Snapshot) share.Decision {
			var out share.Decision
			for _, j := range s.Jobs {
				if j.Phase == share.Waiting {
					out.Set = append(out.Set, share.Terms{Job: j.ID, Units: sets[j.ID],
						Until: share.Forever})
				}
			}
			return out
		}}})
	for _, name := range []string{"a", "b", "c"} {
		d.do(d.admit(name, share.Share{}), core.Want)
		d.now += 12 * ms
	}
	d.do(1, core.Release)
	d.now += 12 * ms
	d.do(2, core.Rest)
	d.now += 12 * ms
	d.do(3, core.Release)
	// In twelfths of a unit over 12 ms: alone 4; then 3 and 1; then 2 + 1/2 + 1/3, 1/2 + 1/3, 1/3;
	// then 1 + 1/2 and 1/2; then 1 of the third, beside one that rests.
	want := map[share.JobID]float64{1: 4 + 3 + 2 + 5./6, 2: 1 + 5./6 + 1.5, 3: 1./3 + 0.5 + 1}
	for id, units := range want {
		if got := float64(d.job(id).Used) / float64(3*ms); got < units-1e-6 || got > units+1e-6 {
			t.Errorf("job %d pays %.6f units for 12 ms, want %.6f", id, got, units)
		}
	}
}

// TestRestsBesideOthers: where jobs share units, one that rests on some keeps nobody from them.
func TestRestsBesideOthers(t *testing.T) {
	d := newDrive(t, core.Config{Policy: &scripted{decide: everyone},
		Needs: share.Can{Overlap: true}})
	a, b := d.admit("a", share.Share{}), d.admit("b", share.Share{})
	d.do(a, core.Want, core.Rest)
	d.do(b, core.Want)
	if !d.c.Holds(b) || d.heard(core.Revoked, a) {
		t.Errorf("said %v", d.said)
	}
	d.now = ms
	d.do(a, core.Want)
	d.now = 3 * ms
	d.do(b, core.Release)
	if x, y := d.job(a).Used, d.job(b).Used; x != ms || y != 2*ms {
		t.Errorf("used %v and %v, want 1ms and 2ms", x, y)
	}
}

// TestIterationsTogether: of iterations in progress together each takes its part of what the job
// uses meanwhile, and all that it uses is taken by one of them.
func TestIterationsTogether(t *testing.T) {
	d := under(t, "fair")
	a := d.admit("a", share.Share{})
	d.do(a, core.Want)
	var took []time.Duration
	finish := func() {
		d.do(a, core.Finish)
		s := d.job(a)
		// Undo the smoothing by an eighth.
		last := s.IterationTime
		if len(took) > 0 {
			last = took[len(took)-1] + 8*(s.IterationTime-took[len(took)-1])
		}
		took = append(took, last)
	}
	d.do(a, core.Begin)
	d.now = 8 * ms
	d.do(a, core.Begin)
	d.now = 24 * ms
	finish() // 8 + 16/2
	if got := d.job(a); !got.InIteration || took[0] != 16*ms || got.Next.Time != 16*ms {
		t.Errorf("in iteration: %v, the first took %v, the next %v, want 16ms", got.InIteration,
			took[0], got.Next.Time)
	}
	d.now = 48 * ms
	finish() // 16/2 + 24
	if got := d.job(a); got.InIteration || got.Iterations != 2 || took[1] != 32*ms {
		t.Errorf("%d iterations, the second took %v, want 32ms", got.Iterations, took[1])
	}
}

// TestResize: a running job can be given more units and another end; what it cannot be given it is
// not, and a change of where it gives way is a change.
func TestResize(t *testing.T) {
	var next share.Terms
	d := newDrive(t, core.Config{Policy: &scripted{decide: func(*share.Snapshot) share.Decision {
		if next.Job == 0 {
			return share.Decision{}
		}
		return share.Decision{Set: []share.Terms{next}, Wake: share.Forever}
	}}})
	a, b := d.admit("a", share.Share{}), d.admit("b", share.Share{})
	set := func(id share.JobID, units share.UnitSet, yield share.Boundary, kind core.EventKind) {
		t.Helper()
		next = share.Terms{Job: id, Units: units, Until: share.Forever, Yield: yield}
		d.do(id, kind)
		next = share.Terms{}
	}
	set(a, share.UnitRange(0, 1), share.Iteration, core.Want)
	set(a, share.UnitRange(0, 1), share.Chunk, core.Tick)
	if !d.heard(core.Resized, a) || d.said[0].Yield != share.Chunk {
		t.Errorf("another boundary: said %v", d.said)
	}
	set(a, share.UnitRange(0, 2), share.Chunk, core.Tick)
	if !d.heard(core.Resized, a) || d.job(a).Units.Len() != 2 {
		t.Errorf("more units: said %v", d.said)
	}
	set(b, share.UnitRange(2, 1), share.Chunk, core.Want)
	d.do(b, core.Rest)
	set(a, share.UnitRange(0, 4), share.Chunk, core.Tick)
	if d.heard(core.Resized, a) || !d.heard(core.Revoked, b) {
		t.Errorf("units on which another rests: said %v", d.said)
	}
	if n, err := d.c.Faults(); n > 0 {
		t.Error(err)
	}
	d.do(b, core.Return)
	set(b, share.UnitRange(3, 1), share.Chunk, core.Tick)
	set(a, share.UnitRange(0, 4), share.Chunk, core.Tick)
	if _, err := d.c.Faults(); !errors.Is(err, core.ErrUnits) || d.job(a).Units.Len() != 2 {
		t.Errorf("units on which another runs: %v, it holds %v", err, d.job(a).Units)
	}
	set(a, share.UnitRange(1, 1), share.Chunk, core.Tick)
	if !d.heard(core.Revoked, a) {
		t.Errorf("fewer units: said %v", d.said)
	}
}

// TestResizeBesideOthers: where jobs share units, one is given more on which another runs.
func TestResizeBesideOthers(t *testing.T) {
	units := map[share.JobID]int{1: 4, 2: 2}
	d := newDrive(t, core.Config{Needs: share.Can{Overlap: true},
		Policy: &scripted{decide: func(s *share.Snapshot) share.Decision {
			var out share.Decision
			for _, j := range s.Jobs {
				if j.Wants() {
					out.Set = append(out.Set, share.Terms{Job: j.ID, Until: share.Forever,
						Units: share.UnitRange(0, units[j.ID])})
				}
			}
			return out
		}}})
	d.do(d.admit("a", share.Share{}), core.Want)
	d.do(d.admit("b", share.Share{}), core.Want)
	units[2] = 3
	if d.do(2, core.Arrive); !d.heard(core.Resized, 2) || d.job(2).Units.Len() != 3 {
		t.Errorf("said %v, it holds %v", d.said, d.job(2).Units)
	}
	if n, err := d.c.Faults(); n > 0 {
		t.Error(err)
	}
}

var nan = math.NaN()

// iterate lets a job do an iteration on its own that takes so long, and idle.
func (d *drive) iterate(id share.JobID, takes time.Duration) {
	d.t.Helper()
	d.do(id, core.Want, core.Begin)
	d.now += takes
	d.do(id, core.Finish, core.Release)
}

// expect lets a job say what it expects.
func (d *drive) expect(id share.JobID, f share.Forecast) {
	d.t.Helper()
	if err := d.step(core.Event{Kind: core.Expect, Job: id, Next: &f}); err != nil {
		d.t.Fatal(err)
	}
}

// TestForecastError: the error of forecasts is the mean over iterations of the one that held before
// each, the first being what the job said, the others corrected by an eighth of what was wrong.
func TestForecastError(t *testing.T) {
	d := under(t, "fifo")
	a := d.admit("a", share.Share{})
	d.iterate(a, 10*ms)
	if e := d.job(a).ForecastError; e != 0 {
		t.Errorf("error %v of a job that forecast nothing", e)
	}
	d.expect(a, share.Forecast{Time: 10 * ms})
	d.iterate(a, 20*ms) // said 10
	d.iterate(a, 20*ms) // corrected to 20
	d.iterate(a, 40*ms) // still
	want := (0.5 + 0 + 0.5) / 3
	if e := d.job(a).ForecastError; math.Abs(e-want) > 1e-9 {
		t.Errorf("error %v, want %v", e, want)
	}
	if next := d.job(a).Next.Time; next != 22500*time.Microsecond {
		t.Errorf("next is forecast to take %v, want 20 ms and an eighth of 20 ms more", next)
	}
}

// TestForecastAlone: neither a neighbour on the same units nor a part of the units changes what a
// job is known to take alone on the whole device, nor counts as an error of its forecast; a pace
// below 1 says what they cost.
func TestForecastAlone(t *testing.T) {
	d := newDrive(t, core.Config{Policy: &scripted{decide: everyone}, Needs: share.Can{
		Overlap: true}})
	a, b := d.admit("a", share.Share{}), d.admit("b", share.Share{})
	d.expect(a, share.Forecast{Time: 10 * ms})
	for range 3 {
		d.do(b, core.Want)
		d.iterate(a, 30*ms)
		d.do(b, core.Release)
	}
	d.do(a, core.Want, core.Begin)
	d.now += 5 * ms
	d.do(b, core.Want) // beside the second half
	d.now += 15 * ms
	d.do(b, core.Release)
	d.do(a, core.Finish, core.Release)
	s := d.job(a)
	if s.Next.Time != 10*ms || s.ForecastError != 0 || s.Pace != 0.5 {
		t.Errorf("beside another: %v alone, error %v, pace %v; want 10ms, 0, 0.5", s.Next.Time,
			s.ForecastError, s.Pace)
	}
	d.iterate(a, 10*ms)
	if s = d.job(a); s.Next.Time != 10*ms || s.Pace != 1 {
		t.Errorf("alone: %v alone, pace %v; want 10ms, 1", s.Next.Time, s.Pace)
	}
}

// TestForecastOfPart: on two of four units, a job that could use three is as fast as two thirds of
// alone, and one that can use one is as fast as alone.
func TestForecastOfPart(t *testing.T) {
	half := func(s *share.Snapshot) share.Decision {
		var d share.Decision
		for _, j := range s.Jobs {
			if j.Phase == share.Waiting {
				d.Set = append(d.Set, share.Terms{Job: j.ID, Units: share.UnitRange(0, 2),
					Until: share.Forever})
			}
		}
		return d
	}
	for units, want := range []time.Duration{6 * ms, 12 * ms, 12 * ms, 8 * ms, 6 * ms} {
		d := newDrive(t, core.Config{Policy: &scripted{decide: half}})
		a := d.admit("a", share.Share{})
		d.expect(a, share.Forecast{Units: units})
		d.iterate(a, 12*ms)
		if got := d.job(a).Next.Time; got != want {
			t.Errorf("%d units of use: %v alone, want %v", units, got, want)
		}
	}
}
