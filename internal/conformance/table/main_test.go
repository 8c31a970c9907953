package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/conformance"
	"github.com/weirgpu/weir/internal/conformance/archive"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// edition is what the page says of the cases that it was made of.
var edition = regexp.MustCompile(`edition ([0-9a-f]{8})\)`)

// TestOperatorsPageIsCurrent holds the page against what the command makes of the same cases. What
// types an operator takes is found by running them, so that of others only what they do not decide
// is compared.
func TestOperatorsPageIsCurrent(t *testing.T) {
	dir, err := archive.BackendTests()
	if errors.Is(err, archive.ErrOff) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	cases, err := conformance.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	of := edition.FindSubmatch(got)
	if of == nil {
		t.Fatal(
			"docs/operators.md names no edition: go run ./internal/conformance/table " +
				"-o docs/operators.md")
	}
	var want bytes.Buffer
	if err := write(&want, "../../..", dir); err != nil {
		t.Fatal(err)
	}
	have, due := string(got), want.String()
	if here := conformance.Edition(cases); here != string(of[1]) {
		t.Logf("docs/operators.md was made of ONNX's cases of edition %s, here is %s: types and "+
			"counts of cases are not compared", of[1], here)
		have, due = withoutCases(have), withoutCases(due)
	}
	if have != due {
		t.Error("docs/operators.md is out of date: go run ./internal/conformance/table " +
			"-o docs/operators.md")
	}
}

// TestOutputIsWholeOrUntouched makes the page without the cases: the file of before is still there.
func TestOutputIsWholeOrUntouched(t *testing.T) {
	t.Setenv("WEIR_ONNX_TESTDATA", t.TempDir())
	dir := t.TempDir()
	page := filepath.Join(dir, "operators.md")
	if err := os.WriteFile(page, []byte("of before"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := run(page, io.Discard)
	have, readErr := os.ReadFile(page)
	if !errors.Is(err, archive.ErrNoData) || readErr != nil || string(have) != "of before" {
		t.Errorf("error %v, page %q, %v", err, have, readErr)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left beside it: %v, %v", files, err)
	}
}

// withoutCases is, of each row of a page, what does not depend on cases: operator, versions and
// devices.
func withoutCases(page string) string {
	var kept strings.Builder
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, " | "); len(cells) == 5 {
			fmt.Fprintln(&kept, cells[0], cells[1], cells[3])
		}
	}
	return kept.String()
}

func TestTypesAreNamedByGroups(t *testing.T) {
	whole := set{tensor.Sequence: true}
	for d := tensor.Float32; d.Valid(); d++ {
		whole[d] = true
	}
	floats := set{
		tensor.Float16:  true,
		tensor.BFloat16: true,
		tensor.Float32:  true,
		tensor.Float64:  true,
	}
	for _, c := range []struct {
		of   *taken
		want string
	}{
		{nil, ""},
		{&taken{operand: whole, result: whole}, "any, sequence"},
		{&taken{operand: floats, result: floats}, "float*"},
		{&taken{operand: floats, result: set{tensor.Int64: true, tensor.Bool: true}},
			"float* → int64, bool"},
		{&taken{result: floats}, "→ float*"},
		{&taken{bodies: true}, "those of its graphs"},
	} {
		if got := c.of.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestRefusedTypesAreNotLearned checks that a type is listed for what runs, and only for that.
func TestRefusedTypesAreNotLearned(t *testing.T) {
	add, err := op.Lookup("", "Add", 14)
	if err != nil {
		t.Fatal(err)
	}
	u := newUses(t.Context())
	x := tensor.From([]float32{1, 2}, 2)
	u.keep(
		use{add, &op.Call{Type: "Add", Version: 14, NumIn: 2, NumOut: 1}, []*tensor.Tensor{x, x}})
	if got, want := u.taken["Add"].String(), "float*, int*, uint*"; got != want {
		t.Errorf("Add takes %s, want %s", got, want)
	}
}
