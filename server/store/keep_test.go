package store

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// named is a room whose rows name blobs.
var named = Room{Name: "named", Migrations: []string{
	"CREATE TABLE named_a (digest TEXT NOT NULL) STRICT"},
	Blobs: []string{"SELECT digest FROM named_a"}}

// keep keeps a text that a row names.
func keep(s *Store, text string) (Digest, error) {
	p, err := s.Blobs().Stage(strings.NewReader(text))
	if err != nil {
		return "", err
	}
	defer p.Discard()
	return p.Digest, s.Keep(context.Background(), p, func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO named_a VALUES (?)", p.Digest)
		return err
	})
}

// digests are those of all blobs.
func digests(t *testing.T, s *Store) (list []Digest) {
	t.Helper()
	if err := s.Blobs().Each(func(d Digest, _ int64) error {
		list = append(list, d)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestKeep: a blob is there with the row that names it, or neither is; it goes once the last row
// that named it has gone.
func TestKeep(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{}, named)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var first Digest
	for range 2 { // two rows name it
		if first, err = keep(s, "one"); err != nil {
			t.Fatal(err)
		}
	}
	broken := errors.New("broken")
	for text, left := range map[string]int{"one": 1, "two": 1} { // one is named already
		p, err := s.Blobs().Stage(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Keep(t.Context(), p, func(*sql.Tx) error { return broken }); err != broken {
			t.Errorf("%s: %v", text, err)
		}
		if n := len(digests(t, s)); n != left {
			t.Errorf("%s: %d blobs are left", text, n)
		}
		p.Discard()
	}
	for _, want := range []int{1, 0} {
		if err := s.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec("DELETE FROM named_a WHERE rowid = (SELECT min(rowid) FROM named_a)")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		s.Release(t.Context(), first)
		if n := len(digests(t, s)); n != want {
			t.Errorf("%d blobs, want %d", n, want)
		}
	}
}

// TestStage: a part can be read, is not among the blobs, and leaves nothing.
func TestStage(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{}, named)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := s.Blobs().Stage(strings.NewReader("text"))
	if err != nil || p.Size != 4 || p.Digest != DigestOf([]byte("text")) {
		t.Fatal(p, err)
	}
	f, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); string(b) != "text" || err != nil {
		t.Errorf("it reads %q, %v", b, err)
	}
	if list := digests(t, s); len(list) > 0 {
		t.Errorf("there are %v", list)
	}
	p.Discard()
	p.Discard()
	if _, err := p.Open(); err == nil {
		t.Error("it is there after it was discarded")
	}
}

// TestSweep: a blob that no row names goes when the folder is opened by whoever knows the rooms
// that name some, and stays where none does.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	var kept, lost Digest
	for i, rooms := range [][]Room{{named}, nil, {named}} {
		s, err := Open(t.Context(), dir, Options{}, rooms...)
		if err != nil {
			t.Fatal(err)
		}
		switch i {
		case 0:
			if kept, err = keep(s, "named"); err == nil {
				lost, _, err = s.Blobs().Put(strings.NewReader("lost"))
			}
		case 1:
			if n := len(digests(t, s)); n != 2 {
				t.Errorf("without the room there are %d blobs", n)
			}
		case 2:
			if list := digests(t, s); !slices.Equal(list, []Digest{kept}) {
				t.Errorf("there are %v, want %s and not %s", list, kept, lost)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBlobsAreSynced: what a blob has is on the disk before it has its name, whole.
func TestBlobsAreSynced(t *testing.T) {
	s := begin(t, t.TempDir(), Options{})
	was := syncFile
	defer func() { syncFile = was }()
	synced := map[string]int64{}
	syncFile = func(f *os.File) error {
		info, err := f.Stat()
		if err == nil {
			synced[f.Name()] = info.Size()
		}
		return errors.Join(err, was(f))
	}
	p, err := s.Blobs().Stage(strings.NewReader("abc"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Discard()
	if synced[p.path] != 3 {
		t.Errorf("a blob of 3 bytes may be lost with the power: %v", synced)
	}
}

// TestReserve: what is to stay free of a disk is not given away.
func TestReserve(t *testing.T) {
	dir := t.TempDir()
	free, err := Free(dir)
	if err != nil {
		t.Skip("nobody knows what is free here:", err)
	}
	if err := Fits(dir, 1, free/2); err != nil {
		t.Error(err)
	}
	if err := Fits(dir, 1, 2*free); !errors.Is(err, ErrFull) {
		t.Errorf("beside a reserve that the disk has not: %v", err)
	}
}
