package broker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// bounding is a policy that grants the device and bounds all traffic, and what it bounds that to.
func bounding() (p scripted, most *atomic.Int64) {
	most = new(atomic.Int64)
	p.decide = func(s *share.Snapshot) (d share.Decision) {
		for _, j := range s.Jobs {
			t := share.Terms{Job: j.ID, Copy: share.Bytes(most.Load())}
			if j.Phase != share.Idle {
				t.Units, t.Until = share.UnitRange(0, s.Units), share.Forever
			}
			d.Set = append(d.Set, t)
		}
		return d
	}
	return p, most
}

// bound changes the bound, and has the policy say so.
func bound(j *broker.Job, most *atomic.Int64, n share.Bytes) {
	most.Store(int64(n))
	j.Expect(share.Forecast{})
}

// TestTransfer: over any time no more is moved than the bound allows in it, another bound holds
// from when it is said, and all is counted.
func TestTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, most := bounding()
		b, _ := newBroker(t, p)
		j := admit(t, b, "a", share.Share{})
		began := time.Now()
		move := func(n share.Bytes, want time.Duration) {
			t.Helper()
			if err := j.Transfer(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); (took - want).Abs() > time.Microsecond {
				t.Errorf("%v by %v, want %v", n, took, want)
			}
		}
		move(share.GiB, 0)
		bound(j, most, share.MiB)
		move(share.MiB/2, 500*ms)
		move(share.MiB, 1500*ms)
		go func() {
			time.Sleep(time.Second)
			bound(j, most, 4*share.MiB)
			time.Sleep(time.Second)
			bound(j, most, 0)
		}()
		move(5*share.MiB, 3500*ms) // one of them in the first second, four in the next
		go func() {
			time.Sleep(10 * time.Hour)
			bound(j, most, 0)
		}()
		bound(j, most, 1)
		began = time.Now()
		move(share.GiB, 10*time.Hour) // next to nothing, until the bound is gone
		want := 2*share.GiB + 13*share.MiB/2
		if got := j.Account().Copied; got != want {
			t.Errorf("%v were counted, want %v", got, want)
		}
	})
}

// TestTransfersShareABound: what is moved at once takes as long as one after another, and what
// comes later waits behind it.
func TestTransfersShareABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, most := bounding()
		b, _ := newBroker(t, p)
		j := admit(t, b, "a", share.Share{})
		bound(j, most, share.MiB)
		began := time.Now()
		took := make(chan time.Duration, 3)
		for range cap(took) {
			go func() {
				if err := j.Transfer(t.Context(), share.MiB); err != nil {
					t.Error(err)
				}
				took <- time.Since(began)
			}()
		}
		for i := range cap(took) {
			want := time.Duration(i+1) * time.Second
			if got := <-took; (got - want).Abs() > time.Microsecond {
				t.Errorf("transfer %d of a second each passes after %v", i+1, got)
			}
		}
	})
}

// TestTransferGivenUp: a transfer that is not to pass any more is not counted, whether it waits for
// the bound or behind another; with its job's end none passes.
func TestTransferGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, most := bounding()
		b, _ := newBroker(t, p)
		j := admit(t, b, "a", share.Share{})
		bound(j, most, 1)
		ended := make(chan error, 3)
		move := func(ctx context.Context) {
			go func() { ended <- j.Transfer(ctx, share.MiB) }()
			synctest.Wait()
		}
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		move(first)
		move(second)
		cancelSecond()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("behind another: %v", err)
		}
		cancelFirst()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("at the bound: %v", err)
		}
		move(t.Context())
		j.End(nil)
		if err := <-ended; !errors.Is(err, core.ErrEnded) {
			t.Errorf("with the job's end: %v", err)
		}
		if n := j.Account().Copied; n != 0 {
			t.Errorf("%v were counted", n)
		}
	})
}
