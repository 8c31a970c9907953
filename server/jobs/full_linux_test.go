package jobs

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/tensor"
)

// smallDisk is a folder with so much room, as mount(8) writes it, for a test that runs as root.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skip("a small disk needs root:", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestFullDisk: a disk without room is an error of the job that needs some, or of the request, and
// of nothing else; with room again the job goes on after the rows that are done.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "4m")
	d, entered, leave := newDoubler(20)
	p := begin(t, dir, Options{Attempts: 1, Reserve: 1 << 20, Part: time.Nanosecond},
		d.source("double", 1))
	defer p.end(t)
	j := p.double(t, t.Context(), "a", 40)
	<-entered
	filler := dir + "/filler"
	if err := os.WriteFile(filler, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	leave <- struct{}{}
	got := p.ended(t, j.ID, Failed)
	if !strings.Contains(got.Reason, "disk is full") || got.Done < 19 || got.Done == 40 {
		t.Errorf("it is %+v", got)
	}
	file := packed(t, map[string]*tensor.Tensor{"x": numbers(1)})
	if _, _, err := p.jobs.Make(t.Context(), Asked{Key: "b", Model: "double", Size: -1},
		bytes.NewReader(file)); !errors.Is(err, store.ErrFull) {
		t.Errorf("another job: %v", err)
	}
	a := p.ask(t, "POST", "/v1/jobs?model=double", file, "Idempotency-Key", "b")
	if a.StatusCode != 507 {
		t.Errorf("another job: %d %s", a.StatusCode, a.body)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	leave <- struct{}{} // of the row that was computed and not kept
	if err := p.jobs.Retry(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	p.ended(t, j.ID, Done)
	p.doubled(t, j.ID, 40)
	// also what does not keep to the reserve leaves nothing
	p.jobs.o.Reserve = -1 << 40
	if _, _, err := p.jobs.Make(t.Context(), Asked{Key: "c", Model: "double", Size: -1},
		bytes.NewReader(make([]byte, 8<<20))); !errors.Is(err, store.ErrFull) {
		t.Errorf("a file larger than the disk: %v", err)
	}
	next := p.double(t, t.Context(), "d", 5)
	p.ended(t, next.ID, Done)
}
