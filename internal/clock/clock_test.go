package clock

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	_ Clock = (*Real)(nil)
	_ Clock = (*Manual)(nil)
)

func TestReal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewReal()
		if c.Now() != 0 || !c.Origin().Equal(time.Now()) {
			t.Errorf("a new clock shows %v from %v", c.Now(), c.Origin())
		}
		time.Sleep(90 * time.Second)
		if c.Now() != 90*time.Second {
			t.Errorf("after 90 s the clock shows %v", c.Now())
		}
	})
}

func TestManual(t *testing.T) {
	var c Manual
	for _, step := range []struct {
		name string
		got  time.Duration
		want time.Duration
	}{
		{"advance", c.Advance(time.Second), time.Second},
		{"advance by nothing", c.Advance(0), time.Second},
		{"move on", c.MoveTo(time.Minute), time.Minute},
		{"move back", c.MoveTo(time.Second), time.Minute},
		{"read", c.Now(), time.Minute},
	} {
		if step.got != step.want {
			t.Errorf("%s: %v, want %v", step.name, step.got, step.want)
		}
	}
}

func TestManualRefusesToGoBack(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	new(Manual).Advance(-1)
}

// TestManualConcurrent moves one clock from several goroutines: no reading of one goroutine is
// earlier than the one before.
func TestManualConcurrent(t *testing.T) {
	var c Manual
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			last := c.Now()
			for i := range 1000 {
				now := c.MoveTo(time.Duration(i * (g + 1)))
				if g%2 == 0 {
					now = c.Advance(1)
				}
				if now < last || now < time.Duration(i*(g+1)) {
					t.Errorf("%v after %v", now, last)
				}
				last = now
			}
		})
	}
	wg.Wait()
	if c.Now() < 2000 {
		t.Errorf("%v after 2000 steps of 1", c.Now())
	}
}

func TestReadingDoesNotAllocate(t *testing.T) {
	for _, c := range []Clock{NewReal(), new(Manual)} {
		if n := testing.AllocsPerRun(100, func() { c.Now() }); n != 0 {
			t.Errorf("%T: %v allocations a reading", c, n)
		}
	}
}
