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

// TestLimitOfWhatIsFoundLate: it comes back beside a job that wants the whole device too, and where
// what was used of two turns is found at once, in the middle of a third.
func TestLimitOfWhatIsFoundLate(t *testing.T) {
	const busy = 0.95
	want := 0.3 / (1 - (1-busy)*2/3)
	for _, spec := range []string{"fair", "priority"} {
		p := mustNew(t, spec)
		s := &share.Snapshot{Units: 1, Memory: 1 << 30}
		for i, of := range []share.Share{{Limit: 0.3}, {}} {
			s.Jobs = append(s.Jobs, share.JobState{ID: share.JobID(i + 1), Phase: share.Waiting,
				Remaining: -1, Share: of, State: p.(share.Stateful).NewJobState()})
		}
		limited, turns, before := &s.Jobs[0], 0, time.Duration(0)
		for s.Now < 10*time.Second {
			d := p.Decide(s)
			if len(d.Set) == 0 {
				s.Now = d.Wake
				continue
			}
			j, granted := s.Job(d.Set[0].Job), s.Now
			j.Phase, j.Granted = share.Running, granted
			j.Units, j.Until = d.Set[0].Units, d.Set[0].Until
			half := (j.Until - granted) / 2
			s.Now, j.Used = granted+half, j.Used+half
			if j == limited {
				if limited.MeasuredAt = s.Now; turns%2 == 0 {
					limited.Measured = time.Duration(busy * float64(before))
				}
				turns++
			}
			p.Decide(s)
			s.Now, j.Used = j.Until, j.Used+j.Until-granted-half
			j.Phase, j.Units = share.Waiting, share.UnitSet{}
			before = limited.Used
		}
		if got := limited.Used.Seconds() / s.Now.Seconds(); got < want-0.003 || got > want+0.001 {
			t.Errorf("%s: %.4f of the device in %d turns, want %.4f", spec, got, turns, want)
		}
	}
}
