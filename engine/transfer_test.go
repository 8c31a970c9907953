package engine

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/tensor"
)

// held is a quota of the host's memory that keeps who asks it waiting until told. Weights that are
// packed again for a device out of sight ask it within their transfer.
type held struct {
	asked chan struct{}
	on    chan struct{}
	waits bool
}

func (h *held) Reserve(int64) error {
	if h.waits {
		h.asked <- struct{}{}
		<-h.on
	}
	return nil
}

func (h *held) Release(int64) {}

// transferring returns a session all of whose weights are on their way, and stay so until told. It
// is called within a bubble of synctest, where its goroutines live. Want is what the session
// computed before, of noise of seed 1.
func transferring(t *testing.T) (c place, b *bench, s *Session, h *held, want *tensor.Tensor) {
	t.Helper()
	far := openFar(t, 8<<20)
	c = place{"far, packed again", far, far.Target(), false}
	b = &bench{pool: cpu.NewPool(cpu.PoolOptions{Threads: 1}), quota: &ledger{cap: 1 << 40}}
	t.Cleanup(b.pool.Close)
	p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 4)), 2), 2)
	h = &held{asked: make(chan struct{}), on: make(chan struct{})}
	o := c.options(t, b, p)
	o.HostQuota = h
	s, err := Load(p, o)
	if err != nil {
		t.Fatal(err)
	}
	if want, err = run(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	if s.Evict(p.PackedBytes) != p.PackedBytes {
		t.Fatal("weights stayed")
	}
	h.waits = true
	if err := s.Recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-h.asked
	h.waits = false
	return c, b, s, h, want
}

// TestEvictWithinTransfer: what a transfer writes is given back when that has ended, whatever there
// is of it: who waits for all of it is not told that there is no more.
func TestEvictWithinTransfer(t *testing.T) {
	for _, part := range []int64{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			c, b, s, h, want := transferring(t)
			defer s.Close()
			most := s.Plan().PackedBytes / part
			freed := make(chan int64)
			go func() { freed <- s.Evict(most) }()
			synctest.Wait()
			select {
			case n := <-freed:
				t.Fatalf("freed %d bytes that a transfer is writing", n)
			default:
			}
			close(h.on)
			if n := <-freed; n != most || s.Away() != most {
				t.Errorf("freed %d bytes of %d within a transfer, %d are away", n, most, s.Away())
			}
			c.agree(t, b, s)
			got, err := run(t.Context(), s, 1)
			if err != nil || !bytes.Equal(got.Data, want.Data) {
				t.Errorf("after weights came again: another result, or error %v", err)
			}
		})
	}
}

// TestIterationBeforeEvict: an iteration that begins while Evict waits for a transfer keeps the
// weights.
func TestIterationBeforeEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, s, h, _ := transferring(t)
		defer s.Close()
		i := take(t, s)
		defer i.Put()
		ran, freed := make(chan error), make(chan int64)
		go func() { ran <- i.Run(t.Context(), device.Open) }()
		synctest.Wait() // it holds the weights
		go func() { freed <- s.Evict(1 << 40) }()
		if n := <-freed; n != 0 {
			t.Errorf("%d bytes were taken from under an iteration", n)
		}
		close(h.on)
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// TestCloseWithinTransfer: a session that waits for a transfer to end before it frees its weights
// answers meanwhile, and holds them. One that is loaded like it then has weights of its own.
func TestCloseWithinTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b, s, h, want := transferring(t)
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while a transfer writes the weights")
		default:
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			c.agree(t, b, s)
			if _, err := s.Take(); !errors.Is(err, ErrClosed) {
				t.Errorf("an instance of a closed session: error %v", err)
			}
			if n := s.Evict(1); n != 0 {
				t.Errorf("%d bytes were given back twice", n)
			}
			if err := s.Recall(t.Context()); !errors.Is(err, ErrClosed) {
				t.Errorf("weights of a closed session were recalled: error %v", err)
			}
			s.Close()
			o := c.options(t, b, s.Plan())
			o.HostQuota, o.Like = h, s
			other, err := Load(s.Plan(), o)
			if err != nil {
				t.Error(err)
				return
			}
			defer other.Close()
			c.agree(t, b, s, other)
			got, err := run(t.Context(), other, 1)
			if err != nil || !bytes.Equal(got.Data, want.Data) {
				t.Errorf("beside weights that go: another result, or error %v", err)
			}
		}()
		<-answered
		close(h.on)
		<-closed
		if s.Held() != 0 || b.quota.sum() != 0 || c.device.Held() != 0 {
			t.Errorf("after all: %d bytes held, %d granted, %d on the device", s.Held(),
				b.quota.sum(), c.device.Held())
		}
	})
}

// TestPackedAgainOfAnother: weights that were away are not made of another model than those that
// stayed. Whoever runs is told so, and again until the model is what it was.
func TestPackedAgainOfAnother(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		if c.given {
			continue
		}
		p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 4)), 2), 2)
		o := c.options(t, b, p)
		errChanged, changed := errors.New("changed"), false
		o.Unchanged = func() error {
			if changed {
				return errChanged
			}
			return nil
		}
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		want, err := run(t.Context(), s, 1)
		if err != nil {
			t.Fatal(err)
		}
		changed = true
		if _, err := run(t.Context(), s, 1); err != nil {
			t.Errorf("%s: nothing was away: error %v", c.name, err)
		}
		s.Evict(p.PackedBytes)
		for range 2 {
			if _, err := run(t.Context(), s, 1); !errors.Is(err, errChanged) {
				t.Errorf("%s: another model: error %v", c.name, err)
			}
		}
		changed = false
		got, err := run(t.Context(), s, 1)
		if err != nil || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s: the model is back: another result, or error %v", c.name, err)
		}
		c.agree(t, b, s)
		s.Close()
	}
}
