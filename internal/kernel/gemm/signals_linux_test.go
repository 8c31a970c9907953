package gemm

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// signals sends SIGURG, with which Go preempts goroutines, to threads: to each by itself, as one
// for the process would go to a thread that is idle.
type signals struct {
	mu      sync.Mutex
	threads map[int]bool
}

// join has the goroutine's thread take signals until leave is called, by the same goroutine.
func (s *signals) join() (leave func()) {
	runtime.LockOSThread()
	id := unix.Gettid()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.threads == nil {
		s.threads = map[int]bool{}
	}
	s.threads[id] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.threads, id)
		runtime.UnlockOSThread()
	}
}

// send sends a signal to each thread every so often until stop is closed, and returns how many it
// has sent. What it is late with it makes up for at once.
func (s *signals) send(stop <-chan struct{}, every time.Duration) (sent int64) {
	began := time.Now()
	for rounds := time.Duration(0); ; {
		select {
		case <-stop:
			return sent
		default:
		}
		for due := time.Since(began) / every; rounds < due; rounds++ {
			sent += s.each()
		}
		time.Sleep(every / 2)
	}
}

// each sends one signal to each thread.
func (s *signals) each() (sent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.threads {
		if unix.Tgkill(os.Getpid(), id, unix.SIGURG) == nil {
			sent++
		}
	}
	return sent
}
