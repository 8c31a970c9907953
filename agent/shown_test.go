package agent

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// shows has the management library of a configuration list one process with so many bytes, and
// another that is nobody's.
func shows(c *Config, bytes uint64) (pid *atomic.Uint32, held *atomic.Uint64) {
	pid, held = new(atomic.Uint32), new(atomic.Uint64)
	held.Store(bytes)
	c.measureEvery = time.Hour
	c.showWait = 100 * time.Millisecond
	c.Holds = func(uint32) (map[uint32]uint64, error) {
		return map[uint32]uint64{pid.Load(): held.Load(), 1: 1 << 40}, nil
	}
	return pid, held
}

// answers has a program say, for as long as the test goes on, that it has followed each order.
func (p *program) answers(bytes uint64) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	p.t.Cleanup(func() { close(stop); <-stopped })
	order := p.page.Header().Move.Load()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			if p.ordered(order) {
				order = p.obey(bytes).Move
			}
		}
	}()
}

// oversubscribed begins a job of that cap whose memory can be moved, with a process.
func oversubscribed(t *testing.T, s *people, dir, name string, memory share.Bytes) *program {
	t.Helper()
	client, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	g, err := client.Create(JobRequest{Fake: true, Oversubscribe: true,
		Job: share.Job{Name: name, Share: share.Share{Memory: memory}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Page.Close() })
	return begin(t, s, dir, g.Token)
}

// TestFalseMovesAreLentToNobody freezes programs that say that they have moved all of their memory.
// Others cannot have what of it the device shows still, and is named; what leaves it late, they
// can.
func TestFalseMovesAreLentToNobody(t *testing.T) {
	const each, contexts, most = 300 << 20, 10 << 20, 1 << 30
	for name, c := range map[string]struct {
		after time.Duration // until the device shows
		left  uint64        // what; 0: it lists no process
		away  uint64        // of the job's cap
	}{
		"honest":            {0, contexts, each},
		"late":              {20 * time.Millisecond, contexts, each},
		"a false figure":    {0, contexts + each, each},
		"half of it stays":  {0, most - each/2, each / 2},
		"all of it":         {0, 1 << 40, 0},
		"no list":           {0, 0, each},
		"less than it says": {0, contexts / 2, each},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newPeople(), socketDir(t)
			cfg := testConfig(dir, s)
			cfg.HostMemory = share.GiB
			pid, held := shows(&cfg, most)
			if c.left == 0 {
				held.Store(0)
				holds := cfg.Holds
				cfg.Holds = func(o uint32) (map[uint32]uint64, error) {
					_, _ = holds(o)
					return nil, errors.New("no such call")
				}
			}
			a := startAgent(t, cfg)
			p := oversubscribed(t, s, dir, "job", most)
			pid.Store(p.self.pid)
			p.s.MemContextBytes.Store(contexts)
			p.answers(each)
			time.AfterFunc(c.after, func() { held.Store(c.left) })
			client, err := Dial(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			r, err := client.Freeze(t.Context(), "job", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := onlyJob(t, a).MemoryAwayBytes; got != c.away {
				t.Errorf("%d bytes are promised to others, want %d", got, c.away)
			}
			named := uint64(0)
			for _, x := range r.Stays {
				if x.What == "what the device shows of memory that its processes say is moved" {
					named = x.Bytes
				}
			}
			if want := min(c.left, most) - min(c.left, contexts); named != want {
				t.Errorf("%d bytes are named that stay, want %d", named, want)
			}
		})
	}
}

// TestFalseTurnsGiveNoWay has a program that gives its memory up for another's turn, and has not:
// the other is not let in as long as the device shows it, and then is.
func TestFalseTurnsGiveNoWay(t *testing.T) {
	for name, every := range map[string]time.Duration{"not measured": time.Hour,
		"measured meanwhile": 5 * time.Millisecond} {
		t.Run(name, func(t *testing.T) { falseTurnGivesNoWay(t, every) })
	}
}

func falseTurnGivesNoWay(t *testing.T, every time.Duration) {
	const most = 72 * share.GiB // of 80
	s, dir := newPeople(), socketDir(t)
	cfg := testConfig(dir, s)
	cfg.HostMemory = 200 * share.GiB
	cfg.DrainTimeout = 100 * time.Millisecond
	pid, held := shows(&cfg, uint64(most))
	cfg.measureEvery = every
	a := startAgent(t, cfg)
	liar := oversubscribed(t, s, dir, "liar", most)
	pid.Store(liar.self.pid)
	liar.answers(1 << 30)
	liar.launch(time.Millisecond)
	other := oversubscribed(t, s, dir, "other", most)
	other.answers(1 << 30)
	order := liar.page.Header().Move.Load()
	launched := make(chan struct{})
	go func() {
		defer close(launched)
		other.launch(time.Millisecond)
	}()
	eventually(t, "the liar was ordered away, and back", func() bool {
		h := liar.page.Header().Move.Load()
		return h-order >= 2 && !wire.IsAway(h)
	})
	for range 50 {
		if wire.IsOpen(other.page.Header().Gate.Load()) {
			t.Fatal("the other has a turn, and the liar all of the memory")
		}
		time.Sleep(time.Millisecond)
	}
	held.Store(1 << 30)
	<-launched
	for _, job := range a.Snapshot().Devices[0].Jobs {
		if job.Name == "liar" && job.MemoryAwayBytes == 0 {
			t.Error("the other had a turn with the liar's memory on the device")
		}
	}
}

// TestFalseReturnsAreLentToNobody has a program whose memory is to come for its turn bring it, say
// that it could not, and then that it is away again: another is not let in before the device shows
// so.
func TestFalseReturnsAreLentToNobody(t *testing.T) {
	const most = 72 * share.GiB // of 80
	s, dir := newPeople(), socketDir(t)
	cfg := testConfig(dir, s)
	cfg.HostMemory = 200 * share.GiB
	pid, held := shows(&cfg, 1<<30)
	startAgent(t, cfg)
	other := oversubscribed(t, s, dir, "other", most)
	other.answers(1 << 30)
	other.launch(time.Millisecond)
	liar := oversubscribed(t, s, dir, "liar", most)
	pid.Store(liar.self.pid)
	h := liar.page.Header()
	order := h.Move.Load()
	go liar.launch(time.Millisecond)
	eventually(t, "it is ordered to come", func() bool { return !wire.IsAway(h.Move.Load()) })
	held.Store(uint64(most))
	answer := func(code uint32) {
		order = h.Move.Load()
		liar.mu.Lock()
		defer liar.mu.Unlock()
		_ = writePacket(liar.uc, wire.NewMoved(wire.Moved{Slot: liar.slot, Move: order, Code: code,
			Needs: 1 << 30}).Append(nil), nil)
	}
	answer(wire.MovedDevice)
	eventually(t, "it is ordered away", func() bool { return wire.IsAway(h.Move.Load()) })
	answer(wire.MovedAll)
	liar.answers(1 << 30)
	launched := make(chan struct{})
	go func() {
		defer close(launched)
		other.launch(time.Millisecond)
	}()
	for range 300 {
		if wire.IsOpen(other.page.Header().Gate.Load()) && held.Load() > 1<<30 &&
			wire.IsAway(h.Move.Load()) {
			t.Fatal("the other has a turn, and the liar all of the memory")
		}
		time.Sleep(time.Millisecond)
	}
	held.Store(1 << 30)
	<-launched
}

// TestHere: what the device lists counts of processes that live and whose numbers are known.
func TestHere(t *testing.T) {
	j, m := counting(7)
	j.a, j.ctx, j.dev = &Agent{}, t.Context(), &device{}
	j.a.cfg.hangs = time.Minute
	j.a.cfg.Holds = func(uint32) (map[uint32]uint64, error) { return nil, nil }
	j.dev.holds.ask = func() (map[uint32]uint64, error) {
		return map[uint32]uint64{0: 500, 7: 300}, nil
	}
	m.s.MemUsedBytes.Store(100)
	look := func(what string, want share.Bytes) {
		t.Helper()
		if says, shows, err := j.here(); err != nil || says != 100 || shows != want {
			t.Errorf("%s: says %d and shows %d, want 100 and %d", what, says, shows, want)
		}
	}
	look("it lives", 300)
	m.who.PID = 0
	look("nobody knows its number", 100)
	m.who.PID, m.late = 7, true
	look("it has ended", 100)
}

// TestFailedLooksAreNotBelieved: where the device fails once to say what processes hold, a program
// is not taken at its word; where it has failed before, or hangs, nobody waits for it.
func TestFailedLooksAreNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		err        error
		unmeasured string
		want       share.Bytes
	}{
		"fails once":   {errors.New("once"), "", 300},
		"never lists":  {errors.New("no such call"), "no such call", 100},
		"does not end": {errHangs, "", 100},
	} {
		t.Run(name, func(t *testing.T) {
			j, m := counting(7)
			j.a, j.ctx, j.dev = &Agent{}, t.Context(), &device{}
			j.a.cfg.hangs, j.a.cfg.showWait = time.Minute, 50*time.Millisecond
			j.a.cfg.Holds = func(uint32) (map[uint32]uint64, error) { return nil, nil }
			j.dev.unmeasured.Store(&c.unmeasured)
			asked := 0
			j.dev.holds.ask = func() (map[uint32]uint64, error) {
				if asked++; asked == 1 {
					return nil, c.err
				}
				return map[uint32]uint64{7: 300}, nil
			}
			m.s.MemUsedBytes.Store(100)
			if j.shown(0); j.moves.here != c.want || j.moves.beyond != c.want-100 {
				t.Errorf("%d bytes count as there, want %d", j.moves.here, c.want)
			}
		})
	}
}

// TestKeptWhileShown: what the device alone showed of memory that is away is kept no longer than it
// shows it: one that was slow once would leave less for others for the job's life.
func TestKeptWhileShown(t *testing.T) {
	const most = 72 * share.GiB // of 80
	s, dir := newPeople(), socketDir(t)
	cfg := testConfig(dir, s)
	cfg.HostMemory = 200 * share.GiB
	pid, held := shows(&cfg, 6<<30)
	cfg.measureEvery = 5 * time.Millisecond
	a := startAgent(t, cfg)
	slow := oversubscribed(t, s, dir, "slow", most)
	pid.Store(slow.self.pid)
	slow.answers(1 << 30)
	slow.launch(time.Millisecond)
	other := oversubscribed(t, s, dir, "other", most)
	other.answers(1 << 30)
	other.launch(time.Millisecond) // in the other's place
	kept := func() share.Bytes {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, j := range a.jobs {
			if j.spec.Name == "slow" {
				return j.bj.Spec().Share.Keep
			}
		}
		return 0
	}
	if got := kept(); got != 6<<30 {
		t.Errorf("%v are kept of 6 GiB that are shown", got)
	}
	held.Store(1 << 30)
	eventually(t, "what is shown less is not kept", func() bool { return kept() == 1<<30 })
	held.Store(0)
	eventually(t, "what is shown no more is not kept", func() bool { return kept() == 0 })
	slow.launch(time.Millisecond)
}
