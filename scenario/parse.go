package scenario

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/pass"
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
		j.Model = under(dir, j.Model)
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

// maxScenarioBytes bounds a scenario file, which people write by hand.
const maxScenarioBytes = 1 << 20

// Parse reads a scenario and checks it as [Scenario.Validate] does. Unknown keys and wrong types
// are errors of kind [ErrScenario], all reported together with their lines.
func Parse(r io.Reader) (*Scenario, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxScenarioBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxScenarioBytes {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrScenario, maxScenarioBytes)
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
	Device   string
	Policy   filePolicy
	Memory   text[share.Bytes, *share.Bytes]
	Eviction string
	Duration time.Duration
	Seed     text[whole, *whole]
	Jobs     []fileJob
}

type fileJob struct {
	Name       string
	Class      text[share.Class, *share.Class]
	Compute    float64
	Limit      float64
	Memory     fileMemory
	Iterations text[whole, *whole]
	Model      string
	Precision  text[pass.Precision, *pass.Precision]
	Iteration  time.Duration
	Jitter     float64
	Kernel     fileKernel
	Arrival    fileArrival
	QoS        time.Duration `yaml:"qos"`
	Start      time.Duration
	Stop       time.Duration
	Wait       bool
	Shapes     map[string]text[feed.Shape, *feed.Shape]
	Inputs     map[string]string
}

// fileMemory is a cap of memory, alone or as in {cap: 2GiB, keep: 500MiB}.
type fileMemory struct {
	// Cap is what memory is where it is written alone: the hard cap, never exceeded; as much as the
	// job's plan needs where it is left out.
	Cap text[share.Bytes, *share.Bytes]
	// Keep lets others have what the job holds above it: its weights leave the device while it is
	// between requests and others wait for the room, and come back for its next one. At least what
	// is not weights is kept, which the result tells. Without it all of the cap stays.
	Keep *text[share.Bytes, *share.Bytes]
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (m *fileMemory) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return m.Cap.UnmarshalYAML(n)
	}
	type keys fileMemory
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Value != "cap" && key.Value != "keep" {
			return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: memory: unknown key %q: "+
				"want cap, keep", key.Line, key.Value)}}
		}
	}
	return n.Decode((*keys)(m))
}

// share returns the terms of a job's memory.
func (m *fileMemory) share() (s share.Share) {
	s.Memory = m.Cap.value
	if m.Keep != nil {
		s.Elastic, s.Keep = true, m.Keep.value
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
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: policy: %s", line, text)}}
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
	Closed  *text[whole, *whole]
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
		a.Closed = int(f.Closed.value)
	}
	if f.Poisson != nil && a.Poisson == 0 || f.Load != nil && a.Load == 0 || f.Closed != nil &&
		a.Closed == 0 {
		err = errors.New("arrival: 0 asks for no requests: give a number above it, or leave the " +
			"job out")
	}
	return a, err
}

// whole is a whole number; the YAML package would cut 1.5 down to one.
type whole int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *whole) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("%s: want a whole number", text)
	}
	*w = whole(n)
	return nil
}

// text is a value with a written form of its own. A wrong one becomes a fault with its line, like
// those that the YAML package finds itself.
type text[T any, P interface {
	*T
	encoding.TextUnmarshaler
}] struct{ value T }

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *text[T, P]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: want one value, not a list "+
			"or keys", n.Line)}}
	}
	if err := P(&t.value).UnmarshalText([]byte(n.Value)); err != nil {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %v", n.Line, err)}}
	}
	return nil
}

func (f *file) scenario() (*Scenario, error) {
	s := &Scenario{Device: f.Device, Policy: f.Policy.spec, Memory: f.Memory.value,
		Eviction: f.Eviction, Duration: f.Duration, Seed: uint64(f.Seed.value)}
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
	terms.Compute, terms.Limit, terms.Class = j.Compute, j.Limit, j.Class.value
	job := Job{
		Job:   share.Job{Name: j.Name, Iterations: int64(j.Iterations.value), Share: terms},
		Model: j.Model, Precision: j.Precision.value, Inputs: j.Inputs, Arrival: arrival,
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
		job.Shapes[name] = shape.value
	}
	return job, err
}

// decode reads one document and turns the parser's faults, all of them, into words about the file.
func (f *file) decode(text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err := d.Decode(f)
	var wrong *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: the file is empty: want device, policy, duration and jobs",
			ErrScenario)
	case errors.As(err, &wrong):
		faults := make([]error, len(wrong.Errors))
		for i, fault := range wrong.Errors {
			faults[i] = errors.New(plainFault(fault))
		}
		return fmt.Errorf("%w: %w", ErrScenario, oneLine(faults))
	case err != nil:
		return fmt.Errorf("%w: %s", ErrScenario, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more than one YAML document: a file holds one scenario", ErrScenario)
	}
	return nil
}

var (
	unknownKey = regexp.MustCompile(`^(line \d+): field (.*) not found in type (\S+)$`)
	wrongType  = regexp.MustCompile(
		"(?s)^(line \\d+): cannot unmarshal !!(\\S+)(?: `(.*)`)? into (\\S+)$")
	// keysOf lists the keys that the Go types of a file have.
	keysOf = map[string]string{
		"scenario.file": "device, policy, memory, eviction, duration, seed, jobs",
		"scenario.fileJob": "name, model, class, compute, limit, memory, iterations, " +
			"precision, iteration, jitter, kernel, arrival, qos, start, stop, wait, shapes, " +
			"inputs",
		"scenario.fileArrival": "poisson, load, closed, think, trace",
		"scenario.fileKernel":  "time, units, bandwidth",
	}
	// formOf says how a value of a Go type is written in a file.
	formOf = map[string]string{
		"bool":          "true or false",
		"time.Duration": "a duration such as 20s", "float64": "a number", "string": "text",
		"[]scenario.fileJob": "a list of jobs", "scenario.fileJob": "keys with values",
		"scenario.file":        "keys with values",
		"scenario.fileArrival": "{poisson: 10}, {load: 0.3} or {closed: 1}",
		"scenario.fileKernel":  "{time: 1ms, units: 0.5, bandwidth: 0.3}",
		"[]time.Duration":      "a list of times such as [0s, 10ms]",
		"map[string]string":    "names with files",
	}
)

// plainFault rewrites a fault of the YAML package, which speaks of Go's types.
func plainFault(fault string) string {
	if m := unknownKey.FindStringSubmatch(fault); m != nil {
		return fmt.Sprintf("%s: unknown key %q: want %s", m[1], m[2], keysOf[m[3]])
	}
	m := wrongType.FindStringSubmatch(fault)
	if m == nil {
		return fault
	}
	what, form := m[3], formOf[m[4]]
	if what == "" {
		what = map[string]string{"seq": "a list", "map": "keys with values"}[m[2]]
	}
	if strings.HasPrefix(m[4], "map[string]scenario.text") {
		form = "names with shapes"
	}
	return fmt.Sprintf("%s: %s: want %s", m[1], what, form)
}

// oneLine joins faults so that they make one line of an error message.
func oneLine(faults []error) error {
	format := strings.TrimSuffix(strings.Repeat("%w; ", len(faults)), "; ")
	args := make([]any, len(faults))
	for i, f := range faults {
		args[i] = f
	}
	return fmt.Errorf(format, args...)
}
