package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
)

// ErrArena is the kind of error about a graph that takes more memory than Options.MostArena in any
// order of its nodes that was found, and with all the values computed again that can be.
var ErrArena = errors.New("arena over its bound")

// This file makes plans under a bound on their arena. Where the plan of the order as given is too
// large, another order is tried, and then values are not kept from the step that makes them to a
// late reader, but computed again just before it: those first that free most bytes for the time
// that it takes. That trades time for memory, which is where training has most to gain: what the
// forward pass leaves for the backward pass is most of the arena (Chen, Xu, Zhang and Guestrin,
// "Training Deep Nets with Sublinear Memory Cost", 2016). Each value is computed by the same kernel
// from the same operands, so no bit of a result changes.

// maxFits is how often the bound for the schedule is lowered, where placing its values leaves gaps.
const maxFits = 16

// Recompute says how much time a plan may spend on a smaller arena, without a bound that it must
// keep. The zero value is for none.
type Recompute struct {
	// MostTime is what an iteration takes at most, in parts of what it takes where every value is
	// computed once, by what steps compute and move; 1 and less allow none.
	MostTime float64
	// LeastArena is the size in bytes up to which an arena is left as it is.
	LeastArena int64
}

// fit compiles g, which is specialised and optimised, so that its arena has no more bytes than the
// options say.
func fit(ctx context.Context, g *graph.Graph, o Options) (*Plan, error) {
	c, err := compiled(ctx, g, o, false)
	if err != nil {
		return nil, err
	}
	if o.MostArena == 0 && o.Recompute.MostTime <= 1 {
		return c.placed(), nil
	}
	traits := c.traits()
	whole := c.placed()
	if o.Recompute.MostTime > 1 && whole.ArenaBytes > o.Recompute.LeastArena {
		p, err := underTime(ctx, whole, traits, o)
		if err != nil || o.MostArena == 0 || p.ArenaBytes <= o.MostArena {
			return p, err
		}
	}
	if o.MostArena == 0 {
		return whole, nil
	}
	return underBound(ctx, whole, traits, o)
}

// againFirst is g, an optimised graph of a step of training in mixed precision, with the values
// computed again for which there is time. Of the others what is read again waits in 16 bits
// afterwards, and what is computed again is computed of that: the other way round nothing could be,
// since values of 16 bits are not what others were computed of. As this changes results, it is the
// same on any number of threads and under any bound.
func againFirst(ctx context.Context, g *graph.Graph, o Options) (*graph.Graph, error) {
	o.Threads = 1
	c, err := compiled(ctx, g, o, false)
	if err != nil {
		return nil, err
	}
	traits := c.traits()
	whole := c.placed()
	if whole.ArenaBytes <= o.Recompute.LeastArena {
		return g, nil
	}
	s := newSchedule(whole.Graph.Clone(), traits)
	s.reorder()
	err = s.lower(ctx, 0, (o.Recompute.MostTime-1)*s.cost())
	return s.graph, err
}

// underTime is the smallest plan found of p's nodes, whose traits these are, that takes no more
// time than the options say.
func underTime(ctx context.Context, p *Plan, traits *traits, o Options) (*Plan, error) {
	s := newSchedule(p.Graph.Clone(), traits)
	s.reorder()
	if err := s.lower(ctx, 0, (o.Recompute.MostTime-1)*s.cost()); err != nil {
		return nil, err
	}
	smaller, err := compile(ctx, s.graph, o, false)
	if err != nil || smaller.ArenaBytes < p.ArenaBytes {
		return smaller, err
	}
	return p, nil
}

// underBound is p, or a smaller plan of its nodes, whose traits these are.
func underBound(ctx context.Context, p *Plan, traits *traits, o Options) (*Plan, error) {
	if p.ArenaBytes <= o.MostArena {
		return p, nil
	}
	s := newSchedule(p.Graph.Clone(), traits)
	s.reorder()
	return fitted(ctx, s, p, o)
}

// fitted is a plan of a schedule of p's nodes whose arena is under the bound of the options. Where
// placing values leaves gaps, the schedule is lowered further: values that were made again for one
// bound are those that would be made again first for a smaller one.
func fitted(ctx context.Context, s *schedule, p *Plan, o Options) (*Plan, error) {
	least, target := p.ArenaBytes, o.MostArena
	for range maxFits {
		if target <= 0 {
			break
		}
		if err := s.lower(ctx, target, math.Inf(1)); err != nil {
			return nil, err
		}
		smaller, err := compile(ctx, s.graph.Clone(), o, false)
		if err != nil {
			return nil, err
		}
		if smaller.ArenaBytes <= o.MostArena {
			return smaller, nil
		}
		least = min(least, smaller.ArenaBytes)
		if s.alive[s.peak()] > target { // nothing more can be made again
			break
		}
		// at least one value more, however little is missing
		target = min(target-(smaller.ArenaBytes-o.MostArena), s.alive[s.peak()]-1)
	}
	return nil, fmt.Errorf("graph %q: %w: it takes %d bytes as it is, %d with what can be "+
		"computed again, and %d are allowed: allow more, or give smaller shapes", p.Graph.Name,
		ErrArena, p.ArenaBytes, least, o.MostArena)
}

// Smaller reports whether a plan that one session needs more than so many bytes for may be made
// again under a bound, and sets the bound in the options, which are those it was made with.
func (p *Plan) Smaller(o *Options, most int64) bool {
	o.MostArena = most - p.PackedBytes
	return p.PeakBytes(1) > most && o.MostArena > 0
}

// Trade is a plan that takes less memory and more time than another.
type Trade struct {
	ArenaBytes int64 `json:"arena_bytes"` // of one iteration
	// Time is that of an iteration over the time of the plan that computes nothing again, or in
	// mixed precision only what Options.Recompute has chosen, by what the steps compute and move.
	Time  float64 `json:"time"`
	Again int     `json:"again"` // steps more than that plan has
}

// Trades says what plans of g take whose arenas are bounded by these parts of what the plan of the
// options takes without a bound, which may compute again by Options.Recompute. Parts that no plan
// keeps are left out. It takes least time with the largest first. The errors are those of
// [Compile].
func Trades(ctx context.Context, g *graph.Graph, o Options, parts ...float64) ([]Trade, error) {
	t, err := fault.Value(func() ([]Trade, error) { return trades(ctx, g, o, parts) })
	return t, g.Blame(o.Shapes, err)
}

// trades is Trades that may panic.
func trades(ctx context.Context, g *graph.Graph, o Options, parts []float64) ([]Trade, error) {
	s, _, err := optimised(ctx, g, &o)
	if err != nil {
		return nil, err
	}
	c, err := compiled(ctx, s, o, false)
	if err != nil {
		return nil, err
	}
	traits := c.traits()
	whole := c.placed()
	given := whole
	if o.Recompute.MostTime > 1 && whole.ArenaBytes > o.Recompute.LeastArena {
		if given, err = underTime(ctx, whole, traits, o); err != nil {
			return nil, err
		}
	}
	trades := []Trade{}
	var schedule *schedule
	for i, part := range parts {
		if i == 0 || part > parts[i-1] {
			schedule = newSchedule(whole.Graph.Clone(), traits)
			schedule.reorder()
		}
		o.MostArena = max(1, int64(part*float64(given.ArenaBytes)))
		p := whole
		if p.ArenaBytes > o.MostArena {
			if err = schedule.lower(ctx, o.MostArena, math.Inf(1)); err != nil {
				return nil, err
			}
			p, err = fitted(ctx, schedule.clone(), whole, o)
		}
		if errors.Is(err, ErrArena) {
			continue
		}
		if err != nil {
			return nil, err
		}
		trades = append(trades, Trade{ArenaBytes: p.ArenaBytes, Time: p.work() / whole.work(),
			Again: len(p.Steps) - len(whole.Steps)})
	}
	return trades, nil
}

// work is what the steps of a plan cost, in no unit.
func (p *Plan) work() (sum float64) {
	for i := range p.Steps {
		sum += p.Steps[i].work()
	}
	return sum
}

// balance is how many operations a processor computes while it moves a byte.
const balance = 16

func (st *Step) work() float64 { return st.seconds(balance, 1) }

// cost is that of all nodes, in the unit of their traits.
func (s *schedule) cost() (sum float64) {
	for _, n := range s.graph.Nodes {
		sum += s.traits[n].cost
	}
	return sum
}

// lower has values computed again, the best first, until no more than so many bytes are alive at
// any node, or there is nothing left to compute again that costs no more than what is left of
// spend. The error is ctx's: this takes the square of the number of nodes.
func (s *schedule) lower(ctx context.Context, most int64, spend float64) error {
	for range 4 * len(s.graph.Nodes) {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.survey()
		at := s.peak()
		if s.alive[at] <= most {
			return nil
		}
		c := s.cheapest(at, spend)
		if c.life < 0 {
			return nil
		}
		s.makeAgain(c.life, c.set, at)
		spend -= c.cost
	}
	return nil
}

// maxAgain bounds how many lives are made again for one.
const maxAgain = 24

// candidate is a life that may be made again; -1 for none.
type candidate struct {
	life int
	set  map[int]bool // all that is made again with it
	cost float64
}

// cheapest returns the life across node at that frees most bytes there for the time that making it
// again takes, of those that cost no more than so much.
func (s *schedule) cheapest(at int, affordable float64) candidate {
	best := candidate{life: -1}
	var most float64
	for b := range s.lives {
		l := &s.lives[b]
		if l.kept || l.maker < 0 || l.maker >= at || l.last <= at || l.next(at-1) == at {
			continue
		}
		made := map[int]bool{}
		gain, cost, ok := s.again(b, at, l.next(at), made)
		if score := float64(gain) / (cost + 1); ok && gain > 0 && score > most &&
			cost <= affordable {
			best, most = candidate{b, made, cost}, score
		}
	}
	return best
}

// again adds life b to those that are made again after node at and before node by, and what its
// node reads that is not alive at the first of these. It returns how many bytes fewer are alive
// there, and the cost.
func (s *schedule) again(b, at, by int, made map[int]bool) (gain int64, cost float64, ok bool) {
	l := &s.lives[b]
	if len(made) == maxAgain {
		return 0, 0, false
	}
	made[b] = true
	n := s.graph.Nodes[l.maker]
	t := s.traits[n]
	if !t.again {
		return 0, 0, false
	}
	if l.last > at {
		gain = l.bytes
	}
	cost = t.cost
	for _, v := range n.In {
		if r, ok := s.replaced[v]; ok && r < by {
			return 0, 0, false
		}
		x, in := s.lifeOf(v)
		if !in || made[x] || s.lives[x].last >= at {
			continue
		}
		if m := s.lives[x].maker; m < 0 || !s.traits[s.graph.Nodes[m]].again {
			gain -= s.lives[x].bytes // it stays alive for this
			continue
		}
		g, c, ok := s.again(x, at, by, made)
		if !ok {
			return 0, 0, false
		}
		gain, cost = gain+g, cost+c
	}
	return gain, cost, true
}

// makeAgain has the nodes after at read life b from nodes that make it, and the others of the set,
// again just before the first of them.
func (s *schedule) makeAgain(b int, set map[int]bool, at int) {
	nodes, first := s.graph.Nodes, s.lives[b].next(at)
	m := remaking{s: s, set: set, to: map[*graph.Value]*graph.Value{}}
	for _, n := range nodes[first:] {
		for i, v := range n.In {
			if x, in := s.lifeOf(v); in && x == b {
				n.In[i] = m.value(v)
			}
		}
	}
	s.graph.Nodes = slices.Insert(nodes, first, m.nodes...)
	s.sweep()
}

// remaking makes nodes that compute values again.
type remaking struct {
	s     *schedule
	set   map[int]bool // lives that are made again
	to    map[*graph.Value]*graph.Value
	nodes []*graph.Node // in their order
}

// value returns the value that is v made again.
func (m *remaking) value(v *graph.Value) *graph.Value {
	if to := m.to[v]; to != nil {
		return to
	}
	of := v.Producer
	n := &graph.Node{Name: m.s.name(of.Name), Domain: of.Domain, Type: of.Type,
		Version: of.Version, Attrs: of.Attrs, Row: of.Row, In: slices.Clone(of.In),
		Out: make([]*graph.Value, len(of.Out))}
	for i, in := range of.In {
		if x, ok := m.s.lifeOf(in); ok && m.set[x] && in.Producer != nil {
			n.In[i] = m.value(in)
		}
	}
	for i, out := range of.Out {
		if out != nil {
			n.Out[i] = &graph.Value{Name: m.s.name(out.Name), Type: out.Type, Producer: n, Index: i}
			m.to[out] = n.Out[i]
		}
	}
	m.s.traits[n] = m.s.traits[of]
	m.nodes = append(m.nodes, n)
	return m.to[v]
}
