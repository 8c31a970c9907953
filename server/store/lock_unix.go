//go:build unix

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirgpu/weir/internal/filelock"
)

// lock makes the folder, which only its owner may read, and takes it for this process; the kernel
// gives it back when the process dies, however it does.
func lock(dir string) (*os.File, error) {
	if err := makeFolder(dir); err != nil {
		return nil, err
	}
	return hold(filepath.Join(dir, lockName), false, ErrRunning)
}

// makeFolder makes a folder with those above it, which are on the disk once it returns nil.
func makeFolder(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeFolder(filepath.Dir(dir)); err == nil {
			err = os.Mkdir(dir, 0o700)
		}
	}
	switch {
	case err == nil:
		return syncFolder(filepath.Dir(dir))
	case errors.Is(err, fs.ErrExist):
		return nil
	}
	return err
}

// alone takes the folder from those that read it, of whom there may be none.
func alone(dir string) (*os.File, error) {
	return hold(filepath.Join(dir, readName), false, ErrReading)
}

// reading takes the folder with others that read it. Who may read it and not write has no lock.
func reading(dir string) (*os.File, error) {
	f, err := hold(filepath.Join(dir, readName), true, ErrRestoring)
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	return f, err
}

// hold takes a file, or reports that it is taken.
func hold(path string, shared bool, taken error) (*os.File, error) {
	f, err := filelock.Take(path, shared)
	if errors.Is(err, filelock.ErrTaken) {
		err = taken
	}
	return f, err
}

// syncFolder has the names in a folder reach the disk. Tests see what it is asked for.
var syncFolder = func(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
