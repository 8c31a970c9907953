package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/server/admit"
)

// item is a request of these tests.
type item struct {
	name string
	rows int
}

// line is a queue whose batches take a millisecond and another for each row, unless they are cut
// off, and what ran on it.
type line struct {
	*Queue[*item]
	mu      sync.Mutex
	batches []string
	dropped []string
	fails   error
	reads   time.Duration // that a run reads its requests before it says so
}

func newLine(t *testing.T, m admit.Model) *line {
	t.Helper()
	l := &line{}
	m.Name, m.Time = "m", func(string, int) time.Duration { return 1 }
	if m.Queue == 0 {
		m.Queue = 100
	}
	m.Bytes = 1 << 20
	q, err := New(m, Options[*item]{Run: l.run, Drop: func(i *item) {
		l.dropped = append(l.dropped, i.name)
	}})
	if err != nil {
		t.Fatal(err)
	}
	l.Queue = q
	return l
}

func (l *line) run(ctx context.Context, batch []*item, copied func()) error {
	names, rows := "", 0
	for _, i := range batch {
		names += i.name
		rows += i.rows
	}
	l.mu.Lock()
	l.batches = append(l.batches, names)
	l.mu.Unlock()
	time.Sleep(l.reads)
	copied()
	select {
	case <-time.After(time.Duration(1+rows) * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	return l.fails
}

// do asks in a goroutine of its own, and returns where the outcome comes.
func (l *line) do(ctx context.Context, name string, rows int) <-chan error {
	c := make(chan error, 1)
	go func() {
		c <- l.Do(ctx, Request{Rows: rows, Signature: "s"}, &item{name: name, rows: rows})
	}()
	synctest.Wait()
	return c
}

// TestBatches: what waits runs together, as many rows as may, in order; one alone at once.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, admit.Model{Batch: admit.Batch{Max: 4}})
		began := time.Now()
		var outcomes []<-chan error
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			outcomes = append(outcomes, l.do(t.Context(), name, 1))
		}
		for _, c := range outcomes {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
		if want := []string{"a", "bcde", "fg"}; !slices.Equal(l.batches, want) {
			t.Errorf("batches %v, want %v", l.batches, want)
		}
		if took := time.Since(began); took != 10*time.Millisecond {
			t.Errorf("took %v", took)
		}
		l.fails = errors.New("broken")
		if err := <-l.do(t.Context(), "h", 1); !errors.Is(err, l.fails) {
			t.Errorf("a run that fails: %v", err)
		}
		if err := <-l.do(t.Context(), "i", 5); !errors.Is(err, admit.ErrInvalid) {
			t.Errorf("too many rows: %v", err)
		}
		if n := l.Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

// TestDelay: a model with a delay waits for more requests, and no longer.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, admit.Model{Batch: admit.Batch{Max: 4, Delay: time.Second}})
		began := time.Now()
		a := l.do(t.Context(), "a", 1)
		time.Sleep(time.Second / 2)
		b := l.do(t.Context(), "b", 1)
		if err := errors.Join(<-a, <-b); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Second+3*time.Millisecond ||
			!slices.Equal(l.batches, []string{"ab"}) {
			t.Errorf("%v after %v", l.batches, took)
		}
	})
}

// TestDeadlines: who cannot be on time, by what earlier batches took, is refused at once, with the
// time after which to ask again; who could never be, without one; and who is refused though nobody
// waits is not refused for good.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, admit.Model{})
		for range 9 {
			if err := <-l.do(t.Context(), "a", 1); err != nil {
				t.Error(err)
			}
		}
		if f := l.Forecast("s", 1); f < 2*time.Millisecond || f > 3*time.Millisecond {
			t.Errorf("a batch of 2 ms is forecast to take %v", f)
		}
		within := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		began := time.Now()
		first, second := l.do(t.Context(), "b", 1), l.do(t.Context(), "c", 1)
		var r *admit.Refusal
		if err := <-l.do(within(5*time.Millisecond), "d", 1); !errors.As(err, &r) ||
			!errors.Is(err, admit.ErrLate) || r.RetryAfter <= 0 || time.Since(began) > 0 {
			t.Errorf("behind two others: %v after %v", err, time.Since(began))
		}
		// three batches, each as long as is forecast, and no time to spare beside
		if err := <-l.do(within(3*l.Forecast("s", 1)+time.Microsecond), "d", 1); !errors.Is(err,
			admit.ErrLate) {
			t.Errorf("behind two others, with nothing to spare: %v", err)
		}
		if err := <-l.do(within(time.Millisecond), "d", 1); !errors.As(err, &r) ||
			r.RetryAfter != 0 {
			t.Errorf("without time: %v", err)
		}
		if err := errors.Join(<-first, <-second, <-l.do(within(3*time.Millisecond), "e",
			1)); err != nil {
			t.Error(err)
		}
		// the device was slow for a while, and is quick again
		l.mu.Lock()
		l.times.curves["s"].seen[0].mean *= 100
		l.mu.Unlock()
		for n := 0; ; n++ {
			err := <-l.do(within(10*time.Millisecond), "f", 1)
			if err == nil {
				break
			}
			if !errors.Is(err, admit.ErrLate) || n > 100 {
				t.Fatalf("after %d refusals: %v", n, err)
			}
		}
		if time.Since(began) > 20*time.Millisecond {
			t.Error("refusals took time")
		}
	})
}

// TestCutOff: batches that are cut off by their deadlines are known to take as long.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, admit.Model{Batch: admit.Batch{Max: 100}})
		try := func(d time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			return <-l.do(ctx, "a", 100)
		}
		if err := try(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first: %v", err)
		}
		if err := try(50 * time.Millisecond); !errors.Is(err, admit.ErrLate) {
			t.Errorf("the next: %v", err)
		}
	})
}

// TestGone: who gives up returns at once and costs nothing, waiting or running, as a batch's first
// or another; the others have their answers, and a batch that nobody waits for ends.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, admit.Model{Batch: admit.Batch{Max: 8}})
		contexts := map[string]context.CancelFunc{}
		outcome := map[string]<-chan error{}
		for _, name := range []string{"a", "b", "c", "d"} {
			ctx, cancel := context.WithCancel(t.Context())
			contexts[name] = cancel
			outcome[name] = l.do(ctx, name, 1)
		}
		gone := func(name string, leads bool) {
			t.Helper()
			began := time.Now()
			contexts[name]()
			if err := <-outcome[name]; !errors.Is(err, context.Canceled) ||
				!leads && time.Since(began) > 0 {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		}
		gone("c", false) // which waits
		gone("a", false) // whose run ends with it
		synctest.Wait()  // b and d run
		if want := []string{"a", "bd"}; !slices.Equal(l.batches, want) {
			t.Fatalf("batches %v, want %v", l.batches, want)
		}
		gone("b", true) // which leads
		if err := <-outcome["d"]; err != nil {
			t.Errorf("d: %v", err)
		}
		if !slices.Equal(l.dropped, []string{"b"}) {
			t.Errorf("dropped %v", l.dropped)
		}
		l.batches = nil
		for _, name := range []string{"x", "a", "b", "c"} {
			ctx, cancel := context.WithCancel(t.Context())
			contexts[name] = cancel
			outcome[name] = l.do(ctx, name, 1)
		}
		if err := <-outcome["x"]; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		began := time.Now()
		gone("c", false)
		contexts["a"]()
		synctest.Wait()
		gone("b", false)
		if err := <-outcome["a"]; !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
			t.Errorf("a batch that nobody waits for: %v after %v", err, time.Since(began))
		}
		if want := []string{"x", "abc"}; !slices.Equal(l.batches, want) {
			t.Errorf("batches %v, want %v", l.batches, want)
		}
	})
}

// TestGoneIsRead: one that gives up while its batch still reads it is kept for that long, since its
// inputs are its client's own afterwards.
func TestGoneIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, admit.Model{Batch: admit.Batch{Max: 8}})
		l.reads = 10 * time.Millisecond
		first := l.do(t.Context(), "a", 1)
		ctx, cancel := context.WithCancel(t.Context())
		second, third := l.do(t.Context(), "b", 1), l.do(ctx, "c", 1)
		<-first
		synctest.Wait() // b and c run
		began := time.Now()
		cancel()
		if err := <-third; !errors.Is(err, context.Canceled) || time.Since(began) != l.reads {
			t.Errorf("%v after %v, and it was read for %v", err, time.Since(began), l.reads)
		}
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}

// TestForecastsAreBounded: clients choose signatures, and take no more memory by many of them; and
// one batch that took very long is not what others are refused by.
func TestForecastsAreBounded(t *testing.T) {
	f := newForecasts()
	for i := range 3 * most {
		f.observe(fmt.Sprint(i), 1, time.Millisecond)
	}
	if n := len(f.curves); n != most {
		t.Errorf("%d signatures are remembered", n)
	}
	for range 20 {
		f.observe("s", 1, time.Millisecond)
	}
	f.observe("s", 1, time.Minute)
	f.publish(0)
	if d := f.time("s", 1); d > 10*time.Millisecond {
		t.Errorf("after 20 of 1 ms and one of a minute, the forecast is %v", d)
	}
}

// TestLeave: a queue that ends serves who waits, or puts them out, and takes nobody else.
func TestLeave(t *testing.T) {
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(t, admit.Model{})
			first, second := l.do(t.Context(), "a", 1), l.do(t.Context(), "b", 1)
			l.Leave(all)
			if err := <-l.do(t.Context(), "c", 1); !errors.Is(err, admit.ErrLeaving) {
				t.Errorf("a late one: %v", err)
			}
			if err := <-second; all != errors.Is(err, admit.ErrLeaving) {
				t.Errorf("one that waits: %v", err)
			}
			if err := <-first; err != nil {
				t.Errorf("one that runs: %v", err)
			}
			if err := l.Set(l.model); err != nil {
				t.Error(err)
			}
			if err := <-l.do(t.Context(), "d", 1); !errors.Is(err, admit.ErrModel) {
				t.Errorf("one that comes when all is done: %v", err)
			}
		})
	}
}

// TestPanic: a run that panics ends its batch, with errors, and not the queue.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics atomic.Bool
		q, err := New(admit.Model{Name: "m", Queue: 9, Bytes: 9, Batch: admit.Batch{Max: 9},
			Time: func(string, int) time.Duration { return 1 }}, Options[int]{
			Run: func(context.Context, []int, func()) error {
				time.Sleep(time.Second)
				if panics.Load() {
					panic("a bug")
				}
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		do := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = errors.New("panicked")
				}
			}()
			return q.Do(t.Context(), Request{Rows: 1}, 1)
		}
		outcomes := make(chan error, 9)
		for range 3 {
			go func() { outcomes <- do() }()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		panics.Store(true)
		var texts []string
		for range 3 {
			texts = append(texts, fmt.Sprint(<-outcomes))
		}
		slices.Sort(texts)
		if want := []string{"<nil>", "panicked", errLost.Error()}; !slices.Equal(texts, want) {
			slices.Sort(want)
			if !slices.Equal(texts, want) {
				t.Errorf("outcomes %q, want %q", texts, want)
			}
		}
		panics.Store(false)
		if err := do(); err != nil {
			t.Errorf("the next: %v", err)
		}
	})
}

// TestWeights: a weight that cannot be is refused, and not only the first time that it comes.
func TestWeights(t *testing.T) {
	l := newLine(t, admit.Model{})
	for _, weight := range []float64{1000, 1000, 0.001, -1} {
		err := l.Do(t.Context(), Request{Account: "ann", Weight: weight, Rows: 1},
			&item{"a", 1})
		if !errors.Is(err, admit.ErrInvalid) {
			t.Errorf("weight %v: %v", weight, err)
		}
	}
	for _, weight := range []float64{100, 0.01, 0, 1} {
		if err := l.Do(t.Context(), Request{Account: "ann", Weight: weight, Rows: 1},
			&item{"a", 1}); err != nil {
			t.Errorf("weight %v: %v", weight, err)
		}
	}
}

// TestPutOutUnsaid: a request whose context ends in the moment in which admission finds it late,
// and before anybody was told, is late, and not answered.
func TestPutOutUnsaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, admit.Model{})
		first := l.do(t.Context(), "a", 1) // for 2 ms
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		second := l.do(ctx, "b", 1)
		synctest.Wait()
		l.Queue.mu.Lock()
		if l.wake == nil || len(l.waiting) != 1 {
			t.Fatal("nobody waits until a time")
		}
		l.wake.Stop() // as if it came later than the context's end
		l.Queue.mu.Unlock()
		if err := <-second; !errors.Is(err, admit.ErrLate) {
			t.Errorf("who was put out: %v", err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// TestRandom: whatever comes and goes, every request has one outcome, runs at most once, in a batch
// that is not too large, and nothing is left.
func TestRandom(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng, times := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			const most = 8
			ran := map[int]int{}
			var mu sync.Mutex
			q, err := New(admit.Model{Name: "m", Queue: 20, Bytes: 1000, Levels: 3,
				Batch: admit.Batch{Max: most, Delay: time.Duration(seed%3) * time.Millisecond},
				Time:  func(string, int) time.Duration { return 1 }}, Options[[2]int]{
				Run: func(ctx context.Context, batch [][2]int, copied func()) error {
					rows := 0
					mu.Lock()
					for _, i := range batch {
						ran[i[0]]++
						rows += i[1]
					}
					took := time.Duration(times.IntN(2000)) * time.Microsecond
					mu.Unlock()
					if rows > most {
						t.Errorf("a batch of %d rows", rows)
					}
					copied()
					select {
					case <-time.After(took):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}, Drop: func([2]int) {}})
			if err != nil {
				t.Fatal(err)
			}
			var wait sync.WaitGroup
			var answered, failed atomic.Int64
			for n := range 300 {
				rows := 1 + rng.IntN(4)
				d := time.Duration(rng.IntN(20)) * time.Millisecond
				r := Request{Account: fmt.Sprint(rng.IntN(3)), Weight: float64(rng.IntN(3)),
					Rows: rows, Bytes: 1, Signature: fmt.Sprint(rng.IntN(2)),
					Priority: rng.IntN(4)}
				kind := rng.IntN(3)
				wait.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					switch kind {
					case 1:
						ctx, cancel = context.WithTimeout(ctx, d)
						defer cancel()
					case 2:
						time.AfterFunc(d, cancel)
					}
					if q.Do(ctx, r, [2]int{n, rows}) == nil {
						answered.Add(1)
						mu.Lock()
						defer mu.Unlock()
						if ran[n] == 0 {
							t.Errorf("request %d has an answer and did not run", n)
						}
					} else {
						failed.Add(1)
					}
				})
				time.Sleep(time.Duration(rng.IntN(1500)) * time.Microsecond)
			}
			wait.Wait()
			for n, times := range ran {
				if times != 1 {
					t.Errorf("request %d ran %d times", n, times)
				}
			}
			if q.Waiting() != 0 || answered.Load()+failed.Load() != 300 || answered.Load() < 50 {
				t.Errorf("%d wait, %d answered, %d not", q.Waiting(), answered.Load(),
					failed.Load())
			}
		})
	}
}

// BenchmarkDo is a request that finds nobody before it.
func BenchmarkDo(b *testing.B) {
	q, err := New(admit.Model{Name: "m", Queue: 9, Bytes: 9, Batch: admit.Batch{Max: 9},
		Time: func(string, int) time.Duration { return 1 }}, Options[int]{
		Run: func(context.Context, []int, func()) error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := q.Do(b.Context(), Request{Rows: 1, Signature: "s"}, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFit: a request of more rows than a batch has is refused, or takes a whole one where it says
// so, of whatever a batch has by then.
func TestFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, admit.Model{Batch: admit.Batch{Max: 1}})
		for max := 1; max < 4; max += 2 {
			m := l.model
			m.Batch.Max = max
			if err := l.Set(m); err != nil {
				t.Fatal(err)
			}
			err := l.Do(t.Context(), Request{Rows: 5, Bytes: 1}, &item{name: "a", rows: 5})
			if !errors.Is(err, admit.ErrInvalid) {
				t.Errorf("of %d: %v", max, err)
			}
			fits := Request{Rows: 5, Bytes: 1, Fit: true}
			if err := l.Do(t.Context(), fits, &item{name: "a", rows: 5}); err != nil {
				t.Errorf("of %d: %v", max, err)
			}
		}
	})
}
