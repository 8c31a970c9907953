package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// prepared is a job whose model is read and compiled, with one request's inputs.
type prepared struct {
	spec   Job
	model  *onnx.Model // nil when the graph was given
	plan   *plan.Plan
	inputs []*tensor.Tensor
}

// prepare reads, compiles and makes inputs. The error names the job.
func prepare(ctx context.Context, spec Job, threads int, seed uint64) (*prepared, error) {
	p := &prepared{spec: spec}
	if err := p.load(ctx, threads, seed); err != nil {
		return nil, errors.Join(fmt.Errorf("job %s: %w", spec.Name, err), p.close())
	}
	return p, nil
}

func (p *prepared) load(ctx context.Context, threads int, seed uint64) error {
	g := p.spec.Graph
	if g == nil {
		var err error
		if p.model, err = onnx.Open(p.spec.Model, onnx.Options{}); err != nil {
			return err
		}
		g = p.model.Graph
	}
	given, err := ReadInputs(g, p.spec.Inputs)
	if err != nil {
		return err
	}
	maps.Copy(given, p.spec.Given)
	shapes := InputShapes(g, p.spec.Shapes, given)
	if p.plan, err = plan.Compile(ctx, g, plan.Options{Shapes: shapes, Threads: threads}); err != nil {
		return err
	}
	p.inputs, err = MakeInputs(g, shapes, given, seed)
	return err
}

func (p *prepared) close() error {
	if p.model == nil {
		return nil
	}
	return p.model.Close()
}

// ReadInputs reads .npy files by input name. It fails with an error of kind [ErrScenario] when g has no such input.
func ReadInputs(g *graph.Graph, files map[string]string) (map[string]*tensor.Tensor, error) {
	given := map[string]*tensor.Tensor{}
	for name, file := range files {
		if g.Input(name) == nil {
			return nil, fmt.Errorf("%w: the model has no input %q", ErrScenario, name)
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		t, err := npy.Read(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		given[name] = t
	}
	return given, nil
}

// InputShapes chooses a concrete shape for every input of g: the given tensor's, else the asked one, else the declared one
// with symbolic dimensions 1.
func InputShapes(g *graph.Graph, asked map[string]Shape, given map[string]*tensor.Tensor) map[string][]int {
	shapes := map[string][]int{}
	for name, s := range asked {
		shapes[name] = s
	}
	for _, v := range g.Inputs {
		if t := given[v.Name]; t != nil {
			shapes[v.Name] = t.Shape
		}
		if _, ok := shapes[v.Name]; ok || !v.Type.Ranked {
			continue
		}
		shape := make([]int, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			shape[i] = 1
			if n, ok := d.Int(); ok {
				shape[i] = n
			}
		}
		shapes[v.Name] = shape
	}
	return shapes
}

// MakeInputs returns one tensor an input of g: the given one, checked against the model, or a made-up one: floats uniform
// from 0 to 1 by the seed, integers 1, booleans true, strings empty.
func MakeInputs(g *graph.Graph, shapes map[string][]int, given map[string]*tensor.Tensor, seed uint64) ([]*tensor.Tensor, error) {
	rng := rand.New(rand.NewPCG(seed, 0x77656972))
	inputs := make([]*tensor.Tensor, len(g.Inputs))
	for i, v := range g.Inputs {
		if t := given[v.Name]; t != nil {
			if t.DType != v.Type.DType {
				return nil, fmt.Errorf("%w: input %q: given %v, the model takes %v", ErrScenario, v.Name, t.DType, v.Type)
			}
			inputs[i] = t
			continue
		}
		t, err := tensor.New(v.Type.DType, shapes[v.Name]...)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		makeUp(t, rng)
		inputs[i] = t
	}
	return inputs, nil
}

func makeUp(t *tensor.Tensor, rng *rand.Rand) {
	switch t.DType {
	case tensor.Float32:
		for i := range tensor.As[float32](t) {
			tensor.As[float32](t)[i] = rng.Float32()
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
	default: // integers and booleans: a one in the lowest byte of each element
		for i := 0; i < len(t.Data); i += t.DType.Size() {
			t.Data[i] = 1
		}
	}
}

// iterate runs one request of a job; the gate is a lease.
type iterate func(ctx context.Context, g device.Gate) error

// instance loads the job's plan and returns its iteration and what frees it.
func (p *prepared) instance(o engine.Options) (iterate, func(), error) {
	s, err := engine.Load(p.plan, o)
	if err != nil {
		return nil, nil, err
	}
	i, err := s.Take()
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	run := func(ctx context.Context, g device.Gate) error {
		for k, t := range i.Inputs() {
			if !slices.Equal(t.Shape, p.inputs[k].Shape) {
				return fmt.Errorf("%w: request of job %s: input %d has shape %v, the plan takes %v", ErrScenario, p.spec.Name, k,
					p.inputs[k].Shape, t.Shape)
			}
			copy(t.Data, p.inputs[k].Data)
		}
		return i.Run(ctx, g)
	}
	return run, func() { i.Put(); s.Close() }, nil
}
