package agent

import (
	"testing"
	"testing/synctest"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// TestOverdueGate: a program that holds the open gate for closed is shown another value of it, also
// open; one that speaks of a gate that was is not.
func TestOverdueGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, share.Share{})
		b.holds()
		h := b.j.page.Header()
		open := h.Gate.Load()
		for _, past := range []uint32{open - 2, open - 1, open + 1} {
			b.j.overdue(past)
			if b.j.reopen(); h.Gate.Load() != open {
				t.Fatalf("told of gate %d, it went from %d to %d", past, open, h.Gate.Load())
			}
		}
		b.j.overdue(open)
		b.j.reopen()
		now := h.Gate.Load()
		if now == open || !wire.IsOpen(now) || h.LeaseUntilNS.Load() != noEnd {
			t.Errorf("the gate went from %d to %d, until %d", open, now, h.LeaseUntilNS.Load())
		}
		b.j.lease.Release()
	})
}

// TestEndOfTheLease: programs are told of an end only where others wait for it.
func TestEndOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, share.Share{})
		b.holds()
		if until := b.j.page.Header().LeaseUntilNS.Load(); until != noEnd {
			t.Errorf("alone, it ends at %d", until)
		}
		b.othersWait()
		b.j.openGate()
		if until := b.j.page.Header().LeaseUntilNS.Load(); until == noEnd {
			t.Error("beside others that wait, it has no end")
		}
		b.j.lease.Release()
	})
}

// TestWhoRests: a process that does nothing rests, unless it waits at the gate, and one that waits
// does not rest any more when the gate opens.
func TestWhoRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, share.Share{})
		b.m.s.Launches.Store(3)
		b.j.noteQuiet()
		if b.m.rest {
			t.Error("rests at once after it launched")
		}
		b.waits()
		if b.j.noteQuiet(); b.m.rest {
			t.Error("rests while it waits")
		}
		b.m.s.Waiting.Store(0)
		if b.j.noteQuiet(); !b.m.rest {
			t.Error("does not rest although it does nothing")
		}
		b.waits()
		if b.holds(); b.m.rest {
			t.Error("rests although the gate was opened for it")
		}
		b.j.lease.Release()
	})
}
