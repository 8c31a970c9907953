package scenario

import (
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
)

// Live is the state of a running phase, for a person who watches.
type Live struct {
	Mode    Mode
	Policy  string
	Elapsed time.Duration
	Window  time.Duration // 0: until every job has reached its iteration count
	Jobs    []LiveJob
}

// LiveJob is the state of one job.
type LiveJob struct {
	Name       string
	Class      share.Class
	Running    bool    // holds the device now
	Recent     float64 // fraction of the device held since the last Live; negative when nobody counts it
	Queue      int     // requests that have arrived and are not served
	Held, Cap  share.Bytes
	Iterations int64
	Latency    Latency // over the phase so far
	Error      string
}

const liveEvery = 200 * time.Millisecond

// live starts the samples of memory and the live view; the function that it returns ends them.
func (s *stage) live() (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(liveEvery)
		defer tick.Stop()
		used := make([]time.Duration, len(s.tenants))
		var at time.Duration
		for {
			now := s.now()
			s.sample(now, now-at, used)
			at = now
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-gone }
}

// sample takes one look; used holds each tenant's device time at the last one.
func (s *stage) sample(now, since time.Duration, used []time.Duration) {
	var st broker.Status
	if s.broker != nil {
		st = s.broker.Snapshot()
		s.watch.sample(now, st)
	}
	if s.run.o.Live == nil {
		return
	}
	l := Live{Mode: s.mode, Policy: s.phase.Policy, Elapsed: now, Window: s.window}
	for _, t := range s.tenants {
		l.Jobs = append(l.Jobs, t.live(since, &used[t.index]))
	}
	s.run.o.Live(l)
}

func (t *tenant) live(since time.Duration, used *time.Duration) LiveJob {
	j := LiveJob{Name: t.p.spec.Name, Class: t.p.spec.Class, Recent: -1, Held: share.Bytes(t.result.PlanBytes), Error: t.result.Error}
	if t.driver != nil {
		ds, _ := t.driver.snapshot()
		j.Iterations, j.Latency = int64(len(ds)), latencyOf(ds)
	}
	if t.admit == nil {
		return j
	}
	st := t.admit.Status()
	j.Running, j.Queue = st.Phase == share.Running, st.Requests
	j.Held, j.Cap = st.Persistent+st.Ephemeral, t.admit.Spec().Memory
	if since > 0 {
		j.Recent = float64(st.Used-*used) / float64(since)
	}
	*used = st.Used
	return j
}
