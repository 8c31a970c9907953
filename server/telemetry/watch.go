package telemetry

import (
	"math"
	"time"
)

// Watch computes the load of a server from then on, once a second, until Close.
func (r *Recorder) Watch(s Source) {
	r.stop = make(chan struct{})
	r.done.Go(func() {
		l := load{costs: map[*Model]*cost{}}
		tick := time.NewTicker(loadEvery)
		defer tick.Stop()
		before := r.now()
		for {
			select {
			case <-r.stop:
				return
			case <-tick.C:
			}
			now := r.now()
			l.step(now-before, r.usage(s))
			before = now
			r.load.Store(math.Float64bits(l.value))
		}
	})
}

// Close ends what Watch began.
func (r *Recorder) Close() {
	if r.stop != nil {
		close(r.stop)
		r.done.Wait()
		r.stop = nil
	}
}

// usage is what each model came to.
func (r *Recorder) usage(s Source) []usage {
	charged := map[string]time.Duration{}
	for _, j := range s.Status().Jobs {
		charged[j.Name] = j.Used
	}
	var all []usage
	list := r.list()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range list {
		all = append(all, usage{m, m.offered.Load(), m.begun.Load(), charged[m.job]})
	}
	return all
}

// Load returns how much device time requests demand, over how much there is: 1 is full, and it goes
// on rising beyond that. Demanded is, of each request that was understood, whether admitted or
// refused, its rows times the device time that a row of its model takes: the mean of those that
// were computed, fading over a minute. The load is smoothed over 15 seconds.
func (r *Recorder) Load() float64 { return math.Float64frombits(r.load.Load()) }
