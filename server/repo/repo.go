// Package repo finds the models of a folder that is laid out as NVIDIA's Triton Inference Server
// has it: NAME/VERSION/model.onnx, where versions are whole numbers from 1 on
// (triton-inference-server/server, docs/user_guide/model_repository.md).
//
// Meet first: [Scan], and [Version], of which it returns a list.
//
// Concurrency: Scan may be called at any time by any number of goroutines.
//
// What it refuses: a folder that cannot be read. What lies in the folder and is no model of this
// layout is passed over, with a reason ([Skipped]): the models beside it must be served.
package repo

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/weirgpu/weir/server/sealed"
)

// File is the name of the file that holds a version of a model. One that is encrypted at rest has
// [sealed.Extension] behind it.
const File = "model.onnx"

// Version is a version of a model.
type Version struct {
	Name   string
	Number int64  // from 1 on
	Path   string // of its file
	Sealed bool   // it is encrypted at rest
}

// String returns the version as people write it, "NAME/3".
func (v Version) String() string { return v.Name + "/" + strconv.FormatInt(v.Number, 10) }

// Skipped is something in the folder that is passed over, and why.
type Skipped struct {
	Path string
	Why  string
}

// Scan returns the newest version of each model in the folder, by name. Names are those of folders;
// names that begin with a point are passed over without a word.
func Scan(folder string) ([]Version, []Skipped, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, fmt.Errorf("models: %w", err)
	}
	var found []Version
	var skipped []Skipped
	for _, e := range entries {
		if e.Name()[0] == '.' {
			continue
		}
		path := filepath.Join(folder, e.Name())
		v, why := newest(path)
		if why != "" {
			skipped = append(skipped, Skipped{path, why})
			continue
		}
		v.Name = e.Name()
		found = append(found, v)
	}
	return found, skipped, nil
}

// newest returns the newest version in the folder of a model, or why there is none.
func newest(folder string) (v Version, why string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return v, "is no folder of a model: expected NAME/VERSION/" + File
	}
	var numbers []int64
	for _, e := range entries {
		if n, ok := number(e.Name()); ok {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return v, "has no version: expected a folder such as 1 with " + File + " in it"
	}
	v.Number = slices.MaxFunc(numbers, cmp.Compare[int64])
	plain := filepath.Join(folder, strconv.FormatInt(v.Number, 10), File)
	closed := plain + sealed.Extension
	_, err = os.Stat(plain)
	_, errClosed := os.Stat(closed)
	switch {
	case err == nil && errClosed == nil:
		// the plain one would lie beside the other by mistake
		return v, fmt.Sprintf("version %d has both %s and %s: remove one", v.Number, File,
			filepath.Base(closed))
	case err == nil:
		v.Path = plain
	case errClosed == nil:
		v.Path, v.Sealed = closed, true
	case errors.Is(err, fs.ErrNotExist):
		return v, fmt.Sprintf("version %d has no %s", v.Number, File)
	default:
		return v, err.Error()
	}
	return v, ""
}

// number reads a version's name: a whole number from 1 on, written as it is printed.
func number(name string) (int64, bool) {
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n > 0 && strconv.FormatInt(n, 10) == name
}
