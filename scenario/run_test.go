package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/clock"
	"github.com/weirgpu/weir/internal/trace"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// TestRunAllPhases runs two real networks alone, as goroutine pools and under two policies, and
// holds what must be true whatever the machine's speed.
func TestRunAllPhases(t *testing.T) {
	// Iteration counts end the phases; the duration only bounds a run that hangs.
	s := &Scenario{Duration: time.Minute, Seed: 3, Jobs: []Job{
		{Job: share.Job{Name: "a", Iterations: 40,
			Share: share.Share{Class: share.Latency, Compute: 0.4}}, Model: "a",
			Graph: vision(t, "mobilenetv2"), Arrival: Arrival{Poisson: 1000}},
		{Job: share.Job{Name: "b", Iterations: 20, Share: share.Share{Class: share.Opportunistic}},
			Model: "b", Graph: vision(t, "resnet50"), Arrival: Arrival{Closed: 2}},
	}}
	var stages []string
	rec := trace.New(clock.NewReal(), 1<<16)
	res := run1(t, s, Options{Threads: 2, Solo: true, Compare: []Mode{Threads},
		Policies: []string{"priority", "fair"}, Trace: rec, Progress: func(stage string) {
			stages = append(stages, stage)
		}})
	var modes []Mode
	for _, p := range res.Phases {
		modes = append(modes, p.Mode)
		checkPhase(t, &p)
	}
	if len(modes) != 4 || modes[0] != Solo || modes[1] != Threads || modes[2] != Shared ||
		modes[3] != Shared {
		t.Fatalf("phases are %v", modes)
	}
	if res.Policy != "fair" || res.Mode != Shared || res.Phases[2].Policy != "priority" ||
		res.Threads != 2 {
		t.Errorf("the result tells of %s %s on %d threads", res.Mode, res.Policy, res.Threads)
	}
	want := []string{"compiling a", "compiling b", "alone: a", "alone: b", "together, threads",
		"alone: a", "alone: b", "together, policy priority", "alone: a", "alone: b",
		"together, policy fair", "alone: a", "alone: b"}
	if got := strings.Join(stages, "; "); got != strings.Join(want, "; ") {
		t.Errorf("stages are %s", got)
	}
	checkTrace(t, rec)
}

// TestLoadBecomesARate measures a job whose iterations take a millisecond or more: 0.3 of the
// device is at most 300 a second.
func TestLoadBecomesARate(t *testing.T) {
	j := closedJob("a", denseGraph(t), 1)
	j.Arrival = Arrival{Load: 0.3}
	s := &Scenario{Jobs: []Job{j}}
	slow := func(_ string, it iterate) iterate {
		return func(ctx context.Context, g device.Gate) error {
			time.Sleep(time.Millisecond)
			return it(ctx, g)
		}
	}
	var perS float64
	if _, err := fmt.Sscanf(run1(t, s, Options{Threads: 1, wrap: slow}).Jobs[0].Arrival,
		"poisson %g/s", &perS); err != nil || perS <= 0 || perS > 300 {
		t.Errorf("a load became %v a second, %v", perS, err)
	}
	if s.Jobs[0].Arrival.Load != 0.3 {
		t.Error("the caller's scenario was changed")
	}
}

// checkPhase holds a phase's figures against each other.
func checkPhase(t *testing.T, p *Phase) {
	t.Helper()
	var shares float64
	for i, j := range p.Jobs {
		if j.Status != StatusDone || j.Error != "" {
			t.Errorf("%s %s: %s is %s: %s", p.Mode, p.Policy, j.Name, j.Status, j.Error)
		}
		if j.Iterations == 0 || int(j.Iterations) != len(j.Latencies) || j.IterationsPerS <= 0 {
			t.Errorf("%s: %s has %d iterations and %d latencies", p.Mode, j.Name, j.Iterations,
				len(j.Latencies))
		}
		if l := j.Latency; l.P50 <= 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.Max {
			t.Errorf("%s: %s has latencies %+v", p.Mode, j.Name, l)
		}
		if j.MemoryPeakBytes != j.PlanBytes || j.PlanBytes == 0 {
			t.Errorf("%s: %s held %d bytes, planned %d", p.Mode, j.Name, j.MemoryPeakBytes,
				j.PlanBytes)
		}
		if p.Mode == Shared || p.Mode == Solo {
			shares += j.DeviceShare
			if j.DeviceShare <= 0 || j.DeviceShare > 1.001 {
				t.Errorf("%s: %s held the device for %v of the time", p.Mode, j.Name, j.DeviceShare)
			}
		}
		if p.Mode != Solo && (math.Abs(j.Slowdown-j.SoloPerS/j.IterationsPerS) > 1e-9 ||
			j.SoloLatency.P50 <= 0 || j.SoloDeviceShare <= 0) {
			t.Errorf("%s: %s is compared with alone as %v", p.Mode, p.Jobs[i].Name, j.Slowdown)
		}
	}
	if p.Mode == Shared && shares > 1.001 {
		t.Errorf("%s: the device was held for %v of the time", p.Policy, shares)
	}
	together := false
	if row, err := policy.Find(p.Policy); err == nil {
		together = row.Needs.Overlap || row.Needs.Partition
	}
	for i, h := range p.Holds {
		early := i > 0 && h.From < p.Holds[i-1].To && !together
		if h.From > h.To || h.Job < 0 || h.Job >= len(p.Jobs) || early {
			t.Errorf("%s: hold %d is %+v after %+v", p.Policy, i, h, p.Holds[max(0, i-1)])
		}
	}
	if (p.Mode == Shared) != (len(p.Memory) > 0) || (p.Mode == Shared) != (len(p.Holds) > 0) {
		t.Errorf("%s: %d holds, %d looks at memory", p.Mode, len(p.Holds), len(p.Memory))
	}
}

// checkTrace holds that the trace is JSON with leases, iterations and memory of both policies.
func checkTrace(t *testing.T, rec *trace.Recorder) {
	t.Helper()
	var b bytes.Buffer
	if err := rec.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []struct {
			Name string
			Dur  float64
			Args map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, e := range file.TraceEvents {
		names[e.Name]++
		if e.Dur < 0 {
			t.Errorf("%s lasts %v", e.Name, e.Dur)
		}
		if name, ok := e.Args["name"].(string); ok {
			names[name]++
		}
	}
	for _, want := range []string{"lease", "iteration done", "memory of a", "policy priority",
		"policy fair"} {
		if names[want] == 0 {
			t.Errorf("the trace has no %q", want)
		}
	}
}

// TestResultJSON holds the fields that scripts rely on.
func TestResultJSON(t *testing.T) {
	s := &Scenario{Jobs: []Job{closedJob("a", denseGraph(t), 5)}}
	text, err := json.Marshal(run1(t, s, Options{Threads: 1, Solo: true}))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"device", "policy", "wall_s", "jobs", "throughput_vs_solo",
		"phases"} {
		if _, ok := got[key]; !ok {
			t.Errorf("no %s in %s", key, text)
		}
	}
	job := got["jobs"].([]any)[0].(map[string]any)
	for _, key := range []string{"name", "class", "compute", "limit", "memory_cap_bytes",
		"memory_peak_bytes", "device_seconds", "device_share",
		"share_error_p95", "forecast_error", "iterations",
		"iterations_per_s", "solo_iterations_per_s", "slowdown",
		"latency_ms", "solo_latency_ms", "completion_s", "status"} {
		if _, ok := job[key]; !ok {
			t.Errorf("no %s of a job in %s", key, text)
		}
	}
	if e, ok := job["forecast_error"].(float64); !ok || e <= 0 {
		t.Errorf("forecast_error is %v: no measured time is exactly the plan's", e)
	}
	for _, key := range []string{"p50", "p90", "p99"} {
		if v, ok := job["latency_ms"].(map[string]any)[key].(float64); !ok || v <= 0 {
			t.Errorf("latency_ms.%s is %v", key, v)
		}
	}
	if job["iterations"] != 5.0 || job["status"] != "done" || job["class"] != "standard" {
		t.Errorf("the job is %v", job)
	}
}

// TestRefusedJob gives a job a byte less than it needs: it is refused with both numbers, in every
// phase, and its neighbour does all its iterations.
func TestRefusedJob(t *testing.T) {
	g := vision(t, "resnet50")
	probe, err := prepare(t.Context(), closedJob("probe", g, 1), nil, kernels.Target(device.Info{}),
		2, 1)
	if err != nil {
		t.Fatal(err)
	}
	need := share.Bytes(probe.need())
	big := closedJob("big", g, 3)
	big.Memory = need - 1
	for _, arrival := range []Arrival{{Closed: 1}, {Load: 0.5}} {
		big.Arrival = arrival
		res := run1(t, &Scenario{Jobs: []Job{big, closedJob("small", denseGraph(t), 30)}},
			Options{Threads: 2, Solo: true, Compare: []Mode{Threads}})
		for _, p := range res.Phases {
			j, neighbour := p.Jobs[0], p.Jobs[1]
			if j.Status != StatusRefused || !strings.Contains(j.Error, need.About()) ||
				!strings.Contains(j.Error, (need-1).About()) {
				t.Errorf("%s: %s, %q; want refused with %v and %v", p.Mode, j.Status, j.Error, need,
					need-1)
			}
			if j.MemoryPeakBytes != 0 || j.Iterations != 0 {
				t.Errorf("%s: the refused job held %d bytes and ran %d times", p.Mode,
					j.MemoryPeakBytes, j.Iterations)
			}
			if neighbour.Status != StatusDone || neighbour.Iterations != 30 {
				t.Errorf("%s: the neighbour is %s after %d iterations", p.Mode, neighbour.Status,
					neighbour.Iterations)
			}
		}
	}
	big.Memory, big.Arrival = need, Arrival{Closed: 1}
	if j := run1(t, &Scenario{Jobs: []Job{big}},
		Options{Threads: 2}).Jobs[0]; j.Status != StatusDone || j.MemoryPeakBytes != int64(need) {
		t.Errorf("with all it needs: %s, %d of %d bytes, %s", j.Status, j.MemoryPeakBytes, need,
			j.Error)
	}
}

// TestRefusedGuarantee promises more than the device.
func TestRefusedGuarantee(t *testing.T) {
	a, b := closedJob("a", denseGraph(t), 3), closedJob("b", denseGraph(t), 3)
	a.Compute, b.Compute = 0.7, 0.4
	res := run1(t, &Scenario{Jobs: []Job{a, b}}, Options{Threads: 1})
	if a, b := res.Jobs[0], res.Jobs[1]; a.Status != StatusDone || b.Status != StatusRefused ||
		!strings.Contains(b.Error, "0.3") {
		t.Errorf("%s; %s: %s", a.Status, b.Status, b.Error)
	}
}

// TestFaultStaysInItsJob breaks one of three jobs, in several ways and at several times, in every
// mode.
func TestFaultStaysInItsJob(t *testing.T) {
	bad := closedJob("bad", gatherGraph(t), 40)
	bad.Given = indices(0, 9)
	good := closedJob("bad", gatherGraph(t), 40)
	good.Given = indices(0, 3)
	panics := func(at int64) func(string, iterate) iterate {
		return func(job string, it iterate) iterate {
			var n atomic.Int64
			return func(ctx context.Context, g device.Gate) error {
				if job == "bad" && n.Add(1) == at {
					panic("a kernel is broken")
				}
				return it(ctx, g)
			}
		}
	}
	for _, c := range []struct {
		name string
		job  Job
		wrap func(string, iterate) iterate
		want string
		ran  int64
	}{
		{"bad request", bad, nil, "9", 0},
		{"panic while loading", good, panics(1), "a kernel is broken", 0},
		{"panic while running", good, panics(8), "a kernel is broken", 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			o := Options{Threads: 2, Compare: []Mode{Threads}, Solo: true, wrap: c.wrap,
				Log: slog.New(slog.NewTextHandler(&log, nil))}
			res := run1(t, &Scenario{
				Jobs: []Job{closedJob("first", denseGraph(t), 200), c.job,
					closedJob("last", vision(t, "mobilenetv2"), 5)}}, o)
			for _, p := range res.Phases {
				j := p.Jobs[1]
				if j.Status != StatusFailed || !strings.Contains(j.Error, c.want) ||
					strings.Contains(j.Error, "\n") || j.Iterations != c.ran {
					t.Errorf("%s: %s after %d iterations: %q", p.Mode, j.Status, j.Iterations,
						j.Error)
				}
				if a, b := p.Jobs[0], p.Jobs[2]; a.Status != StatusDone || a.Iterations != 200 ||
					b.Status != StatusDone || b.Iterations != 5 {
					t.Errorf("%s: neighbours are %s after %d and %s after %d", p.Mode, a.Status,
						a.Iterations, b.Status, b.Iterations)
				}
			}
			if !strings.Contains(log.String(), "job=bad") {
				t.Errorf("the log says nothing: %s", log.String())
			}
			if c.wrap != nil && !strings.Contains(log.String(), "goroutine") {
				t.Error("the log has no stack of the fault")
			}
		})
	}
}

// TestFaultWhileCalibrating breaks a job whose arrival rate has to be measured first.
func TestFaultWhileCalibrating(t *testing.T) {
	bad := closedJob("bad", gatherGraph(t), 4)
	bad.Given, bad.Arrival = indices(-7, 0), Arrival{Load: 0.2}
	res := run1(t, &Scenario{Jobs: []Job{bad, closedJob("good", denseGraph(t), 10)}},
		Options{Threads: 1})
	if j := res.Jobs[0]; j.Status != StatusFailed || !strings.Contains(j.Error, "-7") {
		t.Errorf("%s: %s", j.Status, j.Error)
	}
	if j := res.Jobs[1]; j.Status != StatusDone || j.Iterations != 10 {
		t.Errorf("the neighbour is %s after %d iterations", j.Status, j.Iterations)
	}
}

// TestFaultIsTyped holds that a panic keeps its kind up to the log.
func TestFaultIsTyped(t *testing.T) {
	var err error
	func() {
		defer recovered("a", &err)
		panic("x")
	}()
	if !errors.Is(err, engine.ErrFault) || !strings.HasPrefix(err.Error(), "job a: ") {
		t.Errorf("got %v", err)
	}
}

// TestDataDependentMemory gives a job whose values depend on data just its plan's need, and then
// enough.
func TestDataDependentMemory(t *testing.T) {
	j := closedJob("where", nonzeroGraph(t), 3)
	probe, err := prepare(t.Context(), j, nil, kernels.Target(device.Info{}), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	need := share.Bytes(probe.need())
	const found = 64 * 8 // every made-up float is above zero, and an index has 8 bytes
	for _, c := range []struct {
		memory share.Bytes
		status string
	}{{need, StatusFailed}, {need + found - 1, StatusFailed}, {need + 4*found, StatusDone},
		{0, StatusDone}} {
		j.Memory = c.memory
		res := run1(t, &Scenario{Jobs: []Job{j, closedJob("good", denseGraph(t), 10)}},
			Options{Threads: 1, Solo: true})
		for _, p := range res.Phases {
			got := p.Jobs[0]
			if got.Status != c.status || c.memory > 0 && got.MemoryCapBytes != int64(c.memory) ||
				got.MemoryPeakBytes > got.MemoryCapBytes {
				t.Errorf("%s with %v beside %v planned: %s, peak %d: %s", p.Mode, c.memory, need,
					got.Status, got.MemoryPeakBytes, got.Error)
			}
			if p.Jobs[1].Iterations != 10 {
				t.Errorf("the neighbour ran %d times", p.Jobs[1].Iterations)
			}
		}
	}
}

func TestRunRefusesOptions(t *testing.T) {
	s := &Scenario{Jobs: []Job{closedJob("a", denseGraph(t), 1)}}
	for name, o := range map[string]Options{
		"fifth": {Policies: []string{"fair", "fifth"}}, "solo": {Compare: []Mode{Solo}},
		"boats":      {Compare: []Mode{"boats"}},
		"-1 threads": {Threads: -1}, "-1s": {SoloDuration: -time.Second},
		"513 threads": {Threads: 513},
	} {
		if _, err := Run(t.Context(), s, o); !errors.Is(err, ErrScenario) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s.Device = "cuda:7"
	if _, err := Run(t.Context(), s, Options{}); !errors.Is(err, ErrScenario) ||
		!errors.Is(err, device.ErrUnknownDevice) {
		t.Errorf("got %v", err)
	}
}

// TestCancelled stops a run before it begins, while it runs alone and while jobs run together.
func TestCancelled(t *testing.T) {
	s := &Scenario{Duration: time.Minute,
		Jobs: []Job{closedJob("a", vision(t, "mobilenetv2"), 0), closedJob("b", denseGraph(t), 0)}}
	for _, at := range []string{"compiling a", "compiling b", "alone: b", "together, threads",
		"together, policy fair"} {
		t.Run(at, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := Options{Threads: 2, Solo: true, SoloDuration: 10 * time.Millisecond,
				Compare: []Mode{Threads}}
			var now atomic.Value
			o.Progress = func(stage string) { now.Store(stage) }
			if strings.HasPrefix(at, "compiling") {
				o.Progress = func(stage string) {
					if stage == at {
						cancel()
					}
				}
			}
			if strings.HasPrefix(at, "together, policy") {
				o.Compare = nil
			}
			o.Live = func(Live) {
				if now.Load() == at {
					cancel()
				}
			}
			if _, err := Run(ctx, s, o); !errors.Is(err, context.Canceled) ||
				errors.Is(err, ErrScenario) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestLive holds what a person sees of running jobs, and of one that was refused.
func TestLive(t *testing.T) {
	refused := closedJob("refused", denseGraph(t), 0)
	refused.Memory = 1
	s := &Scenario{Duration: 500 * time.Millisecond,
		Jobs: []Job{closedJob("a", vision(t, "mobilenetv2"), 0), refused}}
	var mu sync.Mutex
	var seen []Live
	run1(t, s, Options{Threads: 2, Solo: true, Live: func(l Live) {
		mu.Lock()
		seen = append(seen, l)
		mu.Unlock()
	}})
	var together []Live
	for _, l := range seen {
		if l.Mode == Shared {
			together = append(together, l)
		} else if l.Mode != Solo || len(l.Jobs) != 1 {
			t.Errorf("unexpected %+v", l)
		}
	}
	if len(together) < 2 {
		t.Fatalf("%d looks at jobs together", len(together))
	}
	last := together[len(together)-1]
	a, b := last.Jobs[0], last.Jobs[1]
	if last.Policy != "fair" || last.Window != 500*time.Millisecond || a.Name != "a" ||
		a.Iterations == 0 || a.Queue > 1 || a.Recent <= 0 ||
		a.Held == 0 || a.Held > a.Cap || a.Latency.P50 <= 0 || a.Error != "" {
		t.Errorf("the last look is %+v", last)
	}
	if b.Error == "" || b.Iterations != 0 || b.Held != 0 || b.Running {
		t.Errorf("the refused job looks like %+v", b)
	}
}

// TestStartAndStopLive: a job's pace is that between its start and its stop, and alone it has
// neither.
func TestStartAndStopLive(t *testing.T) {
	j := closedJob("a", denseGraph(t), 0)
	j.Start, j.Stop = 450*time.Millisecond, 500*time.Millisecond
	s := &Scenario{Duration: 600 * time.Millisecond, Jobs: []Job{j}}
	got := run1(t, s, Options{Threads: 1, Solo: true, SoloDuration: 200 * time.Millisecond}).Jobs[0]
	if got.SoloPerS <= 0 {
		t.Error("alone it did nothing")
	}
	// With the part of the last iteration that the end cut off.
	if n := got.IterationsPerS * (j.Stop - j.Start).Seconds(); n < float64(got.Iterations) ||
		n > float64(got.Iterations)+1 {
		t.Errorf("%d iterations in %v, %v a second", got.Iterations, j.Stop-j.Start,
			got.IterationsPerS)
	}
}
