package agent

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
)

// meeting is where the ranks of a program wait for each other on their devices, once a step.
type meeting struct {
	ranks int

	mu   sync.Mutex
	here map[int]int
	all  map[int]chan struct{}
	last int // step with which all end; 0: not known yet
}

func newMeeting(ranks int) *meeting {
	return &meeting{ranks: ranks, here: map[int]int{}, all: map[int]chan struct{}{}}
}

// arrive notes that a rank has come to a step, and returns what is closed when all have.
func (m *meeting) arrive(step int) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[step] == nil {
		m.all[step] = make(chan struct{})
	}
	if m.here[step]++; m.here[step] == m.ranks {
		close(m.all[step])
	}
	return m.all[step]
}

// ends reports whether a rank that has launched so many steps is to end: all after as many, some
// more than one can be ahead of another when the time is over.
func (m *meeting) ends(steps int, over bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if over && m.last == 0 {
		m.last = steps + 300
	}
	return m.last > 0 && steps >= m.last
}

// train runs steps of a kernel and a collective until a time, as many launched ahead as the bound
// on what is in flight allows, and returns how many and how long the longest took. What is launched
// runs in its order.
func (x *sim) train(until time.Time, m *meeting, kernel time.Duration) (steps int,
	longest time.Duration) {
	last := make(chan struct{}) // closed when what was launched last is complete
	close(last)
	from := time.Now()
	for ; !m.ends(steps, time.Now().After(until)); steps++ {
		for _, collective := range []bool{false, true} {
			before, done, step := last, make(chan struct{}), steps
			if !x.enqueue(kernel, func() {
				defer close(done)
				select {
				case <-before:
				case <-x.j.ctx.Done():
					return
				}
				if collective {
					select {
					case <-m.arrive(step):
					case <-x.j.ctx.Done():
					}
					return
				}
				time.Sleep(time.Until(x.h.device.launch(x.who, kernel)))
			}) {
				return steps, max(longest, time.Since(from))
			}
			last = done
		}
		longest, from = max(longest, time.Since(from)), time.Now()
	}
	return steps, longest
}

// enqueue launches what takes so long by prediction, and runs it.
func (x *sim) enqueue(takes time.Duration, run func()) bool {
	if !x.enter(takes) {
		return false
	}
	x.h.watchers.Go(func() {
		run()
		if x.lives() {
			x.m.s.InflightNS.Add(-uint64(takes))
			x.m.s.DeviceNSTotal.Add(uint64(takes))
		}
	})
	return true
}

// newGang is a gang without jobs.
func (h *host) newGang(name string) *gang {
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	g, err := h.a.gangFor(gangSpec{Name: name}, h.dev)
	if err != nil {
		h.t.Fatal(err)
	}
	return g
}

// TestCrossingGangs has two programs of two ranks on two devices, whose ranks wait for each other
// in each step: each has half of both devices, and none waits for long.
func TestCrossingGangs(t *testing.T) {
	for _, kernel := range []time.Duration{50 * time.Microsecond, 250 * time.Microsecond,
		3 * time.Millisecond} {
		if testing.Short() && kernel < time.Millisecond {
			continue // the same steps, ten thousands of them
		}
		for _, policy := range []string{DefaultPolicy, "fair"} {
			synctest.Test(t, func(t *testing.T) { crossing(t, policy, kernel) })
		}
	}
}

func crossing(t *testing.T, policy string, kernel time.Duration) {
	h := newHost(t, policy)
	defer h.close()
	hosts := []*host{h, h.beside()}
	const run = 4 * time.Second
	begin := time.Now()
	end := begin.Add(run)
	var wg sync.WaitGroup
	for who, name := range []string{"a", "b"} {
		g, m := h.newGang(name), newMeeting(len(hosts))
		for i := range hosts {
			// One program's first rank is on the one device, the other's on the other.
			x := hosts[(who+i)%len(hosts)].rank(who, share.Share{}, g)
			wg.Go(func() {
				steps, longest := x.train(end, m, kernel)
				if longest > 200*time.Millisecond {
					t.Errorf("%s, kernels of %v: rank %d of %s waited %v; %d steps", policy, kernel,
						i, name, longest, steps)
				}
			})
		}
	}
	wg.Wait()
	for i, o := range hosts {
		for who := range 2 {
			got := o.device.got(who, begin.Add(time.Second), end).Seconds() / (run.Seconds() - 1)
			if got < 0.4 || got > 0.6 {
				t.Errorf("%s, kernels of %v: program %d got %.3f of device %d", policy, kernel, who,
					got, i)
			}
		}
	}
}

// TestSlowRankHoldsOneDevice has one rank of a gang run a kernel of 10 s: the other rank's device
// goes to others as soon as that has drained.
func TestSlowRankHoldsOneDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		other := h.beside()
		g := h.newGang("gang")
		slow, quick := h.rank(0, share.Share{}, g), other.rank(0, share.Share{}, g)
		slow.launch(10 * time.Second)
		quick.launch(time.Millisecond)
		y := other.program(1, share.Share{})
		from := time.Now()
		y.launch(time.Millisecond)
		if took := time.Since(from); took > 200*time.Millisecond {
			t.Errorf("another waited %v for a rank that has drained", took)
		}
	})
}

// TestDeadRank ends a rank in the middle of a collective: the other rank's device is free as soon
// as the patience of those who wait is over, and the gang goes on without it.
func TestDeadRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		other := h.beside()
		g, m := h.newGang("gang"), newMeeting(2)
		dies, stays := h.rank(0, share.Share{}, g), other.rank(0, share.Share{}, g)
		end := time.Now().Add(time.Second)
		for _, x := range []*sim{dies, stays} {
			h.watchers.Go(func() { x.train(end, m, time.Millisecond) })
		}
		time.Sleep(100 * time.Millisecond)
		dies.m.process.(*person).die()
		for _, o := range []*host{h, other} {
			y := o.program(1, share.Share{Class: share.Latency})
			from := time.Now()
			y.launch(time.Millisecond)
			if took := time.Since(from); took > h.a.cfg.LatencyDrain+50*time.Millisecond {
				t.Errorf("a latency job waited %v on device %d", took, o.dev.Ordinal)
			}
			y.idle()
		}
	})
}

// TestGangAlone has a gang that nobody disturbs: it does not wait but for its first launches.
func TestGangAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		other := h.beside()
		g := h.newGang("gang")
		ranks := []*sim{h.rank(0, share.Share{}, g), other.rank(0, share.Share{}, g)}
		for _, x := range ranks {
			x.launch(time.Millisecond)
			x.worst = 0
		}
		r := rand.New(rand.NewPCG(1, 1))
		for range 300 {
			for _, x := range ranks {
				for range r.IntN(20) {
					x.launch(time.Millisecond)
				}
			}
			for _, x := range ranks {
				x.idle()
			}
		}
		for _, x := range ranks {
			if x.worst > 0 {
				t.Errorf("a rank alone on device %d waited %v", x.h.dev.Ordinal, x.worst)
			}
			used := x.j.bj.Status().Used
			if got := x.h.device.got(0, time.Time{}, time.Now()); used < got*9/10 ||
				used > got*2 {
				t.Errorf("charged %v for %v", used, got)
			}
		}
	})
}
