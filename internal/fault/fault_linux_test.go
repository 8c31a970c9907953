package fault

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPanics turns each kind of panic into an error.
func TestPanics(t *testing.T) {
	var none []int
	for what, c := range map[string]struct {
		f  func() error
		is error
	}{
		"word":     {func() error { panic("out of range") }, ErrPanic},
		"error":    {func() error { panic(io.ErrShortBuffer) }, io.ErrShortBuffer},
		"runtime":  {func() error { return errors.New(strings.Repeat("x", none[3])) }, ErrPanic},
		"returned": {func() error { return io.EOF }, io.EOF},
	} {
		err := Do(c.f)
		if !errors.Is(err, c.is) || errors.Is(err, ErrFile) {
			t.Errorf("%s: error %v", what, err)
		}
		if what != "returned" && (!errors.Is(err, ErrPanic) ||
			!strings.Contains(err.Error(), "TestPanics")) {
			t.Errorf("%s: error %v has no stack", what, err)
		}
	}
	if v, err := Value(func() (int, error) { return 3, nil }); v != 3 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	if v, err := Value(func() (int, error) { return 3, io.EOF }); v != 0 || err != io.EOF {
		t.Errorf("%d, %v", v, err)
	}
}

// mapped maps a file of two pages.
func mapped(t *testing.T) (path string, mem []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "weights.bin")
	if err := os.WriteFile(path, make([]byte, 2*os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err = unix.Mmap(int(f.Fd()), 0, 2*os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return path, mem
}

// TestShrunkFile reads, and has the system read, what was cut off a file.
func TestShrunkFile(t *testing.T) {
	path, mem := mapped(t)
	forget := Watch(path, mem)
	page := os.Getpagesize()
	if err := os.Truncate(path, int64(page)); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var sink int
	reads := map[string]func() error{
		"a byte":      func() error { sink += int(mem[page+5]); return nil },
		"many":        func() error { sink += bytes.Count(mem, []byte{1}); return nil },
		"for a write": func() error { _, err := out.Write(mem); return err },
	}
	for what, read := range reads {
		err := Do(read)
		var file *FileError
		if !errors.Is(err, ErrFile) || !errors.As(err, &file) || file.Path != path ||
			file.At < int64(page) || file.Was != int64(2*page) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	forget()
	if err := Do(reads["a byte"]); !errors.Is(err, ErrPanic) || errors.Is(err, ErrFile) {
		t.Errorf("of a file that is not watched: error %v", err)
	}
}

// TestFlagIsRestored holds that a goroutine is left as it was, whatever happened.
func TestFlagIsRestored(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(false))
	for _, was := range []bool{false, true} {
		debug.SetPanicOnFault(was)
		for _, f := range []func() error{
			func() error { return nil },
			func() error { return Do(func() error { panic(1) }) },
			func() error { panic(1) },
		} {
			_ = Do(func() error {
				if !debug.SetPanicOnFault(true) {
					t.Error("a fault would end the process")
				}
				return f()
			})
			if now := debug.SetPanicOnFault(was); now != was {
				t.Errorf("it was %v and became %v", was, now)
			}
		}
	}
}
