package onnx

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// broke lists, for each operator, the versions of ONNX's operator set, from 8 on, at which it
// changed so that an older use means something else or is not allowed any more. These are the steps
// for which ONNX's version converter (onnx/version_converter/convert.h) has an adapter other than
// CompatibleAdapter, and Hardmax, which changed with Softmax. All other changes added types,
// attributes with a default or optional operands.
var broke = map[string][]int{
	"BatchNormalization": {9, 14}, "Clip": {11}, "DFT": {20}, "Dropout": {12}, "GridSample": {20},
	"GroupNormalization": {21},
	"Hardmax":            {13}, "LogSoftmax": {13}, "Pad": {11}, "Resize": {11}, "Scan": {9},
	"Scatter": {11},
	"Slice":   {10},
	"Softmax": {13}, "Split": {13, 18}, "Squeeze": {13}, "TopK": {10}, "Unsqueeze": {13},
	"Upsample": {9, 10},
	"LpPool":   {2}, "GlobalLpPool": {2}, "ReduceL1": {18}, "ReduceL2": {18}, "ReduceLogSum": {18},
	"ReduceLogSumExp": {18}, "ReduceMax": {18}, "ReduceMean": {18},
	"ReduceMin": {18}, "ReduceProd": {18}, "ReduceSum": {13}, "ReduceSumSquare": {18},
}

// fits reports whether a node means the same under another version of its domain.
func fits(n *graph.Node, version int) bool {
	if n.Version == version {
		return true
	}
	o, err := n.Op()
	if err != nil || version < o.Since[0] {
		return false
	}
	if o.SinceVersion(version) == o.SinceVersion(n.Version) {
		return true
	}
	return n.Domain == "" && version > n.Version &&
		!slices.ContainsFunc(broke[n.Type], func(b int) bool {
			return b > n.Version && b <= version
		})
}

// misfit returns a node that does not fit a version, nil when all do.
func misfit(nodes []*graph.Node, version int) *graph.Node {
	for _, n := range nodes {
		if !fits(n, version) {
			return n
		}
	}
	return nil
}

// versionFor is the version under which nodes of one domain mean what they do: own if it will do,
// else the newest of theirs.
func versionFor(ns []*graph.Node, own int) (int, error) {
	if misfit(ns, own) == nil {
		return own, nil
	}
	for _, n := range ns {
		own = max(own, n.Version)
	}
	if n := misfit(ns, own); n != nil {
		return 0, fmt.Errorf("%v: %w: it has version %d of domain %q, which means something else "+
			"in version %d that other nodes need; optimise for other runtimes (portable) to "+
			"avoid it",
			n, ErrOpset, n.Version, n.Domain, own)
	}
	return own, nil
}

// opsetsOf chooses the one version of each domain that the file declares: the graph's own if every
// node means the same under it, else the newest of the nodes'. Passes bring newer operators into
// old models, and functions have versions of their own.
func opsetsOf(g *graph.Graph) (map[string]int, error) {
	nodes := map[string][]*graph.Node{}
	g.Walk(func(g *graph.Graph) {
		for _, n := range g.Nodes {
			nodes[n.Domain] = append(nodes[n.Domain], n)
		}
	})
	// domains that no node needs are left out: others may not know them
	out := map[string]int{"": g.Opsets[""]}
	for domain, ns := range nodes {
		if domain == fusedDomain {
			if err := allHaveFunctions(ns); err != nil {
				return nil, err
			}
		}
		version, err := versionFor(ns, g.Opsets[domain])
		if err != nil {
			return nil, err
		}
		out[domain] = version
	}
	if out[""] == 0 {
		out[""] = defaultOpset
	}
	return out, nil
}

// allHaveFunctions checks that other runtimes can compute nodes of weir's own operators.
func allHaveFunctions(ns []*graph.Node) error {
	for _, n := range ns {
		if !hasFunction(n) {
			return fmt.Errorf("%v: %w: other runtimes do not have this operator of weir's "+
				"own; write the graph before the passes that make it", n, op.ErrUnsupported)
		}
	}
	return nil
}

// defaultOpset is declared for a graph without any node of ONNX's own domain, as every model
// declares one.
const defaultOpset = 21
