package policy

import (
	"math"
	"time"

	"github.com/weirgpu/weir/share"
)

// ledger keeps account of device time between the jobs of some classes: what each was entitled to,
// what it got, and what its limit leaves it. It holds no job: accounts live in JobState.State.
//
// For each job with work, lag is the device time it is owed: its part, by entitlement, of all the
// time its fellows and itself used, less what it used. A job that has yet to give back what it
// rested on is one of them: the time that it takes is owed to all others, as any is. Lags of jobs
// with work sum to zero, and the lags at the two ends of a window bound the error of a share over
// it. Who runs is by earliest eligible virtual deadline (Stoica and Abdel-Wahab, 1995, section 2):
// of the jobs that are not ahead of their part, the one that would get a slice by its part soonest.
type ledger struct {
	params FairParams
	has    [3]bool // by class: whose jobs are in this ledger
	now    time.Duration

	weights, entitled float64       // sums over the jobs with work
	length            time.Duration // of a slice, with so many jobs with work
	tight             int           // jobs with work, most of whose part is a guarantee
	lone              bool          // no two jobs of the device have work
	claims            []share.Claim
	out               []float64
	entries           []entry // during a call
}

// entry is a job of the ledger.
type entry struct {
	*share.JobState
	a *account
}

// account is the ledger's part of one job. Times are in nanoseconds of the whole device.
type account struct {
	lag    float64
	tokens float64 // what the limit leaves; below 0 after a long step
	dry    bool    // that was too little for a slice, and not enough for a long one since
	part   float64 // entitlement, as a fraction of the device
	before float64 // the entitlement before this advance
	due    float64 // what the guarantee leaves or, negative, was overdrawn
	used   time.Duration
	spent  float64       // since the previous advance, less what is had back and owed
	back   float64       // what else is had back
	tight  bool          // its guarantee is most of its part
	active bool          // wants the device, is deferred, or has yet to give back what it kept
	joined bool          // became active in this advance
	left   time.Duration // when it ceased to be active
	pause  time.Duration // for how long it usually does
	rested bool          // was not active for a while before it joined
	found  finding       // see unused
	idle   float64       // of what was held and not used, what has not been had back
	most   float64       // that may be had back
	late   bool          // overdue; see Priority
	kept   bool          // the device is idle for it, since the previous advance; see awaited
	habit  habit         // see gaps
}

// finding is what of a job had been measured, at what it had been charged by then.
type finding struct{ at, held, used time.Duration }

func (l *ledger) newAccount() any { return &account{tokens: float64(l.params.Burst)} }

func accountOf(j *share.JobState) *account { return j.State.(*account) }

// advance brings all accounts up to the snapshot. Use up to now is charged by the entitlements that
// held until now; then those of the new set of jobs with work are found.
func (l *ledger) advance(s *share.Snapshot) {
	dt := float64(s.Now - l.now)
	l.now = s.Now
	total, working := 0.0, 0
	l.entries = l.entries[:0]
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if works(j) {
			working++
		}
		if l.has[j.Share.Class] {
			a := accountOf(j)
			a.spent, a.back = float64(j.Used-a.used), l.unused(entry{j, a})
			a.used = j.Used
			if l.owes(entry{j, a}) {
				a.spent, a.back = a.spent-a.back, 0
			}
			total += a.spent
			l.entries = append(l.entries, entry{j, a})
		}
	}
	l.lone = working < 2
	for _, j := range l.entries {
		l.charge(j, dt, total)
	}
	l.entitle()
	l.settle()
}

// charge books the time since the last advance, in which all jobs of the ledger used total. While a
// job is idle, what it owes or is owed runs out at the rate of its part: what it does not use it
// cannot save. While the device was kept for it, it is charged as if it had used it: nobody else
// could, and a job with a small part could otherwise keep it idle for long.
func (l *ledger) charge(j entry, dt, total float64) {
	a, limit := j.a, j.Share.Cap()
	burst := float64(l.params.Burst)
	a.tokens = min(burst, a.tokens+limit*dt-a.spent+a.back)
	a.most = min(a.most, burst-a.tokens)
	a.dry = a.tokens < l.enough(j.JobState, few) || a.dry && a.tokens < l.enough(j.JobState, many)
	if a.kept {
		a.kept = false
		a.lag -= dt*(1-a.part) + a.spent
		return
	}
	if !a.active {
		a.lag = max(0, a.lag-dt*a.part) + min(0, a.lag+dt*a.part) - a.spent
		return
	}
	if l.entitled > 0 {
		a.lag += total * a.part / l.entitled
	}
	a.lag -= a.spent
	// A limit may keep a job from what it is owed for ever, and so may other devices. No other
	// credit of a job with work is bounded, and no debt: after a long kernel others have their
	// turns until it is made up for.
	bound := binds(limit, a.part) || j.Deferred && !j.Owed
	if most := 4 * float64(l.params.Slice); a.lag > most && bound {
		a.lag = most
	}
}

// unused is what a job with a limit has back since the previous advance, of time that it held and
// was found not to have used: at the beginning of each turn the device waits for a program that had
// to wait, and at its end for word that it has. What was found the program may say of itself, and
// not all that it does is measured, so it is two thirds of that, and a sixteenth of what it held at
// most.
//
// What is found comes later than what is held is charged, by a turn or a part of one. So both are
// saved up: what of a turn seems unused, as nothing has been found of it yet, is had back only if
// the next ones make it good, and what seems used twice is not lost. What may be had back is saved
// from when the time was held, and with what the limit has saved it is no more than the burst: what
// had to be found first would come on top of that for a program that rests meanwhile.
func (l *ledger) unused(j entry) float64 {
	const part = 16
	a := j.a
	a.most = min(a.most+float64(j.Used-a.used)/part, float64(l.params.Burst)/4)
	was, now := a.found, finding{j.MeasuredAt, j.Used, j.Measured}
	if now.at == was.at || j.Share.Cap() >= 1 {
		return 0
	}
	a.found = now
	held, used := float64(now.held-was.held), float64(now.used-was.used)
	a.idle = min(a.idle+(held-used)*2/3, float64(l.params.Slice))
	back := max(0, min(a.idle, a.most))
	a.idle -= back
	a.most -= back
	return back
}

// owes reports whether a job is owed what its limit has back: where it is the limit that holds it,
// and no other job has a guarantee that would pay for that.
func (l *ledger) owes(j entry) bool {
	others := l.tight
	if j.a.tight {
		others--
	}
	return others == 0 && binds(j.Share.Cap(), j.a.part)
}

// works reports whether a job wants the device, is deferred, or has yet to give back what it kept.
func works(j *share.JobState) bool { return j.Wants() || j.Revoking || j.Deferred }

// entitle finds the entitlements of the jobs that want the device now.
func (l *ledger) entitle() {
	before := l.claims
	l.claims, l.weights, l.entitled = l.claims[:0], 0, 0
	same := true
	for _, j := range l.entries {
		a := j.a
		active := works(j.JobState)
		a.joined = active && !a.active
		if a.joined {
			a.rested = l.now-a.left >= l.params.Granularity
			a.pause += (min(l.now-a.left, 2*l.params.Await) - a.pause) / 4
		}
		if a.active && !active {
			a.left = l.now
		}
		if a.active = active; active {
			c, k := share.ClaimOf(j.Share, 1), len(l.claims)
			same = same && k < len(before) && before[k] == c
			l.claims = append(l.claims, c)
			l.weights += j.Share.Weight()
		}
	}
	for len(l.out) < len(l.claims) {
		l.out = append(l.out, 0)
	}
	l.length = l.params.slice(len(l.claims))
	if !same || len(before) != len(l.claims) {
		share.Entitle(l.claims, l.out)
	}
	k := 0
	l.tight = 0
	for _, j := range l.entries {
		a := j.a
		a.tight = false
		if a.active {
			a.before, a.part = a.part, l.out[k]
			l.entitled += l.out[k]
			if a.tight = j.Share.Guarantee() > 0.8*a.part; a.tight {
				l.tight++
			}
			k++
		}
	}
}

// settle makes the lags of the active jobs sum to zero again after jobs came or went. A job that
// comes keeps the lag it went with, so that short absences neither forgive a debt nor forfeit a
// credit. The others take up the balance in proportion to what they cede to it, or get back, of
// their entitlement: so a guarantee pays for nobody's credit, and a visit leaves no trace.
func (l *ledger) settle() {
	var sum, ceded, weight float64
	for _, j := range l.entries {
		if a := j.a; a.active {
			sum += a.lag
			if !a.joined {
				ceded += math.Abs(a.part - a.before)
				weight += j.Share.Weight()
			}
		}
	}
	if sum == 0 {
		return
	}
	for _, j := range l.entries {
		switch a := j.a; {
		case !a.active:
		case weight == 0:
			a.lag -= sum * j.Share.Weight() / l.weights
		case a.joined:
		case ceded > 1e-9:
			a.lag -= sum * math.Abs(a.part-a.before) / ceded
		default:
			a.lag -= sum * j.Share.Weight() / weight
		}
	}
}

// ahead is the lag below which a job is ahead of its part, not on time. Below zero, it keeps
// rounding from deciding.
const ahead = -float64(time.Microsecond)

// better reports whether a deserves the device more than b. Both are in this ledger. A job entitled
// to nothing comes after all that are entitled, and one whose credit its limit bounds, before all
// once it has much: credit of others, which has no bound, would keep it waiting for as long as a
// debt is paid off.
func (l *ledger) better(a, b *share.JobState) bool {
	x, y := accountOf(a), accountOf(b)
	switch p, q := l.bounded(a), l.bounded(b); {
	case x.part == 0 || y.part == 0:
		return x.part > y.part || x.part == y.part && x.lag > y.lag
	case p != q:
		return p
	case x.lag < ahead && y.lag < ahead:
		return x.lag*y.part > y.lag*x.part
	case x.lag < ahead || y.lag < ahead:
		return y.lag < ahead
	default:
		return (l.request(a)-x.lag)*y.part < (l.request(b)-y.lag)*x.part
	}
}

// bounded reports whether a job has about as much credit as its limit lets it have.
func (l *ledger) bounded(j *share.JobState) bool {
	a := accountOf(j)
	return binds(j.Share.Cap(), a.part) && a.lag >= 3*float64(l.params.Slice)
}

// binds reports whether a limit leaves little to make up for what a job did not get of its part.
func binds(limit, part float64) bool { return limit < 1 && part >= 0.8*limit }

// request is the device time that a job asks for at a time: a slice, or what its limit lets it have
// at once. A job that can only be given little must be given it the more often.
func (l *ledger) request(j *share.JobState) float64 {
	slice, limit := float64(l.length), j.Share.Cap()
	if limit >= 1 {
		return slice
	}
	return min(slice, float64(l.params.Burst)/(1-limit))
}

// preempts reports whether a job that has just come to wait takes the device from the one that
// runs: it is not ahead of its part, and is owed a good part of a slice more than the other or, if
// it was away for a while, not as much less. A job that is away for a moment after each short
// iteration must not make the device change hands as often.
func (l *ledger) preempts(wait, run *share.JobState) bool {
	w, r := accountOf(wait), accountOf(run)
	switch {
	case w.part == 0 || w.lag < ahead:
		return false
	case r.part == 0:
		return true
	}
	more := w.lag - r.lag*w.part/r.part
	if w.rested {
		more += 2 * float64(l.params.Granularity)
	}
	return more > float64(l.params.Granularity)
}

// throttled reports whether the job's limit keeps it from starting a slice.
func (l *ledger) throttled(j *share.JobState) bool {
	return j.Share.Cap() < 1 && accountOf(j).tokens < l.least(j)
}

// few and many are the parts of the burst that the limit must leave for a slice to begin, so that a
// job at its limit runs in few long slices and not in many short ones. Beside others it must not
// miss its turn. Alone it misses nothing, and each slice costs the time until a program that waits
// has heard of it and until it is known to have ended, in which the device has nothing to do. The
// rest of the burst is for wakes that come late.
const (
	few  = 0.25
	many = 0.75
)

// least is what the limit must leave for a slice of the job to begin.
func (l *ledger) least(j *share.JobState) float64 {
	if l.lone && accountOf(j).dry {
		return l.enough(j, many)
	}
	return l.enough(j, few)
}

// enough is that part of the burst, or what a whole slice takes of the limit where that is less.
func (l *ledger) enough(j *share.JobState, part float64) float64 {
	return min(part*float64(l.params.Burst), float64(l.length)*(1-j.Share.Cap()))
}

// ready returns when a throttled job may start a slice.
func (l *ledger) ready(j *share.JobState) time.Duration {
	missing := l.least(j) - accountOf(j).tokens
	return l.now + time.Duration(missing/j.Share.Cap()) + 1
}

// awaits returns until when a job that is owed so much device time is waited for while it pauses; 0
// if it is not.
func (l *ledger) awaits(j *share.JobState, owed float64) time.Duration {
	a := accountOf(j)
	if j.Wants() || owed <= float64(l.length) || 2*a.pause > l.params.Await {
		return 0
	}
	return a.left + l.params.Await
}

// slice is how long the job may run: a slice, or less where its limit would be exceeded within it,
// or where another at its limit would forfeit time that its own cannot make up: half of that,
// because a step may overrun the slice.
func (l *ledger) slice(j *share.JobState, s *share.Snapshot) time.Duration {
	slice := float64(l.length)
	for i := range s.Jobs {
		if o := &s.Jobs[i]; o.ID != j.ID && o.Phase == share.Waiting && l.has[o.Share.Class] {
			slice = min(slice, max(float64(l.params.Granularity), l.full(o)/2))
		}
	}
	if limit := j.Share.Cap(); limit < 1 {
		slice = min(slice, accountOf(j).tokens/(1-limit))
	}
	return max(1, time.Duration(slice))
}

// full is the time until the job, if its limit is what holds it, can save no more of that.
func (l *ledger) full(j *share.JobState) float64 {
	a, limit := accountOf(j), j.Share.Cap()
	if !binds(limit, a.part) {
		return math.Inf(1)
	}
	return (float64(l.params.Burst) - a.tokens) / limit
}
