package admit

import "time"

// never is a deadline that is not there. Sums with it stay numbers.
const never = time.Duration(1 << 62)

// plan is the batches to come in their order, as a treap (Seidel and Aragon, "Randomized search
// trees", 1996) whose nodes sum up what lies below them. Of every subtree it is known how much work
// it is and how late it may begin with all of it on time, so that the question whether a batch may
// be put in, or grow, is answered in logarithmic time.
type plan struct {
	root *batch
	last uint64 // number of the newest batch
}

// node is a batch's place in the plan.
type node struct {
	left, right *batch
	number      uint64        // breaks ties, and draws the heap's order
	in          bool          // whether it is in the plan
	work        time.Duration // of the subtree
	latest      time.Duration // when the subtree may begin at the latest
	soonest     time.Duration // when the first of the subtree is ready
}

// before orders batches.
func (b *batch) before(key time.Duration, number uint64) bool {
	return b.key < key || b.key == key && b.number < number
}

// weight is the batch's place in the heap: a mix of its number (Steele, Lea and Flood, "Fast
// splittable pseudorandom number generators", 2014).
func (b *batch) weight() uint64 {
	z := b.number * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// pull sums the subtree up.
func (b *batch) pull() {
	b.work, b.latest, b.soonest = b.time, b.due-b.time, b.ready
	if l := b.left; l != nil {
		b.latest = min(l.latest, b.latest-l.work)
		b.work += l.work
		b.soonest = min(b.soonest, l.soonest)
	}
	if r := b.right; r != nil {
		b.latest = min(b.latest, r.latest-b.work)
		b.work += r.work
		b.soonest = min(b.soonest, r.soonest)
	}
}

// insert puts a batch in at its key.
func (p *plan) insert(b *batch) {
	b.in, b.left, b.right = true, nil, nil
	p.root = insert(p.root, b)
}

func insert(t, b *batch) *batch {
	if t == nil || b.weight() > t.weight() {
		b.left, b.right = split(t, b)
		b.pull()
		return b
	}
	if t.before(b.key, b.number) {
		t.right = insert(t.right, b)
	} else {
		t.left = insert(t.left, b)
	}
	t.pull()
	return t
}

// split parts a tree into what goes before b and what goes after.
func split(t, b *batch) (l, r *batch) {
	switch {
	case t == nil:
		return nil, nil
	case t.before(b.key, b.number):
		t.right, r = split(t.right, b)
		l = t
	default:
		l, t.left = split(t.left, b)
		r = t
	}
	t.pull()
	return l, r
}

// remove takes a batch out; its key must be what it was when it was put in.
func (p *plan) remove(b *batch) {
	p.root = remove(p.root, b)
	b.in, b.left, b.right = false, nil, nil
}

func remove(t, b *batch) *batch {
	switch {
	case t == b:
		return merge(b.left, b.right)
	case t.before(b.key, b.number):
		t.right = remove(t.right, b)
	default:
		t.left = remove(t.left, b)
	}
	t.pull()
	return t
}

func merge(l, r *batch) *batch {
	switch {
	case l == nil:
		return r
	case r == nil:
		return l
	case l.weight() > r.weight():
		l.right = merge(l.right, r)
		l.pull()
		return l
	}
	r.left = merge(l, r.left)
	r.pull()
	return r
}

// update sums up again after a change of b that leaves its key.
func (p *plan) update(b *batch) { update(p.root, b) }

func update(t, b *batch) {
	switch {
	case t == b:
	case t.before(b.key, b.number):
		update(t.right, b)
	default:
		update(t.left, b)
	}
	t.pull()
}

// ahead is the work that goes before a key and number.
func (p *plan) ahead(key time.Duration, number uint64) (work time.Duration) {
	for t := p.root; t != nil; {
		if !t.before(key, number) {
			t = t.left
			continue
		}
		if t.left != nil {
			work += t.left.work
		}
		work += t.time
		t = t.right
	}
	return work
}

// fits reports whether all are on time if the plan begins at start.
func (p *plan) fits(start time.Duration) bool { return p.root == nil || start <= p.root.latest }

// late returns the first batch that is not on time if the plan begins at start, and when it would
// be done; the plan must not fit.
func (p *plan) late(start time.Duration) (b *batch, done time.Duration) {
	for t := p.root; ; {
		if t.left != nil {
			if t.left.latest < start {
				t = t.left
				continue
			}
			start += t.left.work
		}
		if start += t.time; start > t.due {
			return t, start
		}
		t = t.right
	}
}

// ready returns the first batch that is ready, nil if none is.
func (p *plan) ready(now time.Duration) *batch {
	t := p.root
	for t != nil && t.soonest <= now {
		switch {
		case t.left != nil && t.left.soonest <= now:
			t = t.left
		case t.ready <= now:
			return t
		default:
			t = t.right
		}
	}
	return nil
}

// first returns the first batch of a plan that is not empty.
func (p *plan) first() *batch {
	t := p.root
	for t.left != nil {
		t = t.left
	}
	return t
}
