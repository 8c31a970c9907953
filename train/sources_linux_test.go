package train_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/data"
	"github.com/weirgpu/weir/train/recipe"
)

// pictures is a folder with pictures of two classes, bright ones and dark ones.
func pictures(t *testing.T, each int) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for i := range 2 * each {
		m := image.NewGray(image.Rect(0, 0, 12, 10))
		for k := range m.Pix {
			m.Pix[k] = uint8(128*(i%2) + (i*k)%100)
		}
		var b bytes.Buffer
		name, err := fmt.Sprintf("%s/%02d.png", []string{"dark", "light"}[i%2], i), error(nil)
		if i%3 == 0 {
			name, err = strings.Replace(name, ".png", ".jpg", 1), jpeg.Encode(&b, m, nil)
		} else {
			err = png.Encode(&b, m)
		}
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(folder, name), b.Bytes())
	}
	return folder
}

// ofPictures is a recipe with pictures, in a folder of its own.
func ofPictures(t *testing.T, folder, more string, change ...string) *recipe.Recipe {
	t.Helper()
	model, err := filepath.Abs("../examples/digits/digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "recipe.yaml")
	text := fmt.Sprintf(`model: %s
start: random
data:
  inputs: {image: {images: %s, mean: [0.4], std: [0.3], fit: cover}}
  batch: 8
  augment: [resize 0.5 1, flip, crop 1]
  eval: {part: 0.2}
loss: softmax-cross-entropy
optimizer: {adam: {rate: 4e-3}}
%s
`, model, folder, more)
	put(t, path, []byte(strings.NewReplacer(change...).Replace(text)))
	r, err := recipe.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPictureBits: a run on pictures, some of which are made in the background, ends with the same
// bits on one thread and several, in one process and several, and when it was interrupted.
func TestPictureBits(t *testing.T) {
	folder := pictures(t, 30)
	const all = "epochs: 3\naccumulate: 2\nshards: 2\n"
	want, err := open(t, ofPictures(t, folder, all), 1, train.Options{}).Train(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want.Metric < 0.9 || len(want.Idle) != int(want.Steps) || want.Steps != 9 {
		t.Errorf("light is told from dark with accuracy %v, in %d updates, idle for %v",
			want.Metric, want.Steps, want.Idle)
	}
	got, err := open(t, ofPictures(t, folder, all), 3, train.Options{}).Train(t.Context())
	if err != nil || got.Digest != want.Digest {
		t.Errorf("on three threads the digest is another: %v", err)
	}
	got, err = together(t, ofPictures(t, folder, all), 2, 1, train.Options{}, nil)
	if err != nil || got.Digest != want.Digest {
		t.Errorf("in two processes the digest is another: %v", err)
	}
	r := ofPictures(t, folder, all+"checkpoint: {to: kept}\n")
	for _, until := range []int64{2, 5, 0} {
		run := open(t, r, 2, train.Options{Steps: until})
		if err := run.Resume(); err != nil {
			t.Fatal(err)
		}
		if got, err = run.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got.Digest != want.Digest {
		t.Error("an interrupted run has another digest")
	}
	loss := map[[2]float64]string{}
	for from, to := range map[string]string{"": "", "resize 0.5 1": "resize 0.6 1",
		"std: [0.3]": "std: [0.4]", "fit: cover": "fit: stretch", "flip, ": ""} {
		r := ofPictures(t, folder, "steps: 1", from, to)
		got, err := open(t, r, 1, train.Options{}).Train(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		is := [2]float64{got.Loss, got.EvalLoss}
		if loss[is] != "" {
			t.Errorf("%q for %q gives the losses of %q", to, from, loss[is])
		}
		loss[is] = to + " as it is"
	}
}

// TestAhead: all batches but the first are made in the background, also those of shards and of
// another epoch, unless they are as fast copied.
func TestAhead(t *testing.T) {
	folder := pictures(t, 30)
	for text, want := range map[string]int{"epochs: 2": 11, "epochs: 2\naccumulate: 2": 11,
		"epochs: 2\nshards: 2": 23, "epochs: 2\nshards: 2\naccumulate: 2": 23} {
		run := open(t, ofPictures(t, folder, text), 1, train.Options{})
		if _, err := run.Train(t.Context()); err != nil || run.Used() != want {
			t.Errorf("%q: %d batches are made in the background, want %d: %v", text, run.Used(),
				want, err)
		}
	}
	r := short(t)
	r.Data.Augment = nil
	run := open(t, r, 1, train.Options{})
	if _, err := run.Train(t.Context()); err != nil || run.Used() != 0 {
		t.Errorf("%d batches of numbers are made in the background: %v", run.Used(), err)
	}
}

// TestAheadAsked: what was made in the background is taken for the samples and the epoch that it
// was made for, and no others.
func TestAheadAsked(t *testing.T) {
	folder := pictures(t, 30)
	begun, fresh := open(t, ofPictures(t, folder, "epochs: 9"), 1, train.Options{}),
		beside(t, ofPictures(t, folder, "epochs: 9"), 1, train.Options{})
	if err := begun.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, epoch := begun.Coming()
	back := slices.Clone(rows)
	slices.Reverse(back)
	for _, ask := range []struct {
		rows  []int
		epoch int
	}{{rows, epoch}, {back, epoch}, {rows, epoch + 1}, {rows, -1}, {rows, epoch}} {
		if !bytes.Equal(begun.Filled("image", ask.rows, ask.epoch), fresh.Filled("image", ask.rows,
			ask.epoch)) {
			t.Errorf("samples %v of epoch %d are others, once %v of epoch %d are made", ask.rows,
				ask.epoch, rows, epoch)
		}
	}
	if begun.Used() != 2 {
		t.Errorf("what was made was used %d times, want 2", begun.Used())
	}
}

// TestIdle: the device is idle while large pictures are decoded for a small model, and that is
// measured.
func TestIdle(t *testing.T) {
	folder := pictures(t, 20)
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 600, 400))); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		put(t, fmt.Sprintf("%s/dark/%02d.png", folder, 2*i), b.Bytes())
	}
	last := 0.0
	res, err := open(t, ofPictures(t, folder, "epochs: 1"), 1, train.Options{
		Progress: func(e train.Event) {
			if e.Eval == nil {
				last = e.Idle
			}
		}}).Train(t.Context())
	if err != nil || res.DataWaitShare < 0.5 || last != res.DataWaitShare {
		t.Errorf("idle for %v, %v of it: %v", last, res.DataWaitShare, err)
	}
}

// TestPictureChanged: a file that is changed while a run goes on ends it, with the file; what was
// computed until then is kept.
func TestPictureChanged(t *testing.T) {
	folder := pictures(t, 20)
	r := ofPictures(t, folder, "epochs: 4\ncheckpoint: {to: kept, steps: 100}\n")
	updates := int64(0)
	run := open(t, r, 2, train.Options{Progress: func(e train.Event) {
		if updates = e.Update; e.Update == 5 && e.Eval == nil {
			for i := range 20 {
				put(t, fmt.Sprintf("%s/dark/%02d.png", folder, 2*i), []byte("no picture"))
				put(t, fmt.Sprintf("%s/dark/%02d.jpg", folder, 2*i), []byte("no picture"))
			}
		}
	}})
	_, err := run.Train(t.Context())
	if !errors.Is(err, data.ErrData) || !strings.Contains(err.Error(), "was changed while") {
		t.Fatalf("pictures that were changed: %v", err)
	}
	kept, err := filepath.Glob(filepath.Join(r.Checkpoint.To, "*.safetensors"))
	if err != nil || len(kept) != 1 || !strings.Contains(kept[0], fmt.Sprint(updates)) {
		t.Errorf("after update %d there are %v, %v", updates, kept, err)
	}
}

// TestPicturesRefused: pictures that do not fit model or recipe are refused, with what is wrong.
func TestPicturesRefused(t *testing.T) {
	for what, spoil := range map[string]func(folder string, r *recipe.Recipe){
		"light/99.png: unusable data": func(folder string, _ *recipe.Recipe) {
			put(t, folder+"/light/99.png", []byte("\x89PNG\r\n\x1a\nno"))
		},
		"of class 10: the model has 10": func(folder string, _ *recipe.Recipe) {
			b, err := os.ReadFile(folder + "/dark/02.png")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 9 {
				put(t, fmt.Sprintf("%s/x%d/0.png", folder, i), b)
			}
		},
		`has no class "light"`: func(folder string, r *recipe.Recipe) {
			only := t.TempDir()
			for i := range 20 {
				b, err := os.ReadFile(folder + "/dark/02.png")
				if err != nil {
					t.Fatal(err)
				}
				put(t, fmt.Sprintf("%s/dark/%d.png", only, i), b)
			}
			r.Data.Inputs["image"] = recipe.Source{Images: only}
			r.Data.Eval = recipe.Eval{Inputs: map[string]recipe.Source{"image": {Images: folder}}}
		},
		"folders of images are one class a sample": func(_ string, r *recipe.Recipe) {
			r.Loss.Kind = "mean-squared-error"
		},
	} {
		folder := pictures(t, 20)
		r := ofPictures(t, folder, "epochs: 1")
		spoil(folder, r)
		if err := refused(t, r); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}

// texts is a folder with a model that tells two kinds of texts apart, and texts.
func texts(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	g, err := graph.Parse(strings.Replace(`graph "texts" {
  opset "" 17
  input %ids: int64[n,6]
  input %mask: float32[n,6]
  const %table: float32[8,4] = {TABLE}
  const %w: float32[4,2] = {1, -1, 0.5, -0.5, 0.25, 1, -1, 1}
  const %one: int64[1] = {1}
  const %two: int64[1] = {2}
  %v = Gather@13 (%table, %ids)
  %m = Unsqueeze@13 (%mask, %two)
  %k = Mul@14 (%v, %m)
  %s = ReduceSum@13 (%k, %one) {keepdims=0}
  %y = MatMul@13 (%s, %w)
  output %y
}`, "TABLE", strings.Repeat("0.1, -0.2, ", 15)+"0.1, 0.3", 1))
	if err == nil {
		err = onnx.WriteFile(filepath.Join(dir, "texts.onnx"), g, onnx.WriteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "vocab.txt"),
		[]byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\ngood\nbad\nfilm\na\n"))
	put(t, filepath.Join(dir, "names.txt"), []byte("no\nyes\n"))
	var all bytes.Buffer
	for i := range 64 {
		fmt.Fprintf(&all, "%s\ta %s film\n", []string{"no", "yes"}[i%2],
			[]string{"bad", "good"}[i%2])
	}
	put(t, filepath.Join(dir, "all.tsv"), all.Bytes())
	return dir
}

const ofTexts = `model: texts.onnx
start: random
data:
  inputs: {ids: {text: all.tsv, column: 2, vocabulary: vocab.txt, mask: mask}}
  labels: {text: all.tsv, names: names.txt}
  batch: 8
  eval: {part: 0.25}
loss: softmax-cross-entropy
optimizer: {adam: {rate: 3e-2}}
epochs: 5
`

// TestTexts: texts with labels by name train a model to tell them apart; what is wrong with them is
// said with file and line.
func TestTexts(t *testing.T) {
	dir := texts(t)
	load := func(from, to string) *recipe.Recipe {
		path := filepath.Join(dir, "recipe.yaml")
		put(t, path, []byte(strings.Replace(ofTexts, from, to, 1)))
		r, err := recipe.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	res, err := open(t, load("", ""), 2, train.Options{}).Train(t.Context())
	if err != nil || res.Metric != 1 {
		t.Errorf("accuracy %+v, %v", res, err)
	}
	mask := tensor.From([]float32{1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0}, 2, 6)
	got := open(t, load("", ""), 1, train.Options{})
	filled := got.Filled("mask", []int{3, 4, 5, 6, 7, 8, 9, 10}, 1)
	if !bytes.Equal(filled[:len(mask.Data)], mask.Data) {
		t.Error("the mask is not 1 for tokens and 0 behind")
	}
	for _, tc := range []struct{ from, to, want string }{
		{"column: 2", "column: 3", "all.tsv: unusable data: line 1: 2 columns, want column 3"},
		{"column: 2", "column: 1", `all.tsv: unusable data: line 1: "no" is no token of`},
		{"names: names.txt", "names: vocab.txt", `line 1: label "no" is no line of`},
		{", names: names.txt", "", `line 1: label "no" is no whole number`},
		{", mask: mask", "", `no file for input "mask" of the model`},
		{"mask: mask", "mask: mask, types: kind", `the model has no input "kind"`},
	} {
		if err := refused(t, load(tc.from, tc.to)); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.to, err, tc.want)
		}
	}
}
