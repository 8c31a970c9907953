package core_test

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// lends is a drive whose device jobs hold in turn, by their names.
type lends struct {
	*drive
	ids map[string]share.JobID
}

// lending lets jobs in that keep nothing of a cap of 600 MiB, each with a request.
func lending(t *testing.T, names ...string) lends {
	t.Helper()
	l := lends{under(t, "fair"), map[string]share.JobID{}}
	for _, name := range names {
		id, err := l.elastic(name, 600, 0)
		if err != nil {
			t.Fatal(err)
		}
		l.ids[name] = id
		l.do(id, core.Arrive)
	}
	return l
}

// wants has a job reserve so many MiB, or wait for them.
func (l lends) wants(name string, n share.Bytes) {
	l.t.Helper()
	if err := l.reserveWait(l.ids[name], n); err != nil {
		l.t.Fatal(err)
	}
}

func (l lends) does(name string, kinds ...core.EventKind) {
	l.t.Helper()
	for _, kind := range kinds {
		l.do(l.ids[name], kind)
	}
}

// asked holds what a job was told to hold at most by what was said last, in MiB; -1: nothing.
func (l lends) asked(when, name string, want share.Bytes) {
	l.t.Helper()
	if got := l.told(l.ids[name]); got != want {
		l.t.Errorf("%s: %s is told to hold %v, want %v", when, name, got, want)
	}
}

// TestGrownIsAsked: a job that has given back all that it could and then came to hold more is asked
// again.
func TestGrownIsAsked(t *testing.T) {
	l := lending(t, "a", "b", "c")
	l.wants("a", 300)
	l.wants("c", 400)
	l.does("c", core.Want, core.Begin)
	l.wants("b", 500)
	l.asked("first", "a", 124)
	if n := l.job(l.ids["a"]).Evictions; n != 1 {
		t.Errorf("told once, and counted %d times", n)
	}
	l.does("a", core.Stay)
	l.does("b", core.Withdraw)
	if err := l.step(core.Event{Kind: core.Reserve, Job: l.ids["a"],
		Bytes: 50 * share.MiB}); err != nil {
		t.Fatal(err)
	}
	l.wants("b", 500)
	l.asked("with more", "a", 124)
}

// TestWhoGaveUpIsAsked: a job that waited first and has given up has no turn by which it would
// keep what it holds.
func TestWhoGaveUpIsAsked(t *testing.T) {
	l := lending(t, "a", "b", "c")
	l.wants("a", 300)
	l.wants("c", 500)
	l.does("c", core.Want, core.Begin)
	l.wants("a", 300)
	l.does("a", core.Withdraw)
	l.wants("b", 500)
	l.asked("after it gave up", "a", 24)
}

// TestOthersOfMoreUsersAreAsked: weights that several jobs use leave once who is used by fewer has
// no more to give.
func TestOthersOfMoreUsersAreAsked(t *testing.T) {
	l := lending(t, "weights", "a", "b")
	if err := l.step(core.Event{Kind: core.Expect, Job: l.ids["weights"],
		Next: &share.Forecast{Users: 2}}); err != nil {
		t.Fatal(err)
	}
	l.wants("weights", 300)
	l.wants("a", 300)
	l.wants("b", 600)
	l.asked("first", "a", 124)
	l.asked("first", "weights", -1)
	l.does("a", core.Stay)
	l.asked("then", "weights", 124)
}

// TestKeptPassesWhoWaits: what a job keeps, and has made room for under its own cap, is there for
// it though another waits for what a third holds.
func TestKeptPassesWhoWaits(t *testing.T) {
	l := lending(t, "a", "c")
	k, err := l.elastic("k", 200, 200)
	if err != nil {
		t.Fatal(err)
	}
	l.wants("c", 500)
	l.does("c", core.Want, core.Begin)
	if err := l.reserveWait(k, 200); err != nil {
		t.Fatal(err)
	}
	l.wants("a", 600)
	if err := l.reserveWait(k, 50); err != nil {
		t.Fatal(err)
	}
	if err := l.step(core.Event{Kind: core.Unreserve, Job: k, Bytes: 50 * share.MiB}); err != nil ||
		len(l.said) != 1 || l.said[0].Kind != core.Reserved || l.said[0].Job != k {
		t.Errorf("room under its own cap: %v, said %v", err, l.said)
	}
}

// TestToldOfALane: what a job is told to hold at most counts what it holds of its lane, when it is
// told and when it asks.
func TestToldOfALane(t *testing.T) {
	d := withLanes(t, "fair", 1)
	if err := d.step(core.Event{Kind: core.Admit, Spec: &share.Job{Name: "a",
		Share:     share.Share{Memory: 600 * share.MiB, Elastic: true},
		Ephemeral: 100 * share.MiB}}); err != nil {
		t.Fatal(err)
	}
	a := d.said[0].Job
	b, err := d.elastic("b", 600, 0)
	if err != nil {
		t.Fatal(err)
	}
	d.do(a, core.Arrive)
	d.do(b, core.Arrive)
	for kind, n := range map[core.MemoryKind]share.Bytes{core.Persistent: 400, core.Ephemeral: 50} {
		if err := d.step(core.Event{Kind: core.Reserve, Job: a, Memory: kind,
			Bytes: n * share.MiB}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.reserveWait(b, 600); err != nil {
		t.Fatal(err)
	}
	const want = 1024 - 600 - 100 + 50 // beside b and the lane, and what is held of the lane
	if most, told := d.c.Told(a); d.told(a) != want || !told || most != want*share.MiB {
		t.Errorf("a is told to hold %v, and asks and hears %v, %t", d.told(a), most, told)
	}
}

// TestAskedOnce: what was asked back and is on its way is not asked for again.
func TestAskedOnce(t *testing.T) {
	l := lending(t, "a", "b", "c")
	l.wants("a", 300)
	l.wants("c", 300)
	l.wants("b", 600)
	l.asked("first", "a", 124)
	for range 3 {
		if err := l.step(core.Event{Kind: core.Look}); err != nil || len(l.said) > 0 {
			t.Errorf("while a gives that back: %v, %v", l.said, err)
		}
	}
}

// TestNoWaitAmidAnIteration: who has left the device amid an iteration does not wait for what
// others hold, who may need what it has to end theirs.
func TestNoWaitAmidAnIteration(t *testing.T) {
	l := lending(t, "a", "b")
	l.wants("b", 600)
	l.wants("a", 300)
	l.does("a", core.Want, core.Begin, core.Release)
	if err := l.reserveWait(l.ids["a"], 300); !errors.Is(err, core.ErrNoMemory) {
		t.Errorf("amid an iteration: %v", err)
	}
	l.does("a", core.Want, core.Finish, core.Release)
	l.wants("a", 300)
	l.asked("after it", "b", 424)
}

// TestMemoryAsksThePolicy: a policy is asked when a reservation begins to wait, and when memory is
// given back or no longer waited for, and not when there was room. The peak is the most that was
// held at one time.
func TestMemoryAsksThePolicy(t *testing.T) {
	l := lending(t, "a", "b")
	asks := func(when string, want bool, act func()) {
		t.Helper()
		before := l.c.Decisions()
		if act(); (l.c.Decisions() > before) != want {
			t.Errorf("%s: asked %d times, want %v", when, l.c.Decisions()-before, want)
		}
	}
	free := func(name string, n share.Bytes) func() {
		return func() {
			if err := l.free(l.ids[name], n); err != nil {
				t.Fatal(err)
			}
		}
	}
	asks("there is room", false, func() { l.wants("a", 500) })
	asks("there is none", true, func() { l.wants("b", 600) })
	asks("given back, and granted", true, free("a", 300))
	asks("given back", true, free("b", 500))
	asks("there is room again", false, func() { l.wants("b", 50) })
	asks("there is none again", true, func() { l.wants("a", 400); l.wants("b", 450) })
	asks("given up", true, func() { l.does("b", core.Withdraw) })
	for name, want := range map[string]share.Bytes{"a": 600, "b": 600} {
		if got := l.job(l.ids[name]).Peak / share.MiB; got != want {
			t.Errorf("the most of %s was %v, want %v", name, int64(got), int64(want))
		}
	}
}

// TestWhoWaitsKeepsItsTurn: a job that waits for memory without a request keeps its place when one
// has come and gone meanwhile.
func TestWhoWaitsKeepsItsTurn(t *testing.T) {
	l := lending(t, "b")
	a, err := l.elastic("a", 600, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.wants("b", 600)
	l.does("b", core.Want, core.Begin)
	if err := l.reserveWait(a, 500); err != nil {
		t.Fatal(err)
	}
	l.do(a, core.Arrive, core.Complete)
	l.does("b", core.Finish)
	l.asked("after its iteration", "b", 524)
	if err := l.free(l.ids["b"], 76); err != nil {
		t.Fatal(err)
	}
	if !l.heard(core.Reserved, a) {
		t.Error("there is room, and who waited is not served")
	}
}

// TestUsedByFewerGoFirst: weights that several jobs use are not asked back while one that nobody
// else uses is within an iteration, after which it is.
func TestUsedByFewerGoFirst(t *testing.T) {
	l := lending(t, "weights", "a", "b")
	if err := l.step(core.Event{Kind: core.Expect, Job: l.ids["weights"],
		Next: &share.Forecast{Users: 2}}); err != nil {
		t.Fatal(err)
	}
	l.wants("weights", 300)
	l.wants("a", 300)
	l.does("a", core.Want, core.Begin)
	l.wants("b", 600)
	l.asked("during the other's iteration", "weights", -1)
	l.does("a", core.Finish)
	l.asked("after it", "a", 124)
	l.asked("after it", "weights", -1)
}

// TestNobodyWaitsForBoth: a job that waits for units cannot wait for memory, too, that others hold:
// these may need the units to end their iterations.
func TestNobodyWaitsForBoth(t *testing.T) {
	l := lending(t, "a", "b")
	l.wants("b", 500)
	l.does("b", core.Want)
	l.does("a", core.Want)
	if err := l.reserveWait(l.ids["a"], 600); !errors.Is(err, core.ErrNoMemory) {
		t.Errorf("it waits for units and for memory: %v", err)
	}
}

// TestKeptIsNotAsked: what was to be given back, and is set apart for the job since, may stay.
func TestKeptIsNotAsked(t *testing.T) {
	d := under(t, "antman")
	admit := func(name string, c share.Class) share.JobID {
		if err := d.step(core.Event{Kind: core.Admit, Spec: &share.Job{Name: name,
			Share: share.Share{Class: c, Memory: 600 * share.MiB}}}); err != nil {
			t.Fatal(err)
		}
		return d.said[0].Job
	}
	firm := admit("firm", share.Standard)
	a := admit("a", share.Opportunistic)
	d.do(firm, core.End)
	if err := d.reserved(a, 600); err != nil {
		t.Fatal(err)
	}
	other := admit("other", share.Standard)
	if most, told := d.c.Told(a); !told || most != 424*share.MiB {
		t.Fatalf("beside 600 MiB for another it is told %v to hold %v", told, most)
	}
	d.do(other, core.End)
	if err := d.step(core.Event{Kind: core.Switch, Policy: "antman"}); err != nil {
		t.Fatal(err)
	}
	if m := d.memory(a); m.Kept() != 600 {
		t.Fatalf("alone it has %+v", m)
	}
	if most, told := d.c.Told(a); told {
		t.Errorf("alone it is to hold %v", most)
	}
}
