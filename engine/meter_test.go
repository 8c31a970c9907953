package engine

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/plan"
)

// metered is a quota that counts what is moved, and holds it back where asked is set: it sends each
// size there, and lets it pass once told.
type metered struct {
	*ledger
	moved atomic.Int64
	asked chan int64
	may   chan error
}

func (m *metered) Transfer(ctx context.Context, n int64) error {
	if m.asked != nil {
		m.asked <- n
		select {
		case err := <-m.may:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.moved.Add(n)
	return nil
}

// TestTransfersAreMetered: weights count each time that they come, inputs and outputs where the
// host cannot address the device's memory, and nothing beside.
func TestTransfersAreMetered(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 5)), 3), 2)
		m := &metered{ledger: b.quota}
		o := c.options(t, b, p)
		o.Quota, o.ArenaQuota = m, m
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		var want, each int64
		if p.Remote() || !c.given {
			want = p.PackedBytes // else they are where they are to be
		}
		if p.Remote() {
			each = p.Copies()
			in, out := p.Slots[p.Inputs[0]].Bytes, p.Slots[p.Outputs[0]].Bytes
			if each == 0 || each != in+out {
				t.Errorf("%s: copies %d bytes, want %d and %d", c.name, each, in, out)
			}
		}
		for _, away := range []int64{0, p.PackedBytes, p.PackedBytes / 2, 0} {
			if s.Evict(away) != away {
				t.Fatal("weights stayed")
			}
			if _, err := run(t.Context(), s, 7); err != nil {
				t.Fatal(err)
			}
			want += away + each
			if got := m.moved.Load(); got != want {
				t.Errorf("%s: %d bytes were counted, want %d", c.name, got, want)
				want = got
			}
		}
		s.Close()
	}
}

// TestHeldTransfers: weights that the meter holds back are given back at once and neither come nor
// count, and its refusal is the run's error, after which the next run has them brought. Those that
// the device's own units write are asked for by a run alone.
func TestHeldTransfers(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 6)), 2), 2)
		m := &metered{ledger: b.quota}
		o := c.options(t, b, p)
		o.Quota, o.ArenaQuota = m, m
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		before := m.moved.Load()
		m.asked, m.may = make(chan int64, 100), make(chan error)
		recall := func() {
			if err := s.Recall(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s.owns() {
				return
			}
			if n := <-m.asked; n <= 0 || n > p.PackedBytes {
				t.Errorf("%s: asked for %d of %d bytes", c.name, n, p.PackedBytes)
			}
		}
		for range 3 {
			s.Evict(p.PackedBytes)
			recall()
		}
		if s.Evict(p.PackedBytes) != p.PackedBytes {
			t.Errorf("%s: weights that have not come stayed", c.name)
		}
		recall()
		if n := len(m.asked); n > 0 {
			t.Errorf("%s: asked %d times more before a run", c.name, n)
		}
		refused := errors.New("the job has ended")
		ended := make(chan error)
		go func() {
			i, err := s.Take()
			if err == nil {
				if _, err = i.hold(t.Context()); err == nil {
					i.exec.Ctx, i.exec.Gate = t.Context(), device.Open
					_, err = i.weights.Await(&i.exec, p.PackedBytes)
					s.packed.release()
				}
				i.Put()
			}
			ended <- err
		}()
		for over := false; !over; {
			select {
			case m.may <- refused: // also before the run awaits
			case err := <-ended:
				over = true
				if !errors.Is(err, refused) {
					t.Errorf("%s: refused: %v", c.name, err)
				}
			}
		}
		if n := m.moved.Load(); n != before {
			t.Errorf("%s: %d bytes were counted that did not come", c.name, n-before)
		}
		m.asked = nil
		s.Evict(p.PackedBytes)
		if _, err := run(t.Context(), s, 7); err != nil {
			t.Errorf("%s: afterwards: %v", c.name, err)
		}
		s.Close()
	}
}

// TestCancelHeldTransfers: who waits for weights that the meter holds back is let go when its
// context is done, whatever it is that waits, and the weights come to who waits beside it.
func TestCancelHeldTransfers(t *testing.T) {
	profile := func(ctx context.Context, i *Instance) error {
		return i.Profile(ctx, func(*plan.Step, plan.Cost) {})
	}
	run := func(ctx context.Context, i *Instance) error { return i.Run(ctx, device.Open) }
	for _, iterate := range []func(context.Context, *Instance) error{run, profile} {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{pool: cpu.NewPool(cpu.PoolOptions{Threads: 1}),
				quota: &ledger{cap: 1 << 40}}
			defer b.pool.Close()
			for _, c := range places(t) {
				p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 6)), 2), 2)
				m := &metered{ledger: b.quota}
				o := c.options(t, b, p)
				o.Quota, o.ArenaQuota = m, m
				s, err := Load(p, o)
				if err != nil {
					t.Fatal(err)
				}
				cancelHeld(t, c.name, s, m, iterate)
				c.agree(t, b, s)
				s.Close()
				c.agree(t, b, s)
			}
		})
	}
}

// cancelHeld cancels one of two that wait for the weights of a session.
func cancelHeld(t *testing.T, name string, s *Session, m *metered,
	iterate func(context.Context, *Instance) error) {
	one, two := take(t, s), take(t, s)
	defer one.Put()
	defer two.Put()
	picture(two, 7)
	if err := iterate(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	want := result(two)
	s.Evict(s.Plan().PackedBytes)
	m.asked, m.may = make(chan int64, 100), make(chan error)
	s.copies = 0 // weights are all that is held back
	ctx, cancel := context.WithCancel(t.Context())
	picture(two, 7)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- iterate(ctx, one) }()
	go func() { second <- iterate(t.Context(), two) }()
	synctest.Wait()
	cancel()
	synctest.Wait()
	select {
	case err := <-first:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: cancelled: error %v", name, err)
		}
	default:
		t.Errorf("%s: waits for weights that the meter holds back, though cancelled", name)
	}
	if n := s.Evict(1); n != 0 {
		t.Errorf("%s: %d bytes were taken from under who waits for them", name, n)
	}
	close(m.may)
	if err := <-second; err != nil || !bytes.Equal(result(two).Data, want.Data) {
		t.Errorf("%s: another was cancelled: another result, or error %v", name, err)
	}
	m.asked = nil
	if err := iterate(t.Context(), one); err != nil {
		t.Errorf("%s: after it was cancelled: %v", name, err)
	}
}

// TestCloseHeldTransfers: a session whose weights the meter holds back closes at once, and one that
// is loaded meanwhile gives up with its context. Nothing is left of either.
func TestCloseHeldTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{pool: cpu.NewPool(cpu.PoolOptions{Threads: 1}), quota: &ledger{cap: 1 << 40}}
		defer b.pool.Close()
		for _, c := range places(t) {
			p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 6)), 2), 2)
			m := &metered{ledger: b.quota}
			o := c.options(t, b, p)
			o.Quota = m
			s, err := Load(p, o)
			if err != nil {
				t.Fatal(err)
			}
			m.asked, m.may = make(chan int64, 100), make(chan error)
			s.Evict(p.PackedBytes)
			if err := s.Recall(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // until it is held back
			s.Close()
			c.agree(t, b)
			if p.Remote() || !c.given { // else they are where they are to be
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				o.Context = ctx
				if _, err := Load(p, o); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: loaded of what the meter holds back: error %v", c.name, err)
				}
				cancel()
				c.agree(t, b)
			}
		}
	})
}

var _ device.Meter = (*metered)(nil)
