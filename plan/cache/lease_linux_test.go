package cache

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/plan"
)

// leased maps a file of a page, with a lease, and returns it with its path.
func leased(t *testing.T) (m *mapping, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "entry")
	write(t, path, make([]byte, os.Getpagesize()))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err = newCache(t).mapFile(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	})
	if m.file == nil {
		t.Skip("the file system gives no leases")
	}
	return m, path
}

// TestLeaseOutlivesThread holds that the system tells the process, not the thread that took the
// lease, of who waits for it: that thread may end.
func TestLeaseOutlivesThread(t *testing.T) {
	m, _ := leased(t)
	var wg sync.WaitGroup
	var together sync.WaitGroup
	together.Add(2)
	for range 2 { // one of which is not the first thread
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			together.Done()
			together.Wait()
			f, err := os.Open(m.file.Name())
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if err := takeLease(f); err != nil {
				t.Error(err)
				return
			}
			owner, err := unix.FcntlInt(f.Fd(), unix.F_GETOWN, 0)
			if err != nil || owner != os.Getpid() {
				t.Errorf("thread %d of process %d is told: %v", owner, os.Getpid(), err)
			}
		})
	}
	wg.Wait()
}

// TestLeaseRunsOut cuts a mapped file short as somebody does whom the system lets go on after
// having waited for long. The process goes on.
func TestLeaseRunsOut(t *testing.T) {
	m, path := leased(t)
	if _, err := unix.FcntlInt(m.file.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	m.part()
	if len(m.data) != os.Getpagesize() {
		t.Errorf("%d bytes are mapped", len(m.data))
	}
}

// TestNothingLeaks opens a model many times, with its entry sound and damaged, and has nothing left
// open or mapped.
func TestNothingLeaks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	rowsModel(t, path)
	c := newCache(t)
	start(t, c, path, plan.Options{Target: host})
	name := c.only(t, planSuffix)
	whole := read(t, name)
	o := plan.Options{Target: host, Shapes: map[string][]int{"i": {4}}, Threads: 2}
	open := func(sound bool) {
		t.Helper()
		m, err := c.Model(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := m.Find(t.Context(), o); found.Cached() != sound {
			t.Fatalf("a sound entry: %v; found: %v", sound, found.Cached())
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	held := func() (files, maps int) {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list), bytes.Count(read(t, "/proc/self/maps"), []byte(c.dir))
	}
	open(true) // which may begin to listen for signals
	files, maps := held()
	for range 50 {
		open(true)
		write(t, name, flipped(whole, len(whole)-1))
		open(false)
		write(t, name, whole[:len(whole)/2])
		open(false)
		write(t, name, whole)
	}
	if f, n := held(); f != files || n != maps || n != 0 || len(watched.all) != 0 {
		t.Errorf("%d files are open and %d mapped, %d and %d before; %d are watched", f, n, files,
			maps, len(watched.all))
	}
}
