package shim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
	"github.com/weirgpu/weir/internal/wire"
)

// movable has the programs of a warden hold memory that can be moved, to so much of the host's.
func (w *warden) movable(host uint64) {
	t, err := w.page.Terms()
	if err != nil {
		w.t.Fatal(err)
	}
	t.Movable = true
	w.page.SetTerms(t)
	w.page.Header().MoveHostBytes.Store(host)
}

// command orders the memory of the programs to the host or back.
func (w *warden) command(away bool) {
	h := w.page.Header()
	h.Move.Store(wire.NextMove(h.Move.Load(), away))
	w.page.WakeMove()
}

// order does so, and returns what each of so many answers.
func (w *warden) order(away bool, programs int) []wire.Moved {
	w.t.Helper()
	w.command(away)
	return w.answers(programs)
}

// answers returns what each of so many programs answers to the last order.
func (w *warden) answers(programs int) []wire.Moved {
	w.t.Helper()
	h := w.page.Header()
	answers := make([]wire.Moved, programs)
	for i := range answers {
		select {
		case answers[i] = <-w.moved:
			if answers[i].Move != h.Move.Load() {
				w.t.Fatalf("answer to order %d, want %d", answers[i].Move, h.Move.Load())
			}
		case <-time.After(patience):
			w.t.Fatal("no answer to an order")
		}
	}
	for len(w.stays) > 0 {
		<-w.stays
	}
	return answers
}

// await waits until something has come about.
func (w *warden) await(not string, done func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatal(not)
		}
	}
}

// moved is a program that checks its memory under moves, and its standard input.
func moved(t *testing.T, w *warden, dir string, args ...string) (*running, io.Closer) {
	t.Helper()
	r := onFake(t, w, dir, "moved", args...)
	return r, startMoved(t, w, r)
}

// startMoved starts it and waits until it is attached.
func startMoved(t *testing.T, w *warden, r *running) io.Closer {
	t.Helper()
	in, err := r.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.start(t)
	select {
	case <-w.hellos:
	case <-time.After(patience):
		t.Fatal("the program does not attach")
	}
	return in
}

// sum is what such a program has found.
type sum struct{ Rounds, Compared, Wrong int }

func (r *running) found(t *testing.T, in io.Closer) sum {
	t.Helper()
	_ = in.Close()
	var s sum
	lines := lastLine(r.finish(t))
	if err := json.Unmarshal([]byte(lines), &s); err != nil {
		t.Fatalf("%q: %v", lines, err)
	}
	return s
}

// churn moves the programs' memory away and back so often, beside what they do, and holds that the
// device has none of it meanwhile. It returns how often that could be done.
func (w *warden) churn(times, programs int) (done int) {
	w.t.Helper()
	launches := func() (n uint64) {
		for i := range uint32(programs) {
			n += w.page.Slot(i).Launches.Load() + w.page.Slot(i).GraphLaunches.Load()
		}
		return n
	}
	var most uint64 // that was away of a program
	for range times {
		w.await("the programs do not go on", func() func() bool {
			before := launches()
			return func() bool { return launches() >= before+uint64(programs) }
		}())
		ok := true
		for _, m := range w.order(true, programs) {
			ok, most = ok && m.Code == wire.MovedAll, max(most, m.Bytes)
			if m.Code != wire.MovedAll && m.Code != wire.MovedBusy {
				w.t.Fatalf("not moved away: %+v", m)
			}
			if s := w.page.Slot(m.Slot); m.Code == wire.MovedAll &&
				(s.AwayBytes.Load() != s.MovableBytes.Load() || m.Bytes != s.AwayBytes.Load()) {
				w.t.Fatalf("%d bytes are away of %d, %d said", s.AwayBytes.Load(),
					s.MovableBytes.Load(), m.Bytes)
			}
		}
		for _, m := range w.order(false, programs) {
			if s := w.page.Slot(m.Slot); m.Code != wire.MovedAll || s.AwayBytes.Load() != 0 ||
				s.HostBytes.Load() > most {
				w.t.Fatalf("not moved back: %+v", m)
			}
		}
		if ok {
			done++
		}
	}
	return done
}

// TestMemoryMoves moves the memory of a program of eight threads to the host and back, again and
// again: kernels, captured graphs and copies of all sizes find every byte.
func TestMemoryMoves(t *testing.T) {
	onProfiles(t, "", func(t *testing.T, profile string) {
		times := 12
		if long {
			times = 10000
		}
		w := newWarden(t, 1<<30, 2*time.Millisecond)
		w.movable(1 << 30)
		w.gate(true)
		r := onFake(t, w, t.TempDir(), "moved", "8")
		r.Env = append(r.Env, profile)
		in := startMoved(t, w, r)
		done := w.churn(times, 1)
		s := r.found(t, in)
		t.Logf("%d of %d moves, %+v (fake)", done, times, s)
		if s.Wrong != 0 || s.Compared == 0 || done < times/2 {
			t.Errorf("%d of %d moves, %+v", done, times, s)
		}
		if m := w.page.Slot(0); m.MemUsedBytes.Load() != 0 || m.MovableBytes.Load() != 0 {
			t.Errorf("%d bytes counted at the end, %d movable", m.MemUsedBytes.Load(),
				m.MovableBytes.Load())
		}
	})
}

// TestMovesWaitForOtherContexts does the same where what works on the memory is of other contexts
// than that is.
func TestMovesWaitForOtherContexts(t *testing.T) {
	onProfiles(t, "", func(t *testing.T, profile string) {
		w := newWarden(t, 1<<30, 2*time.Millisecond)
		w.movable(1 << 30)
		w.gate(true)
		r := onFake(t, w, t.TempDir(), "moved", "4", "3", "apart")
		r.Env = append(r.Env, profile)
		in := startMoved(t, w, r)
		done := w.churn(12, 1)
		if s := r.found(t, in); s.Wrong != 0 || s.Compared == 0 || done < 6 {
			t.Errorf("%d of 12 moves, %+v", done, s)
		}
	})
}

// cap sets the programs' cap to what is left of it while so much is promised to others.
func (w *warden) cap(promised uint64) {
	t, err := w.page.Terms()
	if err != nil {
		w.t.Fatal(err)
	}
	t.MemCap = t.MemTotal - promised
	w.page.SetTerms(t)
}

// TestWhatHasNoRoomWaits holds that what takes memory of a job whose memory is away, and whose cap
// is lower by it, waits until it is back, also in a process that begins meanwhile.
func TestWhatHasNoRoomWaits(t *testing.T) {
	const memory, away = 256 << 20, 250 << 20
	w := newWarden(t, memory, 2*time.Millisecond)
	w.movable(1 << 30)
	w.gate(true)
	dir := t.TempDir()
	g := startGrow(t, w, dir, "context", 1)
	if r, _ := g.next(t); r != 0 {
		t.Fatalf("a context: %d", r)
	}
	s := w.page.Slot(0)
	for _, line := range []string{"20", "c20", "p20", "u2", "x1", "s1"} {
		if m := w.order(true, 1)[0]; m.Code != wire.MovedAll {
			t.Fatalf("not moved: %+v", m)
		}
		w.cap(away)
		if _, err := fmt.Fprintln(g.in, line); err != nil {
			t.Fatal(err)
		}
		w.await(line+" does not wait", func() bool { return s.Waiting.Load() == 1 })
		w.cap(0)
		w.order(false, 1)
		if r, free := g.next(t); r != 0 || free > memory-fakeContext {
			t.Errorf("%s: %d, %d are free", line, r, free)
		}
	}
	w.order(true, 1)
	w.cap(away)
	late := startGrow(t, w, dir, "context", 1)
	w.await("a process that begins does not wait", func() bool {
		return w.page.Slot(1).Waiting.Load() == 1
	})
	w.answers(1) // it has heard of the order when it begins
	w.cap(0)
	w.order(false, 2)
	if r, free := late.next(t); r != 0 || free == 0 {
		t.Errorf("a process that begins: %d, %d are free", r, free)
	}
	// Without an agent the memory comes back by itself, and the cap with it.
	w.order(true, 2)
	w.cap(away)
	w.stop()
	if r, _ := g.alloc(t, 40); r != 0 {
		t.Errorf("without an agent: %d", r)
	}
	w.start()
}

// TestContextsGoBesideFrees holds that all memory of a context that is destroyed is given back,
// also where a thread is about to free some of it.
func TestContextsGoBesideFrees(t *testing.T) {
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.movable(1 << 30)
	w.gate(true)
	r := onFake(t, w, t.TempDir(), "gone")
	in, err := r.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Stdout = nil
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.start(t)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "{}\n" {
		t.Fatalf("%q, %v: %s", line, err, r.err.String())
	}
	s := w.page.Slot(0)
	if used, movable := s.MemUsedBytes.Load(), s.MovableBytes.Load(); used != 0 || movable != 0 {
		t.Errorf("%d bytes are counted of a context that is gone, %d movable", used, movable)
	}
	_ = in.Close()
	r.finish(t)
}

// TestMovesLeaveTheDevice holds that what is away is not on the device, in pieces or not, and comes
// back to programs of two processes.
func TestMovesLeaveTheDevice(t *testing.T) {
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.movable(1 << 30)
	w.gate(true)
	dir := t.TempDir()
	a, inA := moved(t, w, dir, "1", "130")
	b, inB := moved(t, w, dir, "2", "5.5")
	slot := func(i uint32) *wire.Slot { return w.page.Slot(i) }
	w.await("the programs allocate nothing", func() bool {
		return slot(0).MovableBytes.Load() >= 130<<20 && slot(1).MovableBytes.Load() >= 11<<20
	})
	for away := false; !away; {
		away = true
		for _, m := range w.order(true, 2) {
			away = away && m.Code == wire.MovedAll
		}
		if !away {
			w.order(false, 2)
		}
	}
	// of the two there are contexts of 16 MiB each, on the profile hardware somewhat more; the
	// lesser program has 11 MiB of its own
	least, most := uint64(32<<20), uint64(32<<20)
	if os.Getenv("WEIR_FAKE_PROFILE") == "hardware" {
		most += 8 << 20
	}
	if d := fakeDevice(t, dir); d.Used < least || d.Used > most {
		t.Errorf("the device holds %d bytes with the memory away", d.Used)
	}
	if used := slot(0).MemUsedBytes.Load() + slot(1).MemUsedBytes.Load(); used != 0 {
		t.Errorf("%d bytes are counted on the device", used)
	}
	w.order(false, 2)
	for _, s := range []sum{a.found(t, inA), b.found(t, inB)} {
		if s.Wrong != 0 || s.Compared == 0 {
			t.Errorf("%+v", s)
		}
	}
}

// TestMovesAreCounted holds that the device never holds more of a program's memory than is counted
// while that is moved: who compares the two would count the difference a second time.
func TestMovesAreCounted(t *testing.T) {
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.movable(1 << 30)
	w.gate(true)
	dir := t.TempDir()
	r, in := moved(t, w, dir, "2", "150")
	s := w.page.Slot(0)
	w.await("the program launches nothing", func() bool { return s.Launches.Load() > 2 })
	w.gate(false)
	w.await("the program does not wait", func() bool { return s.Waiting.Load() == 2 })
	counted := func() uint64 { return s.MemUsedBytes.Load() + s.MemContextBytes.Load() }
	for i := range 6 {
		for w.command(i%2 == 0); len(w.moved) == 0; {
			before := counted()
			held := fakeDevice(t, dir).Used
			if after := counted(); held > max(before, after) {
				t.Fatalf("move %d: %d held, %d counted, then %d", i, held, before, after)
			}
		}
		if m := w.answers(1)[0]; m.Code != wire.MovedAll {
			t.Fatalf("not moved: %+v", m)
		}
	}
	w.gate(true)
	if got := r.found(t, in); got.Wrong != 0 || got.Compared == 0 {
		t.Errorf("%+v", got)
	}
}

// TestMovesUnderSanitizers does the same with the library, the driver and the program built with a
// sanitizer each.
func TestMovesUnderSanitizers(t *testing.T) {
	b := compiled(t)
	if testing.Short() {
		t.Skip("skipped with -short: compiles everything twice more")
	}
	for _, flag := range []string{"address,undefined", "thread"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			dir, err := kept()
			if err != nil {
				t.Fatal(err)
			}
			how := []string{"-g", "-O1", "-fsanitize=" + flag, "-fno-sanitize-recover=undefined",
				"-fno-omit-frame-pointer"}
			sources, err := filepath.Glob("src/*.c")
			if err != nil {
				t.Fatal(err)
			}
			library, err := keptC(Library,
				append([]string{"-std=c11", "-fPIC", "-shared", "-fvisibility=hidden", "-I", "."},
					how...), sources...)
			if err != nil {
				t.Skipf("skipped: this compiler has no such sanitizer: %v", err)
			}
			libs, err := fakecuda.Build(t.Context(), dir, "", how...)
			if err != nil {
				t.Fatal(err)
			}
			w := newWarden(t, 1<<30, 2*time.Millisecond)
			w.movable(4 << 20) // the rest goes to the folder
			w.gate(true)
			r := b.command(w, "2")
			r.Path = filepath.Join(libs, "bin", "moved")
			r.Args[0] = r.Path
			r.Env = append(os.Environ(), "WEIR_JOB="+w.token.String(), "WEIR_SOCKET="+w.path,
				"LD_LIBRARY_PATH="+libs, "WEIR_FAKE_DIR="+t.TempDir(), "WEIR_FAKE_CONTEXT=1MiB",
				"WEIR_SPILL="+t.TempDir(), "LD_PRELOAD="+library, "TSAN_OPTIONS=die_after_fork=0",
				"ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0")
			in := startMoved(t, w, r)
			done := w.churn(4, 1)
			if s := r.found(t, in); s.Wrong != 0 || s.Compared == 0 || done == 0 {
				t.Errorf("%d moves, %+v", done, s)
			}
			if r.err.Len() > 0 {
				t.Errorf("%s", clip(r.err.String()))
			}
		})
	}
}

// TestHostIsKept holds that memory of the host is kept for the next move, for which the program may
// have changed its memory or not, is no more than what was away, and is given back when others are
// to have it, as the page says.
func TestHostIsKept(t *testing.T) {
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.movable(1 << 30)
	w.gate(true)
	r, in := moved(t, w, t.TempDir(), "2", "20", "steady")
	s := w.page.Slot(0)
	w.await("the program allocates nothing", func() bool {
		return s.MovableBytes.Load() >= 40<<20
	})
	kept := func() uint64 { return s.HostBytes.Load() }
	for range 4 {
		away := w.away()
		if away.Code != wire.MovedAll || kept() != away.Bytes {
			t.Fatalf("%+v: %d on the host", away, kept())
		}
		if m := w.order(false, 1)[0]; m.Code != wire.MovedAll || kept() != away.Bytes {
			t.Fatalf("%+v: %d kept of %d", m, kept(), away.Bytes)
		}
		if own := unforked(t, r.Process.Pid); own < kept() {
			t.Errorf("%d of %d bytes are mapped by the library and not by the driver", own, kept())
		}
	}
	w.page.Header().MoveHostBytes.Store(0)
	w.page.WakeMove()
	w.await("the host's memory is not given back", func() bool { return kept() == 0 })
	if sum := r.found(t, in); sum.Wrong != 0 || sum.Compared == 0 {
		t.Errorf("%+v", sum)
	}
}

// unforked is how many bytes of a process are mapped such that a child does not get them, as the
// library maps what it pins.
func unforked(t *testing.T, pid int) (sum uint64) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		t.Fatal(err)
	}
	var kib uint64
	for line := range strings.Lines(string(maps)) {
		switch name, rest, _ := strings.Cut(line, ":"); name {
		case "Size":
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				t.Fatal(err)
			}
		case "VmFlags":
			if slices.Contains(strings.Fields(rest), "dc") {
				sum += kib << 10
			}
		}
	}
	return sum
}

// TestRefusedMoves holds that memory stays where it is, and right, when the host has no room for it
// or the device has none for its return.
func TestRefusedMoves(t *testing.T) {
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.movable(4 << 20)
	w.gate(true)
	dir := t.TempDir()
	t.Setenv("WEIR_FAKE_MEMORY", "160MiB")
	r, in := moved(t, w, dir, "2", "20")
	s := w.page.Slot(0)
	w.await("the program allocates nothing", func() bool {
		return s.MovableBytes.Load() >= 40<<20
	})
	m := w.order(true, 1)[0]
	for ; m.Code == wire.MovedBusy; m = w.order(true, 1)[0] {
		w.order(false, 1)
	}
	if m.Code != wire.MovedHost || m.Needs < 20<<20 || m.Has > 4<<20 || s.AwayBytes.Load() != 0 ||
		s.HostBytes.Load() != 0 {
		t.Errorf("moved to a host without room: %+v, %d away, %d on the host", m,
			s.AwayBytes.Load(), s.HostBytes.Load())
	}
	w.order(false, 1)
	w.page.Header().MoveHostBytes.Store(1 << 30)
	for m = w.order(true, 1)[0]; m.Code == wire.MovedBusy; m = w.order(true, 1)[0] {
		w.order(false, 1)
	}
	away := s.AwayBytes.Load()
	// Another program, of no job, takes the device.
	other := onFake(t, nil, dir, "hold", "110")
	room, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	other.start(t)
	if _, err := io.WriteString(room, "begin\n"); err != nil {
		t.Fatal(err)
	}
	w.await("nobody takes the device", func() bool { return fakeDevice(t, dir).Used >= 110<<20 })
	m = w.order(false, 1)[0]
	if m.Code != wire.MovedDevice || m.Needs != away || m.Has >= away ||
		s.AwayBytes.Load() != away {
		t.Errorf("moved to a device without room: %+v, %d of %d away", m, s.AwayBytes.Load(), away)
	}
	if m = w.order(true, 1)[0]; m.Code != wire.MovedAll {
		t.Errorf("what is away already: %+v", m)
	}
	_ = room.Close()
	_ = other.Process.Kill()
	_ = other.Wait()
	w.await("the memory does not come back", func() bool {
		return w.order(false, 1)[0].Code == wire.MovedAll
	})
	if got := r.found(t, in); got.Wrong != 0 || got.Compared == 0 {
		t.Errorf("%+v", got)
	}
}

// TestMovesAreTriedAgain holds that memory that could not come back when that was ordered does so
// without another order as soon as it can, and that none comes under an order to be away.
func TestMovesAreTriedAgain(t *testing.T) {
	folder := t.TempDir()
	w, r, ends := spilling(t, 0, folder, "2", "6")
	s := w.page.Slot(0)
	if m := w.away(); m.Code != wire.MovedAll {
		t.Fatalf("%+v", m)
	}
	f := spillFile(t, r.Process.Pid, folder)
	var first [1]byte
	if _, err := f.ReadAt(first[:], 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{^first[0]}, 0); err != nil {
		t.Fatal(err)
	}
	if m := w.order(false, 1)[0]; m.Code != wire.MovedDamaged || s.AwayBytes.Load() == 0 {
		t.Fatalf("%+v", m)
	}
	if _, err := f.WriteAt(first[:], 0); err != nil {
		t.Fatal(err)
	}
	w.await("it is not tried again", func() bool { return s.AwayBytes.Load() == 0 })
	if len(w.moved) > 0 {
		t.Errorf("answered what was not ordered: %+v", <-w.moved)
	}
	if sum := ends(); sum.Wrong != 0 || sum.Compared == 0 {
		t.Errorf("%+v", sum)
	}
}

// TestMovesWithoutAnAgent holds that memory comes back when the agent that ordered it away is dead,
// and goes away again if the same one goes on.
func TestMovesWithoutAnAgent(t *testing.T) {
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.movable(1 << 30)
	w.gate(true)
	r, in := moved(t, w, t.TempDir(), "2")
	w.churn(1, 1)
	for w.order(true, 1)[0].Code != wire.MovedAll {
		w.order(false, 1)
	}
	s := w.page.Slot(0)
	away := s.AwayBytes.Load()
	w.gate(false)
	w.stop()
	w.await("the memory does not come back", func() bool { return s.AwayBytes.Load() == 0 })
	launched := s.Launches.Load()
	w.await("the program does not go on", func() bool { return s.Launches.Load() > launched+10 })
	w.start()
	w.await("the memory does not go away again", func() bool { return s.AwayBytes.Load() > 0 })
	t.Logf("%d bytes away, then %d", away, s.AwayBytes.Load())
	<-w.moved
	w.order(false, 1)
	w.gate(true)
	if got := r.found(t, in); got.Wrong != 0 || got.Compared == 0 {
		t.Errorf("%+v", got)
	}
}

func lastLine(out string) string {
	lines := out
	for i := len(out) - 2; i >= 0; i-- {
		if out[i] == '\n' {
			return fmt.Sprint(out[i+1:])
		}
	}
	return lines
}
