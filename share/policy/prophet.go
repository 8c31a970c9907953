package policy

import (
	"flag"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is Prophet: Chen, Yang, Guo, Kannan, Mars and Tang, "Prophet: Precise QoS prediction on
// non-preemptive accelerators to improve utilization in warehouse-scale computers", ASPLOS 2017,
// sections 4 (prediction) and 5 (which tasks run together).
//
//	paper                              here
//	profile of a task, run alone       Forecast: Units, Bandwidth, Copied; see Profile
//	predicted co-location slow-down    Slowdowns
//	user-facing query, its QoS target  request of a job with a target: Forecast.Target, else
//	                                   ProphetParams.QoS for a latency job
//	co-location is safe                what is left of each query, slowed down, is done in time
//
// Departures: a batch job that is beside a query when a later one makes that unsafe gives way at
// its next kernel, where the paper decides once. Batch work is added only where the predicted sum
// of speeds rises by ProphetParams.Gain: jobs that would only slow each other down take turns. The
// profile is what a job says of itself, not measured by counters of the device. What is refused is
// to run together, not the job: at admission nothing is known of it yet.

// ProphetParams are the parameters of [Prophet].
type ProphetParams struct {
	// QoS is the target of a latency job that names none: how long after its arrival a request
	// should be completed.
	QoS time.Duration
	// Margin is the part of a target that is kept back against predictions that are too low.
	Margin float64
	// Gain is by how much the sum of speeds, 1 for a job alone, must rise for a batch job to be
	// added.
	Gain float64
	// Jobs is how many may run at once.
	Jobs int
	// Link is the traffic in bytes a second that the link between host and device can carry; 0: it
	// is never short.
	Link share.Bytes
}

// DefaultProphet returns a target of 100 ms, a margin of a tenth, a gain of a twentieth, and eight
// jobs at once.
func DefaultProphet() ProphetParams {
	return ProphetParams{QoS: 100 * time.Millisecond, Margin: 0.1, Gain: 0.05, Jobs: 8}
}

// Validate reports all faults together.
func (p ProphetParams) Validate() error {
	return validate("policy prophet", positive("qos", p.QoS), between("margin", p.Margin, 0, 0.9),
		between("gain", p.Gain, 0, 1), between("jobs", float64(p.Jobs), 1, 64),
		between("link", float64(p.Link), 0, 1e15))
}

func (p *ProphetParams) bind(f *flag.FlagSet) {
	f.DurationVar(&p.QoS, "qos", p.QoS, "target of a latency job's requests that name none")
	f.Float64Var(&p.Margin, "margin", p.Margin,
		"part of a target kept back against predictions that are too low")
	f.Float64Var(&p.Gain, "gain", p.Gain,
		"by how much a batch job must raise the sum of speeds to run beside others")
	f.IntVar(&p.Jobs, "jobs", p.Jobs, "how many jobs may run at once")
	f.TextVar(&p.Link, "link", p.Link,
		"bytes a second between host and device (0: never short)")
}

func prophetRow() Row {
	return Row{
		Name: "prophet", File: "prophet.go", Source: "Prophet (ASPLOS 2017)",
		Summary: "jobs run together where their predicted slow-down breaks no target; compute " +
			"and limit are ignored",
		Needs:   share.Can{Overlap: true},
		Honours: Honours{Class: true, Conserving: true},
		with: func() maker {
			p := DefaultProphet()
			return maker{p.bind, func() (share.Policy, error) { return NewProphet(p) }}
		},
	}
}

// Prophet runs jobs together, on all units, as far as it predicts that every request among them
// meets its target.
type Prophet struct {
	params   ProphetParams
	now      time.Duration
	together []*share.JobState // that run or are to, the first served of them for queries
	served   int
	profiles []Profile
	slow     []float64
	queries  []*share.JobState // that wait, by room
	batch    []*share.JobState // that wait, by arrival
	set      []share.Terms
}

// prophetJob is what Prophet keeps of a job.
type prophetJob struct {
	iterations int64
	mark       time.Duration
	speed      float64 // predicted for what it runs beside since mark; 0: it does not run
	done       float64 // of the iteration, in nanoseconds alone
	room       float64 // the slow-down that its target lets it bear
}

// NewProphet returns the policy, or the faults of its parameters.
func NewProphet(p ProphetParams) (*Prophet, error) { return &Prophet{params: p}, p.Validate() }

// Name returns "prophet".
func (p *Prophet) Name() string { return "prophet" }

// NewJobState returns the state of a job that has not run yet.
func (p *Prophet) NewJobState() any { return &prophetJob{} }

// Decide grants all units to requests whose company is safe, and to batch work that then still is;
// batch work that is not gives way.
func (p *Prophet) Decide(s *share.Snapshot) share.Decision {
	p.gather(s)
	for len(p.together) > p.served && !p.safe(s, len(p.together), nil) {
		p.drop()
	}
	for _, j := range p.queries {
		p.add(s, j)
	}
	for _, j := range p.batch {
		if p.gains(s, j) {
			p.grant(s, j, len(p.together))
		}
	}
	p.predict(s, len(p.together), nil)
	for i, j := range p.together {
		j.State.(*prophetJob).speed = 1 / p.slow[i]
	}
	return share.Decision{Set: p.set}
}

// gather finds who runs and who waits, and how far those who run have come.
func (p *Prophet) gather(s *share.Snapshot) {
	p.now, p.set = s.Now, p.set[:0]
	p.together, p.queries, p.batch, p.served = p.together[:0], p.queries[:0], p.batch[:0], 0
	for i := range s.Jobs {
		j := &s.Jobs[i]
		p.progress(j)
		switch {
		case j.Phase == share.Running && j.Revoking:
		case j.Phase == share.Running && p.target(j) > 0:
			p.together = slices.Insert(p.together, p.served, j)
			p.served++
		case j.Phase == share.Running:
			p.together = append(p.together, j)
		case j.Phase != share.Waiting:
		case p.target(j) > 0:
			p.queries = append(p.queries, j)
		default:
			p.batch = append(p.batch, j)
		}
	}
	slices.SortStableFunc(p.queries, byRoom)
	slices.SortStableFunc(p.batch, byArrival)
}

func byRoom(a, b *share.JobState) int {
	x, y := a.State.(*prophetJob).room, b.State.(*prophetJob).room
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// byArrival is the order of before, for sorting.
func byArrival(a, b *share.JobState) int {
	switch {
	case before(a, b):
		return -1
	case before(b, a):
		return 1
	}
	return 0
}

// target is how long after its arrival a request of the job should be completed; 0: whenever.
func (p *Prophet) target(j *share.JobState) time.Duration {
	switch {
	case j.Next.Target > 0:
		return j.Next.Target
	case j.Share.Class == share.Latency:
		return p.params.QoS
	}
	return 0
}

// progress counts what a job has done of its iteration, as predicted, and finds how much slower
// what is left may be: all that is in its queue counts, as if it were due with the oldest.
func (p *Prophet) progress(j *share.JobState) {
	state := j.State.(*prophetJob)
	state.done += float64(p.now-state.mark) * state.speed
	state.mark, state.speed = p.now, 0
	if !j.InIteration || j.Iterations != state.iterations {
		state.iterations, state.done = j.Iterations, 0
	}
	target := float64(p.target(j)) * (1 - p.params.Margin)
	if target == 0 {
		return
	}
	one := float64(j.Next.Time)
	left := max(one/100, one-state.done) + one*float64(max(1, j.Queue)-1)
	if state.room = 1; one > 0 {
		state.room = max(1, (float64(j.Ready-p.now)+target)/left)
	}
}

// predict finds the slow-downs of the first n of those who run together, and of one more if there
// is one.
func (p *Prophet) predict(s *share.Snapshot, n int, more *share.JobState) {
	p.profiles = p.profiles[:0]
	for _, j := range p.together[:n] {
		p.profiles = append(p.profiles, ProfileOf(&j.Next, p.params.Link))
	}
	if more != nil {
		p.profiles = append(p.profiles, ProfileOf(&more.Next, p.params.Link))
	}
	p.slow = slices.Grow(p.slow[:0], len(p.profiles))[:len(p.profiles)]
	Slowdowns(s.Units, p.profiles, p.slow)
}

// safe reports whether every request among them is predicted to meet its target.
func (p *Prophet) safe(s *share.Snapshot, n int, more *share.JobState) bool {
	p.predict(s, n, more)
	for i, slow := range p.slow {
		j := more
		if i < n {
			j = p.together[i]
		}
		if p.target(j) > 0 && slow > j.State.(*prophetJob).room+1e-9 {
			return false
		}
	}
	return true
}

// drop makes the last of the batch jobs that run give way.
func (p *Prophet) drop() {
	last := len(p.together) - 1
	p.set = append(p.set, share.Terms{Job: p.together[last].ID})
	p.together = p.together[:last]
}

// add lets a request run if that is safe beside the requests that run, and as many batch jobs as
// then still are.
func (p *Prophet) add(s *share.Snapshot, j *share.JobState) {
	if p.served > 0 && (p.served >= p.params.Jobs || !p.safe(s, p.served, j)) {
		return
	}
	for n := len(p.together); n > p.served && (n >= p.params.Jobs || !p.safe(s, n, j)); n-- {
		p.drop()
	}
	p.grant(s, j, p.served)
	p.served++
}

// gains reports whether a batch job may run beside the others, and all together do more then.
func (p *Prophet) gains(s *share.Snapshot, j *share.JobState) bool {
	n := len(p.together)
	if n == 0 || n >= p.params.Jobs {
		return n == 0
	}
	p.predict(s, n, nil)
	without := speeds(p.slow)
	return p.safe(s, n, j) && speeds(p.slow) >= without+p.params.Gain
}

func speeds(slow []float64) float64 {
	sum := 0.0
	for _, x := range slow {
		sum += 1 / x
	}
	return sum
}

// grant makes a job one of those who run together, at this place.
func (p *Prophet) grant(s *share.Snapshot, j *share.JobState, place int) {
	p.together = slices.Insert(p.together, place, j)
	p.set = append(p.set, share.Terms{Job: j.ID, Units: s.All(), Until: share.Forever,
		Yield: share.Kernel})
}
