package agent

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

func TestOneProgram(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	c, g := controller(t, dir,
		share.Job{Name: "train", Share: share.Share{Memory: 8 << 30, Compute: 0.3}})
	if g.Name != "train" || g.Memory != 8<<30 || g.MemoryTotal != 80<<30 {
		t.Errorf("granted %+v", g)
	}
	p := begin(t, s, dir, g.Token)
	terms, err := p.page.Terms()
	if err != nil || terms.Name != "train" || terms.MemCap != 8<<30 || terms.MemTotal != 8<<30 ||
		terms.ComputePPM != 300000 {
		t.Errorf("terms %+v, %v", terms, err)
	}
	for range 20 {
		p.launch(200 * time.Microsecond)
	}
	p.s.MemUsedBytes.Add(1 << 20)
	j := onlyJob(t, a)
	if j.Launches != 20 || j.MemoryUsedBytes != 1<<20 || len(j.Processes) != 1 ||
		j.Processes[0].PID != p.self.pid {
		t.Errorf("snapshot %+v", j)
	}
	if j.DeviceSeconds < 0.003 || j.State != "running" {
		t.Errorf("charged %v s, is %s", j.DeviceSeconds, j.State)
	}
	p.idle()
	eventually(t, "an idle program's job is idle",
		func() bool { return onlyJob(t, a).State == "idle" })
	_ = c.Close()
	time.Sleep(5 * time.Millisecond)
	if jobNames(a) != "train" {
		t.Error("the job ended with its controller though a process is attached")
	}
	p.kill()
	eventually(t, "the job ends with its last process", func() bool { return jobNames(a) == "" })
	if got := a.Snapshot().Devices[0].PromisedBytes; got != 0 {
		t.Errorf("%d bytes remain promised", got)
	}
}

// long is set where times are to hold that a host which does much else cannot keep.
var long = os.Getenv("WEIR_LONG") != ""

// TestManyAttach holds that 300 programs attach at once; with WEIR_LONG, within a second.
func TestManyAttach(t *testing.T) {
	tries, n := 1, 300
	if testing.Short() { // as many as the race detector needs to see them meet
		n = 60
	}
	if long {
		tries = 3 // the machine may be busy with something else
	}
	best := time.Hour
	for range tries {
		if best = min(best, attachMany(t, n)); best <= time.Second {
			break
		}
	}
	t.Logf("%d programs made their jobs and attached in %v", n, best)
	if long && best > time.Second*slack {
		t.Errorf("it took %v", best)
	}
}

// attachMany starts so many programs at once, each in a job of its own, and returns how long it
// took until all were attached.
func attachMany(t *testing.T, n int) time.Duration {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	programs := make([]*program, n)
	controllers := make([]*Client, n)
	from := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c, err := Dial(dir)
			if err != nil {
				t.Error(err)
				return
			}
			controllers[i], c.wait = c, time.Minute // how long it takes is for the caller to judge
			g, err := c.Create(
				JobRequest{
					Fake: true,
					Job:  share.Job{Name: "many", Share: share.Share{Memory: 256 << 20}},
				},
			)
			if err != nil {
				t.Error(err)
				return
			}
			_ = g.Page.Close()
			if programs[i], err = attach(t, s, dir, g.Token); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	took := time.Since(from)
	if got := len(a.Snapshot().Devices[0].Jobs); got != n {
		t.Errorf("%d jobs", got)
	}
	for i := range n {
		if programs[i] != nil {
			wg.Go(programs[i].kill)
		}
		if controllers[i] != nil {
			wg.Go(func() { _ = controllers[i].Close() })
		}
	}
	wg.Wait()
	eventually(t, "all are gone", func() bool { return jobNames(a) == "" })
	return took
}

// TestDeathFrees holds that the slot and the lease of a killed program are free because its end is
// seen: the kernel that it says is in flight would keep the device from others until a drain is
// given up. With WEIR_LONG the time that it takes is held, too.
func TestDeathFrees(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	startAgent(t, testConfig(dir, s))
	_, g := controller(t, dir, share.Job{Name: "victim", Share: share.Share{Memory: 1 << 30}})
	_, h := controller(t, dir, share.Job{Name: "heir", Share: share.Share{Memory: 1 << 30}})
	heir := begin(t, s, dir, h.Token)
	var took []time.Duration
	for range 20 {
		victim := begin(t, s, dir, g.Token)
		victim.s.MemUsedBytes.Add(1 << 29)
		victim.pass(20 * time.Second)
		// It dies with a kernel in flight that nobody will see the end of.
		victim.s.InflightNS.Store(uint64(time.Hour))
		victim.s.Launches.Add(1)
		passed := make(chan bool, 1)
		go func() { passed <- heir.pass(20 * time.Second) }()
		time.Sleep(2 * time.Millisecond)
		from := time.Now()
		slot := victim.s
		victim.kill()
		eventually(t, "the slot is freed", func() bool { return slot.OwnerPID.Load() == 0 })
		if slot.MemUsedBytes.Load() != 0 {
			t.Error("memory of the dead remains")
		}
		if !<-passed {
			t.Fatal("the heir never got the device")
		}
		took = append(took, time.Since(from))
		heir.idle()
	}
	slices.Sort(took)
	t.Logf("slot and device free after %v, at most %v", took[len(took)/2], took[len(took)-1])
	if long && took[len(took)/2] > 10*time.Millisecond*slack {
		t.Errorf("it took %v", took)
	}
}

func TestAnotherUserIsRefused(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	startAgent(t, testConfig(dir, s))
	_, g := controller(t, dir, share.Job{Name: "mine", Share: share.Share{Memory: 1 << 30}})
	stranger := s.bornOf(ownUID + 1)
	p := &program{
		t:      t,
		self:   stranger,
		dir:    dir,
		token:  g.Token,
		slot:   wire.NoSlot,
		halted: make(chan struct{}),
	}
	var r *RefusedError
	if err := p.hello(0); !errors.As(err, &r) || r.Code != wire.RefusedCredentials {
		t.Errorf("another user was answered %v", err)
	}
}

// TestAllowedUser holds that another user who is allowed may join a job, and no more.
func TestAllowedUser(t *testing.T) {
	people := newPeople()
	dir := socketDir(t)
	cfg := testConfig(dir, people)
	other := ownUID + 7
	cfg.AllowUIDs = []uint32{other}
	startAgent(t, cfg)
	_, grant := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}})
	for uid, allowed := range map[uint32]bool{other: true, other + 1: false} {
		p := &program{t: t, self: people.bornOf(uid), dir: dir, token: grant.Token,
			slot: wire.NoSlot, halted: make(chan struct{})}
		if err := p.hello(0); (err == nil) != allowed {
			t.Errorf("user %d joins: %v, want allowed %v", uid, err, allowed)
		}
		for _, m := range []wire.Message{wire.NewCreate(wire.Create{Version: wire.Version}, 0),
			wire.NewTop(wire.Top{}), wire.NewSet(wire.Set{Version: wire.Version}),
			wire.NewPolicy(wire.Policy{Version: wire.Version})} {
			uc, err := dialAs(people.bornOf(uid), dir)
			if err != nil {
				t.Fatal(err)
			}
			c := &Client{uc: uc}
			if err := c.send(m, "", nil); err != nil {
				t.Fatal(err)
			}
			if _, _, _, err := c.receive(); !errors.Is(err, ErrRefused) ||
				!strings.Contains(err.Error(), "--allow-uid") {
				t.Errorf("user %d sends kind %d: %v", uid, wire.KindOf(m), err)
			}
			_ = c.Close()
		}
	}
}

func TestAdmissionIsRefused(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	startAgent(t, testConfig(dir, s))
	controller(t, dir, share.Job{Name: "big", Share: share.Share{Memory: 60 << 30, Compute: 0.8}})
	for name, r := range map[string]struct {
		req  JobRequest
		code wire.Code
	}{
		"memory": {JobRequest{Fake: true,
			Job: share.Job{Name: "a", Share: share.Share{Memory: 21 << 30}}},
			wire.RefusedAdmission},
		"compute": {JobRequest{Fake: true,
			Job: share.Job{Name: "b", Share: share.Share{Memory: 1 << 30, Compute: 0.3}}},
			wire.RefusedAdmission},
		"device": {JobRequest{Fake: true,
			Job: share.Job{Name: "c", Share: share.Share{Memory: 1 << 30}}, Device: 7},
			wire.RefusedDevice},
	} {
		c, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		var refused *RefusedError
		if _, err := c.Create(r.req); !errors.As(err, &refused) || refused.Code != r.code ||
			refused.Text == "" {
			t.Errorf("%s: %v", name, err)
		}
		_ = c.Close()
	}
	// The rest, and the same name again.
	_, g := controller(t, dir, share.Job{Name: "big"})
	if g.Memory != 20<<30 || g.Name != "big-2" {
		t.Errorf("got %+v", g)
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	dir := socketDir(t)
	a := startAgent(t, testConfig(dir, newPeople()))
	if _, err := Start(testConfig(dir, newPeople())); !errors.Is(err, ErrRunning) {
		t.Errorf("a second agent: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	// A dead agent leaves its socket.
	if err := os.WriteFile(SocketPath(dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	startAgent(t, testConfig(dir, newPeople()))
	fi, err := os.Stat(SocketPath(dir))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("socket %v, %v", fi, err)
	}
}

// TestRestart ends the agent under running programs and starts another.
func TestRestart(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	_, g := controller(
		t,
		dir,
		share.Job{
			Name:  "survivor",
			Share: share.Share{Memory: 3 << 30, Compute: 0.25, Limit: 0.5, Class: share.Latency},
		},
	)
	p, q, dead := begin(t, s, dir, g.Token), begin(t, s, dir, g.Token), begin(t, s, dir, g.Token)
	for _, x := range []*program{p, q, dead} {
		x.s.MemUsedBytes.Add(100)
		x.launch(100 * time.Microsecond)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if p.page.Header().AgentBeatNS.Load() != 0 {
		t.Error("an agent that has ended seems to live")
	}
	dead.kill()
	if got := p.page.MemoryHeld(); got != 300 {
		t.Errorf("%d bytes held without an agent", got)
	}
	b := startAgent(t, testConfig(dir, s))
	if err := p.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	if err := q.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	j := onlyJob(t, b)
	if j.Name != "survivor" || j.Compute != 0.25 || j.Limit != 0.5 || j.Class != share.Latency ||
		j.MemoryCapBytes != 3<<30 ||
		len(j.Processes) != 2 ||
		j.MemoryUsedBytes != 200 {
		t.Errorf("after the restart: %+v", j)
	}
	p.launch(time.Millisecond)
	q.launch(time.Millisecond)
	// The controller comes back as well.
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Create(JobRequest{Fake: true, Job: share.Job{Name: "survivor"}, Again: g})
	if err != nil || again.Token != g.Token || again.Memory != 3<<30 {
		t.Errorf("the controller got %+v, %v", again, err)
	}
	p.kill()
	q.kill()
	if jobNames(b) != "survivor" {
		t.Error("the job ended before its controller")
	}
	_ = c.Close()
	eventually(t, "the job ends", func() bool { return jobNames(b) == "" })
}

// TestRestartByController has weir exec bring the job back before any program.
func TestRestartByController(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	spec := share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}}
	_, g := controller(t, dir, spec)
	p := begin(t, s, dir, g.Token)
	p.s.MemUsedBytes.Add(7)
	_ = a.Close()
	b := startAgent(t, testConfig(dir, s))
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(JobRequest{Fake: true, Job: spec, Again: g}); err != nil {
		t.Fatal(err)
	}
	if j := onlyJob(t, b); j.MemoryUsedBytes != 7 || len(j.Processes) != 1 ||
		j.Processes[0].Attached {
		t.Errorf("%+v", j)
	}
	if err := p.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	p.launch(time.Millisecond)
}

// TestReconnect has a live process lose its socket: its memory stays counted.
func TestReconnect(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	_, g := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}})
	p := begin(t, s, dir, g.Token)
	p.s.MemUsedBytes.Add(7)
	_ = p.uc.Close()
	eventually(t, "the agent sees it", func() bool { return !onlyJob(t, a).Processes[0].Attached })
	if got := onlyJob(t, a).MemoryUsedBytes; got != 7 {
		t.Errorf("%d bytes are counted", got)
	}
	slot := p.slot
	if err := p.hello(wire.FlagRejoin); err != nil || p.slot != slot {
		t.Errorf("slot %d became %d, %v", slot, p.slot, err)
	}
	p.launch(100 * time.Microsecond)
	p.signal(wire.KindBye, 0)
	eventually(t, "the slot is given back",
		func() bool { return len(onlyJob(t, a).Processes) == 0 })
}

func TestIdleExit(t *testing.T) {
	dir := socketDir(t)
	c := testConfig(dir, newPeople())
	c.IdleExit = time.Hour // until it has a job, which a busy host may take its time to bring
	a := startAgent(t, c)
	client, _ := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}})
	a.mu.Lock()
	a.cfg.IdleExit = 250 * time.Millisecond
	a.mu.Unlock()
	select {
	case <-a.Done():
		t.Fatal("ended with a job")
	case <-time.After(600 * time.Millisecond):
	}
	_ = client.Close()
	select {
	case <-a.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("did not end")
	}
	if _, err := Dial(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("it still answers: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Log(err)
	}
	startAgent(t, c)
}

// TestMoreProcessesThanSlots fills a job: the next process is refused with the reason, and has a
// place again as soon as one ends.
func TestMoreProcessesThanSlots(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, s)
	startAgent(t, c)
	_, g := controller(t, dir, share.Job{Name: "many", Share: share.Share{Memory: 1 << 30}})
	var all []*program
	for range wire.SlotCount {
		all = append(all, begin(t, s, dir, g.Token))
	}
	_, err := attach(t, s, dir, g.Token)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Code != wire.RefusedFull ||
		!strings.Contains(refused.Text, "64 processes") ||
		!strings.Contains(refused.Text, "weir exec") {
		t.Errorf("one process too many: %v", err)
	}
	all[7].kill()
	eventually(t, "the place is another's", func() bool {
		p, err := attach(t, s, dir, g.Token)
		if err == nil {
			t.Cleanup(p.kill)
		}
		return err == nil
	})
}

// TestAgentThatDoesNotAnswer asks for a job where nobody reads the socket.
func TestAgentThatDoesNotAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for as long as a person would")
	}
	t.Parallel()
	dir := socketDir(t)
	if err := MakeRuntimeDir(dir); err != nil {
		t.Fatal(err)
	}
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: SocketPath(dir), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Create(JobRequest{Fake: true, Job: share.Job{Name: "patient"}})
	if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("got %v", err)
	}
}
