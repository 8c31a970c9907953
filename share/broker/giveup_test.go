package broker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// TestReserveWaitGivenUp: a reservation that nobody waits for any more is never counted.
func TestReserveWaitGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, x, _ := two(t)
		if err := x.Reserve(core.Persistent, share.MiB); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := x.ReserveWait(ctx, core.Persistent, 1)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("gave up with %v", err)
		}
		if err := x.Free(core.Persistent, share.MiB); err != nil {
			t.Fatal(err)
		}
		if m := x.Status().Memory; m.Persistent != 0 || m.Asked != 0 {
			t.Errorf("holds %v, asks for %v", m.Persistent, m.Asked)
		}
	})
}

// TestReserveWaitBesideOneGivenUp: what is counted for who has just given up is not taken for what
// another waits for.
func TestReserveWaitBesideOneGivenUp(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			_, x, _ := two(t)
			if err := x.Reserve(core.Persistent, share.MiB); err != nil {
				t.Fatal(err)
			}
			one, giveUp := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() { gone <- x.ReserveWait(one, core.Persistent, 1) }()
			synctest.Wait()
			giveUp()
			if err := x.Free(core.Persistent, 1); err != nil {
				t.Fatal(err)
			}
			other, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := x.ReserveWait(other, core.Persistent, share.MiB)
			<-gone
			if m := x.Status().Memory; !errors.Is(err, context.DeadlineExceeded) || m.Asked != 0 ||
				m.Persistent != share.MiB-1 {
				t.Errorf("of a full cap it was given what another gave up: error %v, %+v", err, m)
			}
		})
	}
}

// TestTryRenewAtItsLimit: a job that its limit keeps from going on neither holds nor waits.
func TestTryRenewAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, x, _ := two(t)
		if err := x.SetShare(share.Share{Limit: 0.1}); err != nil {
			t.Fatal(err)
		}
		lease, err := x.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if lease.TryRenew() || x.Status().Phase != share.Idle || !lease.Revoked() {
			t.Errorf("beyond its limit it is %v, with %v", x.Status().Phase, lease)
		}
	})
}

// TestResumeBeside: a job that may not run beside whom its units were lent to does not wait either.
func TestResumeBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := core.Config{Device: "cpu:0", Units: 4, Memory: share.GiB,
			Can: share.Can{Overlap: true}}.ForPolicy("pack:jobs=1")
		if err != nil {
			t.Fatal(err)
		}
		b, err := broker.New(broker.Config{Config: c})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		var leases [2]*broker.Lease
		var jobs [2]*broker.Job
		for i, name := range []string{"x", "y"} {
			if jobs[i], err = b.Admit(share.Job{Name: name}, share.MiB); err != nil {
				t.Fatal(err)
			}
			if leases[i], err = jobs[i].Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i == 0 && leases[0].Rest() != nil {
				t.Fatal("cannot rest")
			}
		}
		if leases[0].Resume() || jobs[0].Status().Phase != share.Idle {
			t.Errorf("one that rested is %v beside another", jobs[0].Status().Phase)
		}
		leases[1].Release()
		if _, err := jobs[0].Acquire(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestReserveWaitOfAnEndedJob: the end of a job ends the wait of its reservation.
func TestReserveWaitOfAnEndedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, x, _ := two(t)
		if err := x.Reserve(core.Persistent, share.MiB); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- x.ReserveWait(context.Background(), core.Persistent, 1) }()
		synctest.Wait()
		x.End(nil)
		synctest.Wait()
		select {
		case err := <-got:
			if !errors.Is(err, core.ErrEnded) {
				t.Errorf("the wait ended with %v", err)
			}
		default:
			t.Fatal("the reservation of an ended job still waits")
		}
	})
}
