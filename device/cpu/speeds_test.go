package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// cores are the chunks of a region on cores of unlike speeds, in virtual time: chunk i takes
// work[i] on a core of speed 1, and worker w has a core of speed speeds[w].
type cores struct {
	speeds []float64
	work   []time.Duration
	done   []int // chunks by worker, each written by its own worker
}

func (c *cores) Chunk(i, worker int) {
	time.Sleep(time.Duration(float64(c.work[i]) / c.speeds[worker]))
	c.done[worker]++
}

// ideal is how long the work takes when all cores end at the same time.
func (c *cores) ideal() time.Duration {
	var work, speed float64
	for _, w := range c.work {
		work += float64(w)
	}
	for _, s := range c.speeds {
		speed += s
	}
	return time.Duration(work / speed)
}

// apart is how long it takes when each core is given as many chunks as the others, in their order.
func (c *cores) apart() (longest time.Duration) {
	for w, s := range c.speeds {
		var work float64
		n, m := len(c.work), len(c.speeds)
		for _, d := range c.work[w*n/m : (w+1)*n/m] {
			work += float64(d)
		}
		longest = max(longest, time.Duration(work/s))
	}
	return longest
}

// kindsOfCores are the speeds of processors with cores of unlike kinds, the caller's first.
var kindsOfCores = []struct {
	name   string
	speeds []float64
}{
	{"four fast and four efficient", []float64{1, 1, 1, 1, 0.35, 0.35, 0.35, 0.35}},
	{"two fast and six efficient", []float64{1, 1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3}},
	{"three kinds", []float64{1, 0.75, 0.75, 0.75, 0.25, 0.25, 0.25, 0.25}},
	{"the caller's is the slow one", []float64{0.3, 1, 1, 1}},
	{"one that another program has most of", []float64{1, 1, 1, 0.02}},
}

// Workers that claim chunks one by one are busy until none is left, whatever their speeds: the
// region ends at the latest one chunk of the slowest core after the ideal time (list scheduling on
// uniform machines; Liu and Liu, "Bounds on Scheduling Algorithms for Heterogeneous Computing
// Systems", 1974).
func TestSlowCoresDoNotHoldTheRest(t *testing.T) {
	for _, k := range kindsOfCores {
		t.Run(k.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for range 8 {
				c := &cores{speeds: k.speeds, done: make([]int, len(k.speeds))}
				for range len(k.speeds) * (4 + r.IntN(60)) {
					c.work = append(c.work, time.Duration(50+r.IntN(100))*time.Microsecond)
				}
				took := c.run(t)
				one := float64(slices.Max(c.work)) / slices.Min(k.speeds)
				if most := c.ideal() + time.Duration(one); took < c.ideal() || took > most {
					t.Errorf("%d chunks: %v, ideal %v, at most %v", len(c.work), took, c.ideal(),
						most)
				}
				if len(c.work) >= 16*len(k.speeds) && took >= c.apart() {
					t.Errorf("%d chunks: %v, and %v if each core had as many", len(c.work), took,
						c.apart())
				}
			}
		})
	}
}

// run runs the chunks on a pool and returns the virtual time that they took.
func (c *cores) run(t *testing.T) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(PoolOptions{Threads: len(c.speeds)})
		defer p.Close()
		start := time.Now()
		if err := p.Run(t.Context(), nil, len(c.work), c); err != nil {
			t.Fatal(err)
		}
		took = time.Since(start)
	})
	sum := 0
	for _, n := range c.done {
		sum += n
	}
	if sum != len(c.work) {
		t.Errorf("%d chunks ran of %d", sum, len(c.work))
	}
	return took
}

// A fast core does as many more chunks than a slow one as it is faster.
func TestFastCoresDoMore(t *testing.T) {
	c := &cores{speeds: []float64{1, 1, 0.25, 0.25}, done: make([]int, 4),
		work: slices.Repeat([]time.Duration{time.Millisecond}, 1000)}
	c.run(t)
	for w, s := range c.speeds {
		if want := 1000 * s / 2.5; float64(c.done[w]) < want-2 || float64(c.done[w]) > want+2 {
			t.Errorf("worker %d of speed %v ran %d chunks, want %v", w, s, c.done[w], want)
		}
	}
}

// A worker whose core has stopped within a chunk holds up that chunk's region, and no other.
func TestStoppedCoreHoldsNoOtherRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(PoolOptions{Threads: 4})
		defer p.Close()
		stopped := &cores{speeds: []float64{1, 1e-6, 1, 1}, done: make([]int, 4),
			work: slices.Repeat([]time.Duration{time.Millisecond}, 40)}
		ended := make(chan error, 1)
		go func() { ended <- p.Run(t.Context(), nil, 40, stopped) }()
		time.Sleep(time.Second) // all chunks but the stopped worker's have ended
		for range 10 {
			c := &cores{speeds: []float64{1, 1, 1, 1}, done: make([]int, 4),
				work: slices.Repeat([]time.Duration{time.Millisecond}, 30)}
			start := time.Now()
			if err := p.Run(t.Context(), nil, 30, c); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took != 10*time.Millisecond {
				t.Errorf("30 chunks of 1 ms on the three workers left: %v", took)
			}
		}
		select {
		case err := <-ended:
			t.Errorf("the region of the stopped worker has ended with its chunk unrun: %v", err)
		default:
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if stopped.done[1] != 1 {
			t.Errorf("the stopped worker ran %d chunks", stopped.done[1])
		}
	})
}
