package weir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/policy"
)

// HostOptions say which device a [Host] shares, and how. The zero value shares the CPU under the
// policy fair.
type HostOptions struct {
	// Device is the device's name; "cpu:0" where it is empty.
	Device string
	// Policy is the sharing policy as a user writes it, such as "priority" or "fair:slice=10ms";
	// "fair" where it is empty. The command weir policies lists them, and policy.Register adds one
	// of your own.
	Policy string
	// Memory is what may be promised to jobs in all; 0 stands for all that the device has.
	Memory Bytes
	// Threads is the number of cores to share, at most [share.MaxUnits]; 0 stands for every core
	// that this process may use, or as many as that.
	Threads int
}

// Host shares one device between models: each that is admitted runs under a share of the device's
// memory and time. Models that are not admitted know nothing of it and compute when they like.
type Host struct {
	id      string
	machine *machine.Machine
	broker  *broker.Broker
	release func() error // closes the machine, once

	mu     sync.Mutex
	models map[*model]*Tenant // nil while one is admitted
	guests int                // that use the machine and are no models

	commons *seat.Commons // weights that models have together
	joining chan struct{} // held by who makes it so
	closed  bool
}

// hosts are the devices that are shared: two brokers would each promise all of one.
var hosts sync.Map

// NewHost returns a host without jobs. The error is of kind [ErrOption] where the options are
// wrong, the device cannot enforce the policy, or another Host has the device until it is closed.
// It needs [Host.Close].
func NewHost(o HostOptions) (*Host, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	offered.Do(offer)
	cpu.ReserveProcs(2)
	on, err := machine.Open(cmp.Or(o.Device, "cpu:0"),
		machine.Options{Threads: o.Threads, MemoryBytes: int64(o.Memory)})
	if err != nil {
		return nil, classify(err, ErrOption)
	}
	id := on.Device.Info().ID
	if _, taken := hosts.LoadOrStore(id, true); taken {
		return nil, errors.Join(fmt.Errorf("%w: device %s has a Host already: admit to that, or "+
			"close it first", ErrOption, id), on.Close())
	}
	h := &Host{id: id, machine: on, release: sync.OnceValue(on.Close), models: map[*model]*Tenant{},
		joining: make(chan struct{}, 1)}
	c, err := seat.Device(id, on).ForPolicy(cmp.Or(o.Policy, policy.Default))
	if err == nil {
		h.broker, err = broker.New(broker.Config{Config: c})
	}
	if err != nil {
		hosts.Delete(id)
		return nil, errors.Join(classify(err, ErrOption), on.Close())
	}
	h.commons = seat.NewCommons(h.broker)
	return h, nil
}

// check holds the options against their limits.
func (o *HostOptions) check() error {
	if o.Threads < 0 || o.Memory < 0 {
		return fmt.Errorf("%w: HostOptions: %d threads, %d bytes of memory: give positive "+
			"numbers, or 0 for the default", ErrOption, o.Threads, o.Memory)
	}
	if o.Threads > share.MaxUnits {
		return fmt.Errorf("%w: HostOptions: %d threads: give at most %d", ErrOption, o.Threads,
			share.MaxUnits)
	}
	return nil
}

// Job says under which share a model runs: the terms of a scenario's jobs.
type Job struct {
	// Name is what people and errors call the job. Names are unique on a host.
	Name string
	// Share is what the job is promised. Its Memory is a hard cap on the weights and arenas that
	// the model holds; 0 stands for what the model needs for one Run that computes while the result
	// of another is open. The memory of a job that is Elastic is lent: above Keep others may have
	// it between the job's Runs, and a Run waits until it is back.
	Share
	// Shapes are the shapes of inputs, by name, that the model is compiled and loaded for when it
	// is admitted. Inputs whose declared shape is known need none.
	Shapes map[string][]int
	// Target is how long after its begin a Run should be done, for policies that heed it; 0: nobody
	// waits for it. It is the qos of a scenario's jobs.
	Target time.Duration
}

// Tenant is a model that was admitted. Its methods may be called by any number of goroutines, also
// after the model was closed.
type Tenant struct {
	host   *Host
	model  *model
	job    *broker.Job
	hosted *seat.Hosted // nil where the device's memory is the host's
	// planned are the options of the plan that it was admitted with, but for a bound; without a
	// target where it was admitted without a plan.
	planned plan.Options
	alike   *alike                 // nil where it was admitted without a plan
	with    atomic.Pointer[common] // nil while its weights are its own

	setting sync.Mutex // held by SetShare, so that both caps are of one call

	shelving sync.Mutex
	shelved  bool // what Shelve has said last; guarded by shelving
}

// Admit makes a model that has not run yet run under a share: from here on its [Model.Run] waits
// until the host's policy grants the model the device, gives it back where the policy says, and
// never holds more memory than its cap. Closing the model ends the job.
//
// Where the shapes of all inputs are known, the model is compiled, refused if the plan does not fit
// the share, and loaded. Otherwise the first Run does that; the job then needs a cap of memory.
// Compiling and loading are done by the calling goroutine, outside of the share.
//
// The Runs of a job compute one after another, in the order in which they came. While one waits for
// the one before, the job keeps its turn on the device; where none does, the device is offered to
// others, so a program that wants its whole part of a busy device has two Runs under way. What is
// open of their results counts as the job's memory: a Run that finds no room for one more waits
// until a [Result] is closed. The inputs of a Run are the caller's memory and do not count.
//
// The error is of kind [ErrMemory] where the plan needs more than the cap, or the cap is more than
// is not promised to others; [ErrCompute] where the guarantee is; [ErrOption] where the share is
// invalid, the name is taken, the model has run, is admitted already or was opened with
// [WithThreads] or [WithMaxConcurrency], which the host decides; [ErrClosed] where the model or the
// host is closed; else that of the first Run or of ctx. On an error the model is as before.
func (h *Host) Admit(ctx context.Context, m *Model, j Job) (*Tenant, error) {
	if ctx == nil || m == nil {
		return nil, fmt.Errorf("%w: job %s: the context or the model is nil", ErrOption, j.Name)
	}
	t, err := h.admit(ctx, m.model, &j)
	runtime.KeepAlive(m)
	if err != nil {
		return nil, withCause(ctx, classify(err, ErrOption))
	}
	return t, nil
}

func (h *Host) admit(ctx context.Context, m *model, j *Job) (*Tenant, error) {
	if m.ownPool || m.runs > 0 {
		return nil, fmt.Errorf("%w: job %s: the model was opened with WithThreads or "+
			"WithMaxConcurrency: leave them out, the host decides", ErrOption, j.Name)
	}
	if err := m.hold(); err != nil {
		return nil, err
	}
	if err := m.occupy(ctx, j.Name); err != nil {
		m.end()
		return nil, err
	}
	unshared := m.place
	t, err := h.take(ctx, m, j)
	if err != nil {
		m.place, m.compiled = unshared, 0
		m.vacate(cap(m.turns))
		m.end()
		return nil, err
	}
	m.vacate(1) // one Run computes at a time from here on
	return t, nil
}

// occupy keeps all Runs from a model that has not run yet, until [model.vacate].
func (m *model) occupy(ctx context.Context, job string) error {
	if err := enter(ctx, m.compiling); err != nil {
		return err
	}
	n := 0
	if m.compiled == 0 && m.tenancy.Load() == nil {
		for n < cap(m.turns) {
			select {
			case m.turns <- struct{}{}:
				n++
				continue
			default:
			}
			break
		}
	}
	if n == cap(m.turns) {
		return nil
	}
	m.vacate(n)
	return fmt.Errorf("%w: job %s: the model has run or is admitted already: admit it once, "+
		"before its first Run", ErrOption, job)
}

// vacate lets n Runs compute again.
func (m *model) vacate(n int) {
	for range n {
		<-m.turns
	}
	<-m.compiling
}

// take admits a model that no Run uses, and loads it where its shapes are known. Without an error
// it has ended the caller's hold on the model.
func (h *Host) take(ctx context.Context, m *model, j *Job) (*Tenant, error) {
	if err := h.enter(m); err != nil {
		return nil, fmt.Errorf("job %s: %w", j.Name, err)
	}
	on := place{device: h.machine.Device, target: h.machine.Target, pool: h.machine.Pool}
	if own, ok := m.target.(*ownTarget); ok {
		on.target = &ownTarget{on.target, own.operators, own.kernels}
	}
	m.place = on
	v, c, err := m.ahead(ctx, j)
	if err != nil {
		h.left(m)
		return nil, err
	}
	spec := share.Job{Name: j.Name, Share: j.Share}
	var need share.Bytes
	if c != nil {
		if spec.Memory > 0 {
			c = c.Within(ctx, int64(spec.Memory))
		}
		need = share.Bytes(c.Plan.PeakBytes(1))
		spec.Memory = cmp.Or(spec.Memory, h.room(c.Plan, j))
	}
	with, err := (*common)(nil), error(nil)
	if c != nil {
		with, err = h.joined(ctx, m, c, j, spec.Memory)
	}
	var job *broker.Job
	if err == nil {
		job, with, err = h.let(spec, need, with)
	}
	if err != nil {
		h.left(m)
		return nil, err
	}
	t := h.tenant(m, job, j, c, with)
	if c == nil {
		m.end()
		return t, nil
	}
	t.planned = c.Options
	t.planned.MostArena = 0
	if err := m.loaded(ctx, v, c); err != nil {
		m.tenancy.Load().leave()
		m.tenancy.Store(nil)
		return nil, err
	}
	return t, nil
}

// room is the cap of a job that names none. Where its memory is lent one open result may have to be
// closed before the next Run.
func (h *Host) room(p *plan.Plan, j *Job) share.Bytes {
	n := p.PeakBytes(2)
	if j.Elastic {
		st := h.Status()
		n = max(p.PeakBytes(1), min(n, int64(st.Memory-st.Promised)))
	}
	if p.Remote() {
		n = max(n, 2*p.HostBytes, p.StagingBytes())
	}
	return share.Bytes(n)
}

// tenant puts a model under the share of its job.
func (h *Host) tenant(m *model, job *broker.Job, j *Job, c *cache.Compiled,
	with *common) *Tenant {
	t := &Tenant{host: h, model: m, job: job}
	if c != nil {
		t.alike = alikeOf(c)
	}
	y := &tenancy{seat: seat.New(job, h.machine.Pool), weights: seat.Weights(job),
		arenas: seat.Arenas(job)}
	if with != nil {
		t.with.Store(with)
		y.with.Store(with.together)
	} else if j.Elastic {
		l := seat.NewLent(job, m.giveBack)
		y.lent, y.weights, y.arenas = l, l.Quota(), l.Quota()
	}
	if h.machine.Host != nil {
		t.hosted = seat.NewHosted(job.Name(), t.most(), h.machine.Host)
		y.host = t.hosted
	}
	y.most.Store(int64(h.broker.Status().Memory))
	y.memory = func() (held, limit int64) {
		n := share.Bytes(0) // that count as if they were there
		if w := y.with.Load(); w != nil {
			n = share.Bytes(w.bytes)
		}
		return int64(job.Status().Memory.Resident() + n), int64(job.Spec().Memory + n)
	}
	y.forecast = func(p *plan.Plan) {
		next := seat.Forecast(h.machine, p)
		next.Target = j.Target
		job.Expect(next)
	}
	y.leave = func() {
		if w := y.with.Load(); w != nil {
			w.leave()
		}
		job.End(nil)
		h.left(m)
	}
	m.tenancy.Store(y)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.models[m] = t
	return t
}

// ahead compiles a model before its first Run where its shapes are known. The plan is nil where
// they are not, which needs a cap of memory.
func (m *model) ahead(ctx context.Context, j *Job) (*variant, *cache.Compiled, error) {
	in, err := m.shaped(j)
	if err != nil || in == nil {
		return nil, nil, err
	}
	w, err := m.wanted(in)
	if err != nil {
		return nil, nil, classify(err, ErrInput)
	}
	v, c, err := m.prepare(ctx, w)
	if err != nil {
		return nil, nil, m.ofShapes(ctx, in, err)
	}
	if j.Memory == 0 && c.Plan.Dynamic() {
		return nil, nil, fmt.Errorf("%w: job %s: the model has values whose size depends on data: "+
			"give the job's memory", ErrOption, j.Name)
	}
	return v, c, nil
}

// shaped returns tensors without data of the shapes of all inputs, nil where some are not known.
func (m *model) shaped(j *Job) (Inputs, error) {
	for name := range j.Shapes {
		if m.graph.Input(name) == nil {
			return nil, fmt.Errorf("job %s: shape: %w", j.Name, m.unknown(Inputs{name: nil}, nil))
		}
	}
	in := Inputs{}
	for _, v := range m.graph.Inputs {
		shape, given := j.Shapes[v.Name]
		switch {
		case given:
			if _, err := v.Type.Fit(shape); err != nil {
				return nil, fmt.Errorf("%w: job %s: shape of input %q: %w", ErrInput, j.Name,
					v.Name, err)
			}
		case v.Type.Static() && !v.Type.DType.IsContainer():
			shape = sizes(v.Type)
		case j.Memory == 0:
			return nil, fmt.Errorf("%w: job %s: what input %q (%v) needs is not known: give the "+
				"job's memory, or the input's shape", ErrOption, j.Name, v.Name, v.Type)
		default:
			return nil, nil
		}
		in[v.Name] = &Tensor{DType: v.Type.DType, Shape: shape}
	}
	return in, nil
}

// sizes are the dimensions of a type that are all known.
func sizes(t op.Type) []int {
	shape := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		shape[i], _ = d.Int()
	}
	return shape
}

// loaded loads the plan of a model that no Run uses, so that its first Run finds an arena.
func (m *model) loaded(ctx context.Context, v *variant, c *cache.Compiled) error {
	if t := m.tenancy.Load(); t.lends() {
		end, err := m.loading(ctx, t, c.Plan)
		if err != nil {
			return classify(err, ErrModel)
		}
		defer end()
	}
	if err := m.load(ctx, v, c, wanted{}); err != nil {
		return classify(err, ErrModel)
	}
	s, err := m.keep(v)
	if err != nil {
		m.spareBeside(nil)
		return classify(err, ErrModel)
	}
	Result{s, s.uses}.Close()
	return nil
}

// enter keeps the machine open until the model has left.
func (h *Host) enter(m *model) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("%w: the host of device %s", ErrClosed, h.id)
	}
	h.models[m] = nil
	return nil
}

// left is called once a model that entered holds nothing any more.
func (h *Host) left(m *model) {
	h.mu.Lock()
	delete(h.models, m)
	last := h.closed && h.empty()
	h.mu.Unlock()
	if last {
		_ = h.release() // nothing is held of the device, so it closes
	}
}

// empty reports whether nobody uses the machine. h.mu is held.
func (h *Host) empty() bool { return len(h.models) == 0 && h.guests == 0 }

// Close ends all jobs and closes their models. A Run under way ends with an error of kind
// [ErrClosed]; results that are open stay valid until they are closed, and the last of them, or
// of what runs beside models, closes the device. Closing twice is allowed.
func (h *Host) Close() error {
	h.mu.Lock()
	models := slices.Collect(maps.Keys(h.models))
	closed := h.closed
	h.closed = true
	h.mu.Unlock()
	if closed {
		return nil
	}
	h.broker.Close()
	hosts.Delete(h.id)
	var errs []error
	for _, m := range models {
		errs = append(errs, m.close())
	}
	h.mu.Lock()
	last := h.empty()
	h.mu.Unlock()
	if last {
		errs = append(errs, h.release())
	}
	return errors.Join(errs...)
}
