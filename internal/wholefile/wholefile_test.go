package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHalf holds that content which fails in the middle leaves what was there, and nothing else.
func TestHalf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	full := errors.New("no space left")
	half := func(w io.Writer) error {
		_, err := w.Write(make([]byte, 2<<20))
		return errors.Join(err, full)
	}
	left := func() int {
		list, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if err := Write(path, half); !errors.Is(err, full) || left() != 0 {
		t.Errorf("%v; %d files", err, left())
	}
	whole := func(w io.Writer) error {
		_, err := io.WriteString(w, "whole")
		return err
	}
	if err := Write(path, whole); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, half); !errors.Is(err, full) || left() != 1 {
		t.Errorf("%v; %d files", err, left())
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "whole" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestFullDevice holds that a device that takes nothing is an error and stays a device.
func TestFullDevice(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	err := Write("/dev/full", func(w io.Writer) error {
		_, err := io.WriteString(w, "x")
		return err
	})
	if info, statErr := os.Stat("/dev/full"); err == nil || statErr != nil ||
		info.Mode().IsRegular() {
		t.Errorf("%v, %v", err, statErr)
	}
	err = Write("/dev/full", func(w io.Writer) error {
		_, err := w.Write(make([]byte, 2<<20))
		return err
	})
	if err == nil || strings.Count(err.Error(), "no space left") != 1 {
		t.Errorf("not said once: %v", err)
	}
}

// TestCheck holds that what can be written is known beforehand, and nothing is left of the look.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]bool{
		filepath.Join(dir, "file"): true, filepath.Join(dir, "none", "file"): false,
		dir: false, os.DevNull: true,
	} {
		if err := Check(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestReplaced holds that who may read a file stays as it was, that a link stays one, that a new
// file is as any other that the process makes, and that a name may be as long as file systems have.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	hello := func(w io.Writer) error {
		_, err := io.WriteString(w, "hello")
		return err
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	private, link, plain := at("private"), at("link"), at("plain")
	fresh, long := at("fresh"), at(strings.Repeat("€", 85))
	err := errors.Join(os.WriteFile(private, nil, 0o600), os.Symlink("private", link),
		os.WriteFile(plain, nil, 0o666))
	for _, path := range []string{link, fresh, long} {
		err = errors.Join(err, Check(path), Write(path, hello))
	}
	if err != nil {
		t.Fatal(err)
	}
	mode := func(path string) os.FileMode {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	text, err := os.ReadFile(private)
	if err != nil || string(text) != "hello" || mode(private) != 0o600 ||
		mode(link)&os.ModeSymlink == 0 {
		t.Errorf("behind a link: %q, %v, %v, the link %v", text, err, mode(private), mode(link))
	}
	if mode(fresh) != mode(plain) || mode(long) != mode(plain) {
		t.Errorf("new files: %v and %v, want %v", mode(fresh), mode(long), mode(plain))
	}
}
