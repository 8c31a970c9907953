package philox

import "testing"

// TestKnown: blocks are those of the table of known answers in Random123, by Philox's authors.
func TestKnown(t *testing.T) {
	for _, c := range []struct {
		block uint32
		s     Stream
		want  [4]uint32
	}{
		{0, Stream{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{^uint32(0), Stream{^uint64(0), ^uint32(0), ^uint64(0)},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x243f6a88, Stream{0x299f31d0a4093822, 0x85a308d3, 0x0370734413198a2e},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		a, b, e, d := c.s.Of(c.block)
		if got := [4]uint32{a, b, e, d}; got != c.want {
			t.Errorf("block %#x of %+v: %#x, want %#x", c.block, c.s, got, c.want)
		}
	}
}

// TestPieces: what is dropped does not depend on where a tensor is cut, and follows from each of
// seed, node and step.
func TestPieces(t *testing.T) {
	const n, border = 103, 1 << 30
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i + 1)
	}
	s := Stream{Seed: 1, Node: 2, Step: 3}
	whole := make([]float32, n)
	Drop(whole, x, s, 0, border, 2)
	dropped := 0
	for i, v := range whole {
		if v == 0 {
			dropped++
		} else if v != 2*x[i] {
			t.Fatalf("element %d is %v of %v", i, v, x[i])
		}
	}
	if dropped < n/8 || dropped > n/2 {
		t.Errorf("%d of %d dropped, a quarter expected", dropped, n)
	}
	for cut := 0; cut < n; cut += 4 {
		y := append([]float32(nil), x...)
		Drop(y[cut:], y[cut:], s, cut, border, 2)
		for i := cut; i < n; i++ {
			if y[i] != whole[i] {
				t.Fatalf("cut at %d: element %d is %v, whole %v", cut, i, y[i], whole[i])
			}
		}
	}
	for _, other := range []Stream{{1, 2, 4}, {1, 3, 3}, {2, 2, 3}, {1, 2, 3 + 1<<40},
		{1 + 1<<40, 2, 3}} {
		y := make([]float32, n)
		if Drop(y, x, other, 0, border, 2); same(y, whole) {
			t.Errorf("%+v drops what %+v drops", other, s)
		}
	}
}

func same(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
