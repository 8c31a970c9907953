package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// TestRun computes a product from a .npy file and holds what comes out, on standard output and as a
// file.
func TestRun(t *testing.T) {
	model := modelFile(t, dense, onnx.WriteOptions{})
	x := npyFile(t, tensor.From([]float32{1, 0, 0, 0, 0, 1, 0, 1}, 2, 4))
	dir := filepath.Join(t.TempDir(), "made", "for", "it")
	c := done(t, "run", model, "--input", "x="+x, "--output", dir, "--json")
	m := c.object(t, "outputs", "load_ms", "run_ms")
	o := m["outputs"].([]any)[0].(map[string]any)
	file := filepath.Join(dir, "y.npy")
	if o["name"] != "y" || o["dtype"] != "float32" || fmt.Sprint(o["shape"]) != "[2 2]" ||
		o["file"] != file {
		t.Errorf("the output is %v", o)
	}
	if c.talk != "" {
		t.Errorf("talk with everything given: %q", c.talk)
	}
	y := readNPY(t, file)
	if !slices.Equal(y.Shape, []int{2, 2}) ||
		!slices.Equal(tensor.As[float32](y), []float32{1, 2, 10, 12}) {
		t.Errorf("y is %v %v", y.Shape, tensor.As[float32](y))
	}
	if c := done(
		t,
		"run",
		model,
		"--input",
		"x="+x,
	); !strings.HasPrefix(
		c.out,
		"y\tfloat32\t[2 2]\t1 2 10 12",
	) {
		t.Errorf("got %q", c.out)
	}
}

// TestRunMadeUpInputs holds that inputs which are not given follow the seed, and that this is said.
func TestRunMadeUpInputs(t *testing.T) {
	model := modelFile(t, dense, onnx.WriteOptions{})
	run := func(seed, shape string) (string, *tensor.Tensor) {
		dir := t.TempDir()
		c := done(
			t,
			"run",
			model,
			"--seed",
			seed,
			"--shape",
			"x="+shape,
			"--output",
			dir,
			"--threads",
			"1",
		)
		return c.talk, readNPY(t, filepath.Join(dir, "y.npy"))
	}
	talk, a := run("1", "3x4")
	_, b := run("1", "3x4")
	_, c := run("2", "3x4")
	if !strings.Contains(talk, "made up: x") || !strings.Contains(talk, "seed 1") {
		t.Errorf("talk is %q", talk)
	}
	if !slices.Equal(a.Shape, []int{3, 2}) || !bytes.Equal(a.Data, b.Data) ||
		bytes.Equal(a.Data, c.Data) {
		t.Errorf("outputs are %v %v %v", a.Shape, a.Data, c.Data)
	}
}

// TestRunMemory holds that a cap covers the plan and the inputs beside it, to the byte.
func TestRunMemory(t *testing.T) {
	m := done(t, "bench", digitsFile(t), "--runs", "1", "--warmup", "0", "--json").object(t)
	need := int64(m["plan_bytes"].(float64)) + 64*4 // an image of 8x8
	done(t, "run", digitsFile(t), "--memory", fmt.Sprintf("%dB", need))
	c := weir(t, "run", digitsFile(t), "--memory", fmt.Sprintf("%dB", need-1))
	if c.code != 2 || !strings.Contains(c.talk, "inputs of 256B") {
		t.Errorf("a byte less than %d: exit code %d, %q", need, c.code, c.talk)
	}
}

// TestRunFails holds that a wrong input file makes exit code 2, also when only the run brings it
// out, and work that fails 1.
func TestRunFails(t *testing.T) {
	model := modelFile(t, lookup, onnx.WriteOptions{})
	bad := npyFile(t, tensor.From([]int64{1, 9}, 2))
	for _, command := range []string{"run", "bench"} {
		if c := weir(
			t,
			command,
			model,
			"--input",
			"i="+bad,
		); c.code != 2 || !strings.Contains(c.talk, model) ||
			!strings.Contains(c.talk, "9") {
			t.Errorf("%s: exit code %d, %q", command, c.code, c.talk)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if c := weir(
		t,
		"run",
		model,
		"--output",
		file,
	); c.code != 1 ||
		!strings.Contains(c.talk, file) {
		t.Errorf("a file for a folder: exit code %d, %q", c.code, c.talk)
	}
}

// TestMadeUpShapesAreNamed holds that an error about shapes which nobody asked for says how to ask
// for others.
func TestMadeUpShapesAreNamed(t *testing.T) {
	model := modelFile(t, `graph "g" {
		opset "" 17
		input %x: float32[1,1,H,W]
		%y: float32[1,1,?,?] = MaxPool@17 (%x) {kernel_shape=[2, 2]}
		output %y
	}`, onnx.WriteOptions{})
	for _, command := range []string{"run", "bench", "inspect"} {
		if c := weir(t, command, model); c.code != 2 || !strings.Contains(c.talk, "--shape x=") {
			t.Errorf("%s: exit code %d, %q", command, c.code, c.talk)
		}
	}
	done(t, "run", model, "--shape", "x=1x1x4x4")
	if c := weir(
		t,
		"run",
		model,
		"--shape",
		"x=1x1x1x1",
	); c.code != 2 ||
		strings.Contains(c.talk, "try --shape") {
		t.Errorf("a shape that was asked for: exit code %d, %q", c.code, c.talk)
	}
}

func TestFileNames(t *testing.T) {
	for name, want := range map[string]string{"y": "y", "a/b": "a_b_3", "..": "_3", "": "",
		"ü": "__3", "a.b-c_D9": "a.b-c_D9"} {
		if got := fileName(name, 3); got != want && name != "" {
			t.Errorf("%q became %q, want %q", name, got, want)
		}
	}
}

func TestBench(t *testing.T) {
	m := done(
		t,
		"bench",
		digitsFile(t),
		"--runs",
		"5",
		"--warmup",
		"1",
		"--threads",
		"1",
		"--profile",
		"--json",
	).object(t, "median_ms", "min_ms",
		"p90_ms", "p99_ms", "load_ms", "first_output_ms", "peak_rss_bytes", "plan_bytes", "steps",
		"threads", "precision", "device")
	get := func(key string) float64 { return m[key].(float64) }
	if get("min_ms") <= 0 || get("min_ms") > get("median_ms") || get("median_ms") > get("p90_ms") ||
		get("p90_ms") > get("p99_ms") {
		t.Errorf("times are %v", m)
	}
	if m["precision"] != "fp32" || m["device"] != "cpu:0" || get("threads") != 1 ||
		get("first_output_ms") <= 0 ||
		get("plan_bytes") <= 0 {
		t.Errorf("facts are %v", m)
	}
	if n := len(m["profile"].(map[string]any)["steps"].([]any)); n != int(get("steps")) || n == 0 {
		t.Errorf("a profile of %d of %v steps", n, get("steps"))
	}
}

func TestInspect(t *testing.T) {
	m := done(
		t,
		"inspect",
		digitsFile(t),
		"--json",
	).object(t, "nodes", "operators", "parameters", "weight_bytes", "peak_bytes", "flops")
	ops := m["operators"].(map[string]any)
	var n float64
	for _, v := range ops {
		n += v.(float64)
	}
	if n != m["nodes"] || ops["Conv"] == nil || m["peak_bytes"].(float64) <= 0 ||
		m["flops"].(float64) <= 0 ||
		m["parameters"].(float64) <= 0 {
		t.Errorf("got %v", m)
	}
	if c := done(
		t,
		"inspect",
		digitsFile(t),
	); !strings.Contains(c.out, "input   image  float32[N,1,8,8]") ||
		!strings.Contains(c.out, "Conv") {
		t.Errorf("got %q", c.out)
	}
}

// TestInspectDumps prints a graph in every form, as read and after passes.
func TestInspectDumps(t *testing.T) {
	model := digitsFile(t)
	for _, c := range []struct {
		args []string
		want []string
		not  string
	}{
		{[]string{"--dump", "text"}, []string{`graph "`, "Conv@"}, "weir:Conv"},
		{[]string{"--dump", "text", "--pass", "all"}, []string{"# start", "Conv@", "weir:Conv"},
			""},
		{[]string{"--pass", "start"}, []string{`graph "`, "Conv@"}, "weir:Conv"},
		{[]string{"--dump", "exact"}, []string{"const %"}, "..."},
		{[]string{"--dump", "dot"}, []string{"digraph", "Conv"}, ""},
		{[]string{"--dump", "html", "--pass", "all"},
			[]string{"<html", "start", "</html>", "digits.onnx"}, ""},
	} {
		got := done(t, append([]string{"inspect", model}, c.args...)...)
		for _, want := range c.want {
			if !strings.Contains(got.out, want) {
				t.Errorf("%v: no %q in %.400q", c.args, want, got.out)
			}
		}
		if c.not != "" && strings.Contains(got.out, c.not) {
			t.Errorf("%v: %q in what should not have it", c.args, c.not)
		}
	}
}

// TestInspectKeepsWhatItKnows prints a graph whose plan fails, and says so.
func TestInspectKeepsWhatItKnows(t *testing.T) {
	model := modelFile(t, `graph "open" {
  opset "" 17
  input %x: float32[...]
  %y: float32[...] = Relu@14 "act" (%x)
  output %y
}`, onnx.WriteOptions{})
	c := weir(t, "inspect", model, "--json")
	m := c.object(t, "nodes", "plan_error")
	if c.code != 2 || m["nodes"] != 1.0 || !strings.Contains(c.talk, model) ||
		!strings.Contains(c.talk, "--shape x=") {
		t.Errorf("exit code %d, %v, %q", c.code, m, c.talk)
	}
}

// TestOptimize holds that what it writes has fewer nodes, loads again and computes the same.
// TestInspectUnknownOperators holds that a model with operators that weir does not have is shown
// as far as it can be, with all of them.
func TestInspectUnknownOperators(t *testing.T) {
	model := modelFile(t, `graph "own" {
		opset "" 17
		opset "com.example" 2
		input %x: float32[N,4]
		const %w: float32[4] = {1, 2, 3, 4}
		%a: float32[N,4] = com.example:Twist@2 "t1" (%x)
		%b: float32[N,4] = Mul@14 "scale" (%a, %w)
		%c: float32[N,4] = com.example:Twist@2 "t2" (%b)
		%d: float32[N,4] = com.example:Turn@2 "last" (%c)
		output %d
	}`, onnx.WriteOptions{Types: true})
	c := weir(t, "inspect", model)
	for _, want := range []string{"input   x  float32[N,4]", "nodes 4, parameters", "1  Mul",
		`unknown com.example:Twist, version 2: 2 nodes, the first "t1"`,
		`unknown com.example:Turn, version 2: 1 nodes, the first "last"`} {
		if c.code != 2 || !strings.Contains(c.out, want) {
			t.Errorf("exit code %d, %q is missing in %q", c.code, want, c.out)
		}
	}
	data, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{model, "-"} {
		var out, talk bytes.Buffer
		code := execute(t.Context(), []string{"inspect", path, "--json"}, bytes.NewReader(data),
			&out, &talk)
		c := called{code, out.String(), talk.String(), nil}
		if unknown := c.object(t)["unknown"].([]any); code != 2 || len(unknown) != 2 {
			t.Errorf("%s: exit code %d, unknown %v", path, code, unknown)
		}
	}
	if c := done(t, "inspect", model, "--dump", "text"); !strings.Contains(c.out, "Twist@2") {
		t.Errorf("drawn as %q", c.out)
	}
}

func TestOptimize(t *testing.T) {
	in, out := digitsFile(t), filepath.Join(t.TempDir(), "out.onnx")
	m := done(
		t,
		"optimize",
		in,
		out,
		"--check",
		"--json",
	).object(t, "nodes_before", "nodes_after", "passes")
	if m["nodes_after"].(float64) > m["nodes_before"].(float64) {
		t.Errorf("got %v", m)
	}
	for _, p := range m["passes"].([]any) {
		for _, key := range []string{"name", "changes", "ms"} {
			if _, ok := p.(map[string]any)[key]; !ok {
				t.Errorf("a pass without %s: %v", key, p)
			}
		}
	}
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	x := npyFile(t, tensor.From(digits.Input(images[:5]...), 5, 1, digits.Side, digits.Side))
	var results []*tensor.Tensor
	for _, model := range []string{in, out} {
		dir := t.TempDir()
		done(t, "run", model, "--input", "image="+x, "--output", dir)
		results = append(results, readNPY(t, filepath.Join(dir, "probabilities.npy")))
	}
	a, b := tensor.As[float32](results[0]), tensor.As[float32](results[1])
	for i := range a {
		if d := a[i] - b[i]; d > 1e-5 || d < -1e-5 {
			t.Fatalf("probability %d is %v, optimised %v", i, a[i], b[i])
		}
	}
	if c := done(t, "optimize", in, in); !strings.Contains(c.out, "nodes: ") {
		t.Errorf("onto itself: %q", c.out)
	}
	done(t, "run", in)
	if c := weir(t, "optimize", in, filepath.Join(in, "x.onnx")); c.code != 1 {
		t.Errorf("into a file: exit code %d, %q", c.code, c.talk)
	}
}

// TestOptimizeBelievesNoNames holds that a written model computes right what other runtimes let
// pass, sizes of one name that differ, and declares its inputs and outputs as the model did.
func TestOptimizeBelievesNoNames(t *testing.T) {
	in := modelFile(t, `graph "transposed shape" {
  opset "" 17
  input %x: float32[d,d]
  %t = Transpose@13 (%x)
  %s = Shape@15 (%t)
  %r = Reshape@14 (%x, %s)
  %y: float32[a,b] = Neg@13 (%r)
  output %y
}`, onnx.WriteOptions{})
	out := filepath.Join(t.TempDir(), "out.onnx")
	m := done(t, "optimize", in, out, "--json").object(t, "nodes_after")
	if m["nodes_after"] != 4. {
		t.Errorf("%v nodes are left, want 4", m["nodes_after"])
	}
	x := npyFile(t, tensor.From([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
	dir := t.TempDir()
	done(t, "run", out, "--input", "x="+x, "--output", dir)
	want := tensor.From([]float32{-1, -2, -3, -4, -5, -6}, 3, 2)
	if err := tensor.Close(readNPY(t, filepath.Join(dir, "y.npy")), want, 0, 0); err != nil {
		t.Error(err)
	}
	g, err := onnx.Open(out, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if x := g.Graph.Inputs[0].Type.String(); x != "float32[d,d]" {
		t.Errorf("the input is %s", x)
	}
}

// TestRunScalar gives a scalar as one element, as exporters' own examples do.
func TestRunScalar(t *testing.T) {
	model := modelFile(t, `graph "rate" {
  opset "" 17
  input %sr: int64[]
  %y = Neg@13 (%sr)
  output %y
}`, onnx.WriteOptions{})
	sr := npyFile(t, tensor.From([]int64{16000}, 1))
	if c := done(t, "run", model, "--input", "sr="+sr); !strings.Contains(c.out, "-16000") {
		t.Errorf("got %q", c.out)
	}
	two := npyFile(t, tensor.From([]int64{1, 2}, 2))
	c := weir(t, "run", model, "--input", "sr="+two)
	if want := `input "sr": bad input: given shape [2] of rank 1, the model takes int64[] of ` +
		`rank 0`; c.code != 2 || !strings.Contains(c.talk, want) {
		t.Errorf("exit code %d, %q", c.code, c.talk)
	}
}

// verifyCase writes a test case of ONNX's form whose expected output is given.
func verifyCase(t *testing.T, dir, model string, x, y *tensor.Tensor) {
	t.Helper()
	set := filepath.Join(dir, "test_data_set_0")
	if err := os.MkdirAll(set, 0o777); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(modelFile(t, model, onnx.WriteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{filepath.Join(dir, "model.onnx"): data}
	for name, v := range map[string]*tensor.Tensor{"input_0.pb": x, "output_0.pb": y} {
		if files[filepath.Join(set, name)], err = onnx.EncodeTensor("", v); err != nil {
			t.Fatal(err)
		}
	}
	for path, data := range files {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// TestVerify runs a single case and a tree of cases, one of which does not hold and one of which
// has an unknown operator.
func TestVerify(t *testing.T) {
	dir := t.TempDir()
	x := tensor.From([]float32{1, 0, 0, 0}, 1, 4)
	good := filepath.Join(dir, "node", "good")
	verifyCase(t, good, dense, x, tensor.From([]float32{1, 2}, 1, 2))
	for _, how := range [][]string{{}, {"--reference"}, {"--threads", "1"}} {
		m := done(
			t,
			append(
				[]string{"verify", good, "--json"},
				how...)...).object(t, "passed", "failed", "unsupported", "cases")
		if m["passed"] != 1.0 || m["failed"] != 0.0 || m["unsupported"] != 0.0 ||
			len(m["cases"].([]any)) != 1 {
			t.Errorf("%v: %v", how, m)
		}
	}
	verifyCase(t, filepath.Join(dir, "node", "bad"), dense, x, tensor.From([]float32{1, 3}, 1, 2))
	verifyCase(
		t,
		filepath.Join(dir, "more", "deep", "odd"),
		unknownOperator,
		tensor.From(make([]float32, 4), 4),
		tensor.From(make([]float32, 4), 4),
	)
	c := weir(t, "verify", dir, "--json")
	m := c.object(t)
	if c.code != 1 || m["passed"] != 1.0 || m["failed"] != 1.0 || m["unsupported"] != 1.0 ||
		!strings.Contains(c.talk, "2 of 3 cases did not pass") {
		t.Errorf("exit code %d, %v, %q", c.code, m, c.talk)
	}
	for _, one := range m["cases"].([]any) {
		one := one.(map[string]any)
		if one["name"] == "" || one["status"] == "" ||
			(one["status"] == "passed") != (one["detail"] == "") {
			t.Errorf("a case is %v", one)
		}
	}
	c = weir(t, "verify", filepath.Join(dir, "node"))
	if c.code != 1 || !strings.Contains(c.out, "1 passed, 1 failed, 0 unsupported") ||
		!strings.Contains(c.out, "bad: ") ||
		strings.Contains(c.talk, "verifying") {
		t.Errorf("exit code %d, %q, %q", c.code, c.out, c.talk)
	}
}

func TestVerifyReadsArchives(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	packed := "../../internal/conformance/testdata/versions.tar.xz"
	for range 2 { // the second finds what the first unpacked
		if m := done(t, "verify", packed, "--json").object(t); m["passed"] == 0.0 {
			t.Errorf("got %v", m)
		}
	}
	torn := filepath.Join(t.TempDir(), "torn.tar.xz")
	if err := os.WriteFile(torn, []byte("not xz"), 0o666); err != nil {
		t.Fatal(err)
	}
	if c := weir(t, "verify", torn); c.code != 2 || !strings.Contains(c.talk, "torn.tar.xz") {
		t.Errorf("exit code %d, %q", c.code, c.talk)
	}
}

func TestModelNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	m := done(
		t,
		"model",
		"new",
		"mobilenetv2",
		path,
		"--seed",
		"3",
		"--json",
	).object(t, "file", "parameters")
	if m["file"] != path || m["parameters"] != 3504872.0 {
		t.Errorf("got %v", m)
	}
	info := done(t, "inspect", path, "--json").object(t)
	if info["operators"].(map[string]any)["Conv"] != 52.0 || info["parameters"] != m["parameters"] {
		t.Errorf("read back as %v", info)
	}
	if c := weir(t, "model", "new", "mobilenetv2", filepath.Join(path, "x")); c.code != 1 {
		t.Errorf("into a file: exit code %d, %q", c.code, c.talk)
	}
}

// TestRunContainers gives a model a sequence as a file and gets sequences and maps as files back.
func TestRunContainers(t *testing.T) {
	model := modelFile(t, `graph "lists" {
  opset "" 21
  input %s: sequence(float32[N])
  input %x: float32[2]
  input %m: sequence(map(int64, float32[]))
  %y = SequenceInsert@11 "insert" (%s, %x)
  %n: int64[] = SequenceLength@11 "count" (%y)
  output %y
  output %n
  output %m
}`, onnx.WriteOptions{})
	pairs, err := tensor.NewMap(
		tensor.From([]int64{3, 5}, 2),
		tensor.From([]float32{0.25, 0.75}, 2),
	)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s, m := filepath.Join(dir, "s.pb"), filepath.Join(dir, "m.pb")
	given := tensor.NewSequence(tensor.From([]float32{1}, 1), tensor.From([]float32{2, 3}, 2))
	if err := errors.Join(
		writeValue(s, given),
		writeValue(m, tensor.NewSequence(pairs)),
	); err != nil {
		t.Fatal(err)
	}
	x := npyFile(t, tensor.From([]float32{4, 5}, 2))
	args := []string{"run", model, "--input", "s=" + s, "--input", "m=" + m, "--input", "x=" + x}
	want := "y\tsequence\t[3]\tsequence[3]{float32[1]{1}, float32[2]{2, 3}, float32[2]{4, " +
		"5}}\nn\tint64\t[]\t3 \n" +
		"m\tsequence\t[1]\tsequence[1]{map[2]{3: 0.25, 5: 0.75}}\n"
	if c := done(t, args...); c.out != want {
		t.Errorf("got %q, want %q", c.out, want)
	}
	c := done(t, append(args, "--output", dir, "--json")...)
	o := c.object(t)["outputs"].([]any)[0].(map[string]any)
	if o["dtype"] != "sequence" || fmt.Sprint(o["shape"]) != "[3]" ||
		o["file"] != filepath.Join(dir, "y.pb") {
		t.Errorf("the output is %v", o)
	}
	b, err := os.ReadFile(filepath.Join(dir, "y.pb"))
	if err != nil {
		t.Fatal(err)
	}
	y, err := onnx.DecodeValue(b, op.SequenceOf(op.Unranked(tensor.Float32)))
	if err != nil || len(y.Items) != 3 || !tensor.Equal(y.Items[1], given.Items[1]) {
		t.Errorf("the file holds %v, %v", y, err)
	}
	if c := done(
		t,
		"run",
		model,
	); !strings.Contains(c.talk, "made up: s, x, m") ||
		!strings.Contains(c.out, "n\tint64\t[]\t2") {
		t.Errorf("with everything made up: %q, %q", c.out, c.talk)
	}
	if c := weir(t, "run", model, "--input", "s="+m); c.code != 2 || !strings.Contains(c.talk, m) {
		t.Errorf("maps for tensors: exit code %d, %q", c.code, c.talk)
	}
	if c := weir(t, "run", model, "--memory", "64B"); c.code == 0 {
		t.Error("a sequence fits no memory at all")
	}
	if c := done(
		t,
		"inspect",
		model,
	); !strings.Contains(
		c.out,
		"input   m  sequence(map(int64, float32[]))",
	) {
		t.Errorf("inspect says %q", c.out)
	}
}
