package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"
)

// The ways in which requests are measured.
const (
	without = iota // swaps
	backs          // a rollback each time, to what was served before
	pushes         // a version that is new each time
	ways
)

// swapResult is what swaps cost, by the ways.
type swapResult struct {
	Swaps    [ways]int     `json:"swaps"`
	Requests [ways]int     `json:"requests"`
	P50      [ways]float64 `json:"p50_ms"`
	P99      [ways]float64 `json:"p99_ms"`
	// Ratio and Pushed are the 99th percentiles with rollbacks and with new versions, over that
	// without.
	Ratio  float64 `json:"p99_ratio"`
	Pushed float64 `json:"p99_pushed_ratio"`
	// Took is how long a swap takes in the median.
	Took   [ways]float64  `json:"swap_ms"`
	Errors map[string]int `json:"errors"`
}

func (r *swapResult) ok() bool { return len(r.Errors) == 0 && r.Ratio <= 1.2 }

// every is the time between two swaps, and turn that of measuring one way: machines are faster at
// some times than at others.
const (
	every = 100 * time.Millisecond
	turn  = time.Second
)

// swaps measures requests in each way, in turn.
func swaps(during time.Duration, clients int, over string) (_ *swapResult, err error) {
	dir, err := os.MkdirTemp("", "weir-swaps")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	turns := int((during + turn - 1) / turn)
	from, err := restock(dir, 2+turns*int(turn/every+1))
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	x, err := from.serve(ctx, over)
	if err != nil {
		return nil, err
	}
	r := &swapResult{Errors: map[string]int{}}
	var took, swaps [ways][]time.Duration
	for t := range ways * turns {
		way := t % ways
		l := x.load(clients)
		all, err := x.hold(ctx, way, from)
		l.end()
		if err != nil {
			return nil, err
		}
		took[way], swaps[way] = append(took[way], l.took...), append(swaps[way], all...)
		for kind, n := range l.errors {
			r.Errors[kind] += n
		}
	}
	for way := range ways {
		r.Swaps[way], r.Requests[way] = len(swaps[way]), len(took[way])
		r.P50[way], r.P99[way] = part(took[way], 0.5), part(took[way], 0.99)
		r.Took[way] = part(swaps[way], 0.5)
	}
	r.Ratio, r.Pushed = r.P99[backs]/r.P99[without], r.P99[pushes]/r.P99[without]
	return r, errors.Join(x.close(), x.server.Close())
}

// serve serves the second version of the stock, with the first before it.
func (s *stock) serve(ctx context.Context, over string) (*site, error) {
	if err := s.push(); err != nil {
		return nil, err
	}
	o, err := s.Model(ctx, "digits")
	if err != nil {
		return nil, err
	}
	x, err := open(&s.Folder, over, o.Sources[0])
	if err != nil {
		return nil, err
	}
	return x, errors.Join(s.push(), x.server.LoadModel(ctx, "digits", nil))
}

// part is the time, in milliseconds, that so large a part of all is not above; 0 of none.
func part(all []time.Duration, of float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(float64(len(all)-1)*of)].Seconds() * 1000
}

// hold waits for a turn, and swaps meanwhile in one of the ways. It returns how long each swap
// took.
func (x *site) hold(ctx context.Context, way int, from *stock) (took []time.Duration, err error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for end := time.Now().Add(turn); time.Now().Before(end); {
		<-tick.C
		if way == without {
			continue
		}
		began := time.Now()
		if way == pushes {
			if err = from.push(); err == nil {
				began = time.Now()
				err = x.server.LoadModel(ctx, "digits", nil)
			}
		} else {
			err = x.server.Rollback(ctx, "digits")
		}
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
