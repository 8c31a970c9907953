package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
)

// TestFirstContextIsCounted holds a process in the driver where it makes the first context of all:
// nobody knows what that takes, so nothing of the cap may be had by others, and another process
// that makes one waits. Once it is made, the rest of the cap is there.
func TestFirstContextIsCounted(t *testing.T) {
	t.Parallel()
	compiled(t)
	const context = 16 << 20
	w := newWarden(t, fakeCap, 2*time.Millisecond)
	w.gate(true)
	dir, hold := t.TempDir(), filepath.Join(t.TempDir(), "hold")
	if err := unix.Mkfifo(hold, 0o600); err != nil {
		t.Fatal(err)
	}
	first := startHold(t, w, dir, "0", "WEIR_FAKE_HOLD="+hold)
	making, err := openWriter(hold) // once the process is there
	if err != nil {
		t.Fatal(err)
	}
	if held := w.page.MemoryHeld(); held != fakeCap {
		t.Errorf("while the first context is made, %d bytes of %d count", held, fakeCap)
	}
	all := startHold(t, w, dir, fmt.Sprint((fakeCap-2*context)>>20))
	for range 2 {
		<-w.hellos
	}
	if err := making.Close(); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*holding{first, all} {
		h.untilRan(t)
	}
	if held, known := w.page.MemoryHeld(), w.page.Header().ContextBytes.Load(); held != fakeCap ||
		known != context {
		t.Errorf("%d bytes of %d held, and a context takes %d, want %d", held, fakeCap, known,
			context)
	}
	var device struct{ Peak uint64 }
	smi := onFake(t, nil, dir, "smi")
	if err := json.Unmarshal([]byte(smi.run(t)), &device); err != nil || device.Peak != fakeCap {
		t.Errorf("the device held %d bytes at most, want %d: %v", device.Peak, fakeCap, err)
	}
}

// TestContextsOfUnknownSize holds that where nobody tells what contexts take, that of the first
// does not stand for all others.
func TestContextsOfUnknownSize(t *testing.T) {
	t.Parallel()
	b := compiled(t)
	w := newWarden(t, testCap, 0)
	for range 2 {
		want := fmt.Sprintf("alloc 0 free 0 total %d device %[1]d\n", testCap)
		r := b.command(w, "info", fmt.Sprint(testCap))
		if got := r.run(t); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := w.page.Slot(0).MemPendingBytes.Load(); n != 0 {
			t.Errorf("%d bytes are undecided at the end", n)
		}
		w.release(r.Process.Pid)
		if n := w.page.Header().ContextBytes.Load(); n != wire.ContextUnmeasured {
			t.Errorf("a context takes %d", n)
		}
	}
}

// TestAnotherSlotCountsAll gives a process that comes back another slot, as an agent does that does
// not know it again: all that it holds counts there, and what another process counts in the former
// one by then stays.
func TestAnotherSlotCountsAll(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]uint64{"nobody's": 0, "another's": 7 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
			g := startGrow(t, w, dir, "context", 2)
			g.next(t)
			g.alloc(t, 4)
			<-w.hellos
			w.stop()
			former, now := w.page.Slot(0), w.page.Slot(1)
			if others > 0 {
				former.Claim(1<<30, 0)
				former.MemUsedBytes.Store(others)
			}
			w.moves = 1
			w.start()
			<-w.hellos
			until(t, "it has another slot", func() bool { return now.MemContextBytes.Load() != 0 })
			want := uint64(fakeCap-2*fakeContext-6<<20) - others
			if r, free := g.alloc(t, 2); r != 0 || free != want {
				t.Errorf("result %d, %d free, want %d", r, free, want)
			}
			if n := former.MemUsedBytes.Load() + former.MemContextBytes.Load(); n != others {
				t.Errorf("the former slot counts %d bytes, want %d", n, others)
			}
		})
	}
}

// holding is the fake driver's program hold, told to begin.
type holding struct {
	*running
	said *os.File
}

// startHold starts it where contexts and nothing but them take more than is asked for: what its
// launch would load, which no call asks for, is counted once it is there.
func startHold(t *testing.T, w *warden, dir, mib string, env ...string) *holding {
	t.Helper()
	r := onFake(t, w, dir, "hold", mib)
	r.Env = append(append(r.Env, oneSize, "WEIR_FAKE_LAZY_BYTES=0"), env...)
	in, err := r.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Stdout = out
	r.start(t)
	t.Cleanup(func() { _ = in.Close(); _ = said.Close() })
	if err := errors.Join(out.Close(), said.SetReadDeadline(time.Now().Add(patience))); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	return &holding{r, said}
}

// untilRan waits for the line that the program says once its kernel has run.
func (h *holding) untilRan(t *testing.T) {
	t.Helper()
	d := json.NewDecoder(h.said)
	var ran struct {
		At int64 `json:"ran_ns"`
	}
	var ready [6]byte // "ready" and the end of the line
	if _, err := h.said.Read(ready[:]); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(&ran); err != nil || ran.At == 0 {
		t.Fatalf("%v: %v %s", h.Args[1:], err, h.running.err.String())
	}
}

// openWriter opens a FIFO that a process is about to read, once it does.
func openWriter(path string) (*os.File, error) {
	opened := make(chan error, 1)
	var f *os.File
	go func() {
		var err error
		f, err = os.OpenFile(path, os.O_WRONLY, 0)
		opened <- err
	}()
	select {
	case err := <-opened:
		return f, err
	case <-time.After(patience):
		return nil, fmt.Errorf("nobody reads %s", path)
	}
}

// TestMemoryOfDestroyedContexts destroys contexts with memory in them, which the driver frees, and
// beside memory that takes less than is counted for it.
func TestMemoryOfDestroyedContexts(t *testing.T) {
	t.Parallel()
	compiled(t)
	for _, profile := range []string{"plain", "hardware"} {
		w := newWarden(t, 8*fakeCap, 2*time.Millisecond)
		w.gate(true)
		r := onFake(t, w, t.TempDir(), "leave")
		r.Env = append(r.Env, "WEIR_FAKE_PROFILE="+profile)
		if got := strings.TrimSpace(r.run(t)); got != `{"lost":0}` {
			t.Errorf("%s: got %s", profile, got)
		}
	}
}

// TestParts runs programs of testdata, each with parts of the library, which it calls between two
// calls of their own or of the driver: they check by value what is counted.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		checks int
		parts  []string
	}{
		{"ledger", 133, nil},
		{"sizes", 11, []string{"sizes"}},
		{"rest", 117, []string{"ledger", "sizes"}},
		{"reuse", 86, []string{"alloc", "ledger", "sizes", "take"}},
		{"pools", 122, []string{"freeing", "sizes", "take"}},
		{"graphs", 107, []string{"graph", "ledger", "sizes"}},
		{"limits", 31, []string{"limit", "ledger", "take"}},
		{"modules", 20, nil},
		{"begin", 5, nil},
		{"launches", 63, []string{"launch"}},
		{"moves", 482, []string{"sizes"}},
		{"mappings", 27, []string{"ledger", "sizes"}},
		{"handles", 45, []string{"movable", "sizes"}},
		{"contexts", 120, []string{"context", "measure", "ledger", "sizes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := fmt.Sprintf("%d checks", c.checks)
			if got := onParts(t, c.name, c.parts...); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
}

// onParts compiles a program of testdata and runs it.
func onParts(t *testing.T, name string, parts ...string) string {
	t.Helper()
	b := compiled(t)
	sources := []string{"testdata/" + name + ".c"}
	for _, p := range parts {
		sources = append(sources, "src/"+p+".c")
	}
	program, err := keptC(name, []string{"-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I.",
		"-pthread", "-DSOURCE=" + Digest()}, sources...)
	if err != nil {
		t.Fatal(err)
	}
	r := b.command(nil)
	r.Path, r.Args[0] = program, program
	return strings.TrimSpace(r.run(t))
}
