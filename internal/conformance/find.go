package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNoCases is the kind of error when a path holds no test case.
var ErrNoCases = errors.New("no test cases")

// Tolerances of the ONNX project's runner (onnx/backend/test/loader).
const (
	DefaultRTol = 1e-3
	DefaultATol = 1e-7
)

// Case is one model with the results that it must give.
type Case struct {
	Name       string // path below the folder that was searched, with slashes
	Set        string // name of the folder that holds the case, such as "node" or "light"
	Model      string // path of the model file
	Sets       []Set
	RTol, ATol float64
}

// Set is one run: files of inputs and expected outputs in the order of the model, each with one
// TensorProto, SequenceProto, OptionalProto or MapProto.
type Set struct {
	Inputs  []string
	Outputs []string
	// Ramp makes the inputs instead: element i of n is i/n, as the ONNX project does for its light
	// cases.
	Ramp bool
}

// Find returns the cases in and below the given folders, sorted by name. It fails with [ErrNoCases]
// when a path holds none.
func Find(paths ...string) ([]*Case, error) {
	var all []*Case
	for _, root := range paths {
		before := len(all)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".onnx") || d.IsDir() {
				return err
			}
			c, err := load(root, path)
			if c != nil {
				all = append(all, c)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(all) == before {
			return nil, fmt.Errorf("%s: %w: want folders with model.onnx and test_data_set_0", root,
				ErrNoCases)
		}
	}
	slices.SortFunc(all, func(a, b *Case) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Edition names a set of cases, sorted by name: eight hexadecimal digits of the SHA-256 of their
// names. Releases of ONNX have different ones.
func Edition(cases []*Case) string {
	h := sha256.New()
	for _, c := range cases {
		fmt.Fprintln(h, c.Name)
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// load describes the case of a model file, nil when it is not one.
func load(root, model string) (*Case, error) {
	dir := filepath.Dir(model)
	c := &Case{Model: model, RTol: DefaultRTol, ATol: DefaultATol}
	if filepath.Base(model) != "model.onnx" {
		return c.light(root)
	}
	c.Name, c.Set = name(root, dir), setOf(dir)
	sets, err := filepath.Glob(filepath.Join(escape(dir), "test_data_set_*"))
	if err != nil || len(sets) == 0 {
		return nil, err
	}
	slices.SortFunc(sets, byNumber)
	for _, s := range sets {
		set := Set{}
		if set.Inputs, err = numbered(s, "input_"); err != nil {
			return nil, err
		}
		if set.Outputs, err = numbered(s, "output_"); err != nil {
			return nil, err
		}
		c.Sets = append(c.Sets, set)
	}
	return c, c.overrides(filepath.Join(dir, "data.json"))
}

// lightRTol lists the light cases whose tolerance differs (onnx/backend/test/case/model).
var lightRTol = map[string]float64{"light_densenet121": 2e-3}

func (c *Case) light(root string) (*Case, error) {
	stem := strings.TrimSuffix(c.Model, ".onnx")
	set := Set{Ramp: true}
	for {
		out := fmt.Sprintf("%s_output_%d.pb", stem, len(set.Outputs))
		if _, err := os.Stat(out); err != nil {
			break
		}
		set.Outputs = append(set.Outputs, out)
	}
	if len(set.Outputs) == 0 {
		return nil, nil
	}
	c.Name, c.Set, c.Sets = name(root, stem), setOf(stem), []Set{set}
	if r, ok := lightRTol[filepath.Base(stem)]; ok {
		c.RTol = r
	}
	return c, nil
}

// overrides reads the tolerances that a case states itself.
func (c *Case) overrides(path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	own := struct {
		RTol *float64 `json:"rtol"`
		ATol *float64 `json:"atol"`
	}{}
	if err := json.Unmarshal(b, &own); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if own.RTol != nil {
		c.RTol = *own.RTol
	}
	if own.ATol != nil {
		c.ATol = *own.ATol
	}
	return nil
}

// name is the path below root, or the last part of it for root itself.
func name(root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == "." {
		rel = filepath.Base(filepath.Clean(path))
	}
	return filepath.ToSlash(rel)
}

// setOf is the name of the folder that holds a case.
func setOf(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Base(filepath.Dir(path))
}

// escape quotes a folder name for Glob.
func escape(s string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// numbered returns the files PREFIX0.pb, PREFIX1.pb, ... of a folder in the order of their numbers,
// which must have no gap.
func numbered(dir, prefix string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(escape(dir), prefix+"*.pb"))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, byNumber)
	for i, f := range files {
		if want := prefix + strconv.Itoa(i) + ".pb"; filepath.Base(f) != want {
			return nil, fmt.Errorf("%s: has %s where %s is due", dir, filepath.Base(f), want)
		}
	}
	return files, nil
}

// byNumber orders names by the number at their end.
func byNumber(a, b string) int { return number(a) - number(b) }

func number(path string) int {
	base := strings.TrimSuffix(filepath.Base(path), ".pb")
	n, _ := strconv.Atoi(base[strings.LastIndexByte(base, '_')+1:])
	return n
}
