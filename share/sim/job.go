package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// job is a job in progress. Work is counted in nanoseconds of the whole device with nobody beside.
type job struct {
	spec   *Job
	index  int // in the scenario
	place  int32
	random *rand.Rand
	id     share.JobID // 0: not admitted
	ended  bool

	admitted time.Duration

	queue []time.Duration // arrivals of requests not yet completed
	left  int64           // requests to come in all; below 0: no end

	total     float64 // work of the iteration in progress; 0: none is
	done      float64 // work done of it at mark
	first     float64 // done when the hold began
	target    float64 // done when the hold ends
	mark      time.Duration
	speed     float64 // work a nanosecond
	units     share.UnitSet
	until     time.Duration // of the hold
	holdFrom  time.Duration
	stop      time.Duration // when the hold ends
	free      time.Duration // kernels shorter than this pass without a lease
	bandwidth float64       // set apart for the job; 0: none is
	passing   bool          // one does: units are those that it uses, and not held
	resting   bool          // units are held for no work
	asked     bool          // back, what it rests on
	keeping   bool          // units are held in a pause
	ahead     time.Duration // bound on what is in flight; 0: the device's own
	// versions tell events that still come from those that do not.
	stopVersion uint32

	ran, passed float64 // device time worked within holds and without, in nanoseconds
	told        told

	holds      []Hold
	latencies  []time.Duration
	account    core.Account
	iterations int64
	completion time.Duration
	refused    error
}

// gap draws a time between two arrivals of the Poisson process.
func (j *job) gap() time.Duration {
	ns := j.random.ExpFloat64() / j.spec.Arrival.Poisson * float64(time.Second)
	// Beyond an int64 the conversion may yield anything (Go specification, Conversions).
	return max(1, time.Duration(min(ns, float64(never/4))))
}

// waits reports whether the job has work and does nothing.
func (j *job) waits() bool {
	return j.id != 0 && !j.ended && len(j.queue) > 0 && j.units.Empty()
}

// kernel is how long a step is expected to take.
func (j *job) kernel() time.Duration {
	if j.spec.Step > 0 {
		return j.spec.Step
	}
	return j.spec.Iteration.Mean
}

// progress brings the work done up to now.
func (j *job) progress(now time.Duration) {
	if now <= j.mark {
		return
	}
	before := j.done
	j.done = min(j.target, j.done+float64(now-j.mark)*j.speed)
	j.mark = now
	switch work := j.done - before; {
	case j.passing:
		j.passed += work
	case j.speed > 0:
		j.ran += work / j.speed
	}
}

// aim finds where the hold ends: at the first boundary between steps that is reached at or after
// its end, one step at least from where it began, and not after the iteration.
func (j *job) aim(now time.Duration) {
	j.target = j.total
	if j.until != never {
		reached := j.done + float64(max(0, j.until-max(now, j.mark)))*j.speed
		j.target = max(j.boundary(reached, false), j.boundary(j.first, true))
	}
	j.stop = max(now, j.mark) + time.Duration(math.Ceil((j.target-j.done)/j.speed-1e-6))
	j.stopVersion++
}

// boundary returns the first boundary between steps at or after this much work, or after it.
func (j *job) boundary(work float64, after bool) float64 {
	step := float64(j.spec.Step)
	if step <= 0 || work >= j.total {
		return j.total
	}
	n := math.Ceil(work/step - 1e-9)
	if after && n*step <= work+1e-6 {
		n++
	}
	return min(j.total, n*step)
}

// held notes a hold that ends now.
func (j *job) held(from, to time.Duration, fraction float64) {
	if to <= from || j.passing || j.resting && !j.asked {
		return
	}
	if n := len(j.holds); n > 0 && j.holds[n-1].To == from && j.holds[n-1].Fraction == fraction {
		j.holds[n-1].To = to
		return
	}
	j.holds = append(j.holds, Hold{From: from, To: to, Fraction: fraction})
}

// width is how many units of a device of so many the job can use.
func (j *job) width(units int) float64 {
	if w := j.spec.Width; w > 0 && w < units {
		return float64(w)
	}
	return float64(units)
}

// pace sets the speeds of all holders: each unit is split evenly between those who hold it and can
// still use more. A job with bandwidth set apart is slowed down as far as it wants more than that,
// in proportion to how much it depends on it; all others are by what they want together of what
// there is.
func (w *world) pace() {
	w.split()
	traffic := 0.0
	for i, j := range w.holders {
		w.speeds[i] = w.got[i] / j.width(w.units)
		t := j.spec.Bandwidth * w.speeds[i]
		if j.bandwidth > 0 {
			t = min(t, j.bandwidth)
		}
		traffic += t
	}
	for i, j := range w.holders {
		over := traffic
		if j.bandwidth > 0 {
			over = j.spec.Bandwidth * w.speeds[i] / j.bandwidth
		}
		w.setSpeed(j, w.speeds[i]/(1-j.spec.Bandwidth+j.spec.Bandwidth*max(1, over)))
	}
}

// split fills w.got with the units that each holder gets to use.
func (w *world) split() {
	n := len(w.holders)
	w.got, w.speeds = grown(w.got, n), grown(w.speeds, n)
	if n == 1 {
		j := w.holders[0]
		w.got[0] = min(j.width(w.units), float64(j.units.Len()))
		return
	}
	w.divide()
	full := 0
	for i := range w.got {
		w.got[i] = 0
	}
	for round := 0; round < n && full < n; round++ {
		full = w.fill()
	}
}

// parcel is units of which each holder holds all or none, and how many of them are not split yet.
type parcel struct {
	units share.UnitSet
	left  float64
}

// divide finds the parcels.
func (w *world) divide() {
	list := append(w.parcels[:0], parcel{units: share.UnitRange(0, w.units)})
	for _, j := range w.holders {
		for i := range list {
			in := list[i].units.Intersect(j.units)
			if in.Empty() || in == list[i].units {
				continue
			}
			list = append(list, parcel{units: list[i].units.Minus(in)})
			list[i].units = in
		}
	}
	for i := range list {
		list[i].left = float64(list[i].units.Len())
	}
	w.parcels = list
}

// fill splits what is left of each parcel between the holders that can use more, as far as the
// first of them is satisfied, and returns how many are.
func (w *world) fill() (full int) {
	offer := grown(w.offer, len(w.holders))
	w.offer = offer
	clear(offer)
	hungry := func(i int) bool {
		return w.got[i] < w.holders[i].width(w.units)-1e-9
	}
	for u := range w.parcels {
		p := &w.parcels[u]
		k := 0
		for i, j := range w.holders {
			if j.units.Overlaps(p.units) && hungry(i) {
				k++
			}
		}
		for i, j := range w.holders {
			if j.units.Overlaps(p.units) && hungry(i) {
				offer[i] += p.left / float64(k)
			}
		}
	}
	part := 1.0 // of the offers that is taken
	for i, j := range w.holders {
		if offer[i] > 0 {
			part = min(part, (j.width(w.units)-w.got[i])/offer[i])
		}
	}
	for u := range w.parcels {
		p := &w.parcels[u]
		for i, j := range w.holders {
			if j.units.Overlaps(p.units) && hungry(i) {
				p.left -= part * p.left
				break
			}
		}
	}
	for i := range w.holders {
		if w.got[i] += part * offer[i]; offer[i] == 0 || !hungry(i) {
			full++
		}
	}
	return full
}

// grown returns a slice of n elements in the place of s where it can.
func grown(s []float64, n int) []float64 { return slices.Grow(s[:0], n)[:n] }

// setSpeed lets the job go on at another speed.
func (w *world) setSpeed(j *job, speed float64) {
	if speed == j.speed {
		return
	}
	j.progress(w.now)
	j.speed = speed
	w.schedule(j)
}

// schedule finds when the hold ends, and enters it.
func (w *world) schedule(j *job) {
	j.aim(w.now)
	w.calendar.push(event{j.stop, holdEnds, j.place, j.stopVersion})
}
