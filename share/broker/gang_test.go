package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// floor is several devices with gangs on them, and jobs of one device each.
type floor struct {
	t       *testing.T
	brokers []*broker.Broker
	gangs   broker.Gangs
	work    sync.WaitGroup

	mu    sync.Mutex
	since []time.Time // by device: since when nobody uses it; zero while somebody does
	crews []*crew
}

// crew is a gang that always has work, or pauses between its turns.
type crew struct {
	on      []int // devices
	step    time.Duration
	pause   time.Duration
	waits   time.Time // since when; zero while it runs or pauses
	longest time.Duration
	ran     time.Duration
	turns   int
	short   []string // what fits and did not run
}

func newFloor(t *testing.T, policy string, devices int) *floor {
	t.Helper()
	f := &floor{t: t, since: make([]time.Time, devices)}
	for i := range devices {
		c, err := core.Config{Device: fmt.Sprint("device ", i), Units: 1,
			Memory: share.GiB}.ForPolicy(policy)
		if err != nil {
			t.Fatal(err)
		}
		b, err := broker.New(broker.Config{Config: c})
		if err != nil {
			t.Fatal(err)
		}
		f.brokers = append(f.brokers, b)
		f.since[i] = time.Now()
	}
	return f
}

// end waits until all work is over, and checks the policies' instructions.
func (f *floor) end() {
	f.work.Wait()
	for i, b := range f.brokers {
		if n, err := b.Faults(); n > 0 {
			f.t.Errorf("device %d: %d faults, the first: %v", i, n, err)
		}
		b.Close()
	}
}

func (f *floor) admit(device int, name string, s share.Share) *broker.Job {
	f.t.Helper()
	s.Memory = 1
	j, err := f.brokers[device].Admit(share.Job{Name: name, Share: s}, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return j
}

// use notes that devices are used from here on, or not any more.
func (f *floor) use(used bool, devices ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range devices {
		if f.since[d] = time.Now(); used {
			f.since[d] = time.Time{}
		}
	}
}

// single runs a job that always has work, in kernels of a length.
func (f *floor) single(ctx context.Context, device int, step time.Duration, j *broker.Job) {
	f.work.Go(func() {
		l, err := j.Acquire(ctx)
		for err == nil {
			f.use(true, device)
			for ctx.Err() == nil {
				time.Sleep(step)
				if l.Revoked() {
					break
				}
			}
			f.use(false, device)
			err = l.Renew(ctx)
		}
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			f.t.Error(err)
		}
	})
}

// crew runs a gang.
func (f *floor) crew(ctx context.Context, c *crew, jobs []*broker.Job) {
	f.crews = append(f.crews, c)
	g := f.gangs.New()
	for _, j := range jobs {
		g.Join(j)
	}
	f.work.Go(func() {
		get := g.Acquire
		for {
			f.mu.Lock()
			c.waits = time.Now()
			f.mu.Unlock()
			err := get(ctx)
			f.mu.Lock()
			c.longest = max(c.longest, time.Since(c.waits))
			c.waits = time.Time{}
			f.mu.Unlock()
			if err != nil {
				for _, j := range jobs {
					if s := j.Status(); s.Phase != share.Idle {
						f.t.Errorf("job %s: %v after %v", s.Name, s.Phase, err)
					}
				}
				return
			}
			f.turn(ctx, c, g)
			if get = g.Renew; c.pause > 0 {
				g.Release()
				time.Sleep(c.pause)
				get = g.Acquire
			}
		}
	})
}

// turn is what a gang does once it has its leases.
func (f *floor) turn(ctx context.Context, c *crew, g *broker.Gang) {
	f.mu.Lock()
	for _, d := range c.on {
		if f.since[d].IsZero() {
			f.t.Errorf("device %d is used by two", d)
		}
	}
	f.mu.Unlock()
	f.use(true, c.on...)
	from := time.Now()
	for ctx.Err() == nil {
		time.Sleep(c.step)
		if !g.Over() {
			continue
		}
		c.turns++
		if c.pause > 0 || !g.TryRenew() {
			break
		}
	}
	f.use(false, c.on...)
	c.ran += time.Since(from)
}

// watch looks every so often whether a gang waits whose devices nobody has used for too long.
func (f *floor) watch(ctx context.Context, bound time.Duration) {
	f.work.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			f.mu.Lock()
			for _, c := range f.crews {
				if c.waits.IsZero() {
					continue
				}
				fits := c.waits
				for _, d := range c.on {
					if s := f.since[d]; s.IsZero() {
						fits = time.Now()
					} else if s.After(fits) {
						fits = s
					}
				}
				if idle := time.Since(fits); idle > bound && len(c.short) < 3 {
					c.short = append(c.short, fmt.Sprintf("devices %v idle for %v", c.on, idle))
				}
			}
			f.mu.Unlock()
		}
	})
}

// debtors are seeds of gangs that come to hold a device in vain while they are in debt for what
// they held in vain of another. How far that goes is also by which of two gangs is first.
var debtors = []uint64{215, 325, 616, 790, 1177, 1352, 1813, 1841}

// TestGangsNeverDeadlock runs random gangs on random devices beside random jobs. None waits for
// ever, no two use a device at once, and no gang waits whose devices nobody uses, but for the
// patience of another.
func TestGangsNeverDeadlock(t *testing.T) {
	seeds := slices.Clone(debtors)
	n := uint64(28)
	switch {
	case os.Getenv("WEIR_LONG") != "":
		n = 5000
	case testing.Short():
		n, seeds = 7, nil
	}
	for seed := range n {
		if !slices.Contains(seeds, seed) {
			seeds = append(seeds, seed)
		}
	}
	policies := []string{"fair", "priority", "fair:slice=10ms", "timeslice", "gemini", "gaia",
		"cgpu", "vgpu"}
	for _, seed := range seeds {
		policy := policies[seed%uint64(len(policies))]
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomGangs(t, seed, policy) })
		})
	}
}

func randomGangs(t *testing.T, seed uint64, policy string) {
	const run = 8 * time.Second
	r := rand.New(rand.NewPCG(seed, 5))
	devices := 2 + r.IntN(3)
	f := newFloor(t, policy, devices)
	ctx, cancel := context.WithTimeout(t.Context(), run)
	defer cancel()
	longest := []time.Duration{100 * time.Microsecond, ms, 10 * ms}[r.IntN(3)]
	// what a job runs takes some microseconds at least
	step := func() time.Duration {
		return max(5*time.Microsecond, 1+time.Duration(r.Int64N(int64(longest))))
	}
	gangs := 1 + r.IntN(4)
	jobs := make([]int, devices)
	for i := range gangs {
		c := &crew{on: r.Perm(devices)[:2+r.IntN(devices-1)], step: step()}
		if r.IntN(3) == 0 {
			c.pause = time.Duration(r.IntN(int(20 * ms)))
		}
		var list []*broker.Job
		for _, d := range c.on {
			list = append(list, f.admit(d, fmt.Sprint("gang-", i), share.Share{Compute: 0.1}))
			jobs[d]++
		}
		f.crew(ctx, c, list)
	}
	for d := range devices {
		for i := range r.IntN(3) {
			f.single(ctx, d, step(), f.admit(d, fmt.Sprint("job-", i), share.Share{Compute: 0.1}))
			jobs[d]++
		}
	}
	// Policies that go by turns, and not by what each has had, let a gang wait on one device for a
	// turn that another device has just had.
	idle, wait := 8*broker.Patience+2*longest, 2*time.Second
	if slices.Contains([]string{"timeslice", "cgpu", "vgpu"}, policy) {
		idle, wait = run, run
	}
	f.watch(ctx, idle)
	f.end()
	for i, c := range f.crews {
		if c.turns < 3 || c.longest > wait || len(c.short) > 0 {
			t.Errorf("seed %d, %s: gang %d of %d on %v of %v: %d turns, ran %v, waited up to %v: "+
				"%v", seed, policy, i, gangs, c.on, jobs, c.turns, c.ran, c.longest, c.short)
		}
	}
}

// TestGangsShare holds what gangs and jobs beside them get, under policies that go by what each has
// had: what each device's policy gives, and for a gang the least of that.
func TestGangsShare(t *testing.T) {
	type member struct {
		on    []int
		share share.Share
		want  float64
	}
	half := share.Share{Compute: 0.5}
	quarter := share.Share{Compute: 0.25}
	for _, c := range []struct {
		name    string
		members []member
	}{
		{"two gangs", []member{{[]int{0, 1}, half, 0.5}, {[]int{0, 1}, half, 0.5}}},
		{"crossing", []member{{[]int{0, 1}, half, 0.5}, {[]int{1, 0}, half, 0.5}}},
		{"by guarantee", []member{{[]int{0, 1}, share.Share{Compute: 0.3}, 0.3},
			{[]int{0, 1}, share.Share{Compute: 0.7}, 0.7}}},
		{"beside a job on each", []member{{[]int{0, 1}, half, 0.5}, {[]int{0}, half, 0.5},
			{[]int{1}, half, 0.5}}},
		{"beside a job on one", []member{{[]int{0, 1}, half, 0.5}, {[]int{1}, half, 0.5}}},
		{"beside more on one", []member{{[]int{0, 1}, quarter, 0.25}, {[]int{0}, quarter, 0.75},
			{[]int{1}, quarter, 0.25}, {[]int{1}, half, 0.5}}},
		{"limited", []member{{[]int{0, 1}, share.Share{Compute: 0.25, Limit: 0.25}, 0.25},
			{[]int{0}, half, 0.75}}},
		{"three in a ring", []member{{[]int{0, 1}, half, 0.33}, {[]int{1, 2}, half, 0.33},
			{[]int{2, 0}, half, 0.33}}},
		{"eight devices", []member{{[]int{0, 1, 2, 3, 4, 5, 6, 7}, half, 0.5},
			{[]int{7, 6, 5, 4, 3, 2, 1, 0}, half, 0.5}}},
	} {
		for _, policy := range []string{"fair", "priority", "fair:slice=10ms"} {
			if testing.Short() && policy != "fair" {
				continue // which only decide otherwise
			}
			t.Run(c.name+" under "+policy, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const run = 8 * time.Second
					f := newFloor(t, policy, 8)
					ctx, cancel := context.WithTimeout(t.Context(), run)
					defer cancel()
					got := make([]func() time.Duration, len(c.members))
					for i, m := range c.members {
						var jobs []*broker.Job
						for _, d := range m.on {
							jobs = append(jobs, f.admit(d, fmt.Sprint("member-", i), m.share))
						}
						if len(jobs) == 1 {
							f.single(ctx, m.on[0], ms, jobs[0])
							got[i] = func() time.Duration { return jobs[0].Status().Used }
							continue
						}
						crew := &crew{on: m.on, step: ms}
						f.crew(ctx, crew, jobs)
						got[i] = func() time.Duration { return crew.ran }
					}
					f.work.Wait()
					off := 0.04
					if policy == "fair:slice=10ms" { // as long as a gang's patience
						off = 0.05
					}
					for i, m := range c.members {
						if part := got[i]().Seconds() / run.Seconds(); part < m.want-off ||
							part > m.want+off {
							t.Errorf("%v got %.3f, want %.2f", m.on, part, m.want)
						}
					}
					f.end()
				})
			})
		}
	}
}

// TestGangsPayForWhatTheyHoldInVain has a gang whose second device is within a kernel of another
// job of its owner more often than not, so that it holds the first one in vain: who has a guarantee
// there gets that all the same.
func TestGangsPayForWhatTheyHoldInVain(t *testing.T) {
	for _, policy := range []string{"fair", "priority"} {
		for _, kernel := range []time.Duration{30 * ms, 60 * ms} {
			synctest.Test(t, func(t *testing.T) {
				const run = 8 * time.Second
				f := newFloor(t, policy, 2)
				ctx, cancel := context.WithTimeout(t.Context(), run)
				defer cancel()
				honest := f.admit(0, "honest", share.Share{Compute: 0.5})
				f.single(ctx, 0, ms, honest)
				f.single(ctx, 0, ms, f.admit(0, "other", share.Share{Compute: 0.1}))
				f.single(ctx, 1, kernel, f.admit(1, "accomplice", share.Share{Compute: 0.5}))
				holds := f.admit(0, "gang", share.Share{Compute: 0.4})
				c := &crew{step: ms, on: []int{0, 1}}
				f.crew(ctx, c, []*broker.Job{holds,
					f.admit(1, "gang", share.Share{Compute: 0.4})})
				f.work.Wait()
				got, held := honest.Status().Used, holds.Status().Used
				if got < run*49/100 || held-c.ran < run/25 {
					t.Errorf("%s, kernels of %v: who has half of a device gets %v of %v beside a "+
						"gang that holds it for %v and runs for %v", policy, kernel, got, run, held,
						c.ran)
				}
				f.end()
			})
		}
	}
}
