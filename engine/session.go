package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

var (
	// ErrFault is the kind of error about an iteration that panicked; the process and its other
	// jobs go on.
	ErrFault = errors.New("iteration faulted")
	// ErrClosed is the kind of error about a session that was closed.
	ErrClosed = errors.New("session closed")
	// ErrBusy is the kind of error about a session whose every instance is in use.
	ErrBusy = errors.New("all instances in use")
)

// Unlimited grants everything: the quota of a program that has the machine to itself.
var Unlimited device.Quota = unlimited{}

type unlimited struct{}

func (unlimited) Reserve(int64) error { return nil }
func (unlimited) Release(int64)       {}

// Options say where and under which limits a plan is loaded.
type Options struct {
	Device device.Device
	Pool   compute.Pool
	// Quota grants the memory of the packed weights, which stay. ArenaQuota grants the memory of
	// the arenas, one for each instance, and, while an iteration runs, of the values whose shape
	// depends on data. A nil Quota stands for Unlimited, a nil ArenaQuota for Quota. A Quota that
	// is a [device.Meter], too, is asked before what the device holds of the weights is written,
	// each time, and such an ArenaQuota before an iteration of its inputs and outputs where those
	// are copied.
	Quota, ArenaQuota device.Quota
	// HostQuota grants memory of the host when the session's device has memory that the host cannot
	// address: the plan's HostBytes for each instance, the plan's StagingBytes while weights are
	// packed, and, in place of ArenaQuota, the values whose shape depends on data. nil stands for
	// Quota, which then bounds what the session holds on the device and on the host together.
	HostQuota device.Quota
	// MaxInstances bounds the arenas that exist at a time; 0 means no bound but the quota.
	MaxInstances int
	// PackPool, when set, shares the packing of weights among its workers. No gate holds these
	// workers back, so it is for callers that may use all of its threads now. When nil, the calling
	// goroutine packs alone.
	PackPool compute.Pool
	// Context, when set, ends the packing of weights when it is done: Load then fails with its
	// error.
	Context context.Context
	// Progress, when set, is called while weights are packed.
	Progress func(done, total int)
	// Weights, when set, are the plan's packed weights, made earlier (plan.Plan.Pack) and kept, for
	// example in a mapped file; they are not made again. They may be read-only, must be aligned to
	// device.Alignment, and must outlive the session. Quota is asked for their bytes all the same.
	Weights []byte
	// Discard, when set beside Weights, lets their bytes from one offset to before another leave
	// the host's memory until they are read again, the same as before: they are of a mapped file.
	// Evict calls it where the device computes on Weights where they are.
	Discard func(from, to int64)
	// Unchanged, when set, fails when the model's constants are no longer what they were: they are
	// of mapped files, which somebody can write in place. It is asked each time after weights that
	// were away have been packed again, and its error is that of the transfer.
	Unchanged func() error
	// Like, when set, is a session whose packed weights this one shares under two conditions: both
	// sessions have the same Device and the same Quota, which has granted the weights
	// ([Session.Requota] may have made it that) and is not asked again, and both plans pack the
	// same (plan.Plan.SamePacking), as plans of one model for different shapes often do. Otherwise
	// this session has weights of its own, so that a job holds what its own quota granted,
	// whichever job ends first. Like may be closed while this session is loaded, or later.
	Like *Session
	// OneModel says that the plan and that of Like were made of one model. Then the second of these
	// conditions is that both lay the weights out alike (plan.Plan.Fingerprint): the constants
	// themselves, which were read twice, are not compared.
	OneModel bool
	// State is what the plan was compiled with (plan.Options.State), in memory; nil where it was
	// compiled with none.
	State *State
	// Packed, when set, is called with each constant as soon as its packed copy is written, by
	// workers at the same time: whoever holds its bytes may let go of what can be had again, such
	// as pages of a mapped file (onnx.Model.Evict).
	Packed func(c *tensor.Tensor)
}

// Session is a plan loaded for a job.
type Session struct {
	plan   *plan.Plan
	opts   Options
	packed *weights
	least  atomic.Int64 // nanoseconds of the shortest iteration whose weights were there; 0: none
	meter  device.Meter // of inputs and outputs; nil: nobody counts them
	copies int64        // bytes of inputs and outputs that an iteration moves

	mu     sync.Mutex
	ended  sync.Cond // calls became 0, or packed was given up
	free   []*Instance
	made   int   // instances, those being made included
	arenas int64 // bytes of arenas on the device
	hosted int64 // bytes of the host beside them
	calls  int   // under way that need packed, and have no instance; Close waits for them
	lent   int   // others, of WithWeights, within which a session may be closed
	closed bool
	left   bool // gives up packed, or has
}

// Load reserves and allocates the plan's packed weights and packs them. The caller owns the session
// and must Close it.
func Load(p *plan.Plan, o Options) (*Session, error) {
	if o.Quota == nil {
		o.Quota = Unlimited
	}
	if o.ArenaQuota == nil {
		o.ArenaQuota = o.Quota
	}
	if o.HostQuota == nil {
		o.HostQuota = o.Quota
	}
	s := &Session{plan: p, opts: o}
	s.ended.L = &s.mu
	s.opts.Like = nil
	s.meter = meterOf(o.ArenaQuota)
	if p.Remote() {
		s.copies = p.Copies()
	}
	if l := o.Like; l != nil && same(l.opts.Device, o.Device) &&
		(p.SamePacking(l.plan) || o.OneModel && p.Fingerprint() == l.plan.Fingerprint()) {
		if s.packed = l.share(s); s.packed != nil {
			return s, nil
		}
	}
	buffer, err := s.weights()
	if err != nil {
		return nil, err
	}
	s.packed = newWeights(buffer, s)
	return s, nil
}

// same reports whether two devices are one, or two quotas of one job; those that cannot be compared
// are not.
func same(a, b any) bool { return reflect.ValueOf(a).Comparable() && a == b }

// weights returns the plan's packed weights: those given, or new ones.
func (s *Session) weights() (device.Buffer, error) {
	o := &s.opts
	if o.Weights != nil {
		return s.given(o.Weights)
	}
	buffer, err := s.room()
	if err != nil {
		return nil, err
	}
	pack := plan.PackOptions{Context: o.Context, Pool: o.PackPool, Progress: o.Progress,
		Packed: o.Packed}
	pages, populates := buffer.(device.Populator)
	if populates {
		pack.Populate = pages.Populate
		defer pages.Enlarge(false)
	}
	if err := s.packInto(buffer, pack); err != nil {
		release(o.Quota, buffer)
		return nil, err
	}
	return buffer, nil
}

// packInto packs weights into a buffer, by way of the heap where the host cannot address it.
func (s *Session) packInto(b device.Buffer, o plan.PackOptions) error {
	if hostVisible(b) {
		return s.plan.Pack(device.HostView(b), o)
	}
	return s.staged(s.plan.StagingBytes(), func(mem []byte) error {
		return s.plan.PackTo(b.CopyIn, mem, o)
	})
}

// staged lends memory of the host for what goes to the device or comes from it.
func (s *Session) staged(bytes int64, use func(mem []byte) error) error {
	if err := s.opts.HostQuota.Reserve(bytes); err != nil {
		return fmt.Errorf("graph %q: packed weights on their way: %w", s.plan.Graph.Name, err)
	}
	defer s.opts.HostQuota.Release(bytes)
	t, err := tensor.New(tensor.Uint8, int(bytes))
	if err != nil {
		return err
	}
	return use(t.Data)
}

// room returns memory of the device for all weights, which may then be written.
func (s *Session) room() (device.Buffer, error) {
	p, o := s.plan, &s.opts
	buffer, err := s.alloc(o.Quota, p.PackedBytes)
	if err == nil {
		ctx := o.Context
		if ctx == nil {
			ctx = context.Background()
		}
		if err = moves(ctx, meterOf(o.Quota), p.PackedBytes); err != nil {
			release(o.Quota, buffer)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("graph %q: packed weights: %w", p.Graph.Name, err)
	}
	return buffer, nil
}

// hostVisible reports whether the host can address a buffer.
func hostVisible(b device.Buffer) bool {
	_, ok := b.(device.HostVisible)
	return ok
}

// given makes a buffer of the device from weights that were packed earlier: in place, or as a copy
// when the device cannot compute on them where they are.
func (s *Session) given(mem []byte) (device.Buffer, error) {
	p, o := s.plan, &s.opts
	if int64(len(mem)) != p.PackedBytes {
		return nil, fmt.Errorf(
			"graph %q: given %d bytes of packed weights, the plan has %d: pack them for this plan",
			p.Graph.Name, len(mem), p.PackedBytes)
	}
	w, inPlace := o.Device.(device.Wrapper)
	if !inPlace {
		buffer, err := s.room()
		if err != nil {
			return nil, err
		}
		if err := s.copyGiven(buffer, 0, p.PackedBytes); err != nil {
			release(o.Quota, buffer)
			return nil, fmt.Errorf("graph %q: packed weights: %w", p.Graph.Name, err)
		}
		return buffer, nil
	}
	if err := o.Quota.Reserve(p.PackedBytes); err != nil {
		return nil, fmt.Errorf("graph %q: packed weights: %w", p.Graph.Name, err)
	}
	buffer, err := w.Wrap(mem)
	if err != nil {
		o.Quota.Release(p.PackedBytes)
		return nil, fmt.Errorf("graph %q: packed weights: %w", p.Graph.Name, err)
	}
	return buffer, nil
}

// WithWeights calls use with the packed weights and returns its error. use must not write the
// weights nor keep them. The error is of kind [ErrClosed] once the weights have been freed. Where
// the host cannot address them, use gets a copy, whose memory HostQuota grants. Weights that are
// away are recalled, as by an iteration; ctx ends the wait for them.
func (s *Session) WithWeights(ctx context.Context, use func(weights []byte) error) error {
	w := s.read(&s.lent)
	if w == nil {
		return fmt.Errorf("graph %q: packed weights: %w", s.plan.Graph.Name, ErrClosed)
	}
	defer s.endRead(&s.lent)
	here, err := w.hold(ctx)
	if err != nil {
		return err
	}
	defer w.release()
	if !here {
		a := newWaiter()
		a.weights = w
		x := compute.Exec{Ctx: ctx, Gate: device.Open, Pool: s.opts.PackPool}
		if _, err := a.Await(&x, w.Len()); err != nil {
			return fmt.Errorf("graph %q: %w", s.plan.Graph.Name, err)
		}
	}
	if hostVisible(w.Buffer) {
		return use(device.HostView(w.Buffer))
	}
	return s.staged(w.Len(), func(mem []byte) error {
		if err := w.CopyOut(mem, 0); err != nil {
			return err
		}
		return use(mem)
	})
}

func (s *Session) alloc(q device.Quota, n int64) (device.Buffer, error) {
	if err := q.Reserve(n); err != nil {
		return nil, err
	}
	b, err := s.opts.Device.Alloc(n)
	if err != nil {
		q.Release(n)
		return nil, err
	}
	return b, nil
}

func release(q device.Quota, b device.Buffer) {
	n := b.Len()
	b.Free()
	q.Release(n)
}

// Plan returns the plan that the session runs.
func (s *Session) Plan() *plan.Plan { return s.plan }

// HostHeld returns the bytes of the host that the session holds now because the host cannot address
// its device's memory: the plan's HostBytes for each arena.
func (s *Session) HostHeld() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hosted
}

// Held returns the device bytes that the session holds now: packed weights and arenas, less what
// was given back of them ([Session.Evict], [Session.Shrink]). Weights that sessions share
// ([Options.Like]) count once, for the session that has had them for longest, so that the sum over
// sessions is what is on the device. A closed session still holds what instances that were not put
// back, and calls that have not returned, use.
func (s *Session) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.packed == nil {
		return s.arenas
	}
	return s.packed.held(s) + s.arenas
}

// Take returns an instance that nobody else uses, making one if need be. Give it back with
// [Instance.Put]. It fails with [ErrBusy] at MaxInstances, with [ErrClosed], or with the quota's or
// the device's error. A free instance costs no allocation. What [Session.Shrink] has given back of
// it is taken again.
func (s *Session) Take() (*Instance, error) {
	i, err := s.claim()
	if err != nil {
		return nil, err
	}
	if i != nil {
		if err := i.Regrow(); err != nil {
			i.Put()
			return nil, fmt.Errorf("graph %q: arena: %w", s.plan.Graph.Name, err)
		}
		return i, nil
	}
	// s.mu is free while the quota is asked, which may take its time
	if i, err = s.newInstance(); err != nil {
		s.unmake()
		return nil, fmt.Errorf("graph %q: arena: %w", s.plan.Graph.Name, err)
	}
	return i, nil
}

// claim returns a free instance, or nil when one is to be made, which it has counted.
func (s *Session) claim() (*Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, fmt.Errorf("graph %q: %w", s.plan.Graph.Name, ErrClosed)
	case len(s.free) > 0:
		i := s.free[len(s.free)-1]
		s.free = s.free[:len(s.free)-1]
		return i, nil
	case s.opts.MaxInstances > 0 && s.made >= s.opts.MaxInstances:
		return nil, fmt.Errorf("graph %q: %w: %d of %d", s.plan.Graph.Name, ErrBusy, s.made,
			s.opts.MaxInstances)
	}
	s.made++
	return nil, nil
}

// unmake takes back what claim has counted.
func (s *Session) unmake() {
	s.mu.Lock()
	defer s.finish()
	defer s.mu.Unlock()
	s.made--
}

func (s *Session) newInstance() (*Instance, error) {
	arena, err := s.newArena()
	if err != nil {
		return nil, err
	}
	// the first page tells of what pages the rest should be, which the first run takes
	if pages, ok := arena.(device.Populator); ok {
		pages.Populate(0, min(1, arena.Len()))
	}
	prog, err := s.bind(arena)
	if err != nil {
		s.releaseArena(arena, 0)
		return nil, err
	}
	queue, err := compute.NewQueue(s.opts.Device)
	if err != nil {
		s.releaseArena(arena, 0)
		return nil, fmt.Errorf("queue: %w", err)
	}
	return &Instance{
		session: s,
		arena:   arena,
		program: prog,
		exec:    compute.Exec{Pool: s.opts.Pool, Queue: queue, Memory: s.heap()},
		weights: newWaiter(),
	}, nil
}

// newArena takes the memory of an instance, on the device and beside it.
func (s *Session) newArena() (device.Buffer, error) {
	arena, err := s.alloc(s.opts.ArenaQuota, s.plan.ArenaBytes)
	if err != nil {
		return nil, err
	}
	if s.plan.Remote() {
		if err := s.opts.HostQuota.Reserve(s.plan.HostBytes); err != nil {
			release(s.opts.ArenaQuota, arena)
			return nil, fmt.Errorf("copies on the host: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countArena(1)
	return arena, nil
}

// countArena notes that so many arenas came; s.mu is held.
func (s *Session) countArena(n int64) {
	s.arenas += n * s.plan.ArenaBytes
	if s.plan.Remote() {
		s.hosted += n * s.plan.HostBytes
	}
}

// heap is where an instance asks for the memory of values whose shape depends on data.
func (s *Session) heap() device.Quota {
	if s.plan.Remote() {
		return s.opts.HostQuota
	}
	return &heap{quota: s.opts.ArenaQuota, device: s.opts.Device.Info()}
}

// bind ties the plan to the memory of the device.
func (s *Session) bind(arena device.Buffer) (*plan.Program, error) {
	if state := s.opts.State; state != nil {
		if state.plan != s.plan.State {
			return nil, fmt.Errorf("%w: the session has the state of another plan", plan.ErrState)
		}
		return s.plan.BindState(device.HostView(arena), device.HostView(s.packed.Buffer),
			state.mem)
	}
	if !s.plan.Remote() {
		return s.plan.Bind(device.HostView(arena), device.HostView(s.packed.Buffer))
	}
	if err := s.plan.Preset(arena.CopyIn); err != nil {
		return nil, err
	}
	return s.plan.BindRemote(compute.BlockOf(arena), compute.BlockOf(s.packed.Buffer))
}

// releaseArena gives back an arena, of which gone bytes were given back before, and what goes with
// it on the host.
func (s *Session) releaseArena(arena device.Buffer, gone int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeArena(arena, gone)
}

// freeArena is releaseArena with s.mu held.
func (s *Session) freeArena(arena device.Buffer, gone int64) {
	arena.Free()
	s.opts.ArenaQuota.Release(s.plan.ArenaBytes - gone)
	if s.plan.Remote() {
		s.opts.HostQuota.Release(s.plan.HostBytes)
	}
	s.countArena(-1)
	s.arenas += gone
}

// Close frees the packed weights and every free instance; instances in use are freed when they are
// put back, and the weights with the last of them. Calls under way that read the weights, as Evict
// does, are waited for: a job that ends after Close holds nothing then that others were promised.
// Closing twice is allowed, and does not wait.
func (s *Session) Close() {
	if !s.shut() {
		return
	}
	s.finish()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.left && s.packed != nil { // the last call gives them up
		s.ended.Wait()
	}
}

// shut frees the free instances, and returns once no call is under way for which Close waits. It
// reports whether it is the first to do so.
func (s *Session) shut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed = true
	for _, i := range s.free {
		s.drop(i)
	}
	s.free = nil
	for s.calls > 0 {
		s.ended.Wait()
	}
	return true
}

// drop frees an instance's arena; s.mu is held.
func (s *Session) drop(i *Instance) {
	i.exec.Queue.Close()
	s.freeArena(i.arena, i.gone)
	s.made--
}

// finish gives up the weights of a closed session once no instance and no call reads them. s.mu is
// free, so that what asks the session something is answered while a transfer under way ends.
func (s *Session) finish() {
	s.mu.Lock()
	last := s.closed && s.made == 0 && s.calls == 0 && s.lent == 0 && !s.left
	s.left = s.left || last
	s.mu.Unlock()
	if !last {
		return
	}
	s.packed.leave(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packed = nil
	s.ended.Broadcast()
}

// Instance is one arena of a session, with the plan bound to it.
type Instance struct {
	session *Session
	arena   device.Buffer
	program *plan.Program
	exec    compute.Exec
	weights waiter // for those on their way
	ran     bool
	gone    int64 // last bytes of the arena that Shrink has given back
}

// Inputs returns the values to fill before Run with [tensor.Tensor.Set], one an input of the graph.
// They live in the arena, or on the heap when they are no tensors or the host cannot address the
// arena: contents are lost by Run.
func (i *Instance) Inputs() []*tensor.Tensor { return i.program.Inputs }

// Outputs returns the results of the last Run, one an output of the graph; valid until the next Run
// or Put.
func (i *Instance) Outputs() []*tensor.Tensor { return i.program.Outputs }

// Plan returns the plan that the instance runs.
func (i *Instance) Plan() *plan.Plan { return i.session.plan }

// Run computes one iteration under the gate. The caller holds a lease when it calls, or the gate
// gives one at the first check. The error is ctx's, the gate's, the model's, or of kind [ErrFault];
// after an error the instance can run again, and a gate that is a [device.Leaver] may hold no
// lease. Weights that are away are recalled ([Session.Recall]), and steps run as soon as theirs are
// there; ctx ends the wait for them. While it waits, for longer than it takes to let others have
// the device, such a gate's lease is given back.
func (i *Instance) Run(ctx context.Context, g device.Gate) (err error) {
	i.exec.Ctx, i.exec.Gate, i.exec.Dynamic = ctx, g, 0
	if err := let(&i.exec, i.session.meter, i.session.copies); err != nil {
		return err
	}
	here, err := i.hold(ctx)
	if err != nil {
		return err
	}
	defer i.session.packed.release()
	begin := time.Now()
	defer func() {
		if here && err == nil {
			i.session.ran(time.Since(begin))
		}
	}()
	defer i.end(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // steps read mapped files
	return i.program.Run(&i.exec)
}

// Watch has the next Run tell w of its steps, one after another; nobody where w is nil.
func (i *Instance) Watch(w compute.Watcher) { i.exec.Watcher = w }

// Follow has runs, until it is called again, call f after each step of the plan with its number, on
// the goroutine that runs it; nobody where f is nil.
func (i *Instance) Follow(f func(step int)) { i.program.Follow(f) }

// hold has the weights stay, and come, for an iteration, and says whether all are there.
func (i *Instance) hold(ctx context.Context) (here bool, err error) {
	if here, err = i.session.packed.hold(ctx); here || err != nil {
		i.program.Await(nil)
		return here, err
	}
	i.weights.weights = i.session.packed
	i.program.Await(&i.weights)
	return false, nil
}

// end is deferred by what runs steps: it turns panics into errors and settles.
func (i *Instance) end(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("graph %q: %w: %w", i.session.plan.Graph.Name, ErrFault, fault.Error(r))
	}
	// nothing of the iteration is on the device when its lease is somebody else's
	if late := i.exec.Queue.Wait(); *err == nil {
		*err = late
	}
	if !errors.Is(*err, ErrFault) && errors.Is(*err, compute.ErrPanic) {
		*err = fmt.Errorf("%w: %w", ErrFault, *err)
	}
	i.settle()
}

// settle gives back what an iteration reserved, and forgets what it was run with.
func (i *Instance) settle() {
	if i.exec.Dynamic > 0 {
		i.exec.Memory.Release(i.exec.Dynamic)
	}
	i.exec.Ctx, i.exec.Gate, i.exec.Dynamic, i.exec.Watcher = nil, nil, 0, nil
	i.weights.weights = nil
	if !i.ran {
		i.ran = true
		if pages, ok := i.arena.(device.Populator); ok { // the run has taken those that it needs
			pages.Enlarge(false)
		}
	}
}

// Profile runs one iteration step by step. After each step it calls visit with the step and its
// cost; the steps of the branch that an If takes come before the If itself. Errors are those of
// Run.
func (i *Instance) Profile(ctx context.Context, visit func(s *plan.Step, c plan.Cost)) (err error) {
	if _, err := i.hold(ctx); err != nil {
		return err
	}
	defer i.session.packed.release()
	defer i.end(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	i.exec.Ctx, i.exec.Gate, i.exec.Dynamic = ctx, device.Open, 0
	return i.program.Profile(&i.exec, visit)
}

// Settle asks the system for huge pages where the session's memory is on small pages, which were
// there sooner. It may take seconds; afterwards runs that are bound by memory are as fast as they
// will ever be. Call it before measuring such runs, or where the session will serve for long and
// has the time now. No run may be under way.
func (i *Instance) Settle() {
	for _, b := range []device.Buffer{i.session.packed.Buffer, i.arena} {
		if pages, ok := b.(device.Populator); ok {
			pages.Enlarge(true)
		}
	}
}

// Put gives the instance back to its session; it must not be used afterwards.
func (i *Instance) Put() { i.leave(true) }

// Free is [Instance.Put] that also gives back the instance's memory, which a session otherwise
// keeps for whoever takes an instance next.
func (i *Instance) Free() { i.leave(false) }

func (i *Instance) leave(keep bool) {
	s := i.session
	s.mu.Lock()
	keep = keep && !s.closed
	if keep {
		s.free = append(s.free, i)
	} else {
		s.drop(i)
	}
	s.mu.Unlock()
	if !keep {
		s.finish()
	}
}
