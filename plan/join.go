package plan

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/device/compute"
)

// Operators that only move whole stretches of memory need no step where their operands can lie
// where they are moved to. The parts that are split off along the outermost axis longer than one
// become views of the whole. What is joined along that axis, as by Concat over the channels of one
// image, is computed where it will lie: the parts become views of a whole that does not exist yet.
// A whole then takes memory from its first part on, which may be more memory than the copies take;
// see [compiler.join].

// views makes the outputs of step st stretches of its inputs' bytes, when that is all that it does
// and every stretch is aligned.
func (c *compiler) views(st *Step) bool {
	k, ok := st.Kernel.(compute.Moving)
	if !ok {
		return false
	}
	stretches, p := k.Stretches(), c.plan
	if len(stretches) != len(st.Out) || slices.Contains(st.Out, -1) ||
		k.Without(moves(stretches)) != nil {
		return false
	}
	seen := map[int]bool{}
	for _, m := range stretches {
		whole, out := &p.Slots[p.root(st.In[m.In])], &p.Slots[st.Out[m.Out]]
		if seen[m.Out] || m.To != 0 || m.Bytes != out.Bytes || m.From%Align != 0 ||
			whole.Place != InArena || out.Place != InArena {
			return false
		}
		seen[m.Out] = true
	}
	for _, m := range stretches {
		out := &p.Slots[st.Out[m.Out]]
		out.Place, out.Of, out.At = Alias, st.In[m.In], m.From
	}
	return true
}

// moves are the numbers of the moves of stretches.
func moves(stretches []compute.Stretch) (numbers []int) {
	for _, m := range stretches {
		numbers = append(numbers, m.Move)
	}
	return numbers
}

// join does what layout does, with parts of joined values computed in place. It tries this for all
// parts, for those that wait only a short time for their whole, and for none, and takes the trial
// that needs the least memory, the earliest when they are equal. Memory is worth more than time
// here, since a copy runs at the speed of memory.
func (c *compiler) join() {
	const shortWait = 12 // steps
	if !slices.ContainsFunc(c.plan.Steps, func(st Step) bool {
		_, ok := st.Kernel.(compute.Moving)
		return ok
	}) {
		c.layout()
		return
	}
	plain := *c.plan
	var best *Plan
	for _, wait := range []int{math.MaxInt, shortWait, -1} {
		p := plain
		p.Slots, p.Steps = slices.Clone(plain.Slots), slices.Clone(plain.Steps)
		c.plan = &p
		joined := c.joinParts(wait)
		c.layout()
		if best == nil || p.ArenaBytes < best.ArenaBytes {
			best = &p
		}
		if !joined || c.opts.Placement != 0 {
			break
		}
	}
	*c.plan = *best
}

// joinParts makes operands that steps join parts of the result, except those computed more than
// wait steps before the join. It reports whether there was any.
func (c *compiler) joinParts(wait int) bool {
	gone := make([]bool, len(c.plan.Steps))
	joined := false
	for i := range c.plan.Steps {
		st := &c.plan.Steps[i]
		k, ok := st.Kernel.(compute.Moving)
		if !ok {
			continue
		}
		done := c.parts(i, k.Stretches(), wait)
		if len(done) == 0 {
			continue
		}
		joined = true
		if rest := k.Without(moves(done)); rest != nil {
			st.Kernel = rest
			for _, m := range done {
				st.Bytes -= 2 * m.Bytes
			}
		} else {
			gone[i] = true
			c.complete(st)
		}
	}
	c.removeSteps(gone)
	return joined
}

// parts makes operands of step i parts of its output, and returns the stretches that need not be
// moved any more. Neighbouring operands that are views of one value, and together all of it, become
// parts together: what was split is often joined again with what was computed from it.
func (c *compiler) parts(i int, stretches []compute.Stretch, wait int) (done []compute.Stretch) {
	p := c.plan
	st := &p.Steps[i]
	for len(stretches) > 0 {
		m := stretches[0]
		n := p.neighbours(st, stretches)
		s, out := &p.Slots[p.root(st.In[m.In])], st.Out[m.Out]
		if n > 0 && out >= 0 && p.Slots[out].Place == InArena && s.Place == InArena &&
			s.First >= 0 && i-s.First <= wait && m.To%Align == 0 {
			s.Place, s.Of, s.At = Alias, out, m.To
			done = append(done, stretches[:n]...)
		}
		stretches = stretches[max(n, 1):]
	}
	return done
}

// neighbours is the number of stretches, from the first on, that move one whole value, piece after
// piece; 0 when there are none.
func (p *Plan) neighbours(st *Step, stretches []compute.Stretch) int {
	root, to := p.root(st.In[stretches[0].In]), stretches[0].To
	var at int64
	for n, m := range stretches {
		in := st.In[m.In]
		if p.root(in) != root || p.begin(in) != at || m.From != 0 || m.Bytes != p.Slots[in].Bytes ||
			m.To != to+at || m.Out != stretches[0].Out {
			return 0
		}
		if at += m.Bytes; at == p.Slots[root].Bytes {
			return n + 1
		}
	}
	return 0
}

// complete notes that the output of a step which goes is there as soon as its parts are.
func (c *compiler) complete(st *Step) {
	p := c.plan
	out := &p.Slots[st.Out[0]]
	out.First = -1
	for _, s := range st.In {
		if s >= 0 && p.Slots[p.root(s)].Place == InArena {
			out.First = max(out.First, p.Slots[s].First)
		}
	}
	p.Flops -= st.Flops
}

// removeSteps takes steps out and renumbers the lives of values.
func (c *compiler) removeSteps(gone []bool) {
	p := c.plan
	number := make([]int, len(gone)+1) // of what was step i, or of the step after it
	kept := p.Steps[:0]
	for i := range p.Steps {
		number[i] = len(kept)
		if !gone[i] {
			kept = append(kept, p.Steps[i])
		}
	}
	number[len(gone)] = len(kept)
	p.Steps = kept
	for i := range p.Slots {
		s := &p.Slots[i]
		if s.First >= 0 {
			s.First = number[s.First]
		}
		if s.Last >= 0 {
			s.Last = number[s.Last]
		}
	}
}
