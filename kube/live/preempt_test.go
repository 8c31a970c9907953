package live

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"github.com/weirgpu/weir/kube/place"
)

// pod holds a device of a node for an owner of a priority; as pods do, in two holds.
func pod(c *Cluster, key string, priority int32, yields bool, r place.Request, at Choice) {
	c.Hold(Holder{Key: "pod/" + key, Node: at.Node, Owner: key, Priority: priority,
		Parts: []Part{{Request: place.Request{CPU: r.CPU}}}})
	r.CPU = 0
	c.Hold(Holder{Key: "claim/" + key, Node: at.Node, Owner: key, Priority: math.MinInt32,
		Yields: yields, Parts: []Part{{r, at.Devices}}})
}

func TestThoseWhoYieldGoForHigherPriority(t *testing.T) {
	c := cluster(t, node("a", 1), node("b", 1), node("c", 1))
	pod(c, "standard", 0, false, share(900), Choice{"a", []string{"cuda-0"}})
	pod(c, "five", 5, true, share(900), Choice{"b", []string{"cuda-0"}})
	pod(c, "one", 1, true, share(450), Choice{"c", []string{"cuda-0"}})
	pod(c, "two", 2, true, share(450), Choice{"c", []string{"cuda-0"}})
	for _, k := range []struct {
		units    int
		priority int32
		node     string
		owners   []string
	}{
		{500, 10, "c", []string{"one"}}, // the lowest priority, and no more than must
		{900, 10, "c", []string{"two", "one"}},
		{900, 3, "c", []string{"two", "one"}},
		{500, 2, "c", []string{"one"}},
		{900, 2, "", nil},
		{500, 1, "", nil}, // equal priorities do not go
	} {
		choice, owners, err := c.Preempt(share(k.units), k.priority, nil)
		if choice.Node != k.node || !reflect.DeepEqual(owners, k.owners) {
			t.Errorf("%d units at priority %d: %v %v %v, want %s %v", k.units, k.priority, choice,
				owners, err, k.node, k.owners)
		}
		if k.node == "" && !errors.Is(err, place.ErrNoRoom) {
			t.Errorf("%d units at priority %d: %v", k.units, k.priority, err)
		}
	}
	if _, owners, _ := c.Preempt(share(500), 10, func(n string) bool { return n != "c" }); len(
		owners) != 1 || owners[0] != "five" {
		t.Errorf("where c is not allowed %v go", owners)
	}
}

// After those have gone that Preempt names, the request fits; while one of them stays, it does not.
func TestNobodyGoesInVain(t *testing.T) {
	for seed := range int64(30) {
		rng := rand.New(rand.NewSource(seed))
		c := cluster(t, node("a", 2), node("b", 4))
		for i := range 40 {
			r := share(100 * (1 + rng.Intn(9)))
			if choice, err := c.Choose(r, nil); err == nil {
				pod(c, fmt.Sprint(i), int32(rng.Intn(4)), rng.Intn(3) > 0, r, choice)
			}
		}
		r := []place.Request{share(800), whole(1), whole(2)}[rng.Intn(3)]
		choice, owners, err := c.Preempt(r, 3, nil)
		if err != nil {
			continue
		}
		fits := func() bool {
			_, err := c.Choose(r, func(n string) bool { return n == choice.Node })
			return err == nil
		}
		if fits() {
			t.Fatalf("seed %d: it fits without anybody going", seed)
		}
		for i, o := range owners {
			h, _ := c.Held("pod/" + o)
			if d, _ := c.Held("claim/" + o); !d.Yields || h.Priority >= 3 {
				t.Fatalf("seed %d: %s goes, which need not", seed, o)
			}
			c.Drop("pod/" + o)
			c.Drop("claim/" + o)
			if fits() != (i == len(owners)-1) {
				t.Fatalf("seed %d: after %d of %d went it fits: %v", seed, i+1, len(owners), fits())
			}
		}
	}
}

func TestPromiseKeepsWhatTheGoneLeave(t *testing.T) {
	c := cluster(t, node("a", 1))
	pod(c, "x", 0, true, share(500), Choice{"a", []string{"cuda-0"}})
	pod(c, "y", 0, true, share(500), Choice{"a", []string{"cuda-0"}})
	choice, owners, err := c.Preempt(share(900), 1, nil)
	if err != nil || len(owners) != 2 {
		t.Fatal(owners, err)
	}
	c.Promise("seat", share(900), choice.Node, owners)
	if n, ok := c.Promised("seat"); n != "a" || !ok {
		t.Errorf("promised on %q: %v", n, ok)
	}
	for _, key := range []string{"claim/x", "pod/x", "pod/y"} {
		if kept := c.Drop(key); len(kept) != 0 {
			t.Fatalf("kept %v when %s went", kept, key)
		}
		if got, err := c.Choose(share(100), nil); err == nil {
			t.Fatalf("after %s went another is given %v", key, got)
		}
	}
	if kept := c.Drop("claim/y"); !slices.Equal(kept, []string{"seat"}) {
		t.Fatalf("kept %v", kept)
	}
	if h, ok := c.Held("seat"); !ok || h.Node != "a" || h.Parts[0].Units != 900 {
		t.Errorf("then holds %v %v", h, ok)
	}
	if _, ok := c.Promised("seat"); ok {
		t.Error("it is promised still")
	}
	c.mustChoose(t, share(100))
	if _, err := c.Choose(share(101), nil); err == nil {
		t.Error("what was promised is given away")
	}
	c.Withdraw("seat")
	c.mustChoose(t, whole(1))
}

func TestWithdrawnPromiseLeavesNothing(t *testing.T) {
	c := cluster(t, node("a", 1))
	pod(c, "x", 0, true, share(500), Choice{"a", []string{"cuda-0"}})
	pod(c, "y", 0, true, share(500), Choice{"a", []string{"cuda-0"}})
	c.Promise("seat", share(900), "a", []string{"x", "y"})
	c.Drop("claim/x")
	c.Drop("pod/x")
	c.Withdraw("seat")
	if got := c.mustChoose(t, share(500)); got.Node != "a" || len(c.holds) != 2 {
		t.Errorf("chose %v with %d holds", got, len(c.holds))
	}
}

// A pod with one claim that does not yield stays, whatever its other ones say.
func TestOwnerYieldsWhole(t *testing.T) {
	c := cluster(t, node("a", 1))
	pod(c, "x", 0, true, share(400), Choice{"a", []string{"cuda-0"}})
	c.Hold(Holder{Key: "claim/x2", Node: "a", Owner: "x",
		Parts: []Part{{share(400), []string{"cuda-0"}}}})
	if _, owners, err := c.Preempt(share(500), 9, nil); err == nil {
		t.Errorf("%v go", owners)
	}
}
