package policy_test

import (
	"math"
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

// TestLimitOfWhatIsUsed: three quarters of what a job at its limit held and was not found to use
// come back to its limit, and a sixteenth of what it held at most, whatever it is found to use.
func TestLimitOfWhatIsUsed(t *testing.T) {
	limited := share.Share{Limit: 0.3}
	for pause, want := range map[time.Duration]float64{
		0: 0.3, 5 * us: 0.3 / (1 - 5./105*3/4), 300 * us: 0.3 * 16 / 15} {
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

// TestLimitOfWhatIsUsedBeside: beside another that always has work, a job at its limit has that too
// of what is not guaranteed to the other, and no more.
func TestLimitOfWhatIsUsedBeside(t *testing.T) {
	for guaranteed, want := range map[float64]float64{
		0.25: 0.3 / (1 - 3./4/20), 0.695: 0.305, 0.7: 0.3} {
		for _, spec := range []string{"fair", "priority"} {
			limited := share.Share{Compute: 0.3, Limit: 0.3}
			other := share.Share{Compute: guaranteed}
			got := heldBy(t, mustNew(t, spec), 0, 0.95, limited, other)
			if math.Abs(got[0]-want) > 0.001 {
				t.Errorf("%s: %.4f of the device beside a guarantee of %v, want %.4f", spec, got[0],
					guaranteed, want)
			}
			if other.Compute < 0.5 {
				apart := heldBy(t, mustNew(t, spec), 300*us, 0.95, limited, other)
				if math.Abs(apart[0]-want) > 0.001 {
					t.Errorf("%s: %.4f of the device in turns that are apart, want %.4f", spec,
						apart[0], want)
				}
			}
			if got[1] < guaranteed-0.001 {
				t.Errorf("%s: %.4f of the device is left for a guarantee of %v", spec, got[1],
					guaranteed)
			}
		}
	}
}

// heldBy runs jobs that always wait or run for ten seconds, with so much between their turns, of
// which each is found to have used a part of what it held, and returns the fractions of the time
// for which they held the device.
func heldBy(t *testing.T, p share.Policy, apart time.Duration, used float64,
	shares ...share.Share) []float64 {
	t.Helper()
	s := &share.Snapshot{Units: 1, Now: 1}
	for i, of := range shares {
		s.Jobs = append(s.Jobs, share.JobState{ID: share.JobID(i + 1), Share: of,
			Phase: share.Waiting, Remaining: -1, State: p.(share.Stateful).NewJobState()})
	}
	for s.Now < 10*time.Second {
		d := p.Decide(s)
		if len(d.Set) == 0 {
			if d.Wake <= s.Now {
				t.Fatalf("nobody runs, and nobody will at %v", d.Wake)
			}
			s.Now = d.Wake
			continue
		}
		j := s.Job(d.Set[0].Job)
		held := d.Set[0].Until - s.Now
		s.Now += held + apart
		j.Used += held
		j.Measured += time.Duration(used * float64(held))
		j.MeasuredAt, j.Since = s.Now, s.Now
	}
	var of []float64
	for _, j := range s.Jobs {
		of = append(of, float64(j.Used)/float64(s.Now))
	}
	return of
}
