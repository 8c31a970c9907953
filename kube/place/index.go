package place

// index keeps, for each shape that is asked for, the scores of all nodes, and which of them wins.
//
// A placement changes one node, but its score for every shape. Nothing is computed then: the nodes
// are in a list by when they last changed, and a shape that is asked for again catches up with
// those that changed since it last was, each once however often it changed. Scores are the leaves
// of a tree whose inner nodes are the better of two: a change goes up as far as it makes a
// difference, and the winner is the root.
type index struct {
	nodes  []*node
	shapes map[Request]*shape
	most   int    // how many shapes keep a tree
	clock  uint64 // of changes
	uses   uint64
	oldest int32
	newest int32
}

// maxShapes bounds how many shapes keep a tree of 16 bytes a node. Of more, those asked for longest
// ago lose theirs, and compute all scores when they come again.
const maxShapes = 512

// placeBits is how many bits of a leaf say which node it is of: as many as MaxNodes needs.
const placeBits = 20

func newIndex(nodes []*node) *index {
	x := &index{nodes: nodes, shapes: map[Request]*shape{}, most: maxShapes, oldest: -1, newest: -1}
	for i := range nodes {
		nodes[i].prev, nodes[i].next = int32(i)-1, int32(i)+1
	}
	if len(nodes) > 0 {
		nodes[len(nodes)-1].next = -1
		x.oldest, x.newest = 0, int32(len(nodes))-1
	}
	return x
}

// touch notes that a node has changed.
func (x *index) touch(i int) {
	n := x.nodes[i]
	x.clock++
	n.changed = x.clock
	if x.newest == int32(i) {
		return
	}
	if n.prev >= 0 {
		x.nodes[n.prev].next = n.next
	} else {
		x.oldest = n.next
	}
	x.nodes[n.next].prev = n.prev
	n.prev, n.next = x.newest, -1
	x.nodes[x.newest].next = int32(i)
	x.newest = int32(i)
}

// leaf is a score and whose it is as one number: higher is better, 0 for a node that does not fit.
func leaf(score int64, i int) uint64 {
	return uint64(score+1)<<placeBits | uint64(MaxNodes-1-i)
}

// best returns the node that wins for a shape, or -1 where none fits.
func (x *index) best(s *shape, score func(*node, *shape) int64) int {
	x.uses++
	s.used = x.uses
	if s.tree == nil {
		x.build(s, score)
	} else {
		x.catchUp(s, score)
	}
	if len(s.tree) < 2 || s.tree[1] == 0 {
		return -1
	}
	return MaxNodes - 1 - int(s.tree[1]&(MaxNodes-1))
}

// build computes all scores of a shape.
func (x *index) build(s *shape, score func(*node, *shape) int64) {
	x.makeRoom()
	s.tree = make([]uint64, max(2, 2*len(x.nodes)))
	for i, n := range x.nodes {
		s.tree[len(x.nodes)+i] = x.leafOf(n, i, s, score)
	}
	if len(x.nodes) == 1 {
		return // the leaf is the root
	}
	for i := len(x.nodes) - 1; i > 0; i-- {
		s.tree[i] = max(s.tree[2*i], s.tree[2*i+1])
	}
	s.at = x.clock
}

// makeRoom takes the tree of the shape that was asked for longest ago, if too many have one.
func (x *index) makeRoom() {
	var old *shape
	trees := 0
	for _, s := range x.shapes {
		if s.tree != nil {
			trees++
			if old == nil || s.used < old.used {
				old = s
			}
		}
	}
	if trees >= x.most {
		delete(x.shapes, old.Request)
	}
}

func (x *index) leafOf(n *node, i int, s *shape, score func(*node, *shape) int64) uint64 {
	if !n.fits(s) {
		return 0
	}
	return leaf(score(n, s), i)
}

// catchUp computes the scores of the nodes that changed since the shape was asked for.
func (x *index) catchUp(s *shape, score func(*node, *shape) int64) {
	for i := x.newest; i >= 0 && x.nodes[i].changed > s.at; i = x.nodes[i].prev {
		at := len(x.nodes) + int(i)
		l := x.leafOf(x.nodes[i], int(i), s, score)
		for s.tree[at] != l {
			s.tree[at] = l
			if at == 1 {
				break
			}
			l = max(l, s.tree[at^1])
			at /= 2
		}
	}
	s.at = x.clock
}

// fitting calls back with the nodes that fit, in their order, as the tree of a shape has them.
func (x *index) fitting(s *shape, f func(i int) bool) {
	for i := range x.nodes {
		if s.tree[len(x.nodes)+i] != 0 && !f(i) {
			return
		}
	}
}
