package tune

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/clock"
	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/plan"
)

// Gain is the part of a step's time that a way must save over the cost model's, so that it is no
// accident of measuring.
const Gain = 0.03

// DefaultTime is how long each of the two measurements takes unless Options say so.
const DefaultTime = 4 * time.Second

// Bounds of the rounds of a measurement.
const (
	MinRounds = 5
	MaxRounds = 1000
)

// Options say what is measured and how.
type Options struct {
	// Compile makes the plan of the model with these choices; nil leaves all to the cost model.
	Compile func(ctx context.Context, c compute.Choices) (*plan.Plan, error)
	// Engine says where plans are loaded. The quota must hold as many as a step has ways, and
	// three, each with its packed weights.
	Engine engine.Options
	// Fill writes an instance's inputs, before each run.
	Fill func(i *engine.Instance) error
	// Time is how long each of the two measurements goes on, 0 for DefaultTime: at least MinRounds
	// and at most MaxRounds rounds.
	Time time.Duration
	// Progress, when set, is told which part of the work is done, from 0 to 1.
	Progress func(done float64)
}

// Result is what was measured.
type Result struct {
	// Choices has the way to take for each problem, the cost model's where no other is faster.
	Choices compute.Choices `json:"-"`
	// Problems are those that have several ways, the longest first.
	Problems []Problem `json:"problems"`
	// BeforeMS is the median time of all steps with the choices of the cost model, and AfterMS what
	// Choices make of it.
	BeforeMS float64 `json:"before_ms"`
	AfterMS  float64 `json:"after_ms"`
	// Rounds are those of the first measurement, Confirming those of the second: 0 when there was
	// nothing to confirm.
	Rounds     int `json:"rounds"`
	Confirming int `json:"confirming_rounds"`
}

// Problem is what some steps compute.
type Problem struct {
	Problem    string      `json:"problem"`
	Steps      []string    `json:"steps"` // names of their nodes
	Candidates []Candidate `json:"ways"`  // that of the cost model first
	Chosen     string      `json:"chosen"`
	// Promised is the part of the time that the first measurement found the fastest way to save,
	// Gain what the chosen one was confirmed to save: 0 for the cost model's.
	Promised float64 `json:"promised"`
	Gain     float64 `json:"gain"`

	fastest int // of Candidates
}

// Algorithm is one way and the median time, over the rounds, of all steps of the problem together.
type Candidate struct {
	Algorithm string  `json:"way"`
	MS        float64 `json:"ms"`
}

// Run measures a model. The errors are those of Options' functions, of engine.Load, of the model,
// and ctx's.
func Run(ctx context.Context, o Options) (*Result, error) {
	b := bench{clock: clock.NewReal(), start: o.start, time: o.Time, progress: o.Progress}
	if b.time == 0 {
		b.time = DefaultTime
	}
	if b.progress == nil {
		b.progress = func(float64) {}
	}
	return b.tune(ctx)
}

// start loads the plan with the given choices.
func (o *Options) start(ctx context.Context, c compute.Choices) (*running, error) {
	p, err := o.Compile(ctx, c)
	if err != nil {
		return nil, err
	}
	s, err := engine.Load(p, o.Engine)
	if err != nil {
		return nil, err
	}
	i, err := s.Take()
	if err != nil {
		s.Close()
		return nil, err
	}
	i.Settle() // or one plan would have the huge pages, and another none
	return &running{
		fill: func() error { return o.Fill(i) },
		run: func(ctx context.Context, visit func(s *plan.Step)) error {
			return i.Profile(ctx, func(s *plan.Step, _ plan.Cost) { visit(s) })
		},
		stop: func() { i.Put(); s.Close() },
	}, nil
}

// tune measures every way, then, once more, those that seem faster.
func (b *bench) tune(ctx context.Context) (*Result, error) {
	base, err := b.start(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer base.stop()
	r := &Result{Choices: compute.Choices{}}
	if r.Problems, err = base.survey(ctx); err != nil || len(r.Problems) == 0 {
		return r, err
	}
	if err := b.compare(ctx, r, base); err != nil {
		return nil, err
	}
	if promising := r.promising(); len(promising) > 0 {
		if err := b.confirm(ctx, r, base, promising); err != nil {
			return nil, err
		}
	}
	for _, p := range r.Problems {
		r.Choices[p.Problem] = p.Chosen
	}
	sorting.By(r.Problems, func(p, q Problem) int {
		return cmp.Compare(q.Candidates[0].MS, p.Candidates[0].MS)
	})
	return r, nil
}

// compare times one plan for the first way of every problem, one for the second, and so on.
func (b *bench) compare(ctx context.Context, r *Result, base *running) error {
	list := []*running{base}
	defer func() {
		for _, s := range list[1:] {
			s.stop()
		}
	}()
	for way := 1; way < most(r.Problems); way++ {
		s, err := b.start(ctx, take(r.Problems, way))
		if err != nil {
			return err
		}
		list = append(list, s)
	}
	samples, err := b.rounds(ctx, list, 0, 0.5)
	if err != nil {
		return err
	}
	r.Rounds, r.BeforeMS = len(samples[0].total), milliseconds(median(samples[0].total))
	r.AfterMS = r.BeforeMS
	for i := range r.Problems {
		r.Problems[i].rate(samples)
	}
	return nil
}

// confirm times the plan of the cost model and the one with what seems faster, and chooses what is.
// Where in memory a plan came to lie makes a difference, too: so the cost model's is loaded once
// more, and both must be slower.
func (b *bench) confirm(ctx context.Context, r *Result, base *running,
	promising compute.Choices) error {
	c := take(r.Problems, 0)
	maps.Copy(c, promising)
	list := []*running{base}
	for _, choices := range []compute.Choices{nil, c} {
		s, err := b.start(ctx, choices)
		if err != nil {
			return err
		}
		defer s.stop()
		list = append(list, s)
	}
	samples, err := b.rounds(ctx, list, 0.5, 1)
	if err != nil {
		return err
	}
	r.keepGains(promising, samples[0], samples[1], samples[2])
	return nil
}

// keepGains keeps those ways whose gain shows once more, against the plan without choices as it ran
// before and again.
func (r *Result) keepGains(promising compute.Choices, before, again, after *sample) {
	r.Confirming, r.BeforeMS = len(before.total), milliseconds(median(before.total))
	r.AfterMS = r.BeforeMS
	for i := range r.Problems {
		p := &r.Problems[i]
		way, ok := promising[p.Problem]
		if !ok {
			continue
		}
		was, now := before.times[p.Problem], after.times[p.Problem]
		if g := min(gain(was, now), gain(again.times[p.Problem], now)); g > Gain {
			p.Chosen, p.Gain = way, g
			r.AfterMS -= g * milliseconds(median(was))
		}
	}
}

// promising are the ways that the first measurement found to be faster than those of the cost
// model.
func (r *Result) promising() compute.Choices {
	c := compute.Choices{}
	for i := range r.Problems {
		if p := &r.Problems[i]; p.Promised > Gain {
			c[p.Problem] = p.Candidates[p.fastest].Algorithm
		}
	}
	return c
}

// rate notes the times of each way, and which is the fastest.
func (p *Problem) rate(samples []*sample) {
	base := samples[0].times[p.Problem]
	for w := range p.Candidates {
		times := samples[w].times[p.Problem]
		p.Candidates[w].MS = milliseconds(median(times))
		if g := gain(base, times); g > p.Promised {
			p.fastest, p.Promised = w, g
		}
	}
}

// most is the largest number of ways.
func most(list []Problem) int {
	n := 0
	for i := range list {
		n = max(n, len(list[i].Candidates))
	}
	return n
}

// take chooses the way of that number for every problem, the first for those that have fewer.
func take(list []Problem, way int) compute.Choices {
	c := compute.Choices{}
	for _, p := range list {
		c[p.Problem] = p.Candidates[0].Algorithm
		if way < len(p.Candidates) {
			c[p.Problem] = p.Candidates[way].Algorithm
		}
	}
	return c
}
