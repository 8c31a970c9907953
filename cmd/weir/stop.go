package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// stopped is the cause of a context that a signal ended.
type stopped struct{ signal os.Signal }

// Error implements error.
func (s *stopped) Error() string { return "stopped by " + s.signal.String() }

// untilSignal returns a context that the first interrupt or SIGTERM ends, with a *[stopped] as its
// cause. The second one ends the process as signals do, should the first have come in the middle of
// a very long step. The function returned ends the listening.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&stopped{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// stopCode is the exit code of a command whose context has ended: 128 and the number of the signal
// that ended it, as shells have it (POSIX.1-2024, Shell Command Language, 2.8.2).
func stopCode(ctx context.Context) int {
	var s *stopped
	if errors.As(context.Cause(ctx), &s) {
		if n, ok := s.signal.(syscall.Signal); ok {
			return 128 + int(n)
		}
	}
	return 1
}

// input is standard input that ends with a context: a read of a terminal or a pipe waits for
// whoever writes, and a signal would not end it. It takes nothing before its first Read, for
// another process may have the same standard input.
type input struct {
	ctx   context.Context
	from  io.Reader
	begin sync.Once
	read  *io.PipeReader
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	in.begin.Do(func() {
		r, w := io.Pipe()
		in.read = r
		context.AfterFunc(in.ctx, func() { _ = w.CloseWithError(context.Cause(in.ctx)) })
		go func() {
			_, err := io.Copy(w, in.from)
			_ = w.CloseWithError(err)
		}()
	})
	return in.read.Read(p)
}
