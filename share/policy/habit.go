package policy

import (
	"math"
	"time"

	"github.com/weirgpu/weir/share"
)

// habit is what is known of one job's gaps, and of its launches in others'.
//
// What a job loses to another's launches in its gaps is found out from windows of a few of its own
// launches. Now and then nothing passes for one, which shows how long it takes for a launch alone.
// With all else that the host does that varies, by as much as one window differs from the one
// before (von Neumann, "Distribution of the ratio of the mean square successive difference to the
// variance", Annals of Mathematical Statistics 12, 1941). Whether it takes longer beside others is
// decided by a sum of the excess in units of the variation (Page, "Continuous inspection
// schemes", Biometrika 41, 1954). So two windows show what costs much, and what the host does by
// itself shows nothing in hundreds. If it takes longer, nothing of that one passes for a while, and
// for twice as long each time in a row.
type habit struct {
	begun      bool          // a window has
	from, seen time.Duration // its begin, and the measurement before
	used       time.Duration // at its begin, as the launches, and what of the one beside passed
	launches   int64
	passed     time.Duration

	filling bool
	left    int     // windows until that changes
	alone   float64 // nanoseconds a launch with nobody's beside, smoothed
	pace    float64 // the same in the window before
	varies  float64 // the standard deviation, as a part of what it takes alone

	looks  int     // for how many windows its gaps were not filled, or it filled none, at last
	barred int     // for how many more it fills none
	excess float64 // by how much longer holders took beside it: the sum

	away, shy time.Duration // for how long the device was not kept for it at last, and until when
}

const (
	// judged is how much time a judgement is made of at least, and leastLaunches how many launches.
	// Who is measured only after more than coarse could be slowed down for as long.
	judged        = 5 * time.Millisecond
	coarse        = 4 * judged
	leastLaunches = 8
	// longestWindow is for how long a job with few launches is looked at.
	longestWindow = 100 * time.Millisecond
	// fillsFor is for how many judgements in a row gaps are filled, and mostLooks for how many they
	// are not filled with what cost too much, at most.
	fillsFor  = 16
	mostLooks = 64
	// slower is what one window can say at most of how long a launch takes alone.
	slower = 1.2
	// learnsFor is how many windows pass before gaps are filled, and unsure how much they are taken
	// to vary at first.
	learnsFor = 4
	unsure    = 0.1
	// Windows are taken to vary by steady at least. Of each the sum of the excess takes the excess
	// less slack, and most at most, so that it takes two to be enough.
	steady = 0.02
	slack  = 0.5
	most   = 3.0
	enough = 4.0
	// keptFor is the part of a job's gaps that must be filled for the device to be kept for it when
	// it rests. If less is, or if it rests for longer, it is not for leastAway, or for twice as
	// long as the last time.
	keptFor   = 0.25
	leastAway = 50 * time.Millisecond
	mostAway  = 5 * time.Second
)

// begin begins a window.
func (h *habit) begin(j, beside *share.JobState, now time.Duration) {
	h.begun, h.from, h.seen, h.used, h.launches = true, now, now, j.Measured, j.Launches
	if beside != nil {
		h.passed = beside.Passed
	}
}

// judge ends the window at a measurement, if it is long enough, and finds whether gaps are filled
// in the next, and what the one whose launches passed in it has cost the holder; nil for nobody. It
// reports whether it did, and whether another one has its turn.
func (h *habit) judge(j, beside *share.JobState, now time.Duration, p *GapParams) (ended,
	next bool) {
	held, n, step := now-h.from, j.Launches-h.launches, now-h.seen
	h.seen = now
	long := time.Duration(2 * leastLaunches * h.alone)
	if h.alone == 0 {
		long = longestWindow
	}
	switch {
	case !h.begun:
		h.begin(j, beside, now)
		return false, false
	case step <= coarse && (held < judged || n < leastLaunches && held < long):
		return false, false
	}
	busy, filled := j.Measured-h.used, time.Duration(0)
	if beside != nil {
		filled = beside.Passed - h.passed
	}
	h.begin(j, beside, now)
	if step > coarse || n < leastLaunches || busy <= 0 || float64(busy) >= p.Fill*float64(held) {
		h.filling, h.left, h.alone = false, 1, 0
		return true, false
	}
	if beside != nil && h.alone > 0 {
		h.keepsFor(filled, held-busy, now)
	}
	return true, h.weigh(float64(held)/float64(n), beside, p)
}

// weigh is judge of a window in which a launch took so long.
func (h *habit) weigh(pace float64, beside *share.JobState, p *GapParams) (next bool) {
	// The mean difference of two draws from a normal distribution is 2/sqrt(pi) of its deviation.
	differs := math.Sqrt(math.Pi) / 2 * math.Abs(pace-h.pace)
	h.pace = pace
	if h.alone > 0 {
		h.varies += (min(differs/h.alone, 0.5) - h.varies) / 8
	}
	switch {
	case h.alone == 0:
		h.alone, h.varies, h.left = pace, unsure, learnsFor
	case beside == nil:
		h.alone += (min(pace, slower*h.alone) - h.alone) / 4
	case accountOf(beside).habit.tooMuch(pace/h.alone, max(h.varies, steady), p):
		accountOf(beside).habit.wait()
		h.wait()
		h.filling, h.left = false, h.looks
		return false
	}
	if h.left--; h.left > 0 {
		return false
	}
	if h.filling = !h.filling; h.filling {
		h.left = fillsFor
		return true
	}
	h.left, h.looks = 1, h.looks/2
	if beside != nil {
		accountOf(beside).habit.looks /= 2
	}
	return false
}

// tooMuch takes note of how much longer a holder took for a launch beside those of a job, whose
// windows vary by this part, and reports whether that is too much.
func (h *habit) tooMuch(ratio, varies float64, p *GapParams) bool {
	h.excess = max(0, h.excess+min((ratio*(1-p.Loss)-1)/varies-slack, most))
	return h.excess >= enough
}

// wait has a job's gaps not filled, or fill none, for twice as long as when that was last so.
func (h *habit) wait() {
	h.looks = min(mostLooks, max(2, 2*h.looks))
	h.barred, h.excess = h.looks, 0
}

// keepsFor takes note of how much of a job's gaps was filled.
func (h *habit) keepsFor(filled, gaps, now time.Duration) {
	if float64(filled) >= keptFor*float64(gaps) {
		h.away = 0
	} else if now >= h.shy {
		h.shies(now)
	}
}

// shies has the device not kept for a job for a while.
func (h *habit) shies(now time.Duration) {
	h.away = min(mostAway, max(leastAway, 2*h.away))
	h.shy = now + h.away
}

// keepsUntil returns until when the device is kept for a job that rests on it; 0: it is not.
func (h *habit) keepsUntil(j *share.JobState, now time.Duration, p *GapParams) time.Duration {
	until := j.Since + p.Pause
	switch {
	case now < h.shy:
		return 0
	case now >= until:
		h.shies(now)
		return 0
	}
	return until
}
