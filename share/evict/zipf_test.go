package evict_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/evict"
)

// crowd are models that have the room of some of them, by turns. Each loads what is not there for
// each request, at 2 GB/s and 50 us a load of 8 MiB.
type crowd struct {
	rule       evict.Rule
	uses       evict.Uses
	counts     []evict.Count
	size, held []share.Bytes
	rank       []float64
	room       share.Bytes
	now        time.Duration
}

// newCrowd returns twenty models of 12 to 59 MiB, in no order of size, and the room of five of
// mean size.
func newCrowd(t *testing.T, rule string) *crowd {
	t.Helper()
	r, err := evict.New(rule)
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{rule: r}
	for range 2 {
		for _, mib := range []share.Bytes{12, 57, 41, 14, 56, 15, 59, 26, 27, 28} {
			c.size = append(c.size, mib*share.MiB)
			c.room += mib * share.MiB
		}
	}
	n := len(c.size)
	c.room /= share.Bytes(n / 5)
	c.counts, c.held, c.rank = make([]evict.Count, n), make([]share.Bytes, n), make([]float64, n)
	return c
}

// ask has a model serve a request and reports whether all of it was there.
func (c *crowd) ask(k int) (hit bool) {
	c.now += time.Millisecond
	loads := time.Duration(c.size[k] / (8 * share.MiB))
	reload := time.Duration(c.size[k]/2) + loads*50*time.Microsecond
	c.rank[k] = c.rule.Used(evict.Use{At: c.now, Size: c.size[k], Reload: reload,
		Often: c.uses.Add(&c.counts[k], len(c.size))})
	lacks := c.size[k] - c.held[k]
	c.held[k], c.room = c.size[k], c.room-lacks
	for c.room < 0 {
		v := -1
		for i := range c.held {
			if i != k && c.held[i] > 0 && (v < 0 || c.rank[i] < c.rank[v]) {
				v = i
			}
		}
		c.rule.Evicted(c.rank[v])
		n := min(-c.room, c.held[v])
		c.held[v], c.room = c.held[v]-n, c.room+n
	}
	return lacks == 0
}

// zipf asks n times, model k+from a k-th as often as the first, and returns the hit rate.
func (c *crowd) zipf(r *rand.Rand, n, from int) float64 {
	var sums []float64
	sum := 0.0
	for k := range c.size {
		sum += 1 / float64(k+1)
		sums = append(sums, sum)
	}
	hits := 0
	for range n {
		k, x := 0, sum*r.Float64()
		for sums[k] < x {
			k++
		}
		if c.ask((k + from) % len(c.size)) {
			hits++
		}
	}
	return float64(hits) / float64(n)
}

// TestZipf: greedydual keeps what is asked often, by which it hits more than lru, and goes on to do
// so when other models are asked often, however long the first ones were.
func TestZipf(t *testing.T) {
	for seed := range uint64(8) {
		var before, after [2]float64
		for i, rule := range []string{"lru", "greedydual"} {
			c, r := newCrowd(t, rule), rand.New(rand.NewPCG(seed, 13))
			c.zipf(r, 200, 0)
			before[i] = c.zipf(r, 10_000, 0)
			c.zipf(r, 400, 7)
			after[i] = c.zipf(r, 2000, 7)
		}
		for _, rates := range [][2]float64{before, after} {
			if t.Logf("%.3f", rates); rates[1] < 1.1*rates[0] {
				t.Errorf("seed %d: hit rate %.3f, lru's %.3f", seed, rates[1], rates[0])
			}
		}
	}
}

// TestOften: counts halve with others' uses, and uses in a row count once.
func TestOften(t *testing.T) {
	var u evict.Uses
	var a, b, c evict.Count
	if got := a.Often(); got != 1 {
		t.Errorf("never used: %v", got)
	}
	for range 5 {
		if got := u.Add(&a, 2); got != 1 {
			t.Errorf("used in a row: %v", got)
		}
	}
	for range 15 {
		if u.Add(&b, 2); a.Often() != 1 {
			t.Errorf("changed by another's use: %v", a.Often())
		}
		u.Add(&c, 2)
	}
	u.Add(&a, 2)
	if got := a.Often(); got <= 1 || got >= 1.5 {
		t.Errorf("used 31 uses ago of which 16 halve: %v", got)
	}
	for range 1000 {
		u.Add(&b, 2)
		u.Add(&c, 2)
	}
	if got := b.Often(); got < 12 || got > 12.1 { // 1 + x + x² ..., where the eighth is a half
		t.Errorf("every second use for long: %v", got)
	}
}
