package pass

import "github.com/weirgpu/weir/graph"

// Dead code.
//
//	y = f(x), y read by nobody  =  nothing
//
// Operators have no effects besides their outputs, so this holds for random ones too. What only the
// removed node has read goes with it.
func startDead(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if s.dead(n) {
			return &Patch{Remove: []*graph.Node{n}}
		}
		return nil
	}
}
