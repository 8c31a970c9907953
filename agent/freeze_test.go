package agent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// obey has a program carry out an order to move so many bytes, once it has come: to the host if
// that has the room by what the page says.
func (p *program) obey(bytes uint64) wire.Moved {
	h := p.page.Header()
	m := wire.Moved{Slot: p.slot, Move: h.Move.Load(), Code: wire.MovedAll, Bytes: bytes}
	most := h.MoveHostBytes.Load()
	switch {
	case !wire.IsAway(m.Move):
		p.s.AwayBytes.Store(0)
		p.s.HostBytes.Store(0)
	case bytes > most:
		m.Code, m.Needs, m.Has, m.Bytes = wire.MovedHost, bytes, most, 0
	default:
		p.s.HostBytes.Store(bytes)
		p.s.AwayBytes.Store(bytes)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = writePacket(p.uc, wire.NewMoved(m).Append(nil), nil)
	return m
}

// ordered reports whether the program has an order that came after another.
func (p *program) ordered(after uint32) bool { return p.page.Header().Move.Load() != after }

// movable has a program of each job begin that has so many bytes to move, at an agent that keeps so
// many on the host.
func movable(t *testing.T, host share.Bytes, each uint64, jobs ...string) (dir string,
	programs []*program) {
	t.Helper()
	s := newPeople()
	dir = socketDir(t)
	c := testConfig(dir, s)
	c.HostMemory = host
	startAgent(t, c)
	for _, name := range jobs {
		client, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		g, err := client.Create(JobRequest{Fake: true, Oversubscribe: true,
			Job: share.Job{Name: name, Share: share.Share{Memory: share.GiB}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Page.Close() })
		p := begin(t, s, dir, g.Token)
		p.s.MovableBytes.Store(each)
		programs = append(programs, p)
	}
	return dir, programs
}

// TestFreezesShareTheHost freezes two jobs at once, of which the host has room for one.
func TestFreezesShareTheHost(t *testing.T) {
	const each = 80 << 20
	dir, programs := movable(t, 100*share.MiB, each, "first", "second")
	var wg sync.WaitGroup
	errs := make([]error, 2)
	freeze := func(i int, job string) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			client, err := Dial(dir)
			if err == nil {
				defer client.Close()
				_, err = client.Freeze(t.Context(), job, nil)
			}
			errs[i] = err
		}()
	}
	freeze(0, "first")
	eventually(t, "the first has an order", func() bool { return programs[0].ordered(0) })
	freeze(1, "second")
	// Room for the second to be ordered too before the first has said what it took.
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end) &&
		!programs[1].ordered(0); {
		time.Sleep(time.Millisecond)
	}
	programs[0].obey(each)
	eventually(t, "the second has an order", func() bool { return programs[1].ordered(0) })
	if m := programs[1].obey(each); m.Code != wire.MovedHost || m.Has != 20<<20 {
		t.Errorf("the second, with 20 MiB left on the host: %+v", m)
	}
	eventually(t, "the second is ordered back", func() bool {
		return !wire.IsAway(programs[1].page.Header().Move.Load())
	})
	programs[1].obey(each)
	wg.Wait()
	if errs[0] != nil || errs[1] == nil {
		t.Errorf("the freezes give %v and %v, want the second refused", errs[0], errs[1])
	}
}

// TestKeptHostIsAskedBack freezes a job for which the host has room only without what another keeps
// for its next move: that one is asked for it.
func TestKeptHostIsAskedBack(t *testing.T) {
	const each = 80 << 20
	dir, programs := movable(t, 100*share.MiB, each, "keeps", "freezes")
	for _, p := range programs {
		p.page.Header().MoveHostBytes.Store(each)
	}
	keeps, freezes := programs[0], programs[1]
	keeps.s.HostBytes.Store(each)
	frozen := make(chan error, 1)
	go func() {
		client, err := Dial(dir)
		if err == nil {
			defer client.Close()
			_, err = client.Freeze(t.Context(), "freezes", nil)
		}
		frozen <- err
	}()
	eventually(t, "the one that keeps memory is asked", func() bool {
		return keeps.page.Header().MoveHostBytes.Load() == 0
	})
	keeps.s.HostBytes.Store(0)
	eventually(t, "the other has an order", func() bool { return freezes.ordered(0) })
	if m := freezes.obey(each); m.Code != wire.MovedAll {
		t.Errorf("with the host's memory given back: %+v", m)
	}
	if err := <-frozen; err != nil {
		t.Error(err)
	}
}

// TestHostOfOthersIsBelievedToTheCap has programs claim all of the host's memory: a job that can be
// frozen is taken to have its cap there, another nothing, and others are frozen still.
func TestHostOfOthersIsBelievedToTheCap(t *testing.T) {
	const each = 80 << 20
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, s)
	c.HostMemory = 100 * share.MiB
	startAgent(t, c)
	for _, movable := range []bool{false, true} {
		client, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		g, err := client.Create(JobRequest{Fake: true, Oversubscribe: movable,
			Job: share.Job{Name: "claims", Share: share.Share{Memory: 10 * share.MiB}}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Page.Close()
		for range 3 {
			begin(t, s, dir, g.Token).s.HostBytes.Store(1 << 50)
		}
	}
	_, g := controllerOf(t, dir)
	p := begin(t, s, dir, g.Token)
	p.s.MovableBytes.Store(each)
	client, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	frozen := make(chan error, 1)
	go func() {
		_, err := client.Freeze(t.Context(), "job", nil)
		frozen <- err
	}()
	eventually(t, "it is ordered away", func() bool { return p.ordered(0) })
	if left := p.page.Header().MoveHostBytes.Load(); left != 90<<20 {
		t.Errorf("%d bytes of the host's memory are left, want 90 MiB", left)
	}
	if m := p.obey(each); m.Code != wire.MovedAll {
		p.obey(each)
		t.Errorf("%+v", m)
	}
	if err := <-frozen; err != nil {
		t.Error(err)
	}
}

// TestFreezeAfterARestart freezes a program whose memory came back before the agent was started
// anew: it is ordered away again, and not taken to be away because it once was.
func TestFreezeAfterARestart(t *testing.T) {
	const each = 80 << 20
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, s)
	c.HostMemory = share.GiB
	a := startAgent(t, c)
	_, g := controllerOf(t, dir)
	p := begin(t, s, dir, g.Token)
	p.s.MovableBytes.Store(each)
	ask := func(thaw bool) FreezeReport {
		t.Helper()
		client, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		var r FreezeReport
		done, order := make(chan struct{}), p.page.Header().Move.Load()
		go func() {
			defer close(done)
			r, err = client.askFreeze(t.Context(), "job", nil, thaw)
		}()
		for over := false; !over; {
			select {
			case <-done:
				over = true
			default:
				if p.ordered(order) {
					order = p.obey(each).Move
				}
				time.Sleep(time.Millisecond)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	ask(false)
	ask(true)
	if p.s.AwayBytes.Load() != 0 {
		t.Fatal("not back")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	startAgent(t, c)
	if err := p.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	if r := ask(false); r.State != "frozen" || r.AwayBytes != each || p.s.AwayBytes.Load() != each {
		t.Errorf("a freeze under the next agent: %+v, %d bytes are away", r, p.s.AwayBytes.Load())
	}
}

// TestFreezeThatCannotBeUndone has a freeze fail in one of two processes of a job, and the other
// not get its memory back at first: the job gets no turn before it has.
func TestFreezeThatCannotBeUndone(t *testing.T) {
	const each = 80 << 20
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, s)
	c.HostMemory = share.GiB
	startAgent(t, c)
	_, g := controllerOf(t, dir)
	p := begin(t, s, dir, g.Token)
	p.s.MovableBytes.Store(each)
	h := p.page.Header()
	client, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	refused := make(chan error, 1)
	go func() {
		_, err := client.Freeze(t.Context(), "job", nil)
		refused <- err
	}()
	answer := func(m wire.Moved) {
		m.Slot, m.Move = p.slot, h.Move.Load()
		p.mu.Lock()
		defer p.mu.Unlock()
		if err := writePacket(p.uc, wire.NewMoved(m).Append(nil), nil); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "it is ordered away", func() bool { return wire.IsAway(h.Move.Load()) })
	p.s.AwayBytes.Store(each)
	order := h.Move.Load()
	answer(wire.Moved{Code: wire.MovedFailed, Result: 999})
	eventually(t, "it is ordered back", func() bool { return p.ordered(order) })
	order = h.Move.Load()
	answer(wire.Moved{Code: wire.MovedDevice, Needs: each})
	if err := <-refused; err == nil {
		t.Error("frozen, though it could not be")
	}
	launched := make(chan struct{})
	go func() {
		defer close(launched)
		p.launch(time.Millisecond)
	}()
	eventually(t, "it is asked whether its memory is back",
		func() bool { return p.ordered(order) || wire.IsOpen(h.Gate.Load()) })
	if wire.IsOpen(h.Gate.Load()) {
		t.Fatal("its gate is open with its memory away")
	}
	for over := false; !over; {
		select {
		case <-launched:
			over = true
		default:
			if p.ordered(order) {
				order = p.obey(each).Move
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// controllerOf begins a job of that name whose memory can be moved.
// TestFreezeOfTheDead has the only process of a job be killed while its memory is to move: that is
// said, and the job is not frozen, as a process that comes to it later shows. A job that ends
// meanwhile is not said to have memory anywhere.
func TestFreezeOfTheDead(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, s)
	c.HostMemory = share.GiB
	startAgent(t, c)
	controller, g := controllerOf(t, dir)
	p := begin(t, s, dir, g.Token)
	for _, ends := range []bool{false, true} {
		p.s.MovableBytes.Store(80 << 20)
		client, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		said := make(chan error, 1)
		go func() {
			_, err := client.Freeze(t.Context(), "job", nil)
			said <- err
		}()
		h := p.page.Header()
		eventually(t, "it is ordered away", func() bool { return wire.IsAway(h.Move.Load()) })
		want := "job job: its processes have ended"
		if ends {
			// Its last process is let go of before it ends: the freeze may see what is between.
			_, want = controller.Close(), "ended"
		}
		p.kill()
		if err := <-said; !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "stays") {
			t.Errorf("the freeze of a process that was killed: %v, want %q", err, want)
		}
		if wire.IsAway(h.Move.Load()) && !ends {
			t.Error("the order to move stands, and the job is not frozen")
		}
		_ = client.Close()
		if !ends {
			p = begin(t, s, dir, g.Token)
			p.launch(time.Millisecond)
		}
	}
}

func controllerOf(t *testing.T, dir string) (*Client, *JobGrant) {
	t.Helper()
	client, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	g, err := client.Create(JobRequest{Fake: true, Oversubscribe: true,
		Job: share.Job{Name: "job", Share: share.Share{Memory: share.GiB}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Page.Close() })
	return client, g
}

// TestEndedIsNoStop ends a job while its process moves memory: that is what is said, and not that
// the process may be stopped.
func TestEndedIsNoStop(t *testing.T) {
	j, m := counting(7)
	m.conn = new(conn)
	ctx, end := context.WithCancel(t.Context())
	end()
	j.ctx = ctx
	err := j.await(map[*member]bool{m: true}, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a move in a job that has ended: %v", err)
	}
}

// TestMovesHaveTheTimeOfTheCap has a process say that it has more to move than its job may hold:
// others' freezes wait no longer for that.
func TestMovesHaveTheTimeOfTheCap(t *testing.T) {
	j, m := counting(7)
	j.terms.MemCap = 10 * moveRate
	for says, want := range map[uint64]time.Duration{0: moveWait, moveRate: moveWait + time.Second,
		1 << 62: moveWait + 10*time.Second} {
		m.s.MovableBytes.Store(says)
		if got := j.moveTime(); got != want {
			t.Errorf("%v to move %d bytes, want %v", got, says, want)
		}
	}
}
