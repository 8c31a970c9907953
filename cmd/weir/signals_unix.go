//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// catchSignals catches the signals that are meant for the program, and returns a function that
// hands them to it. Those that a terminal sends go to the program as well as to weir, and are not
// handed on.
func catchSignals() func(*os.Process) {
	ch := make(chan os.Signal, 16)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
	terminal := term.IsTerminal(int(os.Stdin.Fd())) || term.IsTerminal(int(os.Stderr.Fd()))
	return func(p *os.Process) {
		for s := range ch {
			switch s {
			case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGCONT:
				if terminal {
					continue
				}
			}
			_ = p.Signal(s)
		}
	}
}

// exitCode is a program's exit code, or 128 and the signal that ended it.
func exitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}
