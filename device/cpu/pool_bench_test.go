package cpu

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
)

// spinner is a region whose chunks compute for about the given time each without touching memory or
// the clock.
type spinner struct{ turns uint32 }

func (s *spinner) Chunk(int, int) {
	for range s.turns {
		pause(1)
	}
}

// calibrated returns a spinner whose chunks take about d on a free core.
func calibrated(d time.Duration) *spinner {
	const turns = 20000
	best := time.Hour
	for range 20 {
		start := time.Now()
		(&spinner{turns: turns}).Chunk(0, 0)
		best = min(best, time.Since(start))
	}
	return &spinner{turns: uint32(turns * d / best)}
}

// BenchmarkRegion runs regions with 20 us of work per worker: what exceeds 20 us is the cost of the
// region. With one thread all the work is the caller's.
func BenchmarkRegion(b *testing.B) {
	for _, c := range []struct {
		name    string
		threads int
		chunks  int
		work    time.Duration
		pin     bool
	}{
		{"threads=1", 1, 2, 20 * time.Microsecond, false},
		{"threads=2", 2, 2, 20 * time.Microsecond, false},
		{"threads=2/chunks=8", 2, 8, 5 * time.Microsecond, false},
		{"threads=2/pin", 2, 2, 20 * time.Microsecond, true},
		{"threads=2/chunks=8/pin", 2, 8, 5 * time.Microsecond, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := NewPool(PoolOptions{Threads: c.threads, Pin: c.pin})
			defer p.Close()
			r := calibrated(c.work)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for b.Loop() {
				if err := p.Run(ctx, device.Open, c.chunks, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRunInline measures a region of one chunk without work.
func BenchmarkRunInline(b *testing.B) {
	p := NewPool(PoolOptions{Threads: 2})
	defer p.Close()
	r := &spinner{}
	b.ReportAllocs()
	for b.Loop() {
		_ = p.Run(context.Background(), device.Open, 1, r)
	}
}

// BenchmarkRunEmpty measures a region of two chunks without work on two threads.
func BenchmarkRunEmpty(b *testing.B) {
	p := NewPool(PoolOptions{Threads: 2})
	defer p.Close()
	r := &spinner{}
	b.ReportAllocs()
	for b.Loop() {
		_ = p.Run(context.Background(), device.Open, 2, r)
	}
}

// BenchmarkWake runs regions that two workers must meet in when one is parked.
func BenchmarkWake(b *testing.B) {
	for name, pin := range map[string]bool{"float": false, "pin": true} {
		b.Run(name, func(b *testing.B) {
			p := NewPool(PoolOptions{Threads: 2, Spin: -1, Pin: pin})
			defer p.Close()
			for b.Loop() {
				r := rendezvous{}
				_ = p.Run(context.Background(), device.Open, 2, &r)
			}
		})
	}
}

// rendezvous is a region of two chunks that spin until both are under way.
type rendezvous struct{ begun atomic.Int32 }

func (r *rendezvous) Chunk(int, int) {
	r.begun.Add(1)
	for r.begun.Load() < 2 {
		pause(1)
	}
}
