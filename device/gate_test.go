package device

import "testing"

func TestUnits(t *testing.T) {
	var none Units
	if none.First() != -1 || none.Has(0) || none.Covers(1) || !none.Covers(0) {
		t.Error("the empty set is not empty")
	}
	s := Units{1: 1<<5 | 1<<63, 7: 1 << 63}
	for u := -2; u < MaxUnits+70; u++ {
		if want := u == 69 || u == 127 || u == 511; s.Has(u) != want {
			t.Errorf("unit %d: Has is %v", u, !want)
		}
	}
	if s.First() != 69 {
		t.Errorf("First is %d, want 69", s.First())
	}
	for n := range MaxUnits + 2 {
		var low Units
		for u := range min(n, MaxUnits) {
			low[u/64] |= 1 << (u % 64)
		}
		if low.Covers(n) != (n <= MaxUnits) || low.Covers(n+1) {
			t.Errorf("the first %d: Covers(%d) is %v, Covers(%d) is %v", n, n, low.Covers(n), n+1,
				low.Covers(n+1))
		}
	}
}
