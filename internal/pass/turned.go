package pass

import (
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// Weights that gradients of convolutions turn around.
//
//	Conv(g, Transpose(Slice(w)))  =  weir:Conv(g, w){turned}
//	    (the first two axes exchanged, the others from their end to their begin)
//
// Kernels pack weights that are computed at each run in any case, and can turn them meanwhile.

func startTurned(*scope) rule {
	return func(n *graph.Node) *Patch {
		if !is(n, "Conv") || n.Attrs.Int("group", 1) != 1 {
			return nil
		}
		t := from(n.In[1], "Transpose")
		if t == nil || !exchanges(t.Attrs.Ints("perm")) {
			return nil
		}
		s := from(t.In[0], "Slice")
		if s == nil || !reverses(s, len(t.Attrs.Ints("perm"))) {
			return nil
		}
		attrs := append(op.Attrs{op.IntAttr("turned", 1)}, n.Attrs...)
		in := append([]*graph.Value{n.In[0], s.In[0]}, n.In[2:]...)
		return instead(n, operator(n, op.FusedDomain, "Conv", 1, attrs, in...))
	}
}

// exchanges reports whether a permutation exchanges the first two axes alone.
func exchanges(perm []int64) bool {
	if len(perm) < 3 || perm[0] != 1 || perm[1] != 0 {
		return false
	}
	for i, p := range perm[2:] {
		if p != int64(i+2) {
			return false
		}
	}
	return true
}

// reverses reports whether a Slice reverses all axes of a value of that rank but the first two.
func reverses(s *graph.Node, rank int) bool {
	if len(s.In) != 5 {
		return false
	}
	for i, want := range []func(axis int) int64{
		func(int) int64 { return -1 }, func(int) int64 { return math.MinInt64 },
		func(axis int) int64 { return int64(axis) }, func(int) int64 { return -1 },
	} {
		v := s.In[i+1]
		if v == nil || !v.IsConst() {
			return false
		}
		got, err := v.Const().Ints()
		if err != nil || len(got) != rank-2 {
			return false
		}
		for k, x := range got {
			if x != want(k+2) {
				return false
			}
		}
	}
	return true
}
