//go:build (amd64 || arm64) && !noasm

package vec

// block is how many elements one call of assembly handles. Assembly cannot be preempted, so that a
// call has to end within some tens of microseconds even where memory is slow.
const block = 8192
