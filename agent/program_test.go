package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// people is a system in which the test says who its peers are. A peer is known by the name of its
// end of the socket.
type people struct {
	mu     sync.Mutex
	byName map[string]*person
	next   atomic.Uint32
}

// person is a process that lives as long as the test wants.
type person struct {
	name     string
	uid, pid uint32
	ident    uint64
	ended    chan struct{}
	once     sync.Once
	halted   atomic.Bool // by a signal
	restless bool        // its word changes all the time
	woke     atomic.Int64
}

func (p *person) start() uint64         { return uint64(p.pid) * 10 }
func (p *person) id() uint64            { return p.ident }
func (p *person) done() <-chan struct{} { return p.ended }
func (p *person) watched() bool         { return true }
func (p *person) stopped() bool         { return p.halted.Load() }
func (p *person) forget()               {}
func (p *person) die()                  { p.once.Do(func() { close(p.ended) }) }

// awaitDrain is that of a system that cannot, or of one where the word has changed by then.
func (p *person) awaitDrain(*wire.Slot, uint32, time.Duration) bool {
	if p.restless && p.woke.Add(1) > 1e6 {
		panic("woken a million times")
	}
	return p.restless
}

func (p *person) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func newPeople() *people { return &people{byName: map[string]*person{}} }

// born makes a process of this user.
func (s *people) born() *person { return s.bornOf(ownUID) }

func (s *people) bornOf(uid uint32) *person {
	n := s.next.Add(1)
	p := &person{
		name:  fmt.Sprintf("@weir-test-%d-%d-%p", os.Getpid(), n, s),
		uid:   uid,
		pid:   1<<20 + n,
		ended: make(chan struct{}),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[p.name] = p
	return p
}

// twin is the same process at the end of another socket.
func (s *people) twin(p *person) *person {
	q := s.bornOf(p.uid)
	s.mu.Lock()
	defer s.mu.Unlock()
	q.pid, q.ident = p.pid, p.ident
	return q
}

func (s *people) peer(c *net.UnixConn) (peer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.byName[c.RemoteAddr().String()]; p != nil {
		return peer{uid: p.uid, pid: p.pid, process: p}, nil
	}
	return peer{uid: uint32(os.Getuid()), pid: 1, process: &person{ended: make(chan struct{})}}, nil
}

func (s *people) find(pid uint32, start uint64) (process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.byName {
		if p.pid == pid && p.start() == start && p.alive() {
			return p, nil
		}
	}
	return nil, os.ErrProcessDone
}

// socketDir is a folder whose name is short enough for a socket.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "run")
}

func testConfig(dir string, s system) Config {
	return Config{
		Dir:     dir,
		Devices: []Device{{Name: "test device", Memory: 80 << 30, Fake: true}},
		system:  s,
	}
}

func startAgent(t testing.TB, c Config) *Agent {
	t.Helper()
	a, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// program is a process under a share, in Go: what the library does in a CUDA program, one launch at
// a time.
type program struct {
	t     testing.TB
	self  *person
	dir   string
	token wire.Token
	uc    *net.UnixConn
	page  *wire.Page
	slot  uint32
	s     *wire.Slot
	gen   uint32

	mu     sync.Mutex // of uc
	halted chan struct{}
	mapped sync.Mutex // page, slot and s, while the watcher runs
	watch  sync.WaitGroup
}

func dialAs(self *person, dir string) (*net.UnixConn, error) {
	return net.DialUnix("unixpacket", &net.UnixAddr{Name: self.name, Net: "unixpacket"},
		&net.UnixAddr{Name: SocketPath(dir), Net: "unixpacket"})
}

// attach begins a program in the job with this token.
func attach(t testing.TB, s *people, dir string, token wire.Token) (*program, error) {
	p := &program{
		t:      t,
		self:   s.born(),
		dir:    dir,
		token:  token,
		slot:   wire.NoSlot,
		halted: make(chan struct{}),
	}
	if err := p.hello(0); err != nil {
		return nil, err
	}
	p.watch.Add(1)
	go p.watcher()
	return p, nil
}

// hello attaches, or rejoins with what the program has.
func (p *program) hello(flags uint32) error {
	p.mu.Lock()
	if p.uc != nil {
		_ = p.uc.Close()
	}
	p.mu.Unlock()
	uc, err := dialAs(p.self, p.dir)
	if err != nil {
		return err
	}
	m := wire.Hello{
		Token:      p.token,
		PID:        p.self.pid,
		Version:    wire.Version,
		Slot:       p.slot,
		Generation: p.gen,
	}
	var file *os.File
	if p.page != nil {
		file, m.MemUsed = p.page.File(), p.s.MemUsedBytes.Load()
	}
	c := &Client{uc: uc}
	if err := c.send(wire.NewHello(m, flags), "", file); err != nil {
		_ = uc.Close()
		return err
	}
	answer, _, file, err := c.receive()
	if err != nil {
		_ = uc.Close()
		return err
	}
	w, ok := answer.(wire.Welcome)
	if !ok || file == nil {
		return errors.New("no welcome")
	}
	p.mapped.Lock()
	defer p.mapped.Unlock()
	if p.page == nil || !wire.SamePage(p.page.File(), file) {
		if p.page, err = wire.MapPage(file); err != nil {
			return err
		}
	} else {
		_ = file.Close()
	}
	if w.Slot != p.slot {
		p.slot, p.s = w.Slot, p.page.Slot(w.Slot)
	}
	p.gen = w.Generation
	p.s.State.Store(wire.StateAttached)
	p.mu.Lock()
	p.uc = uc
	p.mu.Unlock()
	return nil
}

func (p *program) signal(k wire.Kind, gate uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = writePacket(p.uc, wire.NewSignal(k, p.slot, gate).Append(nil), nil)
}

func (p *program) gate() uint32 { return p.page.Header().Gate.Load() }

// watcher says when the program has drained, as the library's thread does.
func (p *program) watcher() {
	defer p.watch.Done()
	for {
		select {
		case <-p.halted:
			return
		default:
		}
		p.look()
	}
}

func (p *program) look() {
	p.mapped.Lock()
	defer p.mapped.Unlock()
	g := p.gate()
	if !wire.IsOpen(g) && p.s.DrainedSeq.Load() != g && p.s.InflightNS.Load() == 0 {
		p.s.DrainedSeq.Store(g)
		p.signal(wire.KindDrained, g)
	}
	_ = p.page.WaitGate(g, 5*time.Millisecond)
}

// pass waits at the gate for at most so long.
func (p *program) pass(most time.Duration) bool {
	g := p.gate()
	if wire.IsOpen(g) {
		return true
	}
	p.s.Waiting.Add(1)
	p.s.WantSeq.Add(1)
	defer p.s.Waiting.Add(^uint32(0))
	p.signal(wire.KindWant, g)
	for end := time.Now().Add(most); time.Now().Before(end); g = p.gate() {
		if wire.IsOpen(g) {
			return true
		}
		_ = p.page.WaitGate(g, min(50*time.Millisecond, time.Until(end)))
	}
	return wire.IsOpen(p.gate())
}

// launch waits at the gate and runs a kernel.
func (p *program) launch(kernel time.Duration) {
	if !p.pass(20 * time.Second) {
		p.t.Errorf("%v waited in vain", p.self.name)
		return
	}
	p.s.InflightNS.Add(uint64(kernel))
	p.s.Launches.Add(1)
	time.Sleep(kernel)
	p.s.InflightNS.Add(-uint64(kernel))
	p.s.DeviceNSTotal.Add(uint64(kernel))
}

func (p *program) idle() { p.signal(wire.KindIdle, p.gate()) }

// kill ends the program at once, as SIGKILL does: its socket is closed and nothing is said.
func (p *program) kill() {
	p.self.die()
	p.halt()
}

// halt ends the program's threads and closes its socket, without anybody being told that it is
// dead.
func (p *program) halt() {
	select {
	case <-p.halted:
		return
	default:
	}
	close(p.halted)
	p.watch.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.uc.Close()
}

// controller makes a job as weir exec does.
func controller(t testing.TB, dir string, j share.Job) (*Client, *JobGrant) {
	t.Helper()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	g, err := c.Create(JobRequest{Fake: true, Job: j})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Page.Close() })
	return c, g
}

func begin(t testing.TB, s *people, dir string, token wire.Token) *program {
	t.Helper()
	p, err := attach(t, s, dir, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// eventually waits for something that other goroutines bring about.
func eventually(t testing.TB, what string, f func() bool) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	from := time.Now()
	for !f() {
		if ctx.Err() != nil {
			t.Fatalf("not in 20 s: %s", what)
		}
		time.Sleep(50 * time.Microsecond)
	}
	return time.Since(from)
}

func onlyJob(t testing.TB, a *Agent) JobSnapshot {
	t.Helper()
	s := a.Snapshot()
	if len(s.Devices[0].Jobs) != 1 {
		t.Fatalf("%d jobs", len(s.Devices[0].Jobs))
	}
	return s.Devices[0].Jobs[0]
}

func jobNames(a *Agent) string {
	var names []string
	for _, j := range a.Snapshot().Devices[0].Jobs {
		names = append(names, j.Name)
	}
	return strings.Join(names, " ")
}
