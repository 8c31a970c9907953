package weir_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir/internal/floors"
)

// listed is what go list tells of a package.
type listed struct {
	ImportPath string
	Doc        string
	Imports    []string
	CgoFiles   []string
	GoFiles    []string
}

// architectures are those that packages have files of their own for.
var architectures = []string{"amd64", "arm64"}

// packages are those of each architecture.
var packages = sync.OnceValues(func() (all []listed, err error) {
	for _, arch := range architectures {
		list := goCommand("list", "-json=ImportPath,Doc,Imports,CgoFiles,GoFiles", "./...")
		list.Env = append(list.Env, "GOARCH="+arch)
		out, err := list.Output()
		if err != nil {
			return nil, err
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p listed
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	return all, nil
})

func eachPackage(t *testing.T, f func(p listed)) {
	t.Helper()
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < len(architectures)*len(floors.Table)/2 {
		t.Fatalf("go list tells of %d packages only", len(all))
	}
	for _, p := range all {
		f(p)
	}
}

// TestFloors holds the architecture against what the packages import on each architecture.
func TestFloors(t *testing.T) {
	eachPackage(t, func(p listed) {
		own, _ := floors.Within(p.ImportPath)
		if _, ok := floors.Of(own); !ok {
			t.Errorf("package %q has no floor: give it a row in internal/floors", own)
			return
		}
		for _, imp := range p.Imports {
			if to, inside := floors.Within(imp); inside {
				if err := floors.Allowed(own, to); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestFloorsRefuse holds that the table would catch a wrong import.
func TestFloorsRefuse(t *testing.T) {
	for _, c := range []struct {
		from, to string
		allowed  bool
	}{
		{"graph", "internal/op", true}, {"internal/op", "graph", false}, {"plan", "share", false},
		{"share/broker", "device", false},
		{"scenario", "share/broker", true}, {"scenario", "engine", true},
		{"device/cpu", "internal/cpuinfo", true},
		{"internal/clock", "tensor", false}, {"internal/pass", "onnx", false},
		{"nowhere", "internal/op", false},
	} {
		if err := floors.Allowed(c.from, c.to); (err == nil) != c.allowed {
			t.Errorf("%s importing %s: allowed %v, got %v", c.from, c.to, c.allowed, err)
		}
	}
}

// TestLibraryLeavesOutPages holds that a program which imports weir has no templates in it, which
// take room and start-up time, nor a web server: what draws pages stands beside the library.
func TestLibraryLeavesOutPages(t *testing.T) {
	imports := map[string][]string{}
	eachPackage(t, func(p listed) {
		imports[p.ImportPath] = append(imports[p.ImportPath], p.Imports...)
	})
	seen := map[string]bool{}
	for todo := []string{floors.Module}; len(todo) > 0; todo = todo[1:] {
		for _, imp := range imports[todo[0]] {
			switch {
			case imp == "html/template" || imp == "text/template" || imp == "net/http":
				t.Errorf("%s, which weir needs, imports %s", todo[0], imp)
			case !seen[imp]:
				seen[imp] = true
				todo = append(todo, imp)
			}
		}
	}
	if !seen[floors.Module+"/graph"] {
		t.Error("the imports do not lead to graph")
	}
}

// TestNoCgo holds that weir is pure Go.
func TestNoCgo(t *testing.T) {
	eachPackage(t, func(p listed) {
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s uses cgo: %v", p.ImportPath, p.CgoFiles)
		}
	})
}

// TestPackageDocs holds that every package says what it is for.
func TestPackageDocs(t *testing.T) {
	eachPackage(t, func(p listed) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package documentation", p.ImportPath)
		}
	})
}

// TestFloorsPicture holds that the picture in the README is the one that the table gives.
func TestFloorsPicture(t *testing.T) {
	want, err := goCommand("run", "./internal/floors/draw").Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("docs/floors.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(want)) ||
		!strings.Contains(string(got), "<svg") {
		t.Error(
			"docs/floors.svg is not what the table gives: go run ./internal/floors/draw > " +
				"docs/floors.svg",
		)
	}
}
