package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
)

// schedule is an order of the nodes of a graph, and what memory it takes before its values have
// places: at each node, the bytes of the values that are alive.
type schedule struct {
	graph  *graph.Graph
	traits map[*graph.Node]*trait
	inputs map[*graph.Value]int64 // their bytes in the arena
	names  map[string]int         // how many there are of values and nodes made again
	taken  map[string]bool        // names of what there was before

	lives    []life
	index    map[*graph.Value]int // in lives; of the values in the arena only
	replaced map[*graph.Value]int // by which node variables are
	alive    []int64              // at each node
}

// trait is what a schedule needs to know of a node's kernel.
type trait struct {
	cost    float64 // in no unit
	scratch int64
	again   bool    // it may run twice
	inPlace []int   // inputs whose memory may become that of output 0
	of      []int   // for each output, the input that it is a view of; -1 for bytes of its own
	bytes   []int64 // of each output; -1 for one that has no place in the arena
	// replaces are the inputs, variables, over which the node writes what they become. Whoever else
	// reads them comes before.
	replaces []int
}

// life is a value in the arena, with all its views.
type life struct {
	bytes   int64
	maker   int   // the node that makes it; -1 for an input
	readers []int // the nodes that read it, in their order
	last    int   // the last of them, or the maker; as many as there are nodes for an output
	kept    bool  // an output of the graph
}

// next is the first node after another one that reads the life; -1 for none.
func (l *life) next(after int) int {
	i, _ := slices.BinarySearch(l.readers, after+1)
	if i == len(l.readers) {
		return -1
	}
	return l.readers[i]
}

// traits returns those of each node, in their order, and the bytes of the inputs in the arena.
func (c *compiler) traits() *traits {
	p := c.plan
	steps := map[*graph.Node]*Step{}
	for i := range p.Steps {
		steps[p.Steps[i].Node] = &p.Steps[i]
	}
	t := &traits{}
	for _, s := range p.Inputs {
		t.inputs = append(t.inputs, inArena(&p.Slots[s]))
	}
	for _, n := range p.Graph.Nodes {
		t.nodes = append(t.nodes, c.trait(n, steps[n]))
	}
	return t
}

// traits are what a schedule of a graph, or of its copy, needs to know of it.
type traits struct {
	inputs []int64 // bytes in the arena, -1 for none
	nodes  []*trait
}

func inArena(s *Slot) int64 {
	if s.Place != InArena {
		return -1
	}
	return s.Bytes
}

// trait is that of node n, and of its step, nil where it has none.
func (c *compiler) trait(n *graph.Node, st *Step) *trait {
	t := &trait{again: again(n)}
	if st != nil {
		t.cost, t.scratch = st.work(), int64(st.Kernel.ScratchBytes(c.plan.Threads))
		// packed weights are each step's own
		t.again = t.again && !st.dynamic && st.Kernel.PackedBytes() == 0
		if k, ok := st.Kernel.(compute.InPlace); ok {
			t.inPlace = k.InPlace()
		}
	}
	for _, v := range n.Out {
		of, bytes := -1, int64(-1)
		if v != nil {
			s := &c.plan.Slots[c.slot[v]]
			if bytes = inArena(s); s.Place == Alias {
				of = slices.IndexFunc(n.In, func(in *graph.Value) bool {
					return in != nil && c.slot[in] == s.Of
				})
			}
		}
		t.of, t.bytes = append(t.of, of), append(t.bytes, bytes)
	}
	for k := range t.bytes {
		if st == nil {
			break
		}
		if in := c.replaces(st, k); in >= 0 {
			t.replaces, t.bytes[k], t.again = append(t.replaces, in), -1, false
		}
	}
	return t
}

// again reports whether a node computes the same whenever it runs.
func again(n *graph.Node) bool {
	o, err := n.Op()
	return err == nil && o.Pure(n.Call()) && len(n.Bodies()) == 0
}

// newSchedule is the order of the nodes of g, whose traits these are.
func newSchedule(g *graph.Graph, t *traits) *schedule {
	s := &schedule{graph: g, traits: map[*graph.Node]*trait{}, inputs: map[*graph.Value]int64{},
		names: map[string]int{}, taken: map[string]bool{}}
	for i, v := range g.Inputs {
		s.inputs[v] = t.inputs[i]
	}
	for i, n := range g.Nodes {
		s.traits[n], s.taken[n.Name] = t.nodes[i], true
		for _, v := range n.Out {
			if v != nil {
				s.taken[v.Name] = true
			}
		}
	}
	return s
}

// clone is a copy that shares nothing that changes with s.
func (s *schedule) clone() *schedule {
	t := &traits{}
	for _, v := range s.graph.Inputs {
		t.inputs = append(t.inputs, s.inputs[v])
	}
	for _, n := range s.graph.Nodes {
		t.nodes = append(t.nodes, s.traits[n])
	}
	c := newSchedule(s.graph.Clone(), t)
	c.names = maps.Clone(s.names)
	return c
}

// name is one for what is made again of a node or a value of this name.
func (s *schedule) name(of string) string {
	if of == "" {
		return ""
	}
	for {
		s.names[of]++
		if name := fmt.Sprintf("%s/again%d", of, s.names[of]); !s.taken[name] {
			return name
		}
	}
}

// survey finds from which node to which each value is alive, and how many bytes are at each node.
func (s *schedule) survey() {
	s.lives, s.index, s.replaced = s.lives[:0], map[*graph.Value]int{}, map[*graph.Value]int{}
	for _, v := range s.graph.Inputs {
		if bytes := s.inputs[v]; bytes >= 0 {
			s.add(v, bytes, -1)
		}
	}
	for i, n := range s.graph.Nodes {
		for _, v := range n.In {
			if x, ok := s.lifeOf(v); ok && s.lives[x].last < i {
				s.lives[x].readers, s.lives[x].last = append(s.lives[x].readers, i), i
			}
		}
		for _, k := range s.traits[n].replaces {
			s.replaced[n.In[k]] = i
		}
		s.make(i, n)
	}
	for _, v := range s.graph.Outputs {
		if x, ok := s.lifeOf(v); ok {
			s.lives[x].kept, s.lives[x].last = true, len(s.graph.Nodes)
		}
	}
	s.count()
}

// make adds the lives that begin with node i.
func (s *schedule) make(i int, n *graph.Node) {
	t := s.traits[n]
	for k, v := range n.Out {
		switch {
		case v == nil:
		case t.of[k] >= 0:
			if x, ok := s.lifeOf(n.In[t.of[k]]); ok {
				s.index[v] = x
			}
		case t.bytes[k] >= 0:
			s.add(v, t.bytes[k], i)
		}
	}
}

func (s *schedule) add(v *graph.Value, bytes int64, maker int) {
	s.index[v] = len(s.lives)
	s.lives = append(s.lives, life{bytes: alignUp(bytes), maker: maker, last: maker})
}

// count adds up what is alive at each node.
func (s *schedule) count() {
	change := make([]int64, len(s.graph.Nodes)+2) // from node to node, the inputs first
	for i := range s.lives {
		l := &s.lives[i]
		change[max(l.maker, 0)] += l.bytes
		change[min(l.last, len(s.graph.Nodes))+1] -= l.bytes
	}
	s.alive = make([]int64, max(len(s.graph.Nodes), 1))
	var sum int64
	for i, n := range s.graph.Nodes {
		sum += change[i]
		s.alive[i] = sum + alignUp(s.traits[n].scratch) - s.overwritten(i, n)
	}
}

// overwritten is how many bytes node i saves by writing over an input.
func (s *schedule) overwritten(i int, n *graph.Node) int64 {
	if len(n.Out) == 0 || n.Out[0] == nil {
		return 0
	}
	out, ok := s.lifeOf(n.Out[0])
	if !ok || s.lives[out].maker != i {
		return 0
	}
	for _, k := range s.traits[n].inPlace {
		x, ok := s.lifeOf(n.In[k])
		if ok && s.lives[x].last == i && s.lives[x].bytes == s.lives[out].bytes {
			return s.lives[x].bytes
		}
	}
	return 0
}

// lifeOf returns the life that a value belongs to, if it is in the arena.
func (s *schedule) lifeOf(v *graph.Value) (int, bool) {
	if v == nil {
		return 0, false
	}
	x, ok := s.index[v]
	return x, ok
}

// peak is the node at which most bytes are alive.
func (s *schedule) peak() int {
	at := 0
	for i, n := range s.alive {
		if n > s.alive[at] {
			at = i
		}
	}
	return at
}

// sweep removes nodes that nobody needs any more.
func (s *schedule) sweep() {
	used := map[*graph.Value]bool{}
	for _, v := range s.graph.Outputs {
		used[v] = true
	}
	nodes := s.graph.Nodes
	kept := len(nodes)
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		if again(n) && !slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return used[v] }) {
			continue
		}
		for _, v := range n.In {
			used[v] = true
		}
		kept--
		nodes[kept] = n
	}
	s.graph.Nodes = slices.Clone(nodes[kept:])
}

// reorder puts the nodes into another order, if less is alive at its peak: of those whose operands
// are there, one that frees more than it makes comes as soon as it can, all others as they came.
func (s *schedule) reorder() {
	s.survey()
	before, given := s.alive[s.peak()], s.graph.Nodes
	s.graph.Nodes = newReadiness(s).order()
	if len(s.graph.Nodes) < len(given) {
		panic("plan: an order lacks nodes")
	}
	if s.survey(); s.alive[s.peak()] >= before {
		s.graph.Nodes = given
	}
}

// readiness is what is left to be put in order.
type readiness struct {
	s       *schedule
	uses    map[*graph.Value][]*graph.Node
	waiting map[*graph.Node]int // operands that are not there yet, and nodes that must come before
	after   map[*graph.Node][]*graph.Node
	readers []int               // of each life, nodes that have not run
	place   map[*graph.Node]int // in the order that was given
	ready   []*graph.Node       // by place
}

func newReadiness(s *schedule) *readiness {
	r := &readiness{s: s, uses: s.graph.Uses(), waiting: map[*graph.Node]int{},
		after: map[*graph.Node][]*graph.Node{}, readers: make([]int, len(s.lives)),
		place: map[*graph.Node]int{}}
	r.lastOfReaders()
	for i, n := range s.graph.Nodes {
		r.place[n] = i
		for _, v := range n.In {
			if v != nil && v.Producer != nil {
				r.waiting[n]++
			}
			if x, ok := s.lifeOf(v); ok {
				r.readers[x]++
			}
		}
		if r.waiting[n] == 0 {
			r.ready = append(r.ready, n)
		}
	}
	for i := range s.lives {
		if s.lives[i].kept {
			r.readers[i]++
		}
	}
	return r
}

// lastOfReaders has what replaces a variable wait for all others that read it.
func (r *readiness) lastOfReaders() {
	for _, n := range r.s.graph.Nodes {
		for _, k := range r.s.traits[n].replaces {
			for _, u := range r.uses[n.In[k]] {
				if u != n {
					r.after[u] = append(r.after[u], n)
					r.waiting[n]++
				}
			}
		}
	}
}

// order takes the nodes one by one.
func (r *readiness) order() []*graph.Node {
	var out []*graph.Node
	for len(r.ready) > 0 {
		next, most := 0, int64(0)
		for i, n := range r.ready {
			if frees := r.frees(n); frees > most {
				next, most = i, frees
			}
		}
		n := r.ready[next]
		r.ready = slices.Delete(r.ready, next, next+1)
		out = append(out, n)
		r.run(n)
	}
	return out
}

// frees is how many bytes fewer are alive once node n has run.
func (r *readiness) frees(n *graph.Node) (bytes int64) {
	reads := map[int]int{}
	for _, v := range n.In {
		if x, ok := r.s.lifeOf(v); ok {
			reads[x]++
		}
	}
	for x, k := range reads {
		if r.readers[x] == k {
			bytes += r.s.lives[x].bytes
		}
	}
	for i, v := range n.Out {
		if x, ok := r.s.lifeOf(v); ok && r.s.traits[n].of[i] < 0 {
			bytes -= r.s.lives[x].bytes
		}
	}
	if bytes == 0 && r.overwrites(n, reads) {
		return 1 // what reads the result may free it
	}
	return bytes
}

// overwrites reports whether node n may write over an input that nobody reads after it, where it
// reads lives so many times.
func (r *readiness) overwrites(n *graph.Node, reads map[int]int) bool {
	return slices.ContainsFunc(r.s.traits[n].inPlace, func(k int) bool {
		x, ok := r.s.lifeOf(n.In[k])
		return ok && r.readers[x] == reads[x]
	})
}

// run notes that node n has run.
func (r *readiness) run(n *graph.Node) {
	for _, v := range n.In {
		if x, ok := r.s.lifeOf(v); ok {
			r.readers[x]--
		}
	}
	waited := r.after[n]
	for _, v := range n.Out {
		waited = append(waited, r.uses[v]...)
	}
	for _, u := range waited {
		if r.waiting[u]--; r.waiting[u] == 0 {
			at, _ := slices.BinarySearchFunc(r.ready, u, func(a, b *graph.Node) int {
				return r.place[a] - r.place[b]
			})
			r.ready = slices.Insert(r.ready, at, u)
		}
	}
}
