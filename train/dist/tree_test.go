package dist

import (
	"slices"
	"testing"
)

// TestTree: the left half of a node is the largest power of two below its size, and only halves of
// a node are joined.
func TestTree(t *testing.T) {
	for n, want := range map[int]int{2: 1, 3: 2, 4: 2, 5: 4, 8: 4, 9: 8, 12: 8} {
		if got := middle(node{10, 10 + n}); got != 10+want {
			t.Errorf("%d shards are cut after %d, want %d", n, got-10, want)
		}
	}
	for _, c := range []struct {
		n    int
		a, b node
		want bool
	}{
		{4, node{0, 1}, node{1, 2}, true}, {4, node{1, 2}, node{2, 3}, false},
		{4, node{0, 2}, node{2, 4}, true}, {4, node{2, 3}, node{3, 4}, true},
		{4, node{0, 1}, node{2, 3}, false}, {3, node{0, 2}, node{2, 3}, true},
		{6, node{0, 4}, node{4, 6}, true}, {6, node{0, 2}, node{2, 6}, false},
	} {
		if got := joins(c.n, c.a, c.b); got != c.want {
			t.Errorf("of %d shards %v and %v are joined: %v", c.n, c.a, c.b, got)
		}
	}
}

// TestPlaces: a process writes to its own memory alone, the sum of a piece ends where its owner
// computes shards, and no process keeps more than the sums that wait for their other half.
func TestPlaces(t *testing.T) {
	for shards := 1; shards < 20; shards++ {
		for ranks := 2; ranks <= shards; ranks++ {
			for owner := range ranks {
				ops := around(shards, ranks, owner)
				for r, of := range ops {
					for _, o := range of {
						if o.dst.rank != r {
							t.Errorf("%d of %d: rank %d writes to that of %d", shards, ranks, r,
								o.dst.rank)
						}
					}
				}
				last := ops[owner][len(ops[owner])-1]
				if last.dst != (place{owner, 0}) {
					t.Errorf("%d of %d: the sum of piece %d is at %v", shards, ranks, owner,
						last.dst)
				}
			}
		}
	}
	for _, c := range [][3]int{{1, 1, 0}, {2, 1, 1}, {4, 1, 2}, {8, 1, 3}, {2, 2, 0}, {4, 2, 1},
		{8, 2, 2}, {4, 4, 0}, {3, 2, 1}} {
		if got := Slots(c[0], c[1]); got != c[2] {
			t.Errorf("%d shards of %d processes want %d slots, not %d", c[0], c[1], c[2], got)
		}
	}
}

// TestShares: each shard is computed once, and no process has two more than another.
func TestShares(t *testing.T) {
	for shards := 1; shards < 20; shards++ {
		for ranks := 1; ranks <= shards; ranks++ {
			var sizes []int
			next := 0
			for r := range ranks {
				from, to := Share(shards, ranks, r)
				if from != next {
					t.Errorf("%d of %d: rank %d begins at %d, want %d", shards, ranks, r, from,
						next)
				}
				next, sizes = to, append(sizes, to-from)
			}
			if next != shards || slices.Max(sizes)-slices.Min(sizes) > 1 || slices.Min(sizes) < 1 {
				t.Errorf("%d shards of %d: %v", shards, ranks, sizes)
			}
		}
	}
}
