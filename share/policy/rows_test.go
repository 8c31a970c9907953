package policy_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// shared are the files that hold no policy of their own.
var shared = []string{"all.go", "arbiter.go", "doc.go", "gaps.go", "habit.go", "ledger.go",
	"own.go", "params.go", "part.go", "predict.go", "turn.go", "wait.go", "wheel.go"}

// TestEveryFileHasARow: a policy is one file and one row, and its header names its source.
func TestEveryFileHasARow(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]policy.Row{}
	for _, row := range policy.All() {
		rows[row.File] = row
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			slices.Contains(shared, name) {
			continue
		}
		row, ok := rows[name]
		if !ok {
			t.Errorf("%s has no row in all.go", name)
			continue
		}
		delete(rows, name)
		if got := mustNew(t, row.Name).Name(); got != row.Name {
			t.Errorf("%s: row %q makes policy %q", name, row.Name, got)
		}
		if row.Source == "" || row.Summary == "" {
			t.Errorf("%s: row without source or summary", name)
		}
		checkHeader(t, name)
	}
	for file := range rows {
		t.Errorf("row for %s, which is not here", file)
	}
}

func checkHeader(t *testing.T, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)^// This file is `, `(?m)^//\t.* here$`,
		`(?m)^// Departures: `} {
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("%s: no header that matches %q", name, want)
		}
	}
}

func TestNew(t *testing.T) {
	if p, err := policy.New(policy.Default); err != nil || p.Name() != policy.Default {
		t.Errorf("default policy: %v, %v", p, err)
	}
	_, err := policy.New("fare")
	if !errors.Is(err, policy.ErrUnknown) {
		t.Fatalf("unknown policy: %v", err)
	}
	for _, row := range policy.All() {
		if !strings.Contains(err.Error(), row.Name) {
			t.Errorf("%v does not name %s", err, row.Name)
		}
	}
}

func TestParameters(t *testing.T) {
	const ms = time.Millisecond
	_, fair := policy.NewFair(policy.FairParams{Slice: -ms, Granularity: ms})
	_, slice := policy.NewTimeslice(policy.TimesliceParams{Slice: time.Hour})
	_, prio := policy.NewPriority(policy.PriorityParams{Fair: policy.DefaultFair()})
	for _, tc := range []struct {
		err  error
		says []string
	}{
		{fair, []string{"policy fair", "slice is -1ms", "burst is 0s"}},
		{slice, []string{"policy timeslice", "slice is 1h0m0s"}},
		{prio, []string{"policy priority", "patience is 0s"}},
	} {
		for _, s := range tc.says {
			if !errors.Is(tc.err, share.ErrInvalid) || !strings.Contains(tc.err.Error(), s) {
				t.Errorf("error %v does not say %q", tc.err, s)
			}
		}
	}
}

func mustNew(t *testing.T, spec string) share.Policy {
	t.Helper()
	p, err := policy.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
