package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/wire"
)

func TestCheckExecutable(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the dynamic loader of Linux")
	}
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	good := []string{
		sh,
		file("script", "#!"+sh+"\n", 0o755),
		file("env", "#!/usr/bin/env -S sh -e\n", 0o755),
		file("text", "echo\n", 0o755),
		file("empty", "", 0o755),
		file("nobody", "#!/usr/bin/env no-such-program\n", 0o755),
		file("bare", "#!\n", 0o755),
	}
	for _, p := range good {
		if err := CheckExecutable(p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	static := filepath.Join(dir, "static")
	src := file("main.go", "package main\nfunc main() {}\n", 0o644)
	build := exec.Command("go", "build", "-o", static, src)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("no static executable: %v %s", err, out)
	}
	other := filepath.Join(dir, "other")
	text, err := os.ReadFile(static)
	if err != nil {
		t.Fatal(err)
	}
	text[18] ^= 1 // e_machine
	if err := os.WriteFile(other, text, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{static, other, file("setuid", "#!"+sh+"\n", 0o755|os.ModeSetuid),
		file("of-static", "#!"+static+"\n", 0o755)} {
		if err := CheckExecutable(p); !errors.Is(err, ErrNoPreload) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if err := CheckExecutable(filepath.Join(dir, "absent")); err == nil {
		t.Error("a file that is not there is accepted")
	}
}

func TestEnvironment(t *testing.T) {
	g := &JobGrant{Token: wire.Token{0xab}}
	got := Environment([]string{"HOME=/h", "LD_PRELOAD=/a.so", "WEIR_JOB=old", "X=1"}, "/s", g,
		"/shim.so", "X=2")
	slices.Sort(got)
	want := []string{
		"HOME=/h",
		"LD_PRELOAD=/shim.so:/a.so",
		"WEIR_JOB=" + g.Token.String(),
		"WEIR_SOCKET=/s",
		"X=2",
	}
	if again := Environment(got, "/s", g, "/shim.so", "X=2"); len(again) != len(got) ||
		!slices.Contains(again, "LD_PRELOAD=/shim.so:/a.so") {
		t.Errorf("a job within a job: %s", strings.Join(again, " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", strings.Join(got, " "), strings.Join(want, " "))
	}
}
