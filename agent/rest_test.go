package agent

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// wants reports whether the program waits at its gate.
func (x *sim) waits() bool { return x.m.s.Waiting.Load() > 0 }

// TestNobodyPassesARestingProgram has a program that rests launch a kernel of 5 s, and two others
// come at the same moment: neither is let in beside it, and it pays for it.
func TestNobodyPassesARestingProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x, y, z := h.program(0, share.Share{}), h.program(1, share.Share{}),
			h.program(2, share.Share{})
		x.launch(time.Millisecond)
		x.idle()
		time.Sleep(100 * time.Millisecond)
		const kernel = 5 * time.Second
		x.launch(kernel)
		if x.worst > time.Millisecond {
			t.Errorf("the program did not rest: it waited %v", x.worst)
		}
		var wg sync.WaitGroup
		for _, p := range []*sim{y, z} {
			wg.Go(func() { p.launch(time.Millisecond) })
		}
		time.Sleep(kernel - 10*time.Millisecond)
		synctest.Wait()
		if !y.waits() || !z.waits() {
			t.Errorf("let in beside the kernel: %v, %v", !y.waits(), !z.waits())
		}
		wg.Wait()
		synctest.Wait()
		if used := x.j.bj.Status().Used; used < kernel-20*time.Millisecond {
			t.Errorf("its owner paid %v for %v", used, kernel)
		}
		for _, p := range []*sim{y, z} {
			if used := p.j.bj.Status().Used; used > 50*time.Millisecond {
				t.Errorf("another paid %v for 1 ms", used)
			}
		}
	})
}

// TestOpenGateHoldsTheDevice has an opportunistic program rest and come back when a latency job has
// just got the device and keeps it: what it runs on the device it pays for.
func TestOpenGateHoldsTheDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x := h.program(0, share.Share{Class: share.Opportunistic})
		x.launch(time.Millisecond)
		x.idle()
		time.Sleep(100 * time.Millisecond)
		latency, err := h.dev.broker.Admit(share.Job{Name: "latency",
			Share: share.Share{Memory: share.GiB, Class: share.Latency}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := latency.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		end := begin.Add(4 * time.Second)
		h.watchers.Go(func() { x.loop(end, 10, 100*time.Microsecond, 9*time.Millisecond) })
		for time.Now().Before(end) {
			time.Sleep(time.Millisecond)
			if lease.Revoked() {
				if err := lease.Renew(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, paid := h.device.got(0, begin, end), x.j.bj.Status().Used
		if got > 20*time.Millisecond {
			t.Errorf("an opportunistic program took %v of 4 s beside a latency job that never "+
				"rests", got)
		}
		if paid < got*9/10 {
			t.Errorf("it paid %v for %v", paid, got)
		}
		lease.Release()
		latency.End(nil)
	})
}

// TestRestsAreCharged has a program that is alone work for 2 ms and rest for 8 ms, so that it is
// mostly seen to rest: it pays for what it used.
func TestRestsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x := h.program(0, share.Share{})
		begin := time.Now()
		for time.Since(begin) < 2*time.Second {
			x.launch(2 * time.Millisecond)
			x.idle()
			time.Sleep(8*time.Millisecond - 300*time.Microsecond)
		}
		account := x.j.bj.Account()
		got := h.device.got(0, begin, time.Now())
		if account.Used < got*9/10 || account.Used > got*13/10 {
			t.Errorf("charged %v for %v", account.Used, got)
		}
		s := x.j.snapshot()
		if s.DeviceShare != account.Recent || s.DeviceShare < 0.17 || s.DeviceShare > 0.27 {
			t.Errorf("weir top shows a share of %.3f, used %v of %v", s.DeviceShare, got,
				time.Since(begin))
		}
	})
}

// TestGapsAreHeldAndNotUsed has a program leave the device idle for 0.2 ms after each kernel of
// 0.1 ms, which is too short for it to be taken for idle: it is charged for what it holds, and what
// it used of that is told apart, also of a process that has gone.
func TestGapsAreHeldAndNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x := h.program(0, share.Share{})
		for range 3000 {
			x.launch(100 * time.Microsecond)
			x.drain()
			time.Sleep(200 * time.Microsecond)
		}
		for _, gone := range []bool{false, true} {
			if gone {
				x.m.process.(*person).die()
				synctest.Wait()
			}
			s := x.j.snapshot()
			if s.UsedSeconds < 0.29 || s.UsedSeconds > 0.31 || s.DeviceSeconds < 0.8 {
				t.Errorf("gone: %v: held %.3f s, used %.3f s, want about 0.9 and 0.3", gone,
					s.DeviceSeconds, s.UsedSeconds)
			}
			if gone {
				continue
			}
			y := x.second() // so that the job goes on
			defer y.m.process.(*person).die()
		}
		if a := x.j.bj.Account(); a.Measured < 290*time.Millisecond || a.Measured > a.Used/2 {
			t.Errorf("the account says that it used %v of %v", a.Measured, a.Used)
		}
	})
}

// TestUseIsNoMoreThanHeld has a program write that it measured an hour: it used no more than what
// it held, and is charged for all of that whatever it says.
func TestUseIsNoMoreThanHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x := h.program(0, share.Share{})
		for _, says := range []time.Duration{0, time.Hour, time.Minute} {
			x.launch(50 * time.Millisecond)
			x.drain()
			x.m.s.DeviceNSTotal.Store(uint64(says))
			s := x.j.snapshot()
			if s.UsedSeconds > s.DeviceSeconds || s.DeviceSeconds < 0.05 ||
				says == time.Hour && s.UsedSeconds < 0.05 {
				t.Errorf("says %v: held %.3f s, used %.3f s", says, s.DeviceSeconds, s.UsedSeconds)
			}
		}
	})
}

// fill floods with kernels of one length: those of its turns, and while the gate is closed one
// after another such as pass it.
func (x *sim) fill(until time.Time, kernel time.Duration) {
	waits := uint32(0)
	for time.Now().Before(until) && x.lives() {
		changed, h := x.bell.next(), x.page.Header()
		if wire.IsOpen(h.Gate.Load()) {
			x.m.s.Waiting.Add(-waits)
			waits = 0
			x.launch(kernel)
			continue
		}
		if waits == 0 {
			waits = 1
			x.m.s.Waiting.Add(1)
			kick(x.j.kicked)
		}
		if kernel <= time.Duration(h.FreeNS.Load()) {
			end := x.h.device.launch(x.who, kernel)
			x.m.s.Launches.Add(1)
			time.Sleep(time.Until(end) + 3*time.Microsecond) // until that is seen
			x.m.s.PassedNS.Add(uint64(kernel))
			continue
		}
		select {
		case <-changed:
		case <-time.After(time.Millisecond):
		case <-x.j.ctx.Done():
		}
	}
	x.m.s.Waiting.Add(-waits)
}

// TestEndIsMeasured has a program end between two beats of the agent: the account of its job has
// what it used, graphs among it.
func TestEndIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x := h.program(0, share.Share{})
		x.launch(20 * time.Millisecond)
		x.drain()
		x.m.s.GraphLaunches.Add(3)
		x.m.process.(*person).die()
		<-x.j.ctx.Done()
		synctest.Wait()
		if a := x.j.bj.Account(); a.Measured < 19*time.Millisecond {
			t.Errorf("used %v of %v", a.Measured, a.Used)
		}
		if n := x.j.bj.Status().Launches; n != 4 {
			t.Errorf("%d launches, want one and 3 of graphs", n)
		}
	})
}

// TestGapsOfGangs has an opportunistic flood beside a gang of one with kernels of 0.1 ms and pauses
// of 0.2 ms, which are filled as any program's.
func TestGapsOfGangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "priority:fill=0.5,switch=0s")
		defer h.close()
		x := h.rank(0, share.Share{Class: share.Latency}, h.newGang("a"))
		y := h.program(1, share.Share{Class: share.Opportunistic})
		x.launch(100 * time.Microsecond) // which the gaps belong to from here on
		end := time.Now().Add(300 * time.Millisecond)
		h.watchers.Go(func() { y.fill(end, 10*time.Microsecond) })
		for time.Now().Before(end) {
			x.launch(100 * time.Microsecond)
			x.drain()
			time.Sleep(200 * time.Microsecond)
		}
		if s := y.j.snapshot(); s.PassedSeconds < 0.1 {
			t.Errorf("%.3f s passed in gaps of 0.2 s", s.PassedSeconds)
		}
	})
}

// TestGapsAreFilledByOthers has an opportunistic flood beside a program with kernels of 0.1 ms and
// pauses of 0.2 ms: the program keeps 95 percent of its speed, and the flood has half of the pauses
// at least, and next to nothing where gaps are not to be filled.
func TestGapsAreFilledByOthers(t *testing.T) {
	for spec, fills := range map[string]bool{"priority": false,
		"priority:fill=0.5,switch=0s": true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, spec)
			defer h.close()
			x := h.program(0, share.Share{Class: share.Latency})
			y := h.program(1, share.Share{Class: share.Opportunistic})
			work := func() (launches int) {
				for end := time.Now().Add(time.Second); time.Now().Before(end); launches++ {
					x.launch(100 * time.Microsecond)
					x.drain()
					time.Sleep(200 * time.Microsecond)
				}
				return launches
			}
			alone := work()
			h.watchers.Go(func() {
				y.fill(time.Now().Add(time.Second), 10*time.Microsecond)
			})
			begin := time.Now()
			kept := float64(work()) / float64(alone)
			gaps := time.Since(begin) - h.device.got(0, begin, time.Now())
			got := h.device.got(1, begin, time.Now())
			s := y.j.snapshot()
			passed := time.Duration(s.PassedSeconds * 1e9)
			switch {
			case kept < 0.95:
				t.Errorf("%s: keeps %.3f of its speed", spec, kept)
			case !fills && got > gaps/50:
				t.Errorf("%s: %v of gaps of %v filled", spec, got, gaps)
			case fills && (got < gaps/2 || passed < got*9/10 || s.DeviceSeconds > 0.02):
				t.Errorf("%s: %v of gaps of %v filled, %v passed, charged %v s", spec, got, gaps,
					passed, s.DeviceSeconds)
			}
			if s := x.j.snapshot(); s.UsedSeconds < 0.3*s.DeviceSeconds ||
				s.UsedSeconds > 0.36*s.DeviceSeconds {
				t.Errorf("%s: used %.3f s of %.3f", spec, s.UsedSeconds, s.DeviceSeconds)
			}
		})
	}
}
