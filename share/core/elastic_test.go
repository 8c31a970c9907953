package core_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/evict"
)

// elastic lets in a job that keeps so much of its cap, in MiB.
func (d *drive) elastic(name string, limit, keep share.Bytes) (share.JobID, error) {
	err := d.step(core.Event{Kind: core.Admit, Spec: &share.Job{Name: name,
		Share: share.Share{Memory: limit * share.MiB, Elastic: true, Keep: keep * share.MiB}}})
	if err != nil {
		return 0, err
	}
	return d.said[0].Job, nil
}

func (d *drive) reserveWait(id share.JobID, n share.Bytes) error {
	return d.step(core.Event{Kind: core.Reserve, Job: id, Bytes: n * share.MiB, Wait: true})
}

// told returns how much a job was told to hold at most, in MiB, by what was said last; -1 if it was
// not.
func (d *drive) told(id share.JobID) share.Bytes {
	for _, n := range d.said {
		if n.Kind == core.Evicted && n.Job == id {
			return n.Bytes / share.MiB
		}
	}
	return -1
}

// TestElasticAdmission: what is kept for all, and most of what any one holds beside, must fit.
func TestElasticAdmission(t *testing.T) {
	for lanes := range 2 {
		d := withLanes(t, "fair", lanes)
		for _, tc := range []struct {
			name        string
			limit, keep share.Bytes
			fits        bool
		}{
			{"a", 500, 100, true},   // 100 + 400
			{"b", 500, 200, true},   // 300 + 400
			{"c", 325, 325, false},  // 625 + 400
			{"d", 324, 324, true},   // 624 + 400 = 1024
			{"e", 400, 0, true},     // nothing is kept
			{"f", 401, 0, false},    // 624 + 401
			{"g", 1, 1, false},      // 625 + 400
			{"h", 2000, 100, false}, // more than there is
		} {
			_, err := d.elastic(tc.name, tc.limit, tc.keep)
			if (err == nil) != tc.fits || err != nil && !errors.Is(err, core.ErrNoMemory) {
				t.Errorf("%s: %v", tc.name, err)
			}
			if tc.name == "f" && lanes == 0 && (!strings.Contains(err.Error(), "401MiB") ||
				!strings.Contains(err.Error(), "400MiB of 1GiB")) {
				t.Errorf("says not what is wanted, and what is left: %v", err)
			}
		}
	}
}

// TestHalvesWait: two jobs that each hold a part of what there is and wait for the rest are served
// one after the other, and neither is asked back what it was served before it has used it.
func TestHalvesWait(t *testing.T) {
	d := under(t, "fair")
	a, _ := d.elastic("a", 1000, 0)
	b, _ := d.elastic("b", 1000, 24)
	const weights = core.Persistent
	for id, n := range map[share.JobID]share.Bytes{a: 600, b: 400} {
		d.do(id, core.Arrive)
		if err := d.reserveWait(id, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.reserveWait(a, 400); err != nil || d.told(b) != 24 {
		t.Fatalf("b is told to hold %v: %v", d.told(b), err)
	}
	if err := d.reserveWait(b, 600); err != nil || d.told(a) >= 0 {
		t.Fatalf("who waits first is told to hold %v: %v", d.told(a), err)
	}
	if err := d.step(core.Event{Kind: core.Want, Job: a}); !errors.Is(err, core.ErrWaits) {
		t.Errorf("wants the device while it waits for memory: %v", err)
	}
	free := func(id share.JobID, n share.Bytes) {
		t.Helper()
		if err := d.step(core.Event{Kind: core.Unreserve, Job: id, Memory: weights,
			Bytes: n * share.MiB}); err != nil {
			t.Fatal(err)
		}
	}
	free(b, 376)
	if d.said[0].Kind != core.Reserved || d.said[0].Job != a || d.told(a) >= 0 {
		t.Fatalf("what b gave back: %v", d.said)
	}
	d.do(a, core.Want)
	d.do(a, core.Begin)
	d.now += ms
	if d.do(a, core.Finish); d.told(a) != 400 {
		t.Errorf("after its iteration a is told to hold %v", d.told(a))
	}
	free(a, 600)
	if d.said[0].Kind != core.Reserved || d.said[0].Job != b {
		t.Errorf("what a gave back: %v", d.said)
	}
}

// TestKeptAtOnce: what a job keeps is there for it without waiting, whatever others hold; for a job
// let in or raised while they hold it, from when they have given it back on.
func TestKeptAtOnce(t *testing.T) {
	d := under(t, "fair")
	reserve := func(id share.JobID, n share.Bytes) error {
		return d.step(core.Event{Kind: core.Reserve, Job: id, Bytes: n * share.MiB})
	}
	a, _ := d.elastic("a", 450, 0)
	b, _ := d.elastic("b", 450, 0)
	c, _ := d.elastic("c", 124, 124)
	for id, n := range map[share.JobID]share.Bytes{a: 450, b: 450} {
		if err := reserve(id, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := reserve(c, 100); err != nil {
		t.Errorf("what c keeps: %v", err)
	}
	e, err := d.elastic("e", 300, 300)
	if err != nil || d.told(a) != 150 {
		t.Fatalf("a is told to hold %v: %v", d.told(a), err)
	}
	if err := reserve(e, 1); !errors.Is(err, core.ErrNoMemory) {
		t.Errorf("e has what a holds: %v", err)
	}
	if err := reserve(c, 24); err != nil {
		t.Errorf("what c keeps: %v", err)
	}
	if err := d.reserveWait(e, 250); err != nil {
		t.Fatal(err)
	}
	free := core.Event{Kind: core.Unreserve, Job: a, Bytes: 300 * share.MiB}
	if err := d.step(free); err != nil ||
		len(d.said) != 1 || d.said[0].Kind != core.Reserved || d.said[0].Job != e {
		t.Errorf("what a gave back: %v %v", d.said, err)
	}
	if err := reserve(e, 50); err != nil {
		t.Errorf("what e keeps: %v", err)
	}
}

// TestStay: who can give back no more is not waited for, another is asked; until it was told
// nothing any more, by what it reserved since or by another share.
func TestStay(t *testing.T) {
	d := under(t, "fair")
	ids := map[string]share.JobID{}
	for _, name := range []string{"a", "b", "c"} {
		ids[name], _ = d.elastic(name, 600, 0)
		d.now += ms
	}
	for _, name := range []string{"a", "b"} {
		if err := d.reserveWait(ids[name], 500); err != nil {
			t.Fatal(err)
		}
	}
	d.do(ids["a"], core.Stay) // of what it was told before it reserved this
	d.do(ids["c"], core.Arrive)
	if err := d.reserveWait(ids["c"], 324); err != nil || d.told(ids["a"]) != 200 {
		t.Fatalf("a, used before b, is told to hold %v: %v", d.told(ids["a"]), err)
	}
	if d.do(ids["a"], core.Stay); d.told(ids["b"]) != 200 {
		t.Errorf("b is told to hold %v", d.told(ids["b"]))
	}
	if err := d.step(core.Event{Kind: core.Change, Job: ids["a"], Spec: &share.Job{
		Share: share.Share{Memory: 600 * share.MiB, Elastic: true}}}); err != nil {
		t.Fatal(err)
	}
	if d.do(ids["b"], core.Stay); d.told(ids["a"]) != 200 {
		t.Errorf("with another share a is told to hold %v", d.told(ids["a"]))
	}
}

// TestSizeIsOfTheShare: a rule is told the most that a job has held under its present share, also
// while it holds less.
func TestSizeIsOfTheShare(t *testing.T) {
	rule := &broken{}
	c, err := core.Config{Eviction: rule}.ForPolicy("fair")
	if err != nil {
		t.Fatal(err)
	}
	d := newDrive(t, c)
	id, err := d.elastic("a", 900, 0)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, want share.Bytes) {
		t.Helper()
		d.now += ms
		d.do(id, core.Arrive, core.Want, core.Begin, core.Finish, core.Release, core.Complete)
		if got := rule.seen[len(rule.seen)-1].Size / share.MiB; got != want {
			t.Errorf("%s: a size of %d MiB, want %d", when, got, want)
		}
	}
	if err := d.reserveWait(id, 800); err != nil {
		t.Fatal(err)
	}
	check("all is held", 800)
	if err := d.step(core.Event{Kind: core.Unreserve, Job: id,
		Bytes: 600 * share.MiB}); err != nil {
		t.Fatal(err)
	}
	check("some is away", 800)
	if err := d.step(core.Event{Kind: core.Change, Job: id, Spec: &share.Job{
		Share: share.Share{Memory: 500 * share.MiB, Elastic: true}}}); err != nil {
		t.Fatal(err)
	}
	check("with another share", 200)
}

// TestPromisedBeyondMemory: antman lets in opportunistic jobs whose caps together are more than the
// device has. None of them ever holds what another does, whatever is promised anew when other jobs
// end and another policy decides, and none keeps others waiting by a cap that was raised.
func TestPromisedBeyondMemory(t *testing.T) {
	admit := func(d *drive, name string, c share.Class, limit share.Bytes) share.JobID {
		e := core.Event{Kind: core.Admit, Spec: &share.Job{Name: name,
			Share: share.Share{Class: c, Memory: limit * share.MiB}}}
		if err := d.step(e); err != nil {
			t.Fatal(err)
		}
		return d.said[0].Job
	}
	reserve := func(d *drive, id share.JobID, n share.Bytes) error {
		return d.step(core.Event{Kind: core.Reserve, Job: id, Bytes: n * share.MiB})
	}
	d := under(t, "antman")
	firm := admit(d, "firm", share.Standard, 600)
	a := admit(d, "a", share.Opportunistic, 600)
	b := admit(d, "b", share.Opportunistic, 600)
	d.do(firm, core.End)
	if err := reserve(d, b, 600); err != nil {
		t.Fatal(err)
	}
	if err := d.step(core.Event{Kind: core.Switch, Policy: "antman"}); err != nil {
		t.Fatal(err)
	}
	if err := reserve(d, a, 600); !errors.Is(err, core.ErrNoMemory) {
		t.Errorf("a has what b holds of what a was promised since: %v", err)
	}

	d = under(t, "antman")
	admit(d, "firm", share.Standard, 800)
	a = admit(d, "a", share.Opportunistic, 10)
	b = admit(d, "b", share.Opportunistic, 900)
	raise := core.Event{Kind: core.Change, Job: a, Spec: &share.Job{
		Share: share.Share{Class: share.Opportunistic, Memory: 900 * share.MiB}}}
	if err := d.step(raise); err != nil {
		t.Fatal(err)
	}
	for _, id := range []share.JobID{a, b} {
		if err := reserve(d, id, 100); err != nil {
			t.Errorf("224 MiB are set apart for nobody: %v", err)
		}
	}
	if err := reserve(d, a, 100); !errors.Is(err, core.ErrNoMemory) {
		t.Errorf("a has what is kept for another job: %v", err)
	}
}

// TestStaysUntilChanged: a job that has given back all that it can is asked for more once it has
// freed something itself, or was used.
func TestStaysUntilChanged(t *testing.T) {
	changes := map[string]struct {
		then func(d *drive, a share.JobID)
		told share.Bytes
	}{
		"nothing": {func(*drive, share.JobID) {}, -1},
		"frees": {func(d *drive, a share.JobID) {
			if err := d.step(core.Event{Kind: core.Unreserve, Job: a,
				Bytes: 50 * share.MiB}); err != nil {
				t.Fatal(err)
			}
		}, 24},
		"is used": {func(d *drive, a share.JobID) {
			for _, k := range []core.EventKind{core.Arrive, core.Want, core.Begin} {
				d.do(a, k)
			}
			d.now += ms
			d.do(a, core.Finish)
		}, 24},
	}
	for name, c := range changes {
		d := under(t, "fair")
		a, _ := d.elastic("a", 1000, 0)
		b, _ := d.elastic("b", 1000, 0)
		wants := func(id share.JobID, n share.Bytes) {
			t.Helper()
			if err := d.reserveWait(id, n); err != nil {
				t.Fatal(err)
			}
		}
		wants(a, 500)
		d.do(b, core.Arrive)
		if wants(b, 900); d.told(a) != 124 {
			t.Fatalf("%s: a is told to hold %v", name, d.told(a))
		}
		d.do(a, core.Stay)
		d.do(b, core.Withdraw)
		if wants(b, 1000); d.told(a) >= 0 {
			t.Fatalf("%s: a, which has given all that it can, is told to hold %v", name, d.told(a))
		}
		if c.then(d, a); d.told(a) != c.told {
			t.Errorf("%s: then a is told to hold %v, want %v", name, d.told(a), c.told)
		}
	}
}

// TestChangeKeepsTheNeed: a job that holds nothing now cannot be given less than its plan needs,
// which it would only learn at its next request.
func TestChangeKeepsTheNeed(t *testing.T) {
	d := under(t, "fair")
	terms := share.Share{Memory: 500 * share.MiB, Elastic: true}
	if err := d.step(core.Event{Kind: core.Admit, Need: 300 * share.MiB,
		Spec: &share.Job{Name: "a", Share: terms}}); err != nil {
		t.Fatal(err)
	}
	a := d.said[0].Job
	change := func(memory share.Bytes) error {
		terms.Memory = memory
		return d.step(core.Event{Kind: core.Change, Job: a, Spec: &share.Job{Share: terms}})
	}
	if err := change(300 * share.MiB); err != nil {
		t.Errorf("as much as it needs: %v", err)
	}
	err := change(300*share.MiB - 1)
	if !errors.Is(err, core.ErrOverCap) || !strings.Contains(err.Error(), "needs 300") {
		t.Errorf("a byte less: %v", err)
	}
	terms.Memory = 200 * share.MiB
	smaller := core.Event{Kind: core.Change, Job: a, Need: 200 * share.MiB,
		Spec: &share.Job{Share: terms}}
	if err := d.step(smaller); err != nil || d.job(a).Memory.Need != 200*share.MiB {
		t.Errorf("by a smaller plan: need %v, %v", d.job(a).Memory.Need, err)
	}
	if smaller.Need++; !errors.Is(d.step(smaller), core.ErrOverCap) ||
		d.job(a).Memory.Need != 200*share.MiB {
		t.Error("a plan that needs a byte more than the cap is not refused")
	}
}

// TestTurns: who comes later waits behind who waits already, even for what is free, and is served
// after it. A turn ends without an iteration too, when there is no more work.
func TestTurns(t *testing.T) {
	d := under(t, "fair")
	a, _ := d.elastic("a", 1000, 0)
	b, _ := d.elastic("b", 1000, 0)
	c, _ := d.elastic("c", 1000, 0)
	wait := func(id share.JobID, n share.Bytes) {
		t.Helper()
		d.do(id, core.Arrive)
		if err := d.reserveWait(id, n); err != nil {
			t.Fatal(err)
		}
	}
	wait(a, 900)
	d.do(a, core.Want)
	d.do(a, core.Begin)
	wait(b, 500)
	if wait(c, 50); d.job(c).Memory.Asked != 50*share.MiB {
		t.Errorf("c, which came after b, does not wait: %+v", d.job(c).Memory)
	}
	d.now += ms
	d.do(a, core.Finish)
	for _, step := range []struct{ told, gives share.Bytes }{{524, 376}, {474, 50}} {
		if d.told(a) != step.told {
			t.Fatalf("a is told to hold %v, want %v", d.told(a), step.told)
		}
		if err := d.step(core.Event{Kind: core.Unreserve, Job: a,
			Bytes: step.gives * share.MiB}); err != nil {
			t.Fatal(err)
		}
	}
	if d.do(b, core.Complete); d.job(b).HasWork {
		t.Fatal("b has work")
	}
	d.do(a, core.Complete)
	if wait(c, 900); d.told(b) < 0 {
		t.Error("b, which has no use for what it was served, is not told to give it back")
	}
}

// TestReloadCounts: who leaves first depends on what the jobs say of their reload, where the rule
// heeds it.
func TestReloadCounts(t *testing.T) {
	for _, name := range evict.Names() {
		rule, err := evict.New(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := core.Config{Eviction: rule}.ForPolicy("fair")
		if err != nil {
			t.Fatal(err)
		}
		d := newDrive(t, c)
		ids := map[string]share.JobID{}
		for _, job := range []struct {
			name   string
			reload time.Duration
		}{{"dear", time.Second}, {"cheap", 10 * ms}} {
			id, err := d.elastic(job.name, 900, 0)
			if err != nil {
				t.Fatal(err)
			}
			if ids[job.name] = id; d.step(core.Event{Kind: core.Expect, Job: id,
				Next: &share.Forecast{Reload: job.reload}}) != nil {
				t.Fatal(d.err)
			}
			if err := d.reserveWait(id, 400); err != nil {
				t.Fatal(err)
			}
			d.now += ms
			d.do(id, core.Arrive, core.Want, core.Begin, core.Finish, core.Release, core.Complete)
		}
		id, err := d.elastic("other", 300, 0)
		if err != nil {
			t.Fatal(err)
		}
		d.do(id, core.Arrive)
		if err := d.reserveWait(id, 300); err != nil {
			t.Fatal(err)
		}
		leaves := map[string]string{"lru": "dear", "greedydual": "cheap"}[name]
		if d.told(ids[leaves]) != 324 {
			t.Errorf("%s: %s is not told to leave: %+v", name, leaves, d.said)
		}
	}
}

// TestShelved: what is kept in case it is wanted again leaves before what was used longer ago or is
// used by fewer, without that its rank counts as the lowest; and not once it is used, or is shelved
// no more.
func TestShelved(t *testing.T) {
	for _, tc := range []struct {
		what   string
		after  func(d *drive, late share.JobID)
		leaves string
	}{
		{"shelved", func(*drive, share.JobID) {}, "late"},
		{"used since", func(d *drive, late share.JobID) {
			d.do(late, core.Arrive, core.Want, core.Begin, core.Finish, core.Release, core.Complete)
		}, "early"},
		{"has a request", func(d *drive, late share.JobID) { d.do(late, core.Arrive) }, "early"},
		{"no more", func(d *drive, late share.JobID) { d.do(late, core.Shelve) }, "early"},
	} {
		rule := &noted{}
		c, err := core.Config{Eviction: rule}.ForPolicy("fair")
		if err != nil {
			t.Fatal(err)
		}
		d := newDrive(t, c)
		ids := map[string]share.JobID{}
		for _, name := range []string{"early", "late"} {
			id, err := d.elastic(name, 900, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.reserveWait(id, 400); err != nil {
				t.Fatal(err)
			}
			ids[name] = id
			d.now += ms
			d.do(id, core.Arrive, core.Want, core.Begin, core.Finish, core.Release, core.Complete)
		}
		late := ids["late"]
		d.expect(late, share.Forecast{Users: 1})
		if err := d.step(core.Event{Kind: core.Shelve, Job: late, Wait: true}); err != nil {
			t.Fatal(err)
		}
		tc.after(d, late)
		id, err := d.elastic("other", 300, 0)
		if err != nil {
			t.Fatal(err)
		}
		d.do(id, core.Arrive)
		if err := d.reserveWait(id, 300); err != nil {
			t.Fatal(err)
		}
		if d.told(ids[tc.leaves]) != 324 {
			t.Errorf("%s: %s is not told to leave: %+v", tc.what, tc.leaves, d.said)
		}
		if told := rule.evicted > 0; told != (tc.leaves == "early") {
			t.Errorf("%s: that the rule was told is %t", tc.what, told)
		}
	}
}

// noted is a rule that counts what it is told of those who leave.
type noted struct {
	evict.LRU
	evicted int
}

func (n *noted) Evicted(float64) { n.evicted++ }

// TestUsesCount: a rule is told how often each job was used among those whose memory may leave, and
// ranks a job anew when it is first known how long its memory takes to come.
func TestUsesCount(t *testing.T) {
	rule := &broken{}
	c, err := core.Config{Eviction: rule}.ForPolicy("fair")
	if err != nil {
		t.Fatal(err)
	}
	d := newDrive(t, c)
	ids := map[string]share.JobID{}
	for _, job := range []struct {
		name string
		keep share.Bytes
	}{{"a", 0}, {"b", 0}, {"keeps", 100}} {
		if ids[job.name], err = d.elastic(job.name, 100, job.keep); err != nil {
			t.Fatal(err)
		}
	}
	use := func(name string) float64 {
		d.now += ms
		d.do(ids[name], core.Arrive, core.Want, core.Begin, core.Finish, core.Release,
			core.Complete)
		return rule.seen[len(rule.seen)-1].Often
	}
	first := use("a")
	for range 3 {
		if use("keeps"); use("a") != first {
			t.Errorf("a job that keeps all of its memory counts: %v after %v",
				rule.seen[len(rule.seen)-1].Often, first)
		}
	}
	for last := first; last < first+2; last = use("a") {
		if got := use("b"); got < 1 {
			t.Fatalf("used %v times", got)
		}
		if use("a") <= last {
			t.Fatalf("used %v times, and before %v", rule.seen[len(rule.seen)-1].Often, last)
		}
	}
	for _, known := range []bool{true, false} {
		n, often := len(rule.seen), rule.seen[len(rule.seen)-1].Often
		d.now += ms
		d.step(core.Event{Kind: core.Expect, Job: ids["a"],
			Next: &share.Forecast{Reload: time.Second}})
		if !known {
			if len(rule.seen) != n {
				t.Error("ranked anew by a forecast that adds nothing")
			}
			continue
		}
		if len(rule.seen) != n+1 {
			t.Fatalf("ranked %d times by the first forecast", len(rule.seen)-n)
		}
		if u := rule.seen[n]; u.Reload != time.Second || u.Often != often || u.At != d.now-ms {
			t.Errorf("ranked by %+v, used %v times and at %v", u, often, d.now-ms)
		}
	}
}

// broken is an eviction rule that keeps most what was used first, until it fails.
type broken struct {
	seen   []evict.Use
	faults string // "used", "evicted", "rank" or "name" and "used"
	fails  bool
}

func (b *broken) Name() string {
	if b.faults == "name" {
		panic("no name")
	}
	return "broken"
}

func (b *broken) Used(u evict.Use) float64 {
	b.seen = append(b.seen, u)
	switch {
	case !b.fails:
	case b.faults == "rank":
		return math.NaN()
	case b.faults != "evicted":
		panic("no rank")
	}
	return -float64(u.At)
}

func (b *broken) Evicted(float64) {
	if b.fails {
		panic("not known")
	}
}

// TestBrokenRule: an eviction rule that fails is counted and named, and lru goes on in its place by
// when each job was used last.
func TestBrokenRule(t *testing.T) {
	for _, faults := range []string{"used", "evicted", "rank", "name"} {
		rule := &broken{faults: faults}
		c, err := core.Config{Eviction: rule}.ForPolicy("fair")
		if err != nil {
			t.Fatal(err)
		}
		d := newDrive(t, c)
		var ids []share.JobID
		for _, name := range []string{"a", "b", "c"} {
			id, err := d.elastic(name, 600, 0)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		for _, id := range ids[:2] {
			d.now += ms
			if err := d.reserveWait(id, 500); err != nil {
				t.Fatal(err)
			}
			d.do(id, core.Arrive)
			d.do(id, core.Want)
			d.do(id, core.Begin)
			d.now += ms
			d.do(id, core.Finish)
			d.do(id, core.Release)
			d.do(id, core.Complete)
		}
		if n, err := d.c.Faults(); n != 0 {
			t.Fatalf("%s: %d faults before any: %v", faults, n, err)
		}
		if u := rule.seen[len(rule.seen)-1]; u.Size != 500*share.MiB {
			t.Errorf("%s: used with %v, holds 500MiB", faults, u.Size)
		}
		rule.fails = true
		d.now += ms
		d.do(ids[2], core.Arrive)
		if faults != "evicted" {
			d.do(ids[2], core.Begin) // is ranked anew
			d.do(ids[2], core.Finish)
		}
		if err := d.reserveWait(ids[2], 500); err != nil {
			t.Fatal(err)
		}
		want := ids[0] // the least recently used
		if faults == "evicted" {
			want = ids[1] // it was chosen by the rule, which fails when told so
		}
		if d.told(want) < 0 {
			t.Errorf("%s: not told to give back: %+v", faults, d.said)
		}
		n, err := d.c.Faults()
		if n != 1 || !errors.Is(err, core.ErrRule) || !strings.Contains(err.Error(), "broken") {
			t.Errorf("%s: %d faults, %v", faults, n, err)
		}
		d.do(ids[2], core.Complete)
	}
}

// TestAside: a job that waits for the room of its own cap, since an earlier turn than another's,
// is asked for what that other waits for, which is served first; its own turn comes then.
func TestAside(t *testing.T) {
	d := under(t, "fair")
	a, _ := d.elastic("a", 700, 0)
	b, _ := d.elastic("b", 600, 0)
	reserved := func(id share.JobID) bool {
		return len(d.said) > 0 && d.said[0].Kind == core.Reserved && d.said[0].Job == id
	}
	free := func(id share.JobID, n share.Bytes) {
		t.Helper()
		if err := d.step(core.Event{Kind: core.Unreserve, Job: id,
			Bytes: n * share.MiB}); err != nil {
			t.Fatal(err)
		}
	}
	d.do(a, core.Arrive)
	d.do(b, core.Arrive)
	if err := d.reserveWait(a, 600); err != nil {
		t.Fatal(err)
	}
	if err := d.reserveWait(a, 200); err != nil || d.told(a) >= 0 {
		t.Fatalf("above what its cap leaves: told to hold %v, %v", d.told(a), err)
	}
	if err := d.reserveWait(b, 500); err != nil || d.told(a) != 524 {
		t.Fatalf("a, in nobody's way, is told to hold %v: %v", d.told(a), err)
	}
	if free(a, 100); !reserved(b) || len(d.said) != 1 || d.told(a) >= 0 {
		t.Fatalf("what a gave back, of which it waits for 200: %v", d.said)
	}
	d.do(b, core.Want)
	d.do(b, core.Begin)
	d.now += ms
	if d.do(b, core.Finish); d.told(b) != 324 {
		t.Fatalf("after its iteration b is told to hold %v", d.told(b))
	}
	if free(b, 176); !reserved(a) {
		t.Errorf("what b gave back: %v", d.said)
	}
}

// TestAsideOfTheDevice: who was let in by a policy's own rule with a cap above what the device has,
// and waits for more than there could ever be, is in nobody's way; it is served once that is less.
func TestAsideOfTheDevice(t *testing.T) {
	p := &scripted{}
	p.decide = func(*share.Snapshot) share.Decision { return share.Decision{} }
	p.admit = func(*share.Snapshot, *share.JobState) error { return nil }
	c, err := core.New(core.Config{Device: "cpu:0", Units: 1, Memory: share.GiB,
		Policy: admitting{p}})
	if err != nil {
		t.Fatal(err)
	}
	d := &drive{t: t, c: c}
	a, err := d.elastic("a", 2000, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := d.elastic("b", 600, 0)
	e, _ := d.elastic("e", 600, 0)
	for _, id := range []share.JobID{a, b, e} {
		d.do(id, core.Arrive)
	}
	holds := func(id share.JobID) share.Bytes { return d.memory(id).Persistent }
	if err := d.reserveWait(a, 1500); err != nil || holds(a) != 0 {
		t.Fatalf("more than the device has: holds %v, %v", holds(a), err)
	}
	if err := d.reserveWait(b, 600); err != nil || holds(b) != 600 {
		t.Fatalf("b stands behind who cannot be served: holds %v, %v", holds(b), err)
	}
	if err := d.reserveWait(e, 500); err != nil || d.told(b) != 524 {
		t.Fatalf("for e, and not for who cannot be served, b is told to hold %v, %v", d.told(b),
			err)
	}
	if err := d.step(core.Event{Kind: core.Unreserve, Job: b, Bytes: 76 * share.MiB}); err != nil ||
		holds(e) != 500 {
		t.Errorf("who waits for what fits holds %v, %v", holds(e), err)
	}
	if err := d.step(core.Event{Kind: core.Withdraw, Job: a}); err != nil {
		t.Fatal(err)
	}
	if err := d.reserveWait(a, 1024); err != nil || d.told(b) != 0 {
		t.Errorf("for all that the device has b is told to hold %v, %v", d.told(b), err)
	}
}
