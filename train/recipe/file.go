package recipe

import (
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirgpu/weir/internal/yamlfile"
	"github.com/weirgpu/weir/train/scale"
	"github.com/weirgpu/weir/train/step"
)

type whole = yamlfile.Text[yamlfile.Whole, *yamlfile.Whole]

// file is a Recipe as it is written in YAML.
type file struct {
	Model      string
	Start      string
	Data       fileData
	Loss       fileLosses
	Distil     fileDistil
	Train      []string
	Freeze     []string
	Dropout    fileDropout
	Optimizer  fileOptimizer
	Schedule   fileSchedule
	Clip       number
	Accumulate whole
	Shards     whole
	Average    float64
	Precision  string
	Scale      string
	Epochs     whole
	Steps      whole
	Patience   whole
	Seed       whole
	Checkpoint fileCheckpoint
	Output     string
	Report     string
}

type fileData struct {
	Inputs  map[string]fileSource
	Labels  fileLabels
	Divide  number
	Batch   whole
	Sizes   map[string]whole
	Augment []string
	Eval    fileEval
}

type fileEval struct {
	Inputs map[string]fileSource
	Labels fileLabels
	Rows   string
	Part   float64
}

type fileCheckpoint struct {
	To    string
	Every time.Duration
	Steps whole
	Keep  whole
}

func sizes(of map[string]whole) map[string]int {
	if of == nil {
		return nil
	}
	out := map[string]int{}
	for name, n := range of {
		out[name] = int(n.Value)
	}
	return out
}

// number is a number that may be left out, or be none.
type number struct {
	given bool
	value float64
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *number) UnmarshalYAML(n *yaml.Node) error {
	if n.Value == "none" {
		return nil
	}
	v.given = true
	return n.Decode(&v.value)
}

// or is the number, or what stands for one that is left out.
func (v number) or(def float64) float64 {
	if v.given {
		return v.value
	}
	return def
}

// fileLoss is a loss by name, or one key with its values.
type fileLoss struct{ step.Loss }

type fileLossOf struct {
	Scores string
	Labels string
	Delta  number
	Ignore number
	Value  number
	Weight number
	Train  []string
	Length whole
	Blank  whole
}

// fileLosses is a loss, or a list of them.
type fileLosses struct{ all []step.Loss }

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *fileLosses) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		var one fileLoss
		err := n.Decode(&one)
		l.all = []step.Loss{one.Loss}
		return err
	}
	var list []fileLoss
	err := n.Decode(&list)
	for _, one := range list {
		l.all = append(l.all, one.Loss)
	}
	return err
}

// first is the loss that counts first, and rest are the others.
func (l *fileLosses) first() (first step.Loss, rest []step.Loss) {
	if len(l.all) == 0 {
		return first, nil
	}
	return l.all[0], l.all[1:]
}

// fileDistil says from whom a model learns.
type fileDistil struct {
	Teacher     string
	Weight      number
	Temperature number
	Scores      string
	Attention   map[string]string
	Attending   number
}

// distil is what the file says, nil where it says nothing.
func (f *fileDistil) distil() *Distil {
	if f.Teacher == "" && f.Scores == "" && len(f.Attention) == 0 && !f.Weight.given &&
		!f.Temperature.given && !f.Attending.given {
		return nil
	}
	return &Distil{Teacher: f.Teacher, Distil: step.Distil{Weight: f.Weight.or(0.5),
		Temperature: f.Temperature.or(1), Scores: f.Scores, Attention: f.Attention,
		AttentionWeight: f.Attending.or(1)}}
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *fileLoss) UnmarshalYAML(n *yaml.Node) error {
	var of fileLossOf
	name, err := named(n, "loss", &of)
	if err != nil {
		return err
	}
	for _, kind := range step.Losses() {
		if string(kind) == name {
			l.Loss = step.Loss{Kind: kind, Scores: of.Scores, Labels: of.Labels,
				Delta: of.Delta.or(0), Ignore: of.Ignore.pointer(), Value: of.Value.pointer(),
				Weight: of.Weight.or(0), Train: of.Train, Length: int(of.Length.Value),
				Blank: int(of.Blank.Value)}
			return l.meant(n, &of)
		}
	}
	return yamlfile.Fault(n.Line, "loss: unknown %q: want one of %v", name, step.Losses())
}

// meant refuses values that a loss does not have.
func (l *fileLoss) meant(n *yaml.Node, of *fileLossOf) error {
	for _, c := range []struct {
		key   string
		given bool
		of    step.LossKind
	}{{"delta", of.Delta.given, step.Huber}, {"length", of.Length.Value != 0, step.CTC},
		{"blank", of.Blank.Value != 0, step.CTC}} {
		if c.given && l.Kind != c.of {
			return yamlfile.Fault(n.Line, "loss: %s is for %s alone", c.key, c.of)
		}
	}
	if of.Weight.given && !positive(of.Weight.value) {
		return yamlfile.Fault(n.Line, "loss: weight %g: want a number above 0", of.Weight.value)
	}
	if l.Kind == step.CTC && l.Length < 1 {
		return yamlfile.Fault(n.Line, "loss: ctc: want length, the most labels of a sample, as in "+
			"{ctc: {length: 20}}")
	}
	return nil
}

// pointer is the number, nil where it is left out.
func (v number) pointer() *float64 {
	if !v.given {
		return nil
	}
	return &v.value
}

// fileDropout is a rate, none, or a rate with what else is dropped.
type fileDropout struct{ step.Dropout }

type fileDropoutOf struct {
	Rate  number
	After []string
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *fileDropout) UnmarshalYAML(n *yaml.Node) error {
	if d.Given = true; n.Kind == yaml.ScalarNode && n.Value == "none" {
		return nil
	}
	var of fileDropoutOf
	if n.Kind != yaml.MappingNode {
		return n.Decode(&d.Rate)
	}
	if err := known(n, "dropout", &of); err != nil {
		return err
	}
	if !of.Rate.given {
		return yamlfile.Fault(n.Line, "dropout: want a rate, as in {rate: 0.1, after: [NAME]}")
	}
	d.Rate, d.After = of.Rate.value, of.After
	return nil
}

// named reads a name, or one key whose value is read into a struct.
func named(n *yaml.Node, what string, into any) (string, error) {
	if n.Kind == yaml.ScalarNode {
		return n.Value, nil
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 ||
		n.Content[0].Kind != yaml.ScalarNode {
		return "", yamlfile.Fault(n.Line, "%s: want a name, or one with its values, as in "+
			"{name: {key: value}}", what)
	}
	name, of := n.Content[0].Value, n.Content[1]
	if of.Kind != yaml.MappingNode && of.Tag != "!!null" {
		return "", yamlfile.Fault(of.Line, "%s: %s: want keys with values", what, name)
	}
	return name, known(of, what+": "+name, into)
}

// known decodes a mapping whose keys are all fields of a struct.
func known(n *yaml.Node, what string, into any) error {
	var keys string
	switch into.(type) {
	case *fileLossOf:
		keys = lossKeys
	case *fileRule:
		keys = ruleKeys
	case *fileScheduleOf:
		keys = scheduleKeys
	case *fileDropoutOf:
		keys = dropoutKeys
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; !listed(keys, key.Value) {
			return yamlfile.Fault(key.Line, "%s: unknown key %q: want %s", what, key.Value, keys)
		}
	}
	return n.Decode(into)
}

// fileOptimizer is one rule by its key, beside what all have in common.
type fileOptimizer struct {
	kind step.OptimizerKind
	fileRule
}

type fileRule struct {
	Rate     number
	Momentum number
	Nesterov bool
	Beta1    number
	Beta2    number
	Epsilon  number
	Decay    number
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (o *fileOptimizer) UnmarshalYAML(n *yaml.Node) error {
	name, err := named(n, "optimizer", &o.fileRule)
	if err != nil {
		return err
	}
	for _, kind := range step.Optimizers() {
		if string(kind) == name {
			o.kind = kind
			return o.meant(n)
		}
	}
	return yamlfile.Fault(n.Line, "optimizer: unknown %q: want one of %v", name, step.Optimizers())
}

// meant refuses numbers that a rule does not have.
func (o *fileOptimizer) meant(n *yaml.Node) error {
	moments := o.kind == step.Adam || o.kind == step.AdamW || o.kind == step.LAMB
	for _, c := range []struct {
		name  string
		given bool
		has   bool
	}{
		{"momentum", o.Momentum.given, o.kind == step.Momentum},
		{"nesterov", o.Nesterov, o.kind == step.Momentum},
		{"beta1", o.Beta1.given, moments}, {"beta2", o.Beta2.given, moments},
		{"epsilon", o.Epsilon.given, moments || o.kind == step.Adagrad},
	} {
		if c.given && !c.has {
			return yamlfile.Fault(n.Line, "optimizer: %s has no %s", o.kind, c.name)
		}
	}
	return nil
}

func (o *fileOptimizer) optimizer() step.Optimizer {
	out := o.kind.Defaults()
	out.Nesterov = o.Nesterov
	out.Momentum = o.Momentum.or(out.Momentum)
	out.Beta1, out.Beta2 = o.Beta1.or(out.Beta1), o.Beta2.or(out.Beta2)
	out.Epsilon, out.Decay = o.Epsilon.or(out.Epsilon), o.Decay.or(out.Decay)
	return out
}

// fileSchedule is a schedule by name, or one key with its values.
type fileSchedule struct{ Schedule }

type fileScheduleOf struct {
	Warmup whole
	Floor  float64
	Every  whole
	Factor number
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *fileSchedule) UnmarshalYAML(n *yaml.Node) error {
	var of fileScheduleOf
	name, err := named(n, "schedule", &of)
	if err != nil {
		return err
	}
	all := []ScheduleKind{Constant, Cosine, Linear, Steps}
	for _, kind := range all {
		if string(kind) == name {
			s.Schedule = Schedule{Kind: kind, Warmup: int(of.Warmup.Value), Floor: of.Floor,
				Every: int(of.Every.Value), Factor: of.Factor.or(0.1)}
			return nil
		}
	}
	return yamlfile.Fault(n.Line, "schedule: unknown %q: want one of %v", name, all)
}

// recipe is what the file says, with what it leaves out.
func (f *file) recipe() (*Recipe, error) {
	loss, others := f.Loss.first()
	r := &Recipe{Model: f.Model, Start: Start(f.Start), Loss: loss, Others: others,
		Distil: f.Distil.distil(), Train: f.Train,
		Freeze: f.Freeze, Dropout: f.Dropout.Dropout, Rate: f.Optimizer.Rate.or(0.001),
		Schedule: f.Schedule.Schedule,
		Clip:     f.Clip.or(0), Accumulate: int(f.Accumulate.Value), Average: f.Average,
		Precision: Precision(f.Precision), Epochs: int(f.Epochs.Value), Steps: int(f.Steps.Value),
		Patience: int(f.Patience.Value), Seed: uint64(f.Seed.Value), Output: f.Output,
		Report: f.Report}
	d, e := &f.Data, &f.Data.Eval
	r.Data = Data{Inputs: sources(d.Inputs), Labels: d.Labels.one, Targets: d.Labels.many,
		Divide: d.Divide.or(1), Batch: int(d.Batch.Value), Augment: d.Augment,
		Sizes: sizes(d.Sizes),
		Eval: Eval{Inputs: sources(e.Inputs), Labels: e.Labels.one, Targets: e.Labels.many,
			Rows: e.Rows, Part: e.Part}}
	c := f.Checkpoint
	r.Checkpoint = Checkpoint{To: c.To, Every: c.Every, Steps: int(c.Steps.Value),
		Keep: int(c.Keep.Value)}
	if f.Optimizer.kind != "" {
		r.Optimizer = f.Optimizer.optimizer()
	}
	if f.Accumulate.Value == 0 {
		r.Accumulate = 1
	}
	if r.Shards = int(f.Shards.Value); r.Shards == 0 {
		r.Shards = 1
	}
	if c.Keep.Value == 0 {
		r.Checkpoint.Keep = 3
	}
	if r.Start == "" {
		r.Start = FromModel
	}
	if r.Precision == "" {
		r.Precision = FP32
	}
	err := r.rescale(f.Scale)
	if c.Every < 0 || c.Steps.Value < 0 {
		err = errors.Join(err, errors.New("checkpoint: every and steps: want none below 0"))
	}
	for i, text := range r.Data.Augment {
		c, e := ParseChange(text)
		if e == nil && c.Kind == "resize" && i > 0 {
			e = fmt.Errorf("%q: it comes first", text)
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("data: augment: %w", e))
		}
	}
	return r, err
}

// rescale reads the scale of the loss. Without one, steps in float16 find theirs by themselves, and
// others need none: one of 1 says where mixed precision ends.
func (r *Recipe) rescale(text string) (err error) {
	if r.Scale, err = scale.Parse(text); err != nil {
		return fmt.Errorf("scale: %w", err)
	}
	switch mixed := r.Precision != FP32; {
	case text == "" && r.Precision == FP16:
		r.Scale = scale.Options{Kind: scale.Auto}
	case mixed && (r.Scale.Kind == scale.None || r.Scale.Kind == ""):
		r.Scale = scale.Options{Kind: scale.Constant, Init: 1}
	}
	return nil
}

const (
	lossKeys     = "scores, labels, delta, ignore, value, weight, train, length, blank"
	ruleKeys     = "rate, momentum, nesterov, beta1, beta2, epsilon, decay"
	scheduleKeys = "warmup, floor, every, factor"
	dropoutKeys  = "rate, after"
)

// words are told to whoever writes a recipe wrongly.
var words = yamlfile.Words{
	Empty: "want model, data, loss and optimizer",
	Holds: "one recipe",
	Keys: map[string]string{
		"recipe.file": "model, start, data, loss, distil, train, freeze, dropout, optimizer, " +
			"schedule, clip, accumulate, shards, average, precision, scale, epochs, steps, " +
			"patience, seed, checkpoint, output, report",
		"recipe.fileData":       "inputs, labels, divide, batch, sizes, augment, eval",
		"recipe.fileEval":       "inputs, labels, rows, part",
		"recipe.fileDistil":     "teacher, weight, temperature, scores, attention, attending",
		"recipe.fileCheckpoint": "to, every, steps, keep",
	},
	Forms: map[string]string{
		"map[string]recipe.":    "names with files, as in {image: images.npy}",
		"recipe.fileData":       "keys with values",
		"recipe.fileEval":       "keys with values",
		"recipe.fileDistil":     "keys with values, as in {teacher: large.onnx, weight: 0.5}",
		"map[string]string":     "the model's values with the teacher's",
		"recipe.fileCheckpoint": "keys with values",
	},
}
