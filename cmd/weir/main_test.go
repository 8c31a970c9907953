package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// commandEnv makes the test binary the command.
const commandEnv = "WEIR_TEST_COMMAND"

// TestMain lets the test binary be the command, which the mode processes starts again for each job.
func TestMain(m *testing.M) {
	if os.Getenv(cache.EnvDir) == "" { // tests leave the user's cache alone
		os.Setenv(cache.EnvDir, "off")
	}
	if os.Getenv(commandEnv) != "" || len(os.Args) > 1 && os.Args[1] == "debug" {
		main()
	}
	os.Exit(m.Run())
}

// called is what one command line did.
type called struct {
	code      int
	out, talk string
	args      []string // nil: not known
}

// weir runs a command line in this process.
func weir(t testing.TB, args ...string) called {
	t.Helper()
	var out, talk bytes.Buffer
	code := execute(t.Context(), args, strings.NewReader(""), &out, &talk)
	return called{code, out.String(), talk.String(), args}
}

// done runs a command line that must succeed.
func done(t testing.TB, args ...string) called {
	t.Helper()
	c := weir(t, args...)
	if c.code != 0 {
		t.Fatalf("weir %s: exit code %d: %s", strings.Join(args, " "), c.code, c.talk)
	}
	return c
}

// object reads the one JSON object that standard output must hold, with the keys that scripts rely
// on, and no field that the reference does not list.
func (c called) object(t testing.TB, keys ...string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(c.out))
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%v in %q", err, c.out)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		t.Errorf("more than one object in %q", c.out)
	}
	for _, k := range keys {
		if _, ok := m[k]; !ok {
			t.Errorf("no %s in %s", k, c.out)
		}
	}
	if command, _, err := documented().Find(c.args); err == nil && len(c.args) > 0 {
		for _, field := range undocumented(t, command.CommandPath(), m) {
			t.Errorf("%s prints %s, which docs/reference.md does not list", command.CommandPath(),
				field)
		}
	}
	return m
}

// digitsFile is the trained classifier as a file.
func digitsFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "digits.onnx")
	if err := os.WriteFile(path, digits.Model, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// modelFile writes a graph in the form of graph.Print as a model.
func modelFile(t testing.TB, text string, o onnx.WriteOptions) string {
	t.Helper()
	g, err := graph.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := onnx.WriteFile(path, g, o); err != nil {
		t.Fatal(err)
	}
	return path
}

func npyFile(t testing.TB, x *tensor.Tensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := writeNPY(path, x); err != nil {
		t.Fatal(err)
	}
	return path
}

func readNPY(t testing.TB, path string) *tensor.Tensor {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, err := npy.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

const (
	// dense has a batch and a weight.
	dense = `graph "dense" {
  opset "" 17
  input %x: float32[N,4]
  const %w: float32[4,2] = {1, 2, 3, 4, 5, 6, 7, 8}
  %y: float32[N,2] = MatMul@13 "product" (%x, %w)
  output %y
}`
	// lookup fails on indices outside of its table.
	lookup = `graph "lookup" {
  opset "" 17
  input %i: int64[2]
  const %table: float32[4] = {1, 2, 3, 4}
  %y: float32[2] = Gather@13 "find" (%table, %i) {axis=0}
  output %y
}`
	unknownOperator = `graph "odd" {
  opset "" 17
  input %x: float32[4]
  %y: float32[4] = Frobnicate@17 "odd one" (%x)
  output %y
}`
	openSizes = `graph "open" {
  opset "" 17
  input %x: float32[N,M]
  %y: float32[N,M] = Identity@16 "copy" (%x)
  output %y
}`
	hugeInput = `graph "huge" {
  opset "" 17
  input %x: float32[1152921504606846976]
  %y: float32[1152921504606846976] = Relu@14 "act" (%x)
  output %y
}`
)

// large has a weight of 16 KiB, which a file may keep outside of itself.
func large() string {
	return `graph "large" {
  opset "" 17
  input %x: float32[1,64]
  const %w: float32[64,64] = {` + strings.Repeat("1, ", 64*64-1) + `2}
  %y: float32[1,64] = MatMul@13 "product" (%x, %w)
  output %y
}`
}

// files are models, inputs and scenarios, most of them wrong in one way.
type wrongFiles struct {
	dir                                                                   string
	good, truncated, garbage, empty, unknown, huge, external, dense, open string // models
	wide, ints                                                            string // inputs of dense
	badKey, noModel, badModel, fine                                       string // scenarios
}

func newWrongFiles(t *testing.T) *wrongFiles {
	t.Helper()
	f := &wrongFiles{dir: t.TempDir(), good: digitsFile(t)}
	write := func(name string, data []byte) string {
		path := filepath.Join(f.dir, name)
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f.truncated = write("truncated.onnx", digits.Model[:len(digits.Model)/2])
	f.garbage = write("garbage.onnx", []byte("this is no model at all"))
	f.empty = write("empty.onnx", nil)
	f.unknown = modelFile(t, unknownOperator, onnx.WriteOptions{})
	f.huge = modelFile(t, hugeInput, onnx.WriteOptions{})
	f.external = modelFile(t, large(), onnx.WriteOptions{MaxInline: 1})
	if err := os.Remove(f.external + ".data"); err != nil {
		t.Fatal(err)
	}
	f.dense = modelFile(t, dense, onnx.WriteOptions{})
	f.open = modelFile(t, openSizes, onnx.WriteOptions{})
	f.wide = npyFile(t, tensor.From(make([]float32, 10), 2, 5))
	f.ints = npyFile(t, tensor.From(make([]int64, 8), 2, 4))
	f.badKey = write("key.yaml",
		[]byte("duration: 1s\njobs:\n  - {name: a, model: digits.onnx, arival: 3}\n"))
	f.noModel = write("nomodel.yaml",
		[]byte("duration: 1s\njobs:\n  - {name: train-7, model: none.onnx}\n"))
	f.badModel = write("badmodel.yaml",
		[]byte("duration: 1s\njobs:\n  - {name: train-7, model: truncated.onnx}\n"))
	f.fine = write("fine.yaml",
		[]byte("duration: 100ms\njobs:\n  - {name: a, model: "+f.good+"}\n"))
	return f
}

// wrongLine is a command line that cannot be carried out, and what the error must tell.
type wrongLine struct {
	args []string
	want []string
}

func wrongModelLines(f *wrongFiles) []wrongLine {
	return []wrongLine{
		{[]string{"nope"}, []string{`unknown command "nope"`, "weir --help"}},
		{[]string{"bnech"}, []string{`unknown command "bnech"`, "did you mean bench?"}},
		{[]string{"model", "nwe"}, []string{`"weir model"`, "did you mean new?"}},
		{[]string{"completion", "fishh"}, []string{"did you mean fish?"}},
		{[]string{"help", "rnu"}, []string{`unknown help topic "rnu"`, "did you mean run?"}},
		{[]string{"help", "model", "nope"}, []string{`"model nope"`, "weir model --help"}},
		{[]string{"run"}, []string{"run MODEL", "--help"}},
		{[]string{"run", f.good, "more"}, []string{"2 arguments", "run MODEL"}},
		{[]string{"run", "--bogus", f.good}, []string{"unknown flag: --bogus", "weir run --help"}},
		{[]string{"bench", "--thread", "2", f.good}, []string{"did you mean --threads?"}},
		{[]string{"bench", "--rnus", "2", f.good}, []string{"--rnus", "did you mean --runs?"}},
		{[]string{"run", "-q", f.good}, []string{"unknown shorthand flag: 'q'"}},
		{[]string{"bench", "--runs", "x", f.good}, []string{"--runs", `"x"`}},
		{[]string{"bench", "--runs", "0", f.good}, []string{"--runs 0"}},
		{
			[]string{"bench", "--precision", "int4", f.good},
			[]string{`--precision "int4"`, "want fp32, bf16 or auto"},
		},
		{[]string{"run", "--threads", "-3", f.good}, []string{"--threads -3"}},
		{[]string{"run", "--device", "cuda:0", f.good}, []string{"--device cuda:0", "cpu:0"}},
		{[]string{"run", "--memory", "4XB", f.good}, []string{"--memory", "512MiB"}},
		{[]string{"run", "--memory", "8", f.good}, []string{"--memory", "no unit", "8GiB"}},
		{[]string{"set", "a", "--memory", "8"}, []string{"--memory", "no unit", "8GiB"}},
		{
			[]string{"run", "--memory", "1KiB", f.good},
			[]string{f.good, "needs", "--memory 1KiB", "raise"},
		},
		{
			[]string{"bench", "--memory", "1KiB", f.good},
			[]string{f.good, "needs", "--memory 1KiB", "raise"},
		},
		{[]string{"run", filepath.Join(f.dir, "none.onnx")}, []string{"none.onnx", "no such file"}},
		{[]string{"run", f.truncated}, []string{f.truncated}},
		{[]string{"bench", f.garbage}, []string{f.garbage}},
		{[]string{"inspect", f.empty}, []string{f.empty}},
		{[]string{"optimize", f.garbage, filepath.Join(f.dir, "out.onnx")}, []string{f.garbage}},
		{[]string{"run", f.unknown}, []string{f.unknown, "Frobnicate", "odd one"}},
		{[]string{"bench", f.unknown}, []string{f.unknown, "Frobnicate", "odd one"}},
		{[]string{"inspect", f.unknown}, []string{f.unknown, "Frobnicate", "odd one"}},
		{[]string{"run", f.huge}, []string{f.huge}},
		{
			[]string{"inspect", "--shape", "image=1152921504606846976x1x8x8", f.good},
			[]string{f.good, "image"},
		},
		{
			[]string{"run", "--shape", "x=1048576x1048576", f.open},
			[]string{f.open, "needs 8TiB", "inputs of 4TiB", "cpu:0 has", "--shape"},
		},
		{[]string{"run", f.external}, []string{f.external, "model.onnx.data"}},
		{[]string{"run", "--shape", "image", f.good}, []string{"--shape image", "NAME=VALUE"}},
		{[]string{"run", "--shape", "image=1x", f.good}, []string{"--shape image", "1x3x224x224"}},
		{[]string{"run", "--shape", "image=1x1x9x9", f.good}, []string{f.good, "image", "9"}},
		{[]string{"run", "--shape", "imige=1x1x8x8", f.good}, []string{f.good, "imige", "image"}},
		{[]string{"run", "--shape", "x=1x4", "--shape", "x=2x4", f.dense}, []string{"given twice"}},
		{
			[]string{"run", "--input", "x=" + f.wide, f.dense},
			[]string{f.dense, `"x"`, "[2 5]", "[N,4]"},
		},
		{
			[]string{"run", "--input", "x=" + f.ints, f.dense},
			[]string{f.dense, `"x"`, "int64", "float32[N,4]"},
		},
		{
			[]string{"run", "--input", "z=" + f.ints, f.dense},
			[]string{f.dense, `"z"`, "it takes x"},
		},
		{[]string{"run", "--input", "x=" + f.garbage, f.dense}, []string{f.garbage, ".npy"}},
		{[]string{"run", "--input", "x=none.npy", f.dense}, []string{"none.npy"}},
	}
}

func wrongOtherLines(f *wrongFiles) []wrongLine {
	return []wrongLine{
		{[]string{"inspect", "--dump", "pdf", f.good}, []string{"--dump pdf", "text"}},
		{[]string{"inspect", "--dump", "text", "--json", f.good}, []string{"--json", "choose"}},
		{
			[]string{"inspect", "--dump", "text", "--pass", "nope", f.good},
			[]string{"--pass nope", "all"},
		},
		{[]string{"inspect", "--shape", "nope=1", f.good}, []string{f.good, "nope"}},
		{[]string{"optimize", f.good}, []string{"optimize IN OUT"}},
		{
			[]string{"optimize", "--off", "nope", f.good, filepath.Join(f.dir, "o.onnx")},
			[]string{"nope"},
		},
		{[]string{"verify"}, []string{"--help"}},
		{[]string{"verify", f.dir}, []string{"test cases"}},
		{[]string{"verify", filepath.Join(f.dir, "none")}, []string{"none"}},
		{
			[]string{"model", "new", "resnet51", filepath.Join(f.dir, "x.onnx")},
			[]string{"resnet51", "resnet50"},
		},
		{[]string{"share", filepath.Join(f.dir, "none.yaml")}, []string{"none.yaml"}},
		{[]string{"share", f.badKey}, []string{f.badKey, "line 3", "arival", "arrival"}},
		{[]string{"share", f.noModel}, []string{"train-7", "none.onnx"}},
		{[]string{"share", f.badModel}, []string{"train-7", "truncated.onnx"}},
		{
			[]string{"share", "--policy", "nice", f.fine},
			[]string{"nice", "fair", "fifo", "priority", "timeslice"},
		},
		{
			[]string{"share", "--compare", "boats", f.fine},
			[]string{"boats", "threads", "processes"},
		},
		{[]string{"share", "--duration", "-1s", f.fine}, []string{"negative"}},
		{[]string{"share", "--device", "tpu:0", f.fine}, []string{"tpu:0", "cpu:0"}},
		{[]string{"share", "--device", "", f.fine}, []string{"--device is empty"}},
		{[]string{"simulate", "--policy", "", f.fine}, []string{"--policy is empty"}},
		{[]string{"demo", "--duration", "1ms"}, []string{"--duration 1ms"}},
		{
			[]string{
				"demo",
				"--output",
				f.dir,
				"--model",
				"a",
				"--model",
				"b",
				"--model",
				"c",
				"--model",
				"d",
			},
			[]string{"4 models", "3 jobs"},
		},
		{[]string{"demo", "--output", f.dir, "--model", f.garbage}, []string{f.garbage}},
		{[]string{"device", "lst"}, []string{"lst"}},
	}
}

// TestWrongCommandLines holds that what is wrong on the command line or in a file gives exit code 2
// and one line on standard error that names it and says what to do, whatever the command.
func TestWrongCommandLines(t *testing.T) {
	f := newWrongFiles(t)
	for _, c := range append(wrongModelLines(f), wrongOtherLines(f)...) {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			got := weir(t, c.args...)
			if got.code != 2 {
				t.Errorf("exit code %d, want 2", got.code)
			}
			lines := strings.Split(strings.TrimSuffix(got.talk, "\n"), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "weir: ") || strings.Count(got.talk, "weir: ") != 1 {
				t.Errorf("want one line that begins with weir, got %q", got.talk)
			}
			for _, part := range c.want {
				if !strings.Contains(last, part) {
					t.Errorf("%q is missing in %q", part, last)
				}
			}
			if len(last) > 700 {
				t.Errorf("%d characters are no clear line: %q", len(last), last)
			}
		})
	}
}

// TestStopped holds that a signal makes an exit code of 128 and its number, whatever ran.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&stopped{syscall.SIGTERM})
	dir := t.TempDir()
	s := filepath.Join(dir, "s.yaml")
	if err := os.WriteFile(s, []byte("duration: 1h\njobs: [{name: a, model: "+digitsFile(t)+"}]\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"share", s}, {"demo", "--output", dir},
		{"run", digitsFile(t)}} {
		var out, talk bytes.Buffer
		if code := execute(ctx, args, nil, &out, &talk); code != 143 ||
			!strings.HasSuffix(talk.String(), "weir: stopped\n") {
			t.Errorf("%v: exit code %d, %q", args, code, talk.String())
		}
	}
}

// fewLooks is a context that a signal ends once it was asked often enough whether it has ended.
type fewLooks struct {
	context.Context
	left atomic.Int64
	end  context.CancelCauseFunc
}

func (c *fewLooks) Err() error {
	if c.left.Add(-1) == 0 {
		c.end(&stopped{os.Interrupt})
	}
	return c.Context.Err()
}

// TestInterruptedBench holds that what was measured until Ctrl-C is shown.
func TestInterruptedBench(t *testing.T) {
	inner, end := context.WithCancelCause(t.Context())
	ctx := &fewLooks{Context: inner, end: end}
	ctx.left.Store(20000)
	var out, talk bytes.Buffer
	code := execute(ctx, []string{"bench", digitsFile(t), "--runs", "1000000000", "--warmup", "0",
		"--json"}, nil, &out, &talk)
	m := called{code, out.String(), talk.String(), nil}.object(t)
	n, median := m["runs"].(float64), m["median_ms"].(float64)
	if code != 130 || n < 1 || n > 20000 || median <= 0 {
		t.Errorf("exit code %d, %v runs, %q", code, n, talk.String())
	}
}

// TestInterrupt sends the command the signals that Ctrl-C and a supervisor send while jobs run.
func TestInterrupt(t *testing.T) {
	t.Run("Ctrl-C", func(t *testing.T) { interrupt(t, os.Interrupt, 130) })
	t.Run("SIGTERM", func(t *testing.T) { interrupt(t, syscall.SIGTERM, 143) })
}

func interrupt(t *testing.T, signal os.Signal, code int) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(s, []byte("duration: 1h\njobs: [{name: a, model: "+digitsFile(t)+"}]\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe, "share", "--no-solo", "--json", s)
	c.Env = append(os.Environ(), commandEnv+"=1")
	var out bytes.Buffer
	c.Stdout = &out
	talk, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var last string
	for lines := bufio.NewScanner(talk); lines.Scan(); {
		if last = lines.Text(); strings.HasPrefix(last, "together") {
			if err := c.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != code ||
		last != "weir: stopped" ||
		out.Len() > 0 {
		t.Errorf("%v, %q, %q", err, last, out.String())
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestLostOutput holds that a result which does not arrive makes exit code 1, whatever its form.
func TestLostOutput(t *testing.T) {
	model := digitsFile(t)
	for _, args := range [][]string{{"run", model}, {"run", model, "--json"}, {"inspect", model},
		{"inspect", model, "--dump", "html"},
		{"optimize", model, model}, {"device", "list", "--json"}, {"help"}} {
		var talk bytes.Buffer
		if code := execute(t.Context(), args, nil, full{}, &talk); code != 1 ||
			!strings.Contains(talk.String(), "no space left") {
			t.Errorf("%v: exit code %d, %q", args, code, talk.String())
		}
	}
}

// TestOutputThatCannotBeWritten holds that a wrong path is told before the jobs run, not after.
func TestOutputThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none", "file")
	for _, args := range [][]string{{"share", "--trace"}, {"share", "--html"}, {"simulate",
		"--html"}} {
		c := weir(t, append(args, file, scenarioFile(t, "64MiB", 0, 3))...)
		if c.code != 2 || strings.Contains(c.talk, "compiling") || !strings.Contains(c.talk, file) {
			t.Errorf("%q: exit code %d, %q", args, c.code, c.talk)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"model"}, {"device"}, {"run", "--help"},
		{"share", "--help"}, {"help", "model", "new"}, {"help", "run"}, {"completion"}} {
		if c := done(t, args...); !strings.Contains(c.out, "Usage:") {
			t.Errorf("%v: %q", args, c.out)
		}
	}
}

func TestDeviceList(t *testing.T) {
	m := done(t, "device", "list", "--json").object(t, "devices")
	d := m["devices"].([]any)[0].(map[string]any)
	if d["id"] != "cpu:0" || d["memory_bytes"].(float64) <= 0 || d["units"].(float64) < 1 {
		t.Errorf("the device is %v", d)
	}
	if c := done(t, "device", "list"); !strings.HasPrefix(c.out, "cpu:0  ") {
		t.Errorf("got %q", c.out)
	}
}

// TestCompletion asks as the shells do.
func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"run", ""}, []string{"onnx", ":8"}},
		{[]string{"share", ""}, []string{"yaml", "yml", ":8"}},
		{[]string{"share", "--policy", ""},
			[]string{"fair", "fifo", "priority", "timeslice", ":4"}},
		{[]string{"share", "--compare", ""}, []string{"threads", "processes"}},
		{[]string{"help", ""}, []string{"run", "model", ":4"}},
		{[]string{"help", "model", ""}, []string{"new", ":4"}},
		{[]string{"model", "new", ""}, []string{"resnet50", "gpt2", ":4"}},
		{[]string{"model", "new", "resnet50", ""}, []string{":0"}},
		{[]string{"inspect", "--dump", ""}, []string{"text", "dot", "html"}},
		{[]string{"inspect", "--pass", ""}, []string{"all", "fold"}},
		{[]string{"bench", "--precision", ""}, []string{"fp32", "bf16", "auto"}},
	} {
		got := done(t, append([]string{"__complete"}, c.args...)...)
		for _, want := range c.want {
			if !strings.Contains("\n"+got.out, "\n"+want) {
				t.Errorf("%v: no %s in %q", c.args, want, got.out)
			}
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if c := done(t, "completion", shell); !strings.Contains(c.out, "weir") {
			t.Errorf("%s: %q", shell, c.out)
		}
	}
}
