package telemetry

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestBuckets: each value lies in its bucket, buckets follow each other without a gap, and none is
// wider than 1/16 of what is in it.
func TestBuckets(t *testing.T) {
	if bucket(0) != 0 {
		t.Error("0 is not in the first bucket")
	}
	for i := range bucket(math.MaxUint64) {
		low, high := above(i)+1, above(i+1)
		if high < low || bucket(low) != i || bucket(high) != i {
			t.Fatalf("bucket %d from %d to %d: its ends are in %d and %d", i, low, high,
				bucket(low), bucket(high))
		}
		if wide := high - low + 1; wide > 1 && wide*16 > low {
			t.Errorf("bucket %d from %d on is %d wide", i, low, wide)
		}
	}
}

// TestQuantile: quantiles are within 1/32 of those of all values, whatever these are.
func TestQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"exponential": func() float64 { return r.ExpFloat64() * 1e6 },
		"small":       func() float64 { return 1 + float64(r.IntN(40)) },
		"pareto":      func() float64 { return 1e4 * math.Pow(r.Float64(), -1/1.2) },
		"constant":    func() float64 { return 123456789 },
	} {
		h := newHistogram(longest)
		var all []uint64
		for range 10000 {
			v := min(max(uint64(draw()), 1), longest)
			all = append(all, v)
			h.Observe(v)
		}
		slices.Sort(all)
		c := h.Counts()
		for _, q := range []float64{0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1} {
			rank := min(max(int(q*float64(len(all))+0.5), 1), len(all))
			want := float64(all[rank-1])
			if got := c.Quantile(q); math.Abs(got-want) > want/32 {
				t.Errorf("%s: quantile %v is %v, want %v", name, q, got, want)
			}
		}
	}
	if empty := newHistogram(10).Counts(); empty.Quantile(0.5) != 0 {
		t.Error("the median of nothing")
	}
}

// TestBeyondLargest: what is larger than a histogram takes is counted, and its sum is exact.
func TestBeyondLargest(t *testing.T) {
	h := newHistogram(1 << 10)
	h.Observe(1 << 10)
	h.Observe(1 << 40)
	if c := h.Counts(); c.Count != 2 || c.Sum != 1<<10+1<<40 || c.Quantile(1) > 1100 {
		t.Errorf("%d values, sum %d, largest %v", c.Count, c.Sum, c.Quantile(1))
	}
}

// TestUpTo: a value that equals a bound is counted for it.
func TestUpTo(t *testing.T) {
	h := newHistogram(longest)
	for _, v := range []uint64{0, 1023, 1024, 1025, 1536, 1537, longest, 1 << 60} {
		h.Observe(v)
	}
	got := make([]uint64, 3)
	c := h.Counts()
	c.upTo([]uint64{1024, 1536, 2048}, got)
	if !slices.Equal(got, []uint64{3, 5, 6}) {
		t.Errorf("up to the bounds: %d", got)
	}
}

// TestFlat: ten million values take no more memory than one, and none is lost between goroutines.
func TestFlat(t *testing.T) {
	const each, goroutines = 5e6, 2
	h := newHistogram(longest)
	h.Observe(0)
	if n := testing.AllocsPerRun(1000, func() { h.Observe(98765) }); n != 0 {
		t.Errorf("an observation makes %v allocations", n)
	}
	before := h.Counts().Count
	var all sync.WaitGroup
	for g := range uint64(goroutines) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(3, g))
			for range int(each) {
				h.Observe(r.Uint64() >> r.UintN(64))
			}
		})
	}
	all.Wait()
	if n := h.Counts().Count - before; n != each*goroutines {
		t.Errorf("%d of %d values were counted", n, int(each*goroutines))
	}
}

func BenchmarkObserve(b *testing.B) {
	h := newHistogram(longest)
	b.RunParallel(func(p *testing.PB) {
		for v := uint64(1000); p.Next(); v += 997 {
			h.Observe(v)
		}
	})
}
