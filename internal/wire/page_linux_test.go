package wire

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func dup(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}

func TestPageIsShared(t *testing.T) {
	p, err := NewPage()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.SetTerms(terms())
	q, err := MapPage(dup(t, p.File()))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if !SamePage(p.File(), q.File()) {
		t.Error("two descriptors of one page differ")
	}
	p.Slot(5).MemUsedBytes.Add(17)
	if got := q.Slot(5).MemUsedBytes.Load(); got != 17 {
		t.Errorf("the other mapping shows %d", got)
	}
	if got, err := q.Terms(); err != nil || got != terms() {
		t.Errorf("%+v, %v", got, err)
	}
	other, err := NewPage()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if SamePage(p.File(), other.File()) {
		t.Error("two pages are the same")
	}
}

// TestPageKeepsItsSize holds that nobody can take the memory from under the agent.
func TestPageKeepsItsSize(t *testing.T) {
	p, err := NewPage()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, size := range []int64{0, PageSize - 1, PageSize + 1} {
		if err := p.File().Truncate(size); err == nil {
			t.Errorf("the page could be made %d bytes long", size)
		}
	}
}

func TestMapPageRefuses(t *testing.T) {
	ordinary, err := os.Create(filepath.Join(t.TempDir(), "page"))
	if err != nil {
		t.Fatal(err)
	}
	if err := ordinary.Truncate(PageSize); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("unsealed", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	unsealed := os.NewFile(uintptr(fd), "unsealed")
	if err := unsealed.Truncate(PageSize); err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	old, err := NewPage()
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	old.Header().Version.Store(Version + 1)
	for name, f := range map[string]*os.File{"file": ordinary, "unsealed": unsealed, "pipe": reader,
		"version": dup(t, old.File())} {
		if _, err := MapPage(f); !errors.Is(err, ErrPage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMapPageMeasuresAfterTheSeals has memory shrink and be sealed while it is mapped: to read what
// lies beyond its end would kill the agent.
func TestMapPageMeasuresAfterTheSeals(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for range 4000 {
		fd, err := unix.MemfdCreate("page", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "page")
		if err := f.Truncate(PageSize); err != nil {
			t.Fatal(err)
		}
		shrunk := make(chan struct{})
		other := dup(t, f)
		go func() {
			defer close(shrunk)
			_ = unix.Ftruncate(int(other.Fd()), 0)
			_, _ = unix.FcntlInt(other.Fd(), unix.F_ADD_SEALS, seals)
		}()
		if _, err := MapPage(f); !errors.Is(err, ErrPage) {
			t.Fatalf("memory that is no page: %v", err)
		}
		<-shrunk
		_ = other.Close()
	}
}

func TestGateWakes(t *testing.T) {
	p, err := NewPage()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	q, err := MapPage(dup(t, p.File()))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	woken := make(chan error, 1)
	go func() {
		for q.Header().Gate.Load() == 0 {
			if err := q.WaitGate(0, time.Minute); err != nil {
				woken <- err
				return
			}
		}
		woken <- nil
	}()
	p.Header().Gate.Store(1)
	p.WakeGate()
	select {
	case err := <-woken:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("not woken")
	}
	if err := q.WaitGate(1, time.Millisecond); err != nil {
		t.Errorf("a wait that runs out: %v", err)
	}
}

// TestDrainWakes: who waits for a process to say that it has drained hears of it in time, also of
// what was said before, and is told where there is no page any more.
func TestDrainWakes(t *testing.T) {
	p, err := NewPage()
	if err != nil {
		t.Fatal(err)
	}
	s := p.Slot(3)
	if err := s.WaitDrained(0, time.Millisecond); err != nil {
		t.Errorf("a wait that runs out: %v", err)
	}
	s.DrainedSeq.Store(2)
	began := time.Now()
	if err := s.WaitDrained(0, time.Minute); err != nil || time.Since(began) > 30*time.Second {
		t.Errorf("after it was said: %v, %v", time.Since(began), err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if s.WaitDrained(2, time.Millisecond) == nil {
		t.Error("waits at a page that is gone")
	}
}
