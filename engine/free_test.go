package engine

import (
	"context"
	"errors"
	"testing"
)

// TestFree holds that an instance which is freed leaves no arena to a session, whether it is open
// or closed, and that others go on.
func TestFree(t *testing.T) {
	b := newBench(t)
	p := network(t)
	s := b.load(t, p)
	one, two := take(t, s), take(t, s)
	if held := s.Held(); held != p.PeakBytes(2) {
		t.Errorf("%d bytes are held for two, want %d", held, p.PeakBytes(2))
	}
	one.Free()
	if held := s.Held(); held != p.PeakBytes(1) {
		t.Errorf("%d bytes are held for one, want %d", held, p.PeakBytes(1))
	}
	s.Close()
	two.Free()
	if held := s.Held(); held != 0 {
		t.Errorf("%d bytes are held after all", held)
	}
}

// TestLoadStops holds that weights are packed no longer than the context of Load lasts.
func TestLoadStops(t *testing.T) {
	b := newBench(t)
	p := network(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, pooled := range []bool{false, true} {
		o := b.options()
		o.Context = ctx
		if pooled {
			o.PackPool = b.pool
		}
		if s, err := Load(p, o); !errors.Is(err, context.Canceled) {
			s.Close()
			t.Errorf("with a pool: %v; error %v", pooled, err)
		}
	}
	b.nothingHeld(t)
}
