package scenario

import (
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
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
	Name    string
	Class   share.Class
	Running bool // holds the device now
	// fraction of the device held since the last Live; negative when nobody can tell
	Recent     float64
	Queue      int // requests that have arrived and are not served
	Held, Cap  share.Bytes
	Iterations int64
	Latency    Latency // of the last 1,000 requests
	Error      string
	// Place is where it waits for room among those that wait, from 1; 0: it does not. Waits says
	// for what.
	Place int
	Waits string
}

const liveEvery = 200 * time.Millisecond

// live starts the samples of memory and the live view; the function that it returns ends them.
func (s *stage) live() (stop func()) {
	used := make([]time.Duration, len(s.tenants))
	var at time.Duration
	return every(liveEvery, func() {
		now := s.now()
		s.sample(now, now-at, used)
		at = now
	})
}

// liveClock shows how the time passes while processes run, of which no more is known until they
// end.
func (r *run) liveClock(began time.Time) (stop func()) {
	if r.o.Live == nil {
		return func() {}
	}
	return every(liveEvery, func() {
		r.o.Live(Live{Mode: Processes, Elapsed: time.Since(began), Window: r.s.Duration})
	})
}

// every calls f now and at each interval, until the function that it returns is called, which waits
// for the last call.
func every(interval time.Duration, f func()) (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			f()
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
	var st core.Status
	if s.broker != nil {
		st = s.broker.Status()
		s.watch.sample(now, st)
	}
	if s.run.o.Live == nil {
		return
	}
	l := Live{Mode: s.mode, Policy: s.phase.Policy, Elapsed: now, Window: s.window}
	l.Jobs = s.describe(since, used)
	s.run.o.Live(l)
}

// describe describes all tenants; those that wait are let in by other goroutines.
func (s *stage) describe(since time.Duration, used []time.Duration) (jobs []LiveJob) {
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	for _, t := range s.tenants {
		j := t.live(s.mode, since, &used[t.index])
		j.Place, j.Waits = s.door.place(t)
		jobs = append(jobs, j)
	}
	return jobs
}

// live describes a tenant; used is its device time when it was last described, and since how long
// ago that was.
func (t *tenant) live(m Mode, since time.Duration, used *time.Duration) LiveJob {
	j := LiveJob{Name: t.p.spec.Name, Class: t.p.spec.Class, Recent: -1, Cap: t.p.spec.Memory,
		Error: t.result.Error}
	var now time.Duration
	if t.driver != nil {
		var last []time.Duration
		j.Iterations, last, now = t.driver.recent()
		j.Latency, j.Held, j.Queue = latencyOf(last), t.held.Held(), int(t.driver.waiting.Load())
	}
	if t.admit != nil {
		st := t.admit.Status()
		j.Running, now = st.Phase == share.Running, st.Used
		j.Held, j.Cap = st.Memory.Resident(), t.admit.Spec().Memory
	}
	if since > 0 && (m == Shared || m == Solo) {
		j.Recent = float64(now-*used) / float64(since)
	}
	*used = now
	return j
}
