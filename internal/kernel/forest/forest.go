package forest

import (
	"math"
	"slices"
)

// Float are the types of features, values and sums.
type Float interface{ float32 | float64 }

// Kind is how a node compares its feature x with its value v.
type Kind uint8

// The comparisons.
const (
	LessEqual Kind = iota
	Less
	GreaterEqual
	Greater
	Equal
	NotEqual
	Member // x is one of the set with the number v
	Leaf   // no comparison
)

// Split is a node as models have it.
type Split struct {
	Kind        Kind
	MissingTrue bool // NaN goes to Yes whatever the comparison says
	Feature     int32
	// Yes and No are the nodes that follow; at a leaf, its weights are those from Yes up to No.
	Yes, No int32
	Value   float64
}

// Weight is what a leaf adds to one output.
type Weight struct {
	Output int32
	Value  float64
}

// MaxSets bounds the sets of a Forest[float32], whose nodes name theirs in a float32.
const MaxSets = 1 << 24

// Model is an ensemble as models have it. Values of a Forest[float32] must be representable in
// float32, and Sets at most MaxSets.
type Model struct {
	Splits  []Split
	Weights []Weight
	Sets    [][]float64
	Roots   []int32
	Outputs int
}

// Node is one node as it is walked. A leaf leads to itself.
type Node[T Float] struct {
	value   T
	feature int32
	// where the comparison does not hold, and where it does: an index and no branch to mispredict
	next [2]int32
}

// rule is what is to know of a node besides the comparison x <= value.
type rule uint8

const (
	ruleOrder  rule = iota // x <= value
	ruleEqual              // x == value
	ruleMember             // x is in set value
	ruleKinds  = 3         // mask of the above
	ruleNaNYes = 4         // NaN goes to yes
	ruleLeaf   = 8
)

// Forest is an ensemble ready to be walked. It is immutable once [New] has made it; [Forest.Pack]
// and [At] move it to other memory.
type Forest[T Float] struct {
	Outputs int
	nodes   []Node[T]
	rules   []rule
	// of each node the index of its first weight; a leaf's end where the next node's begin
	first   []int32
	outputs []int32 // of each weight
	values  []T     // of each weight
	single  []T     // see singles
	members []T     // of the sets one after the other, each sorted
	setEnds []int32 // of each set
	roots   []int32
	depth   []int32 // of each root, steps to its deepest leaf
	plain   bool    // all comparisons are of order
	nanYes  bool    // some node sends NaN to yes
}

// New makes a forest. Nodes are laid out in the order of a walk, each tree for itself, so that the
// first steps of a walk share cache lines.
func New[T Float](m *Model) *Forest[T] {
	f := &Forest[T]{Outputs: m.Outputs, plain: true}
	place := f.layOut(m)
	for _, set := range m.Sets {
		from := len(f.members)
		for _, v := range set {
			f.members = append(f.members, T(v))
		}
		slices.Sort(f.members[from:])
		f.setEnds = append(f.setEnds, int32(len(f.members)))
	}
	for _, r := range m.Roots {
		f.roots = append(f.roots, place[r])
	}
	f.measure()
	f.single = f.singles()
	return f
}

// singles returns the weight of each node when the forest has one output and no leaf gives it more
// than one, else nil.
func (f *Forest[T]) singles() []T {
	if f.Outputs != 1 {
		return nil
	}
	s := make([]T, len(f.nodes))
	for i := range s {
		switch w := f.values[f.first[i]:f.first[i+1]]; len(w) {
		case 0:
		case 1:
			s[i] = w[0]
		default:
			return nil
		}
	}
	return s
}

// layOut fills the nodes that roots lead to, and returns where each split has come to lie.
func (f *Forest[T]) layOut(m *Model) (place []int32) {
	place = make([]int32, len(m.Splits))
	var order, way []int32
	seen := make([]bool, len(m.Splits))
	for _, root := range m.Roots {
		way = append(way, root)
		for len(way) > 0 {
			at := way[len(way)-1]
			way = way[:len(way)-1]
			if seen[at] {
				continue
			}
			seen[at] = true
			place[at] = int32(len(order))
			order = append(order, at)
			if s := &m.Splits[at]; s.Kind != Leaf {
				way = append(way, s.No, s.Yes)
			}
		}
	}
	f.nodes, f.rules = make([]Node[T], len(order)), make([]rule, len(order))
	f.first = make([]int32, len(order)+1)
	for i, at := range order {
		s := m.Splits[at]
		f.first[i] = int32(len(f.values))
		if s.Kind == Leaf {
			for _, w := range m.Weights[s.Yes:s.No] {
				f.outputs, f.values = append(f.outputs, w.Output), append(f.values, T(w.Value))
			}
			s.Yes, s.No, f.rules[i] = int32(i), int32(i), ruleLeaf
			f.nodes[i] = Node[T]{next: [2]int32{s.No, s.Yes}}
			continue
		}
		s.Yes, s.No = place[s.Yes], place[s.No]
		f.nodes[i], f.rules[i] = normal[T](s)
		f.plain = f.plain && f.rules[i]&ruleKinds == ruleOrder
		f.nanYes = f.nanYes || f.rules[i]&ruleNaNYes != 0
	}
	f.first[len(order)] = int32(len(f.values))
	return place
}

// normal expresses a comparison by x <= value, x == value or membership.
func normal[T Float](s Split) (Node[T], rule) {
	v := T(s.Value)
	exchange := false
	kind := ruleOrder
	nanYes := s.MissingTrue
	switch s.Kind {
	case Less:
		v = below(v)
	case GreaterEqual:
		v, exchange = below(v), v == v
	case Greater:
		exchange = v == v
	case Equal:
		kind = ruleEqual
	case NotEqual: // which holds for NaN
		kind, exchange, nanYes = ruleEqual, true, true
	case Member:
		kind = ruleMember
	}
	n := Node[T]{value: v, feature: s.Feature, next: [2]int32{s.No, s.Yes}}
	if exchange {
		n.next[0], n.next[1], nanYes = n.next[1], n.next[0], !nanYes
	}
	if nanYes {
		kind |= ruleNaNYes
	}
	return n, kind
}

// below returns the next value below v: x < v is x <= below(v). Nothing is below -Inf, and nothing
// is <= NaN.
func below[T Float](v T) T {
	if v == T(math.Inf(-1)) {
		return T(math.NaN())
	}
	switch p := any(&v).(type) {
	case *float32:
		*p = math.Nextafter32(*p, float32(math.Inf(-1)))
	case *float64:
		*p = math.Nextafter(*p, math.Inf(-1))
	}
	return v
}

// measure sets the depth of each root.
func (f *Forest[T]) measure() {
	depth := make([]int32, len(f.nodes))
	for i := range depth {
		depth[i] = -1
	}
	var way []int32
	for _, root := range f.roots {
		way = append(way, root)
		for len(way) > 0 {
			at := way[len(way)-1]
			n := &f.nodes[at]
			switch {
			case depth[at] >= 0:
			case f.rules[at] == ruleLeaf:
				depth[at] = 0
			case depth[n.next[1]] < 0:
				way = append(way, n.next[1])
				continue
			case depth[n.next[0]] < 0:
				way = append(way, n.next[0])
				continue
			default:
				depth[at] = 1 + max(depth[n.next[0]], depth[n.next[1]])
			}
			way = way[:len(way)-1]
		}
		f.depth = append(f.depth, depth[root])
	}
}

// Steps returns the sum of the depths of the trees: a bound on the nodes that one row meets.
func (f *Forest[T]) Steps() int {
	n := 0
	for _, d := range f.depth {
		n += int(d)
	}
	return n
}

// Trees returns the number of trees.
func (f *Forest[T]) Trees() int { return len(f.roots) }
