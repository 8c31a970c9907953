package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// climb runs a rung on the profiles, and holds that each program does the same both ways and leaves
// nothing behind. Of those for which only leaves another profile a program is not run.
func climb(t *testing.T, number int, only func(program) string) {
	if testing.Short() {
		t.Skip("compiles C and runs programs")
	}
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no C++ compiler")
	}
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			l, err := newLadder(t.Context(), profile)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.close)
			programs, err := rungs[number-1].programs(l)
			if errors.Is(err, errNoWheels) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range programs {
				if here := only(p); here == "" || here == profile {
					hold(t, l, p)
				}
			}
		})
	}
}

func hold(t *testing.T, l *ladder, p program) {
	t.Helper()
	r, err := l.both(p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.ok() {
		t.Errorf("%s, %s: exit %d, under weir %d; %d bytes held; %q\n%s\n%s", p.artefact, p.name,
			r.Without.Exit, r.Under.Exit, r.Left, r.Differs, r.Without.Talk, r.Under.Talk)
	}
}

func everywhere(program) string { return "" }

// once names one profile for each program, so that each sample meets both; with WEIR_LONG all run
// on both.
func once(p program) string {
	switch {
	case os.Getenv("WEIR_LONG") != "":
		return ""
	case strings.HasSuffix(p.artefact, "static runtime"):
		return "plain"
	}
	return "hardware"
}

func TestSamples(t *testing.T) { climb(t, 1, once) }

// TestPython fetches 0.7 GB where it has not been asked for before.
func TestPython(t *testing.T) {
	text, err := pins.ReadFile("wheels/python.txt")
	if err != nil {
		t.Fatal(err)
	}
	version, _ := exec.Command("python3", "--version").Output()
	_, there, err := kept("python", text, version)
	if err != nil {
		t.Fatal(err)
	}
	if !there && os.Getenv("WEIR_LONG") == "" {
		t.Skip("its wheels are not in the cache; WEIR_LONG=1 fetches 0.7 GB")
	}
	climb(t, 2, once)
}

// The rungs of several GB take a quarter of an hour or more on two cores, beyond go test's bound of
// ten minutes: WEIR_LONG=1 go test -timeout 60m ./bench/userland -run TestFrameworks
func TestFrameworks(t *testing.T) {
	if os.Getenv("WEIR_LONG") == "" {
		t.Skip("WEIR_LONG=1 fetches 7 GB where they are not in the cache, and takes minutes")
	}
	if end, ok := t.Deadline(); ok && time.Until(end) < 15*time.Minute {
		t.Fatal("it takes a quarter of an hour: give -timeout 60m")
	}
	for _, number := range []int{3, 4} {
		t.Run(fmt.Sprint("rung", number), func(t *testing.T) { climb(t, number, everywhere) })
	}
}

// TestScriptsHaveNoPackagesNames holds that a script is not what something imports in the place of
// a package, whose folder comes later: vLLM, which looks for a package "kernels", ran one of them.
func TestScriptsHaveNoPackagesNames(t *testing.T) {
	files, err := scripts.ReadDir("python")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := f.Name(); name != "say.py" && !strings.HasPrefix(name, "with_") {
			t.Errorf("%s: name it with_PACKAGE.py", name)
		}
	}
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		without, under string
		differ         int
	}{
		"equal":             {"a\nb\n", "a\nb\n", 0},
		"another value":     {"a\nb\n", "a\nc\n", 1},
		"a line more":       {"a\n", "a\nb\n", 1},
		"the cap":           {"memory total 17179869184\n", "memory total 8589934592\n", 0},
		"not the cap":       {"memory total 17179869184\n", "memory total 8589934591\n", 1},
		"the device's":      {"memory free 17000000000\n", "memory free 17000000000\n", 1},
		"more than the cap": {"memory free 17000000000\n", "memory free 9000000000\n", 1},
		"within the cap":    {"memory free 17000000000\n", "memory free 8000000000\n", 0},
		"all that there is": {"memory most 17000000000\n", "memory most 8500000000\n", 0},
		"half of the cap":   {"memory most 17000000000\n", "memory most 4300000000\n", 1},
		"three quarters": {"memory threequarters 12884901888\n",
			"memory threequarters 6442450944\n", 0},
		"of the device": {"memory threequarters 12884901888\n",
			"memory threequarters 12884901888\n", 1},
		"no size any longer": {"memory free 17000000000\n", "memory free much\n", 1},
	} {
		if got := compare(c.without, c.under); len(got) != c.differ {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAsked(t *testing.T) {
	refused, absent := asked(
		"call cuB 1\ntable 12 0\ncall cuA 2\ncall cuB 1\nslot export 4\njunk\n")
	if len(refused) != 2 || refused[0] != "slot export 4" || refused[1] != "table 12" {
		t.Errorf("refused %q", refused)
	}
	if len(absent) != 2 || absent[0] != "cuA" || absent[1] != "cuB" {
		t.Errorf("absent %q", absent)
	}
}
