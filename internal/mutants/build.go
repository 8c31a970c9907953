package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Target is code that is changed and whose tests have to notice.
type Target struct {
	Name     string
	Packages []string // below the module's root
	Files    []string // patterns of base names; none for all
	// Tests are the packages whose tests run, below the module's root, until one of them fails.
	Tests []string
}

// Targets are what a run changes, each by an equal share of the mutants.
var Targets = []Target{
	{"op", []string{"internal/op", "internal/op/ml", "internal/op/microsoft"}, nil,
		[]string{"internal/op", "internal/op/ml", "internal/op/microsoft", "grad",
			"device/cpu/kernels", "internal/pass", "plan", "onnx"}},
	{"pass", []string{"internal/pass"}, nil, []string{"internal/pass", "plan", "engine", "",
		"internal/conformance"}},
	{"plan", []string{"plan"}, nil, []string{"plan", "engine", "plan/cache",
		"device/far", "", "internal/conformance", "scenario"}},
	{"device/cpu", []string{"device/cpu", "device/cpu/kernels"}, nil, []string{"device/cpu",
		"device/cpu/kernels", "plan", "engine", "", "internal/conformance"}},
	{"grad", []string{"grad"}, nil, []string{"grad", "onnx", "plan",
		"engine", ""}},
	{"references", []string{"internal/kernel/attention", "internal/kernel/conv",
		"internal/kernel/forest", "internal/kernel/gemm", "internal/kernel/nbits",
		"internal/kernel/vec"}, []string{"*_ref.go", "reference.go", "walk.go"},
		[]string{"internal/kernel/vec", "internal/kernel/gemm", "internal/kernel/conv",
			"internal/kernel/attention", "internal/kernel/nbits", "internal/kernel/forest",
			"device/cpu/kernels"}},
}

// listed is what go list tells of a package.
type listed struct {
	ImportPath, Name, Dir, Export string
	GoFiles                       []string
}

// list describes packages, and what they import too when deps is true, with their export data.
func list(ctx context.Context, deps bool, paths ...string) (map[string]*listed, error) {
	args := []string{"list", "-json=ImportPath,Name,Dir,Export,GoFiles"}
	if deps {
		args = append(args, "-deps", "-export")
	}
	out, err := command(ctx, append(args, paths...)...)
	if err != nil {
		return nil, err
	}
	all := map[string]*listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &listed{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
}

// command runs the go command and returns its output.
func command(ctx context.Context, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, "go", args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// exports imports packages from the export data that go list names.
func exports(all map[string]*listed) types.Importer {
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		p := all[path]
		if p == nil {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(p.Export)
	})
}

// build writes the changed files and builds the tests of the given packages of them, into dir. It
// returns the test binaries by the package's path below the module.
func build(ctx context.Context, m *module, dir string, sources []*Source, tests []string) (
	map[string]string, error,
) {
	replace := map[string]string{}
	for i, s := range sources {
		for k, f := range s.files {
			text, spans := s.changed(f)
			if len(spans) == 0 {
				continue
			}
			to := filepath.Join(dir, fmt.Sprintf("%d_%d.go", i, k))
			replace[f.path] = to
			if err := os.WriteFile(to, text, 0o600); err != nil {
				return nil, err
			}
		}
		to := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		replace[filepath.Join(filepath.Dir(s.files[0].path), "mutant__.go")] = to
		if err := os.WriteFile(to, fmt.Appendf(nil, chooser, s.name), 0o600); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return link(ctx, m, dir, file, tests)
}

// link builds the tests of the packages with the files that an overlay replaces.
func link(ctx context.Context, m *module, dir, overlay string, tests []string) (
	map[string]string, error,
) {
	binaries := map[string]string{}
	for i, t := range tests {
		binaries[t] = filepath.Join(dir, fmt.Sprintf("%d.test", i))
		_, err := command(ctx, "test", "-c", "-vet=off", "-overlay", overlay, "-o", binaries[t],
			m.importPath(t))
		if err != nil {
			return nil, err
		}
	}
	return binaries, nil
}

// module is the module that the run is about.
type module struct{ path, root string }

func thisModule(ctx context.Context) (*module, error) {
	out, err := command(ctx, "list", "-m", "-f", "{{.Path}}\n{{.Dir}}")
	if err != nil {
		return nil, err
	}
	path, root, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return &module{path, root}, nil
}

func (m *module) importPath(pkg string) string {
	return strings.TrimSuffix(m.path+"/"+pkg, "/")
}
