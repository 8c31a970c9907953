package yamlfile

import (
	"errors"
	"strings"
	"testing"
)

type file struct {
	Count Text[Whole, *Whole]
	Rate  float64
	Names map[string]Text[Whole, *Whole]
}

var words = Words{Empty: "want count", Holds: "one count",
	Keys:  map[string]string{"yamlfile.file": "count, rate, names"},
	Forms: map[string]string{"map[string]yamlfile.": "names with numbers"}}

// TestDecode: what is right is read, and faults are told together, in words about the file.
func TestDecode(t *testing.T) {
	var f file
	if err := words.Decode([]byte("count: 3\nrate: 0.5\nnames: {a: 1}"), &f); err != nil ||
		f.Count.Value != 3 || f.Rate != 0.5 || f.Names["a"].Value != 1 {
		t.Errorf("%+v: %v", f, err)
	}
	for text, says := range map[string]string{
		"":                     "the file is empty: want count",
		"count: 1\n---\n":      "a file holds one count",
		"cont: 1":              `line 1: unknown key "cont": want count, rate, names`,
		"count: 1.5":           "line 1: 1.5: want a whole number",
		"count: [1]":           "line 1: want one value",
		"rate: x\ncount: y":    "line 1: x: want a number; line 2: y: want a whole number",
		"names: [1]":           "line 1: a list: want names with numbers",
		"count: 1\ncount: 2":   "already defined",
		"count: 1\n\tnames: {": "tab character",
	} {
		f = file{}
		err := words.Decode([]byte(text), &f)
		if err == nil {
			t.Errorf("%q is read: %+v", text, f)
			continue
		}
		for _, part := range strings.Split(says, "; ") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v, want %q", text, err, says)
			}
		}
	}
}

// TestRead: a file is read to its end, or refused.
func TestRead(t *testing.T) {
	text := strings.Repeat("x", MaxBytes)
	if got, err := Read(strings.NewReader(text)); err != nil || string(got) != text {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	if _, err := Read(strings.NewReader(text + "x")); !errors.Is(err, ErrLong) {
		t.Errorf("a byte more: %v", err)
	}
}
