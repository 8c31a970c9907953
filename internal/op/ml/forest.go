package ml

import (
	"math"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// TreeMode is the comparison of a tree's node, numbered as TreeEnsemble version 5 numbers them.
type TreeMode uint8

// The comparisons of a feature with the node's value, and leaves, which have none.
const (
	BranchLEQ TreeMode = iota
	BranchLT
	BranchGTE
	BranchGT
	BranchEQ
	BranchNEQ
	BranchMember // the feature is one of a set
	TreeLeaf
)

// treeModes are the names that versions 1 and 3 have for the comparisons.
var treeModes = map[string]TreeMode{"BRANCH_LEQ": BranchLEQ, "BRANCH_LT": BranchLT,
	"BRANCH_GTE": BranchGTE, "BRANCH_GT": BranchGT,
	"BRANCH_EQ": BranchEQ, "BRANCH_NEQ": BranchNEQ, "LEAF": TreeLeaf}

// TreeNode is one node of a [Forest].
type TreeNode struct {
	Mode        TreeMode
	MissingTrue bool // a feature that is NaN goes the way of true
	Feature     int32
	// True and False are the nodes that follow; at a leaf, the weights are
	// Forest.Weights[True:False].
	True, False int32
	Value       float64 // for BranchMember the index of the set in Forest.Sets
}

// TreeWeight is what a leaf gives to one target or class.
type TreeWeight struct {
	Target int32
	Value  float64
}

// Aggregation is how the weights of several trees for one target become one score, numbered as
// TreeEnsemble version 5 numbers them.
type Aggregation int

// The aggregations.
const (
	AggregateAverage Aggregation = iota
	AggregateSum
	AggregateMin
	AggregateMax
)

// Forest is the model in the attributes of a TreeEnsemble, TreeEnsembleRegressor or
// TreeEnsembleClassifier (ai.onnx.ml versions 1, 3 and 5), checked: every index is in range, every
// walk from a root ends at a leaf. It is immutable.
type Forest struct {
	// Double tells that features, values and sums are of float64; otherwise all are float32, kept
	// here as float64.
	Double    bool
	Nodes     []TreeNode
	Weights   []TreeWeight
	Sets      [][]float64
	Roots     []int32
	Outputs   int // targets or classes
	Features  int // one more than the highest feature that is compared
	Aggregate Aggregation

	base     []float64
	post     postTransform
	labels   classLabels // of a classifier
	binary   bool        // a classifier of two classes with weights for one of them
	positive bool        // no weight is negative
}

// ForestOf reads the model of a call whose input has element type x. It fails with [ErrAttr] and
// takes time and memory in proportion to the attributes.
func ForestOf(c *op.Call, x tensor.DType) (*Forest, error) {
	b := &forestBuilder{Call: c}
	b.f.Double = x == tensor.Float64
	var err error
	if c.Type == "TreeEnsemble" {
		err = b.readSplits()
	} else {
		err = b.readNodes()
	}
	if err != nil {
		return nil, err
	}
	for i := range b.f.Nodes {
		n := &b.f.Nodes[i]
		if n.Mode != TreeLeaf {
			b.f.Features = max(b.f.Features, int(n.Feature)+1)
		}
	}
	return &b.f, b.checkWalks()
}

// forestBuilder reads a forest from attributes.
type forestBuilder struct {
	*op.Call
	f Forest
}

// numbers returns a list that is a tensor or, in versions 1 and 3, also an attribute of floats.
func (b *forestBuilder) numbers(name, tensorName string) ([]float64, error) {
	list, t := b.Attrs.Floats(name), b.Attrs.Tensor(tensorName)
	if t == nil || t.Len() == 0 && len(list) > 0 {
		return converted[float64](list), nil
	}
	if len(list) > 0 {
		return nil, b.Errorf(op.ErrAttr, "%s and %s are both given, want one", name, tensorName)
	}
	if !t.DType.IsFloat() {
		return nil, b.Errorf(op.ErrAttr, "%s is of %v, want floating-point numbers", tensorName,
			t.DType)
	}
	b.f.Double = b.f.Double || t.DType == tensor.Float64
	return t.Floats()
}

// tracks reads nodes_missing_value_tracks_true of n nodes; nil when it is not given.
func (b *forestBuilder) tracks(n int) ([]int64, error) {
	v := b.Attrs.Ints("nodes_missing_value_tracks_true")
	if len(v) == 0 {
		return nil, nil
	}
	if len(v) != n {
		return nil, b.Errorf(op.ErrAttr,
			"nodes_missing_value_tracks_true has %d elements for %d nodes", len(v), n)
	}
	return v, nil
}

// feature checks a feature index.
func (b *forestBuilder) feature(v int64) (int32, error) {
	if v < 0 || v > math.MaxInt32-1 {
		return 0, b.Errorf(op.ErrAttr, "nodes_featureids has %d, want an index", v)
	}
	return int32(v), nil
}

// checkWalks makes sure that every walk from a root ends: no node is met again on a way down.
func (b *forestBuilder) checkWalks() error {
	const onTheWay, done = 1, 2
	state := make([]uint8, len(b.f.Nodes))
	var way []int32
	for _, root := range b.f.Roots {
		way = append(way[:0], root)
		for len(way) > 0 {
			at := way[len(way)-1]
			n := &b.f.Nodes[at]
			if state[at] != 0 || n.Mode == TreeLeaf {
				state[at] = done
				way = way[:len(way)-1]
				continue
			}
			state[at] = onTheWay
			for _, next := range [2]int32{n.True, n.False} {
				switch state[next] {
				case onTheWay:
					return b.Errorf(op.ErrAttr, "the tree of root %d has a cycle through node %d",
						root, next)
				case 0:
					way = append(way, next)
				}
			}
		}
	}
	return nil
}

// Leaf returns the leaf that features lead to from a root. x has at least f.Features elements.
func (f *Forest) Leaf(root int32, x []float64) *TreeNode {
	n := &f.Nodes[root]
	for n.Mode != TreeLeaf {
		v := x[n.Feature]
		if f.holds(n, v) || n.MissingTrue && v != v {
			n = &f.Nodes[n.True]
		} else {
			n = &f.Nodes[n.False]
		}
	}
	return n
}

// holds is a node's comparison; no comparison of NaN holds but BRANCH_NEQ.
func (f *Forest) holds(n *TreeNode, v float64) bool {
	switch n.Mode {
	case BranchLEQ:
		return v <= n.Value
	case BranchLT:
		return v < n.Value
	case BranchGTE:
		return v >= n.Value
	case BranchGT:
		return v > n.Value
	case BranchEQ:
		return v == n.Value
	case BranchNEQ:
		return v != n.Value
	}
	for _, m := range f.Sets[int(n.Value)] {
		if v == m {
			return true
		}
	}
	return false
}

// Round rounds a sum to the precision of the forest.
func (f *Forest) Round(v float64) float64 {
	if f.Double {
		return v
	}
	return float64(float32(v))
}

// Scores aggregates the leaves of one row: scores and has have f.Outputs elements, has tells which
// scores any leaf has given.
func (f *Forest) Scores(scores []float64, has []bool, x []float64) {
	clear(scores)
	clear(has)
	for _, root := range f.Roots {
		leaf := f.Leaf(root, x)
		for _, w := range f.Weights[leaf.True:leaf.False] {
			s := &scores[w.Target]
			switch {
			case f.Aggregate == AggregateMin && has[w.Target]:
				if w.Value < *s {
					*s = w.Value
				}
			case f.Aggregate == AggregateMax && has[w.Target]:
				if w.Value > *s {
					*s = w.Value
				}
			default:
				*s = f.Round(*s + w.Value)
			}
			has[w.Target] = true
		}
	}
}

// Finish turns what Scores gave into the outputs of the row, in place, and returns the index of its
// class, which is meaningful for a classifier.
func (f *Forest) Finish(scores []float64, has []bool) (class int) {
	switch {
	case f.labels.len() == 0:
		f.finishTargets(scores)
		return 0
	case f.Outputs > 2:
		f.addBase(scores, has)
		class = firstPresentMax(scores, has)
		applyPost(f.post, scores)
		return class
	case f.Outputs == 1:
		f.addBase(scores, has)
		applyPost(f.post, scores)
		return 0
	}
	return f.finishTwo(scores, has)
}

// finishTargets averages, adds the base values and transforms.
func (f *Forest) finishTargets(scores []float64) {
	for i, s := range scores {
		if f.Aggregate == AggregateAverage {
			s = f.Round(s / float64(len(f.Roots)))
		}
		if len(f.base) > 0 {
			s = f.Round(s + f.base[i])
		}
		scores[i] = s
	}
	applyPost(f.post, scores)
}

func (f *Forest) addBase(scores []float64, has []bool) {
	for i, b := range f.base {
		scores[i] = f.Round(scores[i] + b)
		has[i] = true
	}
}

// firstPresentMax is the first highest of the scores that are there, 0 when none is.
func firstPresentMax(scores []float64, has []bool) int {
	best := -1
	for i, s := range scores {
		if has[i] && (best < 0 || s > scores[best]) {
			best = i
		}
	}
	return max(best, 0)
}

// finishTwo is Finish for two classes, of which exporters often give the weights of one. ONNX's
// text does not say how these two become two scores; this is what ONNX Runtime does
// (TreeAggregatorClassifier): a single score is that of the second class, and the first gets what
// is left to one, or the negative when weights have signs. When the leaves speak of both classes,
// the second is chosen when its score is above zero; a base value for each is added to the first
// class's score, which then counts for the second with the first as its negative.
func (f *Forest) finishTwo(scores []float64, has []bool) (class int) {
	alone := f.addBases(scores, has)
	deciding := scores[0]
	if has[1] {
		deciding = scores[1]
	} else if !has[0] {
		deciding = 0
	}
	threshold, how := 0.0, secondNegative
	if f.binary && f.positive {
		threshold, how = 0.5, secondComplement
	}
	if deciding > threshold {
		class = 1
	}
	if alone {
		f.expandAlone(scores, how)
		return class
	}
	for i := range scores {
		if !has[i] {
			scores[i] = 0
		}
	}
	applyPost(f.post, scores)
	return class
}

// addBases adds the base values of two classes, and reports whether one score stands for both.
func (f *Forest) addBases(scores []float64, has []bool) (alone bool) {
	switch len(f.base) {
	case 2:
		if has[1] {
			scores[1] = f.Round(f.base[1] + scores[0])
			scores[0] = -scores[1]
		} else {
			scores[0] = f.Round(scores[0] + f.base[0])
		}
	case 1:
		scores[0] = f.Round(scores[0] + f.base[0])
		alone = !has[1]
	default:
		alone = !has[1]
	}
	return alone
}

// expandAlone makes two scores of the one that is there.
func (f *Forest) expandAlone(scores []float64, how secondClass) {
	a, b := f.post.expand(float32(scores[0]), how)
	scores[0], scores[1] = float64(a), float64(b)
}
