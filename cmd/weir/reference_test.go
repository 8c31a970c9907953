package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/scenario"
)

var update = flag.Bool("update", false, "write docs/reference.md")

const root = "../.."

// TestReference holds docs/reference.md against the code that it is made of.
func TestReference(t *testing.T) {
	path := filepath.Join(root, "docs", "reference.md")
	want := reference(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the code says (%v): go test ./cmd/weir -run TestReference -update",
			path, err)
	}
}

// reference makes the page.
func reference(t *testing.T) string {
	var b strings.Builder
	b.WriteString("# Reference\n\nMade of the code by " +
		"`go test ./cmd/weir -run TestReference -update`. `weir man DIR` writes\nthe same as man " +
		"pages.\n")
	heading := func(title string) { fmt.Fprintf(&b, "\n## %s\n\n", title) }
	list := func(terms []topic) {
		for _, x := range terms {
			text := terminal.Wrap(fmt.Sprintf("- `%s`: %s", x.word, x.means), 98)
			b.WriteString(strings.ReplaceAll(text, "\n", "\n  ") + "\n")
		}
	}
	heading("Exit codes")
	list(exitCodes)
	heading("Environment")
	list(environment)
	heading("Keys of a scenario")
	b.WriteString("Sizes have a unit (`512MiB`, `8G`), durations too (`20s`).\n\n")
	docs := fieldDocs(t)
	for _, s := range []struct{ of, typ, under string }{{"file", "Scenario", ""},
		{"fileJob", "Job", "jobs."}, {"fileMemory", "fileMemory", "jobs.memory."},
		{"fileArrival", "Arrival", "jobs.arrival."},
		{"fileKernel", "Kernel", "jobs.kernel."}} {
		var terms []topic
		for _, key := range docs["file "+s.of] {
			name, field := key.word, key.means
			if field == "QoS" {
				field = "Target" // which the file calls as the literature does
			}
			what := docs.of(field, s.typ, "Work", "Share")
			if what == "" {
				t.Errorf("scenario key %s%s is not described", s.under, name)
			}
			terms = append(terms, topic{s.under + name, what})
		}
		list(terms)
	}
	heading("Keys of the file of weir up")
	b.WriteString("Each sets the flag that is named, below. `models` is a list of keys for " +
		"models.\n\n")
	list(fileTopics())
	tree, fields := documented(), fieldsOf{}
	heading("Commands")
	if err := eachCommand(tree, func(c *cobra.Command) error {
		if c.HasParent() && c.Runnable() && !strings.HasPrefix(c.CommandPath(), "weir completion") {
			fmt.Fprintf(&b, "### %s\n\n", c.CommandPath())
			text := c.Short + ". `" + c.UseLine() + "`"
			b.WriteString(terminal.Wrap(text, 98) + "\n\n")
			c.InitDefaultHelpFlag()
			list(slices.DeleteFunc(flagTerms(c), func(x topic) bool {
				return strings.HasSuffix(x.word, "--help")
			}))
			if c.Flags().Lookup("json") != nil {
				if first := sameFields(c.CommandPath()); first != c.CommandPath() {
					fmt.Fprintf(&b, "\nFields of `--json`: those of `%s`.\n", first)
				} else {
					b.WriteString("\nFields of `--json`:\n\n")
					list(fields.printedBy(t, c.CommandPath()))
				}
			}
			b.WriteString("\n")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// fileTopics are the keys of weir up's file.
func fileTopics() (list []topic) {
	for _, k := range fileKeys {
		list = append(list, topic{k.key, "--" + k.flag})
	}
	return append(list, modelTopics...)
}

// modelTopics are the keys that say what a model is to have.
var modelTopics = []topic{
	{"models.name", "the model's"},
	{"models.share", "its share of the device: memory, a hard cap; compute and limit, of the " +
		"device from 0 to 1; class, latency, standard or opportunistic"},
}

// documented is the tree of commands as it runs.
func documented() *cobra.Command {
	c := newRoot()
	addCompletion(c)
	return c
}

// docsOf are the fields of types with what is said of them: of "file T" the keys in order.
type docsOf map[string][]topic

func (d docsOf) of(field string, types ...string) string {
	for _, typ := range types {
		for _, x := range d[typ] {
			if x.word == field {
				return x.means
			}
		}
	}
	return ""
}

// fieldDocs reads the types of a scenario.
func fieldDocs(t *testing.T) docsOf {
	d := docsOf{}
	files := []string{"scenario/config.go", "scenario/parse.go", "share/job.go"}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil,
			parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				d.add(spec.Name.Name, s)
			}
			return true
		})
	}
	return d
}

// add takes the fields of a type; those that are told of together have one comment.
func (d docsOf) add(typ string, s *ast.StructType) {
	for _, field := range s.Fields.List {
		text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
		text = strings.NewReplacer("[AllPolicies]", scenario.AllPolicies, "[Simulate]",
			"weir simulate").Replace(text)
		for _, name := range field.Names {
			if strings.HasPrefix(typ, "file") {
				file := "file " + typ
				d[file] = append(d[file], topic{strings.ToLower(name.Name), name.Name})
			}
			d[typ] = append(d[typ], topic{name.Name, text})
		}
	}
}

// TestEnvironmentIsListed holds that the reference has every variable which the program, its
// library for exec or the simulated driver reads, and none that nothing reads.
func TestEnvironmentIsListed(t *testing.T) {
	read := variablesRead(t)
	for name, where := range read {
		if !slices.ContainsFunc(environment, func(x topic) bool { return covers(x.word, name) }) {
			t.Errorf("%s reads %s, which the table environment does not have", where, name)
		}
	}
	elsewhere := []string{"XDG_CACHE_HOME", "TMPDIR"} // which the os package reads
	names := slices.Collect(maps.Keys(read))
	for _, x := range environment {
		if !slices.Contains(elsewhere, x.word) && !slices.ContainsFunc(names,
			func(name string) bool { return covers(x.word, name) }) {
			t.Errorf("nothing reads %s", x.word)
		}
	}
	// By a constant, in C, by a knob, in a list, by #define, in a list of all that are set.
	for _, name := range []string{"WEIR_NVML", "WEIR_AGENT_UID", "WEIR_FAKE_LATE_US", "LC_CTYPE",
		"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_DEVICE_ORDER", "LD_PRELOAD"} {
		if read[name] == "" {
			t.Errorf("it was not seen that %s is read", name)
		}
	}
}

// covers reports whether a word of the table, NAME or NAME*, stands for a variable.
func covers(word, name string) bool {
	prefix, all := strings.CutSuffix(word, "*")
	return word == name || all && strings.HasPrefix(name, prefix)
}

// variablesRead are the variables that sources in Go and C read, with a file that does: those whose
// name a call has, or a constant that a call has, those that are looked for among all that are set,
// and every quoted name that begins as weir's do.
func variablesRead(t *testing.T) map[string]string {
	t.Helper()
	names := regexp.MustCompile(`(?i:getenv|LookupEnv)\("([A-Z_]+)"\)|` +
		`"(WEIR_[A-Z_]+|LC_[A-Z]+|LANG)"|[vV]ariable\s+= "([A-Z_]+)"|CutPrefix\(v, "([A-Z_]+)="`)
	calls := regexp.MustCompile(`(?i:getenv|LookupEnv)\((?:\w+\.)?(\w+)\)`)
	constants := regexp.MustCompile(`(?m)^\s*(?:const|#define)?\s*(\w+)\s+(?:= )?"([A-Z_]+)"$`)
	read, constant, by := map[string]string{}, map[string]string{}, map[string]string{}
	for _, path := range sources(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range names.FindAllStringSubmatch(string(text), -1) {
			read[strings.Join(m[1:], "")] = path
		}
		for _, m := range constants.FindAllStringSubmatch(string(text), -1) {
			constant[m[1]] = m[2]
		}
		for _, m := range calls.FindAllStringSubmatch(string(text), -1) {
			by[m[1]] = path
		}
	}
	for name, where := range by {
		switch {
		case constant[name] != "":
			read[constant[name]] = where
		case name != "name": // a parameter, whose arguments are quoted names
			t.Errorf("%s reads the variable %s, of which no constant is known", where, name)
		}
	}
	return read
}

// sources are the files in Go and C that people run: not tests, measurements and what is not of
// processes but of their protocol, nor the table itself.
func sources(t *testing.T) []string {
	t.Helper()
	var found []string
	others := []string{".git", "bench", "mutants", "wire", "stress", "testdata", "gen"}
	another := filepath.Join(root, "kube", "node") // a program of its own: docs/kubernetes.md
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (slices.Contains(others, d.Name()) || path == another) {
			return fs.SkipDir
		}
		source := slices.Contains([]string{".go", ".c", ".h"}, filepath.Ext(path))
		if err == nil && source && !strings.HasSuffix(path, "_test.go") &&
			path != filepath.Join(root, "cmd", "weir", "reference.go") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestMan holds that each command has a page, with its flags, and no line that means something
// else to man.
func TestMan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	done(t, "man", dir)
	for name, parts := range map[string][]string{
		"weir.1":           {".SH EXIT STATUS", "130", `.B WEIR_CACHE`, `weir\-run(1)`},
		"weir-run.1":       {".SH SYNOPSIS", `.B \-\-labels FILE`, ".SH EXAMPLES"},
		"weir-model-new.1": {`weir\-model(1)`},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: no %q", name, part)
			}
		}
		for line := range strings.Lines(string(text)) {
			if line[0] == '.' && !regexp.MustCompile(`^\.(TH|SH|TP|B|PP|nf|fi)\b`).MatchString(line) {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
}

// printedPages are the pages that print commands, README first.
func printedPages(t *testing.T) []string {
	t.Helper()
	pages := []string{filepath.Join(root, "README.md")}
	for _, pattern := range []string{"docs/*.md", "docs/recipes/*.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// TestPrintedCommands holds that every command line of weir in the documentation has commands,
// flags and arguments that there are, and every package that it runs.
func TestPrintedCommands(t *testing.T) {
	n := 0
	for _, page := range printedPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range shellLines(string(text)) {
			n++
			if err := printed(line); err != nil {
				t.Errorf("%s: %s: %v", page, line, err)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d lines found", n)
	}
}

// shellLines are the lines of all blocks of shell commands.
func shellLines(text string) []string { return slices.Concat(shellBlocks(text)...) }

// shellBlocks are the blocks of shell commands, each with its lines, those that go on put together,
// without comments.
func shellBlocks(text string) [][]string {
	var out [][]string
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```")
	for _, block := range blocks.FindAllStringSubmatch(text, -1) {
		var lines []string
		joined := strings.ReplaceAll(block[1], "\\\n", " ")
		for line := range strings.Lines(joined) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
		out = append(out, lines)
	}
	return out
}

// printed says what is wrong with a line that runs weir, or a package of this module.
func printed(line string) error {
	line, _, _ = strings.Cut(line, " > ")
	line = strings.TrimSuffix(line, "&")
	words := strings.Fields(line)
	for len(words) > 0 && strings.Contains(words[0], "=") {
		words = words[1:]
	}
	goRun := len(words) > 2 && words[0] == "go" && words[1] == "run"
	if goRun && strings.HasPrefix(words[2], "./") {
		if words[2] != "./cmd/weir" {
			_, err := os.Stat(filepath.Join(root, words[2]))
			return err
		}
		words = append([]string{"weir"}, words[3:]...)
	}
	if len(words) == 0 || words[0] != "weir" {
		return nil
	}
	c, rest, err := documented().Find(words[1:])
	if err != nil {
		return err
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}
