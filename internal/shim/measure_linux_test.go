package shim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

// growing is the fake driver's program grow.
type growing struct {
	*running
	in   io.WriteCloser
	said *bufio.Scanner
}

// oneSize has every context take as much: in the profile of hardware each takes another amount, and
// these tests hold by value what is left beside a known number of them. TestContextsOfSeveralSizes
// has the others.
const oneSize = "WEIR_FAKE_CONTEXT_SPREAD=0"

func startGrow(t *testing.T, w *warden, dir, how string, n int, env ...string) *growing {
	t.Helper()
	r := onFake(t, w, dir, "grow", how, fmt.Sprint(n))
	r.Env = append(append(r.Env, oneSize), env...)
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
	kill := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
	t.Cleanup(func() { kill.Stop() })
	return &growing{r, in, bufio.NewScanner(out)}
}

// next is the result of what the program did, and what it is told is free.
func (g *growing) next(t *testing.T) (result int, free uint64) {
	t.Helper()
	var got struct {
		Result int
		Free   uint64
	}
	if !g.said.Scan() {
		t.Fatalf("%v: ended: %s", g.Args[1:], g.running.err.String())
	}
	if err := json.Unmarshal(g.said.Bytes(), &got); err != nil {
		t.Fatalf("%q: %v", g.said.Text(), err)
	}
	return got.Result, got.Free
}

func (g *growing) alloc(t *testing.T, mib int) (result int, free uint64) {
	t.Helper()
	return g.tell(t, fmt.Sprint(mib))
}

func (g *growing) tell(t *testing.T, line string) (result int, free uint64) {
	t.Helper()
	if _, err := fmt.Fprintln(g.in, line); err != nil {
		t.Fatal(err)
	}
	return g.next(t)
}

const (
	fakeContext = 16 << 20
	outOfMemory = 2
)

// TestStacksAreCounted sets limits on the stacks of 131,072 threads.
func TestStacksAreCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ bytes, result, free int }{
		{1024, 0, fakeCap - fakeContext},
		{1536, 0, fakeCap - fakeContext - 64<<20},
		{512, 0, fakeCap - fakeContext},
		{64 << 10, outOfMemory, fakeCap - fakeContext},
	} {
		w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
		g := startGrow(t, w, dir, "stack", c.bytes, "WEIR_FAKE_STACK=1")
		if r, free := g.next(t); r != c.result || free != uint64(c.free) {
			t.Errorf("stacks of %d bytes: result %d, %d free, want %d, %d", c.bytes, r, free,
				c.result, c.free)
		}
		if r, free := g.alloc(t, c.free>>20); r != 0 || free != 0 {
			t.Errorf("stacks of %d bytes: the rest: result %d, %d free", c.bytes, r, free)
		}
		if d := fakeDevice(t, dir); d.Peak > fakeCap {
			t.Errorf("stacks of %d bytes: the device held %d, of %d", c.bytes, d.Peak, fakeCap)
		}
	}
}

// TestLoadedCodeIsCounted loads functions, of which no call says what they take.
func TestLoadedCodeIsCounted(t *testing.T) {
	t.Parallel()
	w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
	g := startGrow(t, w, dir, "load", 4, "WEIR_FAKE_LAZY_BYTES=8MiB")
	if r, _ := g.next(t); r != 0 {
		t.Fatalf("result %d", r)
	}
	const rest = fakeCap - fakeContext - 4*8<<20
	if r, _ := g.alloc(t, rest>>20+1); r != outOfMemory {
		t.Errorf("more than is left: result %d", r)
	}
	if r, free := g.alloc(t, rest>>20); r != 0 || free != 0 {
		t.Errorf("what is left: result %d, %d free", r, free)
	}
	if d := fakeDevice(t, dir); d.Peak > fakeCap {
		t.Errorf("the device held %d bytes at most, of %d", d.Peak, fakeCap)
	}
}

// TestModulesAreCounted loads modules with variables.
func TestModulesAreCounted(t *testing.T) {
	t.Parallel()
	const rest = fakeCap - fakeContext
	for bytes, want := range map[int]int{64 << 20: 0, rest - 1<<20: 0, rest + 1: outOfMemory} {
		w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
		g := startGrow(t, w, dir, "module", bytes)
		r, free := g.next(t)
		if d := fakeDevice(t, dir); r != want || free != fakeCap-d.Used {
			t.Errorf("a variable of %d bytes: result %d, %d free, want %d, %d", bytes, r, free,
				want, fakeCap-d.Used)
		}
	}
}

// TestGreenContextsCount holds that the primary context counts that the first of them retains.
func TestGreenContextsCount(t *testing.T) {
	t.Parallel()
	w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
	g := startGrow(t, w, dir, "green", 3)
	r, free := g.next(t)
	if d := fakeDevice(t, dir); r != 0 || free != fakeCap-fakeContext || d.Used != fakeContext {
		t.Errorf("result %d, %d free, want %d; the device holds %d", r, free, fakeCap-fakeContext,
			d.Used)
	}
}

// TestContextsMadeThroughTables makes contexts by calls that no library in between can see.
func TestContextsMadeThroughTables(t *testing.T) {
	t.Parallel()
	w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
	g := startGrow(t, w, dir, "table", 2)
	if r, _ := g.next(t); r != 0 {
		t.Fatalf("result %d", r)
	}
	const rest = fakeCap - 3*fakeContext
	if r, free := g.alloc(t, rest>>20+1); r != outOfMemory || free != rest {
		t.Errorf("more than is left: result %d, %d free, want %d", r, free, rest)
	}
	if r, free := g.alloc(t, rest>>20); r != 0 || free != 0 {
		t.Errorf("what is left: result %d, %d free", r, free)
	}
}

// TestContextsOfSeveralSizes makes contexts that take other amounts in each process: of all of them
// counts what the device gave.
func TestContextsOfSeveralSizes(t *testing.T) {
	t.Parallel()
	w, dir := newWarden(t, 2*fakeCap, 2*time.Millisecond), t.TempDir()
	spread := false
	for n := 0; n < 6 && !spread; n++ { // processes whose numbers follow each other differ
		g := startGrow(t, w, dir, "context", 2, "WEIR_FAKE_CONTEXT_SPREAD=25")
		r, free := g.next(t)
		d, held := fakeDevice(t, dir), w.page.Slot(uint32(n)).MemContextBytes.Load()
		if r != 0 || free != 2*fakeCap-d.Used || d.Used != w.page.MemoryHeld() {
			t.Fatalf("process %d: result %d, %d free, %d count; the device holds %d", n, r, free,
				w.page.MemoryHeld(), d.Used)
		}
		spread = held != 2*fakeContext
	}
	if !spread {
		t.Error("all contexts take as much")
	}
}

// TestContextsInAContainer has a process ask the agent what it holds, because its own management
// library does not see it, also where a busy host keeps the agent from a processor for a while.
func TestContextsInAContainer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		blind   string
		answers bool
		takes   time.Duration
		count   uint64
	}{
		{"agent that measures", "1", true, 0, 2}, {"agent that does not", "1", false, 0, 0},
		{"NVML that says nothing, and an agent that measures", "zero", true, 0, 2},
		{"NVML that says nothing", "zero", false, 0, 0},
		{"agent that is slow", "1", true, 300 * time.Millisecond, 2},
	} {
		onProfiles(t, c.name, func(t *testing.T, profile string) {
			t.Parallel()
			dir := t.TempDir()
			held := fakeMeter(t, dir)
			w := newWarden(t, fakeCap, 2*time.Millisecond, func(w *warden) {
				if c.answers {
					w.holds = func() uint64 {
						time.Sleep(c.takes)
						return held()
					}
				}
			})
			g := startGrow(t, w, dir, "context", 2, "WEIR_FAKE_NVML_BLIND="+c.blind, profile)
			if r, free := g.next(t); r != 0 || free != fakeCap-c.count*fakeContext {
				t.Errorf("result %d, %d free, want %d contexts counted", r, free, c.count)
			}
			if !c.answers && w.page.Header().ContextBytes.Load() != wire.ContextUnmeasured {
				t.Error("contexts are said to have been measured")
			}
		})
	}
}

// TestAnswersThatComeTooLate has an agent that leaves questions without an answer: the program goes
// on, with a context that counts for nothing. Once the agent answers again, an allocation counts
// it, and a module that was loaded meanwhile.
func TestAnswersThatComeTooLate(t *testing.T) {
	t.Parallel()
	const total uint64 = 8 << 30 // room until a question is due again, a second after the last
	for how, c := range map[string]struct {
		n      int
		counts uint64
	}{"context": {1, fakeContext}, "module": {40 << 20, fakeContext + 40<<20}} {
		dir := t.TempDir()
		w := newWarden(t, total, 2*time.Millisecond, func(w *warden) {
			w.holds = fakeMeter(t, dir)
			w.silent.Store(true)
		})
		g := startGrow(t, w, dir, how, c.n, "WEIR_FAKE_NVML_BLIND=1",
			"WEIR_FAKE_MEMORY=16GiB")
		if r, free := g.next(t); r != 0 || free != total {
			t.Errorf("%s: while the agent is silent: result %d, %d free", how, r, free)
		}
		w.silent.Store(false)
		counts := c.counts
		until(t, how+" counts", func() bool {
			r, free := g.alloc(t, 2)
			if r != 0 {
				t.Fatalf("%s: result %d, %d free, and it does not count", how, r, free)
			}
			counts += 2 << 20
			return total-free >= counts
		})
	}
}

// TestSmallAllocationsShareBlocks counts a granule once for small allocations in it.
func TestSmallAllocationsShareBlocks(t *testing.T) {
	t.Parallel()
	w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
	g := startGrow(t, w, dir, "context", 1, "WEIR_FAKE_GRANULE=2MiB")
	if r, free := g.next(t); r != 0 || free != fakeCap-fakeContext {
		t.Fatalf("result %d, %d free", r, free)
	}
	free := uint64(fakeCap - fakeContext)
	for i, c := range []struct {
		mib  int
		less uint64
	}{{1, 2 << 20}, {1, 0}, {1, 2 << 20}, {3, 4 << 20}, {1, 0}, {2, 2 << 20}} {
		free -= c.less
		if r, got := g.alloc(t, c.mib); r != 0 || got != free {
			t.Errorf("%d: %d MiB: result %d, %d free, want %d", i, c.mib, r, got, free)
		}
	}
	if d := fakeDevice(t, dir); d.Used != fakeCap-free {
		t.Errorf("the device holds %d bytes, the ledger %d", d.Used, fakeCap-free)
	}
}

// TestMemoryOnAnotherDevice holds that memory without a context is had only of the job's device.
func TestMemoryOnAnotherDevice(t *testing.T) {
	t.Parallel()
	for device, want := range []int{0, 101} {
		w := newWarden(t, fakeCap, 2*time.Millisecond)
		terms := wire.Terms{Token: w.token, Name: "test", MemCap: fakeCap, MemTotal: fakeCap,
			InFlight: 2 * time.Millisecond}
		copy(terms.UUID[:], "weir fake GPU")
		w.page.SetTerms(terms)
		g := startGrow(t, w, t.TempDir(), "create", device, "WEIR_FAKE_GPUS=2")
		if r, _ := g.next(t); r != want {
			t.Errorf("memory on device %d: result %d, want %d", device, r, want)
		}
	}
}

// TestWhatIsNotUndoneCounts loads code of more bytes than the cap has: whichever call asks for more
// memory is refused from when that is seen, also when it asks again at once.
func TestWhatIsNotUndoneCounts(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"", "c", "p"} {
		w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
		g := startGrow(t, w, dir, "load", 3, "WEIR_FAKE_LAZY_BYTES=40MiB")
		g.next(t)
		const most = 40
		granted, refused := 0, 0
		for granted+refused < most {
			switch r, _ := g.tell(t, call+"2"); r {
			case 0:
				granted++
			case outOfMemory:
				refused++
			default:
				t.Fatalf("%q: result %d", call, r)
			}
			if refused > 0 && granted+refused < most && g.stays(t, call) > 0 {
				t.Errorf("%q: what was refused was granted when asked for again", call)
				break
			}
		}
		if refused == 0 {
			t.Errorf("%q: no memory was refused", call)
		}
	}
}

// stays counts how often a request that was refused is granted.
func (g *growing) stays(t *testing.T, call string) (granted int) {
	t.Helper()
	for range 20 {
		if r, _ := g.tell(t, call+"2"); r == 0 {
			granted++
		}
	}
	return granted
}

// TestUnloadedModulesCountNoMore unloads a module just after it was measured.
func TestUnloadedModulesCountNoMore(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"", "c", "p"} {
		w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
		g := startGrow(t, w, dir, "context", 1)
		g.next(t)
		if r, _ := g.tell(t, "u64"); r != 0 {
			t.Fatalf("module: result %d", r)
		}
		if r, _ := g.tell(t, call+"96"); r != 0 {
			t.Errorf("%q: what a module had gave back: result %d", call, r)
		}
	}
}

// TestManyPools has more pools at once than programs do, and one that cannot be destroyed.
func TestManyPools(t *testing.T) {
	t.Parallel()
	const cap, pools = 8 * fakeCap, 300
	w, dir := newWarden(t, cap, 2*time.Millisecond), t.TempDir()
	g := startGrow(t, w, dir, "pools", pools)
	for i, want := range []uint64{pools * 2 << 20, 0, 2 << 20} {
		want = cap - fakeContext - want
		if r, free := g.next(t); r != 0 || free != want {
			t.Errorf("%d: result %d, %d free, want %d", i, r, free, want)
		}
	}
}

// TestFoundMemoryCounts writes what an agent finds beyond what a process counts.
func TestFoundMemoryCounts(t *testing.T) {
	t.Parallel()
	w, dir := newWarden(t, fakeCap, 2*time.Millisecond), t.TempDir()
	g := startGrow(t, w, dir, "context", 1)
	g.next(t)
	w.page.Slot(0).FoundBytes.Store(32 << 20)
	const rest = fakeCap - fakeContext - 32<<20
	if r, free := g.alloc(t, rest>>20+1); r != outOfMemory || free != rest {
		t.Errorf("more than is left: result %d, %d free", r, free)
	}
	if r, free := g.alloc(t, rest>>20); r != 0 || free != 0 {
		t.Errorf("what is left: result %d, %d free", r, free)
	}
}
