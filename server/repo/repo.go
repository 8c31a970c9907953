// Package repo finds the models of a folder that is laid out as NVIDIA's Triton Inference Server
// has it: NAME/VERSION/model.onnx, where versions are whole numbers from 1 on, and, where a model
// has a configuration, NAME/config.pbtxt (triton-inference-server/server,
// docs/user_guide/model_repository.md). [Push] puts a version there.
//
// Meet first: [Scan], and [Model], of which it returns a list.
//
// Concurrency: every function may be called at any time by any number of goroutines.
//
// What it refuses: a folder that cannot be read. What lies in the folder and is no model of this
// layout is passed over, with a reason ([Skipped]): the models beside it must be served. A model
// whose configuration cannot be read has the reason.
package repo

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/sealed"
)

// File is the name of the file that holds a version of a model, where the configuration names no
// other. One that is encrypted at rest has [sealed.Extension] behind it.
const File = "model.onnx"

// Model is a model of the folder.
type Model struct {
	Name   string
	Folder string      // its own
	Config *oip.Config // nil where there is none
	// Labels are those of outputs, by name, from the files that the configuration names.
	Labels map[string][]string
	// Steps is what the model's file of steps has, nil where there is none (package steps).
	Steps []byte
	// Versions are those that the configuration's policy serves, ascending; without one, the
	// newest.
	Versions []Version
	Err      error // why none can be served; nil: they can
}

// Version is a version of a model.
type Version struct {
	Name   string
	Number int64  // from 1 on
	Path   string // of its file, of an ensemble its folder
	Sealed bool   // it is encrypted at rest
	folder string // of its files
	// Mark changes with the files in its folder, the configuration and the labels.
	Mark string
}

// String returns the version as people write it, "NAME/3".
func (v Version) String() string { return v.Name + "/" + strconv.FormatInt(v.Number, 10) }

// Skipped is something in the folder that is passed over, and why.
type Skipped struct {
	Path string
	Why  string
}

// Scan returns the models in the folder, by name. Names are those of folders; names that begin with
// a point are passed over without a word.
func Scan(folder string) ([]Model, []Skipped, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, fmt.Errorf("models: %w", err)
	}
	var found []Model
	var skipped []Skipped
	for _, e := range entries {
		if e.Name()[0] == '.' {
			continue
		}
		m, passed := look(folder, e.Name(), nil, chosen)
		skipped = append(skipped, passed...)
		if len(m.Versions) > 0 || m.Err != nil {
			found = append(found, m)
		}
	}
	return found, skipped, nil
}

// Names returns the names of the folders in the folder that have a version's folder, sorted,
// without a look at what is in that.
func Names(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Name()[0] == '.' {
			continue
		}
		versions, _ := os.ReadDir(filepath.Join(folder, e.Name())) // which may be no folder
		if slices.ContainsFunc(versions, func(v fs.DirEntry) bool {
			_, ok := Number(v.Name())
			return ok
		}) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Find returns a model of the folder as it is now. With a configuration, that is heeded in the
// place of the model's own. The error is of kind fs.ErrNotExist where there is no such model, or it
// has no version.
func Find(folder, name string, config *oip.Config) (Model, error) {
	if err := CheckName(name); err != nil {
		return Model{}, err
	}
	if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
		return Model{}, fmt.Errorf("model %s: %w", name, err)
	}
	m, passed := look(folder, name, config, chosen)
	if len(m.Versions) == 0 && m.Err == nil {
		return m, fmt.Errorf("model %s %s: %w", name, passed[0].Why, fs.ErrNotExist)
	}
	return m, nil
}

// Versions is Find for versions of these numbers, whatever the configuration's policy serves: those
// of them that there are.
func Versions(folder, name string, numbers []int64) (Model, error) {
	if err := CheckName(name); err != nil {
		return Model{}, err
	}
	m, _ := look(folder, name, nil, func(all []Version, _ *oip.Config) ([]Version, error) {
		return slices.DeleteFunc(all, func(v Version) bool {
			return !slices.Contains(numbers, v.Number)
		}), nil
	})
	if len(m.Versions) == 0 && m.Err == nil {
		m.Err = fmt.Errorf("model %s: versions %v: %w", name, numbers, fs.ErrNotExist)
	}
	return m, m.Err
}

// CheckName reports a name that no model of a folder has. The error is of kind fs.ErrNotExist.
func CheckName(name string) error {
	if name == "" || name[0] == '.' || len(name) > 255 || strings.ContainsAny(name, "/\\\x00") ||
		!filepath.IsLocal(name) {
		return fmt.Errorf("model %.300q: it is no name of a folder: %w", name, fs.ErrNotExist)
	}
	return nil
}

// look looks at a model's folder. pick is chosen, or another choice of the versions that there are.
func look(folder, name string, config *oip.Config, pick func([]Version, *oip.Config) ([]Version,
	error)) (m Model, skipped []Skipped) {
	m = Model{Name: name, Folder: filepath.Join(folder, name), Config: config}
	entries, err := os.ReadDir(m.Folder)
	if err != nil {
		return m, []Skipped{{m.Folder, "is no folder of a model: expected NAME/VERSION/" + File}}
	}
	text, err := json.Marshal(config)
	mark := string(text)
	if err != nil {
		panic(err) // it was read from JSON, or from text without NaN
	}
	if config == nil {
		m.Config, mark, m.Err = readConfig(m.Folder)
	}
	if m.Err == nil && m.Config != nil {
		var texts string
		m.Labels, texts, m.Err = m.labels()
		mark += texts
	}
	if m.Err == nil {
		mark += m.readSteps(entries)
	}
	if m.Err != nil {
		return m, nil
	}
	mark = fmt.Sprintf("%x", sha256.Sum256([]byte(mark)))
	for _, e := range entries {
		n, ok := Number(e.Name())
		if !ok {
			continue
		}
		v, why := m.version(n, mark)
		if why != "" {
			skipped = append(skipped, Skipped{filepath.Join(m.Folder, e.Name()), why})
			continue
		}
		m.Versions = append(m.Versions, v)
	}
	switch {
	case len(m.Versions) > 0:
		m.Versions, m.Err = pick(m.Versions, m.Config)
		return m, skipped
	case len(skipped) > 0:
		return m, []Skipped{{m.Folder, skipped[len(skipped)-1].Why}}
	}
	return m, []Skipped{{m.Folder, "has no version: expected a folder such as 1 with " + File +
		" in it"}}
}

// stepsFile is the name of the file of steps beside a model, which package steps reads.
const stepsFile = "steps.yaml"

// readSteps reads the model's file of steps, and returns what changes with it and with the files
// beside it, which it may name.
func (m *Model) readSteps(entries []fs.DirEntry) (mark string) {
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == stepsFile }) {
		return ""
	}
	if m.Steps, m.Err = readFile(filepath.Join(m.Folder, stepsFile), mostConfig); m.Err != nil {
		return ""
	}
	mark = string(m.Steps)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			mark += fmt.Sprint(e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return mark
}

// version is one of a model, or why it is none. That of an ensemble has no file.
func (m *Model) version(n int64, mark string) (v Version, why string) {
	if m.Config != nil && m.Config.EnsembleScheduling != nil {
		return m.ensemble(n, mark)
	}
	file := File
	if m.Config != nil && m.Config.DefaultModelFilename != "" {
		file = m.Config.DefaultModelFilename
	}
	plain := filepath.Join(m.Folder, strconv.FormatInt(n, 10), file)
	closed := plain + sealed.Extension
	_, err := os.Stat(plain)
	_, errClosed := os.Stat(closed)
	v = Version{Name: m.Name, Number: n, Path: plain}
	switch {
	case err == nil && errClosed == nil:
		// the plain one would lie beside the other by mistake
		return v, fmt.Sprintf("version %d has both %s and %s: remove one", n, file,
			filepath.Base(closed))
	case errClosed == nil:
		v.Path, v.Sealed = closed, true
	case err != nil && os.IsNotExist(err):
		return v, fmt.Sprintf("version %d has no %s", n, file)
	case err != nil:
		return v, err.Error()
	}
	v.folder = filepath.Dir(plain)
	v.Mark = mark + v.stamp()
	return v, ""
}

// ensemble is a version of a model that is made of others: its folder, which may be empty.
func (m *Model) ensemble(n int64, mark string) (v Version, why string) {
	v = Version{Name: m.Name, Number: n, Path: filepath.Join(m.Folder, strconv.FormatInt(n, 10))}
	info, err := os.Stat(v.Path)
	if err != nil || !info.IsDir() {
		return v, fmt.Sprintf("version %d of an ensemble is no folder", n)
	}
	v.folder = v.Path
	v.Mark = mark + v.stamp()
	return v, ""
}

// stamp changes with the files of a version: that of the model, and those beside it that have its
// weights.
func (v *Version) stamp() string {
	sum := sha256.New()
	err := filepath.WalkDir(v.folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(path) // of what a link leads to
		if err == nil {
			fmt.Fprintf(sum, "%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	return fmt.Sprintf(" %x %v", sum.Sum(nil), err)
}

// Stale reports whether the files of a version have changed since it was found.
func (v *Version) Stale() bool { return !strings.HasSuffix(v.Mark, v.stamp()) }

// chosen are the versions that a configuration's policy serves, ascending.
func chosen(all []Version, c *oip.Config) ([]Version, error) {
	sorting.By(all, func(a, b Version) int { return cmp.Compare(a.Number, b.Number) })
	latest := int64(1)
	switch {
	case c == nil:
	case c.VersionPolicy.All != nil:
		return all, nil
	case c.VersionPolicy.Specific != nil:
		want := c.VersionPolicy.Specific.Versions
		some := slices.DeleteFunc(all, func(v Version) bool {
			return !slices.Contains(want, v.Number)
		})
		if len(some) == 0 {
			return nil, fmt.Errorf("version_policy: none of the versions %v is in the folder", want)
		}
		return some, nil
	case c.VersionPolicy.Latest != nil:
		latest = max(c.VersionPolicy.Latest.NumVersions, 1)
	}
	return all[max(0, int64(len(all))-latest):], nil
}

// Number reads a version's name: a whole number from 1 on, written as it is printed.
func Number(name string) (int64, bool) {
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n > 0 && strconv.FormatInt(n, 10) == name
}
