package agent

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
)

// bench is a job whose goroutine is not started, with one process that does nothing by itself, and
// another job of the broker.
type bench struct {
	t     *testing.T
	j     *job
	m     *member
	other *broker.Job
}

func newBench(t *testing.T, s share.Share) *bench {
	t.Helper()
	h := newHost(t, "fair")
	t.Cleanup(h.close)
	page, err := wire.OverlayPage(make([]byte, wire.PageSize))
	if err != nil {
		t.Fatal(err)
	}
	page.Format()
	s.Memory = share.GiB
	b := &bench{t: t}
	bj, err := h.dev.broker.Admit(share.Job{Name: "job", Share: s}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if b.other, err = h.dev.broker.Admit(share.Job{Name: "other",
		Share: share.Share{Memory: share.GiB}}, 0); err != nil {
		t.Fatal(err)
	}
	b.j = h.a.newJob(h.dev, bj, wire.Terms{Token: wire.Token{1}}, page, nil)
	b.j.wake = func() {}
	p := h.people.born()
	b.m, _, err = b.j.attach(&conn{a: h.a, uc: &net.UnixConn{},
		peer: peer{uid: p.uid, pid: p.pid, process: p}}, wire.Hello{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.j.abandon)
	return b
}

// The situations of a table.

// drains has the process say that nothing of it is in flight.
func (b *bench) drains() {
	b.j.mu.Lock()
	defer b.j.mu.Unlock()
	b.m.s.DrainedSeq.Store(b.j.gate)
}

func (b *bench) waits()    { b.m.s.Waiting.Store(1) }
func (b *bench) launched() { b.m.s.Launches.Add(1); b.m.s.InflightNS.Store(1e6) }
func (b *bench) shuts()    { b.j.shut() }
func (b *bench) ends()     { b.j.stop() }
func (b *bench) departs()  { b.j.mu.Lock(); b.m.conn = nil; b.j.mu.Unlock() }

// holds gives the job the lease and opens its gate.
func (b *bench) holds() {
	b.t.Helper()
	var err error
	if _, err = b.j.bj.Acquire(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.j.openGate()
}

// othersCome has the other job come to wait until the test ends.
func (b *bench) othersCome() { go func() { _, _ = b.other.Acquire(b.t.Context()) }() }

// othersWait is othersCome, and they have come.
func (b *bench) othersWait() { b.othersCome(); synctest.Wait() }

// over lets the lease end.
func (b *bench) over() { time.Sleep(slice + 1) }

// after does something when the job's goroutine has been in the state for a while.
func after(f func(*bench)) func(*bench) {
	return func(b *bench) { time.AfterFunc(50*time.Microsecond, func() { f(b); kick(b.j.kicked) }) }
}

// TestGateTable goes through the transitions of a job's goroutine, one by one.
func TestGateTable(t *testing.T) {
	type does = []func(*bench)
	limited := share.Share{Limit: 0.5}
	for _, c := range []struct {
		name  string
		share share.Share
		from  state
		given does
		want  state
		// device reports whether the job then keeps others from the device.
		device bool
	}{
		{"a process waits", share.Share{}, stateIdle, does{(*bench).waits}, stateWaiting, false},
		{"a process comes to wait", share.Share{}, stateIdle, does{after((*bench).waits)},
			stateWaiting, false},
		{"idle, and the job ends", share.Share{}, stateIdle, does{after((*bench).ends)},
			stateEnded, false},

		{"granted", share.Share{}, stateWaiting, does{(*bench).waits}, stateOpen, true},
		{"nobody waits", share.Share{}, stateWaiting, nil, stateIdle, false},
		{"nobody waits any more", share.Share{}, stateWaiting, does{
			func(b *bench) { _, _ = b.other.Acquire(b.t.Context()) },
			(*bench).waits, after(func(b *bench) {
				b.m.s.Waiting.Store(0)
				b.j.mu.Lock()
				b.j.reconsider()
				b.j.mu.Unlock()
			})}, stateIdle, false},

		{"over beside others", share.Share{}, stateOpen, does{(*bench).holds, (*bench).launched,
			(*bench).othersWait, (*bench).over}, stateYielding, true},
		{"over with a limit", limited, stateOpen, does{(*bench).holds, (*bench).launched,
			(*bench).over}, stateYielding, true},
		{"nothing to do", share.Share{}, stateOpen, does{(*bench).holds}, stateResting, true},
		{"nothing to do with a limit", limited, stateOpen, does{(*bench).holds}, stateLeaving,
			true},
		{"renewed, then nothing to do", share.Share{}, stateOpen, does{(*bench).holds,
			(*bench).launched, (*bench).over, after(func(b *bench) {
				b.m.s.InflightNS.Store(0)
				b.j.noteIdle(b.m)
			})}, stateResting, true},
		{"open, and the job ends", share.Share{}, stateOpen, does{(*bench).holds,
			(*bench).launched, after((*bench).ends)}, stateEnded, true},

		{"work again", share.Share{}, stateResting, does{(*bench).holds,
			after((*bench).launched)}, stateOpen, true},
		{"work before it rests", share.Share{}, stateResting, does{(*bench).holds,
			(*bench).launched}, stateOpen, true},
		{"others come", share.Share{}, stateResting, does{(*bench).holds,
			after((*bench).othersCome)}, stateLeaving, true},
		{"others are there", share.Share{}, stateResting, does{(*bench).holds,
			(*bench).othersWait}, stateLeaving, true},
		{"work, and others come", share.Share{}, stateResting, does{(*bench).holds,
			(*bench).othersWait, (*bench).launched}, stateLeaving, true},

		{"drained", share.Share{}, stateYielding, does{(*bench).holds}, stateReturning, true},
		{"drains later", share.Share{}, stateYielding, does{(*bench).holds, (*bench).launched,
			after((*bench).drains)}, stateReturning, true},
		{"never drains", share.Share{}, stateYielding, does{(*bench).holds, (*bench).launched},
			stateIdle, false},

		{"again", share.Share{}, stateReturning, does{(*bench).holds, (*bench).shuts},
			stateProbing, true},
		{"nobody is there", share.Share{}, stateReturning, does{(*bench).holds, (*bench).shuts,
			(*bench).departs}, stateIdle, false},

		{"shows", share.Share{}, stateProbing, does{(*bench).holds, after((*bench).launched)},
			stateOpen, true},
		{"does not show", share.Share{}, stateProbing, does{(*bench).holds}, stateLeaving, true},

		{"left", share.Share{}, stateLeaving, does{(*bench).holds}, stateIdle, false},
		{"left in vain", share.Share{}, stateLeaving, does{(*bench).holds, (*bench).launched},
			stateIdle, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, c.share)
				for _, do := range c.given {
					do(b)
				}
				if got := b.j.pass(c.from); got != c.want {
					t.Fatalf("from %d to %d, want %d", c.from, got, c.want)
				}
				synctest.Wait()
				held := !b.j.bj.Status().Units.Empty()
				if held != c.device {
					t.Errorf("holds the device: %v, want %v", held, c.device)
				}
				if open := wire.IsOpen(b.j.page.Header().Gate.Load()); open && !held {
					t.Error("the gate is open and others are let in")
				}
			})
		})
	}
}

// TestQuietIsAskedOnce has a process begin and end to have work all the time: whenever its job is
// found quiet it rests with its gate open, as nobody else wants the device, and never leaves.
func TestQuietIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, share.Share{})
		b.holds()
		var over atomic.Bool
		var work sync.WaitGroup
		work.Go(func() {
			for !over.Load() {
				b.m.s.InflightNS.Store(1e6)
				b.m.s.InflightNS.Store(0)
				kick(b.j.kicked)
			}
		})
		for range 2000 {
			if next := b.j.open(); next != stateResting {
				t.Errorf("found quiet, and %v follows", next)
				break
			}
		}
		over.Store(true)
		work.Wait()
	})
}

// TestGateOpensWithTheGrant holds that the gate is open as soon as the lease is granted, whatever
// the job's goroutine does, and that what is launched before that goes on is work that shows.
func TestGateOpensWithTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, from := range []state{stateWaiting, stateReturning} {
			b := newBench(t, share.Share{})
			if from == stateReturning {
				b.holds()
				b.shuts()
				b.othersWait()
			} else if _, err := b.other.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.waits()
			next := make(chan state, 1)
			go func() { next <- b.j.pass(from) }()
			synctest.Wait()
			b.other.Lease().Release()
			if !wire.IsOpen(b.j.page.Header().Gate.Load()) {
				t.Fatalf("from %d: the gate is not open when the device is", from)
			}
			b.launched()
			b.m.s.Waiting.Store(0)
			if got := <-next; from == stateReturning && b.j.pass(got) != stateOpen {
				t.Errorf("what was launched does not show: state %d", b.j.state)
			}
		}
	})
}

// TestEndedWaitOpensNoGate holds that a grant which comes just after nobody waits any more, and is
// given back, opens no gate.
func TestEndedWaitOpensNoGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, share.Share{})
		if _, err := b.other.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.waits()
		next := make(chan state, 1)
		go func() { next <- b.j.pass(stateWaiting) }()
		synctest.Wait()
		b.j.mu.Lock()
		b.m.s.Waiting.Store(0)
		b.j.reconsider()
		b.j.mu.Unlock()
		b.j.granted(share.Forever)
		if wire.IsOpen(b.j.page.Header().Gate.Load()) {
			t.Error("the gate is open")
		}
		if got := <-next; got != stateIdle {
			t.Errorf("state %d, want idle", got)
		}
	})
}

// TestFalseFiguresAreBounded has a process write the largest numbers there are where it is to say
// what it did: people are told no more than its job was charged, and what a drain waits for.
func TestFalseFiguresAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, share.Share{})
		b.holds()
		time.Sleep(20 * time.Millisecond)
		for _, says := range []uint64{1 << 62, 1 << 63, 1<<64 - 1} {
			b.m.s.DeviceNSTotal.Store(says)
			b.m.s.InflightNS.Store(says)
			s := b.j.snapshot()
			p := s.Processes[0]
			if p.DeviceSeconds != s.DeviceSeconds || s.DeviceSeconds < 0.02 ||
				s.UsedSeconds > s.DeviceSeconds {
				t.Errorf("says %d ns: %v s of %v charged, of which %v used", says,
					p.DeviceSeconds, s.DeviceSeconds, s.UsedSeconds)
			}
			if most := millis(b.j.a.cfg.DrainTimeout); p.InFlightMS != most {
				t.Errorf("says %d ns: %v ms in flight, want %v", says, p.InFlightMS, most)
			}
		}
		b.m.s.DeviceNSTotal.Store(uint64(time.Millisecond))
		b.m.s.InflightNS.Store(uint64(time.Millisecond))
		if p := b.j.snapshot().Processes[0]; p.DeviceSeconds != 0.001 || p.InFlightMS != 1 {
			t.Errorf("%v s used, %v ms in flight, said 1 ms", p.DeviceSeconds, p.InFlightMS)
		}
	})
}
