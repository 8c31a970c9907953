package weir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/plan/cache"
)

// Model is an ONNX model, ready to run. Close it; of one that is lost, the garbage collector frees
// the memory some time later, with a warning to slog.Default.
type Model struct {
	*model
	unclosed runtime.Cleanup
}

// model is what a Model is to those who must not keep it from being lost.
type model struct {
	source   *cache.Model // nil once it is closed
	parts    []Part       // that it is joined of, closed with it
	warnings []string
	metadata Metadata
	graph    *graph.Graph // inputs and outputs
	inputs   []ValueInfo
	outputs  []ValueInfo
	place
	tenancy atomic.Pointer[tenancy] // nil outside of a Host
	runs    int                     // WithMaxConcurrency
	limit   int
	passes  pass.Options

	turns      chan struct{} // as many as there are Runs that compute
	compiling  chan struct{} // one while shapes are compiled; taken before mu
	compiled   int           // sets of shapes compiled so far
	simplified *graph.Graph

	background sync.WaitGroup  // plans that are saved and shapes that are compiled without a Run
	closing    context.Context // done once Close was called
	shut       context.CancelFunc

	mu       sync.Mutex // also held to add to background
	variants []*variant // most recently used first
	lasting  *lasting   // the source, once others' weights come from it; nil: it is the model's
	closed   bool
	running  int

	searching chan struct{} // one while refuses is found out, which searched says is known
	searched  bool
	refuses   bool

	arenas atomic.Int64 // that there are
	lost   sync.Once    // the warning of a result that was not closed
	idle   idle
}

// place is where a model computes. It is changed before the first Run alone, by [Host.Admit], with
// compiling and all turns held.
type place struct {
	device  device.Device
	target  compute.Target
	pool    *cpu.Pool
	ownPool bool
}

// Open reads the model at path, which stays mapped until Close. Model files are replaced by
// renaming. One that is written in place gives no wrong results: opening it fails, and so does a
// Run that may have read what was written, with an error of kind [ErrModel]. Which that is the
// file's size and modification time tell, so it does not hold of writes through a mapping which
// another process dirtied before, of those who set the time back, and of those within one tick of
// the file system's clock after the write before. [WithCopy] makes Open independent of all that.
//
// The errors are of kind [ErrModel], [ErrUnsupported], [ErrMemory] or [ErrOption], or come from the
// file system.
//
// Cores that compute answer no timers and no network by themselves. So that the goroutines of the
// program which wait for these need not wait for 10 ms at a time, the first Open or Load of a
// program sets GOMAXPROCS to two more than the cores that it may use. It never lowers GOMAXPROCS,
// and leaves it alone if the environment variable of that name is set; a program that knows better
// calls runtime.GOMAXPROCS afterwards.
func Open(path string, opts ...Option) (*Model, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	src, err := c.cache.Read(path, c.reading())
	if err != nil {
		return nil, classify(err, ErrModel)
	}
	return open(src, c)
}

// Load reads a model from memory. The bytes must not change until Close. A model with external data
// needs [Open] or [OpenFS]. Nothing of the model is written anywhere. The errors are those of Open.
func Load(data []byte, opts ...Option) (*Model, error) {
	return inMemory(opts, func(o onnx.Options) (*onnx.Model, error) {
		return onnx.Decode(data, "", o)
	})
}

// OpenFS reads a model, with its external data, from a file system into memory: from embed.FS, an
// archive, or a folder whose files must not be left (os.Root.FS). External data must be in the
// model's folder or below it, not behind links. Nothing of the model is written anywhere. The
// errors are those of [Open] and of fsys.
func OpenFS(fsys fs.FS, name string, opts ...Option) (*Model, error) {
	if fsys == nil {
		return nil, fmt.Errorf("%w: OpenFS: the file system is nil", ErrOption)
	}
	return inMemory(opts, func(o onnx.Options) (*onnx.Model, error) {
		return onnx.OpenFS(fsys, name, o)
	})
}

// inMemory opens a model that is read into memory.
func inMemory(opts []Option, read func(onnx.Options) (*onnx.Model, error)) (*Model, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if c.copied {
		return nil, fmt.Errorf("%w: WithCopy: the model is in memory already", ErrOption)
	}
	src, err := read(c.reading())
	if err != nil {
		return nil, classify(err, ErrModel)
	}
	return open(cache.Wrap(src), c)
}

func open(src *cache.Model, c config) (*Model, error) {
	m := &model{
		source:   src,
		warnings: src.Warnings,
		metadata: src.Metadata,
		graph:    src.Graph,
		inputs:   describe(src.Graph.Inputs),
		outputs:  describe(src.Graph.Outputs),
		runs:     c.runs,
		limit:    cmp.Or(c.variants, 8),
		passes:   c.passes,
	}
	on, err := shared()
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	m.device, m.target, m.pool = on.Device, on.Target, on.Pool
	if len(c.kernels) > 0 {
		m.target = &ownTarget{on.Target, c.operators, c.kernels}
	}
	if c.threads > 0 {
		m.pool, m.ownPool = cpu.NewPool(cpu.PoolOptions{Threads: c.threads}), true
	}
	m.turns = make(chan struct{}, cmp.Or(c.runs, max(2, m.device.Info().Units)))
	m.closing, m.shut = context.WithCancel(context.Background())
	m.compiling, m.searching = make(chan struct{}, 1), make(chan struct{}, 1)
	handle := &Model{model: m}
	handle.unclosed = runtime.AddCleanup(handle, (*model).reclaim, m)
	return handle, nil
}

// shared is the device and pool of all models that are opened with the default number of threads.
var shared = sync.OnceValues(func() (*machine.Machine, error) {
	cpu.ReserveProcs(2)
	return machine.Open("cpu:0", machine.Options{})
})

// Warnings lists what weir may understand otherwise than the author of the model meant it: operator
// sets that are newer than those weir knows.
func (m *Model) Warnings() []string { return slices.Clone(m.warnings) }

// Metadata is what the model says of itself. The maps are the caller's.
func (m *Model) Metadata() Metadata { return m.metadata.Clone() }

// Inputs describes the model's inputs in order. The slice is the model's and must not be written.
func (m *Model) Inputs() []ValueInfo { return m.inputs }

// Outputs describes the model's outputs in order. The slice is the model's and must not be written.
func (m *Model) Outputs() []ValueInfo { return m.outputs }

// Run computes the outputs for the given inputs, which are copied before Run returns. The caller
// must close the result, which gives its memory to the next Run. The error is of kind [ErrInput]
// where other inputs would do, of kind [ErrModel], [ErrUnsupported], [ErrMemory], [ErrFault] or
// [ErrClosed], or it is that of ctx, with its cause. A Run whose context is done returns once the
// parts of a step that are under way have ended.
//
// Compiling for shapes that are new goes on without a Run whose context is done, one set of shapes
// at a time, until Close, which ends it and waits for that. So a model all of whose calls have
// short deadlines is compiled as well; under a share unless results that are open leave no room.
//
// An input must have the rank and the known sizes that the model declares; a scalar may be given as
// one element of any rank. Dimensions that the model gives one name may have different sizes, since
// exporters give the same name to unrelated dimensions. With such sizes Run returns what the
// model's operators compute from them; when an operator refuses them, the error is of kind
// [ErrInput] and lists the names and sizes.
func (m *Model) Run(ctx context.Context, in Inputs) (Result, error) {
	if ctx == nil {
		return Result{}, fmt.Errorf("%w: the context is nil: give context.Background()", ErrInput)
	}
	r, err := m.run(ctx, in)
	runtime.KeepAlive(m)
	if err != nil {
		return Result{}, withCause(ctx, err)
	}
	return r, nil
}

func (m *model) run(ctx context.Context, in Inputs) (Result, error) {
	if err := m.check(in); err != nil {
		return Result{}, err
	}
	o, _ := ctx.Value(observerKey{}).(RunObserver)
	if t := m.tenancy.Load(); t != nil {
		t.seat.Arrive()
		defer t.seat.Complete()
		if t.lends() {
			r, err := m.runLent(ctx, t, in, o)
			if !errors.Is(err, errTogether) {
				return r, err
			}
		}
	}
	s, err := m.begin(ctx, in)
	if err != nil {
		return Result{}, err
	}
	defer m.leave()
	r, whole := Result{slot: s, use: s.uses}, false
	defer func() { // also where an operator of the program's ends the goroutine
		if !whole {
			r.Close()
		}
	}()
	if err := m.placed(s, in, o); err != nil {
		return Result{}, err
	}
	if err := m.compute(ctx, s, o); err != nil {
		return Result{}, m.ofData(ctx, in, err) // which reads the model's file
	}
	reached(o, RunComputed)
	s.variant.save()
	whole = true
	return r, nil
}

// placed copies the inputs of a Run to its slot.
func (m *model) placed(s *slot, in Inputs, o RunObserver) error {
	reached(o, RunBegun)
	for i, t := range s.instance.Inputs() {
		if err := t.Set(in[m.graph.Inputs[i].Name]); err != nil {
			return fmt.Errorf("%w: input %q: %w", ErrInput, m.graph.Inputs[i].Name, err)
		}
	}
	reached(o, RunPlaced)
	return nil
}

// check compares names, types, ranks and known sizes with what the model declares.
func (m *model) check(in Inputs) error {
	for _, v := range m.graph.Inputs {
		if err := checkInput(v, in[v.Name]); err != nil {
			return m.unknown(in, err)
		}
	}
	if len(in) == len(m.graph.Inputs) {
		return nil
	}
	return m.unknown(in, nil)
}

func checkInput(v *graph.Value, t *Tensor) error {
	if t == nil {
		return fmt.Errorf("%w: input %q (%v) is not given", ErrInput, v.Name, v.Type)
	}
	if t.DType != v.Type.DType {
		return fmt.Errorf("%w: input %q is %v, the model takes %v", ErrInput, v.Name, t.DType,
			v.Type)
	}
	if _, err := v.Type.Fit(t.Shape); err != nil {
		return fmt.Errorf("%w: input %q: %w", ErrInput, v.Name, err)
	}
	if err := t.Check(); err != nil {
		return fmt.Errorf("%w: input %q: %w", ErrInput, v.Name, err)
	}
	if err := v.Type.Admits(t); err != nil {
		return fmt.Errorf("%w: input %q: %w", ErrInput, v.Name, err)
	}
	return nil
}

// unknown adds to what is wrong with the inputs, nil for nothing, those that the model does not
// have: one may be another's name misspelt.
func (m *model) unknown(in Inputs, err error) error {
	var names, takes []string
	for name := range in {
		if m.graph.Input(name) == nil {
			names = append(names, strconv.Quote(name))
		}
	}
	if len(names) == 0 {
		return err
	}
	slices.Sort(names)
	for _, v := range m.graph.Inputs {
		takes = append(takes, v.Name)
	}
	what := fmt.Sprintf("the model has no input %s; it takes %s", strings.Join(names, ", "),
		strings.Join(takes, ", "))
	if err != nil {
		return fmt.Errorf("%w; %s", err, what)
	}
	return fmt.Errorf("%w: %s", ErrInput, what)
}

// begin waits for the Run's turn, which [model.leave] ends, and takes a slot for the shapes of in.
// It compiles the model for them when they are new; Runs with shapes that are known already go on
// meanwhile.
func (m *model) begin(ctx context.Context, in Inputs) (*slot, error) {
	if s, err := m.admit(ctx, in); s != nil || err != nil {
		return s, err
	}
	if err := enter(ctx, m.compiling); err != nil {
		return nil, fmt.Errorf("waiting for other shapes to be compiled: %w", err)
	}
	s, err := m.admit(ctx, in) // another call may have compiled them
	if s == nil && err == nil {
		err = ctx.Err()
	}
	if s != nil || err != nil {
		<-m.compiling
		return s, err
	}
	return m.made(ctx, in)
}

// admit waits for a turn and takes a slot for the shapes of in; without either when no variant fits
// them.
func (m *model) admit(ctx context.Context, in Inputs) (*slot, error) {
	if err := m.turn(ctx); err != nil {
		return nil, err
	}
	s, err := m.taken(ctx, in)
	if s == nil {
		m.leave()
	}
	return s, classify(err, ErrModel)
}

// turn waits until one more Run may compute.
func (m *model) turn(ctx context.Context) error {
	t := m.tenancy.Load()
	if t != nil {
		t.waiting.Add(1)
	}
	err := enter(ctx, m.turns)
	if t != nil {
		t.waiting.Add(-1)
	}
	if err == nil {
		return nil
	}
	if t != nil {
		m.abandoned(t)
		return fmt.Errorf("waiting for the job's Runs before this one: %w", err)
	}
	return fmt.Errorf("waiting for one of %d Runs to end: %w", cap(m.turns), err)
}

// enter takes one of a bounded number of places. It allocates nothing.
func enter(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave lets another Run compute.
func (m *model) leave() {
	t := m.tenancy.Load()
	if t != nil {
		t.drop(false)
	}
	<-m.turns
	if t != nil {
		m.abandoned(t)
	}
}

// known takes a slot of the variant that fits, before another call can make that variant give way;
// nil when none fits.
func (m *model) known(in Inputs) (*slot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	for i, v := range m.variants {
		if !v.fits(m.graph.Inputs, in) {
			continue
		}
		copy(m.variants[1:i+1], m.variants[:i])
		m.variants[0] = v
		s, err := v.take()
		if err == nil {
			m.running++
		}
		return s, err
	}
	return nil, nil
}

// hold counts a call that uses the model's file, which stays mapped until [model.end].
func (m *model) hold() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.running++
	return nil
}

// holdToSave is hold for a plan that is being saved, which Close waits for.
func (m *model) holdToSave() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.running++
	m.background.Add(1)
	return nil
}

// keep adds a variant and takes its first slot. When there are more variants than the option
// allows, the one that has been unused for longest is retired.
func (m *model) keep(v *variant) (*slot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.variants) >= m.limit {
		m.variants[len(m.variants)-1].retire()
		m.variants = m.variants[:len(m.variants)-1]
	}
	m.variants = slices.Insert(m.variants, 0, v)
	return v.take()
}

// like returns a session whose packed weights serve the plan, too, nil when there is none.
func (m *model) like(p *plan.Plan) *engine.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.variants {
		if p.SamePacking(v.session.Plan()) {
			return v.session
		}
	}
	return m.anchored(p)
}

// plan finds the plan for the next shapes in the cache, or makes it. m.compiling is held.
func (m *model) plan(ctx context.Context, o plan.Options) (*cache.Compiled, error) {
	m.compiled++
	c := m.source.Find(ctx, o)
	if c.Plan != nil {
		return c, nil
	}
	src, err := m.source.Source()
	if err != nil {
		return nil, err
	}
	c.Plan, err = plan.Compile(ctx, m.toCompile(ctx, src.Graph), c.Options)
	return c, err
}

// toCompile returns the graph to compile the next plan from. For the first shapes that is the
// model's own graph; for later ones it is the graph after all simplification that does not depend
// on shapes, which is done once and kept. m.compiling is held.
func (m *model) toCompile(ctx context.Context, source *graph.Graph) *graph.Graph {
	if m.compiled > 1 && m.simplified == nil {
		// without it, every plan begins at the model
		m.simplified, _ = plan.Ahead(ctx, source)
	}
	if m.simplified == nil {
		return source
	}
	return m.simplified
}

// end is called when what counts in m.running has ended.
func (m *model) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	m.finish()
	if t := m.tenancy.Load(); t != nil {
		t.room.tell()
	}
}

// finish releases the model once it is closed and no result is open; m.mu is held.
func (m *model) finish() error {
	if !m.closed || m.running > 0 || m.source == nil {
		return nil
	}
	for _, v := range m.variants {
		v.retire()
	}
	m.variants = nil
	if m.ownPool {
		m.pool.Close()
	}
	m.idle.stop()
	if t := m.tenancy.Load(); t != nil {
		t.leave()
	}
	closed := m.source.Close
	if m.lasting != nil {
		closed = m.lasting.Close
	}
	m.source = nil
	return errors.Join(closed(), closeParts(m.parts))
}

// Close releases the model's memory and unmaps its file, once the last open [Result] is closed.
// Further Runs fail with [ErrClosed]; closing twice is allowed. Close waits for a plan that is
// being written to the cache, and for shapes that are being compiled while no Run waits for them,
// which it ends at the next step of that.
func (m *Model) Close() error {
	m.unclosed.Stop()
	return m.close()
}

func (m *model) close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.shut()
	m.background.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.finish()
}
