package shim

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

// randomCap is the job's cap, and the memory of the device where there is no job, so that both tell
// programs of as much.
const randomCap = 1 << 30

var (
	randomFrom  = flag.Int("from", 0, "the random program to begin with, a multiple of 40")
	randomCount = flag.Int("programs", 0, "how many random programs; 0: 240, or all to 100,000")
)

// TestRandomPrograms runs random programs (fakecuda/stress/random.c) with and without the library:
// what calls return and what memory holds is the same, none takes a second of the machine's time,
// all that the device gives is counted, and no byte stays so. Each batch of seeds is another kind
// of device: exact, as hardware, or a mix; with one or more kernels at a time, and up to three
// programs. WEIR_LONG=1 runs them up to number 100,000, from -from on, and -programs so many.
func TestRandomPrograms(t *testing.T) {
	const batch = 40
	compiled(t)
	if _, err := fake(); err != nil {
		t.Fatal(err)
	}
	from, count := *randomFrom, 240
	if long {
		count = 100_000 - from
	}
	if *randomCount > 0 {
		count = *randomCount
	}
	var worst, worstUnder longest
	ran := 0
	for ; ran < count && !t.Failed(); ran += batch {
		b := kindOf(from+ran, batch)
		var alone, under *seeds
		var wg sync.WaitGroup
		wg.Go(func() { alone = b.run(t, nil) })
		wg.Go(func() { under = b.underLibrary(t) })
		wg.Wait()
		for seed, want := range alone.digests {
			if got, both := under.digests[seed]; both && got != want {
				t.Errorf("seed %s on %v: %q under the library, %q without", seed, b.device, got,
					want)
			}
		}
		worst.take(alone.worst)
		worstUnder.take(under.worst)
		if done := ran + batch; done%1000 == 0 {
			t.Logf("%d programs from %d on", done, from)
		}
	}
	t.Logf("%d programs from %d on; the longest took %v without the library, %v with it (fake)",
		ran, from, worst, worstUnder)
}

// longest is the program that took longest.
type longest struct {
	ms   float64
	seed string
}

func (l *longest) take(o longest) {
	if o.ms > l.ms {
		*l = o
	}
}

// String implements fmt.Stringer.
func (l longest) String() string { return fmt.Sprintf("%.0f ms (%s)", l.ms, l.seed) }

// randomBatch is some seeds and the device that their programs run on.
type randomBatch struct {
	from, count, abreast int
	device               []string
}

func kindOf(from, count int) randomBatch {
	n := from / count
	profile := []string{"plain", "hardware", fmt.Sprintf("mix:%d", from)}[n%3]
	return randomBatch{from, count, 1 + n/3%3, []string{"WEIR_FAKE_PROFILE=" + profile,
		fmt.Sprintf("WEIR_FAKE_CONCURRENT=%d", 1+n%4)}}
}

// TestKindsOfDevices: among the programs that are run every time are those of each profile, of
// mixes that differ, and each of them beside others and alone.
func TestKindsOfDevices(t *testing.T) {
	kinds := map[string]int{}
	for from := 0; from < 240; from += 40 {
		b := kindOf(from, 40)
		profile := strings.TrimPrefix(b.device[0], "WEIR_FAKE_PROFILE=")
		kinds[profile]++
		kind, _, _ := strings.Cut(profile, ":")
		kinds[fmt.Sprintf("%s beside %d", kind, b.abreast-1)]++
	}
	for _, want := range []string{"plain", "hardware", "mix:80", "mix:200", "plain beside 0",
		"plain beside 1", "hardware beside 0", "hardware beside 1", "mix beside 0",
		"mix beside 1"} {
		if kinds[want] == 0 {
			t.Errorf("no program on %s: %v", want, kinds)
		}
	}
}

// seeds is what the program random printed.
type seeds struct {
	mu      sync.Mutex
	digests map[string]string
	did     map[uint32]did // by process
	killed  map[uint32]bool
	forked  []uint32
	worst   longest
}

// did is what a process has done, by its own account or by the library's.
type did struct {
	copied, graphs uint64 // bytes of large copies, and launches
}

// run runs the batch on a device of its own, under the library if there is a warden. With it the
// device has more memory than the job may hold, so that what is free is by the job's account.
func (b randomBatch) run(t *testing.T, w *warden) *seeds {
	got := &seeds{digests: map[string]string{}, did: map[uint32]did{}, killed: map[uint32]bool{}}
	dir := t.TempDir()
	memory := uint64(randomCap)
	var page *wire.Page
	if w != nil {
		memory *= 2
		page = w.page
	}
	var wg sync.WaitGroup
	for i := range b.abreast {
		from, to := b.count*i/b.abreast, b.count*(i+1)/b.abreast
		args := []string{fmt.Sprint(b.from + from), fmt.Sprint(to - from), "1000"}
		if w != nil && b.abreast == 1 {
			args = append(args, "job")
		}
		r := onFake(t, w, dir, "random", args...)
		r.Env = append(append(r.Env, b.device...), fmt.Sprint("WEIR_FAKE_MEMORY=", memory))
		if w == nil {
			r.Env = append(r.Env, "LD_PRELOAD=")
		}
		wg.Go(func() {
			err := r.Start()
			if err != nil {
				t.Error(err)
				return
			}
			l := lookAt(r.Process.Pid, page)
			err = r.Wait()
			if said := l.stop(); err != nil {
				t.Errorf("%v %v: %v\n%s%s", r.Args[1:], b.device, err, r.err.String(), said)
			}
			got.read(t, r.out.String())
		})
	}
	wg.Wait()
	if len(got.digests) != b.count {
		t.Errorf("%v: %d results of %d programs", b.device, len(got.digests), b.count)
	}
	end := time.Now().Add(patience)
	for fakeDevice(t, dir).Used != 0 && time.Now().Before(end) {
	}
	if used := fakeDevice(t, dir).Used; used != 0 {
		t.Errorf("%v, seeds from %d: the device holds %d bytes at the end", b.device, b.from, used)
	}
	return got
}

func (s *seeds) read(t *testing.T, out string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(out) {
		var pid uint32
		var seed, digest string
		var ms float64
		var d did
		if _, err := fmt.Sscanf(line, "killed %d", &pid); err == nil {
			s.killed[pid] = true
			continue
		}
		if _, err := fmt.Sscanf(line, "forked %d", &pid); err == nil {
			s.forked = append(s.forked, pid)
			continue
		}
		if _, err := fmt.Sscan(line, &seed, &digest, &ms, &pid, &d.copied, &d.graphs); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		s.digests[seed], s.did[pid] = digest, d
		s.worst.take(longest{ms, seed})
	}
}

// underLibrary runs the batch under the library, with the gate opened and closed meanwhile. A
// process that was not killed has given back all that was counted for it, and nobody waits there. A
// forked one has a slot of its own.
func (b randomBatch) underLibrary(t *testing.T) *seeds {
	type state struct {
		used, pending, contexts int64
		waiting, stalled        uint32
	}
	states, says := map[uint32]state{}, map[uint32]did{}
	w := newWarden(t, randomCap, 2*time.Millisecond, func(w *warden) {
		w.left = func(pid uint32, s *wire.Slot) {
			states[pid] = state{int64(s.MemUsedBytes.Load()), int64(s.MemPendingBytes.Load()),
				int64(s.MemContextBytes.Load()), s.Waiting.Load(), s.Stalled.Load()}
			says[pid] = did{s.CopiesBytes.Load(), s.GraphLaunches.Load()}
		}
	})
	w.gate(true)
	stop := churnGate(w)
	got := b.run(t, w)
	close(stop)
	w.stop()
	w.start() // the cleanup stops it again
	for pid, s := range states {
		if s != (state{}) && !got.killed[pid] {
			t.Errorf("%v, seeds from %d: process %d at its end: %+v", b.device, b.from, pid, s)
		}
	}
	for _, pid := range got.forked {
		if _, known := states[pid]; !known {
			t.Errorf("%v, seeds from %d: the forked process %d has no slot", b.device, b.from, pid)
		}
	}
	for pid, want := range got.did {
		if says[pid] != want {
			t.Errorf("%v, seeds from %d: process %d: told of %+v, not %+v", b.device, b.from, pid,
				says[pid], want)
		}
	}
	return got
}
