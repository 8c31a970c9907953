package feed

import (
	"archive/zip"
	"bytes"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

func parseGraph(t testing.TB, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(text)
	if err == nil {
		err = g.InferTypes()
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// row is a graph with an input of a row of numbers.
func row(t testing.TB) *graph.Graph {
	return parseGraph(t, `graph "row" {
  opset "" 17
  input %x: float32[N,8]
  %y: float32[N,8] = Identity@16 "copy" (%x)
  output %y
}`)
}

func TestShapes(t *testing.T) {
	g := parseGraph(t, `graph "two" {
  opset "" 17
  input %a: float32[N,S]
  input %b: float32[N,4]
  input %c: float32[3]
  %y: float32[N,4] = Identity@16 "id" (%b)
  output %y
}`)
	given := func(shape ...int) map[string]*tensor.Tensor {
		x, err := tensor.New(tensor.Float32, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*tensor.Tensor{"a": x}
	}
	for _, c := range []struct {
		name    string
		asked   map[string]Shape
		given   map[string]*tensor.Tensor
		a, b, c []int
		wrong   string
	}{
		{name: "nothing said", a: []int{1, 1}, b: []int{1, 4}, c: []int{3}},
		{name: "asked binds the others' symbols", asked: map[string]Shape{"a": {5, 7}},
			a: []int{5, 7}, b: []int{5, 4}, c: []int{3}},
		{name: "given binds the others' symbols", given: given(2, 9), a: []int{2, 9},
			b: []int{2, 4}, c: []int{3}},
		{name: "later binds earlier", asked: map[string]Shape{"b": {6, 4}}, a: []int{6, 1},
			b: []int{6, 4}, c: []int{3}},
		{name: "given against asked", asked: map[string]Shape{"a": {5, 7}}, given: given(2, 9),
			wrong: "[2 9], but shape [5 7] is asked"},
		{name: "wrong type", given: map[string]*tensor.Tensor{"a": tensor.From([]int64{1}, 1, 1)},
			wrong: "given int64, the model takes float32[N,S]"},
		{name: "broken tensor",
			given: map[string]*tensor.Tensor{"a": {DType: tensor.Float32, Shape: []int{8}}},
			wrong: "needs 32 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			shapes, err := Shapes(g.Inputs, c.asked, c.given)
			if c.wrong != "" {
				if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("got %v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil || !slices.Equal(shapes["a"], c.a) || !slices.Equal(shapes["b"], c.b) ||
				!slices.Equal(shapes["c"], c.c) {
				t.Errorf("got %v, %v", shapes, err)
			}
		})
	}
}

// TestShapesOfNames holds that a name with two sizes gives no shape, and that one element is a
// scalar where the model takes one.
func TestShapesOfNames(t *testing.T) {
	g := parseGraph(t, `graph "names" {
  opset "" 17
  input %a: float32[d,d]
  input %b: float32[d]
  input %sr: int64[]
  %y: float32[d,d] = Identity@16 "id" (%a)
  output %y
}`)
	rate := map[string]*tensor.Tensor{"sr": tensor.From([]int64{16000}, 1)}
	for name, c := range map[string]struct {
		asked map[string]Shape
		b     []int
		wrong string
	}{
		"one size":       {asked: map[string]Shape{"a": {3, 3}, "sr": {1, 1}}, b: []int{3}},
		"both are given": {asked: map[string]Shape{"a": {2, 3}, "b": {7}}, b: []int{7}},
		"two sizes": {asked: map[string]Shape{"a": {2, 3}},
			wrong: `input "b" (float32[d]) has no shape: d is 2 in input "a" and 3 in input "a"`},
	} {
		shapes, err := Shapes(g.Inputs, c.asked, rate)
		if c.wrong != "" {
			if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: got %v, want %q", name, err, c.wrong)
			}
			continue
		}
		if err != nil || !slices.Equal(shapes["b"], c.b) || shapes["sr"] == nil ||
			len(shapes["sr"]) != 0 {
			t.Errorf("%s: got %v, %v", name, shapes, err)
		}
	}
}

func TestMake(t *testing.T) {
	g := parseGraph(t, `graph "many" {
  opset "" 17
  input %f: float32[100]
  input %d: float64[100]
  input %h: float16[100]
  input %i: int64[3]
  input %u: uint8[3]
  input %b: bool[3]
  input %given: float32[2]
  %y: float32[2] = Identity@16 "id" (%given)
  output %y
}`)
	given := map[string]*tensor.Tensor{"given": tensor.From([]float32{4, 5}, 2)}
	shapes, err := Shapes(g.Inputs, nil, given)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Make(g.Inputs, shapes, given, 3)
	if err != nil {
		t.Fatal(err)
	}
	same, _ := Make(g.Inputs, shapes, given, 3)
	other, _ := Make(g.Inputs, shapes, given, 4)
	for i := range 3 {
		if !bytes.Equal(a[i].Data, same[i].Data) || bytes.Equal(a[i].Data, other[i].Data) {
			t.Errorf("input %d does not follow the seed", i)
		}
		var low, high bool
		for k := range a[i].Len() {
			var v float64
			switch x := a[i].At(k).(type) {
			case float32:
				v = float64(x)
			case float64:
				v = x
			case tensor.Half:
				v = float64(x.Float32())
			}
			if v < 0 || v > 1 {
				t.Fatalf("input %d holds %v", i, v)
			}
			low, high = low || v < 0.5, high || v >= 0.5
		}
		if !low || !high {
			t.Errorf("input %d is not uniform", i)
		}
	}
	if !slices.Equal(tensor.As[int64](a[3]), []int64{1, 1, 1}) ||
		!bytes.Equal(a[4].Data, []byte{1, 1, 1}) || !bytes.Equal(a[5].Data, []byte{1, 1, 1}) {
		t.Errorf("integers and booleans are %v %v %v", a[3].Data, a[4].Data, a[5].Data)
	}
	if a[6] != given["given"] {
		t.Error("a given input was replaced")
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.npy"), filepath.Join(dir, "bad.npy")
	var b bytes.Buffer
	if err := npy.Write(&b, tensor.From([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 8)); err != nil {
		t.Fatal(err)
	}
	size := int64(b.Len())
	for file, data := range map[string][]byte{good: b.Bytes(), bad: []byte("hello")} {
		if err := os.WriteFile(file, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	g := row(t)
	r := &Reader{Inputs: g.Inputs}
	got, err := (&Reader{Inputs: g.Inputs, Most: size}).Files(map[string]string{"x": good})
	if err != nil || !slices.Equal(got["x"].Shape, []int{1, 8}) {
		t.Fatal(got, err)
	}
	if _, err := r.Files(map[string]string{"nope": good}); !errors.Is(err, ErrInput) ||
		!strings.Contains(err.Error(), "it takes x") {
		t.Errorf("unknown input: %v", err)
	}
	if _, err := r.Files(map[string]string{"x": bad}); !errors.Is(err, npy.ErrFormat) ||
		!strings.Contains(err.Error(), bad) {
		t.Errorf("broken file: %v", err)
	}
	small := &Reader{Inputs: g.Inputs, Most: size - 1}
	if _, err := small.Files(map[string]string{"x": good}); !errors.Is(err,
		device.ErrOutOfMemory) || !strings.Contains(err.Error(), good) {
		t.Errorf("a file of more bytes than there is room for: %v", err)
	}
	if _, err := r.Files(map[string]string{"x": good + "x"}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestShapeRoundTrip(t *testing.T) {
	for _, text := range []string{"scalar", "1", "0x3", "1x3x224x224"} {
		s, err := ParseShape(text)
		if err != nil || s.String() != text {
			t.Errorf("%q became %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"x", "1x", "-1", "1x-3", "a", "1X3", "1x 3",
		"99999999999999999999", "1.5"} {
		if s, err := ParseShape(text); err == nil {
			t.Errorf("%q became %v", text, s)
		}
	}
}

// TestCast holds what each type takes of another, and what it refuses.
func TestCast(t *testing.T) {
	all := []tensor.DType{tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint8,
		tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Float16, tensor.BFloat16,
		tensor.Float32, tensor.Float64}
	for _, to := range all {
		for _, from := range all {
			x, err := Cast(tensor.From([]float64{0, 1, 100}, 3), from)
			if err != nil {
				t.Fatal(err)
			}
			y, err := Cast(x, to)
			if err != nil {
				t.Errorf("%v to %v: %v", from, to, err)
				continue
			}
			if v, _ := y.Floats(); !slices.Equal(v, []float64{0, 1, 100}) {
				t.Errorf("%v to %v: %v", from, to, v)
			}
		}
	}
	for _, c := range []struct {
		v  float64
		to tensor.DType
	}{{-1, tensor.Uint8}, {256, tensor.Uint8}, {128, tensor.Int8}, {-129, tensor.Int8},
		{2, tensor.Bool}, {0.5, tensor.Int64}, {1e300, tensor.Int64}, {-1, tensor.Uint64},
		{1, tensor.String}} {
		if got, err := Cast(tensor.From([]float64{c.v}), c.to); err == nil {
			t.Errorf("%v to %v: %v", c.v, c.to, got)
		}
	}
	if x, err := Cast(tensor.From([]int64{-128, 127}, 2), tensor.Int8); err != nil ||
		x.At(0) != int64(-128) {
		t.Errorf("%v, %v", x, err)
	}
}

// TestFilesForms: a file is read in the form that its name and first bytes tell.
func TestFilesForms(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var picture, array, archive bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 2, 1))); err != nil {
		t.Fatal(err)
	}
	x := tensor.From([]float32{0, 0, 0, 0, 0, 0}, 1, 3, 1, 2)
	if err := npy.Write(&array, x); err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(&archive)
	f, err := z.Create("x.npy")
	if err == nil {
		_, err = f.Write(array.Bytes())
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	g := parseGraph(t, `graph "picture" {
  opset "" 17
  input %x: float32[1,3,H,W]
  %y: float32[1,3,H,W] = Identity@16 "copy" (%x)
  output %y
}`)
	for _, path := range []string{write("a.npy", array.Bytes()), write("a", array.Bytes()),
		write("a.npz", archive.Bytes()), write("a.PNG", picture.Bytes())} {
		got, err := (&Reader{Inputs: g.Inputs}).Files(map[string]string{"x": path})
		if err != nil || !tensor.Equal(got["x"], x) {
			t.Errorf("%s: %v, %v", filepath.Base(path), got["x"], err)
		}
	}
}

func TestFill(t *testing.T) {
	to := []*tensor.Tensor{tensor.From(make([]float32, 8), 1, 8)}
	for _, request := range []*tensor.Tensor{tensor.From(make([]float32, 16), 2, 8),
		tensor.From(make([]float64, 8), 1, 8), tensor.From(make([]float32, 8), 8, 1)} {
		if err := Fill(to, []*tensor.Tensor{request}); !errors.Is(err, ErrInput) {
			t.Errorf("%v%v: got %v", request.DType, request.Shape, err)
		}
	}
	x := tensor.From([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 8)
	if err := Fill(to, []*tensor.Tensor{x}); err != nil || !tensor.Equal(to[0], x) {
		t.Errorf("got %v, %v", to[0], err)
	}
}
