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
}

const partName = "part-" // begins the names of blobs that are not there yet

// openBlobs makes the folder, and removes what processes that died had begun.
func openBlobs(dir string, readOnly bool) (*Blobs, error) {
	b := &Blobs{dir, readOnly}
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
	return b, errors.Join(err, syncFolder(filepath.Dir(dir)))
}

// path is where a blob lies: in one of 256 folders, since many systems list a large one slowly.
func (b *Blobs) path(d Digest) string {
	digits := strings.TrimPrefix(string(d), digestPrefix)
	return filepath.Join(b.dir, digits[:2], digits)
}

// Put keeps all that from has until its end, and returns its digest and size in bytes. Once it
// returns nil, the blob is on the disk; otherwise nothing is left of it. A caller bounds what from
// gives.
func (b *Blobs) Put(from io.Reader) (d Digest, size int64, err error) {
	if b.readOnly {
		return "", 0, fmt.Errorf("blobs in %s: %w", b.dir, ErrReadOnly)
	}
	f, err := os.CreateTemp(b.dir, partName+"*")
	if err != nil {
		return "", 0, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("blob: %w", err)
		}
	}()
	h := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, h), from)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", 0, err
	}
	d = digestPrefix + Digest(hex.EncodeToString(h.Sum(nil)))
	folder := filepath.Dir(b.path(d))
	switch err = os.Mkdir(folder, 0o700); {
	case err == nil:
		err = syncFolder(b.dir)
	case errors.Is(err, fs.ErrExist):
		err = nil
	}
	if err == nil {
		err = os.Rename(f.Name(), b.path(d)) // of a blob that is there too: it has the same bytes
	}
	if err == nil {
		err = syncFolder(folder)
	}
	return d, size, err
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
