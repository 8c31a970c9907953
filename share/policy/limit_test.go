package policy_test

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// TestLimitAlone: a job at its limit and alone runs in few long slices, because the device has
// nothing to do at the beginning and the end of each; one that has not reached its limit does not
// wait for such a slice.
func TestLimitAlone(t *testing.T) {
	limited := share.Share{Limit: 0.3}
	for _, spec := range []string{"fair", "priority"} {
		sc := sim.Scenario{Duration: 10 * time.Second,
			Jobs: []sim.Job{job("at", limited, ms/10, always)}}
		r := run(t, spec, sc).Jobs[0]
		each := time.Duration(r.Share * float64(sc.Duration) / float64(len(r.Holds)))
		if r.Share < 0.299 || each < 4*ms {
			t.Errorf("%s: %.4f of the device in slices of %v, want a limit of 0.3 in such of 4 ms",
				spec, r.Share, each)
		}
		// The last comes when the slice is over, and little of the burst is left.
		sc.Jobs[0] = job("below", limited, ms/10, sim.Arrival{
			Trace: []time.Duration{0, 0, 0, 0, 6 * ms}})
		r = run(t, spec, sc).Jobs[0]
		if last := r.Latencies[len(r.Latencies)-1]; last > ms {
			t.Errorf("%s: a request of 1 ms takes %v below the limit", spec, last)
		}
	}
}

// TestLimitOfWhatIsUsed: two thirds of what a job at its limit held and was not found to use come
// back to its limit, and a sixteenth of what it held at most, whatever it is found to use.
func TestLimitOfWhatIsUsed(t *testing.T) {
	limited := share.Share{Limit: 0.3}
	for pause, want := range map[time.Duration]float64{
		0: 0.3, 5 * us: 0.3 / (1 - 5./105*2/3), 300 * us: 0.3 * 16 / 15} {
		for _, spec := range []string{"fair", "priority"} {
			j := job("held", limited, 100*us, sim.Arrival{Closed: 1, Think: pause})
			j.Iteration, j.Keeps = sim.Spread{Mean: 100 * us}, 400*us
			r := run(t, spec, sim.Scenario{Duration: 10 * time.Second, Jobs: []sim.Job{j}}).Jobs[0]
			if r.Share < want-0.002 || r.Share > want+0.0005 {
				t.Errorf("%s: pauses of %v: %.4f of the device, %v used of %v, want %.4f", spec,
					pause, r.Share, r.Measured, r.Used, want)
			}
		}
	}
}
