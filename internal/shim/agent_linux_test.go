package shim

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
)

// warden stands in for the agent, to say exactly what the library must answer to: it hands out
// slots of one page and opens and closes the gate when a test says so.
type warden struct {
	t      *testing.T
	page   *wire.Page
	path   string
	token  wire.Token
	heard  chan wire.Signal
	hellos chan wire.Hello
	notes  chan string
	moved  chan wire.Moved
	stays  chan wire.Stays
	// Both are set before it serves. holds answers processes that ask what they hold; nil: it does
	// not answer.
	holds  func() uint64
	silent atomic.Bool // it does not answer for now, though it may
	// left is told of each slot whose process has gone, before the slot is cleared; nil: slots of
	// the gone are cleared by release alone.
	left func(pid uint32, s *wire.Slot)
	// moves is by how many slots one that comes back is moved
	moves uint32

	mu    sync.Mutex
	ln    *net.UnixListener
	conns map[*net.UnixConn]uint32
	beat  chan struct{}
	wg    sync.WaitGroup
}

const testCap = 64 << 20

// long is set for the full numbers that the library has to stand: WEIR_LONG=1 go test
// ./internal/shim
var long = os.Getenv("WEIR_LONG") != ""

// newWarden returns one that serves; each of set is called before it does.
func newWarden(t *testing.T, memory uint64, bound time.Duration, set ...func(*warden)) *warden {
	t.Helper()
	page, err := wire.NewPage()
	if err != nil {
		t.Fatal(err)
	}
	w := &warden{t: t, page: page, path: filepath.Join(t.TempDir(), "s"),
		token: wire.Token{1, 2, 3, 15: 0xff}}
	w.notes = make(chan string, 1<<10)
	w.moved, w.stays = make(chan wire.Moved, 1<<10), make(chan wire.Stays, 1<<10)
	w.heard, w.hellos = make(chan wire.Signal, 1<<16), make(chan wire.Hello, 1<<10)
	page.SetTerms(wire.Terms{Token: w.token, Name: "test", MemCap: memory, MemTotal: memory,
		InFlight: bound})
	for _, f := range set {
		f(w)
	}
	w.start()
	t.Cleanup(func() {
		w.stop()
		_ = page.Close()
	})
	return w
}

// start listens and beats; stop closes all as an agent that dies does.
func (w *warden) start() {
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: w.path, Net: "unixpacket"})
	if err != nil {
		w.t.Fatal(err)
	}
	h := w.page.Header()
	h.AgentGeneration.Add(1)
	w.ln, w.conns = ln, map[*net.UnixConn]uint32{}
	w.thaw()
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		for {
			c, err := ln.AcceptUnix()
			if err != nil {
				return
			}
			w.wg.Add(1)
			go w.serve(c)
		}
	}()
}

// thaw begins to beat; freeze ends that, as for an agent that is stopped.
func (w *warden) thaw() {
	beat := make(chan struct{})
	w.beat = beat
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		for {
			w.page.Header().AgentBeatNS.Store(uint64(wire.Monotonic()))
			select {
			case <-beat:
				return
			case <-time.After(wire.Beat):
			}
		}
	}()
}

func (w *warden) freeze() { close(w.beat) }

func (w *warden) stop() {
	w.mu.Lock()
	close(w.beat)
	_ = w.ln.Close()
	for c := range w.conns {
		_ = c.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

func (w *warden) serve(c *net.UnixConn) {
	defer w.wg.Done()
	defer c.Close()
	buf := make([]byte, 4096)
	oob := make([]byte, 256)
	n, on, _, _, err := c.ReadMsgUnix(buf, oob)
	if err != nil {
		return
	}
	if files, err := unix.ParseSocketControlMessage(oob[:on]); err == nil {
		for _, f := range files {
			if fds, err := unix.ParseUnixRights(&f); err == nil {
				for _, fd := range fds {
					_ = unix.Close(fd)
				}
			}
		}
	}
	m, _, err := wire.Decode(buf[:n])
	hello, ok := m.(wire.Hello)
	if err != nil || !ok || hello.Token != w.token {
		text := "no job has this token"
		r := wire.NewRefused(wire.Refused{Code: wire.RefusedUnknownJob, TextLen: uint32(len(text))})
		_, _ = c.Write(append(r.Append(nil), text...))
		return
	}
	slot, ok := w.claim(c, hello)
	if !ok {
		return
	}
	defer w.leave(slot)
	welcome := wire.NewWelcome(wire.Welcome{Slot: slot, PageSize: wire.PageSize,
		Generation: w.page.Header().AgentGeneration.Load()}, w.flags())
	if _, _, err := c.WriteMsgUnix(welcome.Append(nil), unix.UnixRights(int(w.page.File().Fd())),
		nil); err != nil {
		return
	}
	// Whoever waits for a program to attach may end the agent next.
	select {
	case w.hellos <- hello:
	default:
	}
	for {
		n, err := c.Read(buf)
		if err != nil || n == 0 {
			return
		}
		if m, _, err := wire.Decode(buf[:n]); err == nil {
			if n, ok := m.(wire.Note); ok {
				w.notes <- n.Name()
			}
			if s, ok := m.(wire.Stays); ok {
				w.stays <- s
			}
			if s, ok := m.(wire.Moved); ok {
				w.moved <- s
			}
			if s, ok := m.(wire.Signal); ok {
				if s.Kind == wire.KindMeasure && !w.silent.Load() {
					w.page.Slot(slot).MeasuredBytes.Store(w.holds())
					w.page.Slot(slot).AnswerSeq.Store(s.Gate)
				}
				select {
				case w.heard <- s:
				default:
				}
			}
		}
	}
}

func (w *warden) leave(slot uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.page.Slot(slot); w.left != nil {
		w.left(s.OwnerPID.Load(), s)
		s.Clear()
	}
}

func (w *warden) flags() uint32 {
	if w.holds == nil {
		return 0
	}
	return wire.FlagMeasures
}

func (w *warden) claim(c *net.UnixConn, hello wire.Hello) (uint32, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if hello.Rejoins() {
		w.conns[c] = hello.Slot + w.moves
		if w.moves > 0 {
			w.page.Slot(w.conns[c]).Claim(hello.PID, 0)
		}
		return w.conns[c], true
	}
	for i := range uint32(wire.SlotCount) {
		if s := w.page.Slot(i); s.OwnerPID.Load() == 0 {
			s.OwnerPID.Store(hello.PID)
			w.conns[c] = i
			return i, true
		}
	}
	return 0, false
}

// release clears the slots of a process that is dead.
func (w *warden) release(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range uint32(wire.SlotCount) {
		if s := w.page.Slot(i); s.OwnerPID.Load() == uint32(pid) {
			s.Clear()
		}
	}
}

func (w *warden) gate(open bool) uint32 {
	h := w.page.Header()
	g := wire.NextGate(h.Gate.Load(), open)
	h.LeaseUntilNS.Store(^uint64(0))
	h.Gate.Store(g)
	w.page.WakeGate()
	return g
}

// expect waits for a message of this kind.
func (w *warden) expect(k wire.Kind) wire.Signal {
	w.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case s := <-w.heard:
			if wire.KindOf(s) == k {
				return s
			}
		case <-deadline:
			w.t.Fatalf("no message of kind %d", k)
		}
	}
}

// built is what the tests run: a driver in a folder of its own, the library in the cache, and
// programs. It is compiled once.
type built struct {
	dir, cache, library, program string
}

var builtOnce = sync.OnceValues(func() (built, error) {
	cache, err := kept()
	if err != nil {
		return built{}, err
	}
	b := built{cache: cache}
	if b.library, err = Build(context.Background(), cache, ""); err != nil {
		return b, err
	}
	driver, err := keptC("libcuda.so.1", []string{"-shared", "-fPIC", "-Wl,-Bsymbolic", "-O2"},
		"testdata/driver.c")
	if err != nil {
		return b, err
	}
	b.dir = filepath.Dir(driver)
	b.program, err = keptC("program", []string{"-O2", "-Wall", "-Wextra", "-Werror"},
		"testdata/program.c")
	return b, err
})

func compileC(args ...string) error {
	cc, err := findCompiler("")
	if err != nil {
		return err
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", cc, strings.Join(args, " "), err, out)
	}
	return nil
}

func compiled(t testing.TB) built {
	t.Helper()
	if _, err := findCompiler(""); err != nil {
		t.Skipf("skipped: %v", err)
	}
	b, err := builtOnce()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// running is a program under way.
type running struct {
	*exec.Cmd
	out, err bytes.Buffer

	waited sync.Once
	ended  error
}

// Wait returns how the program ended, once it has; any number of callers may.
func (r *running) Wait() error {
	r.waited.Do(func() { r.ended = r.Cmd.Wait() })
	return r.ended
}

// command prepares a program under the library; w nil runs it with no job.
func (b built) command(w *warden, args ...string) *running {
	r := &running{Cmd: exec.Command(b.program, args...)}
	r.Env = append(os.Environ(), "LD_PRELOAD="+b.library, "LD_LIBRARY_PATH="+b.dir)
	if w != nil {
		r.Env = append(r.Env, "WEIR_JOB="+w.token.String(), "WEIR_SOCKET="+w.path,
			"DRIVER_LEDGER="+w.path+".ledger")
	}
	r.Stdout, r.Stderr = &r.out, &r.err
	return r
}

// patience is how long tests wait for what is to come at last, on a host that does much else.
const patience = 2 * time.Minute

// patient has the program's threads sleep for 10 s where they sleep for 0.1 s at most
// (testdata/patient.c), and returns half of that: what takes longer has been slept over.
func (r *running) patient(t testing.TB) time.Duration {
	t.Helper()
	longer, err := keptC("patient.so", []string{"-O2", "-shared", "-fPIC", "-Wall", "-Wextra",
		"-Werror"}, "testdata/patient.c")
	if err != nil {
		t.Fatal(err)
	}
	r.Env = append(r.Env, "LD_PRELOAD="+longer+":"+compiled(t).library)
	return 5 * time.Second
}

// virtual gives the program a clock of its own (testdata/virtual.c), so that what else the machine
// does is in none of its times.
func (r *running) virtual(t testing.TB) *running {
	t.Helper()
	clock, err := keptC("virtual.so", []string{"-O2", "-shared", "-fPIC", "-Wall", "-Wextra",
		"-Werror"}, "testdata/virtual.c")
	if err != nil {
		t.Fatal(err)
	}
	r.Env = append(r.Env, "LD_PRELOAD="+clock+":"+compiled(t).library)
	return r
}

// start starts the program, which ends with the test at the latest.
func (r *running) start(t testing.TB) {
	t.Helper()
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Process.Kill()
		_ = r.Wait()
	})
}

func (r *running) finish(t testing.TB) string {
	t.Helper()
	kill := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
	defer kill.Stop()
	if err := r.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s%s", r.Args[1:], err, r.out.String(), r.err.String())
	}
	return r.out.String()
}

func (r *running) run(t testing.TB) string {
	t.Helper()
	r.start(t)
	return r.finish(t)
}
