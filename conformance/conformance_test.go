package conformance

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/conformance/archive"
)

var (
	rewrite = flag.Bool("rewrite", false, "rewrite testdata/reference.txt with the results of this run")
	match   = flag.String("cases", "", "run only the cases whose name matches this expression, and print each")
	light   = flag.Bool("light", false, "run the light cases, whole networks, by the reference too (minutes)")
)

const expectations = "testdata/reference.txt"

func backendTests(t testing.TB) string {
	t.Helper()
	dir, err := archive.BackendTests()
	if errors.Is(err, archive.ErrNoData) {
		t.Skip(archive.NoData)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReference holds the reference evaluation of every operator against ONNX's own results. The cases that do not pass
// are listed, each with its status; any difference between the list and the run is a failure.
func TestReference(t *testing.T) {
	cases, err := Find(backendTests(t))
	if err != nil {
		t.Fatal(err)
	}
	only, err := regexp.Compile(*match)
	if err != nil {
		t.Fatal(err)
	}
	kept := cases[:0]
	for _, c := range cases {
		if only.MatchString(c.Name) && (*light || !strings.HasPrefix(c.Name, "light/")) {
			kept = append(kept, c)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	r := RunAll(ctx, kept, Reference, runtime.GOMAXPROCS(0))
	t.Logf("%d passed, %d failed, %d unsupported", r.Passed, r.Failed, r.Unsupported)
	if *match != "" {
		for _, c := range r.Cases {
			t.Logf("%s %s: %s", c.Status, c.Name, c.Detail)
		}
		return
	}
	compare(t, r)
}

// compare holds a report of all cases against the list, or writes the list.
func compare(t *testing.T, r *Report) {
	if *rewrite {
		if err := writeExpected(r); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := readExpected()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cases {
		due, listed := want[c.Name]
		if !listed {
			due = Passed
		}
		if c.Status != due {
			t.Errorf("%s: %s, expected %s (go test ./conformance -rewrite, and look at the difference): %s", c.Name, c.Status, due, c.Detail)
		}
		delete(want, c.Name)
	}
	for name, status := range want {
		if *light || !strings.HasPrefix(name, "light/") {
			t.Errorf("%s: listed as %s, but there is no such case", name, status)
		}
	}
}

func readExpected() (map[string]Status, error) {
	f, err := os.Open(expectations)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	want := map[string]Status{}
	for s := bufio.NewScanner(f); s.Scan(); {
		line, _, _ := strings.Cut(s.Text(), "#")
		if words := strings.Fields(line); len(words) == 2 {
			want[words[0]] = Status(words[1])
		}
	}
	return want, nil
}

func writeExpected(r *Report) error {
	var b strings.Builder
	b.WriteString("# Cases of the ONNX project's backend tests that the reference evaluation does not pass.\n" +
		"# Written by: go test ./conformance -run TestReference -rewrite\n")
	for _, c := range r.Cases {
		if c.Status != Passed {
			fmt.Fprintf(&b, "%s %s\n", c.Name, c.Status)
		}
	}
	if err := os.MkdirAll(filepath.Dir(expectations), 0o755); err != nil {
		return err
	}
	return os.WriteFile(expectations, []byte(b.String()), 0o644)
}
