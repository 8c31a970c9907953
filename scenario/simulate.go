package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/catalogue"
	"github.com/weirgpu/weir/share/sim"
)

// Simulate carries out a scenario in virtual time: each job alone, if Options.Solo is set, and then
// all together under each policy. The scenario's device is one of the catalogue, or this machine's
// CPU. A job's iterations take what its [Work] says, or, on a device of the catalogue, what the
// steps of its model's plan take by the roofline of its data sheet. Of the options it heeds
// Policies, Solo, Plans, Threads and Progress. The result's phases are those of [Run] in virtual
// time. The error is of kind [ErrScenario] where the scenario cannot be simulated as it is written.
func Simulate(ctx context.Context, s *Scenario, o Options) (*Result, error) {
	if err := errors.Join(s.Validate(), o.check()); err != nil {
		return nil, err
	}
	v := &virtual{s: s, o: o}
	if v.o.Progress == nil {
		v.o.Progress = func(string) {}
	}
	if err := v.choose(); err != nil {
		return nil, err
	}
	for i := range s.Jobs {
		if err := v.add(ctx, &s.Jobs[i]); err != nil {
			return nil, err
		}
	}
	return v.all(ctx)
}

// virtual is a simulation of a scenario under several policies.
type virtual struct {
	s      *Scenario
	o      Options
	listed *catalogue.Device // nil for this machine's
	world  sim.Scenario
	specs  []Job // with arrival rates in place of loads
}

// choose finds the device, and what of its memory is shared.
func (v *virtual) choose() error {
	err := v.find()
	if m := v.s.Memory; m > 0 {
		v.world.Device.Memory = min(v.world.Device.Memory, m)
	}
	return err
}

func (v *virtual) find() error {
	d, err := catalogue.Find(v.s.Device)
	if err == nil {
		v.listed = &d
		v.world.Device = sim.Device{Name: d.Name, Units: d.Units, Memory: d.Memory, Can: d.Can,
			SwitchCost: d.SwitchCost()}
		return nil
	}
	m, other := machine.Open(v.s.Device, machine.Options{Threads: v.o.Threads})
	if other != nil {
		return fmt.Errorf("%w: %w, or a device of this machine: %w", ErrScenario, err, other)
	}
	c := seat.Device(v.s.Device, m)
	v.world.Device = sim.Device{Name: c.Device, Units: c.Units, Memory: c.Memory, Can: c.Can}
	return m.Close()
}

// add enters a job.
func (v *virtual) add(ctx context.Context, j *Job) error {
	if err := stopped(ctx); err != nil {
		return err
	}
	work, need := j.Work, j.Memory
	if !work.Described() {
		var err error
		if work, need, err = v.predict(ctx, j); err != nil {
			return err
		}
	}
	spec := *j
	if a := &spec.Arrival; a.Load > 0 {
		spec.Arrival = Arrival{Poisson: a.Load / work.Time().Seconds()}
	}
	v.specs = append(v.specs, spec)
	job := sim.Job{Job: j.Job, Need: need, Start: j.Start, Stop: j.Stop, Waits: j.Wait,
		Arrival: sim.Arrival{Poisson: spec.Arrival.Poisson, Closed: spec.Arrival.Clients(),
			Think: j.Arrival.Think, Trace: j.Arrival.Trace},
		Iteration: sim.Spread{Mean: work.Time(), Jitter: work.Jitter},
		Step:      min(work.Kernel.Time, work.Time()), Bandwidth: work.Kernel.Bandwidth,
		Target: j.Target, Foreknown: true}
	if u := work.Kernel.Units; u > 0 {
		job.Width = int(math.Ceil(u*float64(v.world.Device.Units) - 1e-9))
	}
	v.world.Jobs = append(v.world.Jobs, job)
	return nil
}

// predict describes the iterations of a job's model on the device by those of its plan.
func (v *virtual) predict(ctx context.Context, j *Job) (Work, share.Bytes, error) {
	if j.Train != "" {
		return Work{}, 0, fmt.Errorf("%w: job %s: nothing here trains: describe its work by "+
			"iteration and kernel", ErrScenario, j.Name)
	}
	if v.listed == nil {
		return Work{}, 0, fmt.Errorf("%w: job %s: nothing is published of what %s does in a "+
			"second: describe its work by iteration and kernel, or simulate a device of the "+
			"catalogue", ErrScenario, j.Name, v.s.Device)
	}
	v.o.Progress("compiling " + j.Name)
	m, err := machine.Open("cpu:0", machine.Options{Threads: v.o.Threads})
	if err != nil {
		return Work{}, 0, err
	}
	defer m.Close()
	p, err := prepare(ctx, *j, v.o.Plans, m.Target, m.Pool.Threads(), v.s.Seed)
	if err != nil {
		return Work{}, 0, err
	}
	defer p.close()
	return predicted(p.plan, v.listed), share.Bytes(p.plan.PeakBytes(1)), nil
}

const (
	// residentThreads is the most threads that a unit keeps at once (CUDA C++ Programming Guide,
	// technical specifications by compute capability; 1,536 for some), one to an output element.
	residentThreads = 2048
	// launch is the least that a kernel takes, of the order that vendors' profilers show.
	launch = 4 * time.Microsecond
)

// predicted puts a plan's steps under the roofline of a device: a step takes as long as its
// arithmetic on the units that its output fills, its traffic, or a launch, whichever is longest.
// The kernel that it returns is the mean over the iteration.
func predicted(p *plan.Plan, d *catalogue.Device) Work {
	var total, filled, bytes, steps float64
	for i := range p.Steps {
		st := &p.Steps[i]
		var elements float64
		for _, out := range st.Out {
			if out >= 0 {
				elements += float64(p.Slots[out].Bytes) / 4
			}
		}
		part := min(1, max(1, math.Ceil(elements/residentThreads))/float64(d.Units))
		seconds := max(float64(st.Flops)/(d.Peak*part), float64(st.Bytes)/d.Bandwidth,
			launch.Seconds())
		total += seconds
		filled += seconds * part
		bytes += float64(st.Bytes)
		steps++
	}
	if total == 0 {
		return Work{Iteration: launch}
	}
	ns := float64(time.Second)
	return Work{Iteration: time.Duration(total * ns), Kernel: Kernel{
		Time: max(1, time.Duration(total/steps*ns)), Units: filled / total,
		Bandwidth: min(1, bytes/(total*d.Bandwidth))}}
}

func (v *virtual) all(ctx context.Context) (*Result, error) {
	specs, err := v.s.policies(v.o.Policies)
	if err != nil {
		return nil, err
	}
	policies, left, err := enforceable(specs, v.world.Device.Can, v.world.Device.Name)
	if err != nil {
		return nil, err
	}
	v.world.Seed, v.world.Duration = v.s.Seed, v.s.Duration
	if v.world.Duration == 0 {
		v.world.Duration = v.patience()
	}
	res := &Result{LeftOut: left, Machine: "virtual time", Threads: v.world.Device.Units}
	if v.listed != nil {
		res.Machine += ", " + v.listed.Title
	}
	var solo []JobResult
	if v.o.Solo {
		p, err := v.alone(ctx)
		if err != nil {
			return nil, err
		}
		solo = p.Jobs
		p.compare(v.specs, solo)
		res.add(p)
	}
	for _, name := range policies {
		if err := stopped(ctx); err != nil {
			return nil, err
		}
		v.o.Progress("policy " + name)
		p, err := v.phase(ctx, Shared, name, v.world, v.specs)
		if err != nil {
			return nil, err
		}
		p.compare(v.specs, solo)
		res.add(p)
	}
	return res, nil
}

// patience is how long a scenario without a duration is simulated: far longer than all its
// iterations take one after the other, if there is so much time.
func (v *virtual) patience() time.Duration {
	var work float64
	var start time.Duration
	for i := range v.world.Jobs {
		j := &v.world.Jobs[i]
		gap := j.Arrival.Think.Seconds()
		if j.Arrival.Poisson > 0 {
			gap += 1 / j.Arrival.Poisson
		}
		work += float64(j.Iterations) * (2*j.Iteration.Mean.Seconds() + gap)
		start = max(start, j.Start)
		if n := len(j.Arrival.Trace); n > 0 {
			start = max(start, j.Start+j.Arrival.Trace[n-1])
		}
	}
	return start + time.Duration(min(float64(longest), 8*work*float64(time.Second))) + time.Minute
}

// alone simulates each job by itself, from the beginning and without limits.
func (v *virtual) alone(ctx context.Context) (*Phase, error) {
	all := &Phase{Device: v.world.Device.Name, Mode: Solo}
	for i := range v.world.Jobs {
		if err := stopped(ctx); err != nil {
			return nil, err
		}
		one := v.world
		job := v.world.Jobs[i]
		job.Start, job.Stop, job.Share = 0, 0, share.Share{Memory: job.Share.Memory,
			Class: job.Share.Class}
		one.Jobs = []sim.Job{job}
		spec := v.specs[i]
		spec.Start, spec.Stop = 0, 0
		p, err := v.phase(ctx, Solo, "fifo", one, []Job{spec})
		if err != nil {
			return nil, err
		}
		p.Jobs[0].Compute, p.Jobs[0].Limit = v.specs[i].Compute, v.specs[i].Cap()
		all.Jobs = append(all.Jobs, p.Jobs[0])
		all.Wall += p.Wall
	}
	all.WallS = all.Wall.Seconds()
	return all, nil
}

// phase simulates jobs together.
func (v *virtual) phase(ctx context.Context, m Mode, name string, w sim.Scenario,
	specs []Job) (*Phase, error) {
	began := time.Now()
	r, err := sim.Run(w, name, sim.Options{Done: ctx.Done()})
	if errors.Is(err, sim.ErrStopped) {
		return nil, stopped(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScenario, err)
	}
	ph := &Phase{Device: w.Device.Name, Mode: m, Wall: r.Duration, Events: r.Events,
		VirtualS: r.Duration.Seconds()}
	if m == Shared {
		ph.Policy = name
	}
	if took := time.Since(began); took > 0 {
		ph.EventsPerS = float64(r.Events) / took.Seconds()
	}
	if v.s.Duration == 0 {
		ph.Wall = untilEnded(r, w.Jobs)
	}
	ph.WallS = ph.Wall.Seconds()
	for i := range r.Jobs {
		ph.Jobs = append(ph.Jobs, virtualResult(&r.Jobs[i], &w.Jobs[i], &specs[i], ph.Wall))
		for _, h := range r.Jobs[i].Holds {
			ph.Holds = append(ph.Holds, Hold{Job: i, From: h.From, To: h.To, Fraction: h.Fraction})
		}
	}
	sorting.By(ph.Holds, func(a, b Hold) int { return cmp.Compare(a.From, b.From) })
	return ph, nil
}

// untilEnded returns when the last job that was let in was complete or stopped; the end of the
// simulation if one was neither.
func untilEnded(r *sim.Result, jobs []sim.Job) time.Duration {
	last := time.Duration(0)
	for i := range r.Jobs {
		if r.Jobs[i].Refused != nil {
			continue
		}
		end := r.Jobs[i].Completion
		if end == 0 {
			end = jobs[i].Stop
		}
		if end == 0 {
			return r.Duration
		}
		last = max(last, end)
	}
	if last == 0 {
		return r.Duration
	}
	return last
}

// virtualResult is what one job got in a simulation.
func virtualResult(r *sim.JobResult, j *sim.Job, spec *Job, wall time.Duration) JobResult {
	res := JobResult{Name: j.Name, Class: j.Class, Compute: j.Compute, Limit: j.Cap(),
		Arrival: spec.Arrival.String(), ArrivalPerS: spec.Arrival.Poisson,
		MemoryCapBytes: int64(max(j.Memory, j.Need)), PlanBytes: int64(j.Need),
		Status: StatusDone, Latencies: r.Latencies}
	if r.Refused != nil {
		res.Status, res.Error = StatusRefused, r.Refused.Error()
		return res
	}
	res.MemoryPeakBytes = int64(j.Need)
	res.WaitedS = (r.Admitted - j.Start).Seconds()
	res.DeviceSeconds = r.Used.Seconds()
	res.DeviceShare = r.Used.Seconds() / wall.Seconds()
	res.DeviceShareMax = r.PeakShare(min(time.Second, wall))
	res.ShareErrorP95, res.Entitled = r.ErrorP95, r.Entitled
	res.Iterations, res.Latency = r.Iterations, latencyOf(r.Latencies)
	res.Grants = int64(len(r.Holds))
	end := wall
	if j.Stop > 0 {
		end = min(end, j.Stop)
	}
	if r.Completion > 0 {
		end = r.Completion
		res.CompletionS = end.Seconds()
	}
	if elapsed := end - r.Admitted; elapsed > 0 {
		res.IterationsPerS = (float64(r.Iterations) + r.Partial) / elapsed.Seconds()
	}
	res.punctual(j.Target, r.Unanswered)
	return res
}
