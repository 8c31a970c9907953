package evict_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/evict"
)

// TestVictims: whom each rule chooses of documents used one after the other, where two fit. The
// costs and sizes are such that greedydual keeps what is dear to load for its size, until it
// has aged.
func TestVictims(t *testing.T) {
	dear := evict.Use{Size: share.MiB, Reload: time.Second, Often: 1}
	cheap := evict.Use{Size: share.MiB, Reload: 400 * time.Millisecond, Often: 1}
	uses := []struct {
		name string
		use  evict.Use
	}{{"a", dear}, {"b", cheap}, {"c", cheap}, {"d", cheap}, {"e", cheap},
		{"f", evict.Use{Often: 1}}}
	for _, tc := range []struct{ rule, want string }{
		{"lru", "abcd"},
		{"greedydual", "bcad"}, // a has its first rank, c and d age beyond it
		{"", "abcd"},
	} {
		r, err := evict.New(tc.rule)
		if err != nil {
			t.Fatal(err)
		}
		rank := map[string]float64{}
		got := ""
		for i, u := range uses {
			if len(rank) == 2 {
				least := ""
				for name, v := range rank {
					if least == "" || v < rank[least] || v == rank[least] && name < least {
						least = name
					}
				}
				r.Evicted(rank[least])
				delete(rank, least)
				got += least
			}
			u.use.At = time.Duration(i)
			rank[u.name] = r.Used(u.use)
		}
		if got != tc.want {
			t.Errorf("%s evicts %s, want %s", r.Name(), got, tc.want)
		}
	}
	if _, err := evict.New("fifo"); !errors.Is(err, evict.ErrUnknown) {
		t.Error(err)
	}
}

// TestAgeDoesNotFall: who was chosen since those of lower ranks could not be leaves the others as
// old as they are.
func TestAgeDoesNotFall(t *testing.T) {
	var g evict.GreedyDual
	u := evict.Use{Size: share.MiB, Reload: time.Second, Often: 1}
	first := g.Used(u)
	g.Evicted(3 * first)
	aged := g.Used(u)
	if g.Evicted(first); g.Used(u) != aged || aged < 3*first {
		t.Errorf("ranks %v, after eviction at %v %v, then after one at %v %v", first, 3*first, aged,
			first, g.Used(u))
	}
}
