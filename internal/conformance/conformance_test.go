package conformance

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/internal/conformance/archive"
	"github.com/weirgpu/weir/plan"
)

var (
	rewrite = flag.Bool("rewrite", false, "rewrite unsupported.txt with the results of this run")
	match   = flag.String("cases", "",
		"run only the cases whose name matches this expression, and print each")
	light = flag.Bool("light", false,
		"run the light cases, whole networks, by the reference too (minutes)")
)

const expectations = "unsupported.txt"

func backendTests(t testing.TB) string {
	t.Helper()
	dir, err := archive.BackendTests()
	if errors.Is(err, archive.ErrOff) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// found lists the cases that -cases asks for; without those of light/, whole networks, unless they
// are wanted.
func found(t *testing.T, networks bool) []*Case {
	t.Helper()
	cases, err := Find(backendTests(t))
	if err != nil {
		t.Fatal(err)
	}
	only, err := regexp.Compile(*match)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(cases, func(c *Case) bool {
		return !only.MatchString(c.Name) || c.Set == "light" && !networks
	})
}

// lighter leaves out VGG-19, which has no operator that the other networks lack, and more
// multiplications than all of them together: in plain Go these are what takes time. TestEngine and
// TestMetamorphic run it with this machine's instructions, and TestEngine with all where WEIR_LONG
// is set.
func lighter(cases []*Case) []*Case {
	return slices.DeleteFunc(cases, func(c *Case) bool {
		return c.Set == "light" && strings.HasSuffix(c.Name, "vgg19")
	})
}

// TestReference holds the reference evaluation of every operator against ONNX's own results: what
// does not pass is in the list, and what the list holds does not pass.
func TestReference(t *testing.T) {
	r := runAll(t, found(t, *light), Reference)
	if *rewrite && *match == "" {
		writeExpectations(t, r)
	}
	compare(t, r)
}

// TestEngine holds the way that jobs run models, by plans and fast kernels, against the same
// results and the same list.
func TestEngine(t *testing.T) {
	cases := found(t, true)
	if testing.Short() && os.Getenv("WEIR_LONG") == "" && *match == "" {
		cases = lighter(cases)
	}
	compare(t, runAll(t, cases, testEngine(t, 2).Run))
}

// host is this machine's CPU, whose products of bfloat16 are taken to be fast on any.
var host compute.Target = halving{kernels.Target(device.Info{})}

type halving struct{ compute.Target }

func (h halving) Features() compute.Features {
	f := h.Target.Features()
	f.BF16 = true
	return f
}

// testEngine is an engine on a device of its own.
func testEngine(t testing.TB, threads int) *Engine {
	t.Helper()
	d, err := cpu.Open("cpu:0", cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pool := cpu.NewPool(cpu.PoolOptions{Threads: threads})
	t.Cleanup(func() {
		pool.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Engine{Device: d, Pool: pool, Plan: plan.Options{Target: host}}
}

func runAll(t *testing.T, cases []*Case, run Runner) *Report {
	t.Helper()
	ctx := t.Context()
	if end, ok := t.Deadline(); ok { // and say what there is before the test is ended
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-20*time.Second))
		defer cancel()
	}
	r := RunAll(ctx, cases, run, runtime.GOMAXPROCS(0))
	if *match != "" {
		for _, c := range r.Cases {
			t.Logf("%s %s: %s", c.Status, c.Name, c.Detail)
		}
	}
	t.Logf("%d passed, %d failed, %d unsupported", r.Passed, r.Failed, r.Unsupported)
	return r
}

// compare holds a report against the list of the cases that do not pass.
func compare(t *testing.T, r *Report) {
	t.Helper()
	due := map[string]Expected{}
	for _, e := range readExpectations(t) {
		due[e.Name] = e
	}
	for _, c := range r.Cases {
		e, listed := due[c.Name]
		switch {
		case c.Status == Passed && listed:
			t.Errorf(
				"%s passes, and %s lists it as %s: go test ./internal/conformance "+
					"-run TestReference "+
					"-rewrite",
				c.Name,
				expectations,
				e.Status,
			)
		case c.Status != Passed && !listed:
			t.Errorf("%s: %s: %s", c.Name, c.Status, c.Detail)
		case listed && e.Status != c.Status:
			t.Errorf("%s is %s (%s), and %s lists it as %s", c.Name, c.Status, c.Detail,
				expectations, e.Status)
		}
	}
}

// editions are those of ONNX's cases that the list is complete for.
var editions = map[string]string{
	"530d4d7f": "the part that docs/operators.md counts",
	"63ac0976": "release 1.22.0, see peer/cases.py",
}

// TestExpectationsAreOfCases holds that the list names nothing that a known edition of ONNX's cases
// does not have, and that an entry that only some editions have says which.
func TestExpectationsAreOfCases(t *testing.T) {
	cases, err := Find(backendTests(t))
	if err != nil {
		t.Fatal(err)
	}
	edition := Edition(cases)
	if editions[edition] == "" {
		t.Skipf("%d cases of edition %s are none of %v", len(cases), edition, editions)
	}
	for _, e := range readExpectations(t) {
		has := slices.ContainsFunc(cases, func(c *Case) bool { return c.Name == e.Name })
		if due := len(e.Only) == 0 || slices.Contains(e.Only, edition); has != due {
			t.Errorf("%s, which %s lists: edition %s has it: %v, want %v", e.Name, expectations,
				edition, has, due)
		}
		for _, only := range e.Only {
			if editions[only] == "" {
				t.Errorf("%s: unknown edition %s", e.Name, only)
			}
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

// writeExpectations keeps what the list says of cases that the data does not have: releases of ONNX
// hold parts of them.
func writeExpectations(t *testing.T, r *Report) {
	t.Helper()
	var list []Expected
	only := map[string][]string{}
	for _, e := range readExpectations(t) {
		only[e.Name] = e.Only
		if !slices.ContainsFunc(r.Cases, func(c Result) bool { return c.Name == e.Name }) {
			list = append(list, e)
		}
	}
	for _, c := range r.Cases {
		if c.Status != Passed {
			list = append(list, Expected{c.Name, c.Status, only[c.Name], reason(c.Detail)})
		}
	}
	b := bytes.NewBufferString(
		"# The cases of the ONNX project's backend tests that do not pass, and why. Where not " +
			"all\n# editions of the tests have one, those that do stand before the reason.\n" +
			"# Written by: go test ./internal/conformance -run TestReference -rewrite\n",
	)
	if err := WriteExpected(b, list); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(expectations, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// reason is what is left of an error without the path of the model, which is this machine's, and
// without the advice.
func reason(detail string) string {
	if _, after, ok := strings.Cut(detail, ".onnx: "); ok {
		detail = after
	}
	detail, _, _ = strings.Cut(detail, "; export the model")
	return detail
}

// TestExpectationsAreKept holds that a list reads back as it was written, and that other text is
// refused.
func TestExpectationsAreKept(t *testing.T) {
	list := []Expected{{Name: "node/b", Status: Unsupported, Reason: "element type int4"},
		{"node/c", Failed, []string{"0a", "0b"}, "1 # 2"}}
	var b bytes.Buffer
	if err := WriteExpected(&b, list); err != nil {
		t.Fatal(err)
	}
	got, err := ReadExpected(&b)
	if err != nil || !reflect.DeepEqual(got, list) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"# list\n\nnode/a # why\n", "\n\nnode/a unsupported",
		"\n\nnode/a Add unsupported # why"} {
		if _, err := ReadExpected(strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), "line 3") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
