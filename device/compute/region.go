package compute

import (
	"context"

	"github.com/weirgpu/weir/device"
)

// Pool runs parallel loops on the processors of the host. It is safe for concurrent use.
type Pool interface {
	// Run runs chunks 0 to n-1 of r, each exactly once, on the calling goroutine and others, and
	// returns when all have ended. Before each chunk g is asked whether the lease is still held;
	// when it is not, and no chunk is under way, the calling goroutine renews it. The error wraps
	// ctx's, the gate's, or [ErrPanic]; chunks that have not begun then never run.
	Run(ctx context.Context, g device.Gate, n int, r Region) error
	// Threads is the bound of the worker numbers that [Region] Chunk is given.
	Threads() int
}

// Region is one parallel loop. Its chunks are independent of each other: they run in any order, on
// any worker, at the same time.
type Region interface {
	// Chunk runs chunk i, 0 <= i < n, as worker worker, 0 <= worker < Threads. Two chunks of one
	// call of [Pool] Run never run at the same time with the same worker number, so the number may
	// index scratch memory that belongs to that call; concurrent calls reuse the same numbers.
	// Chunk should take some 10 to 100 microseconds: a lease that is asked back, a cancelled
	// context and Close wait for it. It must not keep anything of the goroutine that calls it,
	// close the pool, or leave a thread lock behind. It may call Run for a region within, in which
	// it is worker 0.
	Chunk(i, worker int)
}
