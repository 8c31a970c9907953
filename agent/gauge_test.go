package agent

import (
	"errors"
	"testing"
	"time"
)

// TestWhoAsksWhatHangs: once a call has taken too long, who asks is told so at once and leaves
// nothing to be done when it ends.
func TestWhoAsksWhatHangs(t *testing.T) {
	hold, called := make(chan struct{}), make(chan struct{}, 1<<10)
	g := gauge[int]{ask: func() (int, error) {
		called <- struct{}{}
		<-hold
		return 1, nil
	}}
	if _, err := g.read(t.Context(), time.Millisecond); !errors.Is(err, errHangs) {
		t.Errorf("a call that hangs: %v", err)
	}
	<-called
	// it may have begun only now: any time is too long for who asks next
	if _, err := g.read(t.Context(), 0); !errors.Is(err, errHangs) {
		t.Errorf("the next: %v", err)
	}
	g.mu.Lock()
	if g.next != nil {
		t.Error("a second call is to follow one that hangs")
	}
	g.mu.Unlock()
	close(hold)
	for err := error(errHangs); err != nil; {
		var n int
		if n, err = g.read(t.Context(), time.Hour); err == nil && n != 1 {
			t.Errorf("it says %d once it answers", n)
		}
	}
}
