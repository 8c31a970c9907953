package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/internal/filelock"
)

// Folder is where a run keeps its checkpoints.
type Folder struct {
	Path string
	Keep int // of the newest, at least 1
}

const suffix = ".safetensors"

// file is the name of the checkpoint after so many updates; names are in the order of updates.
func file(step int64) string { return fmt.Sprintf("step-%012d%s", step, suffix) }

// lockName is the file that the run which writes to a folder holds. It stays: one that was removed
// could be held beside the one made anew.
const lockName = ".lock"

// Lock takes the folder, which is made where there is none, until what it returns is closed, or the
// process ends. The error is filelock.ErrTaken where another run has it.
func (f Folder) Lock() (*os.File, error) {
	if err := os.MkdirAll(f.Path, 0o777); err != nil {
		return nil, err
	}
	return filelock.Take(filepath.Join(f.Path, lockName), false)
}

// Write keeps the state after so many updates, and removes the oldest beyond Keep. Checkpoints of
// later updates go first: a run that comes by again went on from before them, as they were damaged.
// What was there before stays when it fails, but for what processes that were killed have left half
// written.
func (f Folder) Write(step int64, meta map[string]string, values []Value) error {
	if err := os.MkdirAll(f.Path, 0o777); err != nil {
		return err
	}
	if err := f.sweep(); err != nil {
		return err
	}
	if err := Write(filepath.Join(f.Path, file(step)), meta, values); err != nil {
		return err
	}
	names, err := f.list()
	if err != nil {
		return err
	}
	until := slices.Index(names, file(step)) + 1
	for _, name := range slices.Concat(names[until:], names[:max(0, until-f.Keep)]) {
		if err := os.Remove(filepath.Join(f.Path, name)); err != nil {
			return err
		}
	}
	return nil
}

// ours reports whether a file is called as file calls it.
func ours(name string) bool {
	var step int64
	_, err := fmt.Sscanf(name, "step-%d", &step)
	return err == nil && name == file(step)
}

// list is the names of checkpoints, the oldest first. Files of other programs are none.
func (f Folder) list() (names []string, err error) {
	files, err := os.ReadDir(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range files {
		if ours(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// sweep removes half written files, which have the name of a checkpoint between a dot and a number.
func (f Folder) sweep() error {
	files, err := os.ReadDir(f.Path)
	for _, e := range files {
		name, hidden := strings.CutPrefix(e.Name(), ".")
		name, number, half := strings.Cut(name, suffix+"-")
		if _, bad := strconv.ParseUint(number, 10, 64); bad == nil && hidden && half &&
			ours(name+suffix) {
			err = errors.Join(err, os.Remove(filepath.Join(f.Path, e.Name())))
		}
	}
	return err
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
		return nil, nil, fmt.Errorf("%s: no checkpoint is whole: bring one back, or begin anew: %w",
			f.Path, errors.Join(damaged...))
	}
	return nil, nil, fmt.Errorf("%s: no checkpoint to go on from: %w", f.Path, fs.ErrNotExist)
}
