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

// TestAmpOfWhatWaited: a product that reads what has waited in 16 bits is one in bfloat16 that
// needs no cast, and is told of as such.
func TestAmpOfWhatWaited(t *testing.T) {
	g := marked(t, `input %i: float32[2,4,6,6]
		input %g: float32[2,8,6,6]
		%h = Cast@13 (%i) {to=16}
		%d = weir:ConvWeightsGradient@1 (%h, %g) {kernel_shape=[1,1], precision="bf16"}
		output %d`)
	n := g.Nodes[1]
	if list, why := ampList(n); list != AmpAllow || !inBF16(n) {
		t.Errorf("on list %s: %s", list, why)
	}
	want := []AmpCastFate{AmpEliminated, AmpFused, AmpEliminated}
	for i, c := range castsOf(n) {
		if c.Fate != want[i] {
			t.Errorf("cast %d is %+v, want %s", i, c, want[i])
		}
	}
	kept := keptInHalf(g)
	if len(kept) != 1 || kept[0].Value != "i" || kept[0].Bytes != 2*2*4*6*6 || !kept[0].Kept {
		t.Errorf("kept in 16 bits: %+v", kept)
	}
}
