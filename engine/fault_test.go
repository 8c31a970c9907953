package engine

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/plan"
)

// fickle is a quota and meter that refuses now and then, and holds transfers back until told.
type fickle struct {
	*ledger
	pass chan struct{}

	mu    sync.Mutex
	r     *rand.Rand
	never bool // refuses or holds back
}

var errFickle = errors.New("refused at random")

func (q *fickle) draws(n int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.never {
		return n - 1
	}
	return q.r.IntN(n)
}

func (q *fickle) Reserve(n int64) error {
	if q.draws(6) == 0 {
		return errFickle
	}
	return q.ledger.Reserve(n)
}

func (q *fickle) Transfer(ctx context.Context, _ int64) error {
	switch q.draws(6) {
	case 0:
		return errFickle
	case 1, 2:
		select {
		case <-q.pass:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// TestFaultsAtRandom has sessions that share weights run, lose and recall them, shrink, be
// cancelled and close at the same time, while quotas refuse, the meter refuses and holds back, and
// the model's file is another one at times: what gives a result gives the right one, an error is of
// one of these kinds, nobody waits for ever, and all that was granted is given back.
func TestFaultsAtRandom(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		for seed := range uint64(6) {
			b.quota.terse, b.quota.refuse = true, -1
			h := &faults{t: t, b: b, c: c, seed: seed, q: &fickle{ledger: b.quota, never: true,
				pass: make(chan struct{}), r: rand.New(rand.NewPCG(seed, 14))}}
			h.play()
			b.nothingHeld(t)
			if t.Failed() {
				t.Fatalf("%s, seed %d", c.name, seed)
			}
		}
	}
}

// faults is one history of TestFaultsAtRandom.
type faults struct {
	t        *testing.T
	b        *bench
	c        place
	seed     uint64
	q        *fickle
	host     ledger
	sessions [2]*Session
	want     [2][3][]byte
	weights  []byte
}

func (h *faults) play() {
	h.load()
	h.q.mu.Lock()
	h.q.never = false
	h.q.mu.Unlock()
	var all sync.WaitGroup
	for k, s := range h.sessions {
		for n := range 5 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(h.seed, uint64(10*k+n)))
				for range 40 {
					h.act(s, k, n, r)
				}
			})
		}
	}
	all.Go(func() {
		for range 30 {
			h.iterate(h.sessions[0], 0, rand.New(rand.NewPCG(h.seed, 77)))
		}
		h.sessions[h.seed%2].Close()
	})
	over := make(chan struct{})
	go func() {
		all.Wait()
		close(over)
	}()
	for done := false; !done; {
		select {
		case h.q.pass <- struct{}{}:
		case <-over:
			done = true
		}
	}
	h.c.agree(h.t, h.b, h.sessions[:]...)
	h.q.mu.Lock()
	h.q.never = true
	h.q.mu.Unlock()
	left := 1 - h.seed%2
	if got, err := run(h.t.Context(), h.sessions[left], 0); err != nil ||
		!bytes.Equal(got.Data, h.want[left][0]) {
		h.t.Errorf("after all faults: another result, or error %v", err)
	}
	for _, s := range h.sessions {
		s.Close()
	}
	if n := h.host.sum(); n != 0 {
		h.t.Errorf("%d bytes of the host are still granted", n)
	}
}

// load makes the sessions, and notes what they compute.
func (h *faults) load() {
	g := tower(h.t, rand.New(rand.NewPCG(h.seed, 15)), len(followers))
	h.host.cap, h.host.terse, h.host.refuse = 1<<40, true, -1
	var o Options
	for k := range h.sessions {
		p := h.c.compile(h.t, g, 1+2*k)
		if k == 0 {
			o = h.c.options(h.t, h.b, p)
			o.Quota, o.HostQuota = h.q, &h.host
			o.Unchanged = func() error {
				if h.q.draws(8) == 0 {
					return errFickle
				}
				return nil
			}
		}
		s, err := Load(p, o)
		if err != nil {
			h.t.Fatal(err)
		}
		o.Like, h.sessions[k] = s, s
		for seed := range h.want[k] {
			got, err := run(h.t.Context(), s, uint64(seed))
			if err != nil {
				h.t.Fatal(err)
			}
			h.want[k][seed] = got.Data
		}
	}
	if err := h.sessions[0].WithWeights(h.t.Context(), func(w []byte) error {
		h.weights = bytes.Clone(w)
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}

// expected reports whether a call went well, and holds that it failed for a reason otherwise.
func (h *faults) expected(err error) bool {
	if err != nil && !errors.Is(err, errFickle) && !errors.Is(err, ErrClosed) &&
		!errors.Is(err, context.Canceled) {
		h.t.Errorf("%s, seed %d: %v", h.c.name, h.seed, err)
	}
	return err == nil
}

func (h *faults) act(s *Session, k, what int, r *rand.Rand) {
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	switch what {
	case 0, 1:
		h.iterate(s, k, r)
	case 2:
		s.Evict(r.Int64N(s.Plan().PackedBytes + 1))
	case 3:
		s.Shrink(r.Int64N(s.Plan().ArenaBytes + 1))
		if r.IntN(2) == 0 {
			go cancel()
		}
		h.expected(s.Recall(ctx))
	case 4:
		h.expected(s.WithWeights(h.t.Context(), func(w []byte) error {
			if !bytes.Equal(w, h.weights) {
				h.t.Errorf("%s, seed %d: other weights", h.c.name, h.seed)
			}
			return nil
		}))
	}
}

// iterate runs once, or twice, as one that may be cancelled, and gives the instance back or frees
// it.
func (h *faults) iterate(s *Session, k int, r *rand.Rand) {
	i, err := s.Take()
	if !h.expected(err) {
		return
	}
	if r.IntN(4) == 0 {
		defer i.Free()
	} else {
		defer i.Put()
	}
	for range 1 + r.IntN(2) {
		ctx, cancel := context.WithCancel(h.t.Context())
		if r.IntN(3) == 0 {
			go cancel()
		}
		input := r.IntN(len(h.want[k]))
		picture(i, uint64(input))
		if r.IntN(6) == 0 {
			err = i.Profile(ctx, func(*plan.Step, plan.Cost) {})
		} else {
			err = i.Run(ctx, device.Open)
		}
		if h.expected(err) && !bytes.Equal(result(i).Data, h.want[k][input]) {
			h.t.Errorf("%s, seed %d: another result", h.c.name, h.seed)
		}
		cancel()
	}
}
