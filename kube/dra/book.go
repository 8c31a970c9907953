package dra

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
)

// state says how far a claim has come.
type state string

const (
	preparing state = "preparing" // its jobs may be kept, and no container knows of them
	prepared  state = "prepared"
	releasing state = "releasing" // its jobs may be gone, and no container has them
)

// entry is a claim in the book.
type entry struct {
	Claim string `json:"claim"` // for people
	State state  `json:"state"`
	Jobs  []Job  `json:"jobs"`
}

// book is what the driver has given out, by the claims' UIDs, on disk. It is written whole to a new
// file that then takes the place of the old one: who reads it finds the one or the other, after a
// loss of power too.
type book struct {
	path    string
	entries map[string]entry
	writer
}

// page is the book as written.
type page struct {
	Version int    `json:"version"`
	Sum     uint32 `json:"crc32"`
	Entries []byte `json:"entries"` // JSON, as the sum is of
}

const (
	bookName    = "claims.json"
	bookVersion = 1
)

// ErrBook: the book on disk is not one that this version wrote, whole.
var ErrBook = errors.New("book of claims cannot be read")

// openBook reads the book of a folder; none is an empty one. One that cannot be read is an ErrBook,
// and the book that is returned is empty then.
func openBook(dir string, w writer) (*book, error) {
	b := &book{path: filepath.Join(dir, bookName), entries: map[string]entry{}, writer: w}
	text, err := os.ReadFile(b.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, nil
	case err != nil:
		return b, fmt.Errorf("%s: %w: %w", b.path, ErrBook, err)
	}
	if err := b.read(text); err != nil {
		b.entries = map[string]entry{}
		return b, fmt.Errorf("%s: %w: %w", b.path, ErrBook, err)
	}
	return b, nil
}

// read takes the entries from the book's text.
func (b *book) read(text []byte) error {
	var p page
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	switch {
	case p.Version != bookVersion:
		return fmt.Errorf("is of version %d, this driver writes %d", p.Version, bookVersion)
	case crc32.ChecksumIEEE(p.Entries) != p.Sum:
		return errors.New("its sum does not fit")
	}
	return json.Unmarshal(p.Entries, &b.entries)
}

// set writes an entry down; without jobs it strikes it out. The book is as before if it fails.
func (b *book) set(uid string, e entry) error {
	next := maps.Clone(b.entries)
	if next[uid] = e; len(e.Jobs) == 0 {
		delete(next, uid)
	}
	entries, err := json.Marshal(next)
	if err != nil {
		return err
	}
	text, err := json.Marshal(page{bookVersion, crc32.ChecksumIEEE(entries), entries})
	if err != nil {
		return err
	}
	if err := b.replace(b.path, text); err != nil {
		return fmt.Errorf("book of claims: %w", err)
	}
	b.entries = next
	return nil
}

// writer writes files.
type writer struct {
	step func(string) // called between any two writes
	soft bool         // what is written need not outlive a loss of power
}

// replace puts a file in another's place, for good when it returns.
func (w writer) replace(path string, text []byte) error {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w.step("none of " + filepath.Base(path))
	if _, err = f.Write(text); err == nil && !w.soft {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	w.step("all of " + filepath.Base(path))
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	w.step(filepath.Base(path))
	if w.soft {
		return nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	// Not all file systems can sync a folder.
	_ = dir.Sync()
	return dir.Close()
}
