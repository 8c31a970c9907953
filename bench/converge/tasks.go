package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/data"
	"github.com/weirgpu/weir/train/recipe"

	_ "embed"
)

//go:embed eager.py
var eagerScript string

//go:embed prepare.py
var prepareScript string

// task is a recipe, but for its precision and seed, and what PyTorch is told of it.
type task struct {
	name   string
	recipe string
	peer   request
	metric string // what evaluations, or judge, come to
	// judge, when set, is how good the outputs gives are for samples with those labels, in place of
	// the metric of evaluations; noise is an input of random numbers.
	judge func(given map[string][]float32, labels [][]float32) (float64, error)
	gives []string
	noise string
	part  float64 // of samples that are tried, drawn from the seed; 0 where held are
	count int     // of samples
	held  []int
}

// request is what eager.py is told.
type request struct {
	Task    string   `json:"task"`
	Inputs  []string `json:"inputs"`
	Labels  string   `json:"labels"`
	Divide  float64  `json:"divide"`
	Batch   int      `json:"batch"`
	Epochs  int      `json:"epochs"`
	Rate    float64  `json:"rate"`
	Seed    int      `json:"seed"`
	Threads int      `json:"threads"`
	Held    []int    `json:"held"`
	Width   int      `json:"width"`
	More    []string `json:"more"` // labels of other losses
	Warmup  int      `json:"warmup"`
	Clip    float64  `json:"clip"`
	Wide    int      `json:"wide"`
	Heads   int      `json:"heads"`
	Length  int      `json:"length"`
	Letters int      `json:"letters"`

	Phonemes int `json:"phonemes"`
	census
}

// allTasks are those that there are, and sources the flags of the data of some.
const allTasks = "classifier,wide & deep,detector,translation,GAN"

var sources = map[string]string{"wide & deep": "adult", "detector": "trees", "translation": "words",
	"GAN": "emoji"}

// tasks prepares those that are asked for and whose data are there.
func (b *bench) tasks(only []string) (all []task, err error) {
	for _, name := range only {
		var t task
		switch {
		case name == "classifier":
			t, err = b.classifier()
		case name == "wide & deep" && b.adult != "" && b.python != "":
			t, err = b.wideDeep()
		case name == "detector" && b.trees != "" && b.python != "":
			t, err = b.detector()
		case name == "translation" && b.words != "" && b.python != "":
			t, err = b.translation()
		case name == "GAN" && b.emoji != "" && b.python != "":
			t, err = b.gan()
		case sources[name] != "":
			fmt.Fprintf(os.Stderr, "%s: left out: give -%s and -python\n", name, sources[name])
			continue
		default:
			err = fmt.Errorf("-tasks: unknown %q: want some of %s", name, allTasks)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// classifier is the recipe of examples/digits.
func (b *bench) classifier() (t task, err error) {
	at, err := filepath.Abs("examples/digits")
	if err != nil {
		return t, err
	}
	rows, err := data.Read(filepath.Join(at, "heldout.npy"))
	if err != nil {
		return t, err
	}
	floats, err := rows.Floats()
	if err != nil {
		return t, err
	}
	t = task{name: "classifier", metric: "accuracy",
		peer: request{Task: "classifier", Batch: 64, Epochs: 10,
			Rate: 4e-3, Divide: 16, Inputs: []string{at + "/images.npy.gz"},
			Labels: at + "/labels.npy"}}
	for _, v := range floats {
		t.held = append(t.held, int(v))
	}
	t.recipe = fmt.Sprintf(`model: %s/digits.onnx
start: random
data:
  inputs: {image: %[1]s/images.npy.gz}
  labels: %[1]s/labels.npy
  divide: 16
  batch: 64
  augment: [crop 1]
  eval: {rows: %[1]s/heldout.npy}
loss: softmax-cross-entropy
optimizer: {adam: {rate: 4e-3}}
schedule: cosine
epochs: 10
`, at)
	return t, nil
}

// wideDeep is a classifier of the adult census.
func (b *bench) wideDeep() (t task, err error) {
	var of census
	out, err := b.run(prepareScript, nil, "adult", b.adult, b.dir)
	if err == nil {
		err = json.Unmarshal(out, &of)
	}
	if err == nil {
		err = writeWideDeep(b.path("widedeep.onnx"), of)
	}
	const part = 0.2
	t = task{name: "wide & deep", metric: "accuracy", part: part, count: of.Samples,
		peer: request{Task: "wide & deep",
			Batch: 256, Epochs: 4, Rate: 1e-3, Divide: 1, Inputs: []string{b.path("numbers.npy"),
				b.path("categories.npy")}, Labels: b.path("labels.npy"), Width: width, census: of}}
	t.recipe = fmt.Sprintf(`model: %s/widedeep.onnx
start: random
data:
  inputs: {numbers: %[1]s/numbers.npy, categories: %[1]s/categories.npy}
  labels: %[1]s/labels.npy
  batch: 256
  eval: {part: %v}
loss: binary-cross-entropy
optimizer: {adam: {rate: 1e-3}}
schedule: cosine
epochs: 4
`, b.dir, part)
	return t, err
}

// train follows a task by weir.
func (b *bench) train(t task, m mode, seed int, c *cell) error {
	r, err := recipe.Parse(strings.NewReader(fmt.Sprintf("%s%s\nseed: %d\n", t.recipe, m.says,
		seed)))
	if err != nil {
		return err
	}
	if t.judge != nil {
		r.Output = b.path("trained.onnx")
	}
	run, err := train.Open(context.Background(), r, train.Options{Machine: b.on})
	if err != nil {
		return err
	}
	res, err := run.Train(context.Background())
	if err = errors.Join(err, run.Close()); err != nil {
		return err
	}
	var epochs [][]float64
	for _, p := range res.Points {
		epochs = append(epochs, []float64{p.Eval.Loss, p.Eval.Metric})
	}
	if t.judge != nil {
		if err := b.judged(t, r.Output, seed, epochs); err != nil {
			return err
		}
	}
	c.Skipped += res.SkippedSteps
	c.Seconds += res.Seconds
	return c.add(epochs)
}

// add takes the evaluations of a seed.
func (c *cell) add(epochs [][]float64) error {
	if len(epochs) == 0 || len(epochs[len(epochs)-1]) != 2 {
		return errors.New("no evaluation")
	}
	last := epochs[len(epochs)-1]
	c.Epochs = append(c.Epochs, epochs)
	c.Loss, c.Metric = append(c.Loss, last[0]), append(c.Metric, last[1])
	return nil
}

// eager follows a task by PyTorch.
func (b *bench) eager(t task, seed int, c *cell) error {
	q := t.peer
	q.Seed, q.Threads, q.Held = seed, b.on.Pool.Threads(), t.held
	if t.part > 0 {
		q.Held, _ = data.Part(t.count, t.part, uint64(seed))
	}
	in, err := json.Marshal(q)
	if err != nil {
		return err
	}
	out, err := b.run(eagerScript, in)
	if err != nil {
		return err
	}
	var a struct {
		Torch  string      `json:"torch"`
		Epochs [][]float64 `json:"epochs"`

		Given map[string][]float32 `json:"given"`
	}
	if err := json.Unmarshal(out, &a); err != nil {
		return err
	}
	b.Torch = a.Torch
	if t.judge != nil {
		labels, err := t.labels(q.Held)
		if err != nil {
			return err
		}
		if a.Epochs[len(a.Epochs)-1][1], err = t.judge(a.Given, labels); err != nil {
			return err
		}
	}
	return c.add(a.Epochs)
}

// run runs a Python script.
func (b *bench) run(script string, in []byte, args ...string) ([]byte, error) {
	cmd := exec.Command(b.python, append([]string{"-c", script}, args...)...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	return cmd.Output()
}

// spread is the mean of values and their standard deviation, that of a sample.
func spread(v []float64) (mean, deviation float64) {
	for _, x := range slices.Sorted(slices.Values(v)) {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		deviation += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(deviation / float64(max(len(v)-1, 1)))
}
