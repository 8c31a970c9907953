package ml

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// nodeKey names a node as the attributes of versions 1 and 3 do.
type nodeKey struct{ tree, node int64 }

// readNodes reads TreeEnsembleRegressor and TreeEnsembleClassifier: nodes are named by tree and
// number, and a tree's root is its first node in the lists.
func (b *forestBuilder) readNodes() error {
	if err := b.readHead(); err != nil {
		return err
	}
	l, err := b.nodeLists()
	if err != nil {
		return err
	}
	index, err := b.index(l.trees, l.ids)
	if err != nil {
		return err
	}
	b.f.Nodes = make([]TreeNode, len(l.values))
	for i := range b.f.Nodes {
		if b.f.Nodes[i], err = b.node(&l, i, index); err != nil {
			return err
		}
	}
	return b.readWeights(index)
}

// nodeLists are the attributes about nodes, with an element for each.
type nodeLists struct {
	values                              []float64
	trees, ids, features, trues, falses []int64
	modes                               []string
	tracks                              []int64 // nil when no node has one
}

func (b *forestBuilder) nodeLists() (l nodeLists, err error) {
	as := b.Attrs
	if l.values, err = b.numbers("nodes_values", "nodes_values_as_tensor"); err != nil {
		return l, err
	}
	l.trees, l.ids, l.modes = as.Ints("nodes_treeids"), as.Ints("nodes_nodeids"),
		as.Strings("nodes_modes")
	l.features, l.trues, l.falses = as.Ints("nodes_featureids"), as.Ints("nodes_truenodeids"),
		as.Ints("nodes_falsenodeids")
	n, err := sameLengths(b.Call, map[string]int{"nodes_values": len(l.values),
		"nodes_treeids": len(l.trees), "nodes_nodeids": len(l.ids), "nodes_modes": len(l.modes),
		"nodes_featureids": len(l.features), "nodes_truenodeids": len(l.trues),
		"nodes_falsenodeids": len(l.falses)})
	if err != nil {
		return l, err
	}
	if l.tracks, err = b.tracks(n); err == nil && (n == 0 || n > math.MaxInt32) {
		err = b.Errorf(op.ErrAttr, "there are %d nodes, want at least one and fewer than 2³¹", n)
	}
	return l, err
}

// node reads node i.
func (b *forestBuilder) node(l *nodeLists, i int, index *nodeIndex) (node TreeNode, err error) {
	mode, ok := treeModes[l.modes[i]]
	if !ok {
		return node, b.Errorf(op.ErrAttr,
			"nodes_modes has %q, want BRANCH_LEQ, BRANCH_LT, BRANCH_GTE, BRANCH_GT, "+
				"BRANCH_EQ, BRANCH_NEQ or LEAF", l.modes[i])
	}
	node = TreeNode{Mode: mode, Value: l.values[i],
		MissingTrue: l.tracks != nil && l.tracks[i] == 1}
	if mode == TreeLeaf {
		return node, nil
	}
	if node.Feature, err = b.feature(l.features[i]); err != nil {
		return node, err
	}
	if node.True, err = b.child(index, l.trees[i], l.ids[i], l.trues[i]); err != nil {
		return node, err
	}
	node.False, err = b.child(index, l.trees[i], l.ids[i], l.falses[i])
	return node, err
}

// nodeIndex finds nodes by their names. The lists of most models have the nodes of a tree one after
// the other in the order of their numbers, and then the first of a tree tells where the others are.
type nodeIndex struct {
	trees, ids []int64
	first      map[int64]int32 // of each tree
	others     map[nodeKey]int32
}

// index makes the index of the nodes of those names, and finds the roots.
func (b *forestBuilder) index(trees, ids []int64) (*nodeIndex, error) {
	x := &nodeIndex{trees, ids, map[int64]int32{}, map[nodeKey]int32{}}
	for i, tree := range trees {
		if at, ok := x.find(tree, ids[i]); ok && at != int32(i) {
			return nil, b.Errorf(op.ErrAttr, "tree %d has two nodes %d", tree, ids[i])
		}
		if _, ok := x.first[tree]; !ok {
			x.first[tree] = int32(i)
			b.f.Roots = append(b.f.Roots, int32(i))
		}
		if at := int64(i) - int64(x.first[tree]); ids[i] != at {
			x.others[nodeKey{tree, ids[i]}] = int32(i)
		}
	}
	return x, nil
}

// find returns the node of that name.
func (x *nodeIndex) find(tree, id int64) (int32, bool) {
	first, ok := x.first[tree]
	if !ok {
		return 0, false
	}
	if id >= 0 && id < int64(len(x.ids))-int64(first) {
		if i := first + int32(id); x.trees[i] == tree && x.ids[i] == id {
			return i, true
		}
	}
	i, ok := x.others[nodeKey{tree, id}]
	return i, ok
}

func (b *forestBuilder) child(x *nodeIndex, tree, parent, id int64) (int32, error) {
	i, ok := x.find(tree, id)
	if !ok {
		return 0, b.Errorf(op.ErrAttr, "tree %d has no node %d, which its node %d branches to",
			tree, id, parent)
	}
	return i, nil
}

// readHead reads what is not about nodes.
func (b *forestBuilder) readHead() error {
	var err error
	if b.f.Outputs, b.f.labels, err = forestOutputs(b.Call); err != nil {
		return err
	}
	if b.f.post, err = transform(b.Call); err != nil {
		return err
	}
	how, err := choice(b.Call, "aggregate_function", "SUM", "AVERAGE", "MIN", "MAX")
	if err != nil {
		return err
	}
	b.f.Aggregate = [...]Aggregation{AggregateSum, AggregateAverage, AggregateMin,
		AggregateMax}[how]
	if b.f.base, err = b.numbers("base_values", "base_values_as_tensor"); err != nil {
		return err
	}
	n := len(b.f.base)
	if n != 0 && n != b.f.Outputs && !(n == 1 && b.f.labels.len() == 2) {
		return b.Errorf(op.ErrAttr, "base_values has %d elements for %d scores", n, b.f.Outputs)
	}
	return nil
}

// readWeights reads the weights of the leaves. Weights of other nodes, which old converters wrote,
// count for nothing.
func (b *forestBuilder) readWeights(index *nodeIndex) error {
	prefix := "target"
	if b.Type == "TreeEnsembleClassifier" {
		prefix = "class"
	}
	values, err := b.numbers(prefix+"_weights", prefix+"_weights_as_tensor")
	if err != nil {
		return err
	}
	trees, ids, targets := b.Attrs.Ints(prefix+"_treeids"), b.Attrs.Ints(prefix+"_nodeids"),
		b.Attrs.Ints(prefix+"_ids")
	_, err = sameLengths(b.Call, map[string]int{prefix + "_weights": len(values),
		prefix + "_treeids": len(trees), prefix + "_nodeids": len(ids),
		prefix + "_ids": len(targets)})
	if err != nil {
		return err
	}
	leaf, used, err := b.leaves(index, prefix, trees, ids, targets)
	if err != nil {
		return err
	}
	b.f.positive = !slices.ContainsFunc(values, func(v float64) bool { return v < 0 })
	b.f.binary = b.f.labels.len() == 2 && len(used) == 1
	b.placeWeights(leaf, targets, values)
	return nil
}

// leaves returns the node that each weight is of, and which targets have any.
func (b *forestBuilder) leaves(index *nodeIndex, prefix string, trees, ids, targets []int64) (
	leaf []int32, used map[int64]bool, err error) {
	leaf, used = make([]int32, len(trees)), map[int64]bool{}
	for i := range trees {
		at, ok := index.find(trees[i], ids[i])
		switch {
		case !ok:
			return nil, nil, b.Errorf(op.ErrAttr, "%s_nodeids: tree %d has no node %d", prefix,
				trees[i], ids[i])
		case targets[i] < 0 || targets[i] >= int64(b.f.Outputs):
			return nil, nil, b.Errorf(op.ErrAttr, "%s_ids has %d, want an index below %d", prefix,
				targets[i], b.f.Outputs)
		}
		leaf[i] = at
		used[targets[i]] = true
	}
	return leaf, used, nil
}

// placeWeights gives each leaf its weights, in the order of the lists.
func (b *forestBuilder) placeWeights(leaf []int32, targets []int64, values []float64) {
	for _, at := range leaf {
		if b.f.Nodes[at].Mode == TreeLeaf {
			b.f.Nodes[at].False++
		}
	}
	total := int32(0)
	for i := range b.f.Nodes {
		if n := &b.f.Nodes[i]; n.Mode == TreeLeaf {
			n.True, n.False, total = total, total, total+n.False
		}
	}
	b.f.Weights = make([]TreeWeight, total)
	for i, at := range leaf {
		if n := &b.f.Nodes[at]; n.Mode == TreeLeaf {
			b.f.Weights[n.False] = TreeWeight{int32(targets[i]), values[i]}
			n.False++
		}
	}
}

// readSplits reads TreeEnsemble (version 5): interior nodes first, then the leaves, both by index.
func (b *forestBuilder) readSplits() error {
	if err := b.readSplitHead(); err != nil {
		return err
	}
	l, err := b.splitLists()
	if err != nil {
		return err
	}
	n, leaves := len(l.splits), len(b.f.Weights)
	b.f.Nodes = make([]TreeNode, n+leaves)
	for i := range n {
		if b.f.Nodes[i], err = b.split(&l, i); err != nil {
			return err
		}
	}
	for i := range leaves {
		b.f.Nodes[n+i] = TreeNode{Mode: TreeLeaf, True: int32(i), False: int32(i + 1)}
	}
	if err := b.readRoots(n); err != nil {
		return err
	}
	return b.readSets(n)
}

// splitLists are the attributes about interior nodes, with an element for each.
type splitLists struct {
	splits                                         []float64
	modes                                          *tensor.Tensor
	features, trues, falses, trueLeafs, falseLeafs []int64
	tracks                                         []int64 // nil when no node has one
}

func (b *forestBuilder) splitLists() (l splitLists, err error) {
	as := b.Attrs
	if l.splits, err = b.numbers("", "nodes_splits"); err != nil {
		return l, err
	}
	l.modes = as.Tensor("nodes_modes")
	if l.modes == nil || l.modes.DType != tensor.Uint8 {
		return l, b.Errorf(op.ErrAttr, "nodes_modes is not a tensor of uint8")
	}
	l.features, l.trues, l.falses = as.Ints("nodes_featureids"), as.Ints("nodes_truenodeids"),
		as.Ints("nodes_falsenodeids")
	l.trueLeafs, l.falseLeafs = as.Ints("nodes_trueleafs"), as.Ints("nodes_falseleafs")
	n, err := sameLengths(b.Call, map[string]int{"nodes_splits": len(l.splits),
		"nodes_modes": l.modes.Len(), "nodes_featureids": len(l.features),
		"nodes_truenodeids": len(l.trues), "nodes_falsenodeids": len(l.falses),
		"nodes_trueleafs": len(l.trueLeafs), "nodes_falseleafs": len(l.falseLeafs)})
	if err != nil {
		return l, err
	}
	if l.tracks, err = b.tracks(n); err == nil && (n == 0 || n > math.MaxInt32-len(b.f.Weights)) {
		err = b.Errorf(op.ErrAttr, "there are %d nodes, want at least one and fewer than 2³¹", n)
	}
	return l, err
}

// split reads interior node i.
func (b *forestBuilder) split(l *splitLists, i int) (node TreeNode, err error) {
	node = TreeNode{Mode: TreeMode(l.modes.Data[i]), Value: l.splits[i],
		MissingTrue: l.tracks != nil && l.tracks[i] == 1}
	if node.Mode > BranchMember {
		return node, b.Errorf(op.ErrAttr, "nodes_modes has %d, want 0 to 6", node.Mode)
	}
	if node.Feature, err = b.feature(l.features[i]); err != nil {
		return node, err
	}
	n := len(l.splits)
	if node.True, err = b.branch(l.trues[i], l.trueLeafs[i] != 0, n); err != nil {
		return node, err
	}
	node.False, err = b.branch(l.falses[i], l.falseLeafs[i] != 0, n)
	return node, err
}

// readSplitHead reads what is not about interior nodes: leaves have one weight each.
func (b *forestBuilder) readSplitHead() error {
	var err error
	if b.f.Outputs, _, err = forestOutputs(b.Call); err != nil {
		return err
	}
	post, how := b.Attrs.Int("post_transform", int64(postNone)),
		b.Attrs.Int("aggregate_function", int64(AggregateSum))
	if post < 0 || post > int64(postProbit) || how < 0 || how > int64(AggregateMax) {
		return b.Errorf(op.ErrAttr,
			"post_transform is %d and aggregate_function %d, want 0 to 4 and 0 to 3", post, how)
	}
	b.f.post, b.f.Aggregate = postTransform(post), Aggregation(how)
	return b.readLeaves()
}

// readLeaves reads the weights of the leaves.
func (b *forestBuilder) readLeaves() error {
	values, err := b.numbers("", "leaf_weights")
	if err != nil {
		return err
	}
	targets := b.Attrs.Ints("leaf_targetids")
	if _, err := sameLengths(b.Call, map[string]int{"leaf_weights": len(values),
		"leaf_targetids": len(targets)}); err != nil {
		return err
	}
	b.f.Weights = make([]TreeWeight, len(values))
	for i, t := range targets {
		if t < 0 || t >= int64(b.f.Outputs) {
			return b.Errorf(op.ErrAttr, "leaf_targetids has %d, want an index below %d", t,
				b.f.Outputs)
		}
		b.f.Weights[i] = TreeWeight{int32(t), values[i]}
	}
	return nil
}

// branch returns the node that an interior node of n branches to.
func (b *forestBuilder) branch(id int64, leaf bool, n int) (int32, error) {
	if leaf {
		if id < 0 || id >= int64(len(b.f.Weights)) {
			return 0, b.Errorf(op.ErrAttr, "a node branches to leaf %d of %d", id, len(b.f.Weights))
		}
		return int32(n) + int32(id), nil
	}
	if id < 0 || id >= int64(n) {
		return 0, b.Errorf(op.ErrAttr, "a node branches to node %d of %d", id, n)
	}
	return int32(id), nil
}

func (b *forestBuilder) readRoots(n int) error {
	for _, r := range b.Attrs.Ints("tree_roots") {
		if r < 0 || r >= int64(n) {
			return b.Errorf(op.ErrAttr, "tree_roots has %d, want an index below %d", r, n)
		}
		b.f.Roots = append(b.f.Roots, int32(r))
	}
	if len(b.f.Roots) == 0 {
		return b.Errorf(op.ErrAttr, "tree_roots is empty")
	}
	return nil
}

// readSets reads the sets of the n interior nodes: membership_values has those of BRANCH_MEMBER
// nodes in order, with NaN between them.
func (b *forestBuilder) readSets(n int) error {
	members, err := b.numbers("", "membership_values")
	if err != nil {
		return err
	}
	given := 0
	for i := range n {
		node := &b.f.Nodes[i]
		if node.Mode != BranchMember {
			continue
		}
		if given > len(members) || given == len(members) && len(b.f.Sets) > 0 {
			return b.Errorf(op.ErrAttr,
				"membership_values has %d sets, want one for each BRANCH_MEMBER node",
				len(b.f.Sets))
		}
		end := slices.IndexFunc(members[given:], func(v float64) bool { return v != v })
		if end < 0 {
			end = len(members) - given
		}
		node.Value = float64(len(b.f.Sets))
		b.f.Sets = append(b.f.Sets, members[given:given+end:given+end])
		given += end + 1
	}
	if given < len(members) {
		return b.Errorf(op.ErrAttr,
			"membership_values has more than the sets of %d BRANCH_MEMBER nodes", len(b.f.Sets))
	}
	return nil
}
