package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is Gemini's token scheduler: Chen, Lin, Chou and Chou, "Gemini: Enabling multi-tenant
// GPU sharing based on kernel burst estimation", IEEE TCC 2021, sections 4 and 5, which KubeShare
// (Yeh, Chen and Chou, HPDC 2020, section 4.5) uses on each node.
//
//	paper                        here
//	token with a quota           one hold of the whole device, GeminiParams.Quota at most
//	kernel burst estimation      window.burst: time used from wanting to idle, smoothed
//	sliding window               GeminiParams.Window, in slots
//	gpu_request, gpu_limit       Share.Guarantee, Share.Cap
//	client below its request     who is furthest below first; then who used least by weight
//
// Departures: the window is a tenth of the paper's ten seconds, so that a limit holds over a
// second; use beyond the limit that leaves the window is carried on, so that a kernel longer than
// the window is paid for; one that comes to wait below its request ends the hold of one beyond its
// own.

// geminiSlots is into how many slots the window is cut.
const geminiSlots = 50

// GeminiParams are the parameters of [Gemini].
type GeminiParams struct {
	// Window is the time over which requests and limits hold.
	Window time.Duration
	// Quota is the longest hold, MinQuota the shortest.
	Quota, MinQuota time.Duration
}

// DefaultGemini returns a window of a second and quotas from 2 to 30 ms, a tenth of the paper's.
func DefaultGemini() GeminiParams {
	return GeminiParams{Window: time.Second, Quota: 30 * time.Millisecond,
		MinQuota: 2 * time.Millisecond}
}

// Validate reports all faults together.
func (p GeminiParams) Validate() error {
	return validate("policy gemini", positive("window", p.Window), positive("quota", p.Quota),
		positive("min-quota", p.MinQuota))
}

// Gemini lends the device by tokens whose quota is what a job's burst is expected to take, first to
// those below their request, and to nobody beyond its limit. It ignores class.
type Gemini struct {
	params GeminiParams
	set    [1]share.Terms
}

// window is what a job used of late. Times are in nanoseconds.
type window struct {
	slots [geminiSlots]float64
	slot  int64   // number of the present slot
	sum   float64 // of the slots
	carry float64 // used beyond the limit before the window
	used  time.Duration
	burst float64 // expected
	began time.Duration
	wants bool
}

func geminiRow() Row {
	return Row{
		Name: "gemini", File: "gemini.go", Source: "Gemini (TCC 2021), KubeShare (HPDC 2020)",
		Summary: "tokens with a quota from the estimated burst; request and limit hold over a " +
			"sliding window; class is ignored",
		Honours: Honours{Guarantee: true, Limit: true, Conserving: true, Absolute: true,
			Window: DefaultGemini().Window, Burst: DefaultGemini().Window / geminiSlots},
		with: func() maker {
			p := DefaultGemini()
			return maker{
				func(f *flag.FlagSet) {
					f.DurationVar(&p.Window, "window", p.Window,
						"time over which requests and limits hold")
					f.DurationVar(&p.Quota, "quota", p.Quota, "the longest hold")
					f.DurationVar(&p.MinQuota, "min-quota", p.MinQuota, "the shortest hold")
				},
				func() (share.Policy, error) { return NewGemini(p) },
			}
		},
	}
}

// NewGemini returns the policy, or the faults of its parameters.
func NewGemini(p GeminiParams) (*Gemini, error) { return &Gemini{params: p}, p.Validate() }

// Name returns "gemini".
func (p *Gemini) Name() string { return "gemini" }

// NewJobState returns the window of a job that has used nothing.
func (p *Gemini) NewJobState() any { return &window{} }

// Decide passes the token on, or asks it back for a job below its request.
func (p *Gemini) Decide(s *share.Snapshot) share.Decision {
	var run, next *share.JobState
	limited := false
	for i := range s.Jobs {
		j := &s.Jobs[i]
		p.count(j, s.Now)
		switch {
		case j.Phase == share.Running:
			run = j
		case j.Phase != share.Waiting:
		case p.left(j) < float64(p.params.MinQuota):
			limited = true
		case next == nil || p.before(j, next):
			next = j
		}
	}
	var d share.Decision
	switch {
	case next == nil && limited:
		d.Wake = s.Now + p.params.Window/geminiSlots
	case next == nil:
	case run == nil:
		p.set[0] = share.Terms{Job: next.ID, Units: s.All(), Until: s.Now + p.quota(next)}
		d.Set = p.set[:]
	case !run.Revoking && p.below(next) > 0 && p.below(run) < 0:
		p.set[0] = share.Terms{Job: run.ID}
		d.Set = p.set[:]
	}
	return d
}

// count brings a job's window up to now. What it used since the last call is entered in the present
// slot; a slot that leaves the window leaves behind what it held beyond the limit.
func (p *Gemini) count(j *share.JobState, now time.Duration) {
	w, length := windowOf(j), p.params.Window/geminiSlots
	slot := int64(now / length)
	allowed := j.Share.Cap() * float64(length)
	for n := min(slot-w.slot, 2*geminiSlots); n > 0; n-- {
		k := (slot - n + 1) % geminiSlots
		w.carry = max(0, w.carry+w.slots[k]-allowed)
		w.sum -= w.slots[k]
		w.slots[k] = 0
	}
	if idle := slot - w.slot - 2*geminiSlots; idle > 0 {
		w.carry = max(0, w.carry-float64(idle)*allowed)
	}
	w.slot = slot
	spent := float64(j.Used - w.used)
	w.used = j.Used
	w.slots[slot%geminiSlots] += spent
	w.sum += spent
	p.estimate(w, j)
}

// estimate smooths how much a job uses from when it begins to want the device until it does not.
func (p *Gemini) estimate(w *window, j *share.JobState) {
	switch {
	case j.Wants() && !w.wants:
		w.began = j.Used
	case !j.Wants() && w.wants && w.burst == 0:
		w.burst = float64(j.Used - w.began)
	case !j.Wants() && w.wants:
		w.burst += (float64(j.Used-w.began) - w.burst) / 4
	}
	w.wants = j.Wants()
}

func windowOf(j *share.JobState) *window { return j.State.(*window) }

// use is what counts as used of late: within the window, and before it beyond the limit.
func (p *Gemini) use(j *share.JobState) float64 { w := windowOf(j); return w.sum + w.carry }

// left is what a job may use before it is at its limit, in nanoseconds.
func (p *Gemini) left(j *share.JobState) float64 {
	if j.Share.Cap() >= 1 {
		return float64(p.params.Window)
	}
	return j.Share.Cap()*float64(p.params.Window) - p.use(j)
}

// below is by how much a job is below its request, in nanoseconds.
func (p *Gemini) below(j *share.JobState) float64 {
	return j.Share.Guarantee()*float64(p.params.Window) - p.use(j)
}

// before reports whether a gets the token before b.
func (p *Gemini) before(a, b *share.JobState) bool {
	x, y := p.below(a), p.below(b)
	if x > 0 || y > 0 {
		return x > y
	}
	return p.use(a)*b.Share.Weight() < p.use(b)*a.Share.Weight()
}

// quota is how long the job may hold the token: its burst if that is short, or what its limit
// leaves.
func (p *Gemini) quota(j *share.JobState) time.Duration {
	quota := float64(p.params.Quota)
	if b := windowOf(j).burst; b > 0 {
		quota = min(quota, max(2*b, float64(p.params.MinQuota)))
	}
	return time.Duration(max(1, min(quota, p.left(j))))
}
