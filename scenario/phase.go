package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/evict"
)

// tenant is one job in one phase.
type tenant struct {
	index  int
	job    int         // among the scenario's jobs
	keep   share.Bytes // that it is to keep, whatever its plan
	p      *prepared
	result JobResult
	driver *driver
	seat   seater
	admit  *broker.Job   // nil without a broker
	memory *seat.Elastic // nil: none of its own memory leaves the device
	use    *seat.Use     // of weights that it shares; nil: it has its own
	// its weights, where they may leave the device; nil otherwise
	weights *resided
	held    *seat.Counted //  its memory when there is no broker
	free    func()        // gives its memory back; may be called again
	err     error
}

// fail ends a job: its memory goes back first, so that the broker never promises what is still
// held.
func (t *tenant) fail(err error) {
	if t.free != nil {
		t.free()
	}
	t.seat.Fail(err)
}

// phase runs the given jobs together under one mode.
func (r *run) phase(ctx context.Context, m Mode, policyName string, which []int) (*Phase, error) {
	ph := &Phase{Device: r.s.Device, Mode: m, Policy: policyName}
	stage, err := r.newStage(ph, m, policyName)
	if err != nil {
		return nil, err
	}
	return ph, stage.perform(ctx, which)
}

// perform runs the given jobs on the stage, and closes it.
func (s *stage) perform(ctx context.Context, which []int) error {
	defer s.close()
	for _, i := range which {
		s.add(ctx, s.run.jobs[i], i)
	}
	if err := s.play(ctx); err != nil {
		return err
	}
	s.report()
	return nil
}

func (r *run) indices() []int {
	all := make([]int, len(r.jobs))
	for i := range all {
		all[i] = i
	}
	return all
}

// unmanaged runs all jobs without a broker.
func (r *run) unmanaged(ctx context.Context, m Mode) (*Phase, error) {
	if m == Processes {
		return r.processes(ctx)
	}
	return r.phase(ctx, m, "", r.indices())
}

// stage is a phase while it is set up and runs.
type stage struct {
	run     *run
	phase   *Phase
	mode    Mode
	broker  *broker.Broker // nil without one
	commons *seat.Commons  // weights that jobs share; nil: none do
	rule    string         // of eviction, with a broker
	watch   *watcher
	tenants []*tenant
	pools   []*cpu.Pool // one a job in Threads
	began   time.Time
	window  time.Duration // 0: until all jobs have reached their iteration counts
	bounded int64         // iterations in place of a job's own count; 0: its own
	playing bool          // the phase has begun
	door    door
}

func (r *run) newStage(ph *Phase, m Mode, policyName string) (*stage, error) {
	s := &stage{run: r, phase: ph, mode: m, window: r.s.Duration}
	if m != Shared {
		return s, nil
	}
	s.watch = newWatcher(s)
	c, err := r.sharing(policyName)
	if err != nil {
		return nil, err
	}
	s.rule = c.Eviction.Name()
	o := broker.Config{Config: c, Observer: s.watch}
	if r.o.Record != nil {
		o.Record = r.o.Record(policyName)
	}
	s.broker, err = broker.New(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScenario, err)
	}
	if !s.broker.Ruled() && !r.s.OwnWeights {
		s.commons = seat.NewCommons(s.broker)
	}
	return s, nil
}

// sharing is the device as the broker shares it under a policy.
func (r *run) sharing(policyName string) (core.Config, error) {
	c, err := seat.Device(r.s.Device, r.Machine).ForPolicy(policyName)
	if err == nil {
		c.Eviction, err = evict.New(r.s.Eviction)
	}
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrScenario, err)
	}
	if m := r.s.Memory; m > 0 {
		c.Memory = min(c.Memory, m)
	}
	return c, nil
}

func (s *stage) close() {
	for _, t := range s.tenants {
		if t.free != nil {
			t.free()
		}
	}
	for _, p := range s.pools {
		p.Close()
	}
	if s.broker != nil {
		s.broker.Close()
	}
}

// note keeps why a job did not run to its end: its first line for the result, all of it, with the
// stack of a fault, for the log.
func (s *stage) note(t *tenant, err error) {
	line, _, _ := strings.Cut(err.Error(), "\n")
	t.result.Status, t.result.Error = StatusFailed, line
	s.run.o.Log.Warn("job does not run", "job", t.p.spec.Name, "mode", s.mode, "error", err)
}

// add admits and loads one job. What keeps it from running is kept as its result.
func (s *stage) add(ctx context.Context, p *prepared, index int) {
	t := &tenant{index: len(s.tenants), job: index, p: p, keep: p.spec.Keep,
		result: JobResult{Name: p.spec.Name, Class: p.spec.Class, Compute: p.spec.Compute,
			Limit: p.spec.Cap(), Arrival: p.spec.Arrival.String(),
			ArrivalPerS: p.spec.Arrival.Poisson, MemoryCapBytes: int64(p.spec.Memory),
			Precision: PrecisionOf(p.plan), PlanBytes: p.need(), Status: StatusDone},
		seat: unmanaged{},
		held: seat.NewCounted("job "+p.spec.Name, p.spec.Memory)}
	s.tenants = append(s.tenants, t)
	err := s.behind(t)
	if err == nil {
		err = s.load(ctx, t, index)
	}
	switch {
	case err == nil:
		s.door.busy++
	case !s.waits(t, index, err):
		s.turnAway(t, err)
	}
}

// turnAway keeps why a job does not run, and takes from it what it holds.
func (s *stage) turnAway(t *tenant, err error) {
	atDoor := t.driver == nil
	t.driver = nil
	t.fail(err)
	s.note(t, err)
	if atDoor && (errors.Is(err, core.ErrOverCap) || errors.Is(err, core.ErrNoMemory) ||
		errors.Is(err, core.ErrNoCompute)) {
		t.result.Status = StatusRefused
	}
}

func (s *stage) load(ctx context.Context, t *tenant, index int) error {
	if t.p.broken != nil {
		return t.p.broken
	}
	o := s.run.options(ctx, t.p, t.held)
	o.MaxInstances = 1
	if s.broker == nil {
		if err := t.p.overCap(); err != nil {
			return err
		}
	} else {
		terms := s.terms(t.p)
		if terms.Keep > t.p.spec.Keep {
			s.run.o.Log.Info("keeps what is not weights", "job", terms.Name, "asked",
				t.p.spec.Keep, "keeps", terms.Keep)
		}
		if err := t.p.overCap(); err != nil {
			return err
		}
		j, err := s.broker.Admit(terms, share.Bytes(t.p.need()-s.shared(t.p)))
		if err != nil {
			return err
		}
		t.admit, t.seat = j, seat.New(j, s.run.Pool)
		s.expect(t, 0)
		t.result.MemoryCapBytes = int64(j.Spec().Memory) + s.shared(t.p)
		if err := s.reserve(ctx, t, &o); err != nil {
			return err
		}
	}
	if s.mode == Threads {
		own := cpu.NewPool(cpu.PoolOptions{Threads: s.run.Pool.Threads()})
		o.Pool, s.pools = own, append(s.pools, own)
	}
	it, session, free, err := t.p.resident(o)
	if err != nil {
		return err
	}
	t.free = free
	if t.use != nil {
		t.free = func() { free(); t.use.Leave() }
	}
	spec := t.p.spec
	if s.mode == Solo {
		spec.Start, spec.Stop = 0, 0
	}
	if s.bounded > 0 {
		spec.Iterations = s.bounded
	}
	if s.playing {
		spec.Start = max(spec.Start, s.now()) // requests come from now on
	}
	t.driver = newDriver(&spec, t.seat, it, s.now, s.run.s.Seed+uint64(index))
	err = s.warm(ctx, t)
	if t.memory != nil {
		t.weights = newResided(session, t.p.plan.PackedBytes, s.broker.Now)
		t.driver.memory, t.driver.weights = t.memory, t.weights
		t.driver.reloaded = func() { s.expect(t, session.Reload()) }
		t.driver.reloaded()
		t.memory.Attach(t.weights)
	}
	if t.use != nil && spec.Elastic {
		t.weights = t.use.Weights().(commonWeights).resided
		t.driver.memory, t.driver.weights, t.driver.reloaded = t.use, t.weights, t.use.Expect
	}
	return err
}

// reserve waits for the memory that an admitted job is loaded into, and says in the options what
// grants it. What others hold of what the job keeps is waited for, too.
func (s *stage) reserve(ctx context.Context, t *tenant, o *engine.Options) error {
	if s.shares(t.p) {
		return s.join(ctx, t, o)
	}
	m := seat.NewElastic(t.admit)
	o.Quota, o.ArenaQuota = m.Weights(), m.Arenas()
	if t.p.spec.Elastic {
		t.memory = m
	}
	weights, rest := t.p.held()
	return m.Reserve(ctx, weights, rest)
}

// expect tells the broker what a job's iterations take, and how long it takes to bring its weights.
func (s *stage) expect(t *tenant, reload time.Duration) {
	next := seat.Forecast(s.run.Machine, t.p.plan)
	next.Target, next.Reload = t.p.spec.Target, reload
	t.admit.Expect(next)
}

// warm runs once before the phase begins: the first run touches every page of the arena, which is
// not what a phase measures. Of a job that is let in later it has its turn among the others.
func (s *stage) warm(ctx context.Context, t *tenant) (err error) {
	defer recovered(t.p.spec.Name, &err)
	if t.use != nil {
		if err := t.use.Resident(ctx); err != nil {
			return err
		}
		defer t.use.End()
	}
	if !s.playing {
		return s.run.first(ctx, t.p.spec.Name, t.driver.iterate)
	}
	gate, err := t.seat.Acquire(ctx)
	if err != nil {
		return err
	}
	defer t.seat.Release()
	return t.driver.iterate(ctx, gate)
}

func (s *stage) now() time.Duration { return time.Since(s.began) }

// play runs all drivers for the phase's window, or until all have reached their iteration counts.
func (s *stage) play(outer context.Context) error {
	if err := stopped(outer); err != nil {
		return err
	}
	ctx := outer
	s.began = time.Now()
	if s.window > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(outer, s.window)
		defer cancel()
	}
	if s.watch != nil {
		s.watch.start(s.broker.Now())
	}
	stopLive := s.live()
	var wg sync.WaitGroup
	s.playing = true
	// before the first can let others in
	in := slices.DeleteFunc(slices.Clone(s.tenants),
		func(t *tenant) bool { return t.driver == nil })
	for _, t := range in {
		s.drive(ctx, t, &wg)
	}
	s.openDoor(ctx, &wg) // somebody who waits may not fit alone
	if s.broker != nil {
		s.run.o.Control.direct(s)
	}
	wg.Wait()
	s.run.o.Control.direct(nil)
	s.phase.Wall = s.now()
	stopLive()
	s.closeDoor()
	return stopped(outer)
}

// drive has a job serve its requests, and then those that wait take its place.
func (s *stage) drive(ctx context.Context, t *tenant, wg *sync.WaitGroup) {
	wg.Go(func() {
		if t.err = t.driver.run(ctx); t.err != nil {
			t.fail(t.err)
		}
		s.leave(ctx, t, wg)
	})
}

// report turns what happened into the phase's results.
func (s *stage) report() {
	ph := s.phase
	ph.WallS = ph.Wall.Seconds()
	if s.watch != nil {
		ph.Holds, ph.Memory = s.watch.holds(), s.watch.memory()
	}
	for _, t := range s.tenants {
		s.reportJob(t)
		ph.Jobs = append(ph.Jobs, t.result)
	}
	s.reportSwitches()
	if s.broker == nil {
		return
	}
	for _, t := range s.tenants {
		if t.admit != nil {
			a := t.admit.Account()
			ph.Jobs[t.index].ShareErrorP95, ph.Jobs[t.index].Entitled = a.ErrorP95, a.Entitled
		}
	}
}

func (s *stage) reportJob(t *tenant) {
	res := &t.result
	if t.err != nil && res.Status == StatusDone {
		s.note(t, t.err)
	}
	res.MemoryPeakBytes = int64(t.held.Peak())
	if t.driver != nil {
		s.reportPace(t)
	}
	if t.admit == nil {
		return
	}
	st := t.admit.Status()
	res.MemoryCapBytes = int64(t.admit.Spec().Memory) + res.SharedBytes
	res.MemoryPeakBytes = int64(st.Peak) + res.SharedBytes
	res.Grants, res.Revocations = st.Counts.Grants, st.Counts.Revocations
	res.Evictions = st.Counts.Evictions
	res.CopiedBytes = int64(t.admit.Account().Copied)
	res.ForecastError = st.ForecastError
	s.reportTime(res, st.Used)
	res.DeviceShareMax = maxShare(s.phase.Holds, t.index, time.Second, s.phase.Wall)
	s.reportMemory(t)
}

// reportPace tells how fast requests were served.
func (s *stage) reportPace(t *tenant) {
	res, d := &t.result, t.driver
	res.Latencies = d.latencies
	res.Iterations = int64(len(d.latencies))
	res.Latency = latencyOf(d.latencies)
	res.CompletionS = d.finished.Seconds()
	end := s.phase.Wall
	if d.spec.Stop > 0 {
		end = min(end, d.spec.Stop)
	}
	if d.spec.Iterations > 0 && res.Iterations == d.spec.Iterations {
		end = d.finished
	}
	res.punctual(t.p.spec.Target, d.unanswered(end))
	res.elapsed, res.done = max(0, end-d.spec.Start), float64(res.Iterations)+s.cutOff(t)
	if res.elapsed > 0 {
		res.IterationsPerS = res.done / res.elapsed.Seconds()
	}
	if s.mode == Solo {
		s.reportTime(res, d.busy)
	}
}

// cutOff returns the fraction of an iteration that the end of the phase cut off, by the device time
// that went into it. Of long iterations a phase holds few, and a rate that rounded them down would
// say more of the phase's length than of the job.
func (s *stage) cutOff(t *tenant) float64 {
	d := t.driver
	done, part := d.busy-d.partial, d.partial
	if t.admit != nil {
		own := newTotal(ownHolds(s.phase.Holds, t.index))
		done = own.until(d.finished)
		part = own.until(s.phase.Wall) - done
	}
	if n := len(d.latencies); n > 0 && done > 0 {
		return min(1, float64(n)*float64(part)/float64(done))
	}
	return 0
}

func (s *stage) reportTime(res *JobResult, held time.Duration) {
	res.DeviceSeconds = held.Seconds()
	if s.phase.Wall > 0 {
		res.DeviceShare = held.Seconds() / s.phase.Wall.Seconds()
	}
}
