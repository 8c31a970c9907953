package jobs

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBegin: no job begins before it may, and one that waits does not hold up the end. Time is
// virtual.
func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, begun := t.TempDir(), make(chan struct{})
		d := &doubler{count: map[float32]int{}}
		p := begin(t, dir, Options{Begin: begun}, d.source("double", 1))
		j := p.double(t, t.Context(), "a", 9)
		time.Sleep(time.Hour)
		if got, err := p.jobs.Get(t.Context(), j.ID); err != nil || got.State != Queued {
			t.Errorf("before it is %+v, %v", got, err)
		}
		p.end(t)
		p = begin(t, dir, Options{Begin: begun}, d.source("double", 1))
		close(begun)
		time.Sleep(time.Second)
		synctest.Wait()
		p.doubled(t, j.ID, 9)
		p.end(t)
	})
}
