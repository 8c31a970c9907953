package place

import (
	"errors"
	"fmt"
	"math/rand"
)

// ErrNoRoom is the kind of error of a request that fits on no node now: errors.Is finds it.
var ErrNoRoom = errors.New("no room")

// ErrUnknown is the kind of error of a placement or a node that the cluster does not have.
var ErrUnknown = errors.New("unknown")

// Options are how a [Cluster] chooses.
type Options struct {
	Policy   Policy
	Workload Workload // what policies that measure fragmentation expect; see [Observe]
	Rand     *rand.Rand
	// Plain computes every score anew at every request, as the definition says, a thousand times
	// slower at thousands of nodes: the same choices, which tests hold the fast way against.
	Plain bool
}

// ID names a placement in its cluster. It is never used again.
type ID uint64

// Placement is what a request was given.
type Placement struct {
	ID      ID
	Node    int // index in the nodes that the cluster was made of
	Devices Set
}

// placed is what the cluster knows of a placement.
type placed struct {
	Request
	node int32
	set  Set
}

// Cluster is nodes, what is placed on them, and a policy. It is not to be used by several
// goroutines at a time.
type Cluster struct {
	policy Policy
	rand   *rand.Rand
	nodes  []*node
	models []string
	frags  *fragments
	index  *index // nil: plain
	byID   map[ID]placed
	last   ID
	units  int64 // of all devices of nodes that are up
	used   int64 // of them
	score  func(*node, *shape) int64
}

// NewCluster makes a cluster of nodes, which must not be changed after. The error names the node,
// the shape or the option that cannot be.
func NewCluster(nodes []Node, o Options) (*Cluster, error) {
	if len(nodes) > MaxNodes {
		return nil, fmt.Errorf("a cluster of %d nodes: %d are the most", len(nodes), MaxNodes)
	}
	if o.Policy.score == nil {
		return nil, fmt.Errorf("a cluster without a policy: take one of Policies")
	}
	if o.Policy.random && o.Rand == nil {
		return nil, fmt.Errorf("policy %s needs a source of random numbers", o.Policy.Name)
	}
	if err := o.Workload.check(); err != nil {
		return nil, err
	}
	c := &Cluster{policy: o.Policy, rand: o.Rand, byID: map[ID]placed{}}
	if err := c.add(nodes); err != nil {
		return nil, err
	}
	c.frags = newFragments(o.Workload, c.models)
	c.score = func(n *node, s *shape) int64 {
		score, _ := c.policy.score(c.frags, n, s)
		return score
	}
	if !o.Plain {
		c.frags.memo = newMemo(c.frags)
		c.index = newIndex(c.nodes)
	}
	return c, nil
}

// add takes in the nodes that a cluster is made of.
func (c *Cluster) add(nodes []Node) error {
	names, models := map[string]bool{}, map[string]int32{}
	for i := range nodes {
		n := &nodes[i]
		if err := n.Check(); err != nil {
			return err
		}
		if names[n.Name] {
			return fmt.Errorf("two nodes are named %q", n.Name)
		}
		names[n.Name] = true
		m, ok := models[n.Model]
		if !ok {
			m = int32(len(c.models))
			models[n.Model], c.models = m, append(c.models, n.Model)
		}
		c.nodes = append(c.nodes, newNode(n, m))
		c.units += int64(len(n.Devices)) * Whole
	}
	return nil
}

// Place gives a request a node and devices, as the policy chooses, and keeps them until
// [Cluster.Release]. The error is of kind [ErrNoRoom] where no node has what is asked for; it says
// what is wanting, and is costly to read: see [Cluster.Why].
func (c *Cluster) Place(r Request) (Placement, error) {
	if err := r.Check(); err != nil {
		return Placement{}, err
	}
	s := c.shape(r)
	i, set := c.choose(s)
	if i < 0 {
		return Placement{}, &NoRoom{Request: r, cluster: c}
	}
	return c.bind(s, i, set)
}

// Bind gives a request devices of a node that somebody else has chosen. It refuses with [ErrNoRoom]
// what is not free, and then nothing has changed.
func (c *Cluster) Bind(r Request, node int, devices Set) (Placement, error) {
	if err := r.Check(); err != nil {
		return Placement{}, err
	}
	if node < 0 || node >= len(c.nodes) {
		return Placement{}, fmt.Errorf("%w: node %d of %d", ErrUnknown, node, len(c.nodes))
	}
	return c.bind(c.shape(r), node, devices)
}

// bind takes what was chosen.
func (c *Cluster) bind(s *shape, i int, set Set) (Placement, error) {
	n := c.nodes[i]
	if !n.take(&s.Request, set) {
		return Placement{}, fmt.Errorf("%w: node %q does not have devices %v of it free, or the "+
			"CPU or memory", ErrNoRoom, n.spec.Name, set.Indices())
	}
	c.changed(i)
	c.used += s.TotalUnits()
	c.last++
	c.byID[c.last] = placed{s.Request, int32(i), set}
	return Placement{c.last, i, set}, nil
}

// changed tells the index of a node that changed.
func (c *Cluster) changed(i int) {
	if c.index == nil {
		return
	}
	c.index.touch(i)
	if m := c.frags.memo; m.full() {
		m.drop()
		for _, n := range c.nodes {
			n.class = nil
		}
	}
}

// shape returns what is known of a request's shape.
func (c *Cluster) shape(r Request) *shape {
	if c.index == nil {
		return newShape(r, c.models)
	}
	s := c.index.shapes[r]
	if s == nil {
		s = newShape(r, c.models)
		c.index.shapes[r] = s
	}
	return s
}

// choose returns where the policy would place a shape, or -1.
func (c *Cluster) choose(s *shape) (int, Set) {
	if c.policy.random {
		return c.chooseRandom(s)
	}
	i := -1
	if c.index != nil {
		i = c.index.best(s, c.score)
	} else {
		i = c.plainBestOf(s, nil)
	}
	if i < 0 {
		return -1, 0
	}
	_, set := c.policy.score(c.frags, c.nodes[i], s)
	return i, set
}

// chooseRandom draws a node among those that fit and then, for a part of a device, a device.
func (c *Cluster) chooseRandom(s *shape) (int, Set) {
	var fit []int
	if c.index != nil {
		c.index.best(s, c.score)
		c.index.fitting(s, func(i int) bool { fit = append(fit, i); return true })
	} else {
		for i, n := range c.nodes {
			if n.fits(s) {
				fit = append(fit, i)
			}
		}
	}
	if len(fit) == 0 {
		return -1, 0
	}
	i := fit[c.rand.Intn(len(fit))]
	n := c.nodes[i]
	if !s.Share() {
		return i, devices(n, s)
	}
	var set Set
	for j, met := 0, 0; j < len(n.free); j++ {
		if n.free[j].holds(&s.Request) {
			if met++; c.rand.Intn(met) == 0 {
				set = 1 << j
			}
		}
	}
	return i, set
}

// Release gives back what a placement has. It fails with [ErrUnknown] for one that is not, or no
// longer, there.
func (c *Cluster) Release(id ID) error {
	p, ok := c.byID[id]
	if !ok {
		return fmt.Errorf("%w: placement %d", ErrUnknown, id)
	}
	delete(c.byID, id)
	c.nodes[p.node].give(&p.Request, p.set)
	c.used -= p.TotalUnits()
	c.changed(int(p.node))
	return nil
}

// Lose takes a node away with all that is placed on it, whose IDs it returns in rising order.
func (c *Cluster) Lose(node int) ([]ID, error) {
	if node < 0 || node >= len(c.nodes) || !c.nodes[node].up {
		return nil, fmt.Errorf("%w: node %d is not up", ErrUnknown, node)
	}
	var lost []ID
	for id, p := range c.byID {
		if int(p.node) == node {
			lost = append(lost, id)
			c.used -= p.TotalUnits()
			delete(c.byID, id)
		}
	}
	sortIDs(lost)
	n := c.nodes[node]
	n.up = false
	n.clear()
	c.units -= int64(len(n.free)) * Whole
	c.changed(node)
	return lost, nil
}

// Return brings a node back that was lost, with nothing placed on it.
func (c *Cluster) Return(node int) error {
	if node < 0 || node >= len(c.nodes) || c.nodes[node].up {
		return fmt.Errorf("%w: node %d was not lost", ErrUnknown, node)
	}
	c.nodes[node].up = true
	c.units += int64(len(c.nodes[node].free)) * Whole
	c.changed(node)
	return nil
}

// Gang places all of some requests, in their order, or none: then the error is of the first that
// did not fit and nothing has changed, but for numbers drawn by a random policy.
func (c *Cluster) Gang(requests []Request) ([]Placement, error) {
	all := make([]Placement, 0, len(requests))
	for i, r := range requests {
		p, err := c.Place(r)
		if err != nil {
			for _, q := range all {
				if err := c.Release(q.ID); err != nil {
					return nil, err
				}
			}
			return nil, fmt.Errorf("member %d of a gang of %d: %w", i, len(requests), err)
		}
		all = append(all, p)
	}
	return all, nil
}

// Units returns the compute units of all devices of nodes that are up, and how many of them are
// taken.
func (c *Cluster) Units() (all, used int64) { return c.units, c.used }

// Fragmented returns how many of the units that are free the typical workload could not use, on
// average: see [Workload].
func (c *Cluster) Fragmented() float64 {
	var sum int64
	for _, n := range c.nodes {
		if n.up {
			sum += c.frags.of(n)
		}
	}
	return float64(sum) / float64(max(1, c.frags.weight))
}

// Free returns what is free of a node: CPU, memory and the units of each device.
func (c *Cluster) Free(node int) (cpu, memory int64, units []int) {
	n := c.nodes[node]
	for _, f := range n.free {
		units = append(units, int(f.units))
	}
	return n.cpu, n.mem, units
}
