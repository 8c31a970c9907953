// Command train holds updates of weir train against PyTorch's: the losses of 20 updates and the
// gradients of the first, of four models from the same weights on the same batches, under four
// optimizers; and what an update takes, over PyTorch eager on as many threads, in turn:
//
//	go run ./bench/train               # some minutes more where PyTorch must be fetched
//	go run ./bench/train -json > bench/results/DATE-train.json
//
// With -architectures it does the same, under one optimizer, with models that PyTorch exports, and
// holds the bytes that weir plans against those by which PyTorch's process grows. Gradients are
// first compared in float64, on a small batch; -exact does that alone:
//
//	go run ./bench/train -architectures
//
// With -race it compares no numbers, but what an update takes by weir and by the fastest of PyTorch
// eager, PyTorch compiled, the training build of ONNX Runtime and JAX, on as many threads each. All
// but JAX, for which the models are written anew, begin with the same weights; all make two passes
// over the same batches before they are timed, in which losses must fall. Who cannot train a model
// is named, with the reason, and left out. Processes are stopped when it is not their turn:
//
//	go run ./bench/train -race         # about half an hour; -model NAME races one
//
// With -opinfo it compares gradients of the samples of PyTorch's own tests (OpInfo), as its
// exporter writes them, in float64:
//
//	go run ./bench/train -opinfo
//
// Wheels of pinned versions are installed into the user's cache, once. With -python PyTorch is that
// of another Python, which has numpy beside it, and for exported models onnx, torchvision and
// transformers, for the samples onnx and expecttest.
//
// -steps prints what each operator of an update takes.
//
// The exit code is 1 when a bound is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/data"
	"github.com/weirgpu/weir/train/step"
)

// The bounds of issue 15: differences in parts of PyTorch's numbers, and time and memory over
// PyTorch's.
const (
	mostDifference = 1e-4
	mostTime       = 1.0
	mostMemory     = 0.7
)

// updates are those whose losses are compared.
const updates = 20

// optimizer is one with its rate.
type optimizer struct {
	step.Optimizer
	Rate float64
}

// optimizers are those that are compared. The last is the one that is timed.
var optimizers = []optimizer{
	{step.SGD.Defaults(), 0.05}, {step.Momentum.Defaults(), 0.02}, {step.AdamW.Defaults(), 1e-3},
	{step.Adam.Defaults(), 1e-3},
}

// compared is a model under an optimizer.
type compared struct {
	Model     string    `json:"model"`
	Optimizer string    `json:"optimizer"`
	Weir      []float64 `json:"weir"` // losses
	Torch     []float64 `json:"torch"`
	Loss      float64   `json:"loss_difference"`
	Gradient  float64   `json:"gradient_difference,omitempty"` // of the worst weight
	// of models that PyTorch exports differences are from PyTorch's numbers in float64, and these
	// are PyTorch's own in float32
	TorchLoss     float64 `json:"torch_loss_difference,omitempty"`
	TorchGradient float64 `json:"torch_gradient_difference,omitempty"`
}

type results struct {
	Date      string             `json:"date"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Cores     int                `json:"cores"`
	Threads   int                `json:"threads"`
	Go        string             `json:"go"`
	Torch     string             `json:"torch,omitempty"`
	Versions  map[string]string  `json:"versions,omitempty"` // of rivals
	Foreign   float64            `json:"foreign_cores"`
	Compared  []compared         `json:"compared,omitempty"`
	Races     []race             `json:"races"`
	Figures   map[string]float64 `json:"figures,omitempty"` // megabytes
	OpInfo    *tally             `json:"opinfo,omitempty"`
	Claims    claims.Book        `json:"claims"`
}

// bench is what the parts use.
type bench struct {
	results
	rounds int
	steps  bool   // whether what operators take is printed
	only   string // the name of the model that is trained, empty for all
	// whether architectures are trained, too, where no model is named
	exports bool
	exact   bool // whether they are compared in float64 alone
	races   bool // whether models are raced beside all rivals, and not compared
	opinfo  bool // whether the samples of PyTorch's own tests are compared, and no model
	on      *machine.Machine
	python  string // that has PyTorch, empty for the one that is installed
	peer    *peer  // PyTorch, which models are compared with
}

// batches are those of the updates.
type batches struct {
	x   [][]float32
	ids [][]int64 // instead of x, of models of text
	y   [][]int64
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	python := flag.String("python", "", "a Python that has torch instead of the pinned one")
	rounds := flag.Int("rounds", 7, "rounds of updates that are timed; 0 times none")
	threads := flag.Int("threads", 2, "threads of each")
	steps := flag.Bool("steps", false, "print what each operator of an update takes")
	only := flag.String("model", "", "the model to train; all without")
	exports := flag.Bool("architectures", false, "train the models that PyTorch exports, too")
	exact := flag.Bool("exact", false,
		"compare the models that PyTorch exports in float64, and nothing else")
	races := flag.Bool("race", false,
		"time updates beside all rivals, of the models of the geometric mean, and compare nothing")
	opinfo := flag.Bool("opinfo", false,
		"compare gradients of the samples of PyTorch's own tests, and no model")
	flag.Parse()
	const command claims.Command = "train"
	b := &bench{rounds: *rounds, steps: *steps, only: *only, exports: *exports || *exact,
		exact: *exact, races: *races, opinfo: *opinfo, python: *python}
	b.results = results{
		Date:    time.Now().UTC().Format("2006-01-02"),
		Machine: cpuinfo.ModelName(), Processor: roofline.Identify(), Cores: runtime.NumCPU(),
		Threads: *threads, Go: runtime.Version(), Figures: map[string]float64{},
		Versions: map[string]string{}}
	noise := claims.Start()
	err := b.measure(context.Background())
	command.Check(err)
	b.Foreign = noise.Foreign()
	command.Finish(&b.results, *asJSON, b.print(os.Stderr))
}

func (b *bench) measure(ctx context.Context) (err error) {
	if b.python, err = b.pythonOf(ctx, "torch"); err != nil {
		return err
	}
	if b.opinfo {
		return b.samples(ctx, b.python)
	}
	b.on, err = machine.Open("cpu:0", machine.Options{Threads: b.Threads})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.on.Close()) }()
	if b.peer, err = start(ctx, b.python, eager); err != nil {
		return err
	}
	defer func() {
		if b.peer != nil {
			err = errors.Join(err, b.peer.stop())
		}
	}()
	of, err := read()
	if err != nil {
		return err
	}
	if b.races {
		return b.contests(ctx, of)
	}
	return b.comparisons(ctx, of)
}

// contests races the models of the geometric mean, or the one that is named.
func (b *bench) contests(ctx context.Context, of *batches) error {
	all := slices.Concat(subjects, architectures)
	for i := range all {
		s := &all[i]
		if b.only != s.name && (b.only != "" || !slices.Contains(six, s.name)) {
			continue
		}
		if err := b.contest(ctx, s, of); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if m, whole := mean(b.Races, six); whole {
		b.Claims.Check("update over the fastest rival's, geometric mean of six models", m, mostTime,
			true)
	}
	return nil
}

// comparisons compares all models, or the one that is named.
func (b *bench) comparisons(ctx context.Context, of *batches) error {
	for i := range subjects {
		if b.exact || b.only != "" && b.only != subjects[i].name {
			continue
		}
		for _, o := range optimizers {
			if err := b.compare(ctx, &subjects[i], o, of); err != nil {
				return fmt.Errorf("%s, %s: %w", subjects[i].name, o.Kind, err)
			}
		}
	}
	for i := range architectures {
		s := &architectures[i]
		if b.only != s.name && (b.only != "" || !b.exports) {
			continue
		}
		if err := b.architecture(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// read reads the batches from the digits.
func read() (*batches, error) {
	of := func(path string, d tensor.DType, per int, divide float64) (*data.Column, error) {
		t, err := data.Read(folder + path)
		if err != nil {
			return nil, fmt.Errorf("%w: run this from the module's root", err)
		}
		return data.NewColumn(t, d, per, divide)
	}
	images, err := of("images.npy.gz", tensor.Float32, 64, 16)
	if err != nil {
		return nil, err
	}
	labels, err := of("labels.npy", tensor.Int64, 1, 1)
	if err != nil {
		return nil, err
	}
	b := &batches{}
	for i := range updates {
		rows := make([]int, batch)
		for k := range rows {
			rows[k] = i*batch + k
		}
		x, y := make([]float32, batch*64), make([]int64, batch)
		err := errors.Join(images.Fill(tensor.From(x, batch, 64), rows, -1),
			labels.Fill(tensor.From(y, batch), rows, -1))
		if err != nil {
			return nil, err
		}
		b.x, b.y = append(b.x, x), append(b.y, y)
	}
	return b, nil
}

// compare trains a model by both, and then times both.
func (b *bench) compare(ctx context.Context, s *subject, o optimizer, of *batches) (err error) {
	t, err := open(ctx, b.on, s, o, of)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	a, err := b.peer.ask(&request{Model: s.name, Threads: b.Threads, Weights: t.weights(),
		Shape: s.shape, X: of.x, Y: of.y, Updates: updates, Optimizer: o.asked()})
	if err != nil {
		return err
	}
	losses, ds, err := t.begin(ctx)
	if err != nil {
		return err
	}
	c := compared{Model: s.name, Optimizer: string(o.Kind), Weir: losses, Torch: a.Losses,
		Loss: worst(losses, a.Losses)}
	name := s.name + ", " + string(o.Kind)
	b.Claims.Check(name+", losses over 1e-4", c.Loss/mostDifference, 1, true)
	for name, d := range ds {
		c.Gradient = max(c.Gradient, claims.Distance(d, a.Gradients[name]))
	}
	if len(ds) > 0 {
		b.Claims.Check(name+", gradients over 1e-4", c.Gradient/mostDifference, 1, true)
	}
	b.Torch, b.Compared = a.Version, append(b.Compared, c)
	if o.Kind != optimizers[len(optimizers)-1].Kind {
		return nil
	}
	if err := b.stepsOf(ctx, t); err != nil {
		return err
	}
	return b.race(ctx, s, t, nil, b.eager())
}

// stepsOf prints what operators take, if that is asked for.
func (b *bench) stepsOf(ctx context.Context, t *training) error {
	if !b.steps {
		return nil
	}
	p, err := roofline.Profile(ctx, &roofline.Machine{}, t.instance, func() error {
		t.fill()
		return nil
	}, 20)
	if err == nil {
		p.Print(os.Stderr)
	}
	return err
}

// print shows what was compared and reports whether all bounds are held.
func (b *bench) print(w io.Writer) bool {
	for _, c := range b.Compared {
		last := len(c.Weir) - 1
		fmt.Fprintf(w, "        %s, %s: loss %.7f to %.7f, PyTorch %.7f to %.7f\n", c.Model,
			c.Optimizer, c.Weir[0], c.Weir[last], c.Torch[0], c.Torch[last])
		fmt.Fprintf(w, "        worst %.2g (%.2g), gradients %.2g (%.2g)\n", c.Loss, c.TorchLoss,
			c.Gradient, c.TorchGradient)
	}
	if b.OpInfo != nil {
		b.OpInfo.print(w)
	}
	for i := range b.Races {
		b.Races[i].print(w)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Figures)) {
		fmt.Fprintf(w, "        %s: %.3f\n", name, b.Figures[name])
	}
	if b.Torch != "" {
		fmt.Fprintf(w, "PyTorch %s\n", b.Torch)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Versions)) {
		fmt.Fprintf(w, "%s %s\n", name, b.Versions[name])
	}
	fmt.Fprintf(w, "%.2f cores taken by others\n", b.Foreign)
	return b.Claims.Judge(w)
}
