//go:build unix

package fulldisk

import (
	"os/signal"
	"sync"
	"syscall"
	"testing"
)

// Full has every file that the process writes end at so many bytes, as on a full disk, until the
// function returned is called, and to the end of t at the latest. What is written beyond them fails
// with EFBIG (setrlimit(2)).
func Full(t testing.TB, bytes uint64) (room func()) {
	t.Helper()
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
