package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Digest names a blob by its content: "sha256:" and 64 digits in lower case, as OCI has it.
type Digest string

const digestPrefix = "sha256:"

// ParseDigest checks a digest that came from outside.
func ParseDigest(text string) (Digest, error) {
	digits, ok := strings.CutPrefix(text, digestPrefix)
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != sha256.Size || strings.ToLower(digits) != digits {
		return "", fmt.Errorf("digest %.80q: give %s and %d hexadecimal digits in lower case", text,
			digestPrefix, 2*sha256.Size)
	}
	return Digest(text), nil
}

// DigestOf is the digest of some bytes.
func DigestOf(b []byte) Digest {
	sum := sha256.Sum256(b)
	return digestPrefix + Digest(hex.EncodeToString(sum[:]))
}

// Blobs are files named by their content: those that are there never change.
type Blobs struct {
	dir      string
	readOnly bool
	making   sync.Mutex // is held from when a folder is made until it is on the disk
}

const partName = "part-" // begins the names of blobs that are not there yet

// openBlobs makes the folder, and removes what processes that died had begun.
func openBlobs(dir string, readOnly bool) (*Blobs, error) {
	b := &Blobs{dir: dir, readOnly: readOnly}
	if readOnly {
		return b, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(dir, partName+"*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	// and what they had made before they synced it
	return b, errors.Join(err, syncFolder(dir), syncFolder(filepath.Dir(dir)))
}

// path is where a blob lies: in one of 256 folders, since many systems list a large one slowly.
func (b *Blobs) path(d Digest) string {
	digits := strings.TrimPrefix(string(d), digestPrefix)
	return filepath.Join(b.dir, digits[:2], digits)
}

// Put keeps all that from has until its end, and returns its digest and size in bytes. Once it
// returns nil, the blob is on the disk; otherwise nothing is left of it. A caller bounds what from
// gives. What a row is to name is better kept by [Store.Keep].
func (b *Blobs) Put(from io.Reader) (d Digest, size int64, err error) {
	p, err := b.Stage(from)
	if err != nil {
		return "", 0, err
	}
	if err := b.place(p); err != nil {
		p.Discard()
		return "", 0, fmt.Errorf("blob: %w", err)
	}
	return p.Digest, p.Size, nil
}

// Part is a blob that is not there yet: it is on the disk, beside the others, and lost with the
// process unless [Store.Keep] keeps it.
type Part struct {
	Digest Digest
	Size   int64 // in bytes
	path   string
}

// Stage writes all that from has until its end to the disk, for [Store.Keep] or [Part.Discard].
// Beside an error nothing is left of it.
func (b *Blobs) Stage(from io.Reader) (*Part, error) {
	if b.readOnly {
		return nil, fmt.Errorf("blobs in %s: %w", b.dir, ErrReadOnly)
	}
	f, err := os.CreateTemp(b.dir, partName+"*")
	if err != nil {
		return nil, explainFile(err)
	}
	p := &Part{path: f.Name()}
	h := sha256.New()
	p.Size, err = io.Copy(io.MultiWriter(f, h), from)
	if err = errors.Join(err, syncFile(f), f.Close()); err != nil {
		p.Discard()
		return nil, fmt.Errorf("blob: %w", explainFile(err))
	}
	p.Digest = digestPrefix + Digest(hex.EncodeToString(h.Sum(nil)))
	return p, nil
}

// syncFile has what is in a file reach the disk. Tests see what it is asked for.
var syncFile = (*os.File).Sync

// Open opens the part for reading, which the caller closes.
func (p *Part) Open() (*os.File, error) { return os.Open(p.path) }

// Discard removes the part, unless it was kept.
func (p *Part) Discard() {
	if p.path != "" {
		_ = os.Remove(p.path) // what is left of it goes with the next start
		p.path = ""
	}
}

// place gives a part its name.
func (b *Blobs) place(p *Part) error {
	folder := filepath.Dir(b.path(p.Digest))
	err := b.make(folder)
	if err == nil {
		err = os.Rename(p.path, b.path(p.Digest)) // of a blob that is there: it has the same bytes
	}
	if err != nil {
		return explainFile(err)
	}
	p.path = ""
	return syncFolder(folder)
}

// make makes a folder, which is on the disk once it returns nil, also where another made it.
func (b *Blobs) make(folder string) error {
	b.making.Lock()
	defer b.making.Unlock()
	err := os.Mkdir(folder, 0o700)
	switch {
	case err == nil:
		err = syncFolder(b.dir)
	case errors.Is(err, fs.ErrExist):
		err = nil
	}
	return err
}

// Open opens a blob for reading, which the caller closes. Without one the error is [ErrNoBlob].
// That the bytes are still those that were put is what [Blobs.Verify] tells.
func (b *Blobs) Open(d Digest) (*os.File, error) {
	if _, err := ParseDigest(string(d)); err != nil {
		return nil, err
	}
	f, err := os.Open(b.path(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", d, ErrNoBlob)
	}
	return f, err
}

// Verify reads a blob and reports whether it still is what its name says: if not, the error is
// [ErrDamaged].
func (b *Blobs) Verify(d Digest) error {
	f, err := b.Open(d)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); digestPrefix+got != string(d) {
		return fmt.Errorf("blob %s has the digest %s: %w", d, got, ErrDamaged)
	}
	return nil
}

// Remove forgets a blob; one that is not there is no error. Who has it open reads on.
func (b *Blobs) Remove(d Digest) error {
	if b.readOnly {
		return fmt.Errorf("blobs in %s: %w", b.dir, ErrReadOnly)
	}
	if _, err := ParseDigest(string(d)); err != nil {
		return err
	}
	if err := os.Remove(b.path(d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Each calls f with every blob and its size in bytes, in order of digests, until f returns an
// error.
func (b *Blobs) Each(f func(d Digest, size int64) error) error {
	err := filepath.WalkDir(b.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		d, err := ParseDigest(digestPrefix + e.Name())
		if err != nil {
			return nil // a part, or none of weir's
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return f(d, info.Size())
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever put
	}
	return err
}
