package cpu

// Region is one parallel loop. Its chunks are independent of each other: they run in any order, on
// any worker, at the same time.
type Region interface {
	// Chunk runs chunk i, 0 <= i < n, as worker worker, 0 <= worker < Threads. Two chunks of one
	// call of [Pool.Run] never run at the same time with the same worker number, so the number may
	// index scratch memory that belongs to that call; concurrent calls reuse the same numbers.
	// Chunk should take some 10 to 100 microseconds: a lease that is asked back, a cancelled
	// context and Close wait for it. It must not keep anything of the goroutine that calls it, call
	// [Pool.Close], or leave a thread lock behind. It may call Run for a region within, in which it
	// is worker 0.
	Chunk(i, worker int)
}
