package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
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
}
