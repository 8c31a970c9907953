package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is highest priority first between classes, with preemption, as in Shen et al., "XSched:
// Preemptive scheduling for diverse XPUs", OSDI 2025, and opportunistic jobs in the gaps as in Xiao
// et al., "AntMan: Dynamic scaling on GPU clusters for deep learning", OSDI 2020.
//
//	paper                        here
//	priority of a queue          rank, from Share.Class and the guarantees
//	resource-guarantee job       latency and standard class
//	opportunistic job            opportunistic class
//	best-effort kernels while    launches that pass in gaps (gaps.go), as in Zhao, Jayarajan and
//	no other is active; their    Pekhimenko, "Tally: Non-intrusive performance isolation for
//	turnaround bounded           concurrent deep learning workloads", ASPLOS 2025
//
// Departures: within a class jobs share as under Fair, and a guarantee is a guarantee whatever the
// class. A latency job runs before everything as long as it is within its own guarantee. Beyond
// that it runs before standard jobs that are less than Patience behind their guarantees, and after
// those that are not. A job waits for Patience over its guarantee to be overdue, and then as under
// Fair beside others that are. So a saturating latency job cannot take from a standard job what
// that was promised, and standard jobs that were promised nothing, like all opportunistic ones, can
// wait for as long as higher classes have work.

// PriorityParams are the parameters of [Priority].
type PriorityParams struct {
	// Fair is how jobs of one class share.
	Fair FairParams
	// Patience is the device time by which a standard job with work may be behind its guarantee
	// before it goes before latency jobs that are beyond theirs. A latency job can save as much of
	// its guarantee while idle.
	Patience time.Duration
	// Gaps say which gaps of the job that runs are filled with launches of opportunistic ones.
	Gaps GapParams
}

// DefaultPriority returns fair's defaults and a patience of 20 ms, two points of a share over one
// second.
func DefaultPriority() PriorityParams {
	return PriorityParams{Fair: DefaultFair(), Patience: 20 * time.Millisecond,
		Gaps: DefaultGaps()}
}

// Validate reports all faults together.
func (p PriorityParams) Validate() error {
	return p.Fair.validate("policy priority", positive("patience", p.Patience), p.Gaps.faults())
}

func priorityRow() Row {
	return Row{
		Name: "priority", File: "priority.go",
		Source: "XSched highest priority first (OSDI 2025), AntMan (OSDI 2020)",
		Summary: "latency before standard before opportunistic, fair within a class, guarantees " +
			"kept",
		Honours: Honours{Guarantee: true, Limit: true, Class: true, Conserving: true,
			Absolute: true, Burst: DefaultPriority().Fair.Burst,
			Wait: Wait{Part: PartGuaranteed, Pays: true,
				Slice: DefaultPriority().Patience + 3*DefaultFair().Slice}},
		with: func() maker {
			p := DefaultPriority()
			return maker{
				func(f *flag.FlagSet) {
					p.Fair.bind(f)
					p.Gaps.bind(f)
					f.DurationVar(&p.Patience, "patience", p.Patience,
						"how far behind its guarantee a standard job may be before it goes "+
							"before latency jobs that are beyond theirs")
				},
				func() (share.Policy, error) { return NewPriority(p) },
			}
		},
	}
}

// The order in which jobs get the device: latency jobs within their guarantee, standard jobs
// overdue, other latency jobs, other standard jobs, the rest.
const (
	rankPromised = iota
	rankOverdue
	rankLatency
	rankStandard
	rankOpportunistic
)

// Priority serves latency before standard before opportunistic jobs, revoking at once, fairly
// within a class and with all guarantees kept.
type Priority struct {
	params  PriorityParams
	ledgers [3]ledger // by class
	now     time.Duration
	arbiter arbiter
	gaps    gaps
}

// NewPriority returns the policy, or the faults of its parameters.
func NewPriority(p PriorityParams) (*Priority, error) {
	q := &Priority{params: p, gaps: gaps{params: p.Gaps}}
	for class := range q.ledgers {
		q.ledgers[class].params = p.Fair
		q.ledgers[class].has[class] = true
	}
	return q, p.Validate()
}

// Name returns "priority".
func (p *Priority) Name() string { return "priority" }

// NewJobState returns the account of a job that has used nothing yet.
func (p *Priority) NewJobState() any { return p.ledgers[0].newAccount() }

// Decide grants the free device to the best rank, or revokes it for a better one.
func (p *Priority) Decide(s *share.Snapshot) share.Decision {
	p.advance(s)
	if until := p.gaps.keeps(s); until > 0 {
		return p.gaps.fill(s, share.Decision{Wake: until})
	}
	return p.gaps.fill(s, p.arbiter.decide(s, p))
}

// needs is what must be possible beside what all do for what the parameters say.
func (p *Priority) needs() share.Can { return share.Can{Launches: p.params.Gaps.Fill > 0} }

func (p *Priority) book(j *share.JobState) *ledger { return &p.ledgers[j.Share.Class] }

func (p *Priority) owed(j *share.JobState) float64 { return accountOf(j).due }

// advance brings the ledgers up to the snapshot, and what guarantees leave. What a job with work is
// owed has no bound, unless its own limit may keep it from that: a kernel that holds the device for
// long takes so much from others.
func (p *Priority) advance(s *share.Snapshot) {
	patience, dt := float64(p.params.Patience), float64(s.Now-p.now)
	p.now = s.Now
	owed := 0.0
	for i := range s.Jobs {
		j := &s.Jobs[i]
		a := accountOf(j)
		saves := 0.0
		if j.Share.Class == share.Latency {
			saves = patience
		}
		a.promise(j.Share.Guarantee()*dt, dt, saves)
		a.due -= float64(j.Used - a.used)
		if binds(j.Share.Cap(), j.Share.Guarantee()) || j.Deferred && !j.Owed {
			a.due = min(a.due, 2*patience)
		}
		if j.Wants() {
			saves = 0
		}
		owed += max(0, a.due-saves)
	}
	p.overdraw(s, owed)
	for class := range p.ledgers {
		p.ledgers[class].advance(s)
	}
}

// promise adds what a guarantee came to in the time since the last advance. An idle job saves so
// much for the request to come, and what it is owed beyond that runs out at the rate at which it
// grew. While the device was kept for it, it used it.
func (a *account) promise(grew, dt, saves float64) {
	switch {
	case a.kept:
		a.due += grew - dt
	case a.active:
		a.due += grew
	case a.due < saves:
		a.due = min(saves, a.due+grew)
	default:
		a.due = max(saves, a.due-grew)
	}
}

// overdraw settles who is behind its guarantee and who took from others. A job that used more than
// its guarantee is in debt only for what is owed to others: the rest was idle capacity.
func (p *Priority) overdraw(s *share.Snapshot, owed float64) {
	patience := float64(p.params.Patience)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		a := accountOf(j)
		a.due = max(a.due, -owed-patience)
		a.late = j.Share.Class != share.Latency &&
			(a.due >= patience || a.late && a.due > patience/2)
	}
}

func (p *Priority) rank(j *share.JobState) int {
	a := accountOf(j)
	switch {
	case j.Share.Class == share.Latency && a.due > 0:
		return rankPromised
	case j.Share.Class == share.Standard && a.late:
		return rankOverdue
	case j.Share.Class == share.Latency:
		return rankLatency
	case j.Share.Class == share.Standard:
		return rankStandard
	}
	return rankOpportunistic
}
