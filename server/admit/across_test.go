package admit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirgpu/weir/server/admit"
)

// device is a device in virtual time that computes one of the batches which go, each time the one
// that its own policy, which knows of no accounts, picks.
type device struct {
	a    *admit.Across
	pick *rand.Rand
	at   []*batch
	used map[string]time.Duration
}

// batch is a batch of an account that takes so long.
type batch struct {
	*admit.Turn
	of    *asker
	takes time.Duration
}

// asker asks by several models at a time, each of whose batches follows the one before.
type asker struct {
	name   string
	weight float64
	takes  time.Duration
	wrong  float64 // what its forecasts are of that
}

// ask has a batch come.
func (d *device) ask(o *asker) {
	b := &batch{of: o, takes: o.takes}
	b.Turn = d.a.Arrive(o.name, o.weight, time.Duration(float64(o.takes)*o.wrong))
	d.at = append(d.at, b)
}

// run computes until so much time has passed.
func (d *device) run(until time.Duration) {
	for now := time.Duration(0); now < until; {
		var can []int
		for i, b := range d.at {
			if b.Goes() {
				can = append(can, i)
			}
		}
		i := can[d.pick.IntN(len(can))]
		b := d.at[i]
		d.at = append(d.at[:i], d.at[i+1:]...)
		now += b.takes
		d.used[b.of.name] += b.takes
		d.a.Done(b.Turn, b.takes)
		d.ask(b.of)
	}
}

// TestAcross: accounts whose batches always wait have the device by their weights, however many
// models they ask, however long their batches take, and whatever was forecast.
func TestAcross(t *testing.T) {
	for _, c := range []struct {
		name   string
		askers []asker
		models []int // that each asks
		want   []float64
	}{
		{"one floods nine models", []asker{{"ann", 1, time.Millisecond, 1},
			{"bob", 1, time.Millisecond, 1}}, []int{9, 3}, []float64{0.5, 0.5}},
		{"long batches", []asker{{"ann", 1, 20 * time.Millisecond, 1},
			{"bob", 1, time.Millisecond, 1}}, []int{9, 4}, []float64{0.5, 0.5}},
		{"weights", []asker{{"ann", 1, time.Millisecond, 1}, {"bob", 3, 2 * time.Millisecond, 1},
			{"eve", 0, time.Millisecond, 1}}, []int{20, 4, 4}, []float64{0.2, 0.6, 0.2}},
		{"nothing was known", []asker{{"ann", 1, 10 * time.Millisecond, 0},
			{"bob", 1, time.Millisecond, 3}}, []int{9, 4}, []float64{0.5, 0.5}},
	} {
		d := &device{a: admit.NewAcross(2), pick: rand.New(rand.NewPCG(1, 2)),
			used: map[string]time.Duration{}}
		for i := range c.askers {
			for range c.models[i] {
				d.ask(&c.askers[i])
			}
		}
		const all = 20 * time.Second
		d.run(all)
		for i, o := range c.askers {
			if got := float64(d.used[o.name]) / float64(all); got < c.want[i]-0.03 ||
				got > c.want[i]+0.03 {
				t.Errorf("%s: %s has %.3f of the device, want %.3f", c.name, o.name, got, c.want[i])
			}
		}
	}
}

// TestAcrossPays: who has a part in a batch that goes by another's turn pays for it by its weight.
func TestAcrossPays(t *testing.T) {
	a := admit.NewAcross(1)
	one, two := a.Arrive("ann", 1, 1), a.Arrive("eve", 1, 1)
	a.Pay("bob", 0, 3*time.Second)
	a.Pay("cat", 2, 4*time.Second)
	if next := a.Done(one, time.Second); next != two {
		t.Fatalf("%+v goes", next)
	}
	bob, cat, ann := a.Arrive("bob", 1, 1), a.Arrive("cat", 2, 1), a.Arrive("ann", 1, 1)
	for i, want := range []*admit.Turn{ann, cat, bob} {
		if two = a.Done(two, 1); two != want {
			t.Errorf("%+v goes at place %d, want %+v", two, i, want)
		}
	}
}

// TestAcrossPaysFromNow: who pays for its part after long without an own batch pays all of it.
func TestAcrossPaysFromNow(t *testing.T) {
	a := admit.NewAcross(1)
	one, two := a.Arrive("ann", 1, time.Second), a.Arrive("ann", 1, time.Second)
	if next := a.Done(one, time.Second); next != two {
		t.Fatalf("%+v goes", next)
	}
	a.Pay("bob", 1, time.Second/2)
	bob, eve := a.Arrive("bob", 1, 1), a.Arrive("eve", 1, 1)
	if next := a.Done(two, time.Second); next != eve || a.Done(eve, 1) != bob {
		t.Errorf("%+v goes before who paid for nothing", next)
	}
}

// TestAcrossCancel: a batch that is cancelled costs its account nothing.
func TestAcrossCancel(t *testing.T) {
	a := admit.NewAcross(1)
	one, two := a.Arrive("ann", 1, time.Second), a.Arrive("ann", 1, time.Second)
	cat, last := a.Arrive("cat", 1, 3*time.Second/2), a.Arrive("cat", 1, 1)
	if !a.Cancel(two) {
		t.Fatal("it does not wait")
	}
	ann := a.Arrive("ann", 1, 1)
	if next := a.Done(one, time.Second); next != cat {
		t.Fatalf("%+v goes", next)
	}
	if next := a.Done(cat, 3*time.Second/2); next != ann || a.Done(ann, 1) != last {
		t.Errorf("%+v goes, and the cancelled batch was paid for", next)
	}
}

// TestAcrossIdle: nothing waits while there is room; who comes after long has no more than a
// newcomer; and a batch that is cancelled costs nothing.
func TestAcrossIdle(t *testing.T) {
	a := admit.NewAcross(1)
	one := a.Arrive("ann", 1, time.Second)
	two, three := a.Arrive("ann", 1, time.Second), a.Arrive("bob", 1, time.Second)
	if !one.Goes() || two.Goes() || three.Goes() {
		t.Fatal("one goes at a time")
	}
	if !a.Cancel(two) || a.Cancel(one) {
		t.Error("what waits is cancelled, and nothing else")
	}
	four := a.Arrive("ann", 1, time.Second)
	if next := a.Done(one, 10*time.Second); next != three || four.Goes() {
		t.Errorf("%+v goes", next)
	}
	if next := a.Done(three, time.Second); next != four || a.Done(four, time.Second) != nil {
		t.Errorf("%+v goes", next)
	}
	// all is done: what was is forgotten
	five := a.Arrive("ann", 1, time.Second)
	bob, ann := a.Arrive("bob", 1, time.Second), a.Arrive("ann", 1, time.Second)
	if next := a.Done(five, time.Second); next != bob || a.Done(bob, time.Second) != ann {
		t.Errorf("%+v goes", next)
	}
	a.Done(ann, time.Hour)
	six := a.Arrive("eve", 1, time.Second)
	ann, _ = a.Arrive("ann", 1, time.Second), a.Arrive("bob", 1, time.Second)
	if next := a.Done(six, time.Second); next != ann {
		t.Errorf("%+v goes, and what ann had before is not forgotten", next)
	}
}
