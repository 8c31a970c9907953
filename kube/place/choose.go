package place

import "fmt"

// Choose returns the node and devices that [Cluster.Place] would give a request, among the nodes
// for which allow reports true, and gives nothing; a nil allow leaves no node out. The error is of
// kind [ErrNoRoom] where none of them has what is asked for. The policy random is refused: its
// choice is drawn, and drawn again by who places.
func (c *Cluster) Choose(r Request, allow func(node int) bool) (int, Set, error) {
	if err := c.askable(&r); err != nil {
		return -1, 0, err
	}
	s := c.shape(r)
	i := -1
	if c.index != nil {
		i = c.index.bestOf(s, c.score, allow)
	} else {
		i = c.plainBestOf(s, allow)
	}
	if i < 0 {
		return -1, 0, &NoRoom{Request: r, cluster: c, allow: allow}
	}
	_, set := c.policy.score(c.frags, c.nodes[i], s)
	return i, set, nil
}

// Score returns how good a node is for a request now, more is better, and with which devices; ok is
// false where it does not fit. Of nodes that score alike the one with the lowest index is better.
func (c *Cluster) Score(r Request, node int) (score int64, devices Set, ok bool) {
	if c.askable(&r) != nil || node < 0 || node >= len(c.nodes) {
		return 0, 0, false
	}
	s, n := c.shape(r), c.nodes[node]
	if !n.fits(s) {
		return 0, 0, false
	}
	score, devices = c.policy.score(c.frags, n, s)
	return score, devices, true
}

// askable reports what keeps a request from being chosen for.
func (c *Cluster) askable(r *Request) error {
	if c.policy.random {
		return fmt.Errorf("policy %s chooses by drawing: nothing can be foretold of it",
			c.policy.Name)
	}
	return r.Check()
}

// Close has a node take nothing new by the policy, or take it again; what is on it stays, and
// [Cluster.Bind] still gives of it what is free. It fails with [ErrUnknown] for a node that is not.
func (c *Cluster) Close(node int, closed bool) error {
	if node < 0 || node >= len(c.nodes) {
		return fmt.Errorf("%w: node %d of %d", ErrUnknown, node, len(c.nodes))
	}
	if c.nodes[node].closed != closed {
		c.nodes[node].closed = closed
		c.changed(node)
	}
	return nil
}

// plainBestOf is the definition of a choice among some nodes: the highest score, the first of
// equals.
func (c *Cluster) plainBestOf(s *shape, allow func(int) bool) int {
	best, score := -1, int64(-1)
	for i, n := range c.nodes {
		if !n.fits(s) || allow != nil && !allow(i) {
			continue
		}
		if v, _ := c.policy.score(c.frags, n, s); v > score {
			best, score = i, v
		}
	}
	return best
}

// bestOf is best among the nodes that are allowed. It asks about those alone that score better than
// the best allowed one found before.
func (x *index) bestOf(s *shape, score func(*node, *shape) int64, allow func(int) bool) int {
	first := x.best(s, score)
	if first < 0 || allow == nil || allow(first) {
		return first
	}
	found := uint64(0)
	var down func(at int)
	down = func(at int) {
		switch {
		case s.tree[at] <= found:
		case at >= len(x.nodes):
			if allow(at - len(x.nodes)) {
				found = s.tree[at]
			}
		case s.tree[2*at] > s.tree[2*at+1]:
			down(2 * at)
			down(2*at + 1)
		default:
			down(2*at + 1)
			down(2 * at)
		}
	}
	down(1)
	if found == 0 {
		return -1
	}
	return MaxNodes - 1 - int(found&(MaxNodes-1))
}
