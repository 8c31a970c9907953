package forest

// Layout says what a forest's memory holds. It is comparable, small, and all that is needed to find
// a packed forest again.
type Layout struct {
	Outputs                             int
	nodes, weights, roots, sets, member int
	single, plain, nanYes               bool
}

// Layout returns that of f.
func (f *Forest[T]) Layout() Layout {
	return Layout{Outputs: f.Outputs, nodes: len(f.nodes), weights: len(f.values),
		roots: len(f.roots), sets: len(f.setEnds),
		member: len(f.members), single: f.single != nil, plain: f.plain, nanYes: f.nanYes}
}

// Bytes returns the memory that a forest of that layout takes.
func Bytes[T Float](l Layout) int {
	_, n := at[T](l, nil)
	return n
}

// Pack writes f to dst, which has Bytes(f.Layout()) bytes and is aligned to 8.
func (f *Forest[T]) Pack(dst []byte) {
	g, _ := at[T](f.Layout(), dst)
	copy(g.nodes, f.nodes)
	copy(g.values, f.values)
	copy(g.single, f.single)
	copy(g.members, f.members)
	copy(g.first, f.first)
	copy(g.outputs, f.outputs)
	copy(g.roots, f.roots)
	copy(g.depth, f.depth)
	copy(g.setEnds, f.setEnds)
	copy(g.rules, f.rules)
}

// At returns the forest that Pack has written. It reads src as long as it lives.
func At[T Float](l Layout, src []byte) *Forest[T] {
	f, _ := at[T](l, src)
	return f
}

// at cuts memory into the arrays of a forest and returns how much it takes; without memory it only
// counts.
func at[T Float](l Layout, b []byte) (*Forest[T], int) {
	f := &Forest[T]{Outputs: l.Outputs, plain: l.plain, nanYes: l.nanYes}
	c := cutter{b: b}
	single := 0
	if l.single {
		single = l.nodes
	}
	f.nodes = cut[Node[T]](&c, l.nodes)
	f.values = cut[T](&c, l.weights)
	f.single = cut[T](&c, single)
	f.members = cut[T](&c, l.member)
	f.first = cut[int32](&c, l.nodes+1)
	f.outputs = cut[int32](&c, l.weights)
	f.roots = cut[int32](&c, l.roots)
	f.depth = cut[int32](&c, l.roots)
	f.setEnds = cut[int32](&c, l.sets)
	f.rules = cut[rule](&c, l.nodes)
	return f, c.used
}

// cutter hands out parts of memory, each aligned to 8.
type cutter struct {
	b    []byte
	used int
}

func cut[E any](c *cutter, n int) []E {
	from := c.used
	c.used += (n*sizeOf[E]() + 7) &^ 7
	if c.b == nil {
		return nil
	}
	return view[E](c.b[from:c.used], n)
}
