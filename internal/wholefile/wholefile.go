// Package wholefile writes files as a whole or not at all: a disk that fills up, a signal or an
// error of whoever makes the content leave what was there before, and nothing half made beside it.
//
// Meet first: [Write]; [Check] asks beforehand whether a file can be written at all.
//
// Concurrency: two writers of one path leave one of two whole files.
//
// What it refuses: to replace what is no regular file, such as a device or a pipe, which is written
// to directly.
package wholefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Write makes a file of what write writes: next to path first, then renamed to it. It may be read
// and written by whom the file that it replaces allowed or, without one, by whom the process's
// umask allows. A symbolic link to a file stays, and that file is replaced. When path exists and is
// not a regular file, it is written to directly instead. Errors name the path.
func Write(path string, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		err = swap(path, 0, write)
	case !info.Mode().IsRegular():
		err = overwrite(path, write)
	default:
		var target string
		if target, err = filepath.EvalSymlinks(path); err == nil {
			err = swap(target, info.Mode().Perm(), write)
		}
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Check reports whether a file can be written at path, before work is done for it: whether a file
// can be made next to it. Of what is there and is no regular file, a folder cannot be written, and
// a device or a pipe is not tried. Nothing is left or changed. Errors name the path.
func Check(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return fmt.Errorf("writing %s: it is a folder", path)
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil // to open a pipe waits for its reader
	}
	f, err := temporary(path)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// temporary makes a file with a name of its own next to path, with the permissions that the umask
// leaves, which os.CreateTemp does not ask for.
func temporary(path string) (*os.File, error) {
	const most = 200 // bytes of the name: with what is added, file systems have 255
	dir, base := filepath.Split(path)
	base = strings.ToValidUTF8(base[:min(len(base), most)], "")
	for {
		name := fmt.Sprintf("%s.%s-%d", dir, base, rand.Uint64())
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

func overwrite(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(writeTo(f, write), f.Close())
}

// writeTo writes through a buffer, and says once what a full disk says of every write.
func writeTo(f *os.File, write func(io.Writer) error) error {
	b := bufio.NewWriterSize(f, 1<<20)
	if err := write(b); err != nil {
		return err
	}
	return b.Flush()
}

// swap replaces path. Its permissions become mode, unless that is 0.
func swap(path string, mode os.FileMode, write func(io.Writer) error) (err error) {
	f, err := temporary(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	err = writeTo(f, write)
	if mode != 0 {
		err = errors.Join(err, f.Chmod(mode))
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
