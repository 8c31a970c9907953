package scenario

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/pass"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/tensor"
)

// ErrScenario is the kind of error about a scenario that cannot be run as it is written.
var ErrScenario = errors.New("invalid scenario")

// ErrInput is the kind of error about inputs that a model does not take.
var ErrInput = errors.New("wrong input")

// Scenario is several jobs on one device.
type Scenario struct {
	// Device is the device that the jobs share; "cpu:0" where it is empty.
	Device string
	// Policy names the sharing policy; "fair" where it is empty.
	Policy string
	// Duration is how long the jobs run together. It may be zero when every job has an iteration
	// count.
	Duration time.Duration
	// Seed makes arrivals and made-up inputs the same each time.
	Seed uint64
	Jobs []Job
}

// Job is one tenant of a scenario.
type Job struct {
	share.Job
	// Model is an ONNX file, relative to the scenario's folder.
	Model string
	// Precision is the arithmetic of the model's products; fp32 where it is empty.
	Precision pass.Precision
	// Arrival says when requests come; closed with one client where it is zero.
	Arrival Arrival
	// Shapes fixes input shapes by name, such as "1x3x224x224". Symbolic dimensions that it leaves
	// open are 1.
	Shapes map[string]Shape
	// Inputs are .npy files, or .pb files in the form of ONNX's test data, by input name, relative
	// to the scenario's folder; inputs not named are made up from the seed.
	Inputs map[string]string

	// Graph, when set, is the model itself; Model is then only its name for people. Given are
	// inputs by name, beside or in place of those in Inputs.
	Graph *graph.Graph
	Given map[string]*tensor.Tensor
}

// Arrival is an arrival process. At most one field is set.
type Arrival struct {
	// Poisson is the mean number of requests a second, independent of how fast they are served.
	Poisson float64 `json:"poisson,omitempty" yaml:"poisson,omitempty"`
	// Load asks for the Poisson rate at which the job, alone, would keep the device busy for this
	// fraction of the time. The rate is measured before anything else runs.
	Load float64 `json:"load,omitempty" yaml:"load,omitempty"`
	// Closed is the number of clients that each send their next request once the last is answered.
	Closed int `json:"closed,omitempty" yaml:"closed,omitempty"`
}

// Clients returns the number of closed-loop clients, 0 for open arrivals.
func (a Arrival) Clients() int {
	if a.Poisson > 0 || a.Load > 0 {
		return 0
	}
	return max(1, a.Closed)
}

// String prints "poisson 10/s", "poisson at load 0.3" or "closed 1".
func (a Arrival) String() string {
	if a.Poisson > 0 {
		return fmt.Sprintf("poisson %.4g/s", a.Poisson)
	}
	if a.Load > 0 {
		return fmt.Sprintf("poisson at load %g", a.Load)
	}
	return fmt.Sprintf("closed %d", a.Clients())
}

// Shape is a list of sizes, written "1x3x224x224"; "scalar" has none.
type Shape []int

// ParseShape reads the form that [Shape] is written in.
func ParseShape(text string) (Shape, error) {
	if text == "scalar" || text == "" {
		return Shape{}, nil
	}
	var s Shape
	for _, part := range strings.Split(text, "x") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("shape %q: want sizes joined by x, such as 1x3x224x224", text)
		}
		s = append(s, n)
	}
	return s, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Shape) UnmarshalText(text []byte) (err error) {
	*s, err = ParseShape(string(text))
	return err
}

// Validate fills in defaults and reports all faults together, as an error of kind [ErrScenario].
func (s *Scenario) Validate() error {
	if s.Device == "" {
		s.Device = "cpu:0"
	}
	if s.Policy == "" {
		s.Policy = "fair"
	}
	var faults []error
	if _, err := policy.New(s.Policy); err != nil {
		faults = append(faults, err)
	}
	if s.Duration < 0 {
		faults = append(faults, fmt.Errorf("duration %v is negative", s.Duration))
	}
	if len(s.Jobs) == 0 {
		faults = append(faults, errors.New("no jobs: list at least one under jobs"))
	}
	names := map[string]bool{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if names[j.Name] {
			faults = append(faults, fmt.Errorf("two jobs are named %q", j.Name))
		}
		names[j.Name] = true
		faults = append(faults, j.faults(s.Duration)...)
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrScenario, oneLine(faults))
}

func (j *Job) faults(duration time.Duration) []error {
	var faults []error
	if err := j.Job.Validate(); err != nil {
		faults = append(faults, err)
	}
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("job %s: %s", j.Name, fmt.Sprintf(format, args...)))
	}
	if j.Model == "" && j.Graph == nil {
		fault("no model: give an ONNX file")
	}
	if err := j.Precision.Validate(); err != nil {
		fault("%v", err)
	}
	if p := j.Arrival.Poisson; p < 0 || math.IsNaN(p) || p > 1e6 {
		fault("arrival: poisson %g: want a rate from 0 to 1e6 a second", p)
	}
	if j.Arrival.Closed < 0 || j.Arrival.Closed > 1<<16 {
		fault("arrival: closed %d: want a number of clients from 1 to 65536", j.Arrival.Closed)
	}
	if l := j.Arrival.Load; l < 0 || l > 1 || math.IsNaN(l) {
		fault("arrival: load %g: want a fraction of the device from 0 to 1", l)
	}
	if a := j.Arrival; a.Poisson > 0 && a.Closed > 0 || a.Poisson > 0 && a.Load > 0 ||
		a.Load > 0 && a.Closed > 0 {
		fault("arrival: more than one of poisson, load and closed: choose one")
	}
	if duration == 0 && j.Iterations == 0 {
		fault("neither the scenario has a duration nor the job iterations: it would never end")
	}
	return faults
}

// String writes the form that [ParseShape] reads.
func (s Shape) String() string {
	if len(s) == 0 {
		return "scalar"
	}
	parts := make([]string, len(s))
	for i, n := range s {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, "x")
}
