package tune

import (
	"context"
	"slices"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/clock"
	"github.com/weirgpu/weir/plan"
)

// bench measures plans against each other.
type bench struct {
	clock clock.Clock
	// loads the plan with these choices
	start    func(ctx context.Context, c compute.Choices) (*running, error)
	time     time.Duration // of a measurement
	progress func(done float64)
}

// running is a plan that is loaded.
type running struct {
	fill func() error
	// visits each step after it has run
	run  func(ctx context.Context, visit func(s *plan.Step)) error
	stop func()

	problems map[*plan.Step]string // "" for steps that have one way
}

// problem is Problem of the step's kernel, "" when it has one way.
func (r *running) problem(s *plan.Step) string {
	name, known := r.problems[s]
	if known {
		return name
	}
	if k, ok := s.Kernel.(compute.Choosing); ok && len(k.Algorithms()) > 1 {
		name = k.Problem()
	}
	if r.problems == nil {
		r.problems = map[*plan.Step]string{}
	}
	r.problems[s] = name
	return name
}

// survey runs the plan once and lists what its steps have several ways for.
func (r *running) survey(ctx context.Context) ([]Problem, error) {
	if err := r.fill(); err != nil {
		return nil, err
	}
	index := map[string]int{}
	list := []Problem{}
	err := r.run(ctx, func(s *plan.Step) {
		name := r.problem(s)
		if name == "" {
			return
		}
		i, seen := index[name]
		if !seen {
			i = len(list)
			index[name] = i
			list = append(list, problemOf(name, s.Kernel.(compute.Choosing)))
		}
		list[i].Steps = append(list[i].Steps, s.Node.Name)
	})
	return list, err
}

// problemOf is a problem with all ways that a kernel has, of which it takes the first one.
func problemOf(name string, k compute.Choosing) Problem {
	p := Problem{Problem: name}
	for _, w := range k.Algorithms() {
		p.Candidates = append(p.Candidates, Candidate{Algorithm: w})
	}
	p.Chosen = p.Candidates[0].Algorithm
	return p
}

// sample is the times of one plan, one a round.
type sample struct {
	times map[string][]time.Duration // of all steps of a problem together
	total []time.Duration            // of all steps
}

// rounds runs the plans in turn until the time is over, and meanwhile reports progress from one
// part of the work to another.
func (b *bench) rounds(ctx context.Context, list []*running, from, to float64) ([]*sample, error) {
	samples := make([]*sample, len(list))
	for i := range samples {
		samples[i] = &sample{times: map[string][]time.Duration{}}
	}
	began := b.clock.Now()
	for n := 0; n < MaxRounds; n++ {
		spent := b.clock.Now() - began
		if n >= MinRounds && spent >= b.time {
			break
		}
		done := max(float64(n)/MaxRounds, min(float64(n)/MinRounds, float64(spent)/float64(b.time)))
		b.progress(from + (to-from)*done)
		for i := range list {
			i = (i + n) % len(list) // so that none always follows the same one
			if err := b.once(ctx, list[i], samples[i]); err != nil {
				return nil, err
			}
		}
	}
	b.progress(to)
	return samples, nil
}

// once times one run of a plan. A run before it brings the plan's weights back into the caches,
// where they would be if no other plan took turns with it.
func (b *bench) once(ctx context.Context, r *running, s *sample) error {
	if err := r.fill(); err != nil {
		return err
	}
	if err := r.run(ctx, func(*plan.Step) {}); err != nil {
		return err
	}
	if err := r.fill(); err != nil {
		return err
	}
	round := len(s.total)
	s.total = append(s.total, 0)
	last := b.clock.Now()
	return r.run(ctx, func(step *plan.Step) {
		took := b.clock.Now() - last
		s.add(round, r.problem(step), took)
		last = b.clock.Now()
	})
}

// add adds the time of a step to a round.
func (s *sample) add(round int, problem string, took time.Duration) {
	s.total[round] += took
	if problem == "" {
		return
	}
	times := s.times[problem]
	for len(times) <= round { // rounds in which no such step ran count nothing
		times = append(times, 0)
	}
	times[round] += took
	s.times[problem] = times
}

// gain is the part of the time that other saves over base for sure: the lesser of what the median
// over the rounds says and what the least times say.
func gain(base, other []time.Duration) float64 {
	var ratios []float64
	var leastBase, leastOther time.Duration
	for i := range min(len(base), len(other)) {
		x, y := base[i], other[i]
		if x <= 0 || y <= 0 {
			continue
		}
		ratios = append(ratios, float64(y)/float64(x))
		if len(ratios) == 1 {
			leastBase, leastOther = x, y
		}
		leastBase, leastOther = min(leastBase, x), min(leastOther, y)
	}
	if len(ratios) < MinRounds {
		return 0
	}
	slices.Sort(ratios)
	return min(1-ratios[len(ratios)/2], 1-float64(leastOther)/float64(leastBase))
}

// median is the middle one, 0 of none.
func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
