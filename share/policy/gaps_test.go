package policy_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/core/coretest"
	"github.com/weirgpu/weir/share/sim"
)

// pausing is a job with kernels of this length and pauses after each, in which it holds the device
// if they are shorter than 300 us.
func pausing(class share.Class, kernel, pause time.Duration) sim.Job {
	j := job("holder", share.Share{Class: class}, kernel, sim.Arrival{Closed: 1, Think: pause})
	j.Iteration, j.Keeps = sim.Spread{Mean: kernel}, 300*us
	return j
}

// flooding is an opportunistic job that always has kernels of this length.
func flooding(name string, kernel time.Duration) sim.Job {
	j := job(name, share.Share{Class: share.Opportunistic}, kernel, always)
	j.Iteration = sim.Spread{Mean: kernel}
	return j
}

// beside runs jobs together, on a device that can hold launches back.
func beside(t *testing.T, spec string, jobs ...sim.Job) *sim.Result {
	t.Helper()
	return run(t, spec, sim.Scenario{Duration: 500 * ms, Jobs: jobs,
		Device: sim.Device{Can: share.Can{Launches: true}}})
}

// TestGapsAreFilled: a job with pauses that are too short for the device to pass on keeps 95
// percent of its speed while opportunistic jobs have half of the pauses at least, and none without
// fill. What the holder is charged stays the same, and what it used of it is told apart.
func TestGapsAreFilled(t *testing.T) {
	const filled = "priority:fill=0.5,switch=0s"
	for _, class := range []share.Class{share.Standard, share.Latency} {
		for _, kernel := range []time.Duration{5 * us, 10 * us, 14 * us} {
			holder := pausing(class, 100*us, 200*us)
			alone := beside(t, filled, holder).Jobs[0]
			gaps := alone.Used - alone.Measured
			if part := alone.Measured.Seconds() / alone.Used.Seconds(); part < 0.32 ||
				part > 0.35 || alone.Passed != 0 {
				t.Errorf("alone: used %v of %v held", alone.Measured, alone.Used)
			}
			for _, others := range [][]sim.Job{{flooding("a", kernel)},
				{flooding("a", kernel), flooding("b", kernel), flooding("c", kernel)}} {
				if len(others) > 1 && kernel != 10*us {
					continue
				}
				res := beside(t, filled, append([]sim.Job{holder}, others...)...)
				kept := float64(res.Jobs[0].Iterations) / float64(alone.Iterations)
				var sum, least time.Duration = 0, time.Hour
				for _, o := range res.Jobs[1:] {
					sum, least = sum+o.Passed, min(least, o.Passed)
				}
				if kept < 0.95 || sum < gaps/2 || least < sum/time.Duration(2*len(others)) {
					t.Errorf("%v, kernels of %v: keeps %.3f, %d others have %v of gaps of %v, "+
						"one of them %v", class, kernel, kept, len(others), sum, gaps, least)
				}
			}
			res := beside(t, "priority", holder, flooding("a", kernel))
			if res.Jobs[1].Passed != 0 {
				t.Errorf("without fill %v passed", res.Jobs[1].Passed)
			}
		}
	}
}

// TestLongGapsAreFilled: a job that pauses for longer than it takes to notice, and rests on the
// device meanwhile, keeps it and 95 percent of its speed, while another has half of the pauses at
// least. It is passed on where the other's kernels are too long to pass, and in pauses that last.
func TestLongGapsAreFilled(t *testing.T) {
	for what, c := range map[string]struct {
		kernel, pause, other time.Duration
		kept                 bool
	}{
		"pauses of 1 ms of 2":   {ms, ms, 50 * us, true},
		"pauses of 2 ms of 2.5": {500 * us, 2 * ms, 50 * us, true},
		"kernels too long":      {ms, ms, 200 * us, false},
		"pauses of 20 ms":       {ms, 20 * ms, 50 * us, false},
	} {
		holder := pausing(share.Latency, c.kernel, c.pause)
		holder.Rests = true
		alone := beside(t, "priority:fill=0.7", holder).Jobs[0]
		res, err := sim.Run(sim.Scenario{Duration: 500 * ms,
			Jobs:   []sim.Job{holder, flooding("a", c.other)},
			Device: sim.Device{Can: share.Can{Launches: true}}}, "priority:fill=0.7", sim.Options{})
		if err != nil || res.Faults > 0 {
			t.Fatalf("%s: %d faults, %v", what, res.Faults, err)
		}
		gaps := time.Duration(alone.Iterations) * c.pause
		passed, held := res.Jobs[1].Passed, res.Jobs[1].Used
		kept := float64(res.Jobs[0].Iterations) / float64(alone.Iterations)
		if c.kept && (kept < 0.95 || passed < gaps/2) || !c.kept && held < gaps/2 {
			t.Errorf("%s: keeps %.3f, %v of %v pass, and another holds the device for %v", what,
				kept, passed, gaps, held)

		}
	}
}

// TestGapsThatAreNotFilled: nothing passes beside a job that uses the device, that would lose too
// much, or that is itself opportunistic; no kernel that is too long, and none of a job with a limit
// or of another class.
func TestGapsThatAreNotFilled(t *testing.T) {
	const filled = "priority:fill=0.5,switch=0s"
	limited, standard := flooding("a", 10*us), flooding("a", 10*us)
	limited.Limit, standard.Class = 0.5, share.Standard
	for what, c := range map[string]struct {
		spec          string
		holder, other sim.Job
	}{
		"a job that uses most of what it holds": {filled, pausing(share.Latency, 200*us, 100*us),
			flooding("a", 10*us)},
		"short gaps": {filled, pausing(share.Latency, 10*us, 20*us), flooding("a", 10*us)},
		"a switch that costs too much": {"priority:fill=0.5,switch=10us",
			pausing(share.Latency, 100*us, 200*us), flooding("a", 10*us)},
		"long kernels": {filled, pausing(share.Latency, 100*us, 200*us),
			flooding("a", 20*us)},
		"a limit":            {filled, pausing(share.Latency, 100*us, 200*us), limited},
		"a standard job":     {filled, pausing(share.Latency, 100*us, 200*us), standard},
		"opportunistic gaps": {filled, pausing(share.Opportunistic, 100*us, 200*us), standard},
	} {
		alone := beside(t, c.spec, c.holder).Jobs[0].Iterations
		res := beside(t, c.spec, c.holder, c.other)
		if res.Jobs[1].Passed > 0 {
			t.Errorf("%s: %v passed", what, res.Jobs[1].Passed)
		}
		if got := res.Jobs[0].Iterations; got < alone*99/100 && c.holder.Class == share.Latency {
			t.Errorf("%s: %d iterations, alone %d", what, got, alone)
		}
	}
}

// filling returns a core whose policy fills gaps, and what tells it of events at the time of the
// clock; bounded is told of each change of what may pass.
func filling(t *testing.T, clock *time.Duration, bounded func(core.Notice)) (*core.Core,
	func(core.Event)) {
	c, err := core.Config{Device: "d", Units: 1, Memory: share.GiB,
		Can: share.Can{Launches: true}}.ForPolicy("priority:fill=0.5,switch=0s")
	if err != nil {
		t.Fatal(err)
	}
	k, err := core.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return k, func(e core.Event) {
		t.Helper()
		e.At = *clock
		notices, err := k.Step(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range notices {
			if n.Kind == core.Bounded {
				bounded(n)
			}
		}
	}
}

// TestGapsClose: the moment that the holder begins to use what it holds, nothing passes any more.
func TestGapsClose(t *testing.T) {
	now, free := time.Duration(0), time.Duration(0)
	k, step := filling(t, &now, func(n core.Notice) {
		if n.Job == 2 {
			free = n.Terms.Free
		}
	})
	uses := func(part float64, launches int64) {
		now += 5 * ms
		step(core.Event{Kind: core.Measure, Job: 1, Used: time.Duration(part * 5e6),
			Launches: launches})
	}
	step(core.Event{Kind: core.Admit, Spec: &share.Job{Name: "a",
		Share: share.Share{Class: share.Latency}}})
	step(core.Event{Kind: core.Admit, Spec: &share.Job{Name: "b",
		Share: share.Share{Class: share.Opportunistic}}})
	step(core.Event{Kind: core.Want, Job: 1})
	step(core.Event{Kind: core.Want, Job: 2})
	for what, c := range map[string]struct {
		part     float64
		launches int64
	}{
		"uses the device":                  {0.6, 16},
		"is within a long kernel":          {0.1, 1},
		"measures nothing":                 {0, 16},
		"takes longer for each launch now": {0.3, 12},
	} {
		for n := 0; free == 0 && n < 100; n++ {
			uses(0.33, 16)
		}
		if free < 10*us || free > 16*us {
			t.Errorf("before it %s kernels up to %v pass, want 15 us", what, free)
		}
		for n := 0; free > 0 && n < 4; n++ {
			if uses(c.part, c.launches); n > 0 && c.launches != 12 {
				t.Errorf("it %s, and kernels up to %v pass after %d measurements", what, free, n)
			}
		}
		if free > 0 {
			t.Errorf("it %s, and kernels up to %v pass", what, free)
		}
	}
	for n := 0; free == 0 && n < 100; n++ {
		uses(0.33, 16)
	}
	step(core.Event{Kind: core.Rest, Job: 1})
	if s, _ := k.Job(2); s.Phase == share.Running && free > 0 {
		t.Error("kernels pass of a job that runs")
	}
}

// TestGapsGoRound: one beside whom the holder gets slower at once does not keep the gaps from
// others, and if all are such, gaps are tried ever more rarely.
func TestGapsGoRound(t *testing.T) {
	turns, windows := turnsInGaps(t, 2)
	if turns[2] == 0 || turns[3] == 0 || turns[4] == 0 {
		t.Errorf("turns in gaps beside one who makes the holder slow: %v", turns)
	}
	// It is kept from gaps for longer each time, while others fill them.
	if others := min(turns[3], turns[4]); 5*turns[2] > 4*others {
		t.Errorf("one who makes the holder slow has as many turns in gaps as others: %v", turns)
	}
	// Two windows each time show that it is not the host.
	if _, few := turnsInGaps(t, 2, 3, 4); few == 0 || few > 2*16 || windows < 500 {
		t.Errorf("gaps are filled in %d of 600 windows, in %d if that always makes the holder slow",
			windows, few)
	}
}

// turnsInGaps says how often each of three opportunistic jobs, 2 to 4, of which some make the
// holder twice as slow, has a turn in its gaps, and in how many of 600 windows some of them had.
func turnsInGaps(t *testing.T, slow ...share.JobID) (turns map[share.JobID]int, windows int) {
	now, passes := time.Duration(0), share.JobID(0)
	_, step := filling(t, &now, func(n core.Notice) {
		switch {
		case n.Terms.Free > 0:
			passes = n.Job
		case n.Job == passes:
			passes = 0
		}
	})
	for id, class := range []share.Class{share.Latency, share.Opportunistic, share.Opportunistic,
		share.Opportunistic} {
		step(core.Event{Kind: core.Admit, Spec: &share.Job{Name: fmt.Sprint(id),
			Share: share.Share{Class: class}}})
		step(core.Event{Kind: core.Want, Job: share.JobID(1 + id)})
	}
	turns = map[share.JobID]int{}
	for range 600 {
		launches := int64(16)
		if slices.Contains(slow, passes) {
			launches = 8
		}
		if passes != 0 {
			windows++
		}
		now += 5 * ms
		was := passes
		step(core.Event{Kind: core.Measure, Job: 1, Used: ms, Launches: launches})
		if passes != was && passes != 0 {
			turns[passes]++
		}
	}
	return turns, windows
}

// holding is a job whose gaps are filled with launches of another, and a clock.
type holding struct {
	now, free time.Duration
	step      func(core.Event)
}

// newHolding returns one of a class that has held the device for a while, in windows of 5 ms with
// 16 launches each.
func newHolding(t *testing.T, class share.Class) *holding {
	h := &holding{}
	_, h.step = filling(t, &h.now, func(n core.Notice) {
		if n.Job == 2 {
			h.free = n.Terms.Free
		}
	})
	for i, c := range []share.Class{class, share.Opportunistic} {
		h.step(core.Event{Kind: core.Admit, Spec: &share.Job{Name: fmt.Sprint(i),
			Share: share.Share{Class: c}}})
		h.step(core.Event{Kind: core.Want, Job: share.JobID(1 + i)})
	}
	for range 100 {
		h.window(5*ms, 16)
	}
	return h
}

// window passes in which the holder makes so many launches.
func (h *holding) window(length time.Duration, launches int64) {
	h.now += length
	h.step(core.Event{Kind: core.Measure, Job: 1, Used: length / 5, Launches: launches})
}

// until passes windows as usual until something passes or nothing does, and says how many.
func (h *holding) until(passes bool) (windows int) {
	for ; h.free > 0 != passes && windows < 1000; windows++ {
		h.window(5*ms, 16)
	}
	return windows
}

// TestGapsOfOneThatGivesWay: from the moment that a holder is told to give way nothing passes
// beside what it still runs.
func TestGapsOfOneThatGivesWay(t *testing.T) {
	h := newHolding(t, share.Standard)
	h.until(true)
	h.step(core.Event{Kind: core.Admit, Spec: &share.Job{Name: "latency",
		Share: share.Share{Class: share.Latency}}})
	h.step(core.Event{Kind: core.Want, Job: 3})
	for _, when := range []string{"as it is told", "before it has given way"} {
		if h.free > 0 {
			t.Errorf("%s kernels up to %v pass", when, h.free)
		}
		h.window(ms, 4)
	}
}

// TestGapsOfOneMeasuredRarely: beside a job of which it is heard too rarely nothing passes.
func TestGapsOfOneMeasuredRarely(t *testing.T) {
	h := newHolding(t, share.Latency)
	h.until(true)
	for range 100 {
		if h.window(25*ms, 80); h.free > 0 {
			t.Fatalf("kernels up to %v pass beside a job that is measured every 25 ms", h.free)
		}
	}
}

// TestGapsDespiteTheHost: a window in which the host did something else neither stops what passes
// nor makes kernels pass that are longer.
func TestGapsDespiteTheHost(t *testing.T) {
	h := newHolding(t, share.Latency)
	for range 10 {
		h.until(false)
		h.until(true)
		if h.window(6*ms, 9); h.free == 0 {
			t.Fatal("nothing passes after one window in which the holder was slow")
		}
		h.until(false)
		h.window(6*ms, 9)
		if h.until(true); h.free < 10*us || h.free > 20*us {
			t.Fatalf("kernels up to %v pass after one window in which the holder was slow alone, "+
				"want 15 us", h.free)
		}
	}
}

// TestGapsDespiteNoise: a host whose windows vary by a tenth or a third does not keep gaps from
// being filled, and one that makes the holder slower by a half is found out beside that.
func TestGapsDespiteNoise(t *testing.T) {
	for _, varies := range []float64{0.03, 0.1, 0.3} {
		for _, slower := range []float64{1, 1.5} {
			h, r := newHolding(t, share.Latency), rand.New(rand.NewPCG(7, 7))
			filled := 0
			const windows = 2000
			for range windows {
				length := 16 * 312.5e3 * math.Exp(varies*r.NormFloat64())
				if h.free > 0 {
					filled++
					length *= slower
				}
				h.window(time.Duration(length), 16)
			}
			if slower == 1 && filled < windows*8/10 || slower > 1 && filled > windows/5 {
				t.Errorf("by %.2f, and %.1f as slow beside others: gaps are filled in %d of %d "+
					"windows", varies, slower, filled, windows)
			}
		}
	}
}

// TestGapsOfSlices: gaps are filled without a break where the holder's next slice follows.
func TestGapsOfSlices(t *testing.T) {
	h := newHolding(t, share.Latency)
	for range 20 {
		h.until(true)
		h.step(core.Event{Kind: core.Return, Job: 1})
		if h.free == 0 {
			t.Fatal("nothing passes any more in the next slice")
		}
		h.until(false)
	}
}

// TestGapsAreForgiven: for how long nothing passes because it cost too much is forgotten while it
// costs little.
func TestGapsAreForgiven(t *testing.T) {
	h := newHolding(t, share.Latency)
	stops := func() int {
		h.until(true)
		for h.free > 0 {
			h.window(5*ms, 8)
		}
		return h.until(true)
	}
	first, most := stops(), 0
	for range 8 {
		most = stops()
	}
	for range 400 {
		h.window(5*ms, 16)
	}
	if again := stops(); first > 4 || most < 48 || again > 4 {
		t.Errorf("nothing passes for %d windows at first, for %d later, and for %d after a time "+
			"in which it cost little", first, most, again)
	}
}

// TestFillNeedsLaunches: gaps are filled only where launches can be held back.
func TestFillNeedsLaunches(t *testing.T) {
	sc := sim.Scenario{Duration: ms, Jobs: []sim.Job{flooding("a", us)}}
	if _, err := sim.Run(sc, "priority:fill=0.5", sim.Options{}); !errors.Is(err, share.ErrCannot) {
		t.Errorf("on a device that cannot hold launches back: %v", err)
	}
	if _, err := sim.Run(sc, "priority", sim.Options{}); err != nil {
		t.Error(err)
	}
}

// TestGapsRandom: whatever kernels and pauses are like, a job whose gaps are filled keeps its speed
// but for the loss that is allowed and what it takes to find out, accounts and charges are as they
// are without, and a new core decides the same.
func TestGapsRandom(t *testing.T) {
	passed, n := 0, uint64(12)
	if os.Getenv("WEIR_LONG") != "" {
		n = 1000
	}
	for seed := range n {
		r := rand.New(rand.NewPCG(seed, 13))
		loss := 0.03 + 0.3*r.Float64()
		spec := fmt.Sprintf("priority:fill=%.2f,switch=0s,loss=%.3f", 0.3+0.6*r.Float64(), loss)
		sc := sim.Scenario{Seed: seed, Duration: 150 * ms, Jobs: []sim.Job{
			pausing([]share.Class{share.Latency, share.Standard}[r.IntN(2)],
				time.Duration(20+r.IntN(200))*us, time.Duration(20+r.IntN(260))*us)}}
		sc.Jobs[0].Iteration.Jitter = r.Float64() / 2
		alone := run(t, spec, sc).Jobs[0]
		for i := range 1 + r.IntN(3) {
			sc.Jobs = append(sc.Jobs,
				flooding(fmt.Sprint("job-", i), time.Duration(3+r.IntN(30))*us))
			sc.Jobs[i+1].Iteration.Jitter = r.Float64() / 2
		}
		var record bytes.Buffer
		res, a := watch(t, spec, sc, &record)
		checkAccounts(t, res, a)
		c := core.Config{Device: "sim:0", Units: 1, Memory: 1 << 40,
			Can: share.Can{Launches: true}}
		if err := coretest.Replay(c, spec, &record); err != nil {
			t.Error(err)
		}
		kept := float64(res.Jobs[0].Iterations) / float64(alone.Iterations)
		if kept < 1-loss-0.01 {
			t.Errorf("keeps %.3f", kept)
		}
		for i := range res.Jobs {
			if j := &res.Jobs[i]; j.Passed > 0 {
				passed++
				if i == 0 || j.Used+j.Passed > sc.Duration {
					t.Errorf("%s: %+v", j.Name, j.Account)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: %s: %+v", seed, spec, sc)
		}
	}
	if passed < int(n)/2 {
		t.Errorf("in %d runs launches of %d jobs passed", n, passed)
	}
}
