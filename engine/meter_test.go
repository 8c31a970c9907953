package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir/device"
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
		o.Quota, o.ArenaQuota = m, b.quota
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
// count, and its refusal is the run's error, after which the next run has them brought.
func TestHeldTransfers(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 6)), 2), 2)
		m := &metered{ledger: b.quota}
		o := c.options(t, b, p)
		o.Quota, o.ArenaQuota = m, b.quota
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		before := m.moved.Load()
		m.asked, m.may = make(chan int64, 100), make(chan error)
		for range 3 {
			s.Evict(p.PackedBytes)
			if err := s.Recall(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := <-m.asked; n <= 0 || n > p.PackedBytes {
				t.Errorf("%s: asked for %d of %d bytes", c.name, n, p.PackedBytes)
			}
		}
		if s.Evict(p.PackedBytes) != p.PackedBytes {
			t.Errorf("%s: weights that have not come stayed", c.name)
		}
		if err := s.Recall(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-m.asked
		refused := errors.New("the job has ended")
		ended := make(chan error)
		go func() {
			i, err := s.Take()
			if err == nil {
				arrival, herr := s.packed.hold(t.Context())
				if err = herr; err == nil {
					_, err = arrival.Await(p.PackedBytes)
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

var _ device.Meter = (*metered)(nil)
