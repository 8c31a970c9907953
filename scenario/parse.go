package scenario

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/yamlfile"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// Load reads and checks a scenario file. Paths in it are made relative to its folder. The error
// names the file and is of kind [ErrScenario], unless the file cannot be read.
func Load(path string) (*Scenario, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	dir := filepath.Dir(path)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		j.Model, j.Train = under(dir, j.Model), under(dir, j.Train)
		for name, file := range j.Inputs {
			j.Inputs[name] = under(dir, file)
		}
	}
	return s, nil
}

func under(dir, path string) string {
	if filepath.IsAbs(path) || path == "" {
		return path
	}
	return filepath.Join(dir, path)
}

// Parse reads a scenario and checks it as [Scenario.Validate] does. Unknown keys and wrong types
// are errors of kind [ErrScenario], all reported together with their lines.
func Parse(r io.Reader) (*Scenario, error) {
	text, err := yamlfile.Read(r)
	if errors.Is(err, yamlfile.ErrLong) {
		return nil, fmt.Errorf("%w: %w", ErrScenario, err)
	}
	if err != nil {
		return nil, err
	}
	var f file
	if err := f.decode(text); err != nil {
		return nil, err
	}
	s, err := f.scenario()
	if err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

// file is a Scenario as it is written in YAML.
type file struct {
	Device     string
	Policy     filePolicy
	Memory     yamlfile.Text[share.Bytes, *share.Bytes]
	Eviction   string
	OwnWeights bool `yaml:"own_weights"`
	Duration   time.Duration
	Seed       yamlfile.Text[yamlfile.Whole, *yamlfile.Whole]
	Jobs       []fileJob
}

type fileJob struct {
	Name       string
	Class      yamlfile.Text[share.Class, *share.Class]
	Compute    float64
	Limit      float64
	Memory     fileMemory
	Iterations yamlfile.Text[yamlfile.Whole, *yamlfile.Whole]
	Model      string
	Train      string
	Precision  yamlfile.Text[pass.Precision, *pass.Precision]
	Iteration  time.Duration
	Jitter     float64
	Kernel     fileKernel
	Arrival    fileArrival
	QoS        time.Duration `yaml:"qos"`
	Start      time.Duration
	Stop       time.Duration
	Wait       bool
	Shapes     map[string]yamlfile.Text[feed.Shape, *feed.Shape]
	Inputs     map[string]string
}

// fileMemory is a cap of memory, alone or as in {cap: 2GiB, keep: 500MiB}.
type fileMemory struct {
	// Cap is what memory is where it is written alone: the hard cap, never exceeded; as much as the
	// job's plan needs where it is left out.
	Cap yamlfile.Text[share.Bytes, *share.Bytes]
	// Keep lets others have what the job holds above it: its weights leave the device while it is
	// between requests and others wait for the room, and come back for its next one. At least what
	// is not weights is kept, which the result tells. Without it all of the cap stays.
	Keep *yamlfile.Text[share.Bytes, *share.Bytes]
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (m *fileMemory) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return m.Cap.UnmarshalYAML(n)
	}
	type keys fileMemory
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Value != "cap" && key.Value != "keep" {
			return yamlfile.Fault(key.Line, "memory: unknown key %q: want cap, keep", key.Value)
		}
	}
	return n.Decode((*keys)(m))
}

// share returns the terms of a job's memory.
func (m *fileMemory) share() (s share.Share) {
	s.Memory = m.Cap.Value
	if m.Keep != nil {
		s.Elastic, s.Keep = true, m.Keep.Value
	}
	return s
}

// fileKernel is a Kernel as it is written.
type fileKernel struct {
	Time      time.Duration
	Units     *float64
	Bandwidth float64
}

// filePolicy is a policy as it is written: its name, policy.New's form, or one key with parameters,
// as in {baymax: {qos: 20ms}}.
type filePolicy struct{ spec string }

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *filePolicy) UnmarshalYAML(n *yaml.Node) error {
	fault := func(line int, text string) error {
		return yamlfile.Fault(line, "policy: %s", text)
	}
	const form = "want a name, one with parameters, as in {fair: {slice: 10ms}}, or several as " +
		"text with commas"
	if n.Kind == yaml.ScalarNode {
		p.spec = n.Value
		return nil
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return fault(n.Line, form)
	}
	name, args := n.Content[0], n.Content[1]
	if name.Kind != yaml.ScalarNode {
		return fault(name.Line, form)
	}
	spec := policy.Spec{Name: name.Value, Args: map[string]string{}}
	if args.Kind != yaml.MappingNode && args.Tag != "!!null" {
		return fault(args.Line, form)
	}
	for i := 0; i < len(args.Content); i += 2 {
		key, value := args.Content[i], args.Content[i+1]
		if value.Kind != yaml.ScalarNode || strings.Contains(value.Value, ",") {
			return fault(value.Line, "parameter "+key.Value+": want one value")
		}
		if _, twice := spec.Args[key.Value]; twice {
			return fault(key.Line, "parameter "+key.Value+" is given twice")
		}
		spec.Args[key.Value] = value.Value
	}
	p.spec = spec.String()
	return nil
}

// fileArrival tells a key that is absent from one that asks for no requests at all.
type fileArrival struct {
	Poisson *float64
	Load    *float64
	Closed  *yamlfile.Text[yamlfile.Whole, *yamlfile.Whole]
	Think   time.Duration
	Trace   []time.Duration
}

// arrival returns the arrival process, or why it would bring no request.
func (f *fileArrival) arrival() (a Arrival, err error) {
	a.Think, a.Trace = f.Think, f.Trace
	if f.Poisson != nil {
		a.Poisson = *f.Poisson
	}
	if f.Load != nil {
		a.Load = *f.Load
	}
	if f.Closed != nil {
		a.Closed = int(f.Closed.Value)
	}
	if f.Poisson != nil && a.Poisson == 0 || f.Load != nil && a.Load == 0 || f.Closed != nil &&
		a.Closed == 0 {
		err = errors.New("arrival: 0 asks for no requests: give a number above it, or leave the " +
			"job out")
	}
	return a, err
}

func (f *file) scenario() (*Scenario, error) {
	s := &Scenario{Device: f.Device, Policy: f.Policy.spec, Memory: f.Memory.Value,
		Eviction: f.Eviction, OwnWeights: f.OwnWeights, Duration: f.Duration,
		Seed: uint64(f.Seed.Value)}
	for i := range f.Jobs {
		job, err := f.Jobs[i].job()
		if err != nil {
			return nil, fmt.Errorf("%w: job %s: %w", ErrScenario, f.Jobs[i].Name, err)
		}
		s.Jobs = append(s.Jobs, job)
	}
	return s, nil
}

func (j *fileJob) job() (Job, error) {
	arrival, err := j.Arrival.arrival()
	terms := j.Memory.share()
	terms.Compute, terms.Limit, terms.Class = j.Compute, j.Limit, j.Class.Value
	job := Job{
		Job:   share.Job{Name: j.Name, Iterations: int64(j.Iterations.Value), Share: terms},
		Model: j.Model, Train: j.Train, Precision: j.Precision.Value, Inputs: j.Inputs,
		Arrival: arrival,
		Work: Work{Iteration: j.Iteration, Jitter: j.Jitter,
			Kernel: Kernel{Time: j.Kernel.Time, Bandwidth: j.Kernel.Bandwidth}},
		Target: j.QoS, Start: j.Start, Stop: j.Stop, Wait: j.Wait,
	}
	if u := j.Kernel.Units; u != nil {
		if job.Work.Kernel.Units = *u; *u == 0 {
			err = errors.Join(err, errors.New("kernel: units 0 can run nothing: give a fraction "+
				"of the device's units above it"))
		}
	}
	if j.Shapes != nil {
		job.Shapes = map[string]feed.Shape{}
	}
	for name, shape := range j.Shapes {
		job.Shapes[name] = shape.Value
	}
	return job, err
}

// decode reads the one document of a file.
func (f *file) decode(text []byte) error {
	if err := words.Decode(text, f); err != nil {
		return fmt.Errorf("%w: %w", ErrScenario, err)
	}
	return nil
}

// words say what a scenario's keys and values are.
var words = yamlfile.Words{
	Empty: "want device, policy, duration and jobs",
	Holds: "one scenario",
	Keys: map[string]string{
		"scenario.file": "device, policy, memory, eviction, own_weights, duration, seed, jobs",
		"scenario.fileJob": "name, model, train, class, compute, limit, memory, iterations, " +
			"precision, iteration, jitter, kernel, arrival, qos, start, stop, wait, shapes, " +
			"inputs",
		"scenario.fileArrival": "poisson, load, closed, think, trace",
		"scenario.fileKernel":  "time, units, bandwidth",
	},
	Forms: map[string]string{
		"[]scenario.fileJob":   "a list of jobs",
		"scenario.fileJob":     "keys with values",
		"scenario.file":        "keys with values",
		"scenario.fileArrival": "{poisson: 10}, {load: 0.3} or {closed: 1}",
		"scenario.fileKernel":  "{time: 1ms, units: 0.5, bandwidth: 0.3}",
		"map[string]string":    "names with files",
		"map[string]yamlfile.": "names with shapes",
	},
}
