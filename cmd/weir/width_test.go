package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/tensor"
)

// widthLines are command lines whose text must fit any terminal, by the command that each is of.
func widthLines(t *testing.T) map[string][][]string {
	dir := t.TempDir()
	model, scenario, file := digitsFile(t), scenarioFile(t, "64MiB", 0, 3),
		filepath.Join(dir, "simulated.yaml")
	if err := os.WriteFile(file, []byte(simulated), 0o666); err != nil {
		t.Fatal(err)
	}
	verify := filepath.Join(dir, "case")
	verifyCase(t, verify, dense, tensor.From([]float32{1, 0, 0, 0}, 1, 4),
		tensor.From([]float32{1, 2}, 1, 2))
	labels := filepath.Join(dir, "labels.txt")
	if err := os.WriteFile(labels, []byte(strings.Repeat("a digit\n", 10)), 0o666); err != nil {
		t.Fatal(err)
	}
	return map[string][][]string{
		"weir bench": {{model, "--runs", "3"}, {model, "--runs", "3", "--profile"},
			{model, "--runs", "6", "--rounds", "6", "--warmup", "0", "--compare", "fp32"}},
		"weir cache ls": {{}}, "weir cache prune": {{}}, "weir device list": {{}},
		"weir doctor":  {{}},
		"weir inspect": {{model}}, "weir man": {{filepath.Join(dir, "man")}},
		"weir model new":  {{"mobilenetv2", filepath.Join(dir, "m.onnx")}},
		"weir optimize":   {{model, filepath.Join(dir, "o.onnx")}},
		"weir policies":   {{}, {"fair"}},
		"weir run":        {{model}, {model, "--labels", labels, "--top", "3"}},
		"weir share":      {{scenario}},
		"weir simulate":   {{file, "--policy", "all"}, {file, "--no-solo"}},
		"weir train plan": {{filepath.Join(root, "examples", "digits", "recipe.yaml")}},
		"weir verify":     {{verify}},
		"weir version":    {{}},
		"weir":            {{"--version"}},
	}
}

// noWidths are commands that print what is for programs, or nothing here, and why.
var noWidths = map[string]string{
	"weir agent":                 "serves",
	"weir up":                    "serves",
	"weir cluster simulate":      "TestClusterWidths",
	"weir completion bash":       "a script",
	"weir completion fish":       "a script",
	"weir completion powershell": "a script",
	"weir completion zsh":        "a script",
	"weir demo":                  "as share, for minutes",
	"weir exec":                  "what it prints is its program's",
	"weir account add":           "TestAccountWidths",
	"weir account grant":         "TestAccountWidths",
	"weir account init":          "a token",
	"weir account ls":            "TestAccountWidths",
	"weir account revoke":        "TestAccountWidths",
	"weir account rm":            "one line of a server",
	"weir account token ls":      "TestAccountWidths",
	"weir account token new":     "a token",
	"weir account token revoke":  "one line of a server",
	"weir audit show":            "TestAccountWidths",
	"weir audit verify":          "TestAccountWidths",
	"weir backup":                "one line of a state",
	"weir restore":               "lines of a state",
	"weir freeze":                "one word of an agent",
	"weir infer":                 "TestInferWidths",
	"weir job cancel":            "TestJobWidths",
	"weir job logs":              "TestJobWidths",
	"weir job ls":                "TestJobWidths",
	"weir job retry":             "one line of a server",
	"weir job rm":                "TestJobWidths",
	"weir job run":               "TestJobWidths",
	"weir job show":              "TestJobWidths",
	"weir job wait":              "TestJobWidths",
	"weir model load":            "one line of a server",
	"weir model ls":              "TestModelWidths",
	"weir model push":            "one line of a server",
	"weir model rollback":        "one line of a server",
	"weir model unload":          "one line of a server",
	"weir policy":                "one word of an agent",
	"weir set":                   "one line of an agent",
	"weir thaw":                  "one word of an agent",
	"weir top":                   "TestTopWidths",
	"weir tune":                  "for seconds: a table, as others",
}

// escape is a sequence that a terminal obeys (ECMA-48).
var escape = regexp.MustCompile("\x1b")

// TestCommandWidths holds that what commands and their help print fits lines of 40 and of 80
// columns, breaks no number, and has neither colours nor characters that the locale has no letters
// for.
func TestCommandWidths(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	t.Setenv("NO_COLOR", "1")
	t.Setenv("TERM", "dumb")
	t.Setenv("WEIR_RUNTIME_DIR", filepath.Join(t.TempDir(), "none"))
	t.Setenv("WEIR_CACHE", filepath.Join(t.TempDir(), "plans"))
	lines := widthLines(t)
	err := eachCommand(documented(), func(c *cobra.Command) error {
		path := c.CommandPath()
		if c.Runnable() && !c.HasSubCommands() && lines[path] == nil && noWidths[path] == "" {
			t.Errorf("%s is not looked at", path)
		}
		words := strings.Fields(path)[1:]
		for _, width := range []int{40, 80} {
			t.Setenv("COLUMNS", strconv.Itoa(width))
			for _, args := range append(lines[path], []string{"--help"}) {
				got := done(t, append(append([]string{}, words...), args...)...)
				fits(t, strings.Join(append(words, args...), " "), got.out+got.talk, width,
					examples(c))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestErrorWidths holds that errors, too, are broken between words.
func TestErrorWidths(t *testing.T) {
	t.Setenv("COLUMNS", "40")
	for _, args := range [][]string{{"bnech"}, {"run", "--memory", "8", "model.onnx"},
		{"run", digitsFile(t), "--top", "-1"}} {
		c := weir(t, args...)
		if c.code != 2 || !strings.HasPrefix(c.talk, "weir: ") {
			t.Errorf("%v: exit code %d, %q", args, c.code, c.talk)
		}
		fits(t, strings.Join(args, " "), c.talk, 40, nil)
	}
}

// examples are the lines of a command's help that are to be copied as they stand.
func examples(c *cobra.Command) map[string]bool {
	list := map[string]bool{}
	for line := range strings.Lines(c.Example) {
		list[strings.TrimSuffix(line, "\n")] = true
	}
	return list
}

// fits holds text against a width. A word that is longer than half of a line, such as a path, is
// not broken.
func fits(t *testing.T, of, text string, width int, allowed map[string]bool) {
	t.Helper()
	digit := regexp.MustCompile(`[0-9]$`)
	before := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		longest := 0
		for _, word := range strings.Fields(line) {
			longest = max(longest, terminal.Columns(word))
		}
		if n := terminal.Columns(line); n > width && longest <= width/2 && !allowed[line] {
			t.Errorf("%s: %d columns of %d: %q", of, n, width, line)
		}
		if i := strings.IndexFunc(line, func(r rune) bool { return r > 126 }); i >= 0 {
			t.Errorf("%s: byte %d is not in ASCII: %q", of, i, line)
		}
		if escape.MatchString(line) {
			t.Errorf("%s: an escape in %q", of, line)
		}
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, unit := range []string{"%", "MiB", "GiB", "KiB", "ms", "GFLOP/s", "GB/s"} {
			if strings.TrimRight(first, ".,;:)") == unit && digit.MatchString(before) {
				t.Errorf("%s: a number has lost its unit: %q, %q", of, before, line)
			}
		}
		before = line
	}
}
