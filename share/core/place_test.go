package core_test

import (
	"testing"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// TestWithdrawKeepsThePlaceOfAnIteration: a job that was served before another began to wait has
// what is free before it until its iteration ends, whatever it withdraws meanwhile; one that has
// withdrawn outside of an iteration comes behind.
func TestWithdrawKeepsThePlaceOfAnIteration(t *testing.T) {
	for _, within := range []bool{true, false} {
		d := under(t, "fair")
		a, _ := d.elastic("a", 700, 0)
		b, _ := d.elastic("b", 900, 0)
		c, _ := d.elastic("c", 500, 0)
		free := func(n share.Bytes) {
			t.Helper()
			if err := d.step(core.Event{Kind: core.Unreserve, Job: b,
				Bytes: n * share.MiB}); err != nil {
				t.Fatal(err)
			}
		}
		d.do(a, core.Arrive)
		d.do(b, core.Arrive)
		d.do(c, core.Arrive)
		if err := d.reserveWait(b, 900); err != nil {
			t.Fatal(err)
		}
		if err := d.reserveWait(a, 200); err != nil || d.told(b) != 824 {
			t.Fatalf("b is told to hold %v: %v", d.told(b), err)
		}
		if within {
			if free(76); !d.heard(core.Reserved, a) {
				t.Fatalf("what b gave back: %v", d.said)
			}
			d.do(a, core.Want, core.Begin)
		}
		d.do(a, core.Withdraw)
		if err := d.reserveWait(c, 400); err != nil {
			t.Fatal(err)
		}
		free(50)
		err := d.step(core.Event{Kind: core.Reserve, Job: a, Bytes: 20 * share.MiB})
		if (err == nil) != within {
			t.Errorf("within an iteration %v: %v", within, err)
		}
	}
}

// TestSoonerOfEqualUsers: of weights that as many jobs use, and of jobs that hold nothing, none is
// waited for, nor of what holds who waits: the victim of the rule is told to give back.
func TestSoonerOfEqualUsers(t *testing.T) {
	d := under(t, "fair")
	var all []share.JobID
	for _, name := range []string{"v", "w", "empty"} {
		id, err := d.elastic(name, 500, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	for _, id := range all[:2] {
		if err := d.step(core.Event{Kind: core.Expect, Job: id,
			Next: &share.Forecast{Users: 2}}); err != nil {
			t.Fatal(err)
		}
		if err := d.reserveWait(id, 500); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := d.elastic("a", 300, 0)
	d.do(a, core.Arrive)
	if err := d.reserveWait(a, 20); err != nil { // which it may have, and is not to give for itself
		t.Fatal(err)
	}
	if err := d.reserveWait(a, 280); err != nil || d.told(all[0]) < 0 && d.told(all[1]) < 0 {
		t.Errorf("nobody is told to give back: %v, %v", d.said, err)
	}
}
