package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzRestore: whatever is said to be a backup is brought back whole or refused, and writes nothing
// outside of the folder that it is unpacked to.
func FuzzRestore(f *testing.F) {
	dir := f.TempDir()
	s, err := Open(f.Context(), dir, Options{})
	if err != nil {
		f.Fatal(err)
	}
	_, _, err = s.Blobs().Put(bytes.NewReader([]byte("content")))
	path := filepath.Join(f.TempDir(), "backup.tar")
	if err = errors.Join(err, s.Close()); err != nil {
		f.Fatal(err)
	}
	if _, err := Backup(f.Context(), dir, path); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(bytes.ReplaceAll(good, []byte("blobs/"), []byte("../../")))
	f.Fuzz(func(t *testing.T, b []byte) {
		outer := t.TempDir()
		sum, err := unpack(bytes.NewReader(b), filepath.Join(outer, "in"))
		if list, _ := os.ReadDir(outer); len(list) > 1 {
			t.Errorf("it wrote %v", list)
		}
		if err == nil && (sum.Format != formatNow || sum.State == "") {
			t.Errorf("%+v was taken", sum)
		}
	})
}

// TestFull: a disk without room is an error that says so, and what was there before is there.
func TestFull(t *testing.T) {
	s := begin(t, t.TempDir(), Options{}, notes)
	add(t, s, "one")
	if _, err := s.writer.Exec("PRAGMA max_page_count = 10"); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), insert(string(make([]byte, 1<<20)))); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	if got := texts(t, s); len(got) != 1 {
		t.Errorf("%d notes", len(got))
	}
}
