// Command parallel measures what it costs to share the batches of a training out to two processes,
// and holds that any number of processes comes to the bits of one, also when they are killed:
//
//	go run ./bench/parallel               # about ten minutes, on a still machine
//	go run ./bench/parallel -json > bench/results/DATE-parallel.json
//
// It follows recipes with the weir of this checkout, in turn: by one process on two threads without
// shards, by the same with two shards, and by two processes on a thread each. Then it trains the
// digits by one to four processes, on one thread and on two, and kills a worker or the leader by
// signal 9 again and again, after each of which the training is resumed. The exit code is 1 when a
// bound is missed.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/wholefile"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

const command claims.Command = "parallel"

// way is one way to follow a recipe.
type way struct {
	Name               string `json:"name"`
	shards             int
	processes, threads int
}

// ways are compared by time.
var ways = []way{{"one process, two threads", 1, 1, 2}, {"the same, two shards", 2, 1, 2},
	{"two processes, a thread each", 2, 2, 1}}

// row is the times of a model.
type row struct {
	Model   string      `json:"model"`
	Ways    []way       `json:"ways"`
	StepMS  [][]float64 `json:"step_ms"` // of each way, by round
	Ratio   float64     `json:"ratio"`   // of two processes to one
	Shards  float64     `json:"shards"`  // of one process with shards to one without
	Overlap float64     `json:"overlap_share"`
}

type results struct {
	Date    string      `json:"date"`
	Machine string      `json:"machine"`
	Cores   int         `json:"cores"`
	Go      string      `json:"go"`
	Rows    []row       `json:"rows"`
	Kills   int         `json:"kills"`
	Digests []string    `json:"digests"`
	Claims  claims.Book `json:"claims"`
}

type bench struct {
	results
	dir, weir     string
	rounds, kills int
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	b := &bench{results: results{Date: time.Now().UTC().Format("2006-01-02"),
		Machine: cpuinfo.ModelName(), Cores: runtime.NumCPU(), Go: runtime.Version()}}
	flag.IntVar(&b.rounds, "rounds", 5, "rounds of each way; 0 for no times")
	flag.IntVar(&b.kills, "kills", 40, "processes that are killed")
	flag.Parse()
	err := b.all()
	command.Check(err)
	command.Finish(b.results, *asJSON, b.Claims.Judge(os.Stderr))
}

func (b *bench) all() (err error) {
	if b.dir, err = os.MkdirTemp("", "parallel"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.weir = filepath.Join(b.dir, "weir")
	build := exec.Command("go", "build", "-o", b.weir, "./cmd/weir")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if err := b.images(); err != nil {
		return err
	}
	for _, m := range []struct {
		name                string
		batch, steps, bound int
	}{{"resnet50", 8, 6, 115}, {"mobilenetv2", 16, 10, 115}, {"digits", 64, 220, 0}} {
		if b.rounds < 1 {
			break
		}
		if err := b.times(m.name, m.batch, m.steps, float64(m.bound)/100); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return b.digests()
}

// times compares the ways to train a model, but for the bound where that is 0.
func (b *bench) times(name string, batch, steps int, bound float64) error {
	r := row{Model: name, Ways: ways, StepMS: make([][]float64, len(ways))}
	for round := range b.rounds {
		for k := range ways {
			i := (k + round) % len(ways)
			path, err := b.recipe(name, batch, ways[i].shards, steps)
			if err != nil {
				return err
			}
			res, err := b.train(path, ways[i].processes, ways[i].threads)
			if err != nil {
				return err
			}
			r.StepMS[i] = append(r.StepMS[i], res.StepMS)
			r.Overlap = max(r.Overlap, res.Overlap)
		}
	}
	one := claims.Median(r.StepMS[0])
	r.Shards, r.Ratio = claims.Median(r.StepMS[1])/one, claims.Median(r.StepMS[2])/one
	fmt.Fprintf(os.Stderr, "%-12s %8.1f ms an update; with shards %.3f, two processes %.3f\n", name,
		one, r.Shards, r.Ratio)
	if bound > 0 {
		b.Claims.Check(name+": two processes over one", r.Ratio, bound, true)
	}
	b.Rows = append(b.Rows, r)
	return nil
}

// result is what of a run's JSON is looked at.
type result struct {
	StepMS  float64 `json:"step_ms"`
	Overlap float64 `json:"overlap_share"`
	Digest  string  `json:"digest"`
}

// train follows a recipe, from its newest checkpoint if it keeps any.
func (b *bench) train(path string, processes, threads int, more ...string) (res result, err error) {
	cmd := b.command(path, processes, threads, append(more, "--json")...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return res, err
	}
	return res, json.Unmarshal(out, &res)
}

func (b *bench) command(path string, processes, threads int, more ...string) *exec.Cmd {
	return exec.Command(b.weir, append([]string{"train", path, "--processes",
		fmt.Sprint(processes), "--threads", fmt.Sprint(threads)}, more...)...)
}

// images writes random images with labels, for networks of ImageNet.
func (b *bench) images() error {
	const n, side = 32, 224
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, n*3*side*side)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	y := make([]int64, n)
	for i := range y {
		y[i] = int64(rng.IntN(1000))
	}
	return errors.Join(b.write("images.npy", tensor.From(x, n, 3, side, side)),
		b.write("labels.npy", tensor.From(y, n)))
}

func (b *bench) write(name string, t *tensor.Tensor) error {
	return wholefile.Write(filepath.Join(b.dir, name), func(w io.Writer) error {
		return npy.Write(w, t)
	})
}

// recipe writes a recipe for a model, without checkpoints.
func (b *bench) recipe(name string, batch, shards, steps int) (string, error) {
	model, data := filepath.Join(b.dir, name+".onnx"),
		fmt.Sprintf("{inputs: {INPUT: %s/images.npy}, labels: %[1]s/labels.npy, batch: %d}", b.dir,
			batch)
	if name == "digits" {
		at, err := filepath.Abs("examples/digits")
		if err != nil {
			return "", err
		}
		model = filepath.Join(at, "digits.onnx")
		data = fmt.Sprintf("{inputs: {INPUT: %s/images.npy.gz}, labels: %[1]s/labels.npy, "+
			"divide: 16, batch: %d, augment: [crop 1]}", at, batch)
	} else if _, err := os.Stat(model); err != nil {
		cmd := exec.Command(b.weir, "model", "new", name, model)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
	}
	input, err := inputOf(model)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("model: %s\nstart: random\ndata: %s\nloss: softmax-cross-entropy\n"+
		"optimizer: {momentum: {rate: 0.01}}\nsteps: %d\nshards: %d\nseed: 3\n", model,
		replaceInput(data, input), steps, shards)
	path := filepath.Join(b.dir, fmt.Sprintf("%s-%d.yaml", name, shards))
	return path, os.WriteFile(path, []byte(text), 0o666)
}
