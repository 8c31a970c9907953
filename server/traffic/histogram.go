package traffic

import (
	"math/bits"
	"time"
)

// fine is in how many parts each power of two is divided: a percentile is at most 1/fine above what
// was measured.
const (
	fineBits = 8
	fine     = 1 << fineBits
)

// histogram counts durations in buckets whose widths grow with them, so that it takes the same
// memory however many there are.
type histogram struct {
	counts [(64 - fineBits) * fine]uint32
	n      uint64
	sum    float64
	most   time.Duration
}

// bucket is where a duration is counted: below fine it is the nanoseconds themselves.
func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-fineBits-1, 0)
	return shift*fine + int(v>>shift)
}

// upper is the longest duration of a bucket.
func upper(i int) time.Duration {
	if i < 2*fine {
		return time.Duration(i)
	}
	shift := i/fine - 1
	return time.Duration(uint64(i-shift*fine+1)<<shift - 1)
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(d)]++
	h.n++
	h.sum += float64(max(d, 0))
	h.most = max(h.most, d)
}

// quantile is the smallest duration that a part q of all is not longer than, by nearest rank; 0
// where there are none.
func (h *histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q * float64(h.n))
	if float64(rank) < q*float64(h.n) {
		rank++
	}
	rank = max(rank, 1)
	var seen uint64
	for i, c := range h.counts {
		if seen += uint64(c); seen >= rank {
			return min(upper(i), h.most)
		}
	}
	return h.most
}
