package main

import (
	"context"
	"os"

	"github.com/weirgpu/weir/internal/fault"
)

// await calls f, which reads what a user has named. Opening a pipe waits until somebody writes it,
// in a system call that no signal ends (fifo(7)): once ctx is done await returns its cause, and f
// is left to the end of the process.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	ended := make(chan outcome, 1)
	go func() {
		v, err := fault.Value(f)
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

// isRegular reports whether there is a regular file at a path, or nothing yet.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}
