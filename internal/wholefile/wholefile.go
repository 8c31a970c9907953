// Package wholefile writes files as a whole or not at all: a disk that fills up, a signal or an
// error of whoever makes the content leave what was there before, and nothing half made beside it.
//
// Meet first: [Write].
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
	"os"
	"path/filepath"
)

// Write makes a file of what write writes: next to path first, then renamed to it. When path exists
// and is not a regular file, it is written to directly instead. Errors name the path.
func Write(path string, write func(io.Writer) error) error {
	var err error
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
		err = overwrite(path, write)
	} else {
		err = swap(path, write)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func overwrite(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(write(b), b.Flush(), f.Close())
}

func swap(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	b := bufio.NewWriterSize(f, 1<<20)
	err = errors.Join(write(b), b.Flush(), f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
