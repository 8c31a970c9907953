package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
)

// Scenario is a device and the jobs on it, as data.
type Scenario struct {
	// Device is what the jobs share.
	Device Device
	// Duration is how long to simulate.
	Duration time.Duration
	// Seed determines all that is random.
	Seed uint64
	// Jobs are in order of admission among those with the same Start.
	Jobs []Job
}

// Device is what a simulation knows of a device.
type Device struct {
	// Name is for errors; "sim:0" where it is empty.
	Name string
	// Units is the number of compute units; 0 means 1.
	Units int
	// Memory is the device's memory; 0 means 1 TiB.
	Memory share.Bytes
	// Lanes is the most lanes in which jobs share ephemeral memory, as in core.Config.
	Lanes int
	// Can says what can be enforced on it.
	Can share.Can
	// SwitchCost is the time lost when units pass to another job.
	SwitchCost time.Duration
}

// Job is one job of a scenario.
type Job struct {
	share.Job
	// Need is the most memory that it holds, in bytes.
	Need share.Bytes
	// Start is when the job is to be admitted; Stop, if not 0, when it ends.
	Start, Stop time.Duration
	// Waits: a job that is refused at Start waits at the door until others have ended, behind those
	// that wait already. It is refused for good if it does not fit alone.
	Waits bool
	// Arrival is how requests arrive from the job's admission on.
	Arrival Arrival
	// Iteration is how long one takes on the whole device with nobody beside.
	Iteration Spread
	// Step is the time between two points at which the job can give the device back, on the whole
	// device; 0: only between iterations.
	Step time.Duration
	// Width is the number of units beyond which the job gets no faster; 0: all.
	Width int
	// Bandwidth is the part of the device's memory bandwidth that the job takes while it runs alone
	// on the whole device, 0 to 1.
	Bandwidth float64
	// Target is how long after its arrival a request should be completed; 0: nobody waits for it.
	Target time.Duration
	// Rests: when the job runs out of work within its hold it keeps its units, as programs do that
	// cannot say for how long they pause, and goes on with them if they are not asked back before.
	// Otherwise it gives them back at once.
	Rests bool
	// Linger is how long it takes to give back the units that it rests on when they are asked back.
	Linger time.Duration
	// Keeps is how long the job must have had no work for it to give back or rest on what it holds:
	// in a shorter pause it holds it for nothing, as a program does whose pauses are noticed only
	// after a while.
	Keeps time.Duration
	// Foreknown says that the job tells its mean iteration time, as one with a plan does. Others
	// are known by what their iterations took.
	Foreknown bool
}

// Arrival is a process by which requests arrive. At most one of its fields is set; with none, no
// request ever does.
type Arrival struct {
	// Poisson is the rate of a Poisson process, in requests per second.
	Poisson float64
	// Closed is the number of requests in the system at any time: the next arrives Think after one
	// is completed.
	Closed int
	Think  time.Duration
	// Trace holds the arrival times after the job's admission, rising.
	Trace []time.Duration
}

// Spread is a distribution of durations.
type Spread struct {
	// Mean is the mean duration.
	Mean time.Duration
	// Jitter is the half-width of a uniform distribution as a fraction of the mean, 0 to 1. With 0
	// the duration is constant.
	Jitter float64
	// Exponential, instead of Jitter, makes the distribution exponential.
	Exponential bool
}

func (d Spread) draw(r *rand.Rand) time.Duration {
	mean := float64(d.Mean)
	switch {
	case d.Exponential:
		mean *= r.ExpFloat64()
	case d.Jitter > 0:
		mean *= 1 + d.Jitter*(2*r.Float64()-1)
	}
	return max(1, time.Duration(mean))
}

// Validate reports all faults of the scenario together.
func (sc Scenario) Validate() error {
	f := share.Faults{Object: "scenario"}
	add := func(bad bool, field string, value any, bound string) {
		if bad {
			f.List = append(f.List,
				share.Fault{Field: field, Value: fmt.Sprint(value), Bound: bound})
		}
	}
	add(sc.Device.Units < 0 || sc.Device.Units > share.MaxUnits, "units", sc.Device.Units,
		fmt.Sprint("must be from 1 to ", share.MaxUnits))
	add(sc.Device.Memory < 0, "memory", sc.Device.Memory, "must not be negative")
	add(sc.Duration <= 0, "duration", sc.Duration, "must be above 0")
	add(sc.Device.SwitchCost < 0, "switch cost", sc.Device.SwitchCost, "must not be negative")
	for i := range sc.Jobs {
		sc.Jobs[i].validate(add)
	}
	if len(f.List) == 0 {
		return nil
	}
	return f
}

func (j *Job) validate(add func(bad bool, field string, value any, bound string)) {
	if err := j.Job.Validate(); err != nil {
		add(true, "job", err, "must be valid")
	}
	at := func(field string) string { return "job " + j.Name + " " + field }
	add(j.Need < 0, at("need"), j.Need, "must not be negative")
	add(j.Step < 0, at("step"), j.Step, "must not be negative")
	add(j.Start < 0, at("start"), j.Start, "must not be negative")
	add(j.Stop != 0 && j.Stop < j.Start, at("stop"), j.Stop, "must not be before its start")
	add(j.Width < 0, at("width"), j.Width, "must not be negative")
	add(j.Linger < 0, at("linger"), j.Linger, "must not be negative")
	add(j.Keeps < 0, at("keeps"), j.Keeps, "must not be negative")
	add(j.Target < 0, at("target"), j.Target, "must not be negative")
	add(!(j.Bandwidth >= 0 && j.Bandwidth <= 1), at("bandwidth"), j.Bandwidth,
		"must be from 0 to 1")
	add(j.Iteration.Mean <= 0, at("iteration"), j.Iteration.Mean, "must be above 0")
	add(!(j.Iteration.Jitter >= 0 && j.Iteration.Jitter <= 1), at("jitter"), j.Iteration.Jitter,
		"must be from 0 to 1")
	add(!(j.Arrival.Poisson >= 0), at("poisson"), j.Arrival.Poisson, "must not be negative")
	add(j.Arrival.Closed < 0 || j.Arrival.Closed > 1e6, at("closed"), j.Arrival.Closed,
		"must be from 0 to a million")
	add(!slices.IsSorted(j.Arrival.Trace) || len(j.Arrival.Trace) > 0 && j.Arrival.Trace[0] < 0,
		at("trace"), len(j.Arrival.Trace), "arrivals must rise from 0")
	add(j.Arrival.Think < 0, at("think"), j.Arrival.Think, "must not be negative")
}
