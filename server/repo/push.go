package repo

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/filelock"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
)

// Pushed is a version that was put into a folder.
type Pushed struct {
	Version Version
	Bytes   int64
	SHA256  [sha256.Size]byte
}

// The errors of [Push].
var (
	ErrDigest = errors.New("what came is not what was sent")
	ErrLarge  = errors.New("the file is too large")
	ErrName   = errors.New("no name of a model")
)

// Push puts a version of a model into a folder, whole or not at all: also where the machine stops
// meanwhile, of which the next Push to the model removes what is left. Number 0 stands for the next
// one after those that there are. digest is what the content's SHA-256 must be; nil leaves that
// open. The error is of kind [ErrName], of kind fs.ErrExist where the version is there already,
// [ErrLarge] beyond most bytes, [ErrDigest], store.ErrFull before the disk has less than
// store.Reserve left, or that of from or the file system; nothing is left then but, perhaps, an
// empty folder of the model.
func Push(folder, name string, number int64, from io.Reader, most int64, digest []byte) (*Pushed,
	error) {
	if err := CheckName(name); err != nil || number < 0 {
		return nil, fmt.Errorf("%w: %.200q, version %d", ErrName, name, number)
	}
	own := filepath.Join(folder, name)
	if err := os.Mkdir(own, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	file, err := fileOf(own)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	if number > 0 {
		if _, err := os.Lstat(filepath.Join(own, strconv.FormatInt(number, 10))); err == nil {
			return nil, exists(name, number)
		}
	}
	sweep(own)
	tmp, err := os.MkdirTemp(own, pushPrefix)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp) // which is not there any more where all went well
	p := &Pushed{}
	held, err := p.write(filepath.Join(tmp, file), from, most)
	if held != nil {
		defer held.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	if digest != nil && string(digest) != string(p.SHA256[:]) {
		return nil, fmt.Errorf("model %s: %w: %d bytes came, with the SHA-256 %x in the place of "+
			"%x: send it again", name, ErrDigest, p.Bytes, p.SHA256, digest)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return nil, err
	}
	if err := errors.Join(syncFolder(tmp), p.place(tmp, own, name, number), syncFolder(own),
		syncFolder(folder)); err != nil {
		return nil, err
	}
	p.Version.Path = filepath.Join(own, strconv.FormatInt(p.Version.Number, 10), file)
	return p, nil
}

// fileOf is the name of the files of a model's versions.
func fileOf(folder string) (string, error) {
	c, _, err := readConfig(folder)
	if err != nil || c == nil || c.DefaultModelFilename == "" {
		return File, err
	}
	return c.DefaultModelFilename, nil
}

// pushPrefix begins the names of folders with versions that are being pushed.
const pushPrefix = ".push-"

// begun is the age from which a push holds its file.
const begun = time.Minute

// sweep removes what is left of versions in a model's folder that were being pushed when a process
// ended: of those that are under way somebody holds the file, but for those that begin just now.
func sweep(own string) {
	left, _ := filepath.Glob(filepath.Join(escaped.Replace(own), pushPrefix+"*"))
	for _, folder := range left {
		made, err := os.Stat(folder)
		if err != nil || time.Since(made.ModTime()) < begun {
			continue
		}
		files, err := os.ReadDir(folder)
		if err != nil || len(files) == 0 {
			continue
		}
		if held, err := filelock.Take(filepath.Join(folder, files[0].Name()), false); err == nil {
			_ = os.RemoveAll(folder)
			_ = held.Close()
		}
	}
}

// escaped has no patterns of filepath.Glob.
var escaped = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`)

// piece is how much is written before it is looked again whether there is room.
const piece = 16 << 20

// write writes the file of a version, and returns what holds it meanwhile, nil where the system
// holds no files.
func (p *Pushed) write(path string, from io.Reader, most int64) (held io.Closer, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	if lock, err := filelock.Take(path, false); err == nil {
		held = lock
	}
	sum := sha256.New()
	to := io.MultiWriter(f, sum)
	for n := int64(piece); n == piece && err == nil && p.Bytes <= most; p.Bytes += n {
		if err = store.Fits(filepath.Dir(path), piece, store.Reserve); err != nil {
			break
		}
		n, err = io.Copy(to, io.LimitReader(from, min(piece, most+1-p.Bytes)))
	}
	if err == nil && p.Bytes > most {
		err = fmt.Errorf("%w: at most %d bytes are taken", ErrLarge, most)
	}
	if err == nil {
		err = f.Sync()
	}
	sum.Sum(p.SHA256[:0])
	return held, errors.Join(err, f.Close())
}

// place gives a version its number, which others may be taking at the same time.
func (p *Pushed) place(tmp, own, name string, number int64) error {
	const tries = 100
	for range tries {
		n := number
		if n == 0 {
			n = next(own)
		}
		if n < 1 { // after the largest number that there is
			return fmt.Errorf("model %s: %w: its versions are numbered up to the last: give one "+
				"that is free", name, fs.ErrExist)
		}
		to := filepath.Join(own, strconv.FormatInt(n, 10))
		err := os.Rename(tmp, to) // which replaces no folder that has something in it
		if err == nil {
			p.Version = Version{Name: name, Number: n}
			return nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if number > 0 {
			break
		}
	}
	return exists(name, number)
}

func exists(name string, number int64) error {
	return fmt.Errorf("model %s: version %d: %w: give another number, or none for the next one",
		name, number, fs.ErrExist)
}

// next is one more than the largest number of a version.
func next(folder string) int64 {
	largest := int64(0)
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if n, ok := Number(e.Name()); ok {
			largest = max(largest, n)
		}
	}
	return largest + 1
}

// syncFolder makes what was done in a folder outlive a loss of power.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Given are the versions of a model that is not in a folder, of those numbers, that a configuration
// serves, ascending.
func Given(name string, numbers []int64, c *oip.Config) ([]int64, error) {
	var all []Version
	for _, n := range numbers {
		all = append(all, Version{Name: name, Number: n})
	}
	some, err := chosen(all, c)
	var list []int64
	for _, v := range some {
		list = append(list, v.Number)
	}
	return list, err
}
