package broker

import (
	"testing"
	"testing/synctest"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
)

// waiters notes of each grant whether the goroutine that waited for it was still asleep.
type waiters struct {
	b      *Broker
	asleep []bool
}

func (w *waiters) Observe(n core.Notice) {
	if n.Kind == core.Granted {
		w.asleep = append(w.asleep, w.b.jobs[n.Job].parked)
	}
}

// TestObserverBeforeWaiters: waking a goroutine costs the system more than an observer does that
// lets the job go on at once, so that the observer is told first.
func TestObserverBeforeWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fair, err := policy.New("fair")
		if err != nil {
			t.Fatal(err)
		}
		w := &waiters{}
		b, err := New(Config{Observer: w, Config: core.Config{
			Device: "cuda:0", Units: 1, Memory: share.GiB, Policy: fair}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		w.b = b
		jobs := make([]*Job, 2)
		for i, name := range []string{"first", "second"} {
			if jobs[i], err = b.Admit(share.Job{Name: name}, 1); err != nil {
				t.Fatal(err)
			}
		}
		lease, err := jobs[0].Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := jobs[1].Acquire(t.Context())
			done <- err
		}()
		synctest.Wait()
		lease.Release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if len(w.asleep) != 2 || w.asleep[0] || !w.asleep[1] {
			t.Errorf("waiters asleep at the grants: %v, want the second one's", w.asleep)
		}
	})
}
