package sim_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

const ms = time.Millisecond

func run(t testing.TB, name string, sc sim.Scenario) *sim.Result {
	t.Helper()
	res, err := sim.Run(sc, name, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// job makes a job of iterations of a constant length.
func job(name string, length, step time.Duration, a sim.Arrival) sim.Job {
	return sim.Job{Job: share.Job{Name: name}, Arrival: a, Iteration: sim.Spread{Mean: length},
		Step: step}
}

func mean(list []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range list {
		sum += d
	}
	return sum / time.Duration(max(1, len(list)))
}

// TestQueueTheory compares a single job with Poisson arrivals with the formula
// of Pollaczek and Khinchine: the mean time in an M/G/1 queue is
// s + rho s (1 + c2) / (2 (1 - rho)), with c2 the squared coefficient of
// variation of the service time.
func TestQueueTheory(t *testing.T) {
	const s = 10 * ms
	for _, tc := range []struct {
		name   string
		spread sim.Spread
		c2     float64
	}{
		{"constant", sim.Spread{Mean: s}, 0},
		{"exponential", sim.Spread{Mean: s, Exponential: true}, 1},
		{"uniform", sim.Spread{Mean: s, Jitter: 0.6}, 0.12},
	} {
		for _, rho := range []float64{0.2, 0.5, 0.8} {
			j := job("a", s, 0, sim.Arrival{Poisson: rho / s.Seconds()})
			j.Iteration = tc.spread
			res := run(t, "fifo",
				sim.Scenario{Duration: 2000 * time.Second, Seed: 3, Jobs: []sim.Job{j}})
			want := s.Seconds() * (1 + rho*(1+tc.c2)/(2*(1-rho)))
			got := mean(res.Jobs[0].Latencies).Seconds()
			if math.Abs(got/want-1) > 0.05 {
				t.Errorf("%s, load %.1f: mean latency %.2fms, formula says %.2fms", tc.name, rho,
					1e3*got, 1e3*want)
			}
			if math.Abs(res.Jobs[0].Share-rho) > 0.02 {
				t.Errorf("%s, load %.1f: device in use for %.3f", tc.name, rho, res.Jobs[0].Share)
			}
		}
	}
}

// scripted runs the first waiting job for so long, on so many units.
type scripted struct {
	units  int
	slice  time.Duration
	revoke func(s *share.Snapshot) []share.JobID
}

func (scripted) Name() string { return "scripted" }

func (p scripted) Decide(s *share.Snapshot) share.Decision {
	var d share.Decision
	if p.revoke != nil {
		for _, id := range p.revoke(s) {
			d.Set = append(d.Set, share.Terms{Job: id})
		}
		d.Wake = s.Now + ms
	}
	free := s.Free()
	for _, j := range s.Jobs {
		if units := free.First(p.units); j.Phase == share.Waiting && units.Len() == p.units {
			free = free.Minus(units)
			d.Set = append(d.Set, share.Terms{Job: j.ID, Units: units, Until: s.Now + p.slice})
		}
	}
	return d
}

func simulate(t *testing.T, p share.Policy, sc sim.Scenario) *sim.Result {
	t.Helper()
	res, err := sim.RunPolicy(sc, p, share.Can{}, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestStepBoundaries: a hold ends at the first boundary between steps after its time, and not
// before one step is done.
func TestStepBoundaries(t *testing.T) {
	once := sim.Arrival{Trace: []time.Duration{0}}
	for _, tc := range []struct {
		name   string
		length time.Duration
		step   time.Duration
		slice  time.Duration
		cost   time.Duration
		want   []time.Duration // lengths of the holds
	}{
		{"slice within a step", 10 * ms, 4 * ms, 5 * ms, 0, []time.Duration{8 * ms, 2 * ms}},
		{"slice at a boundary", 10 * ms, 5 * ms, 5 * ms, 0, []time.Duration{5 * ms, 5 * ms}},
		{"slice shorter than a step", 9 * ms, 4 * ms, 1, 0, []time.Duration{4 * ms, 4 * ms, ms}},
		{"no steps", 10 * ms, 0, ms, 0, []time.Duration{10 * ms}},
		{"slice longer than the iteration", 10 * ms, ms, time.Second, 0, []time.Duration{10 * ms}},
		{"switch cost", 4 * ms, 2 * ms, ms, ms / 2, []time.Duration{5 * ms / 2, 5 * ms / 2}},
	} {
		p, err := policy.NewTimeslice(policy.TimesliceParams{Slice: tc.slice})
		if err != nil {
			t.Fatal(err)
		}
		res := simulate(t, p, sim.Scenario{Duration: time.Second,
			Device: sim.Device{SwitchCost: tc.cost},
			Jobs: []sim.Job{
				job("a", tc.length, tc.step, once), job("other", ms, 0, sim.Arrival{Closed: 1}),
			}})
		var got []time.Duration
		for _, h := range res.Jobs[0].Holds {
			got = append(got, h.To-h.From)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: holds of %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestRevokeAtBoundary: a revoked job gives back at the next boundary.
func TestRevokeAtBoundary(t *testing.T) {
	revoked := false
	p := scripted{units: 1, slice: time.Second, revoke: func(s *share.Snapshot) []share.JobID {
		if s.Now >= 5*ms && !revoked && s.Jobs[0].Phase == share.Running {
			revoked = true
			return []share.JobID{1}
		}
		return nil
	}}
	res := simulate(t, p, sim.Scenario{Duration: 100 * ms, Jobs: []sim.Job{
		job("a", 20*ms, 3*ms, sim.Arrival{Trace: []time.Duration{0}}),
		job("b", 4*ms, 0, sim.Arrival{Trace: []time.Duration{ms}}),
	}})
	if !revoked {
		t.Fatal("nothing was revoked")
	}
	// a is told at 5 ms, stops at 6 ms, is first in line again and goes on.
	if got := res.Jobs[0].Latencies; !slices.Equal(got, []time.Duration{20 * ms}) {
		t.Errorf("latency of a: %v", got)
	}
	if got := res.Jobs[1].Latencies; !slices.Equal(got, []time.Duration{23 * ms}) {
		t.Errorf("latency of b: %v", got)
	}
}

// TestUnits: two of four units make an iteration last twice as long, and two jobs run side by side.
func TestUnits(t *testing.T) {
	once := sim.Arrival{Trace: []time.Duration{0}}
	res := simulate(t, scripted{units: 2, slice: time.Second}, sim.Scenario{
		Duration: 100 * ms, Device: sim.Device{Units: 4},
		Jobs: []sim.Job{job("a", 10*ms, ms, once), job("b", 6*ms, 0, once)},
	})
	if a, b := res.Jobs[0].Latencies[0], res.Jobs[1].Latencies[0]; a != 20*ms || b != 12*ms {
		t.Errorf("latencies %v and %v, want 20ms and 12ms", a, b)
	}
	if res.Jobs[0].Used != 10*ms || res.Jobs[1].Used != 6*ms {
		t.Errorf("used %v and %v of the device, want 10ms and 6ms", res.Jobs[0].Used,
			res.Jobs[1].Used)
	}
}

func TestArrivals(t *testing.T) {
	for _, tc := range []struct {
		name    string
		arrival sim.Arrival
		want    []time.Duration // latencies of iterations of 10 ms within 45 ms
	}{
		{"none", sim.Arrival{}, nil},
		{"trace", sim.Arrival{Trace: []time.Duration{0, 2 * ms, 25 * ms, 99 * ms}},
			[]time.Duration{10 * ms, 18 * ms, 10 * ms}},
		{"closed", sim.Arrival{Closed: 1}, []time.Duration{10 * ms, 10 * ms, 10 * ms, 10 * ms}},
		{"closed, two", sim.Arrival{Closed: 2},
			[]time.Duration{10 * ms, 20 * ms, 20 * ms, 20 * ms}},
		{"closed with thought", sim.Arrival{Closed: 1, Think: 5 * ms},
			[]time.Duration{10 * ms, 10 * ms, 10 * ms}},
		{"two with thought", sim.Arrival{Closed: 2, Think: 15 * ms},
			[]time.Duration{10 * ms, 20 * ms, 10 * ms}},
	} {
		res := run(t, "fifo", sim.Scenario{Duration: 45 * ms,
			Jobs: []sim.Job{job("a", 10*ms, 0, tc.arrival)}})
		if got := res.Jobs[0].Latencies; !slices.Equal(got, tc.want) {
			t.Errorf("%s: latencies %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestCompletionStartAndStop(t *testing.T) {
	a := job("a", 10*ms, ms, sim.Arrival{Closed: 1})
	a.Iterations, a.Start = 3, 5*ms
	b := job("b", 10*ms, ms, sim.Arrival{Closed: 1})
	b.Stop = 12 * ms
	res := run(t, "fifo", sim.Scenario{Duration: 100 * ms,
		Device: sim.Device{SwitchCost: ms}, Jobs: []sim.Job{a, b}})
	// b 0-11 with the switch, again 11-12 (behind a: a 11-22), and so on.
	if r := res.Jobs[1]; r.Iterations != 1 || r.Used != 11*ms || r.Completion != 0 {
		t.Errorf("b: %d iterations, used %v, completion %v", r.Iterations, r.Used, r.Completion)
	}
	if r := res.Jobs[0]; r.Iterations != 3 || r.Completion != 42*ms || r.Used != 31*ms {
		t.Errorf("a: %d iterations, completed at %v, used %v", r.Iterations, r.Completion, r.Used)
	}
	if res.Switches != 2 {
		t.Errorf("%d switches, want 2", res.Switches)
	}
}

// TestSameSeed: the same scenario gives the same result, another seed another.
func TestSameSeed(t *testing.T) {
	sc := sim.Scenario{Duration: time.Second, Seed: 1, Jobs: []sim.Job{
		job("a", 5*ms, ms, sim.Arrival{Poisson: 50}), job("b", 5*ms, ms, sim.Arrival{Closed: 1}),
	}}
	first, again := run(t, "fair", sc), run(t, "fair", sc)
	if !reflect.DeepEqual(first, again) {
		t.Error("two runs differ")
	}
	sc.Seed = 2
	if reflect.DeepEqual(first, run(t, "fair", sc)) {
		t.Error("the seed changes nothing")
	}
}

func TestPeakShare(t *testing.T) {
	h := func(from, to time.Duration, f float64) sim.Hold {
		return sim.Hold{From: from * ms, To: to * ms, Fraction: f}
	}
	for _, tc := range []struct {
		holds []sim.Hold
		want  float64 // over 10 ms
	}{
		{nil, 0},
		{[]sim.Hold{h(3, 5, 1)}, 0.2},
		{[]sim.Hold{h(0, 50, 0.5)}, 0.5},
		{[]sim.Hold{h(0, 4, 1), h(8, 12, 1)}, 0.6},
		{[]sim.Hold{h(0, 1, 1), h(9, 19, 0.5), h(20, 24, 1)}, 0.65},
		{[]sim.Hold{h(0, 2, 1), h(5, 7, 1), h(11, 13, 1), h(14, 15, 1)}, 0.5},
		{[]sim.Hold{h(0, 5, 1), h(5, 50, 0.5)}, 0.75},
	} {
		r := sim.JobResult{Holds: tc.holds}
		if got := r.PeakShare(10 * ms); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%v: peak %.3f, want %.3f", tc.holds, got, tc.want)
		}
	}
	r := sim.JobResult{Holds: []sim.Hold{h(2, 3, 1), h(8, 9, 1)}}
	for _, tc := range [][3]time.Duration{{0, 10, 5}, {0, 20, 11}, {4, 8, 4}} {
		if got := r.LongestWait(tc[0]*ms, tc[1]*ms); got != tc[2]*ms {
			t.Errorf("longest wait from %v to %v: %v, want %v", tc[0]*ms, tc[1]*ms, got, tc[2]*ms)
		}
	}
}

func TestValidate(t *testing.T) {
	bad := job("", -1, -1, sim.Arrival{Poisson: math.NaN(), Closed: -1, Think: -1,
		Trace: []time.Duration{5, 3}})
	bad.Iteration.Jitter, bad.Start, bad.Share.Compute = 2, -1, 7
	_, err := sim.RunPolicy(sim.Scenario{Device: sim.Device{Units: -1, SwitchCost: -1},
		Jobs: []sim.Job{bad}}, scripted{}, share.Can{}, sim.Options{})
	if !errors.Is(err, share.ErrInvalid) {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{"units is -1", "duration is 0s", "switch cost", "compute is 7",
		"name is", "step", "start", "iteration", "jitter is 2", "poisson is NaN", "closed is -1",
		"think", "trace"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// stuck never lets anybody run.
type stuck struct{}

func (stuck) Name() string                          { return "stuck" }
func (stuck) Decide(*share.Snapshot) share.Decision { return share.Decision{} }

// TestPolicyThatDoesNothing is asked again and blamed.
func TestPolicyThatDoesNothing(t *testing.T) {
	res := simulate(t, stuck{},
		sim.Scenario{Duration: time.Second,
			Jobs: []sim.Job{job("a", ms, 0, sim.Arrival{Closed: 1})}})
	if res.Faults < 90 || res.Faults > 110 || res.Wasted != res.Faults {
		t.Errorf("%d faults and %d times wasted, want about 100 in a second", res.Faults,
			res.Wasted)
	}
	if r := res.Jobs[0]; r.Used != 0 || r.ErrorP95 != 100 {
		t.Errorf("used %v, error %.1f points, want 0 and 100", r.Used, r.ErrorP95)
	}
}
