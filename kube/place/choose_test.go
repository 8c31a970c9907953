package place

import (
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

// Among some of the nodes the best by score is chosen, the first of equals, whether scores are kept
// or computed anew; closed nodes are never chosen.
func TestChoiceIsTheBestOfThoseAllowed(t *testing.T) {
	for _, policy := range []Policy{prices, fgd, bestFit} {
		rng := rand.New(rand.NewSource(7))
		nodes, w := testNodes(rng, 37), testWorkload(rng)
		var both [2]*Cluster
		for i := range both {
			var err error
			both[i], err = NewCluster(nodes, Options{Policy: policy, Workload: w, Plain: i == 1})
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 300 {
			r, mask := testRequest(rng), rng.Uint64()
			allow := func(i int) bool { return mask>>(i%64)&1 == 1 }
			if rng.Intn(3) == 0 {
				allow = nil
			}
			closed, to := rng.Intn(len(nodes)), rng.Intn(2) == 0
			for _, c := range both {
				if err := c.Close(closed, to); err != nil {
					t.Fatal(err)
				}
			}
			want, devices := bestByScore(both[1], r, allow)
			for _, c := range both {
				i, set, err := c.Choose(r, allow)
				if i != want || set != devices || (err != nil) != (want < 0) {
					t.Fatalf("%s: %+v goes to %d %v (%v), the best is %d %v", policy.Name, r, i,
						set.Indices(), err, want, devices.Indices())
				}
				if err == nil {
					if _, err := c.Bind(r, i, set); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

func bestByScore(c *Cluster, r Request, allow func(int) bool) (best int, devices Set) {
	best = -1
	high := int64(-1)
	for i := range c.nodes {
		v, set, ok := c.Score(r, i)
		if ok && c.nodes[i].closed {
			panic("a closed node is scored")
		}
		if ok && v > high && (allow == nil || allow(i)) {
			best, high, devices = i, v, set
		}
	}
	return best, devices
}

func TestClosedNodeGivesWhatOthersChose(t *testing.T) {
	c, err := NewCluster([]Node{{Name: "a", CPU: 8000, Devices: make([]Device, 2)}},
		Options{Policy: bestFit})
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Count: 1, Units: 500}
	if err := c.Close(0, true); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Place(r); !errors.Is(err, ErrNoRoom) ||
		!strings.Contains(err.Error(), "1 take nothing new") {
		t.Errorf("placed: %v", err)
	}
	if _, err := c.Bind(r, 0, 2); err != nil {
		t.Error(err)
	}
	if err := c.Close(0, false); err != nil {
		t.Fatal(err)
	}
	if i, set, err := c.Choose(r, nil); i != 0 || set != 2 || err != nil {
		t.Errorf("then %d %v %v", i, set, err)
	}
	if c.Close(1, true) == nil {
		t.Error("node 1 of 1 is closed")
	}
}

func TestChoiceSaysWhatIsWanting(t *testing.T) {
	c, err := NewCluster([]Node{{Name: "a", Devices: make([]Device, 1)}, {Name: "b"}},
		Options{Policy: bestFit})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = c.Choose(Request{Count: 1, Units: 1}, func(i int) bool { return i == 1 })
	if fmt.Sprint(err) != "no room: of 2 nodes 1 are not for this request, 1 have devices of "+
		"another model or none" {
		t.Errorf("says %v", err)
	}
	if _, _, err = c.Choose(Request{Count: -1}, nil); errors.Is(err, ErrNoRoom) || err == nil {
		t.Errorf("a request that cannot be: %v", err)
	}
	c, err = NewCluster(nil, Options{Policy: random, Rand: rand.New(rand.NewSource(1))})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Choose(Request{}, nil); err == nil || errors.Is(err, ErrNoRoom) {
		t.Errorf("random foretells: %v", err)
	}
}
