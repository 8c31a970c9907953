package telemetry

import (
	"math/bits"
	"sync/atomic"
)

// fine is how many bits of a value after its first its bucket knows.
const fine = 4

// Histogram counts values by size, in a fixed number of buckets. Values from 1 to 32 have a bucket
// each; above, there are 16 to each power of two, so that a bucket's middle is within 1/32 of every
// value in it. 0 is counted with 1, and values above the histogram's largest with that; their sum
// is exact.
type Histogram struct {
	sum    atomic.Uint64
	counts []atomic.Uint64
}

// newHistogram returns a histogram for values up to largest.
func newHistogram(largest uint64) *Histogram {
	return &Histogram{counts: make([]atomic.Uint64, bucket(largest)+1)}
}

// Observe counts a value. It takes no lock and allocates nothing.
func (h *Histogram) Observe(v uint64) {
	h.counts[min(bucket(v), len(h.counts)-1)].Add(1)
	h.sum.Add(v)
}

// bucket is where a value is counted.
func bucket(v uint64) int {
	v = max(v, 1) - 1 // a bucket has its upper bound in it, as those of Prometheus have
	if v < 1<<fine {
		return int(v)
	}
	power := bits.Len64(v) - 1 - fine
	return power<<fine + int(v>>power)
}

// above is the value below the smallest in bucket i, which is the largest in the bucket before.
func above(i int) uint64 {
	if i < 1<<fine {
		return uint64(i)
	}
	power := i>>fine - 1
	return uint64(i-power<<fine) << power
}

// Counts are the values that were counted up to a moment.
type Counts struct {
	Count, Sum uint64
	buckets    []uint64
}

// Counts returns what was counted. What is counted meanwhile may be in Sum and not in Count.
func (h *Histogram) Counts() Counts {
	c := Counts{buckets: make([]uint64, len(h.counts))}
	h.addTo(&c)
	return c
}

func (h *Histogram) addTo(c *Counts) {
	for i := range h.counts {
		n := h.counts[i].Load()
		c.buckets[i] += n
		c.Count += n
	}
	c.Sum += h.sum.Load()
}

// Quantile returns a value that is within 1/32 of the smallest of which the fraction q of all that
// were counted is no larger: 0.5 for the median, 0 for the smallest, 1 for the largest. Without any
// it is 0.
func (c *Counts) Quantile(q float64) float64 {
	if c.Count == 0 {
		return 0
	}
	rank := min(max(uint64(q*float64(c.Count)+0.5), 1), c.Count)
	for i, n := range c.buckets {
		if n >= rank {
			return float64(above(i)+1+above(i+1)) / 2
		}
		rank -= n
	}
	return 0
}

// upTo counts the values up to each bound. The bounds rise, and each is the largest value of some
// bucket.
func (c *Counts) upTo(bounds []uint64, counts []uint64) {
	i, sum := 0, uint64(0)
	for j, b := range bounds {
		for ; i < len(c.buckets) && above(i) < b; i++ {
			sum += c.buckets[i]
		}
		counts[j] = sum
	}
}
