package scenario

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/evict"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/tensor"
)

// ErrScenario is the kind of error about a scenario that cannot be run as it is written.
var ErrScenario = errors.New("invalid scenario")

// Scenario is several jobs on one device.
type Scenario struct {
	// Device is the device that the jobs share; "cpu:0" where it is empty.
	Device string
	// Policy is the sharing policy as policy.New reads it, such as "fair" or "fair:slice=10ms", or
	// several with commas between them, or [AllPolicies]; "fair" where it is empty.
	Policy string
	// Memory is what of the device's memory the jobs share; 0: all of it.
	Memory share.Bytes
	// Eviction says which job's weights leave the device first when others need the room, as
	// evict.New reads it; "lru" where it is empty.
	Eviction string
	// OwnWeights gives each job weights of its own, also where those of others are the same; else
	// jobs with one plan of one model have them together, under policies that have no rule for how
	// many jobs there are.
	OwnWeights bool
	// Duration is how long the jobs run together. It may be zero when every job has an iteration
	// count.
	Duration time.Duration
	// Seed makes arrivals and made-up inputs the same each time.
	Seed uint64
	// Jobs are those that share the device.
	Jobs []Job
}

// Job is one tenant of a scenario.
type Job struct {
	share.Job
	// Model is an ONNX file, relative to the scenario's folder.
	Model string
	// Train is a recipe that the job follows in place of running a model, relative to the
	// scenario's folder: a request is an update. Each phase begins it anew, and nothing of it is
	// kept.
	Train string
	// Precision is the arithmetic of the model's products; fp32 where it is empty.
	Precision pass.Precision
	// Work describes the job's iterations in place of a model, for [Simulate].
	Work Work
	// Arrival says when requests come; closed with one client where it is zero.
	Arrival Arrival
	// Target is how long after its arrival a request should be answered; 0: nobody waits for it.
	Target time.Duration
	// Start is when the first requests may come, and Stop, if not 0, when the job ends, both after
	// the phase's begin.
	Start, Stop time.Duration
	// Wait lets a job that does not fit at its start wait until others have ended, each in its
	// turn. It is for jobs under a policy: the modes without a broker promise nothing.
	Wait bool
	// Shapes fixes input shapes by name, such as "1x3x224x224". Symbolic dimensions that it leaves
	// open are 1.
	Shapes map[string]feed.Shape
	// Inputs are .npy files, or .pb files in the form of ONNX's test data, by input name, relative
	// to the scenario's folder; inputs not named are made up from the seed.
	Inputs map[string]string

	// Graph, when set, is the model itself; Model is then only its name for people. Given are
	// inputs by name, beside or in place of those in Inputs.
	Graph *graph.Graph
	Given map[string]*tensor.Tensor
}

// Work describes iterations on a device that somebody has: what the job would do there alone.
type Work struct {
	// Iteration is how long one takes; 0 stands for Kernel.Time.
	Iteration time.Duration
	// Jitter is the half-width of a uniform distribution around Iteration, as a fraction of it.
	Jitter float64
	// Kernel is what an iteration consists of.
	Kernel Kernel
}

// Kernel is a piece of work that a job does not interrupt.
type Kernel struct {
	// Time is how long it takes; 0: the whole iteration.
	Time time.Duration
	// Units is the part of the device's units beyond which it gets no faster, above 0 to 1; 0
	// stands for 1.
	Units float64
	// Bandwidth is the part of the device's memory bandwidth that it uses, 0 to 1.
	Bandwidth float64
}

// Described reports whether there is any work.
func (w Work) Described() bool { return w != Work{} }

// Time returns how long an iteration takes.
func (w Work) Time() time.Duration {
	if w.Iteration > 0 {
		return w.Iteration
	}
	return w.Kernel.Time
}

// Arrival is an arrival process. At most one of Poisson, Load, Closed and Trace is set.
type Arrival struct {
	// Poisson is the mean number of requests a second, independent of how fast they are served.
	Poisson float64 `json:"poisson,omitempty" yaml:"poisson,omitempty"`
	// Load asks for the Poisson rate at which the job, alone, would keep the device busy for this
	// fraction of the time. The rate is measured before anything else runs.
	Load float64 `json:"load,omitempty" yaml:"load,omitempty"`
	// Closed is the number of clients that each send their next request once the last is answered.
	Closed int `json:"closed,omitempty" yaml:"closed,omitempty"`
	// Think is how long each of these clients waits before its next request.
	Think time.Duration `json:"think,omitempty" yaml:"think,omitempty"`
	// Trace holds the times of all requests after the job's start, rising.
	Trace []time.Duration `json:"trace,omitempty" yaml:"trace,omitempty"`
}

// Clients returns the number of closed-loop clients, 0 for open arrivals.
func (a Arrival) Clients() int {
	if a.Poisson > 0 || a.Load > 0 || len(a.Trace) > 0 {
		return 0
	}
	return max(1, a.Closed)
}

// String prints "poisson 10/s", "poisson at load 0.3", "trace of 20", "closed 1" or "closed 1,
// think 5ms".
func (a Arrival) String() string {
	if a.Poisson > 0 {
		return fmt.Sprintf("poisson %.4g/s", a.Poisson)
	}
	if a.Load > 0 {
		return fmt.Sprintf("poisson at load %g", a.Load)
	}
	if len(a.Trace) > 0 {
		return fmt.Sprintf("trace of %d", len(a.Trace))
	}
	if a.Think > 0 {
		return fmt.Sprintf("closed %d, think %v", a.Clients(), a.Think)
	}
	return fmt.Sprintf("closed %d", a.Clients())
}

// longest is the longest time that a scenario may name: sums of a few do not overflow.
const longest = 50 * 365 * 24 * time.Hour

// Validate fills in defaults and reports all faults together, as an error of kind [ErrScenario].
func (s *Scenario) Validate() error {
	if s.Device == "" {
		s.Device = "cpu:0"
	}
	if s.Policy == "" {
		s.Policy = policy.Default
	}
	var faults []error
	if _, err := s.policies(nil); err != nil {
		faults = append(faults, err)
	}
	if _, err := evict.New(s.Eviction); err != nil {
		faults = append(faults, err)
	}
	if s.Memory < 0 {
		faults = append(faults, fmt.Errorf("memory %v is negative", s.Memory))
	}
	if s.Duration < 0 || s.Duration > longest {
		faults = append(faults, fmt.Errorf("duration %v is negative or over %v", s.Duration,
			longest))
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
	switch model := j.Model != "" || j.Graph != nil; {
	case !model && !j.Work.Described() && j.Train == "":
		fault("no model: give an ONNX file, or describe its work by iteration and kernel")
	case model && j.Work.Described():
		fault("both a model and described work: choose one")
	}
	j.trainFaults(fault)
	if err := j.Precision.Validate(); err != nil {
		fault("%v", err)
	}
	j.Work.check(fault)
	j.Arrival.check(fault)
	if j.Target < 0 {
		fault("qos %v is negative", j.Target)
	}
	for _, d := range append([]time.Duration{j.Work.Iteration, j.Work.Kernel.Time, j.Arrival.Think,
		j.Target, j.Start, j.Stop}, j.Arrival.Trace...) {
		if d > longest {
			fault("a time of %v: want at most %v", d, longest)
			break
		}
	}
	if j.Start < 0 || j.Stop < 0 || j.Stop > 0 && j.Stop <= j.Start {
		fault("start %v, stop %v: want times from 0, stop after start", j.Start, j.Stop)
	}
	if duration == 0 && j.Iterations == 0 {
		fault("neither the scenario has a duration nor the job iterations: it would never end")
	}
	if n := len(j.Arrival.Trace); duration == 0 && n > 0 && j.Iterations > int64(n) {
		fault("arrival: trace of %d for %d iterations: it would never end", n, j.Iterations)
	}
	return faults
}

// check tells fault what is wrong with described work.
func (w Work) check(fault func(format string, args ...any)) {
	if w.Described() && w.Time() <= 0 || w.Iteration < 0 || w.Kernel.Time < 0 {
		fault("iteration %v of kernels of %v: want times above 0", w.Iteration, w.Kernel.Time)
	}
	if !(w.Jitter >= 0 && w.Jitter <= 1) {
		fault("jitter %g: want a fraction of the iteration from 0 to 1", w.Jitter)
	}
	if u := w.Kernel.Units; !(u >= 0 && u <= 1) {
		fault("kernel units %g: there is 1 device: want a fraction of its units, above 0 to 1", u)
	}
	if b := w.Kernel.Bandwidth; !(b >= 0 && b <= 1) {
		fault("kernel bandwidth %g: want a fraction of the device's from 0 to 1", b)
	}
}

// check tells fault what is wrong with an arrival process.
func (a Arrival) check(fault func(format string, args ...any)) {
	if p := a.Poisson; p < 0 || math.IsNaN(p) || p > 1e6 {
		fault("arrival: poisson %g: want a rate from 0 to 1e6 a second", p)
	}
	if a.Closed < 0 || a.Closed > 1<<16 {
		fault("arrival: closed %d: want a number of clients from 1 to 65536", a.Closed)
	}
	if l := a.Load; l < 0 || l > 1 || math.IsNaN(l) {
		fault("arrival: load %g: want a fraction of the device from 0 to 1", l)
	}
	if a.Think < 0 {
		fault("arrival: think %v is negative", a.Think)
	}
	if !slices.IsSorted(a.Trace) || len(a.Trace) > 0 && a.Trace[0] < 0 {
		fault("arrival: trace: want times that rise from 0")
	}
	set := 0
	for _, given := range []bool{a.Poisson > 0, a.Load > 0, a.Closed > 0, len(a.Trace) > 0} {
		if given {
			set++
		}
	}
	if set > 1 {
		fault("arrival: more than one of poisson, load, closed and trace: choose one")
	}
	if a.Think > 0 && a.Clients() == 0 {
		fault("arrival: think is for clients of closed: leave it out")
	}
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
