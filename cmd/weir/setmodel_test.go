package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestSetModel: with --server, weir set and weir policy change a model's share and the policy of a
// server, and say what is so then.
func TestSetModel(t *testing.T) {
	printed, _ := up(t)
	line, err := printed.ReadString('\n')
	address, told := strings.CutSuffix(line, "/ is the page\n")
	if !told {
		t.Fatalf("printed %q (%v)", line, err)
	}
	for !strings.HasPrefix(line, "curl") { // by then the model is served
		if line, err = printed.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	var s shareInfo
	got := weir(t, "set", "digits", "--server", address, "--class", "latency", "--compute", "0.4",
		"--memory", "9MiB", "--json")
	if err := json.Unmarshal([]byte(got.out), &s); err != nil || s.Name != "digits" ||
		s.Class.String() != "latency" || s.Compute != 0.4 || s.Limit != 1 ||
		s.MemoryCapBytes != 9<<20 {
		t.Errorf("%+v: %+v (%v)", got, s, err)
	}
	got = weir(t, "set", "digits", "--server", address, "--limit", "0.5")
	if want := "digits: memory 9MiB, compute 0.4, limit 0.5, class latency\n"; got.out != want {
		t.Errorf("%+v, want %s", got, want)
	}
	got = weir(t, "policy", "priority", "--server", address)
	if got.out != "policy priority\n" {
		t.Errorf("%+v", got)
	}
	for says, args := range map[string][]string{
		"model \"no\" has no share": {"set", "no", "--limit", "1"},
		"holds":                     {"set", "digits", "--memory", "1KiB"},
		"no program \"digits\"":     {"set", "digits", "--limit", "1", "--device", "cuda:0"},
		"leave --fake-gpu":          {"set", "digits", "--limit", "1", "--fake-gpu"},
		"compute":                   {"set", "digits", "--compute", "0.9", "--limit", "0.5"},
		"nosuch":                    {"policy", "nosuch"},
	} {
		got := weir(t, append(args, "--server", address)...)
		if got.code == 0 || !strings.Contains(got.talk, says) {
			t.Errorf("%v: %+v, want %q", args, got, says)
		}
	}
}
