package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// two makes a broker under fair with two jobs.
func two(t *testing.T) (b *broker.Broker, x, y *broker.Job) {
	t.Helper()
	c, err := core.Config{Device: "cpu:0", Units: 4, Memory: share.GiB}.ForPolicy("fair")
	if err != nil {
		t.Fatal(err)
	}
	if b, err = broker.New(broker.Config{Config: c}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	jobs := [2]*broker.Job{}
	for i, name := range []string{"x", "y"} {
		if jobs[i], err = b.Admit(share.Job{Name: name}, share.MiB); err != nil {
			t.Fatal(err)
		}
	}
	return b, jobs[0], jobs[1]
}

// TestRestKeepsEverybodyOut rests a job and has two others come at once: nobody gets the device
// before it was given back, and its owner pays for that time.
func TestRestKeepsEverybodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, x, y := two(t)
		z, err := b.Admit(share.Job{Name: "z"}, share.MiB)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := x.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Rest(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if used := x.Account().Used; used != 0 {
			t.Errorf("paid %v for a rest that kept nobody waiting", used)
		}
		got := make(chan *broker.Lease)
		for _, j := range []*broker.Job{y, z} {
			go func() {
				l, _ := j.Acquire(t.Context())
				got <- l
			}()
		}
		synctest.Wait()
		if lease.Until() != 0 || lease.Resume() {
			t.Error("not told to give way, or let go on")
		}
		time.Sleep(5 * time.Second)
		if u, v := y.Account().Used, z.Account().Used; u+v != 0 {
			t.Errorf("others were let in and paid %v and %v", u, v)
		}
		lease.Release()
		if used := x.Account().Used; used != 5*time.Second {
			t.Errorf("paid %v for 5 s in which others waited", used)
		}
		(<-got).Release()
		(<-got).Release()
	})
}

// TestChargeForARest has a job pay for what it used while it rested: no more than it said, and no
// more than the time that it rested.
func TestChargeForARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, x, _ := two(t)
		lease, err := x.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := time.Duration(0)
		for _, c := range []struct{ rest, used, pays time.Duration }{
			{50 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond},
			{50 * time.Millisecond, time.Hour, 50 * time.Millisecond},
			{50 * time.Millisecond, -time.Hour, 0},
		} {
			if err := lease.Rest(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.rest)
			lease.Charge(c.used)
			lease.Charge(c.used) // all of it was settled
			want += c.pays
			if got := x.Account().Used; got != want {
				t.Errorf("rested %v and used %v: paid %v in all, want %v", c.rest, c.used, got,
					want)
			}
			if !lease.Resume() {
				t.Fatal("kept from going on by nobody")
			}
		}
		if got := x.Account().Recent; got == 0 {
			t.Error("what was paid is not in the account of the last second")
		}
	})
}

// TestTryRenewTellsOfOthers renews a lease that is over, alone and beside a job that waits.
func TestTryRenewTellsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, x, y := two(t)
		lease, err := x.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(time.Second)
			if !lease.Revoked() || !lease.TryRenew() || lease.Revoked() {
				t.Fatal("a job that is alone was not given another lease")
			}
		}
		got := make(chan *broker.Lease)
		go func() {
			l, _ := y.Acquire(t.Context())
			got <- l
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		if lease.TryRenew() {
			t.Error("renewed although another waits")
		}
		time.Sleep(time.Second)
		if used := y.Account().Used; used != 0 {
			t.Errorf("the other was let in before the device was given back, and paid %v", used)
		}
		lease.Release()
		(<-got).Release()
	})
}
