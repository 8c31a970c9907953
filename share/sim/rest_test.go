package sim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// at makes requests arrive at these times.
func at(times ...time.Duration) sim.Arrival { return sim.Arrival{Trace: times} }

// TestRests: a job that rests goes on without a switch and pays for nothing meanwhile; one whose
// units are asked back keeps the next waiting while it lingers, and pays for that.
func TestRests(t *testing.T) {
	rests := job("rests", 10*ms, 0, at(0, 30*ms, 50*ms, 71*ms))
	rests.Rests, rests.Linger = true, 5*ms
	other := job("other", 10*ms, 0, at(70*ms))
	sc := sim.Scenario{Duration: time.Second, Jobs: []sim.Job{rests, other},
		Device: sim.Device{SwitchCost: ms}}
	res := run(t, "fifo", sc)
	for i, want := range []struct {
		holds     []sim.Hold
		latencies []time.Duration
		used      time.Duration
	}{
		{[]sim.Hold{{From: 0, To: 11 * ms, Fraction: 1}, {From: 30 * ms, To: 40 * ms, Fraction: 1},
			{From: 50 * ms, To: 60 * ms, Fraction: 1}, {From: 70 * ms, To: 75 * ms, Fraction: 1},
			{From: 86 * ms, To: 97 * ms, Fraction: 1}},
			[]time.Duration{11 * ms, 10 * ms, 10 * ms, 26 * ms}, 47 * ms},
		{[]sim.Hold{{From: 75 * ms, To: 86 * ms, Fraction: 1}}, []time.Duration{16 * ms}, 11 * ms},
	} {
		j := &res.Jobs[i]
		if !slices.Equal(j.Holds, want.holds) || !slices.Equal(j.Latencies, want.latencies) ||
			j.Used != want.used {
			t.Errorf("%s: held %v, took %v, paid %v; want %+v", j.Name, j.Holds, j.Latencies,
				j.Used, want)
		}
	}
	if res.Switches != 3 || res.Faults != 0 || res.Wasted != 0 {
		t.Errorf("%d switches, %d faults, idle %d times; want 3, 0, 0", res.Switches, res.Faults,
			res.Wasted)
	}
}

// TestRestIsOver: a job whose hold is over when it rests gives its units back, and one whose hold
// is over when it has work again asks for another; both are alone, and lose nothing.
func TestRestIsOver(t *testing.T) {
	for _, slice := range []time.Duration{5 * ms, 10 * ms, 15 * ms, 25 * ms, 45 * ms} {
		j := job("rests", 10*ms, 5*ms, at(0, 20*ms, 40*ms))
		j.Rests = true
		res := simulate(t, scripted{units: 1, slice: slice},
			sim.Scenario{Duration: time.Second, Jobs: []sim.Job{j}})
		got := &res.Jobs[0]
		if !slices.Equal(got.Latencies, []time.Duration{10 * ms, 10 * ms, 10 * ms}) ||
			got.Used != 30*ms || res.Faults > 0 {
			t.Errorf("slices of %v: took %v, paid %v, %d faults", slice, got.Latencies, got.Used,
				res.Faults)
		}
	}
}

// TestRestsBeside: where jobs overlap, one that rests is not asked for what others use beside it,
// and runs on beside them.
func TestRestsBeside(t *testing.T) {
	a, b := job("a", 10*ms, 0, at(0, 25*ms)), job("b", 20*ms, 0, at(15*ms))
	a.Rests, a.Linger = true, time.Second
	sc := sim.Scenario{Duration: time.Second, Jobs: []sim.Job{a, b},
		Device: sim.Device{Can: share.Can{Partition: true, Overlap: true}}}
	res := run(t, "mps", sc)
	// From 25 ms on both are half as fast.
	if got := res.Jobs[0].Latencies; !slices.Equal(got, []time.Duration{10 * ms, 20 * ms}) {
		t.Errorf("a took %v, want 10ms and 20ms", got)
	}
	if got := res.Jobs[1].Latencies; !slices.Equal(got, []time.Duration{30 * ms}) {
		t.Errorf("b took %v, want 30ms", got)
	}
	if a, b := res.Jobs[0].Used, res.Jobs[1].Used; a != 20*ms || b != 20*ms {
		t.Errorf("paid %v and %v, want 20ms each", a, b)
	}
}
