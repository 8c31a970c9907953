package admit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
)

// TestBatches is the meaning of the words of Triton's dynamic batching.
func TestBatches(t *testing.T) {
	type in struct {
		at, deadline time.Duration
		rows         int
		signature    string
	}
	for _, test := range []struct {
		name  string
		batch Batch
		in    []in
		rows  []int
		first time.Duration // when the first is done
	}{
		{"alone without delay", Batch{Max: 8}, []in{{}}, []int{1}, ms},
		{"what waits goes together", Batch{Max: 8}, []in{{}, {}, {}, {}}, []int{1, 3}, ms},
		{"no more than the most", Batch{Max: 2}, []in{{}, {}, {}, {}}, []int{1, 2, 1}, ms},
		{"delay", Batch{Max: 8, Delay: 5 * ms}, []in{{}, {at: 2 * ms}}, []int{2}, 7 * ms},
		{"full before the delay", Batch{Max: 2, Delay: 5 * ms}, []in{{}, {at: 2 * ms}}, []int{2},
			4 * ms},
		{"preferred before the delay", Batch{Max: 8, Delay: 5 * ms, Preferred: []int{2}},
			[]in{{}, {at: 2 * ms}}, []int{2}, 4 * ms},
		{"a deadline before the delay", Batch{Max: 8, Delay: 5 * ms},
			[]in{{}, {at: ms, deadline: 5 * ms}}, []int{2}, 5 * ms},
		{"the largest preferred", Batch{Max: 8, Preferred: []int{2, 4}},
			[]in{{}, {}, {}, {}, {}, {}}, []int{1, 4, 1}, ms},
		{"all once the delay has passed", Batch{Max: 8, Preferred: []int{1, 2}, Delay: ms / 2},
			[]in{{}, {}, {}, {}}, []int{1, 3}, ms},
		{"signatures apart", Batch{Max: 8}, []in{{}, {}, {signature: "b"}, {}, {signature: "b"}},
			[]int{1, 2, 2}, ms},
		{"never split", Batch{Max: 4}, []in{{}, {rows: 3}, {rows: 2}, {rows: 2}}, []int{1, 3, 4},
			ms},
		{"closed by one that does not fit", Batch{Max: 4, Delay: 5 * ms}, []in{{rows: 3},
			{at: ms, rows: 2}}, []int{3, 2}, 4 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, simple("m", test.batch))
			for _, r := range test.in {
				if err := w.arrive(r.at, Request{Model: "m", Rows: r.rows, Deadline: r.deadline,
					Signature: r.signature}); err != nil {
					t.Fatal(err)
				}
			}
			w.finish()
			if got := w.rowsOf(); !slices.Equal(got, test.rows) {
				t.Errorf("batches are of %v rows: want %v", got, test.rows)
			}
			if w.all[0].done != test.first {
				t.Errorf("the first was done at %v: want %v", w.all[0].done, test.first)
			}
		})
	}
}

// TestRefusals is each kind, and after how long to ask again.
func TestRefusals(t *testing.T) {
	w := newWorld(t, simple("m", Batch{}), simple("b", Batch{Max: 2}))
	small := simple("small", Batch{})
	small.Queue, small.Bytes = 2, 100
	if err := w.c.Set(0, small); err != nil {
		t.Fatal(err)
	}
	if err := w.c.Account("poor", Account{Queue: 1}); err != nil {
		t.Fatal(err)
	}
	for i, test := range []struct {
		q     Request
		kind  error
		after time.Duration
	}{
		{Request{Model: "m"}, nil, 0}, // runs until 1 ms
		{Request{Model: "x"}, ErrModel, 0},
		{Request{Model: "m", Rows: 2}, ErrInvalid, 0},
		{Request{Model: "m", Deadline: ms / 2}, ErrLate, 0}, // not even alone
		{Request{Model: "m", Deadline: 3 * ms / 2}, ErrLate, ms / 2},
		{Request{Model: "small", Bytes: 101}, ErrInvalid, 0},
		{Request{Model: "small", Bytes: -1}, ErrInvalid, 0},
		{Request{Model: "small", Bytes: 60}, nil, 0},
		{Request{Model: "small", Bytes: 60}, ErrFull, ms},
		{Request{Model: "small", Bytes: 40}, nil, 0},
		{Request{Model: "small"}, ErrFull, 2 * ms},
		{Request{Model: "m", Account: "poor"}, nil, 0},
		{Request{Model: "m", Account: "poor"}, ErrAccount, ms},
	} {
		err := w.arrive(0, test.q)
		var after time.Duration
		if r, ok := err.(*Refusal); ok {
			after = r.RetryAfter
			if r.Yours() != (test.kind == ErrAccount) {
				t.Errorf("%d: %v is the account's own: %v", i, err, r.Yours())
			}
		}
		if kind(err) != test.kind || after != test.after {
			t.Errorf("%d: %v: want %v, again in %v", i, err, test.kind, test.after)
		}
	}
	w.c.Leave(0, "small", false)
	if err := w.arrive(0, Request{Model: "small"}); kind(err) != ErrLeaving {
		t.Errorf("%v: want %v", err, ErrLeaving)
	}
	w.finish()
	if err := w.arrive(9*ms, Request{Model: "small"}); kind(err) != ErrModel {
		t.Errorf("%v: want %v", err, ErrModel)
	}
	if got := (&Refusal{RetryAfter: time.Second + 1}).Seconds(); got != 2 {
		t.Errorf("%d seconds: want 2", got)
	}
}

// TestUrgent holds that classes and priorities go first, and that who is behind them has a turn.
func TestUrgent(t *testing.T) {
	urgent, idle := simple("urgent", Batch{}), simple("idle", Batch{})
	urgent.Class, urgent.Levels, urgent.Default = share.Latency, 2, 2
	idle.Class = share.Opportunistic
	w := newWorld(t, urgent, idle)
	for _, q := range []Request{{Model: "urgent"}, {Model: "idle"}, {Model: "urgent", Priority: 2},
		{Model: "urgent", Priority: 1}, {Model: "urgent", Priority: 9}} {
		if err := w.arrive(0, q); err != nil {
			t.Fatal(err)
		}
	}
	w.finish()
	var order []uint64
	for _, r := range w.runs {
		order = append(order, r.Requests...)
	}
	if want := []uint64{1, 4, 3, 5, 2}; !slices.Equal(order, want) {
		t.Errorf("they ran in order %v: want %v", order, want)
	}
	w = newWorld(t, urgent, idle)
	_ = w.arrive(0, Request{Model: "urgent"})
	_ = w.arrive(0, Request{Model: "idle", Account: "b"})
	for now := ms / 4; w.by[2].done == 0; now += ms / 2 {
		_ = w.arrive(now, Request{Model: "urgent", Deadline: now + 10*ms})
		if bound := 2 * 2 * DefaultPatience; now > bound {
			t.Fatalf("the idle class has had no turn within %v", bound)
		}
	}
	if least := DefaultPatience; w.by[2].done < least {
		t.Errorf("the idle class had its turn after %v: want %v at least", w.by[2].done, least)
	}
}

// TestPutOut holds that a flood makes room for who comes late, in a full queue and before
// deadlines.
func TestPutOut(t *testing.T) {
	for _, deadline := range []time.Duration{0, 10 * ms} {
		m := simple("m", Batch{})
		m.Queue = 9
		w := newWorld(t, m)
		for range 10 {
			err := w.arrive(0, Request{Model: "m", Account: "flood", Deadline: deadline})
			if err != nil {
				t.Fatal(err)
			}
		}
		err := w.arrive(0, Request{Model: "m", Account: "late", Deadline: deadline})
		if err != nil {
			t.Fatal(err)
		}
		w.finish()
		if kind(w.by[10].out) != ErrOutranked || w.by[11].done > 3*ms {
			t.Errorf("the last of the flood has %v, the other was done at %v", w.by[10].out,
				w.by[11].done)
		}
	}
}

// fluid is generalized processor sharing (Parekh and Gallager, 1993): all who have work are served
// at once, by weight. It returns when each is done.
func fluid(all []*outcome, weight map[string]float64, cost func(*outcome) float64) []float64 {
	done := make([]float64, len(all))
	queue := map[string][]int{}
	left := make([]float64, len(all))
	now, next := 0.0, 0
	for next < len(all) || len(queue) > 0 {
		sum, first := 0.0, math.Inf(1)
		for a := range queue {
			sum += weight[a]
		}
		for a, q := range queue {
			first = min(first, now+left[q[0]]*sum/weight[a])
		}
		to := first
		if next < len(all) {
			to = min(to, float64(all[next].at))
		}
		for a, q := range queue {
			left[q[0]] -= (to - now) * weight[a] / sum
			if left[q[0]] <= 1 { // a nanosecond
				done[q[0]] = to
				if queue[a] = q[1:]; len(q) == 1 {
					delete(queue, a)
				}
			}
		}
		for now = to; next < len(all) && float64(all[next].at) <= now; next++ {
			a := all[next].Account
			left[next] = cost(all[next])
			queue[a] = append(queue[a], next)
		}
	}
	return done
}

// TestFairness holds that no request is done later than under the ideal fluid sharing by more than
// one request of each other account and one of its own, in the account's part of the device, while
// others flood.
func TestFairness(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		m := simple("m", Batch{})
		m.Queue = 1 << 20
		m.Time = func(s string, _ int) time.Duration { return time.Duration(len(s)) * ms }
		w := newWorld(t, m)
		accounts := 2 + r.IntN(4)
		weight, sum := map[string]float64{}, 0.0
		for a := range accounts {
			name := fmt.Sprint(a)
			weight[name] = float64(1 + r.IntN(4))
			sum += weight[name]
			if err := w.c.Account(name, Account{Weight: weight[name]}); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Duration(0)
		for range 600 {
			now += time.Duration(r.ExpFloat64() * float64(2*ms))
			a := max(0, r.IntN(2*accounts)-accounts) // the first floods
			if err := w.arrive(now, Request{Model: "m", Account: fmt.Sprint(a),
				Signature: "xxxx"[:1+r.IntN(4)]}); err != nil {
				t.Fatal(err)
			}
		}
		w.finish()
		ideal := fluid(w.all, weight, func(o *outcome) float64 {
			return float64(len(o.Signature)) * float64(ms)
		})
		for i, o := range w.all {
			bound := float64(4*ms) * (float64(accounts) + sum/weight[o.Account])
			if over := float64(o.done) - ideal[i]; over > bound {
				t.Fatalf("seed %d: request %d of account %s was done %v after the ideal: bound %v",
					seed, o.ID, o.Account, time.Duration(over), time.Duration(bound))
			}
		}
	}
}

// TestFairBatches holds that accounts that flood have the device by weight where they share batches
// or have batches of unlike cost.
func TestFairBatches(t *testing.T) {
	m := simple("m", Batch{Max: 8})
	m.Queue = 100
	m.Time = linear(2*ms, ms/4)
	w := newWorld(t, m)
	for name, weight := range map[string]float64{"a": 1, "b": 3} {
		if err := w.c.Account(name, Account{Weight: weight}); err != nil {
			t.Fatal(err)
		}
	}
	used := map[string]time.Duration{}
	for now := time.Duration(0); now < 20*time.Second; now += ms / 4 {
		_ = w.arrive(now, Request{Model: "m", Account: "a", Rows: 5, Signature: "a"})
		_ = w.arrive(now, Request{Model: "m", Account: "b", Signature: "b"})
	}
	for _, r := range w.runs {
		used[w.by[r.Requests[0]].Account] += r.Expect
	}
	if ratio := float64(used["b"]) / float64(used["a"]); ratio < 2.8 || ratio > 3.2 {
		t.Errorf("accounts of weights 1 and 3 used %v", used)
	}
}

// TestLabels holds that an account gains no part of the device by calling half of its requests
// urgent.
func TestLabels(t *testing.T) {
	m := simple("m", Batch{})
	m.Queue, m.Levels = 40, 2
	w := newWorld(t, m)
	for now := time.Duration(0); now < 40*time.Second; now += ms / 2 {
		_ = w.arrive(now, Request{Model: "m", Account: "a", Priority: 1 + int(now/ms)%2})
		_ = w.arrive(now, Request{Model: "m", Account: "b", Priority: 1})
	}
	used := map[string]int{}
	for _, r := range w.runs {
		used[w.by[r.Requests[0]].Account]++
	}
	if ratio := float64(used["a"]) / float64(used["b"]); ratio < 0.95 || ratio > 1.05 {
		t.Errorf("accounts of equal weight had %v", used)
	}
}

// TestBuckets holds the choice of sizes against all others.
func TestBuckets(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		lengths := make([]int, 1+r.IntN(12))
		for i := range lengths {
			lengths[i] = 1 + r.IntN(9)
		}
		n := 1 + r.IntN(4)
		got := Buckets(lengths, n)
		best := math.MaxInt
		for set := range 1 << 9 {
			var sizes []int
			for i := range 9 {
				if set>>i&1 == 1 {
					sizes = append(sizes, i+1)
				}
			}
			if s, ok := padded(sizes, lengths); ok && len(sizes) <= n {
				best = min(best, s)
			}
		}
		if s, ok := padded(got, lengths); !ok || s != best || len(got) > n {
			t.Fatalf("seed %d: %v in %d buckets %v: %d, want %d", seed, lengths, n, got, s, best)
		}
	}
}

func padded(sizes, lengths []int) (sum int, ok bool) {
	for _, l := range lengths {
		b, ok := Bucket(sizes, l)
		if !ok {
			return 0, false
		}
		sum += b
	}
	return sum, true
}

// BenchmarkDecide is an arrival, and each eighth time a batch, with 10^4 requests waiting.
func BenchmarkDecide(b *testing.B) {
	for _, most := range []int{1, 8} {
		b.Run(fmt.Sprint("batch=", most), func(b *testing.B) {
			c, _ := New(Options{})
			m := simple("m", Batch{Max: most})
			m.Queue, m.Time = 10000, linear(ms, ms)
			_ = c.Set(0, m)
			id, now, admitted := uint64(0), time.Duration(0), 0
			arrive := func() {
				id++
				account := [...]string{"a", "b", "c", "d", "e", "f", "g", "h"}[id*id%11%8]
				err := c.Arrive(now, Request{ID: id, Model: "m", Account: account, Rows: 1,
					Deadline: now + time.Hour})
				if err == nil {
					admitted++
				}
			}
			for range 10000 {
				arrive()
			}
			c.Decide(now)
			admitted = 0
			b.ResetTimer()
			for i := range b.N {
				arrive()
				if i%most == 0 {
					now += m.Time("", most)
					_ = c.Done(now, m.Time("", most))
				}
				c.Decide(now)
			}
			b.ReportMetric(float64(admitted)/float64(b.N), "admitted/op")
			b.ReportMetric(float64(len(c.requests)), "waiting")
		})
	}
}

// TestOwnOrder: what goes back to an account because its requests took less than was forecast does
// not put those that it asks for later before those that wait.
func TestOwnOrder(t *testing.T) {
	w := newWorld(t, simple("m", Batch{}))
	c := w.c
	arrive := func(id uint64) {
		t.Helper()
		if err := c.Arrive(0, Request{ID: id, Model: "m", Rows: 1}); err != nil {
			t.Fatal(err)
		}
	}
	var order []uint64
	next := func() {
		t.Helper()
		if d := c.Decide(0); d.Run != nil {
			order = append(order, d.Run.Requests...)
		}
	}
	for id := range uint64(4) {
		arrive(id + 1)
	}
	next()
	for i := range 4 {
		if err := c.Done(0, 1); err != nil { // at once
			t.Fatal(err)
		}
		next()
		if i == 1 {
			arrive(5) // while the third runs and the fourth waits
		}
	}
	if !slices.IsSorted(order) || len(order) != 5 {
		t.Errorf("they ran in the order %v", order)
	}
}

// TestIdleForgets: once nothing waits and nothing runs, an account that has had much goes before
// another that comes after it.
func TestIdleForgets(t *testing.T) {
	c := newWorld(t, simple("m", Batch{})).c
	arrive := func(id uint64, account string) {
		t.Helper()
		if err := c.Arrive(0, Request{ID: id, Model: "m", Rows: 1, Account: account}); err != nil {
			t.Fatal(err)
		}
	}
	for id := range uint64(9) {
		arrive(id+1, "a")
		c.Decide(0)
		if err := c.Done(0, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	arrive(10, "a")
	arrive(11, "b")
	if d := c.Decide(0); d.Run == nil || !slices.Equal(d.Run.Requests, []uint64{10}) {
		t.Errorf("it runs %+v", d.Run)
	}
}

// TestCrowd: of many accounts, those that owe nothing are forgotten, and no other is.
func TestCrowd(t *testing.T) {
	m := simple("m", Batch{})
	m.Queue = 4 * sweep
	c := newWorld(t, m).c
	id := uint64(0)
	arrive := func(account string) uint64 {
		t.Helper()
		id++
		if err := c.Arrive(0, Request{ID: id, Model: "m", Rows: 1, Account: account}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	arrive("greedy")
	c.Decide(0)
	arrive("other")
	if err := c.Done(0, time.Second); err != nil { // of which a millisecond was forecast
		t.Fatal(err)
	}
	c.Decide(0)
	for i := range 3 * sweep {
		if !c.Cancel(0, arrive(fmt.Sprint(i))) {
			t.Fatal("it does not wait")
		}
	}
	if n := len(c.accounts); n > 2*sweep {
		t.Errorf("%d accounts are known, of which two have something", n)
	}
	greedy, late := arrive("greedy"), arrive("late")
	if err := c.Done(0, ms); err != nil {
		t.Fatal(err)
	}
	if d := c.Decide(0); d.Run == nil || d.Run.Requests[0] != late {
		t.Errorf("%+v runs, of %d and %d", d.Run, greedy, late)
	}
}

// TestSpare holds that a request behind others is let in only with what it must have to spare, that
// it is then not put out for what those take more, and that an idle device asks for none.
func TestSpare(t *testing.T) {
	w := newWorld(t, simple("m", Batch{}))
	w.took = func(r Run) time.Duration {
		if r.Requests[0] == 1 {
			return ms + ms/5
		}
		return ms
	}
	if err := w.arrive(0, Request{Model: "m", Deadline: ms + ms/5, Spare: ms}); err != nil {
		t.Fatal(err)
	}
	err := w.arrive(0, Request{Model: "m", Deadline: 2*ms + ms/5, Spare: ms / 4})
	if kind(err) != ErrLate {
		t.Errorf("with less to spare: %v, want %v", err, ErrLate)
	}
	if err := w.arrive(0, Request{Model: "m", Deadline: 2*ms + ms/4, Spare: ms / 4}); err != nil {
		t.Fatal(err)
	}
	w.finish()
	if r := w.by[3]; r.out != nil || r.done != 2*ms+ms/5 {
		t.Errorf("it was done at %v, put out: %v", r.done, r.out)
	}
}

// waiting has a batch of request 1 run for a millisecond, and the others of an account wait, of
// which the last has to be done at a time.
func waiting(t *testing.T, m Model, others int, deadline time.Duration) *world {
	t.Helper()
	w := newWorld(t, m)
	for i := range others + 1 {
		q := Request{Model: "m", Account: "ann"}
		if i == others {
			q.Deadline = deadline
		}
		if err := w.arrive(0, q); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// ran is which requests ran together.
func (w *world) ran() (list [][]uint64) {
	for _, r := range w.runs {
		list = append(list, r.Requests)
	}
	return list
}

// TestTakesAPlace holds that a request with a better claim takes another's place in a full batch,
// which goes to the next one, where a batch of its own would make somebody late.
func TestTakesAPlace(t *testing.T) {
	m := simple("m", Batch{Max: 2})
	m.Time = linear(ms, 0)
	w := waiting(t, m, 3, 3*ms) // 2 and 3 together, and then 4
	if err := w.arrive(0, Request{Model: "m", Account: "bob"}); err != nil {
		t.Fatal(err)
	}
	w.finish()
	if got := fmt.Sprint(w.ran()); got != "[[1] [5 2] [3 4]]" || w.by[4].out != nil {
		t.Errorf("ran %v, and the last was put out: %v", got, w.by[4].out)
	}
}

// TestTimeToGrow holds that a new batch behind another of its group has the time of a full one
// before its own deadline.
func TestTimeToGrow(t *testing.T) {
	m := simple("m", Batch{Max: 4})
	w := waiting(t, m, 4, 0) // until 5 ms
	err := w.arrive(0, Request{Model: "m", Account: "ann", Deadline: 9*ms - 1})
	if r, ok := err.(*Refusal); !ok || r.Kind != ErrLate || r.RetryAfter != 1 {
		t.Errorf("without the time to grow: %v", err)
	}
	if err := w.arrive(0, Request{Model: "m", Account: "ann", Deadline: 9 * ms}); err != nil {
		t.Error(err)
	}
	w.finish()
}

// TestFillsInTime holds that a batch takes nobody along by whom its own deadline would be missed.
func TestFillsInTime(t *testing.T) {
	m := simple("m", Batch{Max: 4})
	m.Time = linear(ms, ms)
	w := waiting(t, m, 1, 4*ms)
	if err := w.arrive(0, Request{Model: "m", Account: "ann"}); err != nil {
		t.Fatal(err)
	}
	w.finish()
	if got := fmt.Sprint(w.ran()); got != "[[1] [2] [3]]" || w.by[2].done != 4*ms {
		t.Errorf("ran %v, the second until %v", got, w.by[2].done)
	}
}
