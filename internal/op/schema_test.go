package op

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestEveryVersion holds the table against ONNX's own definitions: every version of every operator
// is implemented, rewritten as a model is read, or another name for nothing new. What ONNX Runtime
// has in ONNX's name is listed.
func TestEveryVersion(t *testing.T) {
	for k, versions := range schemas().of {
		o := table()[k]
		if o == nil {
			t.Logf("%s:%s is not there", k.domain, k.name)
			continue
		}
		for _, s := range versions {
			if s.deprecated {
				continue
			}
			if !slices.Contains(o.Since, s.since) && !slices.Contains(o.Raised(), s.since) {
				t.Errorf("%s:%s has no version %d", k.domain, k.name, s.since)
			}
		}
		for _, v := range o.Since {
			// written by exporters to ONNX Runtime before opset 17
			early := k.name == "LayerNormalization" && v == 1
			if !early && !slices.ContainsFunc(versions, func(s schema) bool {
				return s.since == v
			}) {
				t.Errorf("%s:%s has version %d, ONNX has not", k.domain, k.name, v)
			}
		}
	}
	for name := range raised {
		if table()[key{"", name}] == nil {
			t.Errorf("%s is raised and not there", name)
		}
	}
}

func TestRefusedOperators(t *testing.T) {
	for name, why := range refused {
		if _, err := Lookup("", name, 1); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Lookup("", "Frobnicate", 99); err == nil ||
		!strings.Contains(err.Error(), "weir knows up to") {
		t.Errorf("an operator of a newer set: %v", err)
	}
}

// TestSuggestions holds what an error says about an operator that is not there.
func TestSuggestions(t *testing.T) {
	newest := NewestOpset("")
	for _, tc := range []struct {
		domain, name string
		version      int
		want         string
	}{
		{"", "relu", 13, "did you mean Relu?"},
		{"", "Nothing", newest + 1, fmt.Sprintf("operator set %d, weir knows up to %d", newest+1,
			newest)},
		{"", "Nothing", newest, "export the model with ONNX's own operators"},
		{"elsewhere", "Relu", newest + 1, "export the model with ONNX's own operators"},
	} {
		_, err := Lookup(tc.domain, tc.name, tc.version)
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s-%d: %v, want %q", tc.domain, tc.name, tc.version, err, tc.want)
		}
	}
}
