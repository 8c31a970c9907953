package shim

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// randomCap is the job's cap, and the memory of the device where there is no job, so that both tell
// programs of as much.
const randomCap = 1 << 30

// TestRandomPrograms runs random programs (fakecuda/stress/random.c) with and without the library:
// what calls return and what memory holds is the same, none takes a second of the machine's time,
// and no byte stays counted. Each batch of seeds is another kind of device: exact, as hardware, or
// a mix; with one or more kernels at a time. WEIR_LONG=1 runs 100,000 programs.
func TestRandomPrograms(t *testing.T) {
	compiled(t)
	count, batch := 240, 40
	if long {
		count, batch = 100_000, 500
	}
	var worst, worstUnder float64
	ran := 0
	for from := 0; from < count && !t.Failed(); from += batch {
		profile := []string{"plain", "hardware", fmt.Sprintf("mix:%d", from)}[from/batch%3]
		device := []string{"WEIR_FAKE_PROFILE=" + profile, "WEIR_FAKE_MEMORY=1GiB",
			fmt.Sprintf("WEIR_FAKE_CONCURRENT=%d", 1+from/batch%4)}
		var alone, under seeds
		var wg sync.WaitGroup
		wg.Go(func() { alone = runSeeds(t, nil, device, from, batch) })
		wg.Go(func() { under = underLibrary(t, device, from, batch) })
		wg.Wait()
		for seed, want := range alone.digests {
			got, both := under.digests[seed]
			if both {
				ran++
			}
			if both && got != want {
				t.Errorf("seed %s on %s: %q under the library, %q without", seed, profile, got,
					want)
			}
		}
		worst, worstUnder = max(worst, alone.worst), max(worstUnder, under.worst)
		if done := from + batch; long && done%5000 == 0 {
			t.Logf("%d programs", ran)
		}
	}
	t.Logf("%d of %d programs ran; the longest took %.0f ms without the library, %.0f ms with it "+
		"(fake)", ran, count, worst, worstUnder)
}

// seeds is what the program random printed.
type seeds struct {
	digests map[string]string
	killed  map[uint32]bool
	worst   float64 // milliseconds
}

// runSeeds runs a batch on a device of its own, under the library if there is a warden.
func runSeeds(t *testing.T, w *warden, device []string, from, count int) seeds {
	got := seeds{map[string]string{}, map[uint32]bool{}, 0}
	dir := t.TempDir()
	r := onFake(t, w, dir, "random", fmt.Sprint(from), fmt.Sprint(count))
	r.Env = append(r.Env, device...)
	if w == nil {
		r.Env = append(r.Env, "LD_PRELOAD=")
	}
	if err := r.Run(); err != nil {
		t.Errorf("%v %v: %v\n%s", r.Args[1:], device, err, r.err.String())
	}
	for line := range strings.Lines(r.out.String()) {
		var pid uint32
		var seed, digest string
		var ms float64
		if _, err := fmt.Sscanf(line, "killed %d", &pid); err == nil {
			got.killed[pid] = true
			continue
		}
		if _, err := fmt.Sscan(line, &seed, &digest, &ms); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		got.digests[seed], got.worst = digest, max(got.worst, ms)
	}
	if len(got.digests) != count {
		t.Errorf("%v: %d results of %d programs", device, len(got.digests), count)
	}
	end := time.Now().Add(patience)
	for fakeDevice(t, dir).Used != 0 && time.Now().Before(end) {
	}
	if used := fakeDevice(t, dir).Used; used != 0 {
		t.Errorf("%v, seeds from %d: the device holds %d bytes at the end", device, from, used)
	}
	return got
}

// underLibrary runs a batch under the library, with the gate opened and closed meanwhile. A process
// that was not killed has given back all that was counted for it.
func underLibrary(t *testing.T, device []string, from, count int) seeds {
	w := newWarden(t, randomCap, 2*time.Millisecond)
	held := map[uint32]int64{}
	w.left = func(pid uint32, bytes int64) { held[pid] = bytes }
	w.gate(true)
	stop := churnGate(w)
	got := runSeeds(t, w, device, from, count)
	close(stop)
	w.stop()
	w.start() // the cleanup stops it again
	for pid, bytes := range held {
		if bytes != 0 && !got.killed[pid] {
			t.Errorf("%v, seeds from %d: process %d was counted for %d bytes at its end", device,
				from, pid, bytes)
		}
	}
	return got
}
