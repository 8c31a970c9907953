package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/server/admit"
)

// hand is a queue of batches of one request each, whose requests have no goroutines: a test looks
// and carries in their place.
func hand(t *testing.T, run func(item string)) *Queue[string] {
	t.Helper()
	q, err := New(admit.Model{Name: "m", Queue: 9, Bytes: 9, Batch: admit.Batch{Max: 1},
		Time: func(string, int) time.Duration { return 1 }}, Options[string]{
		Run: func(_ context.Context, batch []string, _ func()) error {
			run(batch[0])
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// come has a request come, and returns what its goroutine would run at once.
func come(t *testing.T, q *Queue[string], item string) (*ticket[string], *batch[string]) {
	t.Helper()
	k := &ticket[string]{item: item, ctx: t.Context(), told: make(chan struct{}, 1)}
	b, err := q.arrive(&Request{Rows: 1}, k)
	if err != nil {
		t.Fatal(err)
	}
	return k, b
}

// know has a queue know how long its batches take.
func know(t *testing.T, q *Queue[string]) {
	t.Helper()
	if err := q.Do(t.Context(), Request{Rows: 1}, "before"); err != nil {
		t.Fatal(err)
	}
}

// TestSwift: a batch that is short, and whose request has not woken yet, is run by whoever comes,
// who goes on with its own; a long one, or one of which nothing is known, is not.
func TestSwift(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		want  []string
	}{
		{swift / 4, []string{"first", "second", "third", "fourth"}},
		{swift, []string{"first"}}, // with the deviation it is longer
	} {
		synctest.Test(t, func(t *testing.T) {
			var ran []string
			q := hand(t, func(item string) {
				time.Sleep(c.takes)
				ran = append(ran, item)
			})
			know(t, q)
			ran = nil
			first, b := come(t, q, "first")
			second, none := come(t, q, "second")
			third, none3 := come(t, q, "third")
			if b == nil || none != nil || none3 != nil {
				t.Fatalf("beside a batch that runs %v and %v are run", none, none3)
			}
			if next, over := q.carry(b, first); next != nil || !over {
				t.Fatalf("%v, %v after the own batch", next, over)
			}
			fourth, b := come(t, q, "fourth")
			for over := false; b != nil && !over; {
				b, over = q.carry(b, fourth)
			}
			if !slices.Equal(ran, c.want) {
				t.Errorf("batches of %v: ran %q, want %q", c.takes, ran, c.want)
			}
			for _, k := range []*ticket[string]{second, third} {
				if over := len(ran) > 1; k.over != over || k.err != nil {
					t.Errorf("%s is over: %v, %v", k.item, k.over, k.err)
				}
			}
		})
	}
}

// TestSwiftPanic: who runs the batch of another and does not return leaves neither that nor its own
// place behind.
func TestSwiftPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := hand(t, func(item string) {
			time.Sleep(swift / 4)
			if item == "second" {
				panic("a bug")
			}
		})
		know(t, q)
		first, b := come(t, q, "first")
		second, _ := come(t, q, "second")
		q.carry(b, first)
		third, b := come(t, q, "third")
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was lost")
				}
			}()
			q.carry(b, third)
		}()
		if !second.over || !errors.Is(second.err, errLost) {
			t.Errorf("second: %v, %v", second.over, second.err)
		}
		if n := q.Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
		if err := q.Do(t.Context(), Request{Rows: 1}, "fourth"); err != nil {
			t.Error(err)
		}
	})
}

// TestSwiftGivenUp: a request whose batch another runs is let go once nobody reads it, and its
// batch is cut off.
func TestSwiftGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut error
		q := hand(t, func(string) {})
		q.o.Run = func(ctx context.Context, batch []string, copied func()) error {
			if batch[0] != "second" {
				time.Sleep(swift / 4)
				return nil
			}
			copied()
			<-ctx.Done()
			cut = ctx.Err()
			return cut
		}
		know(t, q)
		first, b := come(t, q, "first")
		ctx, cancel := context.WithCancel(t.Context())
		outcome := make(chan error, 1)
		second := &ticket[string]{item: "second", ctx: ctx, told: make(chan struct{}, 1)}
		if b, err := q.arrive(&Request{Rows: 1}, second); b != nil || err != nil {
			t.Fatal(b, err)
		}
		q.carry(b, first)
		third, b := come(t, q, "third")
		go func() {
			time.Sleep(time.Second)
			cancel()
			in, over := q.abandon(second)
			if !over {
				t.Error("its turn was not over")
			}
			<-in.copied
			outcome <- ctx.Err()
		}()
		for over := false; b != nil && !over; {
			b, over = q.carry(b, third)
		}
		err := <-outcome
		if !errors.Is(err, context.Canceled) || !errors.Is(cut, context.Canceled) {
			t.Errorf("given up with %v, its batch with %v", err, cut)
		}
		if third.err != nil || !third.over {
			t.Errorf("who ran it: %v, %v", third.over, third.err)
		}
	})
}

// TestGivenUpAsItBegins: a batch whose last request is given up between its turn and its begin is
// cut off from the first.
func TestGivenUpAsItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began []error
		q := hand(t, func(string) {})
		q.o.Drop = func(string) {}
		q.o.Run = func(ctx context.Context, _ []string, copied func()) error {
			time.Sleep(swift / 4)
			began = append(began, ctx.Err())
			copied()
			return ctx.Err()
		}
		know(t, q)
		first, b := come(t, q, "first")
		ctx, cancel := context.WithCancel(t.Context())
		second := &ticket[string]{item: "second", ctx: ctx, told: make(chan struct{}, 1)}
		if b, err := q.arrive(&Request{Rows: 1}, second); b != nil || err != nil {
			t.Fatal(b, err)
		}
		q.carry(b, first)
		third, b := come(t, q, "third")
		if b == nil || second.in != b {
			t.Fatalf("the batch that comes is %+v", b)
		}
		cancel()
		in, over := q.abandon(second)
		if in != b || !over {
			t.Fatalf("given up: %v, %v", in, over)
		}
		for over := false; b != nil && !over; {
			b, over = q.carry(b, third)
		}
		if len(began) != 4 || !errors.Is(began[2], context.Canceled) || began[3] != nil {
			t.Errorf("batches began with %v", began)
		}
	})
}
