package compute

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/weirgpu/weir/internal/fault"
)

// ErrPanic is wrapped by the error of [Pool] Run, or of a [Queue], when a chunk or a task panicked;
// errors.As with a *[PanicError] gives the particulars.
var ErrPanic = errors.New("panic in a kernel")

// PanicError tells of a chunk or a task that panicked, faulted on a bad address, or ended its
// goroutine with [runtime.Goexit].
type PanicError struct {
	Value  any    // what was passed to panic; nil after runtime.Goexit
	Stack  []byte // the goroutine's stack at the panic, as text
	Chunk  int    // the chunk of a [Region]; -1 when a [Task] panicked outside of one
	Worker int    // the worker that ran the chunk, -1 likewise
}

// TaskPanic tells of a task that panicked; recovered is what recover returned on the goroutine that
// calls it, nil after [runtime.Goexit].
func TaskPanic(recovered any) *PanicError {
	return &PanicError{Value: fault.Explain(recovered), Stack: debug.Stack(), Chunk: -1, Worker: -1}
}

// Error names the chunk and the worker, if there was one, and the value; it leaves the stack out.
func (e *PanicError) Error() string {
	what, where := any("ended its goroutine"), ""
	if e.Value != nil {
		what = e.Value
	}
	if e.Chunk >= 0 {
		where = fmt.Sprintf("chunk %d on worker %d: ", e.Chunk, e.Worker)
	}
	return fmt.Sprintf("%v: %s%v", ErrPanic, where, what)
}

// Unwrap returns [ErrPanic] and, if the value passed to panic was an error, that.
func (e *PanicError) Unwrap() []error {
	if err, ok := e.Value.(error); ok {
		return []error{ErrPanic, err}
	}
	return []error{ErrPanic}
}
