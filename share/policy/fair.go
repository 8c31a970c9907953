package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is proportional sharing with reservations and limits: Gulati, Merchant and Varman,
// "mClock: Handling throughput variability for hypervisor IO scheduling", OSDI 2010, section 3,
// scheduled as in Stoica and Abdel-Wahab, "Earliest eligible virtual deadline first", 1995, section
// 2.
//
//	paper                        here
//	reservation r_i, weight w_i  Share.Guarantee, Share.Weight (one number)
//	limit l_i, L-tags            Share.Cap, a token bucket (account.tokens)
//	R-tags and P-tags            one entitlement by water-filling, share.Entitle
//	lag of a client              account.lag
//	request of length q          a slice, or what a limit lets a job have at once
//
// Departures: entitlements replace the two phases of tags; a slice ends at the next boundary
// between steps and the excess is charged; a job that comes to wait can end another's slice. A job
// entitled to a fraction x of the device waits for it at most (2 slices + longest step)/x and a
// slice and step more, and one without a guarantee for as long as guarantees take the whole device.

// FairParams are the parameters of [Fair] and, within a class, of [Priority].
type FairParams struct {
	// Slice is how long a job runs while another waits.
	Slice time.Duration
	// Least is what slices shrink to while more jobs have work: with n of them a slice is 2/n of
	// Slice, and Least at least.
	Least time.Duration
	// Burst is the device time by which a job's use may exceed its limit over any window, apart
	// from the step in which a slice ends.
	Burst time.Duration
	// Granularity is how long a job must have been away, or the device time it must be owed, to
	// take the device from another within a slice.
	Granularity time.Duration
	// Await is how long the device is kept for a job that is owed more than a slice and pauses, if
	// its pauses are half as long at most; 0: not at all. It is the anticipation of Iyer and
	// Druschel, SOSP 2001: who else is let in at each pause may run a kernel that nothing stops.
	Await time.Duration
}

// DefaultFair returns slices of 20 ms for two jobs and 10 ms for four or more, a burst of 4 ms and
// a granularity of 1 ms. On a processor each change of hands costs the next job what the caches
// held of it, some tenths of a millisecond, so that slices of 5 ms cost several percent of the
// device. A slice of 20 ms is two points of a second, and the more jobs have turns, the more often
// is one of their shares off by as much. With steps of up to 5 ms a limit holds to a point over any
// second.
func DefaultFair() FairParams {
	return FairParams{Slice: 20 * time.Millisecond, Least: 10 * time.Millisecond,
		Burst: 4 * time.Millisecond, Granularity: time.Millisecond}
}

// Validate reports all faults together.
func (p FairParams) Validate() error {
	return p.validate("policy fair")
}

// validate reports the faults, and others, of the policy of a name.
func (p FairParams) validate(name string, others ...[]share.Fault) error {
	return validate(name, append([][]share.Fault{positive("slice", p.Slice),
		positive("least", p.Least), positive("burst", p.Burst),
		positive("granularity", p.Granularity),
		between("await", p.Await.Seconds(), 0, 1)}, others...)...)
}

// slice is how long a job runs while n have work.
func (p FairParams) slice(n int) time.Duration {
	return min(p.Slice, max(p.Least, 2*p.Slice/time.Duration(max(n, 1))))
}

// bind declares the parameters.
func (p *FairParams) bind(f *flag.FlagSet) {
	f.DurationVar(&p.Slice, "slice", p.Slice, "how long a job runs while another waits")
	f.DurationVar(&p.Least, "least", p.Least,
		"what slices shrink to while more than two jobs have work")
	f.DurationVar(&p.Burst, "burst", p.Burst,
		"device time by which a job's use may exceed its limit over any window")
	f.DurationVar(&p.Granularity, "granularity", p.Granularity,
		"how long a job must have been away to take the device from another within a slice")
	f.DurationVar(&p.Await, "await", p.Await,
		"how long the device is kept for a job that pauses while it is owed more than a slice")
}

func fairRow() Row {
	return Row{
		Name: "fair", File: "fair.go", Source: "mClock (OSDI 2010), EEVDF (1995)",
		Summary: "guarantees and limits hold, idle capacity is lent by weight and taken back at " +
			"once",
		Honours: Honours{Guarantee: true, Limit: true, Conserving: true,
			Burst: DefaultFair().Burst,
			Wait:  Wait{Part: PartEntitled, Slice: 3 * DefaultFair().Slice, Pays: true}},
		with: func() maker {
			p := DefaultFair()
			return maker{p.bind, func() (share.Policy, error) { return NewFair(p) }}
		},
	}
}

// Fair gives each job with work its weighted max-min fair entitlement: its guarantee at least, its
// limit at most, and idle capacity by weight, taken back when its owner returns. It ignores class.
type Fair struct {
	arbiter arbiter
	ledger  ledger
}

// NewFair returns the policy, or the faults of its parameters.
func NewFair(p FairParams) (*Fair, error) {
	return &Fair{ledger: ledger{params: p, has: [3]bool{true, true, true}}}, p.Validate()
}

// Name returns "fair".
func (p *Fair) Name() string { return "fair" }

// NewJobState returns the account of a job that has used nothing yet.
func (p *Fair) NewJobState() any { return p.ledger.newAccount() }

// Decide grants the free device to the job that is owed a slice soonest, or revokes it for a job
// that has just come back to what is its own.
func (p *Fair) Decide(s *share.Snapshot) share.Decision {
	p.ledger.advance(s)
	return p.arbiter.decide(s, p)
}

func (p *Fair) rank(*share.JobState) int { return 0 }

func (p *Fair) book(*share.JobState) *ledger { return &p.ledger }

func (p *Fair) owed(j *share.JobState) float64 { return accountOf(j).lag }
