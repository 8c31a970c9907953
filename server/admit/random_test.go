package admit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
)

// anyModels draws models of all kinds.
func anyModels(r *rand.Rand) []Model {
	var models []Model
	for i := range 1 + r.IntN(4) {
		m := Model{Name: fmt.Sprint("m", i), Class: share.Class(r.IntN(3)), Queue: 1 + r.IntN(40),
			Bytes: int64(200 + r.IntN(5000)), Levels: r.IntN(4)}
		m.Batch.Max = []int{0, 1, 4, 8, 16}[r.IntN(5)]
		if m.Batch.Max > 1 {
			m.Batch.Delay = time.Duration(r.IntN(3)) * 2 * ms
			for n := 1; n <= m.Batch.Max; n++ {
				if r.IntN(5) == 0 {
					m.Batch.Preferred = append(m.Batch.Preferred, n)
				}
			}
		}
		m.Time = linear(time.Duration(r.IntN(4000))*time.Microsecond,
			time.Duration(100+r.IntN(900))*time.Microsecond)
		models = append(models, m)
	}
	return models
}

// TestRandomHistories holds, for histories of arrivals, cancellations, models that leave and change
// and forecasts that are exact: each request has one answer; whoever is answered is so in time;
// nobody is put out but for a better claim; bounds hold at all times; batches are of one signature
// and within their size; and the device is idle only where all wait for a delay.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		models := anyModels(r)
		accounts, exact := 1+r.IntN(4), seed%4 != 0
		w := newWorld(t, models...)
		if !exact {
			w.took = func(b Run) time.Duration {
				return b.Expect * time.Duration(5+r.IntN(15)) / 10
			}
		}
		w.seen = func(w *world, now time.Duration, d Decision) {
			w.c.verify(t)
			if root := w.c.plan.root; w.c.run == nil && root != nil &&
				(root.soonest <= now || root.latest <= now) {
				t.Fatalf("seed %d: the device is idle at %v", seed, now)
			}
		}
		for name := range accounts {
			if err := w.c.Account(fmt.Sprint(name), Account{Weight: float64(1 + name),
				Queue: r.IntN(2) * 20}); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Duration(0)
		for range 400 {
			now += time.Duration(r.ExpFloat64() * float64(ms))
			w.anything(r, now, models, accounts)
		}
		w.finish()
		for _, o := range w.all {
			late := o.Deadline > 0 && o.done > o.Deadline
			k := kind(o.out)
			if exact && late || exact && k == ErrLate && !w.sets[o.Model] {
				t.Fatalf("seed %d: request %d: done at %v, out %v: %+v", seed, o.ID, o.done, k, o)
			}
			if accounts == 1 && len(models) == 1 && models[0].Levels < 2 && k == ErrOutranked {
				t.Fatalf("seed %d: request %d was put out for one of its own", seed, o.ID)
			}
		}
		for _, b := range w.runs {
			for _, id := range b.Requests {
				if o := w.by[id]; o.Model != b.Model || o.Signature != b.Signature {
					t.Fatalf("seed %d: request %d ran with others", seed, id)
				}
			}
		}
	}
}

// anything does something.
func (w *world) anything(r *rand.Rand, now time.Duration, models []Model, accounts int) {
	m := models[r.IntN(len(models))]
	switch r.IntN(30) {
	case 0, 1:
		if len(w.all) > 0 {
			w.until(now)
			o := w.all[len(w.all)-1-r.IntN(min(len(w.all), 20))]
			if w.c.Cancel(now, o.ID) {
				o.gone = true
			}
			w.decide(now)
		}
		return
	case 2:
		w.until(now)
		w.c.Leave(now, m.Name, r.IntN(2) == 0)
		w.decide(now)
		return
	case 3:
		w.until(now)
		if err := w.c.Set(now, m); err != nil {
			w.t.Fatal(err)
		}
		w.sets[m.Name] = true
		w.decide(now)
		return
	}
	q := Request{Model: m.Name, Account: fmt.Sprint(r.IntN(accounts)), Rows: 1,
		Bytes: int64(r.IntN(200)), Signature: fmt.Sprint(r.IntN(2)), Priority: r.IntN(5)}
	if m.Batch.Max > 1 && r.IntN(3) == 0 {
		q.Rows = 1 + r.IntN(m.Batch.Max)
	}
	if r.IntN(4) > 0 {
		q.Deadline = now + time.Duration(r.IntN(40))*ms
	}
	_ = w.arrive(now, q)
}

// TestOverload is a load of twice what the device can, with deadlines of five times the service:
// nine tenths of the device at least do what is in time, and of what was admitted 99.9 %. Where
// accounts compete some of it is put out for those with better claims.
func TestOverload(t *testing.T) {
	for _, test := range []struct {
		name     string
		batch    Batch
		accounts int
	}{
		{"one at a time", Batch{}, 1}, {"batches", Batch{Max: 8}, 1},
		{"batches of four", Batch{Max: 8, Preferred: []int{4, 8}, Delay: ms}, 1},
		{"four accounts", Batch{Max: 8}, 4}, {"four accounts, one at a time", Batch{}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 7))
			m := simple("m", test.batch)
			m.Time = linear(700*time.Microsecond, 300*time.Microsecond)
			w := newWorld(t, m)
			most := max(test.batch.Max, 1)
			full := m.Time("", most)
			now, end := time.Duration(0), 20*time.Second
			for now < end {
				now += time.Duration(r.ExpFloat64() * float64(full) / float64(2*most))
				_ = w.arrive(now, Request{Model: "m", Deadline: now + 5*full,
					Account: fmt.Sprint(r.IntN(test.accounts))})
			}
			w.finish()
			admitted, good := 0, 0
			for _, o := range w.all {
				if o.refused == nil {
					admitted++
				}
				if o.done > 0 && o.done <= o.Deadline {
					good++
				}
			}
			goodput := float64(good) / (float64(end) / float64(full) * float64(most))
			onTime := float64(good) / float64(admitted)
			t.Logf("%d of %d admitted: goodput %.4f, on time %.5f", admitted, len(w.all), goodput,
				onTime)
			if goodput < 0.9 || onTime < 0.999 && test.accounts == 1 || onTime < 0.85 {
				t.Errorf("goodput is %.4f and on time %.5f: want 0.9 and 0.999", goodput, onTime)
			}
		})
	}
}

// TestFlood holds that an account which asks for less than its part has nearly as much of it in
// time beside one that asks for ten times the device as alone on a device of half the speed.
func TestFlood(t *testing.T) {
	for _, most := range []int{1, 8} {
		beside, all := flooded(t, most, 1)
		alone, _ := flooded(t, most, 2)
		t.Logf("batches of %d: of %d, %d in time, and %d alone", most, all, beside, alone)
		if float64(beside) < 0.95*float64(alone) {
			t.Errorf("batches of %d: %d in time and %d alone: want 95 %% of that", most, beside,
				alone)
		}
	}
}

// flooded returns how many requests of the account that asks for a quarter of the device are in
// time, of how many; on a slower device it is alone.
func flooded(t *testing.T, most int, slower time.Duration) (good, all int) {
	r := rand.New(rand.NewPCG(8, 8))
	m := simple("m", Batch{Max: most})
	m.Time = linear(slower*700*time.Microsecond, slower*300*time.Microsecond)
	w := newWorld(t, m)
	full := m.Time("", most) / slower
	for now := time.Duration(0); now < 10*time.Second; {
		now += time.Duration(r.ExpFloat64() * float64(full) / float64(10*most))
		q := Request{Model: "m", Account: "flood", Deadline: now + 5*full}
		if r.IntN(40) == 0 {
			q.Account = "small"
		} else if slower > 1 {
			continue
		}
		_ = w.arrive(now, q)
	}
	w.finish()
	for _, o := range w.all {
		if o.Account == "small" {
			if all++; o.done > 0 {
				good++
			}
		}
	}
	return good, all
}

// TestSlip holds that a batch that takes longer than forecast puts out who is late by it, as
// soon as that is known, and nobody else.
func TestSlip(t *testing.T) {
	w := newWorld(t, simple("m", Batch{}))
	w.took = func(r Run) time.Duration {
		if r.Requests[0] == 1 {
			return 3 * ms
		}
		return ms
	}
	for _, deadline := range []time.Duration{0, 2 * ms, 6 * ms} {
		if err := w.arrive(0, Request{Model: "m", Deadline: deadline}); err != nil {
			t.Fatal(err)
		}
	}
	w.until(ms + 1)
	if kind(w.by[2].out) != ErrLate {
		t.Errorf("request 2 has %v: want %v", w.by[2].out, ErrLate)
	}
	w.finish()
	if w.by[3].done != 4*ms {
		t.Errorf("request 3 was done at %v: want 4ms", w.by[3].done)
	}
}
