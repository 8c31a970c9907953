package cputest

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// leftOut is a line of emulated.txt: a package, or a test of one, and why it is left out.
var leftOut = regexp.MustCompile(`^(\.(?:/[^ :]+)?)(?: (Test\w+|Fuzz\w+|Example\w*))?: \S.{10,}$`)

// What is left out under emulation is there, once, and has a reason: a name that has gone away, or
// that the script takes for another, would leave out nothing or what nobody knows of.
func TestWhatEmulationLeavesOutIsThere(t *testing.T) {
	text, err := os.ReadFile("emulated.txt")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		m := leftOut.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%q is no PACKAGE: WHY and no PACKAGE TEST: WHY", line)
			continue
		}
		name, _, _ := strings.Cut(line, ":")
		names = append(names, name)
		if !tested(t, filepath.Join("../..", m[1]), m[2]) {
			t.Errorf("%s: there is no such test", name)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Error("lines are not in the order of their names, or some are there twice")
	}
}

// tested reports whether a folder has the test, or any where none is named.
func tested(t *testing.T, folder, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(name string) bool {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return test == "" || strings.Contains(string(text), "\nfunc "+test+"(")
	})
}
