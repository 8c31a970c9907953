package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

// lookout looks at a program and its processes while it runs, so that one that is not over in time
// says why: whether a thread waits at the gate, and for how long, what the library has in flight,
// whether the gate goes on being opened, and whether threads wait for a processor.
type lookout struct {
	page *wire.Page // nil: there is no library

	seen       map[int]int // looks at which a process was there
	over, done chan struct{}

	mu   sync.Mutex
	said []string // at the last looks
}

const (
	lookEvery = 50 * time.Millisecond
	lookAfter = 3  // looks at a process before it is told of: most are gone by then
	lookKept  = 60 // lines
)

// lookAt begins to look at a process that has been started and all that it starts.
func lookAt(pid int, page *wire.Page) *lookout {
	l := &lookout{page: page, seen: map[int]int{}, over: make(chan struct{}),
		done: make(chan struct{})}
	go func() {
		defer close(l.done)
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				l.look(pid)
			case <-l.over:
				return
			}
		}
	}()
	return l
}

// stop ends that. It returns what was seen last, of processes that were there for long.
func (l *lookout) stop() string {
	close(l.over)
	<-l.done
	return l.soFar()
}

func (l *lookout) soFar() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.said, "\n")
}

func (l *lookout) look(pid int) {
	now := time.Now().Format("05.000")
	for _, p := range children(pid) {
		if l.seen[p]++; l.seen[p] > lookAfter {
			line := fmt.Sprintf("%s process %d: %s; %s", now, p, l.slot(p), threadsOf(p))
			l.mu.Lock()
			l.said = append(l.said, line)
			l.said = l.said[max(0, len(l.said)-lookKept):]
			l.mu.Unlock()
		}
	}
}

// slot is what the page says of a process.
func (l *lookout) slot(pid int) string {
	if l.page == nil {
		return "no library"
	}
	for i := range uint32(wire.SlotCount) {
		if s := l.page.Slot(i); int(s.OwnerPID.Load()) == pid {
			g := l.page.Header().Gate.Load()
			return fmt.Sprintf("gate %d open %t drained %d, %d wait, %d wants, %d+%d launches, "+
				"%v in flight, %d of %d stall, %v measured", g, wire.IsOpen(g),
				s.DrainedSeq.Load(), s.Waiting.Load(), s.WantSeq.Load(), s.Launches.Load(),
				s.GraphLaunches.Load(), time.Duration(s.InflightNS.Load()), s.Stalled.Load(),
				s.Stalls.Load(), time.Duration(s.DeviceNSTotal.Load()))
		}
	}
	return "no slot"
}

// children are the processes below one.
func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			if p, err := strconv.Atoi(field); err == nil {
				all = append(append(all, p), children(p)...)
			}
		}
	}
	return all
}

// threadsOf is, for each thread of a process, its state (proc_pid_stat(5)), where in the kernel it
// waits, and for how long it has run and has waited for a processor.
func threadsOf(pid int) string {
	var all []string
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		read := func(name string) string {
			text, _ := os.ReadFile(filepath.Join(task, name))
			return string(text)
		}
		state := "?"
		if _, rest, ok := strings.Cut(read("stat"), ") "); ok {
			state = rest[:1]
		}
		var ran, waited time.Duration
		_, _ = fmt.Sscan(read("schedstat"), &ran, &waited)
		all = append(all, fmt.Sprintf("%s %s %s ran %v waited %v", filepath.Base(task), state,
			read("wchan"), ran.Round(100*time.Microsecond), waited.Round(100*time.Microsecond)))
	}
	return strings.Join(all, ", ")
}

// TestLookoutTellsWhy holds that of a program that waits at the gate it is told that it does, and
// where its thread is.
func TestLookoutTellsWhy(t *testing.T) {
	compiled(t)
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.gate(true)
	l := startLate(t, w, "WEIR_FAKE_PROFILE=plain")
	l.tell(t, "v")
	l.hear(t, "0")
	gate := w.gate(false)
	l.tell(t, "k")
	w.await("the launch does not wait", func() bool { return w.page.Slot(0).Waiting.Load() == 1 })
	look := lookAt(os.Getpid(), w.page)
	w.await("nothing is told", func() bool { return look.soFar() != "" })
	said := look.stop()
	for _, want := range []string{fmt.Sprint("process ", l.Process.Pid, ": "),
		fmt.Sprintf("gate %d open false", gate), ", 1 wait,", " S futex"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	w.gate(true)
	l.hear(t, "done")
	_ = l.in.Close()
	l.finish(t)
}
