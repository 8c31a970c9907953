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
}

// DefaultGaps returns gaps that are not filled and, if they are, a loss of 5 percent and a switch
// of 20 us.
func DefaultGaps() GapParams { return GapParams{Loss: 0.05, Switch: 20 * time.Microsecond} }

func (p GapParams) faults() []share.Fault {
	return append(append(between("fill", p.Fill, 0, 0.95), between("loss", p.Loss, 0.001, 0.5)...),
		between("switch", p.Switch.Seconds(), 0, 1)...)
}

func (p *GapParams) bind(f *flag.FlagSet) {
	f.Float64Var(&p.Fill, "fill", p.Fill,
		"part of what a job holds that it may use for its gaps to be filled; 0: none are")
	f.Float64Var(&p.Loss, "loss", p.Loss, "part of its speed that filling its gaps may cost a job")
	f.DurationVar(&p.Switch, "switch", p.Switch,
		"what it costs to pass the device to a launch in a gap and back")
}

// gaps lets launches of one opportunistic job that waits pass (share.Terms.Free) while the job that
// runs leaves gaps.
//
// A launch of the holder waits for one of the other's at most, so that kernels pass which are
// shorter than what the holder may lose for each of its own launches. What it does lose is found
// out: now and then nothing passes for a window, which shows how long the holder takes for a launch
// alone. If with others' launches beside it takes longer than it may, nothing passes for a while,
// and for twice as long each time in a row.
type gaps struct {
	params GapParams
	filler share.JobID   // whose launches pass; 0: nobody's
	last   share.JobID   // whose did last
	free   time.Duration // what passes
	set    []share.Terms
}

const (
	// judged is how much held time a judgement is made of, and leastLaunches how many launches: a
	// job with fewer may be within a kernel of which nothing is measured before its end.
	// Who is measured only after more than coarse could be slowed down for as long.
	judged        = 5 * time.Millisecond
	coarse        = 4 * judged
	leastLaunches = 8
	// fillsFor is for how many judgements in a row gaps are filled, and mostLooks for how many they
	// are not at most.
	fillsFor  = 16
	mostLooks = 64
)

// habit is what is known of one job's gaps.
type habit struct {
	used, measured time.Duration // at the begin of the window
	launches       int64
	filling        bool
	left           int     // windows until that changes
	looks          int     // windows without filling after the next that cost too much
	alone, beside  float64 // held nanoseconds a launch, smoothed: without and with others' beside
}

// fill adds to a decision whose launches are to pass from now on.
func (g *gaps) fill(s *share.Snapshot, d share.Decision) share.Decision {
	if g.params.Fill == 0 {
		return d
	}
	g.set = append(g.set[:0], d.Set...)
	free, next := time.Duration(0), false
	if j := g.holder(s); j != nil {
		h := &accountOf(j).habit
		next = j.MeasuredAt == s.Now && h.judge(j, &g.params)
		if h.filling {
			free = g.params.longest(h.alone)
		}
	}
	g.let(g.choose(s, next), free, s)
	d.Set = g.set
	return d
}

// holder returns the job whose gaps may be filled: one that runs, is not opportunistic and is not
// told to give way.
func (g *gaps) holder(s *share.Snapshot) *share.JobState {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Phase == share.Running && !j.Revoking && j.Share.Class != share.Opportunistic &&
			!g.named(j.ID) {
			return j
		}
	}
	return nil
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

// judge ends the window at a measurement, if it is long enough, and finds whether gaps are filled
// in the next. It reports whether it did.
func (h *habit) judge(j *share.JobState, p *GapParams) bool {
	held := j.Used - h.used
	if held < judged {
		return false
	}
	busy, n := j.Measured-h.measured, j.Launches-h.launches
	h.used, h.measured, h.launches = j.Used, j.Measured, j.Launches
	pace := float64(held) / float64(max(n, 1))
	switch {
	case held > coarse || n < leastLaunches || busy <= 0 || float64(busy) >= p.Fill*float64(held):
		h.filling, h.left, h.alone = false, 1, 0
	case h.filling:
		if h.beside += (pace - h.beside) / 4; h.beside*(1-p.Loss) > h.alone {
			h.looks = min(mostLooks, 2*h.looks)
			h.filling, h.left = false, h.looks
			break
		}
		if h.left--; h.left <= 0 {
			h.looks = max(1, h.looks/2)
			h.filling, h.left = false, 1
		}
	default:
		if h.alone == 0 {
			h.alone = pace
		}
		h.alone += (pace - h.alone) / 4
		if h.left--; h.left <= 0 {
			h.filling, h.left, h.looks = true, fillsFor, max(1, h.looks)
			h.beside = h.alone
		}
	}
	return true
}

// choose returns whose launches may pass: an opportunistic job that waits, and is not kept from the
// device by a limit, which would not hold for what passes. Another one has its turn at the next
// window, whoever stopped what passed before.
func (g *gaps) choose(s *share.Snapshot, next bool) *share.JobState {
	var first *share.JobState
	for i := range s.Jobs {
		j := &s.Jobs[i]
		switch {
		case j.Phase != share.Waiting || j.Share.Class != share.Opportunistic ||
			j.Share.Cap() < 1 || g.named(j.ID):
		case j.ID > g.last || j.ID == g.last && !next:
			return j
		case first == nil:
			first = j
		}
	}
	return first
}

// let lets kernels up to so long of a job pass, and nobody else's. What was said of a job that was
// granted the device since is over.
func (g *gaps) let(j *share.JobState, free time.Duration, s *share.Snapshot) {
	if j == nil {
		free = 0
	}
	was := s.Job(g.filler)
	if was != nil && (!was.Units.Empty() || g.named(was.ID)) {
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
