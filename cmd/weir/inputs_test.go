package main

import (
	"archive/zip"
	"bytes"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

const identity = `graph "identity" {
  opset "" 17
  input %x: TYPE
  %y: TYPE = Identity@16 "copy" (%x)
  output %y
}`

// identityModel has one input of a type, which is its output.
func identityModel(t *testing.T, typ string) string {
	t.Helper()
	return modelFile(t, strings.ReplaceAll(identity, "TYPE", typ), onnx.WriteOptions{})
}

// outputOf is the values of the only output of a run.
func outputOf(t *testing.T, c called) []any {
	t.Helper()
	return c.object(t)["outputs"].([]any)[0].(map[string]any)["values"].([]any)
}

func numbers(list []any) []float64 {
	var out []float64
	for _, v := range list {
		out = append(out, v.(float64))
	}
	return out
}

// TestRunImage holds where the pixels of an image go, by axes, type and size.
func TestRunImage(t *testing.T) {
	m := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	m.Set(0, 0, color.NRGBA{R: 255, G: 51, A: 255})
	m.Set(1, 0, color.NRGBA{B: 102, A: 255})
	var data bytes.Buffer
	if err := png.Encode(&data, m); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "picture.PNG")
	if err := os.WriteFile(path, data.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		typ  string
		args []string
		want []float64
	}{
		{"float32[1,3,1,2]", nil, []float64{1, 0, 0.2, 0, 0, 0.4}},
		{"float32[N,3,H,W]", nil, []float64{1, 0, 0.2, 0, 0, 0.4}},
		{"float32[N,A,B,C]", []string{"--layout", "nhwc"}, []float64{1, 0.2, 0, 0, 0, 0.4}},
		{"float64[1,1,2,3]", nil, []float64{1, 0.2, 0, 0, 0, 0.4}},
		{"uint8[1,2,3]", nil, []float64{255, 51, 0, 0, 0, 102}},
		{"uint8[3,1,2]", nil, []float64{255, 0, 51, 0, 0, 102}},
		{"float32[1,3,1,2]", []string{"--mean", "0.5", "--std", "0.5,0.25,0.125"},
			[]float64{1, -1, -1.2, -2, -4, -0.8}},
		{"uint8[1,3,1,1]", nil, []float64{128, 26, 51}}, // the mean, rounded
		{"uint8[1,1,1,2]", nil, []float64{106, 12}},
		{"float32[1,3,H,W]", []string{"--shape", "x=1x3x1x2"}, []float64{1, 0, 0.2, 0, 0, 0.4}},
		{"uint8[1,3,2,2]", nil, []float64{255, 0, 255, 0, 51, 0, 51, 0, 0, 102, 0, 102}},
	} {
		args := append([]string{"run", identityModel(t, c.typ), "--json", "--input", "x=" + path},
			c.args...)
		got := numbers(outputOf(t, done(t, args...)))
		near := func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }
		if !slices.EqualFunc(got, c.want, near) {
			t.Errorf("%s %v: %v, want %v", c.typ, c.args, got, c.want)
		}
	}
	for _, c := range []struct {
		typ  string
		args []string
		want string
	}{
		{"float32[5]", nil, "3 or 4 axes"}, {"int64[1,3,2,2]", nil, "no int64"},
		{"float32[2,3,1,2]", nil, "2 at a time"}, {"float32[1,4,4,5]", nil, "--layout"},
		{"uint8[1,3,1,2]", []string{"--mean", "0.5"}, "bytes"},
		{"float32[1,3,1,2]", []string{"--std", "0"}, "--std"},
		{"float32[1,3,1,2]", []string{"--mean", "1,2"}, "--mean"},
		{"float32[1,3,1,2]", []string{"--layout", "chwn"}, "--layout chwn"},
	} {
		args := append([]string{"run", identityModel(t, c.typ), "--input", "x=" + path}, c.args...)
		if got := weir(t, args...); got.code != 2 || !strings.Contains(got.talk, c.want) {
			t.Errorf("%s %v: exit code %d, %q", c.typ, c.args, got.code, got.talk)
		}
	}
}

// TestRunInputForms gives the same values in every form that an input has.
func TestRunInputForms(t *testing.T) {
	model := identityModel(t, "float32[N,2]")
	x := tensor.From([]float32{1, 2, 3, 4}, 2, 2)
	var plain, wide bytes.Buffer
	if err := npy.Write(&plain, x); err != nil {
		t.Fatal(err)
	}
	if err := npy.Write(&wide, tensor.From([]float64{1, 2, 3, 4}, 2, 2)); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	f, err := z.Create("x.npy")
	if err == nil {
		_, err = f.Write(plain.Bytes())
	}
	if err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	head := "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }\n"
	fortran := "\x93NUMPY\x01\x00" + string([]byte{byte(len(head)), 0}) + head +
		string(tensor.From([]float32{1, 3, 2, 4}, 4).Data)
	npz := file("a.npz", archive.Bytes())
	for _, c := range []struct {
		args  []string
		stdin string
	}{
		{[]string{"x=" + file("x.npy", plain.Bytes())}, ""},
		{[]string{"x=" + file("f.npy", []byte(fortran))}, ""},
		{[]string{"x=" + npz}, ""}, {[]string{npz}, ""},
		{[]string{"x=[1,2,3,4]"}, ""}, {[]string{"x=[1 2, 3 4]"}, ""},
		{[]string{"x=-"}, plain.String()}, {[]string{"x=-"}, archive.String()},
		{[]string{"x=" + file("d.npy", wide.Bytes()), "--cast"}, ""},
	} {
		var out, talk bytes.Buffer
		args := append([]string{"run", model, "--json", "--input"}, c.args...)
		code := execute(t.Context(), args, strings.NewReader(c.stdin), &out, &talk)
		if code != 0 {
			t.Errorf("%v: exit code %d, %s", c.args, code, talk.String())
			continue
		}
		got := called{code, out.String(), talk.String(), nil}
		if v := numbers(outputOf(t, got)); !slices.Equal(v, []float64{1, 2, 3, 4}) {
			t.Errorf("%v: %v", c.args, v)
		}
	}
	for _, c := range []struct{ input, want string }{
		{"x=" + file("d.npy", wide.Bytes()), "--cast"}, {"x=[1,2", "want [1,2,3]"},
		{"x=[1,b]", `"b" is no number`}, {"z=[1]", "it takes x"}, {"x=none.npz", "none.npz"},
		{"x=" + file("bad.npz", []byte("PK\x03\x04")), "bad.npz"},
	} {
		if got := weir(t, "run", model, "--input", c.input); got.code != 2 ||
			!strings.Contains(got.talk, c.want) {
			t.Errorf("%s: exit code %d, %q", c.input, got.code, got.talk)
		}
	}
}

// TestRunOutputs holds what is told of small and of large outputs, of rows and their labels.
func TestRunOutputs(t *testing.T) {
	model := identityModel(t, "float32[N,3]")
	labels := filepath.Join(t.TempDir(), "labels.txt")
	if err := os.WriteFile(labels, []byte("cat\ndog\nowl\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", model, "--input", "x=[1,3,2,9,8,7]", "--labels", labels, "--top", "2"}
	if c := done(t, args...); c.out != "y\tfloat32\t[2 3]\nrow 0\n           3       1  dog\n"+
		"           2       2  owl\nrow 1\n           9       0  cat\n           8       1  dog\n" {
		t.Errorf("got %q", c.out)
	}
	o := done(t, append(args, "--json")...).object(t)["outputs"].([]any)[0].(map[string]any)
	row := o["top"].([]any)[1].([]any)[0].(map[string]any)
	if row["label"] != "cat" || row["index"] != 0.0 || row["value"] != 9.0 {
		t.Errorf("got %v", o["top"])
	}
	large := done(t, "run", model, "--shape", "x=1000x3", "--json").object(t)
	o = large["outputs"].([]any)[0].(map[string]any)
	s, ok := o["statistics"].(map[string]any)
	if !ok || o["values"] != nil || s["mean"].(float64) < 0.45 || s["mean"].(float64) > 0.55 ||
		s["min"].(float64) < 0 || s["max"].(float64) > 1 || s["not_finite"] != 0.0 {
		t.Errorf("got %v", o)
	}
	got := outputOf(t, done(t, "run", model, "--input", "x=[NaN,-Inf,1]", "--json"))
	if !slices.Equal(got, []any{"NaN", "-Inf", 1.0}) {
		t.Errorf("got %v", got)
	}
	if c := weir(t, "run", identityModel(t, "float32[4]"), "--labels", labels); c.code != 2 ||
		!strings.Contains(c.talk, "3 lines") {
		t.Errorf("labels for nothing: exit code %d, %q", c.code, c.talk)
	}
}

// TestRunStreams reads a model from standard input and writes an output to standard output.
func TestRunStreams(t *testing.T) {
	data, err := os.ReadFile(identityModel(t, "float32[2]"))
	if err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	if code := execute(t.Context(), []string{"run", "-", "--input", "x=[1,2]", "--output", "-"},
		bytes.NewReader(data), &out, &talk); code != 0 {
		t.Fatalf("exit code %d, %s", code, talk.String())
	}
	if x, err := npy.Read(&out); err != nil || !tensor.Equal(x, tensor.From([]float32{1, 2}, 2)) ||
		out.Len() != 0 {
		t.Errorf("%v, %v, %d bytes more", x, err, out.Len())
	}
	talk.Reset()
	if code := execute(t.Context(), []string{"inspect", "-"}, bytes.NewReader(data), &out,
		&talk); code != 0 || !strings.Contains(out.String(), "Identity") {
		t.Errorf("exit code %d, %s", code, talk.String())
	}
	if c := piped(t, string(data), "run", "-", "--input", "x=-"); c.code != 2 ||
		!strings.Contains(c.talk, "the model or one input") {
		t.Errorf("two things from standard input: exit code %d, %s", c.code, c.talk)
	}
	if c := weir(t, "run", "-", "--json", "--output", "-"); c.code != 2 {
		t.Errorf("two things on standard output: exit code %d", c.code)
	}
}

// endless is a stream of an array that does not end.
func endless() io.Reader {
	head := "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }\n"
	return io.MultiReader(strings.NewReader("\x93NUMPY\x01\x00"+string([]byte{byte(len(head)), 0})+
		head), zeros{})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestInputsHaveRoom holds that no more of inputs is read than there is memory for, whatever form
// they come in: a file larger than the machine's memory is refused and ends nothing.
func TestInputsHaveRoom(t *testing.T) {
	model := identityModel(t, "float32[N]")
	var large bytes.Buffer
	if err := npy.Write(&large, tensor.From(make([]float32, 1<<19), 1<<19)); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	f, err := z.Create("x.npy")
	if err == nil {
		_, err = f.Write(large.Bytes())
	}
	if err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"a.npy": large.Bytes(), "a.npz": archive.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []string{filepath.Join(dir, "a.npy"), filepath.Join(dir, "a.npz"), "-"} {
		var out, talk bytes.Buffer
		code := execute(t.Context(), []string{"run", model, "--memory", "1MiB", "--input",
			"x=" + from}, endless(), &out, &talk)
		if code != 2 || !strings.Contains(talk.String(), "inputs of more than 1MiB") {
			t.Errorf("%s: exit code %d, %q", from, code, talk.String())
		}
	}
	done(t, "run", model, "--memory", "8MiB", "--input", "x="+filepath.Join(dir, "a.npz"))
}

// TestCompleteInputs holds that --input is completed with the model's inputs, and then with files.
func TestCompleteInputs(t *testing.T) {
	model := identityModel(t, "float32[2]")
	dir := filepath.Dir(model) + string(filepath.Separator)
	for _, c := range []struct{ typed, want string }{{"", "x=\tfloat32[2]\n"},
		{"x=" + dir + "mod", "x=" + model + "\n"}} {
		got := done(t, "__complete", "run", model, "--input", c.typed)
		if !strings.HasPrefix(got.out, c.want) {
			t.Errorf("%q: %q, want %q", c.typed, got.out, c.want)
		}
	}
}
