package core_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// limiting is a policy that says how many units each job may have.
type limiting struct {
	*scripted
	limit func(*share.Snapshot, *share.JobState) int
}

func (p limiting) UnitLimit(s *share.Snapshot, j *share.JobState) int { return p.limit(s, j) }

// TestUnitLimit: what a policy holds a job to is known before the job wants anything, and follows
// its share and the policy; what no policy may say counts as no limit.
func TestUnitLimit(t *testing.T) {
	d := under(t, "mps")
	a, b := d.admit("a", share.Share{Compute: 0.25}), d.admit("b", share.Share{})
	check := func(when string, wantA, wantB int) {
		t.Helper()
		nA, okA := d.c.UnitLimit(a)
		if nB, okB := d.c.UnitLimit(b); nA != wantA || nB != wantB || !okA || !okB {
			t.Errorf("%s: limits of %d and %d units, want %d and %d", when, nA, nB, wantA, wantB)
		}
	}
	check("at first", 1, 3)
	d.do(a, core.Want)
	if got := d.job(a).Units.Len(); got != 1 {
		t.Errorf("a job limited to one unit is granted %d", got)
	}
	if err := d.step(core.Event{Kind: core.Change, Job: a, Spec: &share.Job{Name: "a",
		Share: share.Share{Compute: 0.25, Limit: 0.75}}}); err != nil {
		t.Fatal(err)
	}
	check("with another share", 3, 1)
	if err := d.step(core.Event{Kind: core.Switch, Policy: "mps:percent=50"}); err != nil {
		t.Fatal(err)
	}
	check("with another parameter", 3, 1)
	if err := d.step(core.Event{Kind: core.Switch, Policy: "fair"}); err != nil {
		t.Fatal(err)
	}
	check("under a policy that limits nobody", 4, 4)
	d.do(a, core.End)
	if n, ok := d.c.UnitLimit(a); ok {
		t.Errorf("a job that has ended has a limit of %d", n)
	}
	for _, n := range []int{-1, 0, 5, 99} {
		d := newDrive(t, core.Config{Policy: limiting{&scripted{decide: everyone},
			func(*share.Snapshot, *share.JobState) int {
				if n == 99 {
					panic("out of range")
				}
				return n
			}}, Needs: share.Can{Overlap: true}})
		if got, ok := d.c.UnitLimit(d.admit("a", share.Share{})); got != 4 || !ok {
			t.Errorf("a policy that says %d: %d, %v, want all 4", n, got, ok)
		}
	}
}

// TestSwitchWithAbilities: a device that can do more, or less, than before is told so together with
// the policy that needs it; on a refusal neither changes.
func TestSwitchWithAbilities(t *testing.T) {
	c, err := core.Config{Device: "cuda:0", Units: 4, Memory: share.GiB,
		Can: share.Can{Launches: true}}.ForPolicy("fair")
	if err != nil {
		t.Fatal(err)
	}
	k, err := core.New(c)
	if err != nil {
		t.Fatal(err)
	}
	limits := share.Can{Launches: true, Limit: true, Overlap: true}
	for _, s := range []struct {
		policy string
		can    *share.Can
		lacks  string // empty: is done
	}{
		{"mps", nil, "limit, overlap"}, {"mps", &limits, ""}, {"pack", nil, ""},
		{"fgpu", nil, "needs partition, the device has limit, overlap, launches"},
		{"mig", nil, "needs partition"}, {"steal", nil, "needs partition"},
		{"mps", &share.Can{Launches: true}, "limit, overlap"}, {"mps", nil, ""},
		{"fair", &share.Can{Launches: true}, ""}, {"mps", nil, "limit, overlap"},
	} {
		_, err := k.Step(core.Event{Kind: core.Switch, Policy: s.policy, Can: s.can})
		if refused := s.lacks != ""; errors.Is(err, share.ErrCannot) != refused ||
			refused && !strings.Contains(err.Error(), s.lacks) || !refused && err != nil {
			t.Errorf("%s with %v: %v, want %q", s.policy, s.can, err, s.lacks)
		}
	}
}
