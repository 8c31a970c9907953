package weir_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckSaysWhatItLeftOut runs the script check, in its quick form and with commands that do
// nothing, in a folder that has no data beside it: without ONNX's own cases its last line says so
// and its exit code is 3, and a failure of any kind has another one.
func TestCheckSaysWhatItLeftOut(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	const without = "all checks passed but ONNX's own cases: set WEIR_ONNX_TESTDATA, or let pip " +
		"reach its registry"
	const long = "the binary for arm64 does not run, in the long check"
	const cluster = "a real Kubernetes finds a fault"
	const hours = "what takes hours has the time, in the long check"
	for _, e := range []struct {
		name, python, tool string // what the commands do
		quick, data        bool
		code               int
		last               string // of what is printed, when all is well
	}{
		{"no registry", "exit 3", "test $WEIR_ONNX_TESTDATA = off", true, false, 3, without},
		{"no registry, in full", "exit 3", "exit 0", false, false, 3, without},
		{"cases of the registry", "echo /cases", "test $WEIR_ONNX_TESTDATA = /cases", true, false,
			0, "all checks passed"},
		{"cases of the environment", "exit 1", "exit 0", true, true, 0, "all checks passed"},
		{"another package", "exit 1", "exit 0", true, false, 1, ""},
		{"a check fails", "exit 3", "exit 1", true, false, 1, ""},
		{"tests beside other steps fail", "exit 3", `case "$*" in *TestParity*) exit 7; esac`, true,
			false, 7, ""},
		{"tests without GPU discovery fail", "exit 3", `case "$*" in *nogpu*-run*) exit 6; esac`,
			true, false, 6, ""},
		{long, "exit 3", `case "$*" in *digits*) exit 8; esac`, true, false, 8, ""},
		{"an emulated test fails", "exit 3", "exit 0", true, false, 9, ""},
		{"outputs differ", "exit 5", "exit 0", false, true, 5, ""},
		{cluster, "exit 0", "exit 0", false, true, 1, ""},
		{hours, "exit 0", `case "$WEIR_LONG $*" in
			*"-timeout 6h"*"./internal/shim "*) exit 11 ;;
			*"-timeout 6h"*) ;;
			1*TestParity* | 1*-count=1*"./internal/shim "*) exit 7
			esac`, false, true, 11, ""},
		{"fuzzing fails", "exit 0", `case "$*" in *FuzzPage*) exit 4; esac`, false, true, 4, ""},
	} {
		t.Run(e.name, func(t *testing.T) {
			dir := t.TempDir()
			script, err := os.ReadFile("check")
			if err != nil {
				t.Fatal(err)
			}
			command(t, filepath.Join(dir, "weir"), "check", string(script))
			command(t, filepath.Join(dir, "weir", "deploy"), "flags.sh", "#!"+bash)
			bin := filepath.Join(dir, "bin")
			command(t, bin, "python3", "#!"+bash+"\n[ \"$1\" != -m ] || exit 0\n"+e.python)
			command(t, filepath.Join(dir, "weir", "gpu"), "check.sh", "#!"+bash+"\n"+e.tool)
			command(t, filepath.Join(dir, "weir", "deploy"), "static.sh", "#!"+bash)
			command(t, filepath.Join(dir, "weir", "kube", "e2e"), "run",
				"#!"+bash+"\nexit ${CLUSTER:-3}")
			command(t, filepath.Join(dir, "weir", "internal", "cputest"), "arm64.sh",
				"#!"+bash+"\n[ \"$1\" != \"$FAIL\" ] || exit 9")
			for _, name := range []string{"go", "git", "gofmt", "xargs", "gcc", "qemu-aarch64"} {
				command(t, bin, name, "#!"+bash+"\n"+e.tool)
			}
			cmd := exec.Command(bash, filepath.Join(dir, "weir", "check"))
			cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "CC=gcc"}
			if e.quick {
				cmd.Env = append(cmd.Env, "WEIR_CHECK_QUICK=1")
			}
			if e.name == long || e.name == cluster || e.name == hours {
				cmd.Env = append(cmd.Env, "WEIR_LONG=1")
			}
			if e.name == cluster {
				cmd.Env = append(cmd.Env, "CLUSTER=1")
			}
			if e.code == 9 {
				cmd.Env = append(cmd.Env, "SHARD=2/20", "FAIL=suite")
			}
			browser := "off"
			if e.data {
				browser = "chromium"
			}
			cmd.Env = append(cmd.Env, "WEIR_CHROMIUM="+browser)
			if e.data {
				cmd.Env = append(cmd.Env, "WEIR_ONNX_TESTDATA=/cases", "EMULATOR=off")
			}
			out, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != e.code {
				t.Errorf("exit code %d, want %d:\n%s", got, e.code, out)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if end := lines[len(lines)-1]; e.last != "" &&
				!strings.HasPrefix(end, "== "+e.last+" (at ") {
				t.Errorf("the last line is %q, want %q", end, e.last)
			}
			if end := lines[max(0, len(lines)-4):]; e.last != "" && e.data ==
				strings.Contains(strings.Join(end, "\n"), "left out: the pages in a browser. ") {
				t.Errorf("with the browser %s the last lines are %q", browser, end)
			}
			if end := lines[max(0, len(lines)-4):]; e.last != "" && e.data !=
				strings.Contains(strings.Join(end, "\n"), "left out: all of arm64 but ") {
				t.Errorf("where there is an emulator: %v, the last lines are %q", !e.data, end)
			}
			left := strings.Contains(string(out), "race detector and comparison left out")
			if left != (e.quick && e.last != "") {
				t.Errorf("says that parts are left out: %v", left)
			}
		})
	}
}

// command writes a file that can be run.
func command(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
