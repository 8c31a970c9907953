package fakecuda_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// segment is one line of smi's timeline.
type segment struct {
	start, end, busy int64
	pid              int
}

func (d device) timeline() []segment {
	d.t.Helper()
	var all []segment
	for line := range strings.Lines(d.run("smi", "timeline")) {
		var s segment
		if _, err := fmt.Sscan(line, &s.start, &s.end, &s.busy, &s.pid); err != nil {
			d.t.Fatalf("%v in %q", err, line)
		}
		all = append(all, s)
	}
	return all
}

// checkTimeline holds that the device served one process at a time, in order, for no longer than
// the time that passed.
func checkTimeline(t *testing.T, all []segment) (busy map[int]int64, wall int64) {
	t.Helper()
	busy = map[int]int64{}
	for i, s := range all {
		if s.busy <= 0 || s.end-s.start < s.busy || s.pid == 0 {
			t.Fatalf("segment %d: %+v", i, s)
		}
		if i > 0 && s.start < all[i-1].end {
			t.Fatalf("segment %d begins before the one before it ends: %+v, %+v", i, all[i-1], s)
		}
		busy[s.pid] += s.busy
	}
	if len(all) > 0 {
		wall = all[len(all)-1].end - all[0].start
	}
	return busy, wall
}

// Two processes that always have work share the device evenly, by time slices, and lose little to
// switching. On a busy host one of them may be kept from giving the device work: of several runs
// one must be even, and the accounts of all are exact.
func TestTimeSlices(t *testing.T) {
	const tries = 8
	var err error
	for range tries {
		if err = timeSlices(t, newDevice(t, driver(t), byValue)); err == nil || t.Failed() {
			break
		}
		t.Log(err)
	}
	if err != nil {
		t.Errorf("in none of %d runs: %v", tries, err)
	}
}

// timeSlices runs them once, and returns how they did not share.
func timeSlices(t *testing.T, d device) error {
	var wg sync.WaitGroup
	asked := make([]struct {
		DeviceUS int64 `json:"device_us"`
		WallUS   int64 `json:"wall_us"`
	}, 2)
	for i := range asked {
		wg.Go(func() { d.result(&asked[i], "launch_storm", "1.5", "500", "10000", "eager", "256") })
	}
	wg.Wait()
	all := d.timeline()
	busy, wall := checkTimeline(t, all)
	if len(busy) != 2 {
		t.Fatalf("%d processes ran, want 2", len(busy))
	}
	switches := d.checkAccounts(busy, wall, asked[0].DeviceUS+asked[1].DeviceUS)
	if switches < 100 {
		return fmt.Errorf("%d switches", switches)
	}
	return even(all, busy)
}

// checkAccounts holds that the device worked for as long as it was asked to, and returns how often
// it switched.
func (d device) checkAccounts(busy map[int]int64, wall, askedUS int64) uint64 {
	d.t.Helper()
	t := d.t
	var sum int64
	for _, ns := range busy {
		sum += ns
	}
	if want := askedUS * 1000; sum != want {
		t.Errorf("the device worked %d ns, the programs asked for %d", sum, want)
	}
	if sum > wall {
		t.Errorf("the device worked %d ns in %d", sum, wall)
	}
	l := d.ledger()
	if int64(l.BusyNS) != sum {
		t.Errorf("the ledger has %d ns busy, the timeline %d", l.BusyNS, sum)
	}
	return l.Switches
}

// even says how, while both had work, one got more than its turn.
func even(all []segment, busy map[int]int64) error {
	first, last := map[int]int64{}, map[int]int64{}
	for _, s := range all {
		if first[s.pid] == 0 {
			first[s.pid] = s.start
		}
		last[s.pid] = s.end
	}
	from, to := int64(0), int64(math.MaxInt64)
	for pid := range busy {
		from, to = max(from, first[pid]), min(to, last[pid])
	}
	both := map[int]int64{}
	for _, s := range all {
		if s.start >= from && s.end <= to {
			both[s.pid] += s.busy
		}
	}
	if len(both) != 2 {
		return errors.New("there was no time in which both had work")
	}
	for pid, ns := range both {
		if share := float64(ns) / float64(ns+others(both, pid)); share < 0.35 || share > 0.65 {
			return fmt.Errorf("process %d had %.2f of the device in the %v in which both had work",
				pid, share, time.Duration(to-from))
		}
	}
	return nil
}

func others(busy map[int]int64, pid int) (sum int64) {
	for p, ns := range busy {
		if p != pid {
			sum += ns
		}
	}
	return sum
}

// Processes are killed at random points of allocating, launching and computing the timeline.
// Nothing of them stays, the timeline stays in order, and the survivors go on.
func TestKill(t *testing.T) {
	kills := 200
	if testing.Short() {
		kills = 40
	}
	d := newDevice(t, driver(t), "WEIR_FAKE_CONTEXT=16MiB", byValue)
	rng := rand.New(rand.NewPCG(1, 2))
	programs := [][]string{
		{"alloc_storm", "1000000000", "256", "3"},
		{"launch_storm", "1000", "10", "500", "both"},
		{"threads", "4", "1000000"},
		{"train", "0", "50", "64"},
	}
	witness := d.command("train", "1000", "100", "64")
	start := func(args []string) *exec.Cmd {
		cmd := d.command(args[0], args[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	if err := witness.Start(); err != nil {
		t.Fatal(err)
	}
	running := make([]*exec.Cmd, 4)
	for i := range kills {
		at := i % len(running)
		if running[at] != nil {
			time.Sleep(time.Duration(rng.IntN(15)) * time.Millisecond)
			kill(t, running[at])
		}
		running[at] = start(programs[rng.IntN(len(programs))])
	}
	for _, cmd := range running {
		kill(t, cmd)
	}
	l := d.holds(witness.Process.Pid, 64<<20, 16<<20)
	before := l.BusyNS
	eventually(t, "the witness goes on", func() bool {
		return d.ledger().BusyNS > before+20_000_000
	})
	kill(t, witness)
	d.empty()
	checkTimeline(t, d.timeline())
	d.run("semantics")
}

// holds returns the ledger in which a process is alone, with so much memory and a context of so
// much, or of a quarter more, and a granule of code, where the device is not exact.
func (d device) holds(pid int, memory, context uint64) ledger {
	d.t.Helper()
	l := d.ledger()
	if !d.exact() {
		eventually(d.t, "others' memory is free", func() bool {
			l = d.ledger()
			return len(l.Processes) != 1 || l.Used == l.Processes[0].Memory+l.Processes[0].Context
		})
		context += context/4 + 2<<20
	}
	if len(l.Processes) != 1 || l.Processes[0].PID != pid || l.Processes[0].Memory != memory ||
		l.Processes[0].Context > context || l.Used != memory+l.Processes[0].Context ||
		d.exact() && l.Used != memory+context {
		d.t.Errorf("%+v: want process %d alone, with %d bytes and a context of %d", l, pid, memory,
			context)
	}
	return l
}

// kill ends a process that must not have ended by itself.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("%v ended by itself: %v", cmd.Args, err)
	}
}

// The work of a killed process stops at once: whoever waits behind it does not wait for its
// kernels.
func TestKillFreesTheDevice(t *testing.T) {
	d := newDevice(t, driver(t))
	const seconds = 600
	long := d.command("long_kernel", fmt.Sprint(seconds))
	if err := long.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kernel begins", func() bool { return d.ledger().BusyNS > 0 })
	kill(t, long)
	var got struct {
		Wall float64 `json:"wall_ms"`
	}
	d.result(&got, "long_kernel", "0.02")
	if got.Wall > seconds*1000/2 { // a busy host takes its time, too
		t.Errorf("a kernel of 20 ms took %v ms behind a dead process", got.Wall)
	}
	d.empty()
}

// Many processes come at once, and all are served.
func TestCrowd(t *testing.T) {
	d := newDevice(t, driver(t), "WEIR_FAKE_CONTEXT=1MiB")
	var got struct {
		Processes int
		MS        float64
	}
	d.result(&got, "crowd", "300")
	if got.Processes != 300 {
		t.Errorf("%d processes, want 300", got.Processes)
	}
	t.Logf("300 processes in %v ms", got.MS)
	d.empty()
}

// Kernels of one process run one at a time, or as many as the setting says.
func TestConcurrentKernels(t *testing.T) {
	for setting, want := range map[string]float64{"1": 80, "2": 40, "4": 20} {
		var got struct{ MS float64 }
		newDevice(t, driver(t), "WEIR_FAKE_CONCURRENT="+setting).result(&got, "parallel", "4", "20")
		if got.MS < want-0.01 || got.MS > want+0.01 {
			t.Errorf("%s at a time: four kernels of 20 ms took %v ms, want %v", setting, got.MS,
				want)
		}
	}
}

// The management library sees the same memory and processes as the ledger, and the links between
// two devices.
func TestMonitor(t *testing.T) {
	d := newDevice(t, driver(t), "WEIR_FAKE_GPUS=2", "WEIR_FAKE_MEMORY=2GiB")
	train := d.command("train", "1000", "200", "512")
	if err := train.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "training begins", func() bool { return d.ledger().BusyNS > 600_000_000 })
	held := d.holds(train.Process.Pid, 512<<20, 256<<20).Used
	lines := strings.Split(strings.TrimSpace(d.run("inspect")), "\n")
	kill(t, train)
	if len(lines) != 4 || lines[2] != "0 4" || lines[3] != "4 0" {
		t.Fatalf("got %q: want two devices and their links", lines)
	}
	var got [2]struct {
		Name      string
		UUID      string
		Total     uint64
		Used      uint64
		GPU       uint
		MIG       uint
		Processes map[string]uint64
	}
	for i := range got {
		decode(t, lines[i], &got[i])
	}
	pid := fmt.Sprint(train.Process.Pid)
	if got[0].Name != fakecuda.Name || got[0].Total != 2<<30 || got[0].Used != held ||
		got[0].Processes[pid] != held || got[0].MIG != 0 {
		t.Errorf("the busy device: %+v", got[0])
	}
	if got[0].GPU == 0 || got[0].GPU > 100 {
		t.Errorf("utilisation %d %% beside a training program", got[0].GPU)
	}
	if got[1].Used != 0 || got[1].GPU != 0 || len(got[1].Processes) != 0 ||
		got[1].UUID == got[0].UUID {
		t.Errorf("the idle device: %+v", got[1])
	}
	d.empty()
}

// A process that dies while it commits a step of the timeline leaves the state before it or after
// it.
func TestCrashWhileCommitting(t *testing.T) {
	newDevice(t, driver(t)).run("crash")
}
