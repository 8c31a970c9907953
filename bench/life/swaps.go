package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

// swapResult is what swaps cost.
type swapResult struct {
	Swaps    int            `json:"swaps"`
	Requests [2]int         `json:"requests"` // without swaps, and with
	P50      [2]float64     `json:"p50_ms"`
	P99      [2]float64     `json:"p99_ms"`
	Ratio    float64        `json:"p99_ratio"`
	Errors   map[string]int `json:"errors"`
}

func (r *swapResult) ok() bool { return len(r.Errors) == 0 && r.Ratio <= 1.2 }

// every is the time between two swaps, and turn that of measuring one way.
const (
	every = 100 * time.Millisecond
	turn  = 5 * time.Second
)

// swaps measures requests without and with swaps, in turn.
func swaps(during time.Duration, clients int, over string) (*swapResult, error) {
	from := &shelf{next: 2}
	x, err := open(from, over, source(1))
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if err := x.server.LoadModel(ctx, "digits", nil); err != nil {
		return nil, err
	}
	r := &swapResult{Errors: map[string]int{}}
	var took [2][]time.Duration
	for passed := time.Duration(0); passed < 2*during; passed += turn {
		way := int(passed/turn) % 2
		l := x.load(clients)
		err := x.hold(ctx, way == 1, r)
		l.end()
		if err != nil {
			return nil, err
		}
		took[way] = append(took[way], l.took...)
		for kind, n := range l.errors {
			r.Errors[kind] += n
		}
	}
	for way := range took {
		slices.Sort(took[way])
		n := len(took[way])
		r.Requests[way] = n
		r.P50[way] = took[way][n/2].Seconds() * 1000
		r.P99[way] = took[way][n*99/100].Seconds() * 1000
	}
	r.Ratio = r.P99[1] / r.P99[0]
	return r, errors.Join(x.close(), x.server.Close())
}

// hold waits for a turn, and swaps meanwhile if asked to.
func (x *site) hold(ctx context.Context, swap bool, r *swapResult) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.Now().Add(turn); time.Now().Before(end); {
		<-tick.C
		if !swap {
			continue
		}
		if err := x.server.Rollback(ctx, "digits"); err != nil {
			return err
		}
		r.Swaps++
	}
	return nil
}
