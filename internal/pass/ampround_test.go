package pass

import (
	"testing"

	"github.com/weirgpu/weir/internal/op"
)

// TestAmpRoundsAttention: in float16 attention rounds what it multiplies and what its products come
// to, and so does its gradient: the result and what weights are computed from again stay as they
// are, and so does what masks.
func TestAmpRoundsAttention(t *testing.T) {
	g := marked(t, "%y, %stats = weir:Attention@1 (%x, %w, %x, _, %w) {scale=0.5}\n"+
		"%q, %k, %v = weir:AttentionGradient@1 (%x, %w, %x, _, %w, %w, %y, %stats) {scale=0.5}\n"+
		"output %q\noutput %k\noutput %v")
	room := 100
	s := newScope(t.Context(), g, 17, &room, map[string]bool{})
	s.precision = FP16
	rounds := startAmpRound(s)
	for _, c := range []struct {
		in, out map[int]bool
	}{
		{map[int]bool{0: true, 1: true}, map[int]bool{0: true}},
		{map[int]bool{0: true, 1: true, 2: true, op.AttentionGradientDY: true},
			map[int]bool{0: true, 1: true, 2: true}},
	} {
		n := g.Nodes[0]
		if c.out[1] {
			n = g.Nodes[1]
		}
		p := rounds(n)
		if p == nil {
			t.Fatalf("%s is not rounded", n.Type)
		}
		for _, m := range p.Insert {
			if m.Type != n.Type {
				continue
			}
			for i, v := range m.In {
				if v != nil && (v != n.In[i]) != c.in[i] {
					t.Errorf("%s: input %d is rounded: %v", n.Type, i, !c.in[i])
				}
			}
			for i, r := range p.Replace {
				if (r.New != m.Out[i]) != c.out[i] {
					t.Errorf("%s: output %d is rounded: %v", n.Type, i, !c.out[i])
				}
			}
		}
	}
}
