package main

import (
	"strings"
	"testing"

	"github.com/weirgpu/weir/share/policy"
)

// TestPolicies: the list has every policy with what scripts read of it, and an unknown one is
// refused with those there are.
func TestPolicies(t *testing.T) {
	list := done(t, "policies", "--json").object(t, "policies")["policies"].([]any)
	if len(list) != len(policy.All()) {
		t.Errorf("%d policies listed, want %d", len(list), len(policy.All()))
	}
	text := done(t, "policies").out
	for _, p := range list {
		p := p.(map[string]any)
		for _, key := range []string{"name", "source", "what", "needs", "parameters"} {
			if p[key] == nil {
				t.Errorf("%v has no %s", p["name"], key)
			}
		}
		if !strings.Contains(text, p["name"].(string)+" ") ||
			!strings.Contains(text, p["source"].(string)) {
			t.Errorf("the list for people lacks %v or its source", p["name"])
		}
	}
	for _, want := range []string{"fair: ", "mClock", "guarantees  hold", "slice", "default 20ms"} {
		if got := done(t, "policies", "fair").out; !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if c := weir(t, "policies", "fare"); c.code != 2 || !strings.Contains(c.talk, "fifo") {
		t.Errorf("exit code %d, %s", c.code, c.talk)
	}
}
