package weir_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/floors"
)

// TestPrintedGo holds that the programs which README and the package's documentation print compile
// as they are printed, but for errors and variables that they leave to the reader.
func TestPrintedGo(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(
		string(readme), -1) {
		blocks = append(blocks, m[1])
	}
	doc, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	blocks = append(blocks, codeOf(doc.Doc)...)
	if len(blocks) != 4 {
		t.Fatalf("%d programs are printed, want 4: %q", len(blocks), blocks)
	}
	imports := exported(t)
	for _, block := range blocks {
		program := "package printed\nimport (\"context\"; \"" + floors.Module + "\")\n" +
			"func printed(ctx context.Context, m *weir.Model, pixels []float32) error {\n" +
			"\tvar err error\n_ = err\n{\n" +
			strings.ReplaceAll(block, "{ ... }", "{ return err }") + "}\nreturn nil\n}\n"
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "printed.go", program, 0)
		if err != nil {
			t.Errorf("%v in\n%s", err, block)
			continue
		}
		check := types.Config{Importer: imports, Error: func(err error) {
			var e types.Error
			if !errors.As(err, &e) || !e.Soft { // a soft one: a variable that nobody uses
				t.Errorf("%v in\n%s", err, block)
			}
		}}
		_, _ = check.Check("printed", files, []*ast.File{file}, nil) // Error was told of all
	}
}

// codeOf returns the blocks of code of a package's documentation.
func codeOf(doc *ast.CommentGroup) []string {
	var blocks []string
	in := false
	for line := range strings.Lines(doc.Text()) {
		code, is := strings.CutPrefix(line, "\t")
		if is && !in {
			blocks = append(blocks, "")
		}
		if in = is; is {
			blocks[len(blocks)-1] += code
		}
	}
	return blocks
}

// TestNamedTests holds that the tests which the documentation names are there, in the package that
// is named with them: a promise without its test would be a claim.
func TestNamedTests(t *testing.T) {
	declared := map[string][]string{} // the folders of each
	functions := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range functions.FindAllStringSubmatch(string(text), -1) {
			declared[m[1]] = append(declared[m[1]], filepath.ToSlash(filepath.Dir(path)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`(Test[A-Z]\\w*)`").FindAllSubmatch(text, -1) {
			if n++; declared[string(m[1])] == nil {
				t.Errorf("%s names %s, which there is not", page, m[1])
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d names found", n)
	}
	stability, err := os.ReadFile("docs/stability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(stability), "## What a program can rely on")
	table, _, _ = strings.Cut(table, "\nA test without a package")
	for row := range strings.Lines(table) {
		for _, problem := range unheld(row, declared) {
			t.Error(problem)
		}
	}
}

// unheld says which tests of a row of the table are not where it says. The groups of its second
// cell, "`TestA` and `TestB` in folder; `TestC`", are of the root where they name no folder.
func unheld(row string, declared map[string][]string) []string {
	_, cell, found := strings.Cut(row, " | ")
	if !found {
		return nil
	}
	var problems []string
	for group := range strings.SplitSeq(cell, ";") {
		folder := "."
		if m := regexp.MustCompile("` in ([\\w/]+)").FindStringSubmatch(group); m != nil {
			folder = m[1]
		}
		for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(group, -1) {
			if !slices.Contains(declared[m[1]], folder) {
				problems = append(problems, m[1]+" is not in the package "+folder)
			}
		}
	}
	return problems
}
