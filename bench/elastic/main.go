// Command elastic holds that what happens to a training changes no bit of its result: it trains on
// one thread and on two, killed by signal 9 and resumed a hundred times, preempted ten thousand
// times within updates, and with its cap of memory halved and restored while it runs, and compares
// the digests of weights, moments and statistics:
//
//	go run ./bench/elastic               # about two minutes
//	go run ./bench/elastic -json > bench/results/DATE-elastic.json
//
// The recipes are those of examples/digits, of a deep network on the same images, most of whose
// memory is what its forward pass leaves, and of one of convolutions, pooling, recurrent layers and
// an embedding, in float32 and in bfloat16. The exit code is 1 when a digest differs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// row is one training.
type row struct {
	Model   string  `json:"model"`
	What    string  `json:"what"`
	Times   int64   `json:"times,omitempty"` // that it happened
	Updates int64   `json:"updates"`
	Digest  string  `json:"digest"`
	Seconds float64 `json:"seconds"`
}

type results struct {
	Date      string             `json:"date"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Cores     int                `json:"cores"`
	Go        string             `json:"go"`
	Rows      []row              `json:"rows"`
	Claims    claims.Book        `json:"claims"`
}

// command is how messages begin.
const command claims.Command = "elastic"

// bench is what the parts use.
type bench struct {
	results
	dir, only                 string
	kills, preemptions, moves int64
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	b := &bench{results: results{Date: time.Now().UTC().Format("2006-01-02"),
		Machine: cpuinfo.ModelName(), Processor: roofline.Identify(), Cores: runtime.NumCPU(),
		Go: runtime.Version()}}
	flag.Int64Var(&b.kills, "kills", 100, "how often a training is killed")
	flag.Int64Var(&b.preemptions, "preemptions", 10_000, "how often one is preempted at the least")
	flag.Int64Var(&b.moves, "caps", 10, "how often the cap of one changes")
	flag.StringVar(&b.only, "only", "", "only this training: digits, deep, mixed or halves")
	victim := flag.String("victim", "", "follow this recipe in a process that will be killed")
	flag.Parse()
	if *victim != "" {
		command.Check(follow(*victim))
		return
	}
	err := b.all()
	command.Check(err)
	command.Finish(b.results, *asJSON, b.Claims.Judge(os.Stderr))
}

// subject is a network, how it is trained, and what happens to that.
type subject struct {
	name, optimizer, precision string
	batch, epochs              int
	write                      func(path string) error // nil for the digits' own model
	parts                      []func(string) (row, error)
}

func (b *bench) subjects() []subject {
	all := []func(string) (row, error){one, two, b.killed, b.preempted, b.capped}
	return []subject{
		{"digits", "adam: {rate: 1e-3}", "fp32", 64, 60, nil, all[:4]},
		{"deep", "sgd: {rate: 0.05}", "fp32", 1024, 1000, writeDeep,
			[]func(string) (row, error){one, two, b.capped}},
		{"mixed", "adam: {rate: 1e-3}", "fp32", 256, 120, writeMixed, all},
		{"halves", "adam: {rate: 1e-3}", "bf16", 256, 120, writeMixed, all},
	}
}

func (b *bench) all() (err error) {
	if b.dir, err = os.MkdirTemp("", "elastic"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	for _, t := range b.subjects() {
		if b.only != "" && b.only != t.name {
			continue
		}
		model := "examples/digits/digits.onnx"
		if t.write != nil {
			model = filepath.Join(b.dir, t.name+".onnx")
			if err := t.write(model); err != nil {
				return err
			}
		}
		path, err := b.recipe(&t, model)
		if err != nil {
			return err
		}
		if err := b.compare(path, t.parts); err != nil {
			return err
		}
	}
	return nil
}

// compare follows a recipe in several ways, and holds their digests against that of the first.
func (b *bench) compare(path string, parts []func(string) (row, error)) error {
	want := ""
	for _, part := range parts {
		if err := os.RemoveAll(filepath.Join(filepath.Dir(path), "run")); err != nil {
			return err
		}
		begin := time.Now()
		r, err := part(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		r.Model, r.Seconds = filepath.Base(filepath.Dir(path)), time.Since(begin).Seconds()
		b.Rows = append(b.Rows, r)
		if want == "" {
			want = r.Digest
		}
		differs := 0.0
		if r.Digest != want || want == "" {
			differs = 1
		}
		b.Claims.Check(fmt.Sprintf("%s, %s: another digest", r.Model, r.What), differs, 0, true)
		fmt.Fprintf(os.Stderr, "%-7s %-40s %6d times %6d updates %s %.1f s\n", r.Model, r.What,
			r.Times, r.Updates, r.Digest, r.Seconds)
	}
	return nil
}

// recipe writes a recipe of the digits' images for a model.
func (b *bench) recipe(t *subject, model string) (string, error) {
	dir := filepath.Join(b.dir, t.name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	at, err := filepath.Abs("examples/digits")
	if err == nil {
		model, err = filepath.Abs(model)
	}
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf(`model: %s
start: random
data:
  inputs: {image: %s/images.npy.gz}
  labels: %[2]s/labels.npy
  divide: 16
  batch: %[3]d
  augment: [crop 1]
  eval: {rows: %[2]s/heldout.npy}
loss: softmax-cross-entropy
optimizer: {%[4]s}
schedule: cosine
epochs: %[5]d
precision: %[6]s
seed: 1998
checkpoint: {to: run, steps: 3}
`, model, at, t.batch, t.optimizer, t.epochs, t.precision)
	path := filepath.Join(dir, "recipe.yaml")
	return path, os.WriteFile(path, []byte(text), 0o666)
}

func one(path string) (row, error) { return straight(path, 1) }
func two(path string) (row, error) { return straight(path, 2) }

// straight follows a recipe without a checkpoint on so many threads.
func straight(path string, threads int) (row, error) {
	r, err := recipe.Load(path)
	if err != nil {
		return row{}, err
	}
	r.Checkpoint.To = ""
	res, err := run(r, threads, nil)
	if err != nil {
		return row{}, err
	}
	what := fmt.Sprintf("undisturbed, threads: %d", threads)
	return row{What: what, Updates: res.Steps, Digest: res.Digest}, nil
}

// run follows a recipe to its end, from its newest checkpoint where it keeps any.
func run(r *recipe.Recipe, threads int, progress func(train.Event)) (*train.Result, error) {
	on, err := machine.Open("cpu:0", machine.Options{Threads: threads})
	if err != nil {
		return nil, err
	}
	defer on.Close()
	t, err := train.Open(context.Background(), r, train.Options{Machine: on, Progress: progress})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if r.Checkpoint.To != "" {
		if err := t.Resume(); err != nil {
			return nil, err
		}
	}
	return t.Train(context.Background())
}
