// Package fault turns what would end the process into an error of the job that met it: a panic, and
// the signal for a page of a mapped file that is there no more, since somebody has cut the file
// short or its disk fails.
//
// Meet first: [Do] runs a function so, [Await] in a goroutine that the caller need not wait for;
// [Watch] tells which file a piece of memory is of, so that the error names it; [Explain] is for
// who recovers panics by itself.
//
// Concurrency: everything may be used by many goroutines. [Do] covers its own goroutine alone.
//
// What it refuses: what Go itself cannot recover from, such as concurrent writes of a map or memory
// that runs out, and runtime.Goexit, which goes on.
package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
)

var (
	// ErrPanic is the kind of error about a panic: a bug of weir that some input has brought out.
	ErrPanic = errors.New("internal error")
	// ErrFile is the kind of error about a mapped file that can no longer be read, or was changed
	// while it was.
	ErrFile = errors.New("the file changed while it was in use")
)

// Do calls f and returns its error, or in its place one of kind [ErrFile] when f touched a page of
// a mapped file that cannot be read, of kind [ErrPanic] when it panicked in another way.
func Do(f func() error) (err error) {
	// Reading such a page ends the process unless the goroutine asks for a panic.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = Error(r)
		}
	}()
	if err = f(); errors.Is(err, syscall.EFAULT) { // the system's word for it, of write(2)
		err = errors.Join(err, shrunk())
	}
	return err
}

// Value is [Do] for a function that returns a value, the zero one with an error.
func Value[T any](f func() (T, error)) (v T, err error) {
	err = Do(func() error {
		v, err = f()
		return err
	})
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// Await is [Value] for a function that reads or writes what a user has named. Opening a pipe waits
// for whoever is at its other end, in a system call that no signal ends (fifo(7)): once ctx is done
// Await returns its cause, and f is left to itself. It must then touch nothing that others change.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	ended := make(chan outcome, 1)
	go func() {
		v, err := Value(f)
		ended <- outcome{v, err}
	}()
	select {
	case o := <-ended:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// Error makes an error of what recover returned, as [Do] does. It is called by the function that
// recovered: the stack is in the error's text.
func Error(recovered any) error {
	switch e := Explain(recovered).(type) {
	case *FileError:
		return e
	case error:
		return fmt.Errorf("%w: %w: please report it\n%s", ErrPanic, e, debug.Stack())
	default:
		return fmt.Errorf("%w: %v: please report it\n%s", ErrPanic, e, debug.Stack())
	}
}

// FileError says which mapped file could not be read.
type FileError struct {
	Path string
	At   int64 // the byte that was asked for
	Was  int64 // bytes of the file when it was mapped
	Err  error // what the system says, of kind [ErrFile], too
}

// Error says what has become of the file and what to do.
func (e *FileError) Error() string {
	now := "its disk or network may be failing"
	if info, err := os.Stat(e.Path); err != nil {
		now = err.Error()
	} else if info.Size() != e.Was {
		now = fmt.Sprintf("it has %d bytes, and had %d when it was opened", info.Size(), e.Was)
	}
	return fmt.Sprintf("%s: %v: byte %d cannot be read any more: %s: put the file back and open "+
		"it again; a file in use is replaced by renaming, never written in place", e.Path, ErrFile,
		e.At, now)
}

// Unwrap returns [ErrFile] and the cause.
func (e *FileError) Unwrap() []error { return []error{ErrFile, e.Err} }

// Explain returns a [*FileError] in the place of what recover returned when that is a fault in the
// memory of a file that is watched; it returns anything else as it is.
func Explain(recovered any) any {
	var file *FileError
	if err, ok := recovered.(error); ok && errors.As(err, &file) {
		return file
	}
	e, ok := recovered.(interface { // a fault's, by debug.SetPanicOnFault
		error
		Addr() uintptr
	})
	if !ok {
		return recovered
	}
	files.Lock()
	defer files.Unlock()
	for _, f := range files.all {
		if at := e.Addr() - f.from; at < f.size {
			return &FileError{Path: f.path, At: int64(at), Was: int64(f.size), Err: e}
		}
	}
	return recovered
}

// watched is a file in memory.
type watched struct {
	path       string
	from, size uintptr
}

var files struct {
	sync.Mutex
	all []*watched
}

// Watch notes that mem is the whole of a mapped file, until forget is called, just before it is
// unmapped.
func Watch(path string, mem []byte) (forget func()) {
	f := &watched{path, address(mem), uintptr(len(mem))}
	files.Lock()
	defer files.Unlock()
	files.all = append(files.all, f)
	return func() {
		files.Lock()
		defer files.Unlock()
		files.all = slices.DeleteFunc(files.all, func(x *watched) bool { return x == f })
	}
}

// shrunk returns an error for the first watched file, by name, that is shorter than it was, nil
// when there is none.
func shrunk() error {
	files.Lock()
	all := slices.Clone(files.all)
	files.Unlock()
	slices.SortFunc(all, func(a, b *watched) int { return cmp.Compare(a.path, b.path) })
	for _, f := range all {
		if info, err := os.Stat(f.path); err == nil && info.Size() < int64(f.size) {
			return &FileError{Path: f.path, At: info.Size(), Was: int64(f.size),
				Err: syscall.EFAULT}
		}
	}
	return nil
}
