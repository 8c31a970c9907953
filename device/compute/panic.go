package compute

import (
	"errors"
	"fmt"
)

// ErrPanic is what an error of [Pool] Run wraps when a chunk panicked; errors.As with a
// *[PanicError] gives the particulars.
var ErrPanic = errors.New("panic in a parallel region")

// PanicError tells of a chunk that panicked, faulted on a bad address, or ended its goroutine with
// [runtime.Goexit].
type PanicError struct {
	Value  any    // what was passed to panic; nil after runtime.Goexit
	Stack  []byte // the goroutine's stack at the panic, as text
	Chunk  int    // the chunk
	Worker int    // the worker that ran it
}

// Error names the chunk, the worker and the value; it leaves the stack out.
func (e *PanicError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf(
			"%v: chunk %d on worker %d ended its goroutine",
			ErrPanic,
			e.Chunk,
			e.Worker,
		)
	}
	return fmt.Sprintf("%v: chunk %d on worker %d: %v", ErrPanic, e.Chunk, e.Worker, e.Value)
}

// Unwrap returns [ErrPanic] and, if the value passed to panic was an error, that.
func (e *PanicError) Unwrap() []error {
	if err, ok := e.Value.(error); ok {
		return []error{ErrPanic, err}
	}
	return []error{ErrPanic}
}
