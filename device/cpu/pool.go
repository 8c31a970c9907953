package cpu

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
)

// PoolOptions say how a [Pool] uses the cores. The zero value is a sound choice.
type PoolOptions struct {
	// Threads is the number of chunks of one region that run at the same time, the caller's
	// included; 0 stands for the cores this process may use. It is at most [MaxThreads].
	Threads int
	// Pin ties each worker to one processor of the process's affinity mask. Without it the
	// operating system now and then leaves two workers on one core; with it a worker cannot evade
	// another program. The caller's thread is pinned by [Pool.PinCaller] only. Where the system
	// does not allow it, nothing is pinned.
	Pin bool
	// CPUs lists the processors that workers are pinned to, in the order of the workers' numbers;
	// the first is for the caller. Processors outside the affinity mask are ignored. An empty list
	// stands for the mask. CPUs has no effect without Pin.
	CPUs []int
	// Spin is how long a worker without work looks for more before it parks; a parked worker comes
	// back some tens of microseconds after the next region begins. 0 stands for 2 ms, which spans
	// the serial stretches of a forward pass; a negative value parks at once.
	Spin time.Duration
}

// MaxThreads is the largest number of threads that a pool has.
const MaxThreads = 1024

const (
	maxRegions  = 64 // one bit each in Pool.open and Pool.busy
	defaultSpin = 2 * time.Millisecond

	// A turn of a spinning thread is pausesPerTurn pause instructions, some 30 to 400 ns on today's
	// processors. After spinTurns turns, which is longer than a chunk should take, the thread
	// offers its core to other threads each turn, and its scheduler processor to other goroutines
	// every goschedTurns turns.
	pausesPerTurn = 8
	spinTurns     = 1 << 10
	yieldTurns    = 1 << 9
	goschedTurns  = 4
	// A worker without work offers its scheduler processor and its core so often from the
	// beginning: on a machine of few cores other goroutines wait for them, such as those that
	// answer requests, and where there are more scheduler processors than cores, their threads.
	offerTurns = 16
)

// Pool runs parallel loops on a fixed set of worker threads. The goroutine that calls [Pool.Run]
// works too, as worker 0, and claims chunks beside the others. Workers therefore only ever help:
// when one loses its core to another program or is busy in another region, the caller goes on
// without it.
//
// A Pool is safe for concurrent use: several goroutines may run regions at the same time. It must
// be closed to end its workers.
type Pool struct {
	_        [lineBytes]byte
	open     atomic.Uint64 // the slots that may have chunks to claim
	_        [lineBytes - 8]byte
	busy     atomic.Uint64 // the slots that have a caller
	_        [lineBytes - 8]byte
	parked   []atomic.Uint64 // bit by worker: asleep, and nobody has promised a token
	spinning atomic.Int32    // workers looking for work
	callers  atomic.Int32    // that hold all units
	closed   atomic.Bool
	_        [lineBytes - 36]byte

	slots   []slot          // maxRegions of them, or none if there are no workers
	tokens  []chan struct{} // by worker
	places  []place         // by worker, who alone uses it; nil: nobody moves
	threads int
	spin    time.Duration
	cpus    []int // empty: do not pin
	homes   func() []int
	running sync.WaitGroup
}

// place is what a worker knows of where it is: see apart.
type place struct {
	stays time.Time // until when it leaves no caller's processor
	mask  affinity  // its thread's, as it was read then
}

// NewPool starts a pool. The caller owns it and must Close it.
func NewPool(opts PoolOptions) *Pool {
	p := &Pool{threads: opts.Threads, spin: opts.Spin}
	if p.threads <= 0 {
		p.threads = Cores()
	}
	p.threads = min(p.threads, MaxThreads)
	if p.spin == 0 {
		p.spin = defaultSpin
	}
	p.cpus = pinTargets(opts, allowedCPUs())
	p.homes = sync.OnceValue(p.processors)
	workers := p.threads - 1
	if workers == 0 {
		return p
	}
	p.tokens = make([]chan struct{}, p.threads)
	for w := range p.tokens {
		p.tokens[w] = make(chan struct{}, 1)
	}
	if p.threads <= len(allowedCPUs()) { // else some share a processor in any case
		p.places = make([]place, p.threads)
		for w := range p.places {
			p.places[w].mask = newAffinity()
		}
	}
	words := (p.threads + 63) / 64
	p.parked = make([]atomic.Uint64, words)
	p.slots = make([]slot, maxRegions)
	for k := range p.slots {
		s := &p.slots[k]
		s.pool, s.bit = p, 1<<k
		s.quiet = make(chan struct{}, 1)
		s.left = make([]int, p.threads)
		s.helpers = make([]atomic.Uint64, words)
	}
	p.running.Add(workers)
	for w := 1; w <= workers; w++ {
		go p.work(w)
	}
	return p
}

// pinTargets returns the processors to pin to, none if nothing is to be pinned. A process may set
// masks wider than the one it was given; a pool does not.
func pinTargets(opts PoolOptions, allowed []int) []int {
	if !opts.Pin {
		return nil
	}
	if len(opts.CPUs) == 0 {
		return allowed
	}
	return slices.DeleteFunc(slices.Clone(opts.CPUs),
		func(c int) bool { return !slices.Contains(allowed, c) })
}

// Threads returns the number of workers, the caller of a region included. It is the bound of the
// worker numbers that [Region.Chunk] is given.
func (p *Pool) Threads() int { return p.threads }

// Run runs chunks 0 to n-1 of r, each exactly once, and returns when all have ended. It does not
// allocate. The calling goroutine works too; at n = 1, or on a pool of one thread, or when 64 other
// regions are under way, it works alone.
//
// Before each chunk, Run asks g whether the lease is still held; a nil g stands for [device.Open].
// When the lease is not held, workers leave after their chunk; once all have left, Run calls
// g.Renew with ctx and goes on with the chunks that are left. At least one chunk runs under each
// new lease, however short the lease is.
//
// Unit u of a lease that is [device.Confined] stands for worker u; the caller stands for the first.
// As many workers as the lease has units help, in the chunks that begin after the region or the
// lease did, and none where the lease has one unit or fewer. See [Caller] for the processors.
//
// The error wraps ctx.Err() (and the context's cause) if ctx ends first, what Renew returned if
// that failed, or [ErrPanic] if a chunk panicked. Chunks that have not begun then never run, and
// whatever the error, none is running any more. Other regions on the pool do not notice.
//
// After Close, Run still works, on the caller alone.
func (p *Pool) Run(ctx context.Context, g device.Gate, n int, r compute.Region) error {
	if n <= 0 {
		return nil
	}
	if n > maxChunks {
		return fmt.Errorf("parallel region of %d chunks: at most %d: use larger chunks", n,
			maxChunks)
	}
	if g == nil {
		g = device.Open
	}
	// A bad address in a chunk is to end this region, not the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if n > 1 {
		if s := p.acquire(); s != nil {
			s.region, s.gate, s.cancel = r, g, ctx.Done()
			s.confine()
			return s.run(ctx, n)
		}
	}
	alone := slot{region: r, gate: g, cancel: ctx.Done()}
	alone.confine()
	return alone.run(ctx, n)
}

// Close ends the workers and returns when they have. Regions under way are finished by their
// callers. Closing twice is allowed.
func (p *Pool) Close() {
	p.closed.Store(true)
	for p.unpark(nil) {
	}
	p.running.Wait()
}

// PinCaller ties the calling goroutine to its thread, and the thread to the first of the pool's
// processors. No worker is pinned there, unless there are more workers than processors. A goroutine
// that runs all iterations of a job calls PinCaller once, and calls the function that it returns,
// on the same goroutine, when it ends. On a pool without Pin both do nothing.
func (p *Pool) PinCaller() (release func()) { return p.pin(0) }

// pin does what PinCaller does, for the processor of worker w.
func (p *Pool) pin(w int) (release func()) {
	if len(p.cpus) == 0 {
		return func() {}
	}
	runtime.LockOSThread()
	before := threadMask()
	pinThread(p.cpus[w%len(p.cpus):][:1])
	return func() {
		before.restore()
		runtime.UnlockOSThread()
	}
}

// acquire takes a free slot; it returns nil if there is none.
func (p *Pool) acquire() *slot {
	if len(p.slots) == 0 || p.closed.Load() {
		return nil
	}
	for {
		busy := p.busy.Load()
		k := bits.TrailingZeros64(^busy)
		if k == maxRegions {
			return nil
		}
		if p.busy.CompareAndSwap(busy, busy|1<<k) {
			return &p.slots[k]
		}
	}
}

// find returns a slot with a chunk for worker w to claim, the first in cyclic order from the given
// one, or -1.
func (p *Pool) find(from, w int) int {
	for m := bits.RotateLeft64(p.open.Load(), -from); m != 0; m &= m - 1 {
		k := (from + bits.TrailingZeros64(m)) % maxRegions
		if s := &p.slots[k]; s.open() && s.invites(w) {
			return k
		}
	}
	return -1
}

// work is the life of worker w.
func (p *Pool) work(w int) {
	ended := false
	defer func() {
		if ended {
			p.running.Done()
			return
		}
		// A chunk has called runtime.Goexit: the pool keeps its strength.
		go p.work(w)
	}()
	// A goroutine without a processor to stay on is not tied to its thread either: so it is woken
	// in fewer thread switches.
	defer p.pin(w)()
	thread := p.NewCaller()
	defer thread.untie()
	debug.SetPanicOnFault(true)
	// Workers start their search in different places so that they spread over the open regions.
	for k := w * maxRegions / p.threads; ; {
		if k = p.next(k, w); k < 0 {
			ended = true
			return
		}
		p.recruit(k, w)
		if p.slots[k].narrow.Load() {
			thread.tie(unit(w))
		} else {
			thread.untie()
		}
		p.slots[k].help(w)
	}
}

// next returns a slot with a chunk for worker w to claim, or -1 when the pool is closed. It spins,
// then parks.
func (p *Pool) next(from, w int) int {
	if k := p.find(from, w); k >= 0 && !p.closed.Load() {
		return k
	}
	p.spinning.Add(1)
	defer p.spinning.Add(-1)
	start := time.Now()
	for turn := 0; ; turn++ {
		if p.closed.Load() {
			return -1
		}
		if k := p.find(from, w); k >= 0 {
			return k
		}
		if turn%16 == 0 && (p.crowded(w) || p.spunEnough(turn, time.Since(start))) {
			p.park(from, w)
			start, turn = time.Now(), 0
			continue
		}
		if turn%offerTurns == offerTurns-1 {
			runtime.Gosched()
			yieldThread()
		}
		backOff(turn)
	}
}

// spunEnough reports whether a worker that has looked for work for so many turns, taking the time
// d, should park. Turns count where d is zero: virtual time does not pass while a goroutine spins.
func (p *Pool) spunEnough(turns int, d time.Duration) bool {
	return d > p.spin || d == 0 && turns >= spinTurns
}

// backOff spends one turn of waiting, the more politely the longer it lasts.
func backOff(turn int) {
	pause(pausesPerTurn)
	switch {
	case turn < spinTurns:
	case turn%goschedTurns == 0:
		runtime.Gosched()
	default:
		yieldThread()
	}
}

// park sleeps until a region needs worker w or the pool is closed. It counts itself as asleep
// before it looks for the last time, and a publisher opens the region before it looks for sleepers,
// so that one of the two sees the other.
func (p *Pool) park(from, w int) {
	p.spinning.Add(-1)
	bit := uint64(1) << (w % 64)
	p.parked[w/64].Or(bit)
	if (p.find(from, w) < 0 && !p.closed.Load()) || p.parked[w/64].And(^bit)&bit == 0 {
		<-p.tokens[w]
	}
	p.spinning.Add(1)
}

// recruit is called by worker w, which goes to slot k, and wakes workers for the chunks of slot k
// beyond its own, or for another slot with chunks to claim. So the caller of a region need not pay
// for waking all workers, and a region is not forgotten when a spinning worker that it counted on
// went elsewhere.
func (p *Pool) recruit(k, w int) {
	if !p.asleep() {
		return
	}
	s := &p.slots[k]
	n, next := unpack(s.word.Load())
	wanted := n - next - 1
	if other := p.find(k+1, w); wanted <= 0 && other >= 0 && other != k {
		s, wanted = &p.slots[other], 1
	}
	p.wake(s, wanted)
}

// asleep reports whether a worker is parked.
func (p *Pool) asleep() bool {
	for i := range p.parked {
		if p.parked[i].Load() != 0 {
			return true
		}
	}
	return false
}

// wake sends for parked workers if fewer than wanted are looking for work. Those who look may not
// be invited by a narrow region, which does not count them.
func (p *Pool) wake(s *slot, wanted int) {
	if !p.asleep() {
		return
	}
	if !s.narrow.Load() {
		wanted -= int(p.spinning.Load())
	}
	for range min(wanted, 2) {
		if !p.unpark(s) {
			return
		}
	}
}

// unpark wakes a parked worker that the slot's region invites, or any for nil. Each worker's
// channel has room for one token.
func (p *Pool) unpark(s *slot) bool {
	for i := range p.parked {
		for {
			set := p.parked[i].Load()
			if s != nil {
				set &= s.invited(i)
			}
			if set == 0 {
				break
			}
			bit := set & -set
			if p.parked[i].And(^bit)&bit != 0 {
				p.tokens[64*i+bits.TrailingZeros64(bit)] <- struct{}{}
				return true
			}
		}
	}
	return false
}
