package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/yamlfile"
	"github.com/weirgpu/weir/train/scale"
	"github.com/weirgpu/weir/train/step"
)

// ErrRecipe is the kind of error about a recipe that cannot be followed as it is written.
var ErrRecipe = errors.New("invalid recipe")

// Start says what weights are before the first step.
type Start string

// The starts.
const (
	FromModel  Start = "model"  // as the model has them
	FromRandom Start = "random" // drawn from the seed, by what each weight does
)

// Precision is the arithmetic of a step.
type Precision string

// The precisions. Weights, moments and what optimizers compute are float32 in each.
const (
	FP32 Precision = "fp32" // everything in float32
	// BF16 multiplies in bfloat16 where that is faster, and keeps what the backward half reads
	// again in 16 bits where that takes less memory. It needs a processor that does so.
	BF16 Precision = "bf16"
	Auto Precision = "auto" // BF16 where the processor has it, else FP32
	// FP16 rounds products to float16, as on devices that have it: slower here, to see what they
	// would train.
	FP16 Precision = "fp16"
)

// Precisions lists those that a step can be computed in.
func Precisions() []Precision { return []Precision{FP32, BF16, Auto, FP16} }

// On is the precision of a step's passes on a target. It fails for BF16 where products of bfloat16
// are not faster.
func (p Precision) On(t compute.Target) (pass.Precision, error) {
	if p == FP16 {
		return pass.FP16, nil
	}
	return pass.PrecisionOn(t, pass.Precision(p))
}

// Recipe is a training run.
type Recipe struct {
	Model     string // a file
	Start     Start
	Data      Data
	Loss      step.Loss
	Others    []step.Loss `json:",omitempty"` // that are added to it
	Distil    *Distil     `json:",omitempty"` // nil where there is no teacher
	Train     []string    // names of weights, with * for any text; none for all
	Freeze    []string
	Dropout   step.Dropout `json:",omitzero"`
	Optimizer step.Optimizer
	Rate      float64
	Schedule  Schedule
	Clip      float64 // norm of all gradients; 0 for none
	// Accumulate is the number of batches of one update, at least 1.
	Accumulate int
	// Shards is the number of parts that a batch is computed in, which several processes may share;
	// 1 for a batch that is computed at once.
	Shards     int     `json:",omitempty"`
	Average    float64 // of weights; what it keeps at each update, 0 for none
	Precision  Precision
	Scale      scale.Options // of the loss
	Epochs     int
	Steps      int // updates after which training ends; 0: not before Epochs
	Patience   int // epochs without a better evaluation after which training ends; 0: none
	Seed       uint64
	Checkpoint Checkpoint
	Output     string // the file of the trained model
	Report     string // a page; "" for none
}

// Distil says from which model another one learns.
type Distil struct {
	Teacher string `json:"-"` // a file
	step.Distil
}

// Data says what a model is trained and tried on.
type Data struct {
	Inputs  map[string]Source `json:"-"` // by the model's inputs
	Labels  Source            `json:"-"` // of one loss; none where images have them
	Targets map[string]Source `json:"-"` // of several, by the names of their labels
	Divide  float64           // files of real numbers are divided by it, of inputs; 0 for 1
	Batch   int
	// Sizes are what sizes stand for that the model leaves open and names.
	Sizes map[string]int `json:",omitempty"`
	// Augment lists changes of images: "resize 0.3 1", "flip", "crop 4".
	Augment []string
	Eval    Eval
}

// Eval says which samples a model is tried on, which training does not see.
type Eval struct {
	Inputs  map[string]Source `json:"-"` // samples of their own
	Labels  Source            `json:"-"`
	Targets map[string]Source `json:"-"`
	Rows    string            // or a file of the numbers of samples of Data
	Part    float64           // or so much of them, drawn from the seed
}

// labelled reports whether there are labels.
func (d *Data) labelled() bool {
	return d.Labels.Given() || len(d.Targets) > 0 || pictures(d.Inputs)
}

// Given reports whether there is anything to try a model on.
func (e *Eval) Given() bool { return len(e.Inputs) > 0 || e.Rows != "" || e.Part > 0 }

// Checkpoint says when the state of a run is kept.
type Checkpoint struct {
	To    string        // a folder; "" keeps none
	Every time.Duration // at least so long after the last; 0: after each epoch
	Steps int           // or after so many updates
	Keep  int           // how many of the newest
}

// Load reads and checks a recipe file. Paths in it are made relative to its folder. The error names
// the file and is of kind [ErrRecipe], unless the file cannot be read.
func Load(path string) (*Recipe, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.under(filepath.Dir(path))
	return r, nil
}

// under makes the paths of a recipe relative to a folder.
func (r *Recipe) under(dir string) {
	for _, p := range []*string{&r.Model, &r.Data.Eval.Rows, &r.Checkpoint.To, &r.Output,
		&r.Report} {
		*p = under(dir, *p)
	}
	if r.Distil != nil {
		r.Distil.Teacher = under(dir, r.Distil.Teacher)
	}
	r.Data.Labels.under(dir)
	r.Data.Eval.Labels.under(dir)
	for _, all := range []map[string]Source{r.Data.Inputs, r.Data.Targets, r.Data.Eval.Inputs,
		r.Data.Eval.Targets} {
		for name, s := range all {
			s.under(dir)
			all[name] = s
		}
	}
}

func under(dir, path string) string {
	if filepath.IsAbs(path) || path == "" {
		return path
	}
	return filepath.Join(dir, path)
}

// Parse reads a recipe and checks it.
func Parse(from io.Reader) (*Recipe, error) {
	text, err := yamlfile.Read(from)
	if errors.Is(err, yamlfile.ErrLong) {
		return nil, fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	if err != nil {
		return nil, err
	}
	var f file
	if err := words.Decode(text, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	r, err := f.recipe()
	if err = errors.Join(err, r.check()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecipe, oneLine(err))
	}
	return r, nil
}

// mostSamples bounds the samples of an update: more than any memory holds, and whole on each
// platform. So does mostEpochs: their updates can be counted.
const mostSamples, mostEpochs = math.MaxInt32, math.MaxInt32

// positive reports whether a number is above 0, and finite, also as float32, which it is used as.
func positive(v float64) bool { return float32(v) > 0 && finite(v) }

// check refuses what means nothing, all faults together.
func (r *Recipe) check() error {
	var faults []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	want(r.Model != "", "model: want an ONNX file")
	want(len(r.Data.Inputs) > 0, "data: want inputs, a file for each input of the model")
	want(r.Data.labelled() || !r.asks(), "data: want labels, a file")
	want(r.Data.Batch > 0, "data: batch %d: want at least 1", r.Data.Batch)
	for _, name := range slices.Sorted(maps.Keys(r.Data.Sizes)) {
		n := r.Data.Sizes[name]
		want(n > 0, "data: sizes: %s: %d: want at least 1", name, n)
	}
	want(positive(r.Data.Divide), "data: divide %g: want a number above 0", r.Data.Divide)
	want(r.Loss.Kind != "", "loss: want one of %v", step.Losses())
	want(r.Optimizer.Kind != "", "optimizer: want one of %v", step.Optimizers())
	want(positive(r.Rate), "optimizer: rate %g: want a number above 0", r.Rate)
	want(r.Epochs > 0 || r.Steps > 0, "want epochs or steps, how long to train")
	want(r.Epochs >= 0 && r.Steps >= 0 && r.Patience >= 0,
		"epochs %d, steps %d, patience %d: want none below 0", r.Epochs, r.Steps, r.Patience)
	want(r.Epochs <= mostEpochs, "epochs %d: want at most %d", r.Epochs, mostEpochs)
	want(r.Clip == 0 || positive(r.Clip), "clip %g: want a norm above 0, or none", r.Clip)
	want(r.Accumulate > 0, "accumulate %d: want at least 1", r.Accumulate)
	want(r.Accumulate <= mostSamples/max(r.Data.Batch, 1),
		"%d batches of %d samples: want at most %d samples an update", r.Accumulate, r.Data.Batch,
		mostSamples)
	want(r.Shards > 0 && r.Data.Batch%max(r.Shards, 1) == 0,
		"shards %d: want at least 1, and batches, of %d samples, in whole shards", r.Shards,
		r.Data.Batch)
	want(r.Average >= 0 && r.Average < 1, "average %g: want a number from 0 to before 1", r.Average)
	want(r.Start == FromModel || r.Start == FromRandom, "start %q: want model or random", r.Start)
	want(slices.Contains(Precisions(), r.Precision), "precision %q: want one of %v", r.Precision,
		Precisions())
	want(r.Dropout.Rate >= 0 && r.Dropout.Rate < 1,
		"dropout: rate %g: want a number from 0 to before 1", r.Dropout.Rate)
	want(r.Patience == 0 || r.Data.Eval.Given(), "patience: want data to evaluate on (data: eval)")
	want(r.Checkpoint.Keep > 0, "checkpoint: keep %d: want at least 1", r.Checkpoint.Keep)
	faults = append(faults, r.Data.checkSources(), r.checkLosses(), r.checkEval(),
		r.checkOptimizer(),
		r.Schedule.check())
	return errors.Join(faults...)
}

// asks reports whether a loss has labels that are not one number.
func (r *Recipe) asks() bool {
	return slices.ContainsFunc(r.losses(), func(l step.Loss) bool { return l.Value == nil })
}

func (r *Recipe) losses() []step.Loss { return slices.Concat([]step.Loss{r.Loss}, r.Others) }

// checkLosses refuses losses whose labels nobody gives, labels of no loss, and a teacher of whom
// nothing can be learned.
func (r *Recipe) checkLosses() error {
	for _, of := range []map[string]Source{r.Data.Targets, r.Data.Eval.Targets} {
		for name := range of {
			if !slices.ContainsFunc(r.losses(), func(l step.Loss) bool {
				return l.Value == nil && cmp.Or(l.Labels, "labels") == name
			}) {
				return fmt.Errorf("data: labels: no loss has labels %q", name)
			}
		}
		for _, l := range r.losses() {
			name := cmp.Or(l.Labels, "labels")
			if _, ok := of[name]; l.Value == nil && !ok && len(of) > 0 {
				return fmt.Errorf("data: labels: want %q, of loss %s", name, l.Kind)
			}
		}
	}
	many := 0
	for _, l := range r.losses() {
		if err := checkNumbers(&l); err != nil {
			return err
		}
		if l.Value == nil {
			many++
		}
	}
	if many > 1 && len(r.Data.Targets) == 0 {
		return errors.New("data: labels: several losses: want a file for each by name, as in " +
			"{classes: c.npy, boxes: b.npy}")
	}
	d := r.Distil
	switch {
	case d == nil:
		return nil
	case d.Teacher == "":
		return errors.New("distil: want teacher, an ONNX file")
	case !(d.Weight >= 0 && d.Weight <= 1):
		return fmt.Errorf("distil: weight %g: want a number from 0 to 1", d.Weight)
	case !positive(d.Temperature):
		return fmt.Errorf("distil: temperature %g: want a number above 0", d.Temperature)
	case !positive(d.AttentionWeight):
		return fmt.Errorf("distil: attending %g: want a number above 0", d.AttentionWeight)
	case d.Weight == 0 && len(d.Attention) == 0:
		return errors.New("distil: weight 0: want attention, or a weight above 0")
	case d.Weight > 0 && r.Loss.Kind != step.CrossEntropy:
		return fmt.Errorf("distil: a teacher's scores are those of %s: give weight 0",
			step.CrossEntropy)
	}
	return nil
}

// checkNumbers refuses numbers that a loss cannot have, or that its labels are never.
func checkNumbers(l *step.Loss) error {
	parts := l.Kind == step.BinaryCrossEntropy || l.Kind == step.Dice
	switch {
	case l.Delta != 0 && !positive(l.Delta):
		return fmt.Errorf("loss: delta %g: want a number above 0", l.Delta)
	case l.Value != nil && !finite(*l.Value):
		return fmt.Errorf("loss: value %g: want a number of float32", *l.Value)
	case l.Value != nil && parts && !(*l.Value >= 0 && *l.Value <= 1):
		return fmt.Errorf("loss: value %g: labels of %s are from 0 to 1", *l.Value, l.Kind)
	case l.Ignore != nil && !finite(*l.Ignore):
		return fmt.Errorf("loss: ignore %g: want a number of float32", *l.Ignore)
	case l.Ignore != nil && l.Kind == step.CrossEntropy && *l.Ignore != float64(int32(*l.Ignore)):
		return fmt.Errorf("loss: ignore %g: labels of %s are whole numbers", *l.Ignore, l.Kind)
	}
	return nil
}

// finite reports whether a number is one of float32.
func finite(v float64) bool { return math.Abs(v) <= math.MaxFloat32 }

// checkEval refuses several answers to one question.
func (r *Recipe) checkEval() error {
	e, n := &r.Data.Eval, 0
	for _, given := range []bool{len(e.Inputs) > 0, e.Rows != "", e.Part != 0} {
		if given {
			n++
		}
	}
	switch {
	case n > 1:
		return errors.New("data: eval: want one of inputs, rows and part")
	case len(e.Inputs) == 0 && (e.Labels.Given() || len(e.Targets) > 0),
		len(e.Inputs) > 0 && r.asks() && !e.Labels.Given() && len(e.Targets) == 0 &&
			!pictures(e.Inputs):
		return errors.New("data: eval: want inputs and labels together")
	case !(e.Part >= 0 && e.Part < 1):
		return fmt.Errorf("data: eval: part %g: want a number from 0 to before 1", e.Part)
	}
	return nil
}

// checkOptimizer refuses numbers with which weights grow without bound.
func (r *Recipe) checkOptimizer() error {
	o := &r.Optimizer
	for _, v := range []struct {
		name string
		is   float64
	}{{"momentum", o.Momentum}, {"beta1", o.Beta1}, {"beta2", o.Beta2}} {
		if !(v.is >= 0 && v.is < 1) {
			return fmt.Errorf("optimizer: %s %g: want a number from 0 to before 1", v.name, v.is)
		}
	}
	if !(o.Epsilon >= 0 && o.Decay >= 0) || !finite(o.Epsilon) || !finite(o.Decay) {
		return fmt.Errorf("optimizer: epsilon %g, decay %g: want none below 0, of float32",
			o.Epsilon, o.Decay)
	}
	return nil
}

// oneLine puts joined errors beside each other.
func oneLine(err error) error {
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	text := ""
	for _, e := range all.Unwrap() {
		if text != "" {
			text += "; "
		}
		text += oneLine(e).Error()
	}
	return errors.New(text)
}
