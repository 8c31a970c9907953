package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	lib "github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/config"
	"github.com/weirgpu/weir/share"
)

// TestFileKeys: each flag of up has a key, once, but for those that are of one call.
func TestFileKeys(t *testing.T) {
	var flags []string
	for _, k := range fileKeys {
		if slices.Contains(flags, k.flag) {
			t.Errorf("--%s has two keys", k.flag)
		}
		flags = append(flags, k.flag)
	}
	c := newUp()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(append(flags, "config", "json", "help"), f.Name) {
			t.Errorf("--%s has no key", f.Name)
		}
	})
	for _, name := range flags {
		if c.Flags().Lookup(name) == nil {
			t.Errorf("there is no --%s", name)
		}
	}
}

// write makes a file of a test.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFileSets: a file sets the flags that are not given, and paths are below its folder.
func TestFileSets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	set := func(text string, args ...string) (*upFlags, error) {
		write(t, path, text)
		var f upFlags
		c := &cobra.Command{}
		f.define(c)
		if err := c.ParseFlags(append(args, "--config", path)); err != nil {
			t.Fatal(err)
		}
		return &f, f.file.set(c)
	}
	f, err := set("listen: {http: 'localhost:1', grpc: ''}\npolicy: priority\n"+
		"repository: {folder: m}\nauth: {state: /s}\nlimits: {grace: 3s}", "--policy", "fair")
	if err != nil {
		t.Fatal(err)
	}
	if f.address != "localhost:1" || f.grpc.address != "" || f.policy != "fair" ||
		f.models.given[0] != filepath.Join(filepath.Dir(path), "m") || f.people.state != "/s" ||
		f.grace.Seconds() != 3 {
		t.Errorf("%+v", f)
	}
	for text, says := range map[string]string{
		"limits: {grace: x}":    "line 1: limits.grace: ",
		"policy: fair\nlimt: 3": `line 2: unknown key "limt"`,
	} {
		_, err := set(text)
		if !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// TestFollow: a changed file is followed whole, or all stays as it was.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	f := &upFile{path: path, file: &config.File{Models: []config.Model{
		{Name: "a", Share: share.Share{Compute: 0.8}}, {Name: "absent",
			Share: share.Share{Compute: 0.9}}}}}
	s, err := server.New(server.Options{Log: slog.New(slog.DiscardHandler), Terms: f.share,
		Host: lib.HostOptions{Policy: "fair", Memory: 256 * share.MiB}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	load := func(name string) server.Source {
		return server.Source{Name: name, Version: 1, Open: func() (*lib.Model, error) {
			return lib.Load(digits.Model)
		}}
	}
	if err := s.LoadAll(t.Context(), []server.Source{load("a"), load("b")}); err != nil {
		t.Fatal(err)
	}
	now := func() (policy string, a, b float64) {
		for _, j := range s.Status().Jobs {
			switch {
			case strings.HasPrefix(j.Name, "a"):
				a = j.Share.Compute
			case strings.HasPrefix(j.Name, "b"):
				b = j.Share.Compute
			}
		}
		return s.Status().Policy, a, b
	}
	if policy, a, b := now(); policy != "fair" || a != 0.8 || b != 0 {
		t.Errorf("begun with %s, %v and %v", policy, a, b)
	}
	for _, step := range []struct {
		text   string
		says   string // "": it is followed
		policy string
		a, b   float64
	}{
		// b has room once a has less, whichever is named first
		{"policy: priority\nmodels: [{name: b, share: {compute: 0.7}}, " +
			"{name: a, share: {compute: 0.2}}]", "", "priority", 0.2, 0.7},
		{"policy: fair\nmodels: [{name: a, share: {compute: 0.1}}, " +
			"{name: b, share: {compute: 0.7, memory: 9TiB}}]", "wants 9TiB", "priority", 0.2, 0.7},
		{"policy: [", "did not find", "priority", 0.2, 0.7},
		{"policy: nosuch", "nosuch", "priority", 0.2, 0.7},
		{"policy: fair\nlisten: {http: x}", "listen.http changed: only", "priority", 0.2, 0.7},
		{"models: [{name: a, share: {keep: 1MiB}}]", "give device.memory", "priority", 0.2, 0.7},
		{"policy: priority", "", "priority", 0, 0},
		{"models: [{name: a, share: {compute: 1}}]", "", "fair", 1, 0},
	} {
		write(t, path, step.text)
		err := f.follow(s)
		if (err == nil) != (step.says == "") || err != nil && !strings.Contains(err.Error(),
			step.says) {
			t.Errorf("%q: %v, want %q", step.text, err, step.says)
		}
		if policy, a, b := now(); policy != step.policy || a != step.a || b != step.b {
			t.Errorf("%q: policy %s, shares %v and %v, want %+v", step.text, policy, a, b, step)
		}
	}
	// what is not served then has its share once it is loaded again, unless nothing was followed
	for _, step := range []struct {
		text string
		a    float64
	}{{"models: [{name: a, share: {compute: 0.3}}]", 0.3},
		{"models: [{name: a, share: {compute: 0.6}}, {name: b, share: {memory: 9TiB}}]", 0.3}} {
		if err := s.UnloadModel(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		write(t, path, step.text)
		_ = f.follow(s) // the second is too much for b
		if err := s.LoadModel(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		if _, a, _ := now(); a != step.a {
			t.Errorf("%q: loaded again, a has %v, want %v", step.text, a, step.a)
		}
	}
}

// TestFollowGiven: a policy that the command line names stays, whatever the file says of it.
func TestFollowGiven(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	f := &upFile{path: path, file: &config.File{}, given: map[string]bool{"policy": true}}
	s, err := server.New(server.Options{Log: slog.New(slog.DiscardHandler), Terms: f.share,
		Host: lib.HostOptions{Policy: "fair"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write(t, path, "policy: priority")
	if err := f.follow(s); err != nil || s.Status().Policy != "fair" {
		t.Errorf("policy %s, %v", s.Status().Policy, err)
	}
}

// TestFollowMemory: a cap that grows has the room of one that shrinks, whichever model is named
// first.
func TestFollowMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	f := &upFile{path: path, file: &config.File{Models: []config.Model{
		{Name: "a", Share: share.Share{Memory: 20 * share.MiB}},
		{Name: "b", Share: share.Share{Memory: 40 * share.MiB}}}}}
	s, err := server.New(server.Options{Log: slog.New(slog.DiscardHandler), Terms: f.share,
		Host: lib.HostOptions{Memory: 64 * share.MiB}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var list []server.Source
	for _, name := range []string{"a", "b"} {
		list = append(list, server.Source{Name: name, Version: 1, Open: func() (*lib.Model, error) {
			return lib.Load(digits.Model)
		}})
	}
	if err := s.LoadAll(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	write(t, path, "models: [{name: a, share: {memory: 40MiB}}, {name: b, share: {memory: 20MiB}}]")
	if err := f.follow(s); err != nil {
		t.Error(err)
	}
}

// TestFileOnce: where a step fails, those before it are undone, the last one first.
func TestFileOnce(t *testing.T) {
	var did []string
	step := func(name string, err error) change {
		return func(configured) (func() error, error) {
			did = append(did, name)
			return func() error { did = append(did, "not "+name); return nil }, err
		}
	}
	wrong := errors.New("wrong")
	err := changes{step("a", nil), step("b", nil), step("c", wrong), step("d", nil)}.apply(nil)
	if want := []string{"a", "b", "c", "not b", "not a"}; !errors.Is(err, wrong) ||
		!slices.Equal(did, want) {
		t.Errorf("%v: did %v, want %v", err, did, want)
	}
}
