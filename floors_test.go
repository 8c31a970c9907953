package weir_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/weirgpu/weir"

// column is one of the two stacks of packages that only meet at the top.
type column int

const (
	both    column = iota // the joints, which may import from either column
	engine                // tensors to sessions
	sharing               // who runs when
	beside                // imported by any floor, imports none
)

// floors is the architecture: an import goes to a strictly lower floor of the same column, or to a package beside. A path that
// ends in /... covers what lies under it, at the same floor, for packages that do not import each other.
var floors = []struct {
	path  string
	floor int
	col   column
}{
	{"internal/...", 0, beside},

	{"tensor", 0, engine},
	{"tensor/npy", 1, engine},
	{"kernel/gemm", 0, engine},
	{"kernel/vec", 0, engine},
	{"kernel/conv", 1, engine},
	{"op", 1, engine},
	{"device", 1, engine},
	{"graph", 2, engine},
	{"device/cpu", 2, engine},
	{"pass", 3, engine},
	{"onnx", 3, engine},
	{"plan", 4, engine},
	{"zoo", 4, engine},
	{"conformance/archive", 0, engine},
	{"conformance", 4, engine},
	{"engine", 5, engine},
	{"", 6, engine}, // the library face
	{"examples/digits", 0, engine},

	{"share", 1, sharing},
	{"share/broker", 2, sharing},
	{"share/policy", 2, sharing},
	{"share/sim", 3, sharing},

	{"scenario", 6, both},
	{"scenario/view", 7, both},
	{"scenario/report", 7, both},
	{"cmd/weir", 8, both},
}

// place finds the row of a package.
func place(path string) (floor int, col column, ok bool) {
	for _, f := range floors {
		under, all := strings.CutSuffix(f.path, "/...")
		if f.path == path || all && (path == under || strings.HasPrefix(path, under+"/")) {
			return f.floor, f.col, true
		}
	}
	return 0, 0, false
}

type listed struct {
	ImportPath  string
	Name        string
	Doc         string
	Imports     []string
	CgoFiles    []string
	GoFiles     []string
	TestGoFiles []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Name,Doc,Imports,CgoFiles,GoFiles", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func within(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, module)
	return strings.TrimPrefix(rest, "/"), ok && (rest == "" || rest[0] == '/')
}

// TestFloors holds the architecture against what the packages import.
func TestFloors(t *testing.T) {
	for _, p := range packages(t) {
		own, _ := within(p.ImportPath)
		floor, col, ok := place(own)
		if !ok {
			t.Errorf("package %q has no floor: give it one in the table of this test", own)
			continue
		}
		for _, imp := range p.Imports {
			path, inside := within(imp)
			if !inside {
				continue
			}
			below, other, ok := place(path)
			switch {
			case !ok || other == beside && col != beside:
			case col == beside && other != beside:
				t.Errorf("%s is beside the floors and imports %s", own, path)
			case col != both && other != col:
				t.Errorf("%s imports %s: the engine column and the sharing column never import each other", own, path)
			case below >= floor && other != beside:
				t.Errorf("%s (floor %d) imports %s (floor %d): imports go down only", own, floor, path, below)
			}
		}
	}
}

// TestNoCgo holds that weir is pure Go.
func TestNoCgo(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s uses cgo: %v", p.ImportPath, p.CgoFiles)
		}
	}
}

// TestPackageDocs holds that every package says what it is for, what to meet first, how it may be used from several
// goroutines, and what it refuses.
func TestPackageDocs(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		if p.Doc == "" {
			t.Errorf("%s has no package documentation", p.ImportPath)
		}
	}
}
