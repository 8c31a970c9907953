package policy

import (
	"time"

	"github.com/weirgpu/weir/share"
)

// ranking is what distinguishes the policies that share by ledgers.
type ranking interface {
	// rank orders jobs before anything else; the lowest goes first.
	rank(*share.JobState) int
	// book is the ledger that the job is in. Jobs of the same rank are in the same ledger.
	book(*share.JobState) *ledger
	// owed is the device time that others had of what the job was promised.
	owed(*share.JobState) float64
}

// arbiter gives the whole device to one job after another: to the best rank and, within it, to the
// one that its ledger says. It revokes for a better rank at any time, and within a rank for a job
// that has just come to wait and preempts.
type arbiter struct {
	turn turn
	set  [1]share.Terms
}

// decide expects the ledgers to have advanced to the snapshot.
func (a *arbiter) decide(s *share.Snapshot, by ranking) share.Decision {
	var d share.Decision
	var next, woken, run *share.JobState
	for i := range s.Jobs {
		j := &s.Jobs[i]
		switch l := by.book(j); {
		case j.Phase == share.Running:
			run = j
		case j.Phase != share.Waiting:
		case l.throttled(j) && !a.turn.lasts(j, s.Now):
			d.Wake = sooner(d.Wake, l.ready(j))
		default:
			next = best(next, j, by)
			if j.Since == s.Now {
				woken = best(woken, j, by)
			}
		}
	}
	switch {
	case next == nil:
	case run == nil:
		next = a.turn.next(s, next, by)
		if back, until := a.awaited(s, next, by); back != nil {
			accountOf(back).kept = true
			d.Wake = sooner(d.Wake, until)
			break
		}
		a.set[0] = a.turn.grant(next, s, s.All(), by.book(next).slice(next, s))
		d.Set = a.set[:]
	case run.Revoking:
	case by.rank(next) < by.rank(run):
		d.Set = a.revokeFor(next, run)
	case woken != nil && by.rank(woken) == by.rank(run) && by.book(run).preempts(woken, run):
		d.Set = a.revokeFor(woken, run)
	}
	return d
}

// awaited returns for which job that pauses, of no lower rank and not at its limit, the device is
// kept from the next, and until when; nil for none.
func (a *arbiter) awaited(s *share.Snapshot, next *share.JobState,
	by ranking) (back *share.JobState, until time.Duration) {
	if by.book(next).params.Await == 0 {
		return nil, 0
	}
	until = s.Now
	for i := range s.Jobs {
		j := &s.Jobs[i]
		l := by.book(j)
		if by.rank(j) > by.rank(next) || l.throttled(j) && !a.turn.lasts(j, s.Now) {
			continue
		}
		if t := l.awaits(j, by.owed(j)); t > until {
			back, until = j, t
		}
	}
	return back, until
}

func (a *arbiter) revokeFor(heir, run *share.JobState) []share.Terms {
	a.turn.end(heir.ID)
	a.set[0] = share.Terms{Job: run.ID}
	return a.set[:]
}

// best returns the better of two jobs, of which a may be nil.
func best(a, b *share.JobState, by ranking) *share.JobState {
	if a == nil {
		return b
	}
	x, y := by.rank(a), by.rank(b)
	if y < x || y == x && by.book(a).better(b, a) {
		return b
	}
	return a
}

// sooner returns the earlier of two times to wake at, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
