package scenario

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/internal/sorting"
)

// Switch is weights that left the device because others needed the room, or that came back for an
// iteration.
type Switch struct {
	AtS float64 `json:"at_s"` // after the phase's begin; 0 for those of before
	Job string  `json:"job"`
	// how many bytes came, below 0: left; and how many of the job's weights were on the device, or
	// on their way, then
	Bytes    int64 `json:"bytes"`
	Resident int64 `json:"resident_bytes"`
}

// maxSwitches bounds what is kept of a phase, some megabytes: as much as a minute of a thousand
// switches a second.
const maxSwitches = 1 << 16

// Residency is which part of a job's weights was on the device from a time of the phase on.
type Residency struct {
	From     time.Duration
	Fraction float64
}

// resided are a job's weights, which leave the device and come back, and what is known of that. It
// implements seat.Weighty.
type resided struct {
	seat.Weighty
	total int64
	clock func() time.Duration

	mu    sync.Mutex
	moves []move
	lost  int64 // moves beyond those kept
	came  int64 // times that weights came back
	bytes int64 // that came back
	told  bool  // of the moves, by one of the jobs that have the weights
}

// move is weights that left or came.
type move struct {
	at              time.Duration // on the clock of resided
	bytes, resident int64
}

func newResided(w seat.Weighty, total int64, clock func() time.Duration) *resided {
	return &resided{Weighty: w, total: total, clock: clock}
}

// follow takes over what is known of weights that these take the place of.
func (r *resided) follow(was *resided) {
	was.mu.Lock()
	defer was.mu.Unlock()
	r.moves, r.lost, r.came, r.bytes = was.moves, was.lost, was.came, was.bytes
}

// Evict implements seat.Weighty.
func (r *resided) Evict(most int64) int64 {
	freed := r.Weighty.Evict(most)
	if freed > 0 {
		r.note(-freed)
	}
	return freed
}

// Recall implements seat.Weighty.
func (r *resided) Recall(ctx context.Context) error {
	away := r.Away()
	err := r.Weighty.Recall(ctx)
	if came := away - r.Away(); came > 0 {
		r.note(came)
	}
	return err
}

// note keeps that so many bytes came, below 0 left.
func (r *resided) note(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes > 0 {
		r.came++
		r.bytes += bytes
	}
	if len(r.moves) == maxSwitches {
		r.lost++
		return
	}
	r.moves = append(r.moves, move{r.clock(), bytes, r.total - r.Away()})
}

// returns says how often weights came back so far.
func (r *resided) returns() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.came
}

// residency returns what was on the device from the begin of a phase to its end.
func (r *resided) residency(zero, wall time.Duration) (parts []Residency) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := Residency{Fraction: 1}
	for _, m := range r.moves {
		next := Residency{max(0, m.at-zero), float64(m.resident) / float64(max(1, r.total))}
		if next.From >= wall {
			break
		}
		if next.From > now.From {
			parts = append(parts, now)
		}
		now = next
	}
	return append(parts, now)
}

// MeanResidency returns the mean part of the job's weights that was on the device from one time of
// the phase to a later one; 1 for a job whose weights stay.
func (j *JobResult) MeanResidency(from, to time.Duration) float64 {
	sum := 0.0
	for i, r := range j.Residency {
		end := to
		if i+1 < len(j.Residency) {
			end = min(end, j.Residency[i+1].From)
		}
		sum += r.Fraction * float64(max(0, end-max(from, r.From)))
	}
	if len(j.Residency) == 0 || to <= from {
		return 1
	}
	return min(1, sum/float64(to-from))
}

// Weights adds up the weights of jobs that others may have the room of, and what came back of them.
// Those that several of the jobs have together count once.
func Weights(jobs []JobResult) (bytes, returned int64) {
	for i := range jobs {
		if j := &jobs[i]; !sharedBefore(jobs, i) {
			bytes, returned = bytes+j.WeightBytes, returned+j.ReturnedBytes
		}
	}
	return bytes, returned
}

// Held adds up the most memory that each of the jobs held. Weights that several of them have
// together count once.
func Held(jobs []JobResult) (bytes int64) {
	for i := range jobs {
		if bytes += jobs[i].MemoryPeakBytes; sharedBefore(jobs, i) {
			bytes -= jobs[i].SharedBytes
		}
	}
	return bytes
}

// sharedBefore reports whether one of the jobs before has the weights of job i together with it.
func sharedBefore(jobs []JobResult, i int) bool {
	name := jobs[i].SharedWeights
	return name != "" && slices.ContainsFunc(jobs[:i], func(j JobResult) bool {
		return j.SharedWeights == name
	})
}

// reportMemory tells what became of a job's memory that others may have in turn.
func (s *stage) reportMemory(t *tenant) {
	res, r := &t.result, t.weights
	res.MemoryKeptBytes = int64(t.admit.Spec().Keep)
	if r == nil {
		return
	}
	zero := s.watch.began()
	res.Residency = r.residency(zero, s.phase.Wall)
	res.Resident = res.MeanResidency(0, s.phase.Wall)
	res.Missed, res.MissedLatency = int64(len(t.driver.missed)), latencyOf(t.driver.missed)
	r.mu.Lock()
	defer r.mu.Unlock()
	res.WeightBytes, res.ReturnedBytes = r.total, r.bytes
	s.phase.Eviction = s.rule
	if r.told {
		return // of weights that another job has, too
	}
	s.phase.SwitchesLeftOut += r.lost
	r.told = true
	for _, m := range r.moves {
		s.phase.Switches = append(s.phase.Switches, Switch{AtS: max(0, m.at-zero).Seconds(),
			Job: t.p.spec.Name, Bytes: m.bytes, Resident: m.resident})
		s.watch.moved(t.admit.ID(), m)
	}
}

// reportSwitches puts the switches of all jobs in order of time.
func (s *stage) reportSwitches() {
	p := s.phase
	sorting.By(p.Switches, func(a, b Switch) int { return cmp.Compare(a.AtS, b.AtS) })
	if over := len(p.Switches) - maxSwitches; over > 0 {
		p.Switches, p.SwitchesLeftOut = p.Switches[:maxSwitches], p.SwitchesLeftOut+int64(over)
	}
}
