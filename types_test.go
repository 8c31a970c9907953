package weir_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir/internal/floors"
)

// unit is what go list tells of a package, or of one with its tests, as the types of it are
// checked: GoFiles are those that belong to the system asked for.
type unit struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	SFiles     []string
	ImportMap  map[string]string
}

// TestTypesElsewhere checks the types of all packages as other processors have them, those of their
// tests too where int has 64 bits, without compiling anything: a compiler for another architecture
// makes the whole standard library anew, which takes ten times as long. Packages whose files differ
// on arm64 are built by the script check.
func TestTypesElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("the same whatever instructions there are")
	}
	files := &parsed{fset: token.NewFileSet()}
	for arch, args := range map[string][]string{"arm64": {"-test"}, "arm": nil, "386": nil} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			checkTypes(t, files, arch, args)
		})
	}
}

// compilers are the flags of compilers in GOFLAGS. They change no types, and for each package of
// each test the go command would try all their patterns.
var compilers = regexp.MustCompile(`'-gcflags=[^']*'|-gcflags=\S*`)

// checkTypes checks what go list with the given flags tells of a processor's packages.
func checkTypes(t *testing.T, files *parsed, arch string, flags []string) {
	list := exec.Command("go", slices.Concat([]string{"list", "-deps",
		"-json=ImportPath,Name,Dir,GoFiles,SFiles,ImportMap"}, flags, []string{"./..."})...)
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0",
		"GOFLAGS="+compilers.ReplaceAllString(os.Getenv("GOFLAGS"), ""))
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	units := decodeUnits(t, out)
	c := checker{arch: arch, files: files,
		done: map[string]*types.Package{"unsafe": types.Unsafe}}
	own := 0
	for i := range units {
		whole := units[i].whole(units)
		if whole {
			own++
		}
		if err := c.check(units[i], whole); err != nil {
			t.Error(err)
		}
	}
	if own < len(floors.Table) {
		t.Errorf("only %d packages of weir's were checked", own)
	}
}

// decodeUnits reads what go list tells, without programs of tests.
func decodeUnits(t *testing.T, out []byte) (units []unit) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var u unit
		if err := d.Decode(&u); errors.Is(err, io.EOF) {
			return units
		} else if err != nil {
			t.Fatal(err)
		}
		if u.Name == "main" && strings.HasSuffix(u.ImportPath, ".test") || u.Name == "unsafe" {
			continue
		}
		units = append(units, u)
	}
}

// whole reports whether the functions of a unit are to be checked: those of weir's packages, with
// their tests where they are asked for, each once. What is compiled once more for the tests of a
// package that it imports has nothing new.
func (u *unit) whole(units []unit) bool {
	path, by, again := strings.Cut(u.ImportPath, " ")
	if _, own := floors.Within(path); !own {
		return false
	}
	tested := func(path string) string {
		path = strings.TrimSuffix(path, "_test")
		return " [" + path + ".test]"
	}
	if again {
		return " "+by == tested(path)
	}
	return !slices.ContainsFunc(units, func(v unit) bool {
		return v.ImportPath == path+tested(path)
	})
}

// parsed are files, which are parsed once for all processors.
type parsed struct {
	fset *token.FileSet
	all  sync.Map // by path: func() (*ast.File, error)
}

func (p *parsed) parse(path string) (*ast.File, error) {
	f, _ := p.all.LoadOrStore(path, sync.OnceValues(func() (*ast.File, error) {
		return parser.ParseFile(p.fset, path, nil, parser.SkipObjectResolution)
	}))
	return f.(func() (*ast.File, error))()
}

// checker checks packages one after another, each after those that it imports.
type checker struct {
	arch  string
	files *parsed
	done  map[string]*types.Package // by the path that go list gives them
}

// check checks a package, its functions too if it is asked for whole.
func (c *checker) check(u unit, whole bool) error {
	var files []*ast.File
	for _, name := range u.GoFiles {
		f, err := c.files.parse(filepath.Join(u.Dir, name))
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	var all []error
	config := types.Config{
		IgnoreFuncBodies: !whole,
		Sizes:            types.SizesFor("gc", c.arch),
		Importer: importer(func(path string) (*types.Package, error) {
			if to, ok := u.ImportMap[path]; ok {
				path = to
			}
			if p := c.done[path]; p != nil {
				return p, nil
			}
			return nil, fmt.Errorf("go list does not tell of %s before %s", path, u.ImportPath)
		}),
		Error: func(err error) { all = append(all, err) },
	}
	path, _, _ := strings.Cut(u.ImportPath, " ")
	p, _ := config.Check(path, c.files.fset, files, nil) // the error is the first of all
	c.done[u.ImportPath] = p
	if whole && len(u.SFiles) == 0 {
		all = append(all, c.bodies(files)...)
	}
	return errors.Join(all...)
}

// bodies finds the functions that only assembly could define.
func (c *checker) bodies(files []*ast.File) (missing []error) {
	for _, f := range files {
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body == nil {
				missing = append(missing, fmt.Errorf("%s: no body of %s, and no assembly",
					c.files.fset.Position(f.Pos()), f.Name))
			}
		}
	}
	return missing
}

// importer is a function that finds imported packages.
type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
