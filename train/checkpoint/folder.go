package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Folder is where a run keeps its checkpoints.
type Folder struct {
	Path string
	Keep int // of the newest, at least 1
}

const suffix = ".safetensors"

// file is the name of the checkpoint after so many updates; names are in the order of updates.
func file(step int64) string { return fmt.Sprintf("step-%012d%s", step, suffix) }

// Write keeps the state after so many updates, and removes the oldest beyond Keep. What was there
// before stays when it fails.
func (f Folder) Write(step int64, meta map[string]string, values []Value) error {
	if err := os.MkdirAll(f.Path, 0o777); err != nil {
		return err
	}
	if err := Write(filepath.Join(f.Path, file(step)), meta, values); err != nil {
		return err
	}
	names, err := f.list()
	if err != nil {
		return err
	}
	for _, name := range names[:max(0, len(names)-f.Keep)] {
		if err := os.Remove(filepath.Join(f.Path, name)); err != nil {
			return err
		}
	}
	return nil
}

// list is the names of checkpoints, the oldest first.
func (f Folder) list() (names []string, err error) {
	files, err := os.ReadDir(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range files {
		if strings.HasPrefix(e.Name(), "step-") && strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// Last returns the metadata of the newest checkpoint that can be read, nil where there is none.
func (f Folder) Last() (map[string]string, error) {
	names, err := f.list()
	for _, name := range slices.Backward(names) {
		if meta := metaOf(filepath.Join(f.Path, name)); meta != nil {
			return meta, nil
		}
	}
	return nil, err
}

func metaOf(path string) map[string]string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	meta, _, _, err := readHeader(f)
	if err != nil {
		return nil
	}
	return meta
}

// Clear removes all checkpoints.
func (f Folder) Clear() error {
	names, err := f.list()
	for _, name := range names {
		err = errors.Join(err, os.Remove(filepath.Join(f.Path, name)))
	}
	return err
}

// Newest reads the newest checkpoint that is whole into values. damaged tells of newer ones that
// are not. Without any the error is of kind fs.ErrNotExist.
func (f Folder) Newest(into []Value) (meta map[string]string, damaged []error, err error) {
	names, err := f.list()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Backward(names) {
		meta, err := Read(filepath.Join(f.Path, name), into)
		if err == nil {
			return meta, damaged, nil
		}
		damaged = append(damaged, err)
	}
	if len(damaged) > 0 {
		return nil, nil, errors.Join(damaged...)
	}
	return nil, nil, fmt.Errorf("%s: no checkpoint to go on from: %w", f.Path, fs.ErrNotExist)
}
