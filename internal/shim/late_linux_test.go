package shim

import (
	"bufio"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

// late is the program testdata/late.c, which changes its memory when it is told to.
type late struct {
	*running
	in   io.WriteCloser
	said *bufio.Scanner
}

func startLate(t *testing.T, w *warden, profile string) *late {
	t.Helper()
	program, err := keptC("late", []string{"-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"},
		"testdata/late.c")
	if err != nil {
		t.Fatal(err)
	}
	r := onFake(t, w, t.TempDir(), "moved")
	r.Path, r.Args[0] = program, program
	r.Env = append(r.Env, profile)
	in, err := r.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Stdout = nil
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.start(t)
	kill := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
	t.Cleanup(func() { kill.Stop() })
	return &late{r, in, bufio.NewScanner(out)}
}

func (l *late) tell(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(l.in, line); err != nil {
		t.Fatal(err)
	}
}

func (l *late) hear(t *testing.T, want string) {
	t.Helper()
	if !l.said.Scan() || l.said.Text() != want {
		t.Fatalf("%q, want %q: %s", l.said.Text(), want, l.err.String())
	}
}

// thereAndBack moves the program's memory to the host and back.
func (w *warden) thereAndBack() {
	w.t.Helper()
	if m := w.away(); m.Code != wire.MovedAll {
		w.t.Fatalf("not moved away: %+v", m)
	}
	if m := w.order(false, 1)[0]; m.Code != wire.MovedAll {
		w.t.Fatalf("not moved back: %+v", m)
	}
}

// changed has a program change its memory by a call that waits while that is away, at the gate or
// for the memory itself, and moves it once more. It holds that nothing of the change is lost.
func (w *warden) changed(l *late, call string, atGate bool) {
	t := w.t
	t.Helper()
	l.tell(t, "v")
	l.hear(t, "0")
	w.thereAndBack()
	if atGate {
		w.gate(false)
	} else if m := w.away(); m.Code != wire.MovedAll {
		t.Fatalf("not moved away: %+v", m)
	}
	l.tell(t, call)
	w.await("the call does not wait", func() bool { return w.page.Slot(0).Waiting.Load() == 1 })
	if atGate {
		w.thereAndBack()
		w.gate(true)
	} else if m := w.order(false, 1)[0]; m.Code != wire.MovedAll {
		t.Fatalf("not moved back: %+v", m)
	}
	l.hear(t, "done")
	w.thereAndBack()
	l.tell(t, "v")
	l.hear(t, "0")
}

// TestWhatWaitedIsMoved holds that what a call changes that waited while the memory went and came
// back is moved with it the next time, though nothing else has touched it since: what the host has
// kept is from before that call.
func TestWhatWaitedIsMoved(t *testing.T) {
	compiled(t)
	for name, call := range map[string]string{"kernel": "k", "graph": "g", "memset": "s",
		"from the host": "h", "on the device": "d"} {
		onProfiles(t, name, func(t *testing.T, profile string) {
			w := newWarden(t, 1<<30, 2*time.Millisecond)
			w.movable(1 << 30)
			w.gate(true)
			l := startLate(t, w, profile)
			w.changed(l, call, true)
			w.changed(l, call, false)
			_ = l.in.Close()
			l.finish(t)
		})
	}
}
