//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// onHangup calls f for each SIGHUP, one after the other, until the function returned is called.
func onHangup(f func()) func() {
	ch, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(ch, syscall.SIGHUP)
	go func() {
		defer close(done)
		for range ch {
			f()
		}
	}()
	return func() {
		signal.Stop(ch)
		close(ch)
		<-done
	}
}
