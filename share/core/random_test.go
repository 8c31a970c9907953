package core_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/core/coretest"
	"github.com/weirgpu/weir/share/policy"
)

// mad returns a policy that decides at random, and panics now and then if it may.
func mad(seed uint64, panics bool) share.Policy {
	r := rand.New(rand.NewPCG(seed, 5))
	fail := func(n int) {
		if panics && r.IntN(n) == 0 {
			panic("mad")
		}
	}
	p := &scripted{}
	p.decide = func(s *share.Snapshot) share.Decision {
		fail(50)
		var d share.Decision
		for range r.IntN(4) {
			t := share.Terms{Job: share.JobID(r.IntN(12) - 1),
				Units: share.UnitRange(r.IntN(4), r.IntN(7)-1),
				Until: s.Now + time.Duration(r.IntN(int(30*ms))) - ms,
				Yield: share.Boundary(r.IntN(4)), Resident: share.Bytes(r.IntN(200) - 2)}
			switch r.IntN(6) {
			case 0:
				t = share.Terms{Job: t.Job}
			case 1:
				t.Until = share.Forever
			case 2:
				t.InFlight, t.Free, t.Copy = ms, time.Duration(r.IntN(2)), 1
			}
			d.Set = append(d.Set, t)
		}
		if r.IntN(2) == 0 {
			d.Wake = s.Now + time.Duration(r.IntN(int(30*ms))) - ms
		}
		return d
	}
	p.state = func() any {
		fail(20)
		return nil
	}
	p.admit = func(s *share.Snapshot, j *share.JobState) error {
		fail(20)
		if r.IntN(3) == 0 {
			return errors.New("no")
		}
		return nil
	}
	switch seed % 3 {
	case 0:
		return admitting{p}
	case 1:
		return stateful{p}
	}
	return p
}

// anyEvent draws an event for up to ten jobs, of which some never were; most make sense at times.
func anyEvent(r *rand.Rand, now time.Duration) core.Event {
	e := core.Event{At: now, Job: share.JobID(1 + r.IntN(10))}
	likely := []core.EventKind{core.Measure, core.Want, core.Want, core.Want, core.Return,
		core.Return, core.Release, core.Rest, core.Tick, core.Begin, core.Finish, core.Arrive,
		core.Complete, core.Reserve, core.Unreserve}
	e.Kind = likely[r.IntN(len(likely))]
	if r.IntN(3) == 0 {
		e.Kind = core.EventKind(r.IntN(int(core.Shelve) + 1))
	}
	switch e.Kind {
	case core.Switch:
		if e.Kind = core.Look; r.IntN(8) == 0 {
			to := []string{"fair", "priority:slice=3ms", "fifo", "mps", "fare", "\xff"}
			e.Kind, e.Policy = core.Switch, to[r.IntN(len(to))]
		}
	case core.End:
		if r.IntN(4) > 0 {
			e.Kind = core.Look
		}
		e.Cause = errors.New("because")
	case core.Admit, core.Change:
		e.Spec = anySpec(r)
		if e.Kind == core.Admit {
			e.Need = share.Bytes(r.IntN(60) - 1)
		}
	case core.Split:
		if e.Spec = anySpec(r); e.Spec != nil && r.IntN(8) > 0 {
			e.Spec.Elastic, e.Spec.Ephemeral, e.Spec.Iterations = true, 0, 0
			e.Spec.Memory /= 4
		}
		e.Bytes = share.Bytes(r.IntN(40) - 1)
	case core.Expect:
		e.Next = &share.Forecast{Time: time.Duration(r.IntN(int(20*ms))) - ms,
			Bandwidth: []float64{0, 0.5, 2, math.NaN()}[r.IntN(4)]}
	case core.Reserve, core.Unreserve:
		e.Bytes, e.Memory = share.Bytes(r.IntN(100)-2), core.MemoryKind(r.IntN(3))
		e.Wait = r.IntN(2) == 0
	case core.Shelve:
		e.Wait = r.IntN(2) == 0
	case core.Measure:
		much := []time.Duration{-1, 0, ms, 5 * ms, math.MaxInt64}
		e.Used, e.Passed = much[1+r.IntN(4)], much[1+r.IntN(4)]
		if e.Launches = int64(much[1+r.IntN(4)]); r.IntN(10) == 0 {
			e.Used = much[0]
		}
	}
	if r.IntN(500) == 0 {
		e.At = time.Duration(r.Int64()) * time.Duration(1-2*r.IntN(2))
	}
	return e
}

func anySpec(r *rand.Rand) *share.Job {
	spec := &share.Job{Name: string(rune('a' + r.IntN(12))), Iterations: int64(r.IntN(4))}
	spec.Share = share.Share{Memory: share.Bytes(r.IntN(200) - 1), Compute: r.Float64() / 4,
		Class: share.Class(r.IntN(3))}
	if r.IntN(3) == 0 {
		spec.Elastic, spec.Keep = r.IntN(4) > 0, share.Bytes(r.IntN(80)-1)
	}
	switch r.IntN(12) {
	case 0:
		spec.Compute = math.NaN()
	case 1:
		spec.Name = "\xff"
	case 2:
		spec.Limit = spec.Compute + 0.1
	case 3:
		spec.Class = 9
	case 4:
		return nil
	case 5, 6, 7, 8:
		spec.Ephemeral = share.Bytes(r.IntN(200) - 1)
	}
	return spec
}

// TestRandomEvents tells cores under real, mad and failing policies of anything at all, and checks
// after every event what must always hold.
func TestRandomEvents(t *testing.T) {
	n := uint64(1000)
	if os.Getenv("WEIR_LONG") != "" {
		n = 100_000
	}
	for seed := range n {
		checkEvents(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzRandomEvents(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed << 32)
	}
	f.Fuzz(checkEvents)
}

func checkEvents(t *testing.T, seed uint64) {
	config := func() core.Config {
		c := core.Config{Device: "cpu:0", Units: 4, Memory: share.KiB, Can: everything,
			Lanes: int(seed / 3 % 3)}
		rows := policy.All()
		if k := seed % uint64(len(rows)+4); k < uint64(len(rows)) {
			c, err := c.ForPolicy(rows[k].Name)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		c.Policy, c.Needs.Overlap = mad(seed, seed%2 == 0), seed%4 < 2
		return c
	}
	c := config()
	k, err := core.New(c)
	if err != nil {
		t.Fatal(err)
	}
	var record bytes.Buffer
	w := &watch{t: t, c: k, recorder: core.NewRecorder(&record),
		auditor: coretest.NewAuditor(c.Units, true), overlap: c.Needs.Overlap,
		used: map[share.JobID]time.Duration{}}
	r := rand.New(rand.NewPCG(seed, 6))
	now := time.Duration(0)
	const events = 120
	for range events {
		now += time.Duration(r.IntN(3)) * time.Duration(r.IntN(int(5*ms)))
		w.step(anyEvent(r, now))
		if r.IntN(4) == 0 {
			k.Status() // who looks changes nothing
			k.Account(share.JobID(1 + r.IntN(10)))
		}
	}
	for id := range share.JobID(200) {
		w.step(core.Event{Kind: core.End, At: now, Job: id})
	}
	if s := k.Status(); len(s.Jobs) > 0 || s.Reserved != 0 || s.Promised != 0 ||
		!w.auditor.Held().Empty() {
		t.Errorf("left in the end: %+v", s)
	}
	if err := w.recorder.Err(); err != nil {
		t.Error(err)
	}
	if err := w.auditor.Err(); err != nil {
		t.Error(err)
	}
	again, err := core.New(config())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := core.Replay(again, &record); n < events || err != nil {
		t.Errorf("replayed %d events: %v", n, err)
	}
}

// watch checks a core from outside.
type watch struct {
	t        *testing.T
	c        *core.Core
	recorder *core.Recorder
	auditor  *coretest.Auditor
	overlap  bool // allowed
	used     map[share.JobID]time.Duration
}

// step tells of an event, and compares what jobs are charged for the time since the one before with
// what they held meanwhile.
func (w *watch) step(e core.Event) {
	was, wake := w.c.Status(), w.c.Wake()
	notices, err := w.recorder.Step(w.c, e)
	for _, n := range notices {
		w.auditor.Observe(n)
		if n.Kind == core.Switched {
			row, err := policy.Find(n.Name)
			if w.overlap = row.Needs.Overlap; err != nil {
				w.t.Error(err)
			}
		}
		if n.Kind == core.Ended {
			w.charged(&was, n.Job, n.Account.Used)
		}
	}
	is := w.c.Status()
	for i := range is.Jobs {
		j := &is.Jobs[i]
		w.charged(&was, j.ID, j.Used)
		w.sound(&is, j)
	}
	w.shares(&was, &is)
	w.lanes(&is)
	if err == nil || len(notices) > 0 {
		return
	}
	if got, want := fingerprint(is, w.c.Wake()), fingerprint(was, wake); got != want {
		w.t.Errorf("%+v: refused (%v), left\n%s\nfor\n%s", e, err, got, want)
	}
}

// fingerprint is all that can be seen of the core but time and what it costs.
func fingerprint(s core.Status, wake time.Duration) string {
	s.Now = 0
	for i := range s.Jobs {
		s.Jobs[i].Used = 0
	}
	return fmt.Sprintf("%+v %v", s, wake)
}

// charged checks what a job is charged up to now against what it held since it was.
func (w *watch) charged(was *core.Status, id share.JobID, used time.Duration) {
	before := w.used[id]
	w.used[id] = used
	cost := 0.0
	for i := range was.Jobs {
		if j := &was.Jobs[i]; j.ID == id {
			cost = w.cost(was, j) * float64(w.c.Now()-was.Now)
		}
	}
	if got := float64(used - before); used < before || math.Abs(got-cost) > 1+1e-9*cost {
		w.t.Errorf("job %d charged %.0f ns at %v, holds cost %.3f", id, got, w.c.Now(), cost)
	}
}

// cost is what a job pays a nanosecond.
func (w *watch) cost(s *core.Status, j *core.JobStatus) float64 {
	pays := func(j *core.JobStatus) bool { return j.Phase == share.Running || j.Revoking }
	if !pays(j) {
		return 0
	}
	sum := 0.0
	for u := range j.Units.All() {
		k := 0
		for i := range s.Jobs {
			if o := &s.Jobs[i]; pays(o) && o.Units.Has(u) {
				k++
			}
		}
		sum += 1 / float64(k)
	}
	return sum / float64(s.Units)
}

// sound checks one job's state.
func (w *watch) sound(s *core.Status, j *core.JobStatus) {
	m := &j.Memory
	switch holds := w.c.Holds(j.ID); {
	case holds == j.Units.Empty(), j.Phase == share.Running && !holds,
		j.Phase == share.Waiting && holds, j.Revoking && !holds:
		w.t.Errorf("job %d %v, holds %v, revoking %v", j.ID, j.Phase, j.Units, j.Revoking)
	case m.Persistent < 0 || m.Ephemeral < 0 || m.Resident() > m.Cap || j.Peak < m.Resident():
		w.t.Errorf("job %d holds %+v, peak %v", j.ID, *m, j.Peak)
	case m.Asked > 0 && m.Asked <= m.Cap-m.Resident() && m.Lane == 0 && free(s) >= m.Asked &&
		alone(s):
		w.t.Errorf("job %d waits for what fits: %+v", j.ID, *m)
	case j.Since > s.Now || j.Ready > s.Now || j.Granted > s.Now:
		w.t.Errorf("job %d in the future of %v: %+v", j.ID, s.Now, j.JobState)
	case j.Measured < 0 || j.Measured > j.Used || j.Passed < 0 || j.Passed > s.Now-j.Admitted ||
		j.Launches < 0:
		w.t.Errorf("job %d at %v: measured %+v", j.ID, s.Now, j.JobState)
	case j.HasWork != (j.Queue > 0 || j.InIteration || j.Phase != share.Idle):
		w.t.Errorf("job %d has work: %v: %+v", j.ID, j.HasWork, j.JobState)
	}
	if u := w.auditor.Job(j.ID).Units; u != j.Units {
		w.t.Errorf("job %d holds %v, the notices say %v", j.ID, j.Units, u)
	}
}

// free is what is neither held nor promised to anybody.
func free(s *core.Status) share.Bytes {
	is := share.Snapshot{Memory: s.Memory, Lanes: 2}
	for i := range s.Jobs {
		is.Jobs = append(is.Jobs, s.Jobs[i].JobState)
	}
	return -is.Lacks()
}

// alone reports whether one job waits for memory.
func alone(s *core.Status) bool {
	n := 0
	for i := range s.Jobs {
		if s.Jobs[i].Memory.Asked > 0 {
			n++
		}
	}
	return n == 1
}

// lanes checks that one job of a lane at a time is within an iteration, or could be, and that lanes
// take no more memory than there is, all jobs together.
func (w *watch) lanes(s *core.Status) {
	var held, shared share.Bytes
	in := map[int]share.JobID{}
	size := map[int]share.Bytes{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		m := &j.Memory
		held += m.Resident()
		if m.Lane == 0 {
			continue
		}
		shared += max(m.Kept(), m.Own()) + max(0, m.Shared-size[m.Lane])
		size[m.Lane] = max(size[m.Lane], m.Shared)
		if m.Persistent > m.Cap-m.Shared || m.Ephemeral > m.Shared {
			w.t.Errorf("job %d holds %+v", j.ID, *m)
		}
		if j.Units.Empty() && !j.InIteration && m.Ephemeral == 0 {
			continue
		}
		if o, taken := in[m.Lane]; taken {
			w.t.Errorf("jobs %d and %d in lane %d: %+v", o, j.ID, m.Lane, *s)
		}
		in[m.Lane] = j.ID
	}
	if shared > s.Memory || held > s.Memory {
		w.t.Errorf("lanes take %v, jobs hold %v of %v", shared, held, s.Memory)
	}
}

// shares checks that a policy that does not overlap jobs gives nothing away twice.
func (w *watch) shares(was, is *core.Status) {
	for i := range is.Jobs {
		for k := range i {
			a, b := &is.Jobs[i], &is.Jobs[k]
			if !a.Units.Overlaps(b.Units) || w.overlap {
				continue
			}
			old := false // held by both before the policy changed
			for x := range was.Jobs {
				old = old || was.Jobs[x].Units.Overlaps(a.Units) && was.Jobs[x].ID != a.ID
			}
			if !old {
				w.t.Errorf("jobs %d and %d hold %v and %v", a.ID, b.ID, a.Units, b.Units)
			}
		}
	}
}

// TestReplaySays: a recording that another core would not have made is found out, at the event.
func TestReplaySays(t *testing.T) {
	var record bytes.Buffer
	k, err := core.New(mustFor(t, "fifo"))
	if err != nil {
		t.Fatal(err)
	}
	rec := core.NewRecorder(&record)
	for _, e := range []core.Event{
		{Kind: core.Admit, Spec: &share.Job{Name: "a"}},
		{Kind: core.Admit, Spec: &share.Job{Name: "a"}},
		{Kind: core.Want, Job: 1},
		{Kind: core.End, Job: 1, Cause: errors.New("done")},
	} {
		_, _ = rec.Step(k, e)
	}
	text := record.String()
	for _, tc := range []struct{ spec, from, to, says string }{
		{"fifo", "", "", ""},
		{"fair", "", "", "event 2, want of job 1"},
		{"fifo", "name is taken", "no", "event 1, admit"},
		{"fifo", `"reason":"ended"`, `"reason":"revoked"`, "event 3, end of job 1"},
		{"fifo", `{"event"`, `{`, "recording, event 0"},
	} {
		again, err := core.New(mustFor(t, tc.spec))
		if err != nil {
			t.Fatal(err)
		}
		_, err = core.Replay(again, strings.NewReader(strings.Replace(text, tc.from, tc.to, 1)))
		if tc.says == "" && err != nil ||
			tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s with %q for %q: %v, want %q", tc.spec, tc.to, tc.from, err, tc.says)
		}
	}
}

func mustFor(t *testing.T, spec string) core.Config {
	c, err := core.Config{Device: "cpu:0", Units: 4, Memory: share.GiB, Can: everything}.
		ForPolicy(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRecordedChange: what a change says besides the share is not heeded, and keeps no recording
// from being read.
func TestRecordedChange(t *testing.T) {
	var record bytes.Buffer
	r := core.NewRecorder(&record)
	k, err := core.New(mustFor(t, "fair"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []core.Event{
		{Kind: core.Admit, Spec: &share.Job{Name: "a"}},
		{Kind: core.Change, Job: 1, Spec: &share.Job{Share: share.Share{Compute: 0.5},
			Ephemeral: -1}},
	} {
		if _, err := r.Step(k, e); err != nil {
			t.Fatal(err)
		}
	}
	again, err := core.New(mustFor(t, "fair"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := core.Replay(again, &record); n != 2 || err != nil {
		t.Errorf("replayed %d events: %v", n, err)
	}
}
