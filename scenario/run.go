package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/internal/trace"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
)

// Options say how a scenario is carried out.
type Options struct {
	Log *slog.Logger // nil: silent
	// Threads is the number of cores to use; 0: every core that the process may use.
	Threads int
	// Plans keeps compiled plans of model files; nil keeps none. Processes of their own have none.
	Plans *cache.Cache
	// Solo also runs each job alone, for SoloDuration in all (the scenario's duration where it is
	// 0), or its number of iterations, a part of that before, between and after the other phases.
	Solo         bool
	SoloDuration time.Duration
	// Policies are run one after the other, each entry a policy as policy.New reads it, several
	// with commas between them, or [AllPolicies]; empty: the scenario's own. Those that the device
	// cannot enforce are left out, unless it can enforce none. The last is the one that
	// Result.Phase tells of.
	Policies []string
	// Compare adds phases without a broker.
	Compare []Mode
	// Child is the command line prefix that runs one job in a process of its own (see [RunChild]);
	// needed for Processes.
	Child []string
	// Control, when set, changes shares while jobs run.
	Control *Control
	// Live, when set, is called about five times a second while jobs run.
	Live func(Live)
	// Record, when set, returns where the events and decisions of the phase under a policy are
	// written, for core.Replay, or nil.
	Record func(policy string) io.Writer
	// Trace, when set, records who held the device, iterations and memory.
	Trace *trace.Recorder
	// FirstRequest bounds a job's first request, which runs alone before anything is measured; 0
	// stands for 30 seconds. A job that takes longer fails.
	FirstRequest time.Duration
	// Trainer prepares the recipes of jobs that train; without it they are refused.
	Trainer Trainer
	// Progress, when set, is told what is prepared and run next.
	Progress func(stage string)

	wrap func(job string, it iterate) iterate // lets tests break a job from within
}

// check reports options that name no policy or no way to run without a broker, as an error of kind
// [ErrScenario].
func (o *Options) check() error {
	var faults []error
	if len(o.Policies) > 0 {
		if _, err := (&Scenario{}).policies(o.Policies); err != nil {
			faults = append(faults, err)
		}
	}
	for _, m := range o.Compare {
		if m != Threads && m != Processes {
			faults = append(faults, fmt.Errorf("compare %q: want %s or %s", m, Threads, Processes))
		}
	}
	if o.Threads < 0 || o.Threads > share.MaxUnits {
		faults = append(faults,
			fmt.Errorf("%d threads: want a number from 0 to %d", o.Threads, share.MaxUnits))
	}
	if o.SoloDuration < 0 {
		faults = append(faults, fmt.Errorf("solo duration %v is negative", o.SoloDuration))
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrScenario, oneLine(faults))
}

// Run carries out a scenario. The error is of kind [ErrScenario] when it cannot be run as written,
// which a model that does not load or compile also means; ctx's when it was stopped. A job that
// fails while it runs, or is refused at admission, is no error: its result says so, and the others
// run on.
func Run(ctx context.Context, s *Scenario, o Options) (*Result, error) {
	if err := errors.Join(s.Validate(), o.check()); err != nil {
		return nil, err
	}
	if err := s.runnable(); err != nil {
		return nil, err
	}
	r, err := newRun(ctx, s, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return r.all(ctx)
}

// runnable reports jobs that have no model, as an error of kind [ErrScenario].
func (s *Scenario) runnable() error {
	var faults []error
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Work.Described() {
			faults = append(faults, fmt.Errorf("job %s: described work cannot be run: give it a "+
				"model, or run the scenario with weir simulate", j.Name))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrScenario, oneLine(faults))
}

// run holds what all phases share.
type run struct {
	s *Scenario
	o Options
	*machine.Machine
	jobs []*prepared
}

func newRun(ctx context.Context, s *Scenario, o Options) (*run, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.FirstRequest <= 0 {
		o.FirstRequest = 30 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	on, err := machine.Open(s.Device, machine.Options{Threads: o.Threads})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScenario, err)
	}
	r := &run{s: s, o: o, Machine: on}
	for i := range s.Jobs {
		o.Progress("compiling " + s.Jobs[i].Name)
		p, err := r.prepare(ctx, i)
		if err != nil {
			r.close()
			return nil, err
		}
		if p.cached != nil && p.cached.Reason != "" {
			o.Log.Info("no kept plan was used", "job", p.spec.Name, "reason", p.cached.Reason)
		}
		p.wrap = o.wrap
		r.jobs = append(r.jobs, p)
		if p.spec.Memory == 0 && p.training == nil && p.plan.Dynamic() {
			p.broken = r.measure(ctx, p)
		}
		if p.spec.Arrival.Load > 0 && p.broken == nil {
			r.rate(ctx, p)
		}
		if err := stopped(ctx); err != nil {
			r.close()
			return nil, err
		}
	}
	r.pair()
	return r, nil
}

// prepare prepares a job of the scenario.
func (r *run) prepare(ctx context.Context, i int) (*prepared, error) {
	spec, seed := r.s.Jobs[i], r.s.Seed+uint64(i)
	if spec.Train != "" {
		p := &prepared{spec: spec, seed: seed}
		return p.or(ctx, p.learn(ctx, r.o.Trainer, r.Machine))
	}
	return prepare(ctx, spec, r.o.Plans, r.Target, r.Pool.Threads(), seed)
}

// rate replaces a job's load by an arrival rate. A job that cannot run has none; its trouble is
// told when it is added to a phase, so that it touches no other job.
func (r *run) rate(ctx context.Context, p *prepared) {
	if p.broken = p.overCap(); p.broken == nil {
		p.broken = r.calibrate(ctx, p)
	}
}

// first runs a job's first request, alone, and bounds it: a request that never ends must not keep
// the other jobs from theirs.
func (r *run) first(ctx context.Context, name string, it iterate) error {
	bounded, cancel := context.WithTimeout(ctx, r.o.FirstRequest)
	defer cancel()
	err := it(bounded, device.Open)
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && bounded.Err() != nil:
		return fmt.Errorf("job %s: its first request, alone on the device, did not end within "+
			"%v: %w", name, r.o.FirstRequest, err)
	}
	return fmt.Errorf("job %s: %w", name, err)
}

// options say where a job's plan is loaded under a quota. Beside a device whose memory the host
// cannot address, the job may hold as much of the host's as it may of the device.
func (r *run) options(ctx context.Context, p *prepared, q device.Quota) engine.Options {
	o := engine.Options{Device: r.Device, Pool: r.Pool, Quota: q, Context: ctx}
	if r.Host != nil {
		o.HostQuota = seat.NewHosted(p.spec.Name, p.spec.Memory, r.Host)
	}
	return o
}

// measure gives a job without a cap, whose plan cannot tell what values of data-dependent shape
// need, the cap that one request needs: all of a job's requests are alike.
func (r *run) measure(ctx context.Context, p *prepared) (err error) {
	defer recovered(p.spec.Name, &err)
	quota := seat.NewCounted("job "+p.spec.Name, 0)
	o := r.options(ctx, p, quota)
	it, free, err := p.instance(o)
	if err != nil {
		return fmt.Errorf("job %s: %w", p.spec.Name, err)
	}
	defer free()
	if err := r.first(ctx, p.spec.Name, it); err != nil {
		return err
	}
	p.spec.Memory = quota.Peak()
	if host, ok := o.HostQuota.(*seat.Hosted); ok {
		p.spec.Memory = max(p.spec.Memory, host.Peak())
	}
	return nil
}

// calibrate replaces a job's load by the Poisson rate that causes it. The median of many runs
// decides, which a disturbance does not move.
func (r *run) calibrate(ctx context.Context, p *prepared) (err error) {
	defer recovered(p.spec.Name, &err)
	quota := seat.NewCounted("job "+p.spec.Name, p.spec.Memory)
	it, free, err := p.instance(r.options(ctx, p, quota))
	if err != nil {
		return fmt.Errorf("job %s: %w", p.spec.Name, err)
	}
	defer free()
	if err := r.first(ctx, p.spec.Name, it); err != nil {
		return err
	}
	const warmup, least, enough = 2, 15, 300 * time.Millisecond
	var times []time.Duration
	first := time.Now()
	for i := 0; i < warmup+least || time.Since(first) < enough; i++ {
		began := time.Now()
		if err := it(ctx, device.Open); err != nil {
			return fmt.Errorf("job %s: %w", p.spec.Name, err)
		}
		if i >= warmup {
			times = append(times, time.Since(began))
		}
	}
	slices.Sort(times)
	p.spec.Arrival = Arrival{Poisson: p.spec.Arrival.Load / times[len(times)/2].Seconds()}
	r.o.Log.Info("arrival rate from load", "job", p.spec.Name, "per_second", p.spec.Arrival.Poisson)
	return nil
}

func (r *run) close() {
	for _, p := range r.jobs {
		if err := p.close(); err != nil {
			r.o.Log.Warn("model not closed", "job", p.spec.Name, "error", err)
		}
	}
	if err := r.Machine.Close(); err != nil {
		r.o.Log.Warn("device not closed", "error", err)
	}
}

// all runs the rounds in which the jobs share the device, and before, between and after them a
// part of the time alone, so that a machine that changes its speed meanwhile does so for both.
func (r *run) all(ctx context.Context) (*Result, error) {
	specs, err := r.s.policies(r.o.Policies)
	if err != nil {
		return nil, err
	}
	policies, left, err := enforceable(specs, seat.Can(r.Machine), r.s.Device)
	if err != nil {
		return nil, err
	}
	solo := newSolo(r, len(r.o.Compare)+len(policies)+1)
	var phases []*Phase
	round := func(what string, run func() (*Phase, error)) error {
		if err := solo.part(ctx); err != nil {
			return err
		}
		r.o.Progress("together, " + what)
		p, err := run()
		phases = append(phases, p)
		return err
	}
	for _, m := range r.o.Compare {
		if err := round(string(m), func() (*Phase, error) {
			return r.unmanaged(ctx, m)
		}); err != nil {
			return nil, err
		}
	}
	for _, name := range policies {
		if err := round("policy "+name, func() (*Phase, error) {
			return r.phase(ctx, Shared, name, r.indices())
		}); err != nil {
			return nil, err
		}
	}
	if err := solo.part(ctx); err != nil {
		return nil, err
	}
	return r.result(solo, phases, left), nil
}

// result puts the phases together, that alone first.
func (r *run) result(solo *solo, phases []*Phase, left []LeftOut) *Result {
	res := &Result{Threads: r.Pool.Threads(), Machine: cpuinfo.ModelName(), LeftOut: left}
	if r.o.Solo {
		phases = append([]*Phase{solo.phase()}, phases...)
	}
	for _, p := range phases {
		p.compare(r.s.Jobs, solo.jobs)
		res.add(p)
	}
	return res
}

// stopped reports whether ctx ended a phase from outside.
func stopped(outer context.Context) error {
	if err := outer.Err(); err != nil {
		return errors.Join(errors.New("scenario stopped"), err)
	}
	return nil
}
