package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/tensor"
)

// prepared is a job whose model is read and compiled.
type prepared struct {
	spec   Job
	model  *cache.Model // nil when the graph was given
	graph  *graph.Graph // its inputs and outputs at least
	plan   *plan.Plan
	cached *cache.Compiled // nil when the graph was given
	shapes map[string][]int
	given  map[string]*tensor.Tensor
	seed   uint64
	// one request's; made once the job's memory is granted
	inputs  []*tensor.Tensor
	request int64 // their bytes
	saved   bool  // whether the plan was offered to the cache
	// what was found to keep the job from running, before any phase
	broken error
	wrap   func(job string, it iterate) iterate // nil outside of tests
}

// prepare reads and compiles. The error names the job and is of kind [ErrScenario], unless it is
// ctx's.
func prepare(ctx context.Context, spec Job, plans *cache.Cache, t compute.Target, threads int,
	seed uint64) (*prepared, error) {
	p := &prepared{spec: spec, seed: seed}
	err := p.load(ctx, plans, t, threads)
	if err == nil {
		return p, nil
	}
	err = errors.Join(err, p.close())
	if ctx.Err() != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: job %s: %w", ErrScenario, spec.Name, err)
}

func (p *prepared) load(ctx context.Context, plans *cache.Cache, t compute.Target,
	threads int) error {
	g := p.spec.Graph
	if g == nil {
		var err error
		if p.model, err = plans.Model(p.spec.Model); err != nil {
			return err
		}
		g = p.model.Graph
	}
	p.graph = g
	var err error
	most := cmp.Or(int64(p.spec.Memory), t.Info().MemoryBytes)
	if p.given, err = ReadInputs(g, p.spec.Inputs, most); err != nil {
		return err
	}
	maps.Copy(p.given, p.spec.Given)
	if p.shapes, err = InputShapes(g, p.spec.Shapes, p.given); err != nil {
		return err
	}
	if p.request, err = InputBytes(g, p.shapes, p.given); err != nil {
		return err
	}
	precision, err := pass.PrecisionOn(t, p.spec.Precision)
	if err != nil {
		return err
	}
	o := plan.Options{Target: t, Shapes: p.shapes, Threads: threads,
		Passes: pass.Options{Precision: precision}}
	if p.model == nil {
		p.plan, err = plan.Compile(ctx, g, o)
		return err
	}
	if p.cached, err = p.model.Compile(ctx, o); err == nil {
		p.plan = p.cached.Plan
	}
	return err
}

// overCap refuses a job whose plan and request need more than its memory cap. The broker refuses it
// in the same words; this serves the phases that have none.
func (p *prepared) overCap() error {
	need, limit := share.Bytes(p.need()), p.spec.Memory
	if limit == 0 || need <= limit {
		return nil
	}
	return fmt.Errorf("job %s: needs %v, cap %v: %w: raise memory or lower the batch", p.spec.Name,
		need.About(), limit.About(), core.ErrOverCap)
}

// need is the most memory that the job holds on its device: that of its plan, and of its request
// where that is in the same memory.
func (p *prepared) need() int64 {
	if p.plan.Remote() {
		return p.plan.PeakBytes(1)
	}
	return p.plan.PeakBytes(1) + p.request
}

func (p *prepared) close() error {
	if p.model == nil {
		return nil
	}
	return p.model.Close()
}

func inputNames(g *graph.Graph) string {
	var names []string
	for _, v := range g.Inputs {
		names = append(names, v.Name)
	}
	return strings.Join(names, ", ")
}

// InputShapes chooses a concrete shape for every ranked input of g: the given tensor's, else the
// asked one, either as the input takes it ([op.Type.Fit]), else the declared one with the names of
// dimensions that the others bind, and 1 for names that none does. It fails with [ErrInput] when a
// given tensor has another element type than the model takes or another shape than was asked, and
// when the others give a name that is needed two sizes.
func InputShapes(g *graph.Graph, asked map[string]Shape,
	given map[string]*tensor.Tensor) (map[string][]int, error) {
	shapes := map[string][]int{}
	for name, s := range asked {
		shapes[name] = s
	}
	bound := bindings{}
	for _, v := range g.Inputs {
		if err := chooseShape(v, shapes, given[v.Name]); err != nil {
			return nil, fmt.Errorf("%w: input %q: %w", ErrInput, v.Name, err)
		}
		if s, ok := shapes[v.Name]; ok && len(s) == len(v.Type.Shape) {
			bound.add(v, s)
		}
	}
	for _, v := range g.Inputs {
		if _, ok := shapes[v.Name]; ok || !v.Type.Ranked {
			continue
		}
		s, err := bound.shape(v.Type)
		if err != nil {
			return nil, fmt.Errorf("%w: input %q (%v) has no shape: %w", ErrInput, v.Name, v.Type,
				err)
		}
		shapes[v.Name] = s
	}
	return shapes, nil
}

// chooseShape sets the shape of an input to that of the tensor that it is given, nil for none, or
// to the one that is there already, as the input takes it. What it does not take is left to
// compiling.
func chooseShape(v *graph.Value, shapes map[string][]int, t *tensor.Tensor) error {
	s, asked := shapes[v.Name]
	if asked && v.Type.DType.IsContainer() {
		return fmt.Errorf("it is %v: only tensors have a shape to ask for", v.Type)
	}
	fit := func(shape []int) []int {
		if fitted, err := v.Type.Fit(shape); err == nil {
			return fitted
		}
		return shape
	}
	if asked {
		shapes[v.Name] = fit(s)
	}
	if t == nil {
		return nil
	}
	if err := t.Check(); err != nil {
		return err
	}
	if t.DType != v.Type.DType {
		return fmt.Errorf("given %v, the model takes %v", t.DType, v.Type)
	}
	if err := v.Type.Admits(t); err != nil {
		return err
	}
	if asked && !slices.Equal(shapes[v.Name], fit(t.Shape)) {
		return fmt.Errorf("given a tensor of shape %v, but shape %v is asked", t.Shape, s)
	}
	shapes[v.Name] = fit(t.Shape)
	return nil
}

// bindings are the sizes that shapes give to names of dimensions, each with the input that it comes
// from, and another size with its input when there is one.
type bindings map[string][]binding

type binding struct {
	size  int
	input string
}

func (b bindings) add(v *graph.Value, shape []int) {
	for i, d := range v.Type.Shape {
		uses := b[d.String()]
		if len(uses) == 0 || len(uses) == 1 && uses[0].size != shape[i] {
			b[d.String()] = append(uses, binding{shape[i], v.Name})
		}
	}
}

// shape is a declared shape with the names bound; it fails when one is bound to two sizes.
func (b bindings) shape(t op.Type) ([]int, error) {
	sizes := map[string]int{}
	for name, uses := range b {
		sizes[name] = uses[0].size
	}
	for _, d := range t.Shape {
		if uses := b[d.String()]; len(uses) > 1 {
			return nil, fmt.Errorf("%v is %d in input %q and %d in input %q", d, uses[0].size,
				uses[0].input, uses[1].size, uses[1].input)
		}
	}
	return declaredShape(t, sizes), nil
}

func declaredShape(t op.Type, sizes map[string]int) []int {
	shape := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = 1
		if n, ok := d.Eval(sizes); ok {
			shape[i] = n
		}
	}
	return shape
}

// MakeInputs returns one value an input of g: the given one, or a made-up one of the shape from
// [InputShapes]: floats uniform from 0 to 1 by the seed, integers 1, booleans true, strings empty,
// sequences and optionals of one value, maps without pairs.
func MakeInputs(g *graph.Graph, shapes map[string][]int, given map[string]*tensor.Tensor,
	seed uint64) ([]*tensor.Tensor, error) {
	rng := rand.New(rand.NewPCG(seed, 0x77656972))
	inputs := make([]*tensor.Tensor, len(g.Inputs))
	for i, v := range g.Inputs {
		if inputs[i] = given[v.Name]; inputs[i] != nil {
			continue
		}
		var err error
		if inputs[i], err = makeValue(v.Type, shapes[v.Name], rng); err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
	}
	return inputs, nil
}

// InputBytes is the memory of what [MakeInputs] returns for the same arguments.
func InputBytes(g *graph.Graph, shapes map[string][]int, given map[string]*tensor.Tensor) (int64,
	error) {
	var total int64
	for _, v := range g.Inputs {
		if t := given[v.Name]; t != nil {
			total += t.Size()
			continue
		}
		n, err := valueBytes(v.Type, shapes[v.Name])
		if err == nil && int64(n) > math.MaxInt64-total {
			err = fmt.Errorf("%w: the inputs have more than %d bytes", tensor.ErrShape, total)
		}
		if err != nil {
			return 0, fmt.Errorf("input %q: %w", v.Name, err)
		}
		total += int64(n)
	}
	return total, nil
}

// valueBytes is the memory of what makeValue makes.
func valueBytes(typ op.Type, shape []int) (int, error) {
	switch {
	case !typ.DType.IsContainer():
		return tensor.ByteCount(typ.DType, shape)
	case typ.DType == tensor.Map || typ.Elem == nil:
		return 0, nil
	}
	return valueBytes(*typ.Elem, declaredShape(*typ.Elem, nil))
}

// makeValue makes up a tensor of a shape, or a value of another type: a sequence or optional of one
// value, if its type is known, with sizes of 1 for those that are not, and a map without pairs.
func makeValue(typ op.Type, shape []int, rng *rand.Rand) (*tensor.Tensor, error) {
	switch {
	case typ.DType == tensor.Map:
		keys, err := tensor.New(typ.Key, 0)
		if err != nil || typ.Elem == nil {
			return nil, errors.Join(err,
				fmt.Errorf("%w: cannot make up a %v", op.ErrUnsupported, typ))
		}
		values, err := tensor.New(typ.Elem.DType, 0)
		if err != nil {
			return nil, err
		}
		return tensor.NewMap(keys, values)
	case typ.DType.IsContainer() && typ.Elem == nil:
		return &tensor.Tensor{DType: typ.DType, Shape: []int{0}}, nil
	case typ.DType.IsContainer():
		item, err := makeValue(*typ.Elem, declaredShape(*typ.Elem, nil), rng)
		if err != nil {
			return nil, err
		}
		return &tensor.Tensor{DType: typ.DType, Shape: []int{1}, Items: []*tensor.Tensor{item}}, nil
	}
	t, err := tensor.New(typ.DType, shape...)
	if err != nil {
		return nil, err
	}
	makeUp(t, rng)
	return t, nil
}

func makeUp(t *tensor.Tensor, rng *rand.Rand) {
	switch t.DType {
	case tensor.Float32:
		elems := tensor.As[float32](t)
		for i := range elems {
			elems[i] = rng.Float32()
		}
	case tensor.Float64:
		for i := range tensor.As[float64](t) {
			tensor.As[float64](t)[i] = rng.Float64()
		}
	case tensor.Float16:
		for i := range tensor.As[tensor.Half](t) {
			tensor.As[tensor.Half](t)[i] = tensor.HalfOf(rng.Float32())
		}
	case tensor.BFloat16:
		for i := range tensor.As[tensor.BHalf](t) {
			tensor.As[tensor.BHalf](t)[i] = tensor.BHalfOf(rng.Float32())
		}
	case tensor.String:
	default:
		// integers and booleans: a one in the lowest byte of each element, or of those that share
		// it
		for i := 0; i < len(t.Data); i += max(1, t.DType.Size()) {
			t.Data[i] = 1
		}
	}
}

// FillInputs copies one request into the inputs of an instance. It fails with [ErrInput] when types
// or shapes differ.
func FillInputs(to *engine.Instance, request []*tensor.Tensor) error {
	for k, t := range to.Inputs() {
		if err := t.Set(request[k]); err != nil {
			return fmt.Errorf("%w: input %d: %w", ErrInput, k, err)
		}
	}
	return nil
}

// keep puts the plan into the cache when it is first loaded, which is before anything is measured.
// What keeps it from that is nobody's trouble.
func (p *prepared) keep(s *engine.Session) {
	if p.cached != nil && !p.saved {
		if p.cached.Fresh() {
			_ = s.WithWeights(p.cached.Save)
		}
		p.saved = true
	}
}

// iterate runs one request of a job; the gate is a lease.
type iterate func(ctx context.Context, g device.Gate) error

// instance loads the job's plan and returns its iteration and what frees it, which may be called
// again.
func (p *prepared) instance(o engine.Options) (iterate, func(), error) {
	it, _, free, err := p.resident(o)
	return it, free, err
}

// terms are what the job asks of the device. What it holds beside its weights stays while these are
// away.
func (p *prepared) terms() share.Job {
	job := p.spec.Job
	if job.Elastic {
		job.Keep = max(job.Keep, share.Bytes(p.need()-p.plan.PackedBytes))
	}
	return job
}

// resident is instance, and returns the session too.
func (p *prepared) resident(o engine.Options) (iterate, *engine.Session, func(), error) {
	if p.model != nil {
		o.Packed, o.Weights = p.model.Evict, p.cached.Weights
		o.Discard, o.Unchanged = p.cached.Discard, p.model.Unchanged
		p.model.Evict(nil)
	}
	s, err := engine.Load(p.plan, o)
	if err != nil {
		return nil, nil, nil, err
	}
	if p.model != nil {
		if err := p.model.Unchanged(); err != nil {
			s.Close()
			return nil, nil, nil, err
		}
	}
	p.keep(s)
	i, err := s.Take()
	if err != nil {
		s.Close()
		return nil, nil, nil, err
	}
	holder := o.Quota
	if p.plan.Remote() {
		holder = o.HostQuota
	}
	if o.ArenaQuota != nil && holder == o.Quota {
		holder = o.ArenaQuota // the request stays while weights are away
	}
	if err := holder.Reserve(p.request); err != nil {
		i.Put()
		s.Close()
		return nil, nil, nil, err
	}
	free := sync.OnceFunc(func() { i.Put(); s.Close(); holder.Release(p.request) })
	if p.inputs == nil {
		if p.inputs, err = MakeInputs(p.graph, p.shapes, p.given, p.seed); err != nil {
			free()
			return nil, nil, nil, err
		}
	}
	maps := p.model != nil && p.model.Maps(p.plan)
	run := func(ctx context.Context, g device.Gate) error {
		if err := FillInputs(i, p.inputs); err != nil {
			return err
		}
		err := i.Run(ctx, g)
		if maps {
			return cmp.Or(p.model.Unchanged(), err) // whatever was made of it
		}
		return err
	}
	if p.wrap != nil {
		return p.wrap(p.spec.Name, run), s, free, nil
	}
	return run, s, free, nil
}
