package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/nvml"
	"github.com/weirgpu/weir/plan/cache"
)

// TestDoctor holds that every check has a verdict, what is no ok a next step, and lines fit.
func TestDoctor(t *testing.T) {
	t.Setenv("WEIR_RUNTIME_DIR", filepath.Join(t.TempDir(), "none"))
	m := done(t, "doctor", "--json").object(t, "version", "limits", "checks", "problems")
	seen := map[string]bool{}
	for _, x := range m["checks"].([]any) {
		f := x.(map[string]any)
		seen[f["check"].(string)] = true
		if f["what"] == "" || f["verdict"] != "ok" && f["next"] == nil {
			t.Errorf("got %v", f)
		}
	}
	for _, check := range []string{"processor", "instructions", "limits", "cores", "memory",
		"plan cache", "C compiler", "agent"} {
		if !seen[check] {
			t.Errorf("%s is not looked at", check)
		}
	}
}

// TestDoctorFindsProblems holds that what is wrong with the folders of plans and of the agent makes
// exit code 1 and names the variable that mends it.
func TestDoctorFindsProblems(t *testing.T) {
	plans := t.TempDir()
	if err := os.Chmod(plans, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv(cache.EnvDir, plans)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_RUNTIME_DIR", file)
	c := weir(t, "doctor")
	if c.code != 1 || !strings.Contains(c.talk, "2 of ") {
		t.Errorf("exit code %d, %q", c.code, c.talk)
	}
	for _, want := range []string{"chmod go-w", cache.EnvDir, "WEIR_RUNTIME_DIR"} {
		if !strings.Contains(c.out, want) {
			t.Errorf("no %s in %s", want, c.out)
		}
	}
}

// TestDoctorOnOtherMachines holds the verdicts on what this machine does not have.
func TestDoctorOnOtherMachines(t *testing.T) {
	gpu := device.Info{ID: "cuda:0", Name: "Example GPU", MemoryBytes: 79 << 30,
		Driver: &device.Driver{Version: "615.10", CUDA: "13.4"}}
	mig := gpu
	mig.MIGEnabled = true
	limits := gpu
	limits.Driver = &device.Driver{Version: "615.10", MemoryLimit: true}
	small := device.Info{MemoryBytes: 512 << 20}
	for _, c := range []struct {
		got  []finding
		want verdict
		says string
	}{
		{gpuFindings([]device.Info{gpu}, nil), noted, "615.10, CUDA 13.4"},
		{limitFindings([]device.Info{gpu}, true, true), noted, "615.10 has no limit"},
		{limitFindings([]device.Info{limits}, true, false), noted, "groups of version 2"},
		{limitFindings([]device.Info{limits}, false, true), noted, "weir agent as root"},
		{limitFindings([]device.Info{limits}, true, true), fine, "to themselves"},
		{gpuFindings([]device.Info{mig}, nil), noted, "MIG"},
		{gpuFindings(nil, nvml.ErrNotBuilt), noted, "nogpu"},
		{gpuFindings(nil, nvml.ErrNoDriver), noted, "--fake-gpu"},
		{gpuFindings(nil, errors.New("GPU is lost")), problem, "GPU is lost"},
		{groupFindings(cpu.Limits{Cores: 1.5}, 8, &small), noted, "1.5 of 8 cores"},
		{groupFindings(cpu.Limits{MemoryBytes: 512 << 20}, 8, &small), noted, "512 MiB, by the"},
		{[]finding{instructionsFinding(cpuinfo.PathAVX2, "avx2")}, noted, cpuinfo.PathVariable},
		{[]finding{instructionsFinding(cpuinfo.PathAVX2, "")}, fine, "avx2"},
		{[]finding{instructionsFinding(cpuinfo.PathPlain, "")}, noted, "several times"},
	} {
		var text strings.Builder
		worst := fine
		for _, f := range c.got {
			fmt.Fprintln(&text, f)
			if f.Verdict == problem || worst == fine {
				worst = f.Verdict
			}
		}
		if worst != c.want || !strings.Contains(text.String(), c.says) {
			t.Errorf("want %s and %q, got %s", c.want, c.says, text.String())
		}
	}
}

func TestDoctorTellsKindsOfCores(t *testing.T) {
	for _, e := range []struct {
		kinds []cpuinfo.CoreKind
		want  string
	}{
		{nil, ""},
		{[]cpuinfo.CoreKind{{Cores: 8, Speed: 1}}, ""},
		{[]cpuinfo.CoreKind{{Cores: 4}, {Cores: 6}}, "; the machine's are 4 fast, 6 slower"},
		{[]cpuinfo.CoreKind{{Cores: 1, Speed: 1}, {Cores: 3, Speed: 0.75}, {Cores: 4, Speed: 0.25}},
			"; the machine's are 1 fast, 3 of 0.75 of their speed, 4 of 0.25 of their speed"},
	} {
		if got := coresSaid(e.kinds); got != e.want {
			t.Errorf("%v: %q, want %q", e.kinds, got, e.want)
		}
	}
}
