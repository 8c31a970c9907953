package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// TestVersion holds that the command says which it is, in both forms and in JSON.
func TestVersion(t *testing.T) {
	flag, command := done(t, "--version"), done(t, "version")
	if flag.out != command.out || !strings.HasPrefix(flag.out, "weir ") ||
		!strings.Contains(flag.out, runtime.Version()) {
		t.Errorf("--version says %q, version %q", flag.out, command.out)
	}
	m := done(t, "version", "--json").object(t, "version", "commit", "modified", "time", "go", "os",
		"arch", "gpu")
	if m["go"] != runtime.Version() || m["os"] != runtime.GOOS {
		t.Errorf("got %v", m)
	}
}

// TestVersionOfBuilds holds what is taken from each kind of build.
func TestVersionOfBuilds(t *testing.T) {
	from := func(version string, settings ...debug.BuildSetting) string {
		v := versionOf(&debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings})
		var b strings.Builder
		v.print(&b)
		return b.String()
	}
	for _, c := range []struct{ got, want string }{
		{from("v1.2.3"), "weir v1.2.3\ncommit not noted"},
		{from("v0.0.0-20261123133049-dc2e5cd00aa1"), "commit dc2e5cd00aa1\n"},
		{from("v1.2.4-0.20261123133049-dc2e5cd00aa1+dirty"), "commit dc2e5cd00aa1\n"},
		{from("", debug.BuildSetting{Key: "vcs.revision", Value: "abc"},
			debug.BuildSetting{Key: "vcs.modified", Value: "true"},
			debug.BuildSetting{Key: "vcs.time", Value: "2026-11-23T13:30:49Z"}),
			"weir (devel)\ncommit abc, with changes, of 2026-11-23T13:30:49Z\n"},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("no %q in %q", c.want, c.got)
		}
	}
	if v := versionOf(nil); v.Version != "(devel)" || v.Go != runtime.Version() {
		t.Errorf("of nothing: %+v", v)
	}
}
