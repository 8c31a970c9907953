package live

import (
	"fmt"
	"slices"
	"testing"
)

// serve has the fair order choose n times among requests that wait, and counts whose they were.
func serve(f *Fair, waiting map[string]string, n int) map[string]int {
	served := map[string]int{}
	for range n {
		best := ""
		for key := range waiting {
			if best == "" || f.tags[key].start < f.tags[best].start ||
				f.tags[key].start == f.tags[best].start && key < best {
				best = key
			}
		}
		served[waiting[best]]++
		f.Served(best)
		delete(waiting, best)
	}
	return served
}

func TestNamespacesAreServedByWeight(t *testing.T) {
	f, waiting := NewFair(), map[string]string{}
	ask := func(namespace string, count int, cost, weight float64) {
		for range count {
			key := fmt.Sprintf("%s-%03d", namespace, len(waiting))
			waiting[key] = namespace
			f.Tag(key, namespace, cost, weight)
		}
	}
	ask("many", 300, 1, 1)
	ask("large", 100, 4, 1)
	ask("heavy", 300, 1, 2)
	got := serve(f, waiting, 130)
	if got["many"] < 38 || got["many"] > 42 || got["heavy"] < 78 || got["heavy"] > 82 ||
		got["large"] < 9 || got["large"] > 11 {
		t.Errorf("of 130 served %v: want 40 of cost 1, 80 of twice the weight, 10 of cost 4", got)
	}
	// One that comes late gets its part from then on, and nothing for the time before.
	ask("late", 100, 1, 1)
	got = serve(f, waiting, 100)
	if got["late"] < 20 || got["late"] > 26 {
		t.Errorf("of 100 then served %v: want 23 of the late one", got)
	}
}

func TestTagNeverChanges(t *testing.T) {
	f := NewFair()
	a := f.Tag("a", "x", 1, 1)
	b := f.Tag("b", "x", 1, 1)
	f.Served("a")
	if f.Tag("a2", "x", 1, 1) <= b || f.Tag("b", "y", 9, 9) != b || a >= b {
		t.Error("tags move")
	}
}

func TestGoneRequestsCostNothing(t *testing.T) {
	f := NewFair()
	f.Tag("a", "x", 5, 1)
	f.Gone("a")
	if got := f.Tag("b", "x", 1, 1); got != 0 {
		t.Errorf("after a request that was withdrawn the next one begins at %v", got)
	}
	f.Gone("nobody")
	f.Served("nobody")
}

func TestIdleNamespacesAreForgotten(t *testing.T) {
	f := NewFair()
	for i := range 100 {
		f.Tag(fmt.Sprint(i), fmt.Sprint("ns", i), 1, 1)
		f.Served(fmt.Sprint(i))
		f.Tag(fmt.Sprint("x", i), "busy", 2, 1)
		f.Served(fmt.Sprint("x", i))
	}
	if len(f.ends) > 3 || len(f.tags) != 0 {
		t.Errorf("%d namespaces and %d tags are kept", len(f.ends), len(f.tags))
	}
	if slices.Max([]float64{f.now}) == 0 {
		t.Error("time stands still")
	}
}
