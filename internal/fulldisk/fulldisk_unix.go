//go:build unix

package fulldisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// child reports whether this process runs the test of that name alone: its last argument says so.
func child(name string) bool { return os.Args[len(os.Args)-1] == childOf+name }

// childOf is what the last argument begins with.
const childOf = "alone:"

// Elsewhere runs the test that calls it once more, in a process of its own, reports its failure,
// and is true: the caller has nothing left to do. In that process it is false, and [Full] may be
// called. go test keeps a log of the files that a test opens to know when its result holds still,
// and fails the whole package where that log has no room: such a process keeps none.
func Elsewhere(t *testing.T) bool {
	t.Helper()
	if child(t.Name()) {
		return false
	}
	var args []string
	if testing.Short() {
		args = append(args, "-test.short")
	}
	if end, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout="+time.Until(end).String())
	}
	if err := alone(t.Context(), t.Name(), args...); err != nil {
		t.Errorf("in a process of its own: %v", err)
	}
	return true
}

// alone runs one test in a process of its own; an error has what it printed. A test that is not
// there, or is skipped, has not passed.
func alone(ctx context.Context, name string, args ...string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	args = append(args, "-test.v", "-test.run=^"+name+"$", childOf+name)
	out, err := exec.CommandContext(ctx, exe, args...).CombinedOutput()
	if err == nil && !strings.Contains(string(out), "--- PASS: "+name+" ") {
		err = errors.New("it does not pass")
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// Full has every file that the process writes end at so many bytes, as on a full disk, until the
// function returned is called, and to the end of t at the latest. What is written beyond them fails
// with EFBIG (setrlimit(2)). It fails t where that does not run [Elsewhere].
func Full(t *testing.T, bytes uint64) (room func()) {
	t.Helper()
	if !child(t.Name()) {
		t.Fatal("a full disk is for a test that has its process for itself: ask Elsewhere first")
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	less := syscall.Rlimit{Cur: bytes, Max: was.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &less); err != nil {
		t.Fatal(err)
	}
	room = sync.OnceFunc(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Error(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	})
	t.Cleanup(room)
	return room
}
