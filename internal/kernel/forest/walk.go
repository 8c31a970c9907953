package forest

// How the weights of several trees for one output become one.
type How int

// The ways.
const (
	Sum How = iota
	Min
	Max
)

// Scores walks every tree with each row of x, which has that many features a row, and aggregates
// the weights of the leaves: scores has f.Outputs elements a row, and has, which may be nil for a
// sum, tells which of them any leaf has given. Weights are taken in the order of the trees, so that
// sums are rounded as by one loop over the trees.
func (f *Forest[T]) Scores(scores []T, has []bool, x []T, features int, how How) {
	clear(scores)
	clear(has)
	rows := len(scores) / f.Outputs
	if !f.plain || f.nanYes && hasNaN(x) {
		for r := range rows {
			row := x[r*features : (r+1)*features]
			for t := range f.roots {
				f.add(scores, has, r, f.walk(f.roots[t], row), how)
			}
		}
		return
	}
	if rows >= lanes {
		f.byRows(scores, has, x, features, how)
	} else {
		f.byTrees(scores, has, x, features, how)
	}
}

func hasNaN[T Float](x []T) bool {
	for _, v := range x {
		if v != v {
			return true
		}
	}
	return false
}

// lanes is how many walks go on at a time.
const lanes = 4

// byRows walks one tree after the other, with several rows at a time.
func (f *Forest[T]) byRows(scores []T, has []bool, x []T, features int, how How) {
	rows := len(scores) / f.Outputs
	var at [lanes]int32
	var xs [lanes][]T
	for t, root := range f.roots {
		for r := 0; r < rows; r += lanes {
			n := min(lanes, rows-r)
			for k := range lanes {
				row := r + min(k, n-1)
				at[k], xs[k] = root, x[row*features:(row+1)*features]
			}
			walk4(f.nodes, &xs, &at, int(f.depth[t]))
			for k := range n {
				f.add(scores, has, r+k, at[k], how)
			}
		}
	}
}

// byTrees walks one row after the other, several trees at a time.
func (f *Forest[T]) byTrees(scores []T, has []bool, x []T, features int, how How) {
	rows := len(scores) / f.Outputs
	var at [lanes]int32
	var xs [lanes][]T
	for r := range rows {
		for k := range lanes {
			xs[k] = x[r*features : (r+1)*features]
		}
		for t := 0; t < len(f.roots); t += lanes {
			n := min(lanes, len(f.roots)-t)
			depth := int32(0)
			for k := range lanes {
				tree := t + min(k, n-1)
				at[k], depth = f.roots[tree], max(depth, f.depth[tree])
			}
			walk4(f.nodes, &xs, &at, int(depth))
			for k := range n {
				f.add(scores, has, r, at[k], how)
			}
		}
	}
}

// stride is after how many steps walks that have all ended early are noticed.
const stride = 6

// walk4 walks four trees of comparisons of order at a time. A walk that has reached its leaf stays
// there.
func walk4[T Float](nodes []Node[T], x *[lanes][]T, at *[lanes]int32, depth int) {
	a, b, c, d := at[0], at[1], at[2], at[3]
	xa, xb, xc, xd := x[0], x[1], x[2], x[3]
	for depth > 0 {
		for range min(depth, stride) {
			na, nb, nc, nd := &nodes[a], &nodes[b], &nodes[c], &nodes[d]
			a = na.next[bit(xa[na.feature] <= na.value)&1]
			b = nb.next[bit(xb[nb.feature] <= nb.value)&1]
			c = nc.next[bit(xc[nc.feature] <= nc.value)&1]
			d = nd.next[bit(xd[nd.feature] <= nd.value)&1]
		}
		depth -= stride
		if nodes[a].next[0] == a && nodes[b].next[0] == b && nodes[c].next[0] == c &&
			nodes[d].next[0] == d {
			break
		}
	}
	at[0], at[1], at[2], at[3] = a, b, c, d
}

// bit is 1 for true; the compiler makes an instruction of it that does not branch.
func bit(b bool) (n uint8) {
	if b {
		n = 1
	}
	return n
}

// walk walks one tree of any comparisons and returns the leaf.
func (f *Forest[T]) walk(at int32, x []T) int32 {
	for {
		r := f.rules[at]
		if r == ruleLeaf {
			return at
		}
		n := &f.nodes[at]
		v := x[n.feature]
		var yes bool
		switch {
		case v != v:
			yes = r&ruleNaNYes != 0
		case r&ruleKinds == ruleOrder:
			yes = v <= n.value
		case r&ruleKinds == ruleEqual:
			yes = v == n.value
		default:
			yes = contains(f.set(int(n.value)), v)
		}
		at = n.next[bit(yes)&1]
	}
}

// set returns a set, sorted.
func (f *Forest[T]) set(i int) []T {
	from := int32(0)
	if i > 0 {
		from = f.setEnds[i-1]
	}
	return f.members[from:f.setEnds[i]]
}

// contains finds v in a sorted set.
func contains[T Float](set []T, v T) bool {
	low, high := 0, len(set)
	for low < high {
		if mid := int(uint(low+high) >> 1); set[mid] < v {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low < len(set) && set[low] == v
}

// add gives the weights of a leaf to a row.
func (f *Forest[T]) add(scores []T, has []bool, row int, leaf int32, how How) {
	if how == Sum && f.single != nil && has == nil {
		scores[row] += f.single[leaf]
		return
	}
	for w := f.first[leaf]; w < f.first[leaf+1]; w++ {
		i := row*f.Outputs + int(f.outputs[w])
		v := f.values[w]
		switch {
		case how == Sum:
			scores[i] += v
		case !has[i] || how == Min && v < scores[i] || how == Max && v > scores[i]:
			scores[i] = v
		}
		if has != nil {
			has[i] = true
		}
	}
}
