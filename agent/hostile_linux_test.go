package agent

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// descriptors counts those that this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

func raw(t testing.TB, s *people, dir string) *net.UnixConn {
	t.Helper()
	uc, err := dialAs(s.born(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return uc
}

// TestGarbageOnTheSocket sends random packets, with and without descriptors, before and after a
// hello.
func TestGarbageOnTheSocket(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	_, g := controller(t, dir, share.Job{Name: "good", Share: share.Share{Memory: 1 << 30}})
	good := begin(t, s, dir, g.Token)
	before := descriptors(t)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 300 {
		uc := raw(t, s, dir)
		packet := wire.NewHello(wire.Hello{Token: g.Token, Version: wire.Version,
			Slot: wire.NoSlot}, 0).
			Append(nil)
		switch i % 4 {
		case 0: // a hello with some bytes changed
			packet[r.IntN(len(packet))] ^= byte(1 + r.IntN(255))
		case 1: // anything at all
			packet = make([]byte, r.IntN(300))
			for k := range packet {
				packet[k] = byte(r.Uint32())
			}
		case 2: // a good hello, then anything of a known kind
			_ = writePacket(uc, packet, nil)
			packet = make([]byte, wire.MessageSize)
			for k := range packet {
				packet[k] = byte(r.Uint32())
			}
			packet[0], packet[1], packet[2], packet[3] = byte(r.IntN(20)), 0, 0, 0
		case 3: // every hint there is
			_ = writePacket(uc, packet, nil)
			for k := wire.KindWant; k < wire.KindBye; k++ {
				_ = writePacket(uc, wire.NewSignal(k, uint32(r.IntN(4)), r.Uint32()).Append(nil),
					nil)
			}
		}
		var rights []byte
		if i%3 == 0 {
			rights = unix.UnixRights(0, 1, 2)
		}
		_, _, _ = uc.WriteMsgUnix(packet, rights, nil)
		_ = uc.Close()
	}
	good.launch(100 * time.Microsecond)
	eventually(t, "all descriptors are closed", func() bool { return descriptors(t) <= before })
	if names := jobNames(a); names != "good" {
		t.Errorf("jobs %q", names)
	}
}

// TestPageIsScribbledOver has a program write over all of its page while it and another run:
// neither the agent nor the other suffers.
func TestPageIsScribbledOver(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, s)
	c.DrainTimeout = 50 * time.Millisecond
	a := startAgent(t, c)
	_, bad := controller(t, dir, share.Job{Name: "bad", Share: share.Share{Memory: 1 << 30}})
	_, good := controller(t, dir, share.Job{Name: "good", Share: share.Share{Memory: 1 << 30}})
	p, q := begin(t, s, dir, bad.Token), begin(t, s, dir, good.Token)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		r := rand.New(rand.NewPCG(2, 2))
		for {
			select {
			case <-stop:
				return
			default:
			}
			for i := range uint32(wire.SlotCount) {
				x := p.page.Slot(i)
				x.Waiting.Store(r.Uint32())
				x.DrainedSeq.Store(r.Uint32())
				x.InflightNS.Store(r.Uint64())
				x.Launches.Store(r.Uint64())
				x.MemUsedBytes.Store(r.Uint64())
				x.OwnerPID.Store(r.Uint32())
			}
			h := p.page.Header()
			h.Magic.Store(r.Uint32())
			h.Gate.Store(r.Uint32())
			h.TermsSeq.Store(r.Uint64())
			h.AgentBeatNS.Store(r.Uint64())
			p.signal(wire.Kind(2+r.IntN(3)), r.Uint32())
			time.Sleep(100 * time.Microsecond)
		}
	}()
	from := time.Now()
	for range 100 {
		q.launch(200 * time.Microsecond)
	}
	t.Logf("100 launches beside it took %v", time.Since(from))
	if _, err := json.Marshal(a.Snapshot()); err != nil {
		t.Error(err)
	}
	close(stop)
	<-stopped
	p.kill()
	eventually(t, "the bad one is gone",
		func() bool { return len(a.Snapshot().Devices[0].Jobs[0].Processes) == 0 })
	q.launch(100 * time.Microsecond)
}

// TestForgedPages brings pages that no agent made, or another job's. Programs find no belief for
// what such a page says; a controller, whose word counts, must bring a page of its job.
func TestForgedPages(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	forge := func(change func(*wire.Terms)) *wire.Page {
		page, err := wire.NewPage()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = page.Close() })
		terms := wire.Terms{
			Token:      wire.Token{7},
			Name:       "forged",
			CreatorUID: ownUID,
			MemCap:     1 << 30,
			MemTotal:   1 << 30,
			InFlight:   time.Millisecond,
		}
		change(&terms)
		page.SetTerms(terms)
		return page
	}
	for name, c := range map[string]struct {
		change func(*wire.Terms)
		code   wire.Code // that the controller gets; 0: the job it asks for
	}{
		"token":  {func(t *wire.Terms) { t.Token[0]++ }, wire.RefusedPage},
		"user":   {func(t *wire.Terms) { t.CreatorUID++ }, wire.RefusedPage},
		"class":  {func(t *wire.Terms) { t.Class = 9 }, wire.RefusedPage},
		"name":   {func(t *wire.Terms) { t.Name = "\x1b[2J" }, wire.RefusedPage},
		"device": {func(t *wire.Terms) { t.Device = 9 }, 0},
		"memory": {func(t *wire.Terms) { t.MemCap = 1 << 60 }, 0},
		"guarantee": {func(t *wire.Terms) {
			t.ComputePPM, t.LimitPPM = 500000, 100000
		}, 0},
	} {
		page := forge(c.change)
		p := &program{
			t:      t,
			self:   s.born(),
			dir:    dir,
			token:  wire.Token{7},
			page:   page,
			s:      page.Slot(0),
			halted: make(chan struct{}),
		}
		var r *RefusedError
		if err := p.hello(wire.FlagRejoin); !errors.As(err, &r) ||
			r.Code != wire.RefusedUnknownJob {
			t.Errorf("%s: a program was told %v", name, err)
		}
		client, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		g, err := client.Create(JobRequest{Fake: true,
			Job: share.Job{Name: "job", Share: share.Share{Memory: 1 << 20}},
			Again: &JobGrant{Name: "job", Token: wire.Token{7}, Memory: 1 << 20,
				Page: page.File()}})
		switch {
		case c.code != 0:
			if !errors.As(err, &r) || r.Code != c.code {
				t.Errorf("%s: a controller was told %v", name, err)
			}
		case err != nil:
			t.Errorf("%s: a controller was told %v", name, err)
		default:
			if j := onlyJob(t, a); j.MemoryCapBytes != 1<<20 || j.Compute != 0 {
				t.Errorf("%s: a controller has %+v", name, j)
			}
			_ = g.Page.Close()
		}
		_ = client.Close()
		eventually(t, "nothing is left", func() bool { return jobNames(a) == "" })
	}
	// Without a page there is nothing to go by.
	p := &program{t: t, self: s.born(), dir: dir, token: wire.Token{7}, halted: make(chan struct{})}
	var r *RefusedError
	if err := p.hello(wire.FlagRejoin); !errors.As(err, &r) || r.Code != wire.RefusedUnknownJob {
		t.Error(err)
	}
}

// TestVersions refuses the other side's version with a text that says what to do.
func TestVersions(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	startAgent(t, testConfig(dir, s))
	for _, m := range []wire.Message{
		wire.NewHello(wire.Hello{Version: wire.Version + 1, Slot: wire.NoSlot}, 0),
		wire.NewCreate(wire.Create{Version: wire.Version + 1}, 0),
	} {
		c := &Client{uc: raw(t, s, dir)}
		if err := c.send(m, "", nil); err != nil {
			t.Fatal(err)
		}
		var r *RefusedError
		if _, _, _, err := c.receive(); !errors.As(err, &r) || r.Code != wire.RefusedVersion {
			t.Errorf("%v", err)
		}
		_ = c.Close()
	}
}

// TestTopWatches reads snapshots as weir top does.
func TestTopWatches(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	startAgent(t, testConfig(dir, s))
	for range 120 {
		controller(t, dir,
			share.Job{Name: "a job with a long name, of many", Share: share.Share{Memory: 1 << 20}})
	}
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	enough := errors.New("enough")
	n := 0
	err = c.Watch(t.Context(), 50*time.Millisecond, func(x Snapshot) error {
		if len(x.Devices) != 1 || len(x.Devices[0].Jobs) != 120 {
			t.Errorf("%+v", x)
		}
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}
