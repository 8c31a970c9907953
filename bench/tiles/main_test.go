package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// TestSaysWhatItLacks holds the exit code and the reason where there are no tiles, none that may be
// used, or a path below is asked for.
func TestSaysWhatItLacks(t *testing.T) {
	denied := errors.New("the system permits no use of tiles")
	allow := func() error { return nil }
	for _, c := range []struct {
		path   cpuinfo.Path
		permit func() error
		want   string
	}{
		{cpuinfo.PathAMX, func() error { return denied }, "permits no use"},
		{cpuinfo.PathAVX512BF16, allow, "path avx512-bf16, not avx512-amx: see WEIR_ISA"},
	} {
		var out strings.Builder
		err := lacks(c.path, c.permit)
		code := run(&out, [][]string{{"no such command"}}, err)
		if code != exitLacks || !strings.Contains(out.String(), c.want) {
			t.Errorf("exit code %d: %s", code, out.String())
		}
	}
	if err := lacks(cpuinfo.PathAMX, allow); err != nil {
		t.Errorf("nothing is lacking: %v", err)
	}
}

// TestCommandsNameTests holds that what is run is there, under these names, and is told how many
// products to compare.
func TestCommandsNameTests(t *testing.T) {
	named := regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`)
	names := 0
	for _, args := range commands(12345, time.Minute) {
		line := strings.Join(args, " ")
		folder := args[slices.IndexFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "./")
		})]
		for _, name := range named.FindAllString(line, -1) {
			names++
			files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
			if err != nil || !slices.ContainsFunc(files, func(f string) bool {
				text, err := os.ReadFile(f)
				return err == nil && strings.Contains(string(text), "func "+name+"(")
			}) {
				t.Errorf("%s: no test %s in %s", line, name, folder)
			}
		}
	}
	if first := commands(12345, time.Minute)[0]; names != 4 ||
		!slices.Contains(first, "-products=12345") {
		t.Errorf("%d names, first %v", names, first)
	}
}

// TestFailuresAreTold holds that a command that fails ends the trial with its name.
func TestFailuresAreTold(t *testing.T) {
	var out strings.Builder
	code := run(&out, [][]string{{"env", "-no-such-flag"}, {"env", "GOOS"}}, nil)
	if code != exitFailed || !strings.Contains(out.String(), "go env -no-such-flag: exit") ||
		strings.Contains(out.String(), runtime.GOOS+"\n") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}
