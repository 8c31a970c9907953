package store

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/wholefile"
)

// A backup is a tar file: the SQLite file, the blobs by their digits, and at the end a summary,
// which one that was cut off lacks.
const (
	summaryName  = "weir-backup.json"
	incomingName = "incoming" // where a restore unpacks
	formatNow    = 1
)

// ErrBackup is a file that is no backup, or not all of one.
var ErrBackup = errors.New("not a whole backup of weir's")

// Summary is what a backup has.
type Summary struct {
	Format int    `json:"format"`
	State  Digest `json:"state"` // of the SQLite file
	Blobs  int    `json:"blobs"`
	Bytes  int64  `json:"bytes"` // of all that is in it
}

// Backup writes all that is in a folder, which no server may use meanwhile, into a file: whole or
// not at all. A new file may be read by its owner only, as the folder.
func Backup(ctx context.Context, dir, file string) (sum Summary, err error) {
	if _, err := os.Stat(filepath.Join(dir, fileName)); err != nil {
		return sum, fmt.Errorf("state in %s: %w", dir, err)
	}
	s, err := Open(ctx, dir, Options{})
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	aside, err := os.MkdirTemp(dir, incomingName+"-*")
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()
	copied := filepath.Join(aside, fileName)
	if _, err := s.writer.ExecContext(ctx, "VACUUM INTO ?", copied); err != nil {
		return sum, fmt.Errorf("state in %s: %w", dir, explain(err))
	}
	made, err := private(file)
	if err != nil {
		return sum, err
	}
	err = wholefile.Write(file, func(w io.Writer) error {
		sum, err = s.pack(ctx, tar.NewWriter(w), copied)
		return err
	})
	if err != nil {
		if made {
			err = errors.Join(err, os.Remove(file))
		}
		return sum, err
	}
	return sum, syncFolder(filepath.Dir(file))
}

// private makes an empty file that only its owner may read, which what replaces it then is too;
// whoever made one that is there has decided who may read it.
func private(file string) (made bool, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// pack writes a backup.
func (s *Store) pack(ctx context.Context, to *tar.Writer, copied string) (Summary, error) {
	sum := Summary{Format: formatNow}
	d, n, err := packFile(to, fileName, copied)
	if err != nil {
		return sum, err
	}
	sum.State, sum.Bytes = d, n
	if err := s.blobs.Each(func(d Digest, _ int64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(blobsName, strings.TrimPrefix(string(d), digestPrefix))
		got, n, err := packFile(to, name, s.blobs.path(d))
		if err == nil && got != d {
			err = fmt.Errorf("blob %s has the digest %s: %w", d, got, ErrDamaged)
		}
		sum.Blobs++
		sum.Bytes += n
		return err
	}); err != nil {
		return sum, err
	}
	b, err := json.Marshal(sum)
	if err != nil {
		return sum, err
	}
	err = to.WriteHeader(&tar.Header{Name: summaryName, Mode: 0o600, Size: int64(len(b))})
	if err == nil {
		_, err = to.Write(b)
	}
	return sum, errors.Join(err, to.Close())
}

// packFile adds a file, and returns the digest and size of what was added.
func packFile(to *tar.Writer, name, from string) (Digest, int64, error) {
	f, err := os.Open(from)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	if err := to.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size()}); err != nil {
		return "", 0, err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, h), f)
	return digestPrefix + Digest(hex.EncodeToString(h.Sum(nil))), n, err
}

// Restore brings a backup back into a folder, which no server may use meanwhile. What was there is
// not lost: replaced is the folder to which it was moved, "" where there was nothing. The backup is
// unpacked and checked before anything is moved.
func Restore(file, dir string, now time.Time) (sum Summary, replaced string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return sum, "", err
	}
	defer f.Close()
	held, err := lock(dir)
	if err != nil {
		return sum, "", fmt.Errorf("state in %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	unread, err := alone(dir)
	if err != nil {
		return sum, "", fmt.Errorf("state in %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, unread.Close()) }()
	aside := filepath.Join(dir, incomingName)
	if err := os.RemoveAll(aside); err != nil {
		return sum, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()
	if sum, err = unpack(f, aside); err != nil {
		return sum, "", fmt.Errorf("%s: %w", file, err)
	}
	if err := intact(filepath.Join(aside, fileName)); err != nil {
		return sum, "", fmt.Errorf("%s: %w", file, err)
	}
	replaced, err = swap(dir, aside, now)
	return sum, replaced, err
}

// unpack writes a backup into a folder, which it makes, and holds it against its summary.
func unpack(f io.Reader, to string) (Summary, error) {
	found, said := Summary{Format: formatNow}, Summary{}
	if err := os.MkdirAll(filepath.Join(to, blobsName), 0o700); err != nil {
		return said, err
	}
	b := &Blobs{dir: filepath.Join(to, blobsName)}
	for from := tar.NewReader(f); ; {
		h, err := from.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return said, fmt.Errorf("%w: %w", ErrBackup, err)
		}
		digits, isBlob := strings.CutPrefix(h.Name, blobsName+"/")
		switch {
		case h.Name == summaryName:
			err = json.NewDecoder(io.LimitReader(from, 1<<10)).Decode(&said)
		case h.Name == fileName:
			var n int64
			found.State, n, err = unpackState(from, filepath.Join(to, fileName))
			found.Bytes += n
		case isBlob:
			var got Digest
			var n int64
			if got, n, err = b.Put(from); err == nil && got != digestPrefix+Digest(digits) {
				err = fmt.Errorf("%w: blob %s has the digest %s", ErrBackup, digits, got)
			}
			found.Bytes += n
			found.Blobs++
		default:
			err = fmt.Errorf("%w: it has %.80q", ErrBackup, h.Name)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: it is cut off in %s", ErrBackup, h.Name)
		}
		if err != nil {
			return said, err
		}
	}
	if said != found {
		return said, fmt.Errorf("%w: it has %+v, and says %+v", ErrBackup, found, said)
	}
	return said, nil
}

func unpackState(from io.Reader, to string) (Digest, int64, error) {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), from)
	return digestPrefix + Digest(hex.EncodeToString(h.Sum(nil))), n, errors.Join(err, f.Sync(),
		f.Close())
}

// intact holds a file against SQLite's check.
func intact(file string) error {
	db, err := connect(file, 1)
	if err != nil {
		return err
	}
	return errors.Join(explain(check(context.Background(), db)), db.Close())
}

// swap moves what is in a folder away, and what was unpacked to its place. Who opens the folder
// while only a part was moved is told so.
func swap(dir, aside string, now time.Time) (replaced string, err error) {
	marker := filepath.Join(dir, restoreName)
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return "", err
	}
	if err := errors.Join(syncFolder(aside), syncFolder(dir)); err != nil {
		return "", err
	}
	for _, name := range []string{fileName + "-wal", fileName + "-shm", fileName, blobsName} {
		from := filepath.Join(dir, name)
		if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if replaced == "" {
			pattern := replacedName + now.UTC().Format("-20060102-150405-*")
			if replaced, err = os.MkdirTemp(dir, pattern); err != nil {
				return "", err
			}
		}
		if err := os.Rename(from, filepath.Join(replaced, name)); err != nil {
			return replaced, err
		}
	}
	for _, name := range []string{blobsName, fileName} {
		if err := os.Rename(filepath.Join(aside, name), filepath.Join(dir, name)); err != nil {
			return replaced, err
		}
	}
	if err := syncFolder(cmp.Or(replaced, dir)); err != nil {
		return replaced, err
	}
	if err := errors.Join(syncFolder(dir), os.Remove(marker)); err != nil {
		return replaced, err
	}
	return replaced, syncFolder(dir)
}
