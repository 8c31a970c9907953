package steps

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// files reads files of a test by name.
func files(m map[string]string) func(string, int64) ([]byte, error) {
	return func(path string, most int64) ([]byte, error) {
		text, ok := m[path]
		if !ok {
			return nil, os.ErrNotExist
		}
		return []byte(text), nil
	}
}

// written opens a graph as text.
func written(t *testing.T, text string) *weir.Model {
	t.Helper()
	g, err := graph.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := onnx.Write(&b, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return loaded(t, b.Bytes())
}

func loaded(t *testing.T, file []byte) *weir.Model {
	t.Helper()
	m, err := weir.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// joined makes one model of a model and the steps of a text.
func joined(t *testing.T, m *weir.Model, text string, read map[string]string) *weir.Model {
	t.Helper()
	f, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := f.Join("m", m, files(read))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = whole.Close() })
	return whole
}

// run computes inputs, and returns copies of the outputs by name.
func run(t *testing.T, m *weir.Model, in weir.Inputs) map[string]*weir.Tensor {
	t.Helper()
	r, err := m.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := map[string]*weir.Tensor{}
	for i, v := range m.Outputs() {
		out[v.Name] = r.Outputs()[i].Clone()
	}
	return out
}

// texts is a tensor of texts, a row each.
func texts(list ...string) *weir.Tensor { return tensor.FromStrings(list, len(list)) }

const digitSteps = `
pre:
  - from: picture
    to: image
    steps:
      - decode: {colour: grey}
      - resize: {width: 8, height: 8}
      - normalise: {scale: 255}
      - layout: nchw
post:
  - from: probabilities
    to: score
    steps:
      - top: {count: 2, index: digit}
      - labels: {file: labels.txt, to: label}
`

const digitNames = "zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n"

// TestDigits: pictures of digits become labels, a row each, of any size, as PNG and as JPEG, and
// the scores are those that the model alone gives.
func TestDigits(t *testing.T) {
	m := joined(t, loaded(t, digits.Model), digitSteps,
		map[string]string{"labels.txt": digitNames})
	if in := m.Inputs(); len(in) != 1 || in[0].Name != "picture" ||
		in[0].Type.DType != tensor.String {
		t.Errorf("inputs %v", in)
	}
	seven, err := os.ReadFile("../../examples/digits/seven.png")
	if err != nil {
		t.Fatal(err)
	}
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	exact := image.NewGray(image.Rect(0, 0, 8, 8))
	for i, v := range images[0] {
		exact.Pix[i] = uint8(int(v) * 255 / 16)
	}
	var small, large bytes.Buffer
	if err := png.Encode(&small, exact); err != nil {
		t.Fatal(err)
	}
	big := image.NewGray(image.Rect(0, 0, 64, 64))
	for y := range 64 {
		for x := range 64 {
			big.SetGray(x, y, color.Gray{uint8(int(images[1][y/8*8+x/8]) * 255 / 16)})
		}
	}
	if err := jpeg.Encode(&large, big, nil); err != nil {
		t.Fatal(err)
	}
	out := run(t, m, weir.Inputs{"picture": texts(string(seven), small.String(), large.String())})
	if got := out["label"]; !slices.Equal(got.Shape, []int{3, 2}) || got.Strings[0] != "seven" ||
		got.Strings[2] != "zero" || got.Strings[4] != "one" {
		t.Errorf("labels %v", got)
	}
	if got := tensor.As[int64](out["digit"]); got[0] != 7 || got[2] != 0 {
		t.Errorf("digits %v", got)
	}
	alone := loaded(t, digits.Model)
	defer alone.Close()
	pixels := make([]float32, 64)
	for i, v := range exact.Pix {
		pixels[i] = float32(v) / 255
	}
	want := run(t, alone, weir.Inputs{"image": tensor.From(pixels, 1, 1, 8, 8)})["probabilities"]
	got := run(t, m, weir.Inputs{"picture": texts(small.String())})["score"]
	if tensor.As[float32](got)[0] != slices.Max(tensor.As[float32](want)) {
		t.Errorf("score %v, alone %v", got, want)
	}
}

// TestPicturesRefused: what is no picture, or too large a one, is the client's fault, and is found
// before it is decoded.
func TestPicturesRefused(t *testing.T) {
	text := strings.Replace(digitSteps, "colour: grey", "colour: grey, pixels: 10000", 1)
	m := joined(t, loaded(t, digits.Model), text, map[string]string{"labels.txt": digitNames})
	// a head that claims 65535 by 65535 pixels, and no more
	bomb := "BM" + strings.Repeat("\x00", 8) + "\x36\x00\x00\x00\x28\x00\x00\x00\xff\xff\x00\x00" +
		"\xff\xff\x00\x00\x01\x00\x18\x00" + strings.Repeat("\x00", 24)
	var large bytes.Buffer
	if err := png.Encode(&large, image.NewGray(image.Rect(0, 0, 101, 100))); err != nil {
		t.Fatal(err)
	}
	for file, says := range map[string]string{"": "no known format", "hello": "no known format",
		bomb: "at most", large.String(): "101 by 100 pixels, and 10000 are taken",
		large.String()[:60]: "101 by 100"} {
		_, err := m.Run(t.Context(), weir.Inputs{"picture": texts(file)})
		if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.10q: %v, want %s", file, err, says)
		}
	}
}

// TestPictures: sizes, crops, colours and layouts are what they say.
func TestPictures(t *testing.T) {
	red := image.NewRGBA(image.Rect(0, 0, 6, 4))
	for y := range 4 {
		for x := range 6 {
			red.Set(x, y, color.RGBA{uint8(10 * x), uint8(20 * y), 30, 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, red); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		steps string
		shape []int
		first []float32 // of the first pixels
	}{
		{"- decode: {}\n- crop: {width: 2, height: 2}", []int{1, 2, 2, 3},
			[]float32{20, 20, 30, 30, 20, 30, 20, 40, 30, 30, 40, 30}},
		{"- decode: {colour: bgr}\n- crop: {width: 2, height: 2}\n- layout: nchw",
			[]int{1, 3, 2, 2}, []float32{30, 30, 30, 30, 20, 20, 40, 40, 20, 30, 20, 30}},
		{"- decode: {}\n- crop: {width: 1, height: 6}\n- normalise: {scale: 10, mean: [1, 2, 3], " +
			"std: [1, 2, 0.5]}", []int{1, 6, 1, 3}, []float32{-1, -1, -6, 1, -1, 0}},
		{"- decode: {}\n- resize: {shorter: 2, mode: nearest}\n- crop: {width: 3, height: 2}\n" +
			"- layout: nhwc", []int{1, 2, 3, 3}, nil},
		{"- decode: {}\n- resize: {width: 3, height: 2}\n- reshape: [0, 18]", []int{1, 18}, nil},
	} {
		rank := strings.Repeat(",?", len(c.shape)-1)
		model := written(t, `graph "twice" { opset "" 21 input %x: float32[n`+rank+`] `+
			`%y: float32[n`+rank+`] = Identity@21 (%x) output %y }`)
		m := joined(t, model, "pre:\n  - from: p\n    to: x\n    steps:\n      "+
			strings.ReplaceAll(c.steps, "\n", "\n      "), nil)
		y := run(t, m, weir.Inputs{"p": texts(b.String())})["y"]
		if !slices.Equal(y.Shape, c.shape) {
			t.Errorf("%s: shape %v", c.steps, y.Shape)
			continue
		}
		for i, want := range c.first {
			if got := tensor.As[float32](y)[i]; got != want {
				t.Errorf("%s: element %d is %v, want %v", c.steps, i, got, want)
				break
			}
		}
	}
}

// TestBehind: probabilities, parts, thresholds and boxes that overlap.
func TestBehind(t *testing.T) {
	model := func() *weir.Model {
		return written(t, `graph "detector" {
		  opset "" 21
		  input %x: float32[n,6,m]
		  %y: float32[n,6,m] = Identity@21 (%x)
		  output %y
		}`)
	}
	// per column: centre x, y, width, height, scores of two classes
	x := tensor.From([]float32{
		5, 5.5, 20,
		5, 5, 20,
		4, 4, 4,
		4, 4, 4,
		0.9, 0.8, 0.1,
		0.2, 0.1, 0.7}, 1, 6, 3)
	m := joined(t, model(), `
post:
  - {from: y, to: _boxes, steps: [slice: {axis: 1, to: 4}, transpose: [0, 2, 1]]}
  - from: y
    to: score
    steps:
      - slice: {axis: 1, from: 4}
      - suppress: {boxes: _boxes, overlap: 0.5, score: 0.5, count: 10, centre: true, kept: box,
          classes: class, rows: row}
  - {from: y, to: sure, steps: [slice: {axis: 1, from: 4}, threshold: 0.75]}
  - {from: y, to: soft, steps: [softmax: {axis: 1}]}
`, nil)
	out := run(t, m, weir.Inputs{"x": x})
	for name, want := range map[string]*weir.Tensor{
		"score": tensor.From([]float32{0.9, 0.7}, 2),
		"box":   tensor.From([]float32{5, 5, 4, 4, 20, 20, 4, 4}, 2, 4),
		"class": tensor.From([]int64{0, 1}, 2), "row": tensor.From([]int64{0, 0}, 2),
		"sure": tensor.From([]bool{true, true, false, false, false, false}, 1, 2, 3),
	} {
		if got := out[name]; !tensor.Equal(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	sum := float32(0)
	for i := range 6 {
		sum += tensor.As[float32](out["soft"])[3*i]
	}
	if math.Abs(float64(sum)-1) > 1e-6 || len(out) != 6 {
		t.Errorf("probabilities add up to %v; %d outputs", sum, len(out))
	}
}

// TestParseRefused: what is wrong in a file is said, with its line where there is one.
func TestParseRefused(t *testing.T) {
	chain := func(steps string) string {
		return "pre:\n  - {from: a, to: image, steps: [" + steps + "]}"
	}
	behindOf := func(steps string) string {
		return "post:\n  - {from: probabilities, to: y, steps: [" + steps + "]}"
	}
	for _, c := range [][2]string{
		{"", "the file is empty"},
		{"pres: 1", `line 1: unknown key "pres": want pre, post`},
		{"pre: []", "want pre, post"},
		{chain("decode: {}"), "size of pictures is open"},
		{chain("decode: {colours: 1}"), `line 2: unknown key "colours"`},
		{chain("decode: {colour: blue}, crop: {width: 1}"), "give rgb, bgr or grey"},
		{chain("decode: {pixels: 1e9}, crop: {width: 1}"), "want a whole number"},
		{chain("decode: {pixels: 999999999}"), "pixels is 999999999"},
		{chain("decode: {}, resize: {width: 0, height: 4}"), "0 by 4 pixels"},
		{chain("decode: {}, crop: {width: 99999, height: 4}"), "99999 by 4 pixels"},
		{chain("decode: {}, resize: {shorter: 4, width: 2}"), "without width and height"},
		{chain("decode: {}, resize: {width: 4, height: 4, mode: x}"), "nearest, linear or cubic"},
		{chain("decode: {}, crop: {width: 8, height: 8}, layout: x"), "give nchw"},
		{chain("decode: {}, crop: {width: 8, height: 8}, normalise: {std: [0]}"), "std is 0"},
		{chain("decode: {}, crop: {width: 8, height: 8}, normalise: {mean: [0, 1]}"),
			"2 values for 3"},
		{chain("resize: {width: 4, height: 4}"), "first step in front of a model is"},
		{chain("decode: {}, decode: {}"), "first step in front of a model is"},
		{chain("softmax: {}"), "other side of the model"},
		{chain("decode: {}, crop: {width: 8, height: 8}, normalise: {}, crop: {width: 1}"),
			"comes before steps"},
		{chain("{decode: {}, crop: {width: 1, height: 1}}"), "has 2 keys"},
		{strings.Replace(chain("decode: {}, crop: {width: 8, height: 8}"), "image", "none", 1),
			`has no "none"`},
		{chain("tokenise: {vocabulary: none, length: 8}"), "file does not exist"},
		{chain("tokenise: {vocabulary: v, length: 1}"), "length is 1"},
		{chain("tokenise: {vocabulary: v, length: 8}"), "has not [PAD]"},
		{chain("tokenise: {vocabulary: v, merges: v, length: 8}"), "vocabulary:"},
		{behindOf("decode: {}"), "other side of the model"},
		{behindOf("top: {count: 0}"), "count is 0"},
		{behindOf("labels: {file: none, to: l}"), "file does not exist"},
		{behindOf("labels: {file: v}"), "give file and to"},
		{behindOf("suppress: {boxes: none}"), `has no "none"`},
		{behindOf("top: {count: 2, index: y}"), `output "y" is there twice`},
	} {
		text, says := c[0], c[1]
		f, err := Parse([]byte(text))
		if err == nil {
			_, err = f.Join("m", loaded(t, digits.Model), files(map[string]string{"v": "a\n"}))
		}
		if !errors.Is(err, ErrSteps) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", text, err, says)
		}
	}
}

// TestSample: a sample is a picture that is decoded.
func TestSample(t *testing.T) {
	f, err := Parse([]byte(digitSteps))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := newPicture(f.Pre[0].Steps)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	a, b := f.Sample("picture", rng), f.Sample("picture", rng)
	x, err := p.decode([]byte(a))
	if err != nil || !slices.Equal(x.Shape, []int{16, 16, 1}) || a == b {
		t.Errorf("%v (%v)", x, err)
	}
	if f.Sample("other", rng) != "" {
		t.Error("a sample of another input")
	}
}

// FuzzParse: no file makes more than an error.
func FuzzParse(f *testing.F) {
	f.Add(digitSteps)
	f.Add("pre:\n  - {from: a, to: b, steps: [tokenise: {vocabulary: v, length: 8}]}")
	f.Add("post: [{from: probabilities, to: x, steps: [softmax: {axis: 9}, reshape: [-5, 0]]}]")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse([]byte(text))
		if err != nil {
			return
		}
		m, err := weir.Load(digits.Model)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := file.Join("m", m, files(map[string]string{"labels.txt": digitNames}))
		if err == nil {
			_ = whole.Close()
		}
	})
}
