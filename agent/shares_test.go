package agent

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// This file runs jobs' goroutines in virtual time, with programs that keep a simulated device busy
// through the gate in their page, and no sockets.

// timeline is a device that runs one kernel after another, in the order of their launches, as the
// hardware queues of a GPU without time slicing.
type timeline struct {
	mu   sync.Mutex
	free time.Time
	runs []run
}

// run is the execution of one kernel.
type run struct {
	who        int
	start, end time.Time
}

func (d *timeline) launch(who int, kernel time.Duration) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	start := time.Now()
	if d.free.After(start) {
		start = d.free
	}
	d.free = start.Add(kernel)
	d.runs = append(d.runs, run{who, start, d.free})
	return d.free
}

// got returns the device time of a program between two times.
func (d *timeline) got(who int, from, to time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	var sum time.Duration
	for _, r := range d.runs {
		if r.who != who && who >= 0 {
			continue
		}
		s, e := r.start, r.end
		if s.Before(from) {
			s = from
		}
		if e.After(to) {
			e = to
		}
		if e.After(s) {
			sum += e.Sub(s)
		}
	}
	return sum
}

// bell is rung when a gate changes.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

func newBell() *bell { return &bell{ch: make(chan struct{})} }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}

func (b *bell) next() chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

// host is the part of an agent that jobs need, on one simulated device.
type host struct {
	t        *testing.T
	a        *Agent
	dev      *device
	device   timeline
	people   *people
	stop     context.CancelFunc
	sims     []*sim
	others   []*host // of the same agent
	watchers sync.WaitGroup
}

func newHost(t *testing.T, policyName string) *host {
	t.Helper()
	h := &host{t: t, people: newPeople()}
	c := testConfig("unused", h.people)
	c.Policy = policyName
	if err := c.setDefaults(); err != nil {
		t.Fatal(err)
	}
	dev, err := newDevice(c.Devices[0], &c, MPS{}, share.Can{Launches: true})
	if err != nil {
		t.Fatal(err)
	}
	h.dev = dev
	h.a = &Agent{
		cfg:        c,
		log:        slog.New(slog.DiscardHandler),
		devices:    []*device{dev},
		generation: 1,
		jobs:       map[wire.Token]*job{},
		conns:      map[*conn]struct{}{},
		gangs:      map[string]*gang{},
	}
	h.a.ctx, h.stop = context.WithCancel(t.Context())
	return h
}

// beside is another device of the same agent, which is closed with the first.
func (h *host) beside() *host {
	h.t.Helper()
	d := h.dev.Device
	d.Ordinal = uint32(len(h.a.devices))
	dev, err := newDevice(d, &h.a.cfg, MPS{}, share.Can{Launches: true})
	if err != nil {
		h.t.Fatal(err)
	}
	h.a.devices = append(h.a.devices, dev)
	o := &host{t: h.t, a: h.a, dev: dev, people: h.people, stop: h.stop}
	h.others = append(h.others, o)
	return o
}

func (h *host) close() {
	h.stop()
	all := append(h.others, h)
	for _, o := range all {
		for _, x := range o.sims {
			x.j.users.Done()
		}
	}
	for _, o := range all {
		o.watchers.Wait()
	}
	h.a.work.Wait()
	for _, o := range all {
		o.dev.broker.Close()
	}
}

// sim is a program in virtual time: one thread that launches kernels as fast as it may, and the
// library's watcher.
type sim struct {
	h     *host
	who   int
	j     *job
	m     *member
	page  *wire.Page
	bell  *bell
	last  atomic.Int64 // when all that is in flight is complete
	worst time.Duration
}

// program makes a job of one process.
func (h *host) program(who int, s share.Share) *sim { return h.rank(who, s, nil) }

// rank makes a job of one process, of a gang unless that is nil.
func (h *host) rank(who int, s share.Share, g *gang) *sim {
	h.t.Helper()
	mem := make([]byte, wire.PageSize)
	page, err := wire.OverlayPage(mem)
	if err != nil {
		h.t.Fatal(err)
	}
	page.Format()
	own, err := wire.OverlayPage(mem)
	if err != nil {
		h.t.Fatal(err)
	}
	if s.Memory == 0 {
		s.Memory = share.GiB
	}
	bj, err := h.dev.broker.Admit(share.Job{Name: string(rune('a' + who)), Share: s}, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	x := &sim{h: h, who: who, page: own, bell: newBell()}
	h.sims = append(h.sims, x)
	x.j = h.a.newJob(
		h.dev,
		bj,
		wire.Terms{
			Token:    wire.Token{byte(who + 1), byte(h.dev.Ordinal)},
			Class:    uint32(s.Class),
			InFlight: h.a.cfg.InFlight,
		},
		page,
		g,
	)
	x.j.wake = x.bell.ring
	h.a.mu.Lock()
	x.j.start()
	h.a.mu.Unlock()
	p := h.people.born()
	x.m, _, err = x.j.attach(
		&conn{a: h.a, uc: &net.UnixConn{}, peer: peer{uid: p.uid, pid: p.pid, process: p}},
		wire.Hello{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.watchers.Go(x.watcher)
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	h.a.jobs[x.j.terms.Token] = x.j
	h.a.boundInFlight(h.dev)
	return x
}

// watcher says when nothing is in flight after a close.
func (x *sim) watcher() {
	for {
		changed := x.bell.next()
		g := x.page.Header().Gate.Load()
		if !wire.IsOpen(g) && x.m.s.DrainedSeq.Load() != g && g != 0 {
			x.drain()
			if x.page.Header().Gate.Load() == g {
				x.m.s.DrainedSeq.Store(g)
				kick(x.j.kicked)
			}
		}
		select {
		case <-changed:
		case <-x.j.ctx.Done():
			return
		}
	}
}

// lives reports whether neither the program nor its job has ended.
func (x *sim) lives() bool { return x.j.ctx.Err() == nil && x.m.process.alive() }

func (x *sim) drain() {
	for x.m.s.InflightNS.Load() > 0 && x.lives() {
		time.Sleep(x.untilLast())
	}
}

// untilLast is the time until all that was launched is complete, or a moment if it is and something
// claims otherwise.
func (x *sim) untilLast() time.Duration {
	if d := time.Until(time.Unix(0, x.last.Load())); d >= 0 {
		return d + 1
	}
	return time.Millisecond
}

// pass waits at the gate; false if the job ends.
func (x *sim) pass() bool {
	from := time.Now()
	for first := true; ; first = false {
		changed := x.bell.next()
		h := x.page.Header()
		g := h.Gate.Load()
		if wire.IsOpen(g) || h.GatePass.CompareAndSwap(g, 0) && g != 0 {
			if !first {
				x.m.s.Waiting.Add(^uint32(0))
			}
			x.worst = max(x.worst, time.Since(from))
			return true
		}
		if first {
			x.m.s.Waiting.Add(1)
			kick(x.j.kicked)
		}
		select {
		case <-changed:
		case <-x.m.process.done():
			return false
		case <-x.j.ctx.Done():
			return false
		}
	}
}

// enter counts a launch of what takes so long by prediction, as soon as the gate is open and the
// bound on what is in flight allows it; false: the program has ended.
func (x *sim) enter(takes time.Duration) bool {
	for {
		if !x.pass() || !x.lives() {
			return false
		}
		flying := time.Duration(x.m.s.InflightNS.Load())
		if flying == 0 || flying+takes <= time.Duration(x.page.Header().InflightBoundNS.Load()) {
			break
		}
		time.Sleep(20 * time.Microsecond)
	}
	x.m.s.Launches.Add(1)
	x.m.s.InflightNS.Add(uint64(takes))
	return true
}

// launch launches a kernel as soon as it may.
func (x *sim) launch(kernel time.Duration) bool {
	if !x.enter(kernel) {
		return false
	}
	end := x.h.device.launch(x.who, kernel)
	x.last.Store(end.UnixNano())
	time.AfterFunc(time.Until(end), func() {
		if !x.lives() {
			return
		}
		x.m.s.InflightNS.Add(-uint64(kernel))
		x.m.s.DeviceNSTotal.Add(uint64(kernel))
	})
	return true
}

// idle does what the library does when there has been nothing to do for a while.
func (x *sim) idle() {
	x.drain()
	time.Sleep(wire.Idle)
	x.j.noteIdle(x.m)
	kick(x.j.kicked)
}

// flood launches kernels of random lengths until the time is over.
func (x *sim) flood(until time.Time, r *rand.Rand, shortest, longest time.Duration) {
	for time.Now().Before(until) {
		if !x.launch(shortest + time.Duration(r.Int64N(int64(longest-shortest)+1))) {
			return
		}
	}
}

// loop does what training does: launches an iteration's kernels, waits for all of them, and
// prepares the next.
func (x *sim) loop(until time.Time, kernels int, kernel, prepare time.Duration) {
	for time.Now().Before(until) {
		for range kernels {
			if !x.launch(kernel) {
				return
			}
		}
		x.drain()
		time.Sleep(prepare)
	}
}

// TestIterationsKeepShares has programs that wait for their own work in each iteration: they are
// not to lose their turn by that.
func TestIterationsKeepShares(t *testing.T) {
	for _, kernel := range []time.Duration{50 * time.Microsecond, 250 * time.Microsecond,
		time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, DefaultPolicy)
			defer h.close()
			shares := []float64{0.3, 0.7}
			begin, end := time.Now(), time.Now().Add(4*time.Second)
			var wg sync.WaitGroup
			for i, s := range shares {
				x := h.program(i, share.Share{Compute: s})
				wg.Go(func() { x.loop(end, 17, kernel, 30*time.Microsecond) })
			}
			wg.Wait()
			for i, s := range shares {
				got := h.device.got(i, begin.Add(time.Second), end).Seconds() / 3
				if got < s-0.03 || got > s+0.03 {
					t.Errorf("kernels of %v: got %.3f, entitled to %.3f", kernel, got, s)
				}
			}
			t.Logf("total %v", h.device.got(-1, begin.Add(time.Second), end)/3)
		})
	}
}

// TestSharesHold floods a device from programs with random shares, and holds each window of a
// second against the entitlements.
func TestSharesHold(t *testing.T) {
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) { shares(t, seed) })
	}
}

func shares(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	h := newHost(t, []string{"fair", "priority"}[seed%2])
	defer h.close()
	n := 2 + r.IntN(7)
	longest := []time.Duration{100 * time.Microsecond, time.Millisecond,
		10 * time.Millisecond}[r.IntN(3)]
	specs := make([]share.Share, n)
	claims := make([]share.Claim, n)
	for i := range specs {
		specs[i].Compute = (0.3 + 0.7*r.Float64()) / float64(n)
		if r.IntN(3) == 0 {
			specs[i].Limit = min(1, specs[i].Compute*(1+r.Float64()))
		}
		claims[i] = share.ClaimOf(specs[i], 1)
	}
	want := make([]float64, n)
	share.Entitle(claims, want)
	begin, end := time.Now(), time.Now().Add(4*time.Second)
	var wg sync.WaitGroup
	for i := range n {
		x := h.program(i, specs[i])
		own := rand.New(rand.NewPCG(seed, uint64(i)+2))
		wg.Go(func() { x.flood(end, own, 10*time.Microsecond, longest) })
	}
	wg.Wait()
	full := 0.0
	for _, w := range want {
		full += w
	}
	const pace = 250 * time.Millisecond
	for from := begin.Add(time.Second); !from.Add(time.Second).After(end); from = from.Add(pace) {
		to := from.Add(time.Second)
		for i := range n {
			got := h.device.got(i, from, to).Seconds()
			if e := got - want[i]; e > 0.02+longest.Seconds() || e < -0.02-longest.Seconds() {
				t.Errorf(
					"seed %d, %d programs, kernels to %v: program %d got %.3f, entitled to %.3f "+
						"(%+v)",
					seed,
					n,
					longest,
					i,
					got,
					want[i],
					specs[i],
				)
			}
		}
		if total := h.device.got(-1, from, to).Seconds(); total < 0.97*full-longest.Seconds() {
			t.Errorf("seed %d, %d programs: total %.3f of %.3f", seed, n, total, full)
		}
	}
}

// TestLatencyBesideFlood holds the delay of a latency job beside an opportunistic flood of kernels
// of 0.25 ms.
func TestLatencyBesideFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		end := time.Now().Add(5 * time.Second)
		flood, latency := h.program(0, share.Share{Class: share.Opportunistic}), h.program(1,
			share.Share{Class: share.Latency, Compute: 0.5})
		var wg sync.WaitGroup
		wg.Go(
			func() {
				flood.flood(end, rand.New(rand.NewPCG(1, 1)), 250*time.Microsecond,
					250*time.Microsecond)
			},
		)
		var delays []time.Duration
		wg.Go(func() {
			r := rand.New(rand.NewPCG(2, 2))
			for time.Now().Before(end) {
				time.Sleep(time.Duration(r.ExpFloat64() * float64(20*time.Millisecond)))
				from := time.Now()
				if !latency.launch(200 * time.Microsecond) {
					return
				}
				delays = append(delays, time.Since(from))
				latency.idle()
			}
		})
		wg.Wait()
		slices.Sort(delays)
		p99 := delays[len(delays)*99/100]
		t.Logf("%d requests, delay p50 %v, p99 %v", len(delays), delays[len(delays)/2], p99)
		if bound := time.Millisecond; p99 > bound {
			t.Errorf("delay p99 %v, bound %v", p99, bound)
		}
		if got := h.device.got(0, end.Add(-4*time.Second), end).Seconds(); got < 3.7 {
			t.Errorf("the flood got %.2f s of 4 s", got)
		}
	})
}

// TestAloneIsUndisturbed holds that a program alone on a device never waits but for its first
// launch, through many leases and times of idleness.
func TestAloneIsUndisturbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x := h.program(0, share.Share{})
		if !x.launch(time.Millisecond) {
			t.Fatal("did not run")
		}
		x.worst = 0
		for i := range 200 {
			for range 30 {
				x.launch(time.Millisecond)
			}
			x.idle()
			if i%10 == 0 {
				time.Sleep(50 * time.Millisecond)
			}
		}
		if x.worst > 0 {
			t.Errorf("a lone program waited %v", x.worst)
		}
		// Idle time is not charged, as far as it is seen.
		used := x.j.bj.Status().Used
		if got := h.device.got(0, time.Time{}, time.Now()); used < got*9/10 || used > got*11/10 {
			t.Errorf("charged %v for %v", used, got)
		}
	})
}

// TestLimitAlone holds a limit on an idle device.
func TestLimitAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x := h.program(0, share.Share{Limit: 0.25})
		begin := time.Now()
		x.flood(begin.Add(5*time.Second), rand.New(rand.NewPCG(1, 1)), 10*time.Microsecond,
			2*time.Millisecond)
		const step = 100 * time.Millisecond
		for from := begin; from.Before(begin.Add(4 * time.Second)); from = from.Add(step) {
			got := h.device.got(0, from, from.Add(time.Second)).Seconds()
			if got > 0.25+0.01 ||
				from.After(begin) && got < 0.24 {
				t.Errorf("%.3f in the second from %v, limit 0.25", got, from.Sub(begin))
			}
		}
	})
}

// TestLongKernel has a program launch a kernel of 10 s: others wait for it, and it pays.
func TestLongKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x, y := h.program(0, share.Share{Compute: 0.5}), h.program(1, share.Share{Compute: 0.5})
		x.launch(10 * time.Second)
		time.Sleep(time.Millisecond)
		from := time.Now()
		y.launch(time.Millisecond)
		if took := time.Since(from); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("the other waited %v", took)
		}
		if used := x.j.bj.Status().Used; used < 9*time.Second {
			t.Errorf("charged %v for 10 s", used)
		}
	})
}

// TestNeverDrained has a program claim for ever that it has work in flight: the others wait for it
// once, not again.
func TestNeverDrained(t *testing.T) {
	beside := 10 * time.Second
	if testing.Short() {
		beside = 3 * time.Second
	}
	// Under timeslice nobody owes anything for the time that was lost.
	for _, policy := range []string{DefaultPolicy, "timeslice"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, policy)
			defer h.close()
			x, y := h.program(0, share.Share{}), h.program(1, share.Share{})
			x.launch(time.Millisecond)
			x.m.s.InflightNS.Store(1 << 60)
			x.m.s.Waiting.Store(1)
			from := time.Now()
			y.launch(time.Millisecond)
			if took := time.Since(from); took > h.a.cfg.DrainTimeout+time.Second {
				t.Errorf("%s: the other waited %v", policy, took)
			}
			begin := time.Now()
			y.worst = 0
			y.flood(begin.Add(beside), rand.New(rand.NewPCG(1, 1)), time.Millisecond,
				time.Millisecond)
			if y.worst > 10*time.Millisecond {
				t.Errorf("%s: the other waited again for %v", policy, y.worst)
			}
		})
	}
}

// TestStoppedProcess stops a program in the middle of its work: the others wait for what it has in
// flight, not for it.
func TestStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x, y := h.program(0, share.Share{}), h.program(1, share.Share{})
		x.launch(time.Millisecond)
		x.m.s.InflightNS.Store(uint64(2 * time.Millisecond))
		x.m.process.(*person).halted.Store(true)
		from := time.Now()
		y.launch(time.Millisecond)
		if took := time.Since(from); took > 200*time.Millisecond {
			t.Errorf("the other waited %v", took)
		}
	})
}

// TestDeathInVirtualTime ends a program in each phase of its job, and holds that the other has the
// device at once.
func TestDeathInVirtualTime(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 7 * time.Millisecond,
		123 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, DefaultPolicy)
			defer h.close()
			x, y := h.program(0, share.Share{Compute: 0.9}), h.program(1, share.Share{Compute: 0.1})
			end := time.Now().Add(time.Second)
			for i, p := range []*sim{x, y} {
				h.watchers.Go(
					func() {
						p.flood(end, rand.New(rand.NewPCG(1, uint64(i))), time.Millisecond,
							2*time.Millisecond)
					},
				)
			}
			time.Sleep(after)
			x.m.process.(*person).die()
			synctest.Wait()
			if x.m.s.OwnerPID.Load() != 0 || x.m.s.MemUsedBytes.Load() != 0 {
				t.Error("the slot of the dead is not free")
			}
			from := time.Now().Add(10 * time.Millisecond)
			time.Sleep(time.Until(end))
			if got := h.device.got(1, from, end); got < end.Sub(from)*97/100 {
				t.Errorf("died after %v: the other got %v of %v", after, got, end.Sub(from))
			}
		})
	}
}
