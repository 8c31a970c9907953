package weir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

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
	"github.com/weirgpu/weir/tensor"
)

var (
	// ErrInput is the kind of error about inputs that the model does not take.
	ErrInput = errors.New("wrong model input")
	// ErrOption is the kind of error about an option that a model cannot be opened with.
	ErrOption = errors.New("wrong option")
	// ErrClosed is the kind of error about a model that was closed.
	ErrClosed = errors.New("model closed")
)

// Tensor is a value of a model: a dense row-major array or, since ONNX has values that are not
// arrays, a sequence or optional ([NewSequence], [NewOptional], [Items]) or a map ([NewMap],
// [Map]). See package tensor for its fields.
type Tensor = tensor.Tensor

// Inputs are the values of one run by input name.
type Inputs map[string]*Tensor

// NewTensor wraps data, without a copy, as a tensor. It panics when the shape does not have
// len(data) elements.
func NewTensor[T tensor.Elem](data []T, shape ...int) *Tensor { return tensor.From(data, shape...) }

// Data returns the elements of t without a copy: valid as long as t is. It fails with an error of
// kind [ErrInput] when t is nil or holds another type.
func Data[T tensor.Elem](t *Tensor) ([]T, error) {
	if t == nil {
		return nil, fmt.Errorf("%w: no such tensor", ErrInput)
	}
	if d := tensor.DTypeOf[T](); d != t.DType {
		return nil, fmt.Errorf("%w: the tensor holds %v, not %v", ErrInput, t.DType, d)
	}
	return tensor.As[T](t), nil
}

// Option configures Open.
type Option func(*config)

type config struct {
	threads  int
	variants int
	passes   pass.Options
	cache    *cache.Cache
	err      error // what an option refuses
}

// Precision names the arithmetic of matrix products and convolutions; the empty name stands for
// [FP32].
type Precision = pass.Precision

// The precisions of WithPrecision.
const (
	FP32 = pass.FP32 // single precision; the default
	// BF16 rounds the operands of products to bfloat16 where that makes them faster; sums stay in
	// single precision. Results agree with those of FP32 to two or three digits.
	BF16 = pass.BF16
	// Auto is BF16 without the last products before an output.
	Auto = pass.Auto
)

// WithPrecision sets the arithmetic of products. On a processor that does not multiply bfloat16 in
// hardware it is FP32. A name that is neither empty nor one of the constants makes opening fail
// with [ErrOption].
func WithPrecision(p Precision) Option {
	return func(c *config) {
		if err := p.Validate(); err != nil {
			c.err = fmt.Errorf("%w: %w", ErrOption, err)
			return
		}
		c.passes.Precision = p
	}
}

// WithThreads sets how many cores a Run may use at a time. The default is every core that this
// process may use, shared by all models that are opened with the default.
func WithThreads(n int) Option { return func(c *config) { c.threads = n } }

// WithMaxShapes sets how many compiled plans are kept, one for each set of input shapes. When
// another set of shapes would exceed that number, the plan that has been unused for longest is
// dropped. The default is 8; n below 1 counts as 1.
func WithMaxShapes(n int) Option { return func(c *config) { c.variants = max(1, n) } }

// WithCache keeps in the folder dir the compiled plan of a model that [Open] reads; "" stands for
// weir/plans in the user's cache folder. If the first input shapes of the next start are the same,
// that start does not read, optimise or pack the model again. Package plan/cache says when a plan
// is found again and how the size of the folder is bounded. Only the plan for the first input
// shapes is written. Writing begins once the first Run has its result, goes on beside other Runs,
// and takes about as long as reading and writing the model's bytes; Close waits for it. Plans for
// further shapes are looked for in the cache but not written to it, and they do not share packed
// weights with a plan that was found. A folder that cannot be used is no error: the model runs as
// it does without a cache. The same holds, with a warning to slog.Default, when another user could
// have written the folder or a file in it, and when a file is damaged.
func WithCache(dir string) Option {
	return func(c *config) { c.cache, _ = cache.Open(cache.Options{Dir: dir, Log: slog.Default()}) }
}

// Model is an ONNX model, ready to run.
type Model struct {
	source  *cache.Model
	graph   *graph.Graph // inputs and outputs
	device  device.Device
	target  compute.Target
	pool    *cpu.Pool
	ownPool bool
	limit   int
	passes  pass.Options

	compiling  sync.Mutex // held while shapes are compiled; taken before mu
	compiled   int        // sets of shapes compiled so far
	simplified *graph.Graph

	saving   sync.WaitGroup
	mu       sync.Mutex // also held to add to saving
	variants []*variant // most recently used first
	closed   bool
	running  int
}

// Open reads the model at path, which stays mapped until Close.
func Open(path string, opts ...Option) (*Model, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	src, err := c.cache.Model(path)
	if err != nil {
		return nil, err
	}
	return open(src, c)
}

// Load reads a model from memory. The bytes must not change until Close. A model with external data
// needs [Open].
func Load(data []byte, opts ...Option) (*Model, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	src, err := onnx.Decode(data, "", onnx.Options{})
	if err != nil {
		return nil, err
	}
	return open(cache.Wrap(src), c)
}

func configure(opts []Option) (config, error) {
	c := config{variants: 8}
	for _, o := range opts {
		o(&c)
	}
	return c, c.err
}

func open(src *cache.Model, c config) (*Model, error) {
	m := &Model{source: src, graph: src.Graph, limit: c.variants, passes: c.passes}
	on, err := shared()
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	m.device, m.target, m.pool = on.Device, on.Target, on.Pool
	if c.threads > 0 {
		m.pool, m.ownPool = cpu.NewPool(cpu.PoolOptions{Threads: c.threads}), true
	}
	return m, nil
}

// shared is the device and pool of all models that are opened with the default number of threads.
var shared = sync.OnceValues(func() (*machine.Machine, error) {
	return machine.Open("cpu:0", machine.Options{})
})

// ValueInfo describes an input or output: its type prints as "float32[N,3,224,224]", symbolic
// dimensions by name, or as "sequence(map(int64, float32[]))" when it is no tensor.
type ValueInfo struct {
	Name  string
	DType tensor.DType
	Type  string
}

// Warnings lists what weir may understand otherwise than the author of the model meant it: operator
// sets that are newer than those weir knows.
func (m *Model) Warnings() []string { return slices.Clone(m.source.Warnings) }

// Inputs describes the model's inputs in order.
func (m *Model) Inputs() []ValueInfo { return describe(m.graph.Inputs) }

// Outputs describes the model's outputs in order.
func (m *Model) Outputs() []ValueInfo { return describe(m.graph.Outputs) }

func describe(vs []*graph.Value) []ValueInfo {
	out := make([]ValueInfo, len(vs))
	for i, v := range vs {
		out[i] = ValueInfo{Name: v.Name, DType: v.Type.DType, Type: v.Type.String()}
	}
	return out
}

// Run computes the outputs for the given inputs, which are copied before Run returns. The caller
// must close the result, which gives its memory to the next Run. The error is of kind [ErrInput] or
// [ErrClosed], is that of ctx, or comes from an operator of the model.
//
// An input must have the rank and the known sizes that the model declares; a scalar may be given as
// one element of any rank. Dimensions that the model gives one name may have different sizes, since
// exporters give the same name to unrelated dimensions. With such sizes Run returns what the
// model's operators compute from them; when an operator refuses them, the error is of kind
// [ErrInput] and lists the names and sizes.
func (m *Model) Run(ctx context.Context, in Inputs) (Result, error) {
	if err := m.check(in); err != nil {
		return Result{}, err
	}
	s, err := m.begin(ctx, in)
	if err != nil {
		return Result{}, m.blame(in, err)
	}
	r := Result{slot: s, use: s.uses}
	for i, t := range s.instance.Inputs() {
		if err := t.Set(in[m.graph.Inputs[i].Name]); err != nil {
			r.Close()
			return Result{}, fmt.Errorf("%w: input %q: %w", ErrInput, m.graph.Inputs[i].Name, err)
		}
	}
	if err := s.instance.Run(ctx, device.Open); err != nil {
		r.Close()
		return Result{}, m.blame(in, err)
	}
	s.variant.save()
	return r, nil
}

// blame adds the kind [ErrInput] to an error that arose from input shapes which contradict the
// model's names of dimensions; other errors it returns as they are.
func (m *Model) blame(in Inputs, err error) error {
	shapes := map[string][]int{}
	for name, t := range in {
		shapes[name] = t.Shape
	}
	if err = m.graph.Blame(shapes, err); errors.Is(err, graph.ErrNames) {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	return err
}

// check compares names, types, ranks and known sizes with what the model declares.
func (m *Model) check(in Inputs) error {
	for _, v := range m.graph.Inputs {
		t := in[v.Name]
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
	}
	if len(in) == len(m.graph.Inputs) {
		return nil
	}
	for name := range in {
		if m.graph.Input(name) == nil {
			return fmt.Errorf("%w: the model has no input %q; it takes %s", ErrInput, name,
				m.inputNames())
		}
	}
	return nil
}

func (m *Model) inputNames() string {
	var names []string
	for _, v := range m.graph.Inputs {
		names = append(names, v.Name)
	}
	return strings.Join(names, ", ")
}

// begin takes a slot for the shapes of in, and compiles the model for them when they are new. Runs
// with shapes that are known already go on meanwhile.
func (m *Model) begin(ctx context.Context, in Inputs) (*slot, error) {
	if s, err := m.known(in); s != nil || err != nil {
		return s, err
	}
	m.compiling.Lock()
	defer m.compiling.Unlock()
	if s, err := m.known(in); s != nil || err != nil { // another call may have compiled them
		return s, err
	}
	if err := m.enter(); err != nil {
		return nil, err
	}
	v, err := m.compile(ctx, in)
	if err != nil {
		m.end()
		return nil, err
	}
	s, err := m.keep(v)
	if err != nil {
		m.end()
	}
	return s, err
}

// known takes a slot of the variant that fits, before another call can make that variant give way;
// nil when none fits.
func (m *Model) known(in Inputs) (*slot, error) {
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

// enter counts a call that uses the model's file, which stays mapped until [Model.end].
func (m *Model) enter() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.running++
	return nil
}

// enterToSave is enter for a plan that is being saved, which Close waits for.
func (m *Model) enterToSave() error {
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
func (m *Model) keep(v *variant) (*slot, error) {
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
func (m *Model) like(p *plan.Plan) *engine.Session {
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
func (m *Model) compile(ctx context.Context, in Inputs) (*variant, error) {
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
	m.source.Evict(nil)
	v.session, err = engine.Load(c.Plan,
		engine.Options{Device: m.device, Pool: m.pool, PackPool: m.pool, Packed: m.source.Evict,
			Weights: c.Weights,
			Like:    m.like(c.Plan)})
	if err != nil {
		return nil, err
	}
	if err := m.source.Unchanged(); err != nil {
		v.session.Close()
		return nil, err
	}
	if m.compiled == 1 && c.Fresh() {
		v.fresh = c
	}
	return v, nil
}

// plan finds the plan for the next shapes in the cache, or makes it. m.compiling is held.
func (m *Model) plan(ctx context.Context, o plan.Options) (*cache.Compiled, error) {
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
func (m *Model) toCompile(ctx context.Context, source *graph.Graph) *graph.Graph {
	if m.compiled > 1 && m.simplified == nil {
		// without it, every plan begins at the model
		m.simplified, _ = plan.Simplify(ctx, source)
	}
	if m.simplified == nil {
		return source
	}
	return m.simplified
}

func (m *Model) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	m.finish()
}

// finish releases the model once it is closed and no result is open; m.mu is held.
func (m *Model) finish() error {
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
	src := m.source
	m.source = nil
	return src.Close()
}

// Close releases the model's memory and unmaps its file, once the last open [Result] is closed.
// Further Runs fail with [ErrClosed]; closing twice is allowed.
func (m *Model) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.saving.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.finish()
}
