package weir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/pass"
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
	warnings []string
	graph    *graph.Graph // inputs and outputs
	inputs   []ValueInfo
	outputs  []ValueInfo
	device   device.Device
	target   compute.Target
	pool     *cpu.Pool
	ownPool  bool
	limit    int
	passes   pass.Options

	turns      chan struct{} // as many as there are Runs that compute
	compiling  chan struct{} // one while shapes are compiled; taken before mu
	compiled   int           // sets of shapes compiled so far
	simplified *graph.Graph

	saving   sync.WaitGroup
	mu       sync.Mutex // also held to add to saving
	variants []*variant // most recently used first
	closed   bool
	running  int

	searching chan struct{} // one while refuses is found out, which searched says is known
	searched  bool
	refuses   bool

	arenas atomic.Int64 // that there are
	lost   sync.Once    // the warning of a result that was not closed
	idle   idle
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
	read := c.cache.Model
	if c.copied {
		read = c.cache.CopiedModel
	}
	src, err := read(path)
	if err != nil {
		return nil, classify(err, ErrModel)
	}
	return open(src, c)
}

// Load reads a model from memory. The bytes must not change until Close. A model with external data
// needs [Open]. Nothing of the model is written anywhere. The errors are those of Open.
func Load(data []byte, opts ...Option) (*Model, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if c.copied {
		return nil, fmt.Errorf("%w: WithCopy: the model is in memory already", ErrOption)
	}
	src, err := onnx.Decode(data, "", onnx.Options{})
	if err != nil {
		return nil, classify(err, ErrModel)
	}
	return open(cache.Wrap(src), c)
}

func open(src *cache.Model, c config) (*Model, error) {
	m := &model{
		source:   src,
		warnings: src.Warnings,
		graph:    src.Graph,
		inputs:   describe(src.Graph.Inputs),
		outputs:  describe(src.Graph.Outputs),
		limit:    cmp.Or(c.variants, 8),
		passes:   c.passes,
	}
	on, err := shared()
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	m.device, m.target, m.pool = on.Device, on.Target, on.Pool
	if c.threads > 0 {
		m.pool, m.ownPool = cpu.NewPool(cpu.PoolOptions{Threads: c.threads}), true
	}
	m.turns = make(chan struct{}, cmp.Or(c.runs, max(2, m.device.Info().Units)))
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
// Compiling for shapes that are new ends with the context, too, and the next Run begins it anew. So
// a program whose calls have deadlines runs the model once without one before it serves.
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
	s, err := m.begin(ctx, in)
	if err != nil {
		return Result{}, err
	}
	defer m.leave()
	r := Result{slot: s, use: s.uses}
	for i, t := range s.instance.Inputs() {
		if err := t.Set(in[m.graph.Inputs[i].Name]); err != nil {
			r.Close()
			return Result{}, fmt.Errorf("%w: input %q: %w", ErrInput, m.graph.Inputs[i].Name, err)
		}
	}
	if err := s.run(ctx); err != nil {
		err = m.ofData(ctx, in, err) // which reads the model's file
		r.Close()
		return Result{}, err
	}
	s.variant.save()
	return r, nil
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
	// kept until it is this Run's turn, so that at most one has a slot and waits
	if err := enter(ctx, m.compiling); err != nil {
		return nil, fmt.Errorf("waiting for other shapes to be compiled: %w", err)
	}
	defer func() { <-m.compiling }()
	if s, err := m.admit(ctx, in); s != nil || err != nil { // another call may have compiled them
		return s, err
	}
	s, err := m.made(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := m.turn(ctx); err != nil {
		Result{s, s.uses}.Close()
		return nil, err
	}
	return s, nil
}

// admit waits for a turn and takes a slot for the shapes of in; without either when no variant fits
// them.
func (m *model) admit(ctx context.Context, in Inputs) (*slot, error) {
	if err := m.turn(ctx); err != nil {
		return nil, err
	}
	s, err := m.known(in)
	if s == nil {
		m.leave()
	}
	return s, classify(err, ErrModel)
}

// turn waits until one more Run may compute.
func (m *model) turn(ctx context.Context) error {
	if err := enter(ctx, m.turns); err != nil {
		return fmt.Errorf("waiting for one of %d Runs to end: %w", cap(m.turns), err)
	}
	return nil
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
func (m *model) leave() { <-m.turns }

// made takes a slot for the shapes of in, for which it compiles the model; m.compiling is held.
func (m *model) made(ctx context.Context, in Inputs) (*slot, error) {
	if err := m.hold(); err != nil {
		return nil, err
	}
	v, err := m.compile(ctx, in)
	if err != nil {
		err = m.ofShapes(ctx, in, err) // which reads the model's file
		m.end()
		return nil, err
	}
	s, err := m.keep(v)
	if err != nil {
		m.end()
	}
	return s, classify(err, ErrModel)
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
	m.saving.Add(1)
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
	return nil
}

// compile makes the plan for the shapes of in; m.compiling is held, so one shape is compiled once.
func (m *model) compile(ctx context.Context, in Inputs) (*variant, error) {
	shapes := map[string][]int{}
	v := &variant{model: m}
	for _, x := range m.graph.Inputs {
		shape, err := x.Type.Fit(in[x.Name].Shape)
		if err != nil {
			return nil, err
		}
		shapes[x.Name] = slices.Clone(shape)
		v.shapes = append(v.shapes, shapes[x.Name])
	}
	c, err := m.plan(ctx, plan.Options{Target: m.target, Shapes: shapes,
		Threads: m.pool.Threads(), Passes: m.passes})
	if err != nil {
		return nil, err
	}
	like := m.like(c.Plan)
	if err := m.fits(c.Plan, like, in); err != nil {
		return nil, err
	}
	m.source.Evict(nil)
	v.session, err = engine.Load(c.Plan, engine.Options{
		Device:   m.device,
		Pool:     m.pool,
		PackPool: m.pool,
		Context:  ctx,
		Packed:   m.source.Evict,
		Weights:  c.Weights,
		Like:     like,
	})
	if err != nil {
		return nil, err
	}
	v.reads = m.source.Maps(c.Plan)
	if err := m.source.Unchanged(); err != nil {
		v.session.Close()
		return nil, err
	}
	if m.compiled == 1 && c.Fresh() {
		v.fresh = c
	}
	return v, nil
}

// fits refuses a plan that needs more than the device has beside the inputs, which the caller holds
// in the same memory; weights that it shares with the session like, unless that is nil, are there
// already. What the device grants is not there until it is written, and a process that then writes
// too much is ended by the system.
func (m *model) fits(p *plan.Plan, like *engine.Session, in Inputs) error {
	var given int64
	for _, t := range in {
		given += t.Size()
	}
	need, has, held := p.PeakBytes(1), m.device.Info().MemoryBytes, m.device.Held()
	if like != nil {
		need -= p.PackedBytes
	}
	if has == 0 || need >= 0 && need <= has-held-given {
		return nil
	}
	return fmt.Errorf("graph %q: %w: these shapes need %d bytes beside inputs of %d, %s has %d, "+
		"%d of them in use: lower the sizes of the inputs", p.Graph.Name, ErrMemory, need, given,
		m.device.Info().ID, has, held)
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
		m.simplified, _ = plan.Simplify(ctx, source)
	}
	if m.simplified == nil {
		return source
	}
	return m.simplified
}

func (m *model) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	m.finish()
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
	src := m.source
	m.source = nil
	return src.Close()
}

// Close releases the model's memory and unmaps its file, once the last open [Result] is closed.
// Further Runs fail with [ErrClosed]; closing twice is allowed.
func (m *Model) Close() error {
	m.unclosed.Stop()
	return m.close()
}

func (m *model) close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.saving.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.finish()
}
