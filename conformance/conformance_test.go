package conformance

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
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

// TestReference holds the reference evaluation of every operator against ONNX's own results, case by case as listed; any
// difference between the list and the run is a failure.
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
	switch {
	case *match != "":
		for _, c := range r.Cases {
			t.Logf("%s %s: %s", c.Status, c.Name, c.Detail)
		}
	case *rewrite:
		writeExpectations(t, kept, r)
	default:
		compare(t, kept, r)
	}
}

// expected is the line of the list for a result.
func expected(t *testing.T, c *Case, r Result) Expected {
	t.Helper()
	operator, err := c.Operator()
	if err != nil {
		t.Fatal(err)
	}
	reason := r.Detail
	if _, after, ok := strings.Cut(reason, c.Model+": "); ok { // the rest names nothing of this machine
		reason = after
	}
	return Expected{c.Name, operator, r.Status, reason}
}

// compare holds a report of all cases against the list. Light cases are listed when they do not pass.
func compare(t *testing.T, cases []*Case, r *Report) {
	list := readExpectations(t)
	want := map[string]Expected{}
	for _, e := range list {
		want[e.Name] = e
	}
	for i, c := range r.Cases {
		due, got := want[c.Name], expected(t, cases[i], c)
		if strings.HasPrefix(c.Name, "light/") && due.Name == "" {
			due = Expected{Name: c.Name, Operator: got.Operator, Status: Passed}
		}
		if due.Reason = got.Reason; due != got {
			t.Errorf("%+v, expected %+v (go test ./conformance -rewrite, and look at the difference)", got, due)
		}
		delete(want, c.Name)
	}
	for name, e := range want {
		if *light || !strings.HasPrefix(name, "light/") {
			t.Errorf("%+v is listed, but there is no such case", e)
		}
	}
}

func readExpectations(t *testing.T) []Expected {
	t.Helper()
	f, err := os.Open(expectations)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := ReadExpected(f)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func writeExpectations(t *testing.T, cases []*Case, r *Report) {
	t.Helper()
	var list []Expected
	for i, c := range r.Cases {
		if !strings.HasPrefix(c.Name, "light/") || c.Status != Passed {
			list = append(list, expected(t, cases[i], c))
		}
	}
	b := bytes.NewBufferString("# What the reference evaluation makes of the cases of the ONNX project's backend tests: the case, its operator when its\n" +
		"# graph has one node, the status, and why when it does not pass.\n" +
		"# Written by: go test ./conformance -run TestReference -rewrite\n")
	if err := WriteExpected(b, list); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(expectations), 0o755), os.WriteFile(expectations, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestExpectationsAreKept holds that a list reads back as it was written, and that other text is refused.
func TestExpectationsAreKept(t *testing.T) {
	list := []Expected{{"node/a", "Add", Passed, ""}, {"node/b", "", Unsupported, "element type int4"}, {"node/c", "ml:X", Failed, "1 # 2"}}
	var b bytes.Buffer
	if err := WriteExpected(&b, list); err != nil {
		t.Fatal(err)
	}
	got, err := ReadExpected(&b)
	if err != nil || !slices.Equal(got, list) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ReadExpected(strings.NewReader("# list\n\nnode/a passed\n")); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("two columns: %v", err)
	}
}
