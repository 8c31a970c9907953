package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// notRun are the beginnings of printed lines that no test runs, and why. TestPrintedCommands holds
// their commands and flags all the same.
var notRun = []struct{ line, why string }{
	{"./check", "runs this test"},
	{"deploy/static.sh ", "go run ./bench/binary, a step of the check, builds it"},
	{"systemctl ", "changes the user's services"},
	{"loginctl ", "needs root"},
	{"weir up ", "serves until it is ended: TestUp"},
	{"weir train recipe.yaml --processes ", "TestTrainProcesses has a recipe with shards"},
	{"weir job ", "asks a server with a state: TestJobRun"},
	{"podman ", "needs podman: TestImage reads the image"},
	{"helm ", "needs a cluster: TestManifests, in kube/node, reads the chart"},
	{"kubectl ", "needs a cluster: TestManifests, in kube/node, reads what it applies"},
	{"go test ./kube/dra ", "a step of the check runs them"},
	{"WEIR_LONG=1 go test ", "takes minutes"},
	{"kube/node/check", "takes minutes: the long check runs it"},
	{"kube/e2e/", "takes minutes: the long check runs it"},
	{"cd kube/scheduler ", "takes minutes: the long check builds it"},
	{"weir-scheduler ", "needs a cluster: the check of kube/scheduler starts it"},
	{"kube/scheduler/check", "takes minutes: the long check runs it"},
	{"export WEIR_SERVER=", "TestPrintedAccounts sets it"},
	{"weir account ", "TestPrintedAccounts"},
	{"weir audit ", "TestPrintedAccounts"},
	{"weir backup ", "TestPrintedAccounts"},
	{"weir restore ", "TestPrintedAccounts"},
	{"weir model ls", "TestModelLife"},
	{"weir model push ", "TestModelLife"},
	{"weir model rollback ", "TestModelLife"},
	{"weir model unload ", "TestModelLife"},
	{"curl localhost:8000/v2/models/NAME/generate ", "TestGenerate, of package server"},
	{"curl localhost:8000/v2/models/NAME/infer -H", "TestUpSteps"},
	{"weir bench http://", "TestBenchServer"},
	{"weir bench grpc://", "TestBenchServer"},
}

// onGPU are the beginnings of printed lines that need a GPU, which TestPrintedSharesRun runs on the
// simulated one.
var onGPU = []string{"weir exec ", "weir agent ", "weir set ", "weir policy ", "weir freeze ",
	"weir thaw ", "weir top", "mpirun ", "nvidia-cuda-mps-control "}

func needsGPU(line string) bool { return begins(line, onGPU) }

func begins(line string, with []string) bool {
	return slices.ContainsFunc(with, func(s string) bool { return strings.HasPrefix(line, s) })
}

// slowLines take minutes: they run where WEIR_LONG is set.
var slowLines = []string{"weir demo"}

// longLines are the beginnings of printed lines that last as long as the scenario says, most of it
// without work, and that no later line needs: those run in the meantime.
var longLines = []string{"weir share "}

// TestPrintedCommandsRun runs the blocks of shell commands of README, docs and examples as they are
// printed, one page after the other, in a folder that has the examples, with the program that the
// first of them installs.
func TestPrintedCommandsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program, and runs it for seconds")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	err = os.Symlink(filepath.Join(top, "examples"), filepath.Join(dir, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GOBIN="+bin, "PATH="+bin+":"+os.Getenv("PATH"), "TERM=dumb",
		"WEIR_CACHE="+filepath.Join(dir, "plans"))
	ran := 0
	var long sync.WaitGroup
	defer long.Wait()
	for _, page := range printedPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range shellLines(string(text)) {
			if skipped(line) || needsGPU(line) {
				continue
			}
			c := exec.CommandContext(t.Context(), bash, "-c", line)
			c.Dir, c.Env = dir, env
			if strings.HasPrefix(line, "go ") { // which is for the module
				c.Dir = top
			}
			run := func() {
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("%s: %s: %v\n%s", filepath.Base(page), line, err, out)
				}
			}
			if begins(line, longLines) {
				long.Go(run)
			} else {
				run()
			}
			ran++
		}
	}
	long.Wait()
	if ran < 10 {
		t.Errorf("only %d lines were run", ran)
	}
	for _, file := range []string{"timeline.json", "page.html", "roof.html", "stages.html",
		"smaller.onnx"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s was to be made: %v", file, err)
		}
	}
}

// skipped reports whether a line is not run here.
func skipped(line string) bool {
	for _, x := range notRun {
		if strings.HasPrefix(line, x.line) {
			return true
		}
	}
	return begins(line, slowLines) && os.Getenv("WEIR_LONG") == ""
}

// TestPrintedScenario holds that the scenario which README shows is the file that it runs.
func TestPrintedScenario(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	const name = "examples/scenario.yaml"
	file, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if want := "```yaml\n# " + name + "\n" + string(file) + "```\n"; !strings.Contains(
		string(readme), want) {
		t.Errorf("README does not show %s as it is: %s", name, want)
	}
}
