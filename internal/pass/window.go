package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// convWindow is what the attributes of convolution n say, whose weights have that shape, of at
// least two axes: its window and the number of its groups. false for what the operator refuses.
func convWindow(n *graph.Node, weights []int) (w op.Window, group int, ok bool) {
	call := n.Call()
	w, err := call.Window(slices.Clone(weights[2:]))
	if err != nil {
		return w, 0, false
	}
	group, err = call.Group()
	return w, group, err == nil
}

// onesOnly reports whether steps or distances of a window are all 1.
func onesOnly(list []int) bool {
	return !slices.ContainsFunc(list, func(v int) bool { return v != 1 })
}
