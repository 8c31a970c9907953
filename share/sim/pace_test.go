package sim_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

// fixed gives each job that waits units of its own, by its number, and part of the bandwidth.
type fixed struct {
	units     []share.UnitSet
	bandwidth []float64
	more      share.UnitSet // held by the first job from this time on, if not empty
	at        time.Duration
	seen      func(*share.Snapshot)
}

func (fixed) Name() string { return "fixed" }

func (p fixed) Decide(s *share.Snapshot) share.Decision {
	if p.seen != nil {
		p.seen(s)
	}
	var d share.Decision
	for i, j := range s.Jobs {
		units := p.units[i]
		grown := i == 0 && !p.more.Empty() && s.Now >= p.at
		if grown {
			units = p.more
		}
		if j.Phase == share.Waiting || grown && j.Units != units {
			d.Set = append(d.Set, share.Terms{Job: j.ID, Units: units, Until: share.Forever,
				Bandwidth: p.bandwidth[i]})
		}
	}
	if !p.more.Empty() && s.Now < p.at {
		d.Wake = p.at
	}
	return d
}

// paced simulates two jobs of 100 ms, once each, on four units.
func paced(t *testing.T, p share.Policy, needs share.Can, traffic ...float64) *sim.Result {
	t.Helper()
	sc := sim.Scenario{Duration: time.Second, Device: sim.Device{Units: 4,
		Can: share.Can{Partition: true, Overlap: true, Resize: true, Bandwidth: true}}}
	for i, b := range traffic {
		j := job(string(rune('a'+i)), 100*ms, 0, sim.Arrival{Trace: []time.Duration{0}})
		j.Bandwidth = b
		sc.Jobs = append(sc.Jobs, j)
	}
	res, err := sim.RunPolicy(sc, p, needs, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestBandwidth compares times with the model by hand: where jobs want more bandwidth than there
// is, the part of a job that depends on it takes as much longer; where they want less, nothing is
// gained.
func TestBandwidth(t *testing.T) {
	all, none := share.UnitRange(0, 4), share.UnitSet{}
	low, high := share.UnitRange(0, 2), share.UnitRange(2, 2)
	for _, c := range []struct {
		name    string
		p       fixed
		traffic []float64
		want    []float64 // ms
	}{
		{"alone it takes what it takes", fixed{units: []share.UnitSet{all},
			bandwidth: []float64{0}}, []float64{0.5}, []float64{100}},
		// Each runs at half its speed, and wants half of its bandwidth.
		{"enough for both", fixed{units: []share.UnitSet{low, high}, bandwidth: []float64{0, 0}},
			[]float64{1, 1}, []float64{200, 200}},
		{"a part set apart", fixed{units: []share.UnitSet{low, high},
			bandwidth: []float64{0.25, 0.5}}, []float64{1, 1}, []float64{400, 200}},
		// The first wants half and gets a quarter; the second wants a quarter.
		{"beside a part set apart", fixed{units: []share.UnitSet{low, high},
			bandwidth: []float64{0.25, 0}}, []float64{1, 0.5}, []float64{400, 200}},
		// Units split: 2 each. They want 0.5 and 0.5 until the first has done its work.
		{"units shared", fixed{units: []share.UnitSet{all, all}, bandwidth: []float64{0, 0}},
			[]float64{1, 1}, []float64{200, 200}},
		// Half of the units for 100 ms, then all.
		{"units grown", fixed{units: []share.UnitSet{low}, bandwidth: []float64{0}, more: all,
			at: 100 * ms}, []float64{0}, []float64{150}},
	} {
		needs := share.Can{Overlap: true, Bandwidth: true, Resize: true}
		res := paced(t, c.p, needs, c.traffic...)
		for i, want := range c.want {
			got := float64(res.Jobs[i].Latency(1)) / 1e6
			if math.Abs(got-want) > 0.01 {
				t.Errorf("%s: job %d took %.3f ms, want %v", c.name, i, got, want)
			}
		}
		if c.p.more != none {
			h := res.Jobs[0].Holds
			if len(h) != 2 || h[0] != (sim.Hold{From: 0, To: 100 * ms, Fraction: 0.5}) ||
				h[1].From != 100*ms || h[1].Fraction != 1 {
				t.Errorf("%s: held %v", c.name, h)
			}
		}
	}
}

// TestBandwidthBounded: what is set apart for one job bounds what it takes from the others.
func TestBandwidthBounded(t *testing.T) {
	wide := job("wide", 100*ms, 0, sim.Arrival{Trace: []time.Duration{0}})
	wide.Width, wide.Bandwidth = 3, 1
	other := job("other", 100*ms, 0, sim.Arrival{Trace: []time.Duration{0}})
	other.Width, other.Bandwidth = 1, 0.5
	needs := share.Can{Partition: true, Bandwidth: true}
	// Together they want 1.5 times what there is, or 0.6 where one is held to 0.1 of it.
	for apart, want := range map[float64]time.Duration{0: 125 * ms, 0.1: 100 * ms} {
		res, err := sim.RunPolicy(sim.Scenario{Duration: 2 * time.Second,
			Device: sim.Device{Units: 4, Can: needs}, Jobs: []sim.Job{wide, other}},
			fixed{bandwidth: []float64{apart, 0},
				units: []share.UnitSet{share.UnitRange(0, 3), share.UnitRange(3, 1)}}, needs,
			sim.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Jobs[1].Latency(1); got != want {
			t.Errorf("beside a job with %v of the bandwidth set apart it took %v, want %v", apart,
				got, want)
		}
	}
}

// TestSwitchCost: a change of hands costs time where every job has a context of its own, and a step
// is done in every hold, however short the hold and long the change.
func TestSwitchCost(t *testing.T) {
	sc := sim.Scenario{Duration: time.Second, Device: sim.Device{SwitchCost: 5 * ms},
		Jobs: []sim.Job{job("a", 20*ms, 10*ms, sim.Arrival{Closed: 1}),
			job("b", 20*ms, 10*ms, sim.Arrival{Closed: 1})}}
	turns := func(needs share.Can) *sim.Result {
		t.Helper()
		sc.Device.Can = needs
		p, err := policy.New("timeslice:slice=1ms")
		if err != nil {
			t.Fatal(err)
		}
		res, err := sim.RunPolicy(sc, p, needs, sim.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	// A step of 10 ms after each change of 5 ms: 66 steps in a second.
	if r := turns(share.Can{}); r.Jobs[0].Iterations+r.Jobs[1].Iterations != 33-1 {
		t.Errorf("%d and %d iterations", r.Jobs[0].Iterations, r.Jobs[1].Iterations)
	}
	if r := turns(share.Can{Overlap: true}); r.Jobs[0].Iterations+r.Jobs[1].Iterations < 48 {
		t.Errorf("in one context %d and %d iterations", r.Jobs[0].Iterations, r.Jobs[1].Iterations)
	}
}

// TestWhatIsTold: policies are told what jobs know of themselves, and a job at its limit leaves the
// device idle without anything being wasted.
func TestWhatIsTold(t *testing.T) {
	j := job("a", 30*ms, 0, sim.Arrival{Closed: 1})
	j.Target, j.Width, j.Bandwidth, j.Foreknown = 70*ms, 3, 0.25, true
	var told share.Forecast
	p := fixed{units: []share.UnitSet{share.UnitRange(0, 4)}, bandwidth: []float64{0},
		seen: func(s *share.Snapshot) { told = s.Jobs[0].Next }}
	res, err := sim.RunPolicy(sim.Scenario{Duration: 100 * ms, Device: sim.Device{Units: 4},
		Jobs: []sim.Job{j}}, p, share.Can{}, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if told.Target != 70*ms || told.Units != 3 || told.Bandwidth != 0.25 || told.Time != 30*ms {
		t.Errorf("the policy was told %+v", told)
	}
	if r := res.Jobs[0]; r.Iterations != 3 || math.Abs(r.Partial-1.0/3) > 1e-6 {
		t.Errorf("%d iterations and %.3f of one in 100 ms", r.Iterations, r.Partial)
	}
	j.Limit = 0.5
	if r := run(t, "fair", sim.Scenario{Duration: time.Second,
		Jobs: []sim.Job{j}}); r.Wasted != 0 || r.Jobs[0].Share > 0.52 {
		t.Errorf("at its limit it had %.3f, and %d decisions wasted time", r.Jobs[0].Share,
			r.Wasted)
	}
}

// TestDone ends a run before it begins.
func TestDone(t *testing.T) {
	done := make(chan struct{})
	close(done)
	_, err := sim.Run(sim.Scenario{Duration: time.Second,
		Jobs: []sim.Job{job("a", ms, 0, sim.Arrival{Closed: 1})}}, "fifo", sim.Options{Done: done})
	if !errors.Is(err, sim.ErrStopped) {
		t.Errorf("got %v", err)
	}
}
