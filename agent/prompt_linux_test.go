package agent

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestThreadsArePrompt has all threads of an agent's process ask the kernel for the shortest
// slices, those that are made later among them.
func TestThreadsArePrompt(t *testing.T) {
	runtime.LockOSThread() // and never unlocked, so that the thread goes
	shortest := uint64(shortSlice)
	own := func() uint64 {
		how, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return how.Runtime
	}
	before := own()
	if unix.SchedSetAttr(0, &unix.SchedAttr{Runtime: shortest}, 0) != nil || own() != shortest {
		t.Skip("the kernel goes by no slices of threads: Linux from 6.12 on does")
	}
	if before == shortest { // of an agent of another test
		before = 3_000_000
	}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Runtime: before}, 0); err != nil {
		t.Fatal(err)
	}
	startAgent(t, testConfig(socketDir(t), newPeople()))
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil || own() != shortest {
		t.Fatalf("a slice of %d ns, %v", own(), err)
	}
	for _, e := range threads {
		id, _ := strconv.Atoi(e.Name())
		if how, err := unix.SchedGetAttr(id, 0); err == nil && how.Runtime != shortest {
			t.Errorf("thread %d has slices of %d ns", id, how.Runtime)
		}
	}
}
