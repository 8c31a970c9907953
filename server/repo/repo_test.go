package repo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lay puts files into a folder, which are the paths before a "=" with the text behind it.
func lay(t *testing.T, files ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, f := range files {
		path, text, _ := strings.Cut(f, "=")
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// numbers are those of versions, with an S where one is encrypted.
func numbers(m Model) string {
	var list []string
	for _, v := range m.Versions {
		text := fmt.Sprint(v.Number)
		if v.Sealed {
			text += "S"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// TestScan: the versions that each model's policy serves are found, and the rest is passed over
// with a reason.
func TestScan(t *testing.T) {
	folder := lay(t, "a/1/model.onnx", "a/10/model.onnx", "a/9/model.onnx", "a/011/model.onnx",
		"b/1/other.onnx", "c/none/model.onnx", ".git/1/model.onnx", "file", "d/3/model.onnx",
		"d/config.pbtxt", "e/-1/model.onnx", "s/1/model.onnx.age", "t/1/model.onnx.age",
		"t/1/model.onnx", "f/1/model.onnx", "f/2/other.onnx",
		"g/2/x.onnx", "g/1/x.onnx", "g/3/x.onnx",
		`g/config.pbtxt=default_model_filename: "x.onnx" version_policy { latest { num_versions: 2 } }`,
		"h/2/model.onnx", "h/1/model.onnx", "h/config.pbtxt=version_policy: { all {} }",
		"i/2/model.onnx", "i/1/model.onnx", "i/7/model.onnx",
		"i/config.pbtxt=version_policy { specific { versions: [7, 1, 8] } }",
		"j/1/model.onnx", "j/config.pbtxt=version_policy { specific { versions: 2 } }",
		"k/1/model.onnx", "k/config.pbtxt=nonsense: 1")
	found, skipped, err := Scan(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range found {
		text := m.Name + ": " + numbers(m)
		if m.Err != nil {
			text = m.Name + " fails: " + m.Err.Error()
		}
		got = append(got, text)
		for _, v := range m.Versions {
			if _, err := os.Stat(v.Path); err != nil || v.Stale() || v.Name != m.Name {
				t.Errorf("%v: %+v (%v)", m.Name, v, err)
			}
		}
	}
	want := []string{"a: 10", "d: 3", "f: 1", "g: 2 3", "h: 1 2", "i: 1 7",
		"j fails: version_policy: none of the versions [2] is in the folder",
		`k fails: config.pbtxt: line 1: there is no key "nonsense" here`, "s: 1S"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	var names []string
	for _, s := range skipped {
		if s.Why == "" {
			t.Errorf("%s is passed over without a reason", s.Path)
		}
		rel, _ := filepath.Rel(folder, s.Path)
		names = append(names, filepath.ToSlash(rel))
	}
	if want := []string{"b", "c", "e", "f/2", "file", "t"}; !slices.Equal(names, want) {
		t.Errorf("passed over %v, want %v", names, want)
	}
	if _, _, err := Scan(filepath.Join(folder, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent folder: %v", err)
	}
}

// TestFind: a model is found as it is now, and nothing outside of the folder.
func TestFind(t *testing.T) {
	folder := lay(t, "m/1/model.onnx", "m/2/model.onnx", "empty/x")
	m, err := Find(folder, "m", nil)
	if err != nil || numbers(m) != "2" {
		t.Errorf("%+v (%v)", m, err)
	}
	was := m.Versions[0]
	if err := os.WriteFile(was.Path, []byte("more"), 0o600); err != nil {
		t.Fatal(err)
	}
	now, err := Find(folder, "m", nil)
	if err != nil || now.Versions[0].Mark == was.Mark || !was.Stale() || now.Versions[0].Stale() {
		t.Errorf("after a change: mark %s, before %s (%v)", now.Versions[0].Mark, was.Mark, err)
	}
	was = now.Versions[0]
	weights := filepath.Join(filepath.Dir(was.Path), "weights.bin")
	if err := os.WriteFile(weights, []byte("w"), 0o600); err != nil {
		t.Fatal(err)
	}
	now, err = Find(folder, "m", nil)
	if err != nil || now.Versions[0].Mark == was.Mark || !was.Stale() || now.Versions[0].Stale() {
		t.Errorf("after a change beside it: mark %s, before %s (%v)", now.Versions[0].Mark,
			was.Mark, err)
	}
	for _, name := range []string{"", ".", "..", "../m", "m/1", "a/../m", "empty", "absent", ".m",
		strings.Repeat("x", 256), "a\\b", "a\x00"} {
		if _, err := Find(folder, name, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestLabels: labels are read from beside the model, and from nowhere else.
func TestLabels(t *testing.T) {
	for file, want := range map[string]string{"labels.txt": "", "../../secret": "not in the folder",
		"link": "escapes", "no.txt": "no such"} {
		folder := lay(t, "models/m/1/model.onnx", "models/m/labels.txt=zero\r\none\n", "secret=x",
			`models/m/config.pbtxt=output { name: "y" label_filename: "`+file+`" }`)
		models := filepath.Join(folder, "models")
		if err := os.Symlink("../../secret", filepath.Join(models, "m", "link")); err != nil {
			t.Skip(err)
		}
		m, err := Find(models, "m", nil)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if m.Err != nil || !slices.Equal(m.Labels["y"], []string{"zero", "one"}) {
				t.Errorf("%s: %q (%v)", file, m.Labels, m.Err)
			}
		} else if m.Err == nil || !strings.Contains(m.Err.Error(), want) {
			t.Errorf("%s: %v", file, m.Err)
		}
	}
}

// TestEnsembleFolder: a version of an ensemble is a folder that may be empty, and one that has none
// says so.
func TestEnsembleFolder(t *testing.T) {
	folder := t.TempDir()
	for path, text := range map[string]string{"e/" + ConfigFile: `platform: "ensemble" ` +
		`ensemble_scheduling { step { model_name: "m" } }`, "f/" + ConfigFile: `platform: ` +
		`"ensemble" ensemble_scheduling { }`, "f/1": ""} {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "e", "2"), 0o700); err != nil {
		t.Fatal(err)
	}
	found, skipped, err := Scan(folder)
	if err != nil || len(found) != 1 || len(found[0].Versions) != 1 ||
		found[0].Versions[0].String() != "e/2" || found[0].Versions[0].Stale() {
		t.Errorf("found %+v (%v)", found, err)
	}
	if len(skipped) != 1 || skipped[0].Why != "version 1 of an ensemble is no folder" {
		t.Errorf("passed over %+v", skipped)
	}
}
