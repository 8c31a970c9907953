package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// GapParams say which gaps are filled: times in which the job that holds the device leaves it idle,
// and which are too short for the device to pass on.
type GapParams struct {
	// Fill is the part of what a job holds that it may use at most for its gaps to be filled; 0:
	// none are.
	Fill float64
	// Loss is the part of its speed that this may cost it.
	Loss float64
	// Switch is what it costs to pass the device to another program's launch and back.
	Switch time.Duration
	// Pause is for how long a job whose gaps are filled rests on the device before it is passed on.
	Pause time.Duration
}

// DefaultGaps returns gaps that are not filled and, if they are, a loss of 5 percent, a switch of
// 20 us and pauses of up to 5 ms.
func DefaultGaps() GapParams {
	return GapParams{Loss: 0.05, Switch: 20 * time.Microsecond, Pause: 5 * time.Millisecond}
}

func (p GapParams) faults() []share.Fault {
	return append(append(between("fill", p.Fill, 0, 0.95), between("loss", p.Loss, 0.001, 0.5)...),
		append(between("switch", p.Switch.Seconds(), 0, 1),
			between("pause", p.Pause.Seconds(), 0, 0.1)...)...)
}

func (p *GapParams) bind(f *flag.FlagSet) {
	f.Float64Var(&p.Fill, "fill", p.Fill,
		"part of what a job holds that it may use for its gaps to be filled; 0: none are")
	f.Float64Var(&p.Loss, "loss", p.Loss, "part of its speed that filling its gaps may cost a job")
	f.DurationVar(&p.Switch, "switch", p.Switch,
		"what it costs to pass the device to a launch in a gap and back")
	f.DurationVar(&p.Pause, "pause", p.Pause,
		"for how long a job whose gaps are filled rests on the device before it is passed on")
}

// gaps lets launches of one opportunistic job that waits pass (share.Terms.Free) while the job that
// runs leaves gaps.
//
// A launch of the holder waits for what of the other's is on the device, so that no more passes
// than the holder may lose for each of its own launches. What it does lose is found out too
// (habit.go).
type gaps struct {
	params GapParams
	filler share.JobID   // whose launches pass; 0: nobody's
	last   share.JobID   // whose did last
	free   time.Duration // what passes
	held   share.JobID   // whose gaps may be filled, without a break
	set    []share.Terms
}

// fill adds to a decision whose launches are to pass from now on.
func (g *gaps) fill(s *share.Snapshot, d share.Decision) share.Decision {
	if g.params.Fill == 0 {
		return d
	}
	g.set = append(g.set[:0], d.Set...)
	free, ended, next := time.Duration(0), false, false
	j := g.holder(s)
	if j == nil {
		g.held = 0
	} else {
		h := &accountOf(j).habit
		if j.ID != g.held {
			g.held, h.begun = j.ID, false
		}
		if j.MeasuredAt == s.Now {
			ended, next = h.judge(j, s.Job(g.filler), s.Now, &g.params)
		}
		if h.filling {
			free = g.params.longest(h.alone)
		}
	}
	g.let(g.choose(s, ended, next), free, s)
	d.Set = g.set
	return d
}

// holder returns the job whose gaps may be filled: one that runs, is to run from now on or rests on
// the device, is not opportunistic and is not told to give way. One that runs for slice after slice
// has no break in between.
func (g *gaps) holder(s *share.Snapshot) *share.JobState {
	for i := range g.set {
		if t := &g.set[i]; !t.Units.Empty() {
			if j := s.Job(t.Job); j != nil && j.Share.Class != share.Opportunistic {
				return j
			}
			return nil
		}
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if !j.Units.Empty() && !j.Revoking && j.Share.Class != share.Opportunistic &&
			!g.named(j.ID) {
			return j
		}
	}
	return nil
}

// keeps returns until when the device is kept for a job that rests on it, so that its pause is
// filled and its next launch waits for no more than what passes; 0 if it is not. Nobody is kept
// waiting but those with whose launches gaps are filled.
func (g *gaps) keeps(s *share.Snapshot) (until time.Duration) {
	var rests *share.JobState
	fills := false
	for i := range s.Jobs {
		j := &s.Jobs[i]
		waits := j.Phase == share.Waiting
		switch {
		case waits && !mayFill(j) || j.Phase == share.Running || j.Revoking:
			return 0
		case waits:
			fills = fills || accountOf(j).habit.barred == 0
		case !j.Units.Empty() && j.Share.Class != share.Opportunistic:
			rests = j
		}
	}
	if !fills || rests == nil || g.params.Fill == 0 {
		return 0
	}
	a := accountOf(rests)
	until = a.habit.keepsUntil(rests, s.Now, &g.params)
	a.kept = until > 0
	return until
}

// named reports whether the decision says something of the job already.
func (g *gaps) named(id share.JobID) bool {
	for i := range g.set {
		if g.set[i].Job == id {
			return true
		}
	}
	return false
}

// longest is what a kernel that passes may take beside a job that takes so long for a launch.
func (p *GapParams) longest(alone float64) time.Duration {
	return max(0, time.Duration(p.Loss*alone)-p.Switch)
}

// choose returns whose launches may pass: an opportunistic job that waits, whose launches do not
// cost too much, and which is not kept from the device by a limit, which would not hold for what
// passes. Each has its turn for as long as gaps are filled without a break.
func (g *gaps) choose(s *share.Snapshot, ended, next bool) *share.JobState {
	var first, after *share.JobState
	for i := range s.Jobs {
		j := &s.Jobs[i]
		h := &accountOf(j).habit
		if ended && h.barred > 0 {
			h.barred--
		}
		switch {
		case j.Phase != share.Waiting || !mayFill(j) || h.barred > 0:
		case after == nil && (j.ID > g.last || j.ID == g.last && !next):
			after = j
		case first == nil:
			first = j
		}
	}
	if after != nil {
		return after
	}
	return first
}

// mayFill reports whether gaps are filled with a job's launches at all.
func mayFill(j *share.JobState) bool {
	return j.Share.Class == share.Opportunistic && j.Share.Cap() >= 1
}

// let lets kernels up to so long of a job pass, and nobody else's. What was said of a job that was
// granted the device since is over.
func (g *gaps) let(j *share.JobState, free time.Duration, s *share.Snapshot) {
	if j == nil {
		free = 0
	}
	was := s.Job(g.filler)
	if was != nil && !was.Units.Empty() {
		was, g.filler = nil, 0
	}
	switch {
	case was != nil && (free == 0 || was.ID != j.ID):
		g.set = append(g.set, share.Terms{Job: was.ID})
	case was != nil && near(free, g.free):
		return
	}
	g.filler, g.free = 0, 0
	if free > 0 {
		g.filler, g.last, g.free = j.ID, j.ID, free
		g.set = append(g.set, share.Terms{Job: j.ID, Free: free, InFlight: free})
	}
}

// near reports whether two bounds are the same to an eighth.
func near(a, b time.Duration) bool { return max(a, b)-min(a, b) <= b/8 }
