package pass

import "testing"

// TestAmpCasts holds the fate of the casts around products.
func TestAmpCasts(t *testing.T) {
	g := marked(t, half("a", "x", "w")+"const %c: float32[8,2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "+
		"11, 12, 13, 14, 15, 16}\n"+half("b", "a", "c")+"%y = Relu@17 (%b)\noutput %y")
	want := map[string][3]AmpCastFate{"a": {AmpFused, AmpFused, AmpEliminated},
		"b": {AmpFused, AmpFolded, AmpEliminated}}
	var sum AmpCasts
	for _, n := range g.Nodes[:2] {
		list := castsOf(n)
		sum.add(list)
		if len(list) != 3 {
			t.Fatalf("%v has casts %v", n, list)
		}
		for i, c := range list {
			value, to := n.Out[0].Name, "float32"
			if i < 2 {
				value, to = n.In[i].Name, "bfloat16"
			}
			if c.Fate != want[n.Out[0].Name][i] || c.Value != value || c.To != to || c.Why == "" {
				t.Errorf("cast %d of %v is %+v", i, n, c)
			}
		}
	}
	if sum != (AmpCasts{Inserted: 6, Folded: 1, Fused: 3, Eliminated: 2}) || sum.Left() != 0 {
		t.Errorf("together %+v, %d left", sum, sum.Left())
	}
}
