package cpu

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/fault"
)

// A region's word holds, from the top: one bit that forbids claims, 31 bits with the number of
// chunks n, and 32 bits with the next chunk to claim. A claim is a compare-and-swap that raises
// next, so whoever succeeds has claimed a chunk of the region that is open now, even if it had read
// the word when an earlier region looked the same. Nothing else of a region may be read before
// that.
const (
	stopBit   = 1 << 63
	maxChunks = 1<<31 - 1
)

func pack(n, next int) uint64 { return uint64(n)<<32 | uint64(next) }

func unpack(v uint64) (n, next int) { return int(v >> 32 & maxChunks), int(v & (1<<32 - 1)) }

// slot is the place of one region at a time. The words that several threads write lie on cache
// lines of their own.
type slot struct {
	word   atomic.Uint64
	narrow atomic.Bool // whether only helpers may claim
	_      [lineBytes - 16]byte
	// chunks claimed by workers since the last publication that they are done with
	settled atomic.Int64
	waiting atomic.Bool // the caller sleeps until a worker settles
	quiet   chan struct{}
	at      atomic.Int32 // 1 + the processor that the caller was last found on, or 0
	_       [lineBytes - 28]byte

	// Written by the caller while no worker is inside. A worker reads them between its claim and
	// its settling, which orders the accesses.
	region compute.Region
	gate   device.Gate
	cancel <-chan struct{}
	entire bool  // the lease is not given back before the region ends
	defers bool  // other threads of the machine go before it
	left   []int // left[w] is 1 + the chunk that worker w claimed and did not run, or 0

	// The workers that may help in a narrow region, bit by worker, and narrow itself are written as
	// the above. Workers also read them before they claim, to see what may be for them.
	helpers []atomic.Uint64

	// Read and written by the caller only.
	base int // next at the last publication
	own  int // chunks the caller itself has claimed since

	pool *Pool  // nil for a region whose caller runs it alone
	bit  uint64 // this slot in the pool's sets

	failed  atomic.Bool         // a chunk has failed
	failure *compute.PanicError // the first to fail; written by who set failed, before it settles
	_       [lineBytes]byte
}

// claim takes the next chunk.
func (s *slot) claim() (chunk int, ok bool) {
	for {
		v := s.word.Load()
		n, next := unpack(v)
		if v&stopBit != 0 || next >= n {
			return 0, false
		}
		if s.word.CompareAndSwap(v, v+1) {
			return next, true
		}
	}
}

// open reports whether a claim would succeed.
func (s *slot) open() bool {
	v := s.word.Load()
	n, next := unpack(v)
	return v&stopBit == 0 && next < n
}

// stop forbids claims until the next publication.
func (s *slot) stop() (n, next int) { return unpack(s.word.Or(stopBit)) }

// offerCore lets threads that wait for this core go first; tests count it.
var offerCore = yieldThread

// halted reports whether no further chunk may begin: the lease is gone, the context is done or a
// chunk has failed.
func (s *slot) halted() bool {
	if s.defers {
		offerCore()
	}
	if !s.entire && s.gate.Revoked() || s.failed.Load() {
		return true
	}
	select {
	case <-s.cancel:
		return true
	default:
		return false
	}
}

// chunk runs one chunk and turns a panic into the region's failure.
func (s *slot) chunk(i, w int) {
	returned := false
	defer func() {
		if !returned {
			s.fail(recover(), i, w)
		}
	}()
	s.region.Chunk(i, w)
	returned = true
}

// fail records the first failure and forbids claims. The stack is still that of the panic, because
// deferred functions run on top of it.
func (s *slot) fail(value any, i, w int) {
	if s.failed.CompareAndSwap(false, true) {
		s.failure = &compute.PanicError{Value: fault.Explain(value), Stack: debug.Stack(),
			Chunk: i, Worker: w}
	}
	s.stop()
}

// help runs chunks as worker w > 0 until none is left or the region halts. The caller of the region
// waits for this worker only from its first claim until it has settled its claims.
func (s *slot) help(w int) {
	i, ok := s.claim()
	if !ok {
		return
	}
	claims := 1
	defer func() { s.settle(claims) }()
	if s.narrow.Load() && !s.invites(w) {
		// The region that it was invited to has ended, and this is another.
		s.left[w] = i + 1
		return
	}
	if s.halted() {
		s.left[w] = i + 1
		s.stop()
		return
	}
	for {
		if s.pool.places != nil {
			apart(int(s.at.Load())-1, &s.pool.places[w])
		}
		s.chunk(i, w)
		if s.halted() {
			s.stop()
			return
		}
		if i, ok = s.claim(); !ok {
			return
		}
		claims++
	}
}

// settle tells the caller that a worker is done with the chunks it claimed.
func (s *slot) settle(claims int) {
	s.settled.Add(int64(claims))
	if s.waiting.Load() {
		select {
		case s.quiet <- struct{}{}:
		default:
		}
	}
}

// await returns when workers have settled claims chunks. It spins while a chunk may be expected to
// end, then lets other threads have the core, in case the worker it waits for needs this one, and
// at last sleeps. A token in quiet may be left from an earlier wait, which is why it only means
// that it is time to look.
func (s *slot) await(claims int64) {
	for i := 0; s.settled.Load() != claims; i++ {
		if i < spinTurns+yieldTurns {
			backOff(i)
			continue
		}
		s.waiting.Store(true)
		if s.settled.Load() != claims {
			<-s.quiet
		}
		s.waiting.Store(false)
	}
}

// run is the caller's side of a region, as worker 0.
func (s *slot) run(ctx context.Context, n int) error {
	// A deferred call, because a chunk may end the caller's goroutine.
	defer s.leave()
	for next := 0; ; {
		renewed, err := s.admit(ctx)
		if err != nil {
			return s.stopped(ctx, n-next, n, err)
		}
		next = s.round(n, next, renewed)
		if s.failed.Load() {
			return s.failure
		}
		if next == n && s.leftover() == 0 {
			return nil
		}
	}
}

// admit returns when the region may run. No worker is inside.
func (s *slot) admit(ctx context.Context) (renewed bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.entire || !s.gate.Revoked() {
		return false, nil
	}
	err = s.gate.Renew(ctx)
	s.confine()
	return true, err
}

// round runs chunks until all are claimed or the region halts, and returns the first one not
// claimed. No worker is inside when it begins or when it returns. Under a fresh lease it runs at
// least one chunk, so that even the shortest leases make progress. The gate was asked just before,
// and is not asked where no chunk is left: a model may take as long for a step as to be asked.
func (s *slot) round(n, next int, fresh bool) int {
	asked := !s.defers
	for w, c := range s.left {
		if c == 0 {
			continue
		}
		if !fresh && s.halted() {
			return next
		}
		fresh, asked = false, false
		s.left[w] = 0
		s.chunk(c-1, 0)
	}
	// The chunk that a fresh lease owes is claimed before workers may take it: one of them could
	// find the lease gone again and leave its chunk for the next.
	owed := fresh && next < n
	first := next
	if owed {
		next++
	}
	s.publish(n, next)
	if owed {
		asked = false
		s.chunk(first, 0)
	}
	for s.open() && (asked || !s.halted()) {
		i, ok := s.claim()
		if !ok {
			break
		}
		asked = false
		s.own++
		s.locate()
		s.chunk(i, 0)
	}
	return s.quiesce()
}

// locate says where the caller is, for workers.
func (s *slot) locate() {
	if s.pool == nil || s.pool.places == nil {
		return
	}
	if at := int32(cpuinfo.Place() + 1); at != s.at.Load() {
		s.at.Store(at)
	}
}

// publish opens the region from chunk next on.
func (s *slot) publish(n, next int) {
	s.base, s.own = next, 0
	s.settled.Store(0)
	s.locate()
	s.word.Store(pack(n, next))
	if s.pool != nil {
		s.pool.open.Or(s.bit)
		s.pool.wake(s, n-next-1)
	}
}

// quiesce forbids claims, waits for the workers inside and returns the first chunk that was not
// claimed.
func (s *slot) quiesce() (next int) {
	if s.pool != nil {
		s.pool.open.And(^s.bit)
	}
	_, next = s.stop()
	s.await(int64(next - s.base - s.own))
	return next
}

// leave makes the slot fit for another region.
func (s *slot) leave() {
	s.quiesce()
	s.region, s.gate, s.cancel = nil, nil, nil
	s.failed.Store(false)
	s.failure = nil
	clear(s.left)
	if s.pool != nil {
		s.pool.busy.And(^s.bit)
	}
}

// leftover counts the chunks that workers claimed and did not run.
func (s *slot) leftover() (chunks int) {
	for _, c := range s.left {
		if c != 0 {
			chunks++
		}
	}
	return chunks
}

// stopped describes why a region ended before its last chunk.
func (s *slot) stopped(ctx context.Context, unclaimed, n int, err error) error {
	missing := unclaimed + s.leftover()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("parallel region stopped with %d of %d chunks not run: %w (%w)", missing,
			n, err, cause)
	}
	return fmt.Errorf("parallel region stopped with %d of %d chunks not run: %w", missing, n, err)
}
