package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// Engine runs models the way that jobs do: optimise, plan, load, one iteration.
type Engine struct {
	Device device.Device
	Pool   compute.Pool
	// HostQuota is that of engine.Options.
	HostQuota device.Quota
	// Plan says how models are compiled; its Shapes and Threads are set for each run.
	Plan plan.Options
	// Restored makes each plan a second time of the text of its graph, which lacks the constants
	// that are in the packed weights, and loads it with the weights of the first: what package
	// plan/cache does from one start of a program to the next.
	Restored bool
	// Choose, when not nil, is shown each plan, which is then made again with the choices that it
	// returns: what weir tune does, whatever is the fastest.
	Choose func(p *plan.Plan) compute.Choices
}

// Run is a [Runner]. The model is not changed; the outputs are copies.
func (e *Engine) Run(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) ([]*tensor.Tensor,
	error) {
	if len(in) != len(m.Graph.Inputs) {
		return nil, fmt.Errorf("%w: %d inputs are given, the model takes %d", op.ErrInput, len(in),
			len(m.Graph.Inputs))
	}
	p, o, err := e.compile(ctx, m, in)
	if err != nil {
		return nil, err
	}
	s, err := engine.Load(p, engine.Options{Device: e.Device, Pool: e.Pool, HostQuota: e.HostQuota})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if !e.Restored {
		return once(ctx, s, in)
	}
	return e.runRestored(ctx, p, o, s, in)
}

// compile makes the plan for the shapes of the inputs, and returns the options that it has.
func (e *Engine) compile(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) (*plan.Plan,
	plan.Options, error) {
	o := e.Plan
	o.Shapes, o.Threads = map[string][]int{}, e.Pool.Threads()
	for i, v := range m.Graph.Inputs {
		o.Shapes[v.Name] = in[i].Shape
	}
	p, err := plan.Compile(ctx, m.Graph, o)
	if err == nil && e.Choose != nil {
		o.Choices = e.Choose(p)
		p, err = plan.Compile(ctx, m.Graph, o)
	}
	return p, o, err
}

// runRestored runs what the written form of a plan is restored to, with the weights that s packed.
func (e *Engine) runRestored(ctx context.Context, p *plan.Plan, o plan.Options, s *engine.Session,
	in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	p, err := restore(ctx, p, o)
	if err != nil {
		return nil, err
	}
	var out []*tensor.Tensor
	err = s.WithWeights(ctx, func(weights []byte) error {
		s, err := engine.Load(p,
			engine.Options{Device: e.Device, Pool: e.Pool, HostQuota: e.HostQuota,
				Weights: weights})
		if err != nil {
			return err
		}
		defer s.Close()
		out, err = once(ctx, s, in)
		return err
	})
	return out, err
}

// once runs one iteration of a session.
func once(ctx context.Context, s *engine.Session, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	i, err := s.Take()
	if err != nil {
		return nil, err
	}
	defer i.Put()
	if err := fill(i.Inputs(), in); err != nil {
		return nil, err
	}
	if err := i.Run(ctx, device.Open); err != nil {
		return nil, err
	}
	var out []*tensor.Tensor
	for _, t := range i.Outputs() {
		out = append(out, t.Clone())
	}
	return out, nil
}

// restore makes a plan again of the text of its graph.
func restore(ctx context.Context, p *plan.Plan, o plan.Options) (*plan.Plan, error) {
	absorbed := p.Absorbed()
	var text strings.Builder
	err := graph.PrintExternal(&text, p.Graph, func(t *tensor.Tensor) (int64, bool) {
		return 0, absorbed[t] && !t.DType.IsInteger() || absorbed[t] && t.DType.Size() == 1
	})
	if err != nil {
		return nil, err
	}
	g, err := graph.ParseExternal(
		text.String(),
		func(d tensor.DType, shape []int, _ int64) (*tensor.Tensor, error) {
			return &tensor.Tensor{DType: d, Shape: slices.Clone(shape)}, nil
		},
	)
	if err != nil {
		return nil, err
	}
	again, err := plan.Restore(ctx, g, o)
	if err == nil && again.Fingerprint() != p.Fingerprint() {
		err = errors.New("the plan made of the text of the graph has another fingerprint")
	}
	return again, err
}

// fill copies the inputs of a case into those of an instance.
func fill(to, from []*tensor.Tensor) error {
	for i, t := range to {
		if err := t.Set(from[i]); err != nil {
			return fmt.Errorf("%w: input %d: %w", op.ErrInput, i, err)
		}
	}
	return nil
}
