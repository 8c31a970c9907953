package weir_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// outside makes a module that is not weir's, with the examples in it, that uses weir from this
// folder. It returns its folder.
func outside(t *testing.T) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	// the same versions of all that weir needs, which are in the module cache
	text := regexp.MustCompile(`(?m)^module .*`).ReplaceAllString(string(mod),
		"module example.com/outside") + "\nrequire github.com/weirgpu/weir v0.0.0\n" +
		"\nreplace github.com/weirgpu/weir => " + here + "\n"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o666); err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob("examples/*/main.go")
	if err != nil || len(programs) < 5 {
		t.Fatalf("programs %v, %v", programs, err)
	}
	for _, file := range programs {
		to := filepath.Join(dir, filepath.Base(filepath.Dir(file)))
		if err := os.CopyFS(to, os.DirFS(filepath.Dir(file))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestExamplesOutside compiles the examples, with their tests, in a module that is not weir's and
// sees what any program sees, without the network. One that runs a model and shares no device has
// nothing of what decides who runs in it but the kinds of its errors.
func TestExamplesOutside(t *testing.T) {
	dir := outside(t)
	run := func(args ...string) string {
		c := exec.Command("go", args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("vet", "./...")
	run("build", "-o", "program", "./classify")
	symbols := run("tool", "nm", "program")
	if !strings.Contains(symbols, "weir.(*Model).Run") {
		t.Fatal("the program's symbols do not say what is in it")
	}
	for _, part := range []string{"/share/broker.New", "/share/core.New", "/share/policy.New",
		"/internal/seat.", ".NewHost"} {
		if strings.Contains(symbols, "weirgpu/weir"+part) {
			t.Errorf("a program without a Host has %s in it", part)
		}
	}
}
