package engine

import (
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/plan"
)

// What the cost model of groups assumes of a model that has not run yet, by order of magnitude;
// later it goes by how long that took. A core computes and moves as package seat assumes for its
// forecasts. The other rates are what bench/switch measures (its group rates), rounded: how fast a
// device that the host cannot address evaluates plainly, and below. What a transfer takes besides
// its bytes is not measured.
const (
	coreFlops, coreBytes       = 40e9, 8e9
	distantFlops, distantBytes = 6e9, 3e9
)

var (
	// mapped is how fast pages of a file in the system's cache are mapped, the middle of three runs
	// that were far apart, and repacked how fast one core packs weights.
	mapped   = device.Bus{BytesPerS: 30e9, PerTransfer: 5 * time.Microsecond}
	repacked = device.Bus{BytesPerS: 10e9, PerTransfer: 20 * time.Microsecond}
)

// groups returns the offsets in the packed weights at which a transfer ends when they are brought
// (plan.Pipeline), where an iteration whose weights are there takes so long; 0: nobody knows. The
// rates then say what part of it each step takes, and no more.
func (s *Session) groups(took time.Duration) []int64 {
	if s.owns() {
		return ownGroups(s.plan.Borders())
	}
	flops, bytes := float64(distantFlops), float64(distantBytes)
	if !s.plan.Remote() {
		cores := float64(s.plan.Threads)
		flops, bytes = cores*coreFlops, cores*coreBytes
	}
	if guess, _ := s.plan.Estimate(flops, bytes); took > 0 && guess > 0 {
		off := float64(guess) / float64(took)
		flops, bytes = flops*off, bytes*off
	}
	ends := s.plan.Borders()
	cut := surest(s.bus(), func(faster float64) []plan.Layer {
		return s.plan.Layers(flops*faster, bytes*faster)
	})
	groups := make([]int64, len(cut))
	for i, n := range cut {
		groups[i] = ends[n-1]
	}
	return groups
}

// doubts are how many times as fast as it is thought something may be computed, by order of
// magnitude: how long all of an iteration takes is known, and what part of it each step has is not.
var doubts = [...]float64{1, 1.25, 1.5, 2}

// most is the part of the least that more may be exposed for that, should the model be right.
const most = 1.0 / 32

// surest cuts layers such that about the least is exposed by the model, and of such ways in that by
// which the least is where all is computed as many times faster as the last of doubts says. By the
// model alone a group may come just when the layers before it have been computed, since larger
// groups are fewer; where they are computed a little sooner, all of it is waited for.
func surest(b device.Bus, layers func(faster float64) []plan.Layer) (ends []int) {
	thought, fastest := layers(doubts[0]), layers(doubts[len(doubts)-1])
	var limit, least time.Duration
	for i, faster := range doubts {
		way, _ := plan.Pipeline(b, layers(faster))
		exposed, sooner := plan.Exposed(b, thought, way), plan.Exposed(b, fastest, way)
		if i == 0 {
			limit = exposed + time.Duration(most*float64(exposed))
		}
		if i == 0 || exposed <= limit && sooner < least {
			ends, least = way, sooner
		}
	}
	return ends
}

// ran notes how long an iteration took whose weights were there.
func (s *Session) ran(took time.Duration) {
	for {
		least := s.least.Load()
		if least > 0 && int64(took) >= least || s.least.CompareAndSwap(least, int64(took)) {
			return
		}
	}
}

// cuts are the groups of packed weights, by the shortest iteration yet. Another that is a little
// shorter makes no others: the model is not as exact, and a switch is to allocate nothing.
type cuts struct {
	groups []int64
	took   time.Duration
}

// of returns the groups of a session's weights.
func (c *cuts) of(s *Session) []int64 {
	least := time.Duration(s.least.Load())
	if c.groups == nil || least > 0 && (c.took == 0 || least < c.took*3/4) {
		c.groups, c.took = s.groups(least), least
	}
	return c.groups
}

// bus is how fast the weights come.
func (s *Session) bus() device.Bus {
	if d, ok := s.opts.Device.(device.Bused); ok {
		if b, ok := d.Bus(); ok {
			return b
		}
	}
	switch b := repacked; {
	case s.opts.Weights != nil:
		return mapped
	case s.owns():
		b.BytesPerS *= float64(s.plan.Threads)
		return b
	default:
		return b
	}
}

// owns reports whether the device's own units write the weights when they come again.
func (s *Session) owns() bool { return s.opts.Weights == nil && !s.plan.Remote() }
