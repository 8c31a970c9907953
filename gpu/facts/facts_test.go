package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

func book(t *testing.T) *Book {
	t.Helper()
	b, err := readBook(filepath.Join(root, dataFile))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFacts holds that every fact has a source or a check, and that what it names is there.
func TestFacts(t *testing.T) {
	if err := book(t).check(root); err != nil {
		t.Error(err)
	}
}

// TestKnobsAreBeliefs holds that a fact tells of each knob of the fake driver, which says what a
// real one costs.
func TestKnobsAreBeliefs(t *testing.T) {
	const file = "internal/shim/fakecuda/model/knobs.h"
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	relied := map[string]bool{}
	for _, f := range book(t).Facts {
		for _, place := range f.Relies {
			relied[place] = true
		}
	}
	knobs := regexp.MustCompile(`X\((\w+), "WEIR_FAKE_\w+"`).FindAllSubmatch(text, -1)
	if len(knobs) < 19 {
		t.Errorf("only %d knobs found", len(knobs))
	}
	for _, k := range knobs {
		if place := file + ":" + string(k[1]); !relied[place] {
			t.Errorf("no fact says what is believed where %s is set", place)
		}
	}
}

// TestFaultsAreSeen holds that a book with faults is refused, each fault by name.
func TestFaultsAreSeen(t *testing.T) {
	good := func() *Book {
		return &Book{
			References: map[string]Reference{"page": {"A page", "https://example.org"}},
			Rooms:      []Room{{"room", "A room"}},
			Facts: []Fact{{ID: "a", Room: "room", Belief: "b", Relies: []string{"go.mod:module"},
				Sources: []string{"page: there"}, Breaks: "c", Check: "d"}},
		}
	}
	if err := good().check(root); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(f *Fact, b *Book){
		"neither a source nor a check": func(f *Fact, b *Book) {
			f.Sources, f.Check, f.Unchecked = nil, "", "why"
		},
		"one of the two":     func(f *Fact, b *Book) { f.Unchecked = "why" },
		"says not what":      func(f *Fact, b *Book) { f.Breaks = "" },
		"no such file":       func(f *Fact, b *Book) { f.Relies[0] = "no/such.go" },
		"has no nothing":     func(f *Fact, b *Book) { f.Relies[0] = "go.mod:nothing" },
		"no reference":       func(f *Fact, b *Book) { f.Sources[0] = "book: p. 1" },
		"no room":            func(f *Fact, b *Book) { f.Room = "cellar" },
		"or another's":       func(f *Fact, b *Book) { b.Facts = append(b.Facts, *f) },
		"no fact names it":   func(f *Fact, b *Book) { b.References["x"] = Reference{Title: "y"} },
		"of another form":    func(f *Fact, b *Book) { b.References["page"] = Reference{"A", "b"} },
		"missing or another": func(f *Fact, b *Book) { f.ID = "" },
	} {
		b := good()
		spoil(&b.Facts[0], b)
		if err := b.check(root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one that says %q", err, want)
		}
	}
}

// TestPageIsUpToDate holds facts.md against its data.
func TestPageIsUpToDate(t *testing.T) {
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(root, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what its data gives: go generate ./gpu/facts", pageFile)
	}
}

// TestFindings holds which results count.
func TestFindings(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"1.json": `{"date": "2026-01-02T00:00:00+00:00", "gpu": "A", "driver": {"version": "1"},
			"facts": {"x": {"state": "refuted", "detail": "r"}, "y": {"state": "unknown"}}}`,
		"2.json": `{"date": "2026-01-03T00:00:00+00:00", "gpu": "B", "driver": {"version": "2"},
			"facts": {"x": {"state": "confirmed", "detail": "c"}}}`,
		"3.json": `{"date": "2026-01-04T00:00:00+00:00", "fake": true,
			"facts": {"x": {"state": "refuted"}, "y": {"state": "refuted"}}}`,
		"README.md": "no result",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := readFindings(dir)
	if err != nil {
		t.Fatal(err)
	}
	text := state(found["x"])
	for _, want := range []string{"[confirmed](", "on B, driver 2, 2026-01-03: c",
		"; before, [refuted]("} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: does not say %q", text, want)
		}
	}
	if got := state(found["y"]); got != string(Unknown) {
		t.Errorf("what only the fake driver refuted is %s", got)
	}
	if none, err := readFindings(filepath.Join(dir, "none")); none != nil || err != nil {
		t.Errorf("a folder that is not there: %v, %v", none, err)
	}
}

// TestChecksAreThere holds that each check that a fact names is one of gpu/check.sh, that the check
// settles it, and that checks settle no others.
func TestChecksAreThere(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to list the checks with")
	}
	out, err := exec.Command(python, filepath.Join(root, "gpu", "check.py"), "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var checks []struct {
		Name    string   `json:"name"`
		Settles []string `json:"settles"`
	}
	if err := json.Unmarshal(out, &checks); err != nil {
		t.Fatal(err)
	}
	settles := map[string]string{}
	for _, c := range checks {
		for _, id := range c.Settles {
			settles[id] = c.Name
		}
	}
	for _, f := range book(t).Facts {
		if settles[f.ID] != f.Check {
			t.Errorf("fact %s: is said to be settled by %q, and is by %q", f.ID, f.Check,
				settles[f.ID])
		}
		delete(settles, f.ID)
	}
	for id, check := range settles {
		t.Errorf("%s settles %s, which is no fact", check, id)
	}
}
