package weir_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/internal/floors"
)

// goCommand is the go command for this machine without cgo, whatever this test was built for and
// with: weir needs none, and what other tests and steps of the check have compiled serves.
func goCommand(args ...string) *exec.Cmd {
	c := exec.Command("go", args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=")
	return c
}

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
	work := regexp.MustCompile(`(?m)^go .*`).FindString(string(mod)) + "\n\nuse (\n\t.\n\t" + here +
		"\n)\n"
	if err := os.WriteFile(filepath.Join(dir, "go.work"), []byte(work), 0o666); err != nil {
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
// sees what any program sees, without the network, and runs them in the order in which the README
// lists them. One that runs a model and shares no device has nothing of what decides who runs in it
// but the kinds of its errors.
//
// Where a module is required, -trimpath names its files by the version, and all of weir would be
// compiled once more. So go list finds what the examples require as a program of anybody does, and
// what compiles them is a workspace of both modules, in which weir's packages are those that the
// check has built.
func TestExamplesOutside(t *testing.T) {
	dir := outside(t)
	required := []string{"GOFLAGS=" + os.Getenv("GOFLAGS") + " -mod=mod", "GOWORK=off"}
	both := []string{"GOWORK=" + filepath.Join(dir, "go.work")}
	run := func(env []string, args ...string) string {
		c := goCommand(args...)
		c.Dir = dir
		c.Env = slices.Concat(c.Env, []string{"GOPROXY=off"}, env)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run(required, "list", "-deps", "-test", "./...")
	run(both, "vet", "./...")
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	run(both, "build", "-o", "bin/", "./...")
	symbols := run(both, "tool", "nm", "bin/classify")
	if !strings.Contains(symbols, "weir.(*Model).Run") {
		t.Fatal("the program's symbols do not say what is in it")
	}
	for _, part := range []string{"/share/broker.New", "/share/core.New", "/share/policy.New",
		"/internal/seat.", ".NewHost"} {
		if strings.Contains(symbols, "weirgpu/weir"+part) {
			t.Errorf("a program without a Host has %s in it", part)
		}
	}
	if testing.Short() {
		return
	}
	for _, name := range listedExamples(t) {
		program := exec.Command(filepath.Join(dir, "bin", name))
		if name == "serve" {
			askOutside(t, program)
			continue
		}
		if out, err := program.CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// listedExamples are the programs that the README lists, in order.
func listedExamples(t *testing.T) []string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\| \[examples/(\w+)\]`).FindAllSubmatch(readme, -1) {
		names = append(names, string(m[1]))
	}
	programs, err := filepath.Glob("examples/*/main.go")
	if err != nil || len(names) != len(programs) {
		t.Fatalf("the README lists %q of %q, %v", names, programs, err)
	}
	return names
}

// askOutside asks the server of the examples which digit an empty picture shows, and ends it.
func askOutside(t *testing.T, server *exec.Cmd) {
	t.Helper()
	server.Args = append(server.Args, "localhost:0")
	log, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(log).ReadString('\n')
	_, address, found := strings.Cut(strings.TrimSpace(line), "address=")
	if err != nil || !found {
		t.Fatalf("it says %q, %v", line, err)
	}
	pixels := `{"pixels": [0` + strings.Repeat(", 0", digits.Side*digits.Side-1) + "]}"
	answer, err := http.Post("http://"+address+"/classify", "application/json",
		strings.NewReader(pixels))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != 200 ||
		!strings.Contains(string(body), "probabilities") {
		t.Errorf("status %d, %q, %v", answer.StatusCode, body, err)
	}
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("ended by an interrupt: %v", err)
	}
}

// fetched makes a module whose program imports a package, runs the go command there with nothing
// in its cache, and returns the modules that it has downloaded: their sources, not go.mod alone.
func fetched(t *testing.T, imported string, args ...string) []string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	has, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	proxy := filepath.Join(strings.TrimSpace(string(has)), "cache", "download")
	if _, err := os.Stat(proxy); err != nil {
		t.Skipf("what weir needs is not in the module cache: %v", err)
	}
	dir, cache := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/outside\n\ngo 1.26.0\n\nrequire github.com/weirgpu/weir " +
			"v0.0.0\n\nreplace github.com/weirgpu/weir => " + here + "\n",
		"main.go": "package main\n\nimport _ \"" + imported + "\"\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOMODCACHE="+cache, "GOPROXY=file://"+filepath.ToSlash(proxy),
		"GOSUMDB=off", "GOFLAGS=-modcacherw", "GOWORK=off", "GOTOOLCHAIN=local")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	from := filepath.Join(cache, "cache", "download")
	var modules []string
	err = filepath.WalkDir(from, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".zip" {
			path, _ = filepath.Rel(from, filepath.Dir(filepath.Dir(path)))
			modules = append(modules, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

// TestDownloads holds what a program that imports weir downloads to be built: not the browser's
// driver, the command line's library, or anything else that tests, benchmarks and commands alone
// import. go mod tidy looks at the tests of what is imported, too, and at no others.
func TestDownloads(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the go command with nothing in its cache")
	}
	const (
		image    = "golang.org/x/image"
		sys      = "golang.org/x/sys"
		protobuf = "google.golang.org/protobuf"
		yaml     = "go.yaml.in/yaml/v3"
		xz       = "github.com/ulikunitz/xz"
	)
	for _, c := range []struct {
		imported string
		args     []string
		want     []string
	}{
		{floors.Module, []string{"list", "-mod=mod", "-deps"}, []string{image, sys, protobuf}},
		{floors.Module + "/scenario", []string{"list", "-mod=mod", "-deps"},
			[]string{yaml, image, sys, protobuf}},
		{floors.Module, []string{"mod", "tidy"}, []string{xz, yaml, image, sys, protobuf}},
	} {
		if got := fetched(t, c.imported, c.args...); !slices.Equal(got, c.want) {
			t.Errorf("importing %s, go %s downloads %q, want %q", c.imported,
				strings.Join(c.args, " "), got, c.want)
		}
	}
}
