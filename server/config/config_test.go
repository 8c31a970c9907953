package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
)

var keys = []string{"listen.http", "listen.grpc", "policy", "tls.cert", "repository.load"}

// TestParse: settings by their keys with lines, lists as text, and models by name.
func TestParse(t *testing.T) {
	f, err := Parse(strings.NewReader(`
listen:
  http: localhost:0
  grpc: ""
policy: fair,slice=10ms
repository: {load: [a, b]}
models:
  - {name: b, share: {memory: 2GiB, keep: 9MiB, compute: 0.3, class: latency}}
  - name: a
    share: {limit: 0.5}
`), keys)
	if err != nil {
		t.Fatal(err)
	}
	want := &File{Settings: []Setting{{"listen.http", "localhost:0", 3}, {"listen.grpc", "", 4},
		{"policy", "fair,slice=10ms", 5}, {"repository.load", "a,b", 6}},
		Models: []Model{{Name: "a", Share: share.Share{Limit: 0.5}}, {Name: "b",
			Share: share.Share{Memory: 2 * share.GiB, Keep: 9 * share.MiB,
				Compute: 0.3, Class: share.Latency}}}}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("%+v, want %+v", f, want)
	}
	if m := f.Model("a"); m.Share.Limit != 0.5 {
		t.Errorf("a is %+v", m)
	}
	if m := f.Model("c"); !reflect.DeepEqual(m, Model{Name: "c"}) {
		t.Errorf("a model that is not there is %+v", m)
	}
}

// wrong are files with what the error must say, line included.
var wrong = []struct{ text, says string }{
	{"", "the file is empty"},
	{"policy: a\n---\npolicy: b", "more than one YAML document"},
	{"- a", "line 1: want keys with values"},
	{"listn: {}", `line 1: unknown key "listn": want listen, models, policy, repository, tls`},
	{"policy: a\nlisten: {htp: x}", `line 2: unknown key "listen.htp": want grpc, http`},
	{"listen: x", "line 1: listen: want keys with values: grpc, http"},
	{"policy: {a: b}", "line 1: policy: want a value"},
	{"policy:", "line 1: policy: want a value"},
	{"policy: [a, [b]]", "line 1: policy: want a value"},
	{"policy: a\npolicy: b", `line 2: policy is given twice`},
	{"a: 1\nb: 2", `unknown key "a": want listen, models, policy, repository, tls; line 2`},
	{"models: {}", "line 1: models: want a list of models"},
	{"models: [a]", "line 1: a model: want keys"},
	{"models:\n  - {nam: a}", `line 2: unknown key "nam": want name, share`},
	{"models: [{name: a, share: {mem: 1}}]", `unknown key "mem": want memory, keep, compute, limit`},
	{"models: [{name: a, share: 3}]", "line 1: share: want keys with values: memory"},
	{"models: [{name: a, share: {class: high}}]", "line 1: "},
	{"models: [{name: a, share: {compute: 3}}]", "line 1: model a: "},
	{"models: [{name: a, share: {memory: 3}}]", "line 1: "},
	{"models:\n  - {name: a}\n  - {share: {}}", "line 3: a model without a name"},
	{"models:\n  - {name: a}\n  - {name: a}", "line 3: model a is there twice"},
	{"policy: [", "did not find expected"},
	{"# " + strings.Repeat("x", 1<<20), "too long"},
}

// TestWrong: what is wrong is an error of kind ErrConfig with the line.
func TestWrong(t *testing.T) {
	for _, c := range wrong {
		_, err := Parse(strings.NewReader(c.text), keys)
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.40q: %v, want %q", c.text, err, c.says)
		}
	}
}

// TestChanges: settings that came, went or are others.
func TestChanges(t *testing.T) {
	parse := func(text string) *File {
		f, err := Parse(strings.NewReader(text), keys)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a := parse("listen: {http: x, grpc: ''}\npolicy: fair")
	b := parse("listen: {http: x}\npolicy: prior\ntls: {cert: c}")
	if got := a.Changes(b); !slices.Equal(got, []string{"listen.grpc", "policy", "tls.cert"}) {
		t.Errorf("changed: %v", got)
	}
	if got := a.Changes(a); got != nil {
		t.Errorf("the same file changed: %v", got)
	}
}

// FuzzParse: no file panics, and what parses has settings of known keys only.
func FuzzParse(f *testing.F) {
	for _, c := range wrong {
		if len(c.text) < 1000 {
			f.Add(c.text)
		}
	}
	f.Add("models: [&a {name: a}, *a]\nlisten: &x {http: *x}")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse(strings.NewReader(text), keys)
		if err != nil {
			return
		}
		for _, s := range file.Settings {
			if !slices.Contains(keys, s.Key) || s.Line < 1 {
				t.Errorf("%+v", s)
			}
		}
	})
}
