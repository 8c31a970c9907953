package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestPackageOf(t *testing.T) {
	const linker = "(the linker's descriptions of types and functions)"
	for symbol, want := range map[string]string{
		"runtime.mallocgc":                                      "runtime",
		"github.com/weirgpu/weir/op.(*Op).Has":                  "github.com/weirgpu/weir/op",
		"github.com/a/b%2ec.F":                                  "github.com/a/b.c",
		"go.yaml.in/yaml/v3.yaml_parser_scan":                   "go.yaml.in/yaml/v3",
		"slices.SortFunc[go.shape.[]github.com/x/y.Z,int]":      "slices",
		"slices.pdqsort[go.shape.struct { F func(a/b.C) int }]": "slices",
		"main.main":          "main",
		"go:func.*":          linker,
		"type:.eq.[2]string": linker,
	} {
		if got := packageOf(symbol); got != want {
			t.Errorf("%s is of %q, want %q", symbol, got, want)
		}
	}
}

// TestNeeds holds that a file that can open libraries, which takes an interpreter, is not taken
// for a static one, nor the other way round.
func TestNeeds(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("ELF files are Linux's")
	}
	dir := t.TempDir()
	for imports, want := range map[string]string{
		"fmt": "", "github.com/ebitengine/purego": "ld",
	} {
		file := filepath.Join(dir, filepath.Base(imports))
		source := file + ".go"
		text := fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", imports)
		if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		c := exec.Command("go", "build", "-o", file, source)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		got, err := needs(file)
		if err != nil || (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s needs %q (%v), want %q", imports, got, err, want)
		}
		list, err := parts(file, 0)
		if err != nil || len(list) < 5 || list[0].Bytes < list[1].Bytes {
			t.Errorf("%s has parts %v (%v)", imports, list, err)
		}
	}
}
