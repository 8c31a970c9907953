package jobs

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBegin: no job begins before it may. Time is virtual.
func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{})
		d := &doubler{count: map[float32]int{}}
		p := begin(t, t.TempDir(), Options{Begin: begun}, d.source("double", 1))
		j := p.double(t, t.Context(), "a", 9)
		time.Sleep(time.Hour)
		if got, err := p.jobs.Get(t.Context(), j.ID); err != nil || got.State != Queued {
			t.Errorf("before it is %+v, %v", got, err)
		}
		close(begun)
		time.Sleep(time.Second)
		synctest.Wait()
		p.doubled(t, j.ID, 9)
		p.end(t)
	})
}

// TestNoBegin: jobs that never may begin do not hold up the end.
func TestNoBegin(t *testing.T) {
	p := begin(t, t.TempDir(), Options{Begin: make(chan struct{})}, models("digits")...)
	p.ask(t, "POST", digitsPath, pictures(t, 3), "Idempotency-Key", "a").job(t, 201)
	p.end(t)
}
