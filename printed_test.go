package weir_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"regexp"
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
