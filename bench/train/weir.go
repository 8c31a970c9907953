package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// training is a model under weir's step, as weir train plans and runs it.
type training struct {
	optimizer optimizer
	step      *step.Step
	plan      *plan.Plan
	state     *engine.State
	session   *engine.Session
	instance  *engine.Instance
	done      func() error
	*batches
	update int64
}

// open plans the step of a model, and starts its weights.
func open(ctx context.Context, on *machine.Machine, s *subject, o optimizer,
	b *batches) (_ *training, err error) {
	g, done, err := s.graph()
	if err != nil {
		return nil, err
	}
	t := &training{optimizer: o, done: done, batches: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	t.step, err = step.Build(g, step.Options{Shapes: map[string][]int{g.Inputs[0].Name: s.shape},
		Loss: step.Loss{Kind: step.CrossEntropy}, Optimizer: o.Optimizer})
	if err != nil {
		return nil, err
	}
	if t.state, err = engine.NewState(on.Device, nil, t.step.State); err != nil {
		return nil, err
	}
	t.plan, err = plan.Compile(ctx, t.step.Train.Graph, plan.Options{Target: on.Target,
		Threads: on.Pool.Threads(), State: t.step.State, Updates: t.step.Train.Updates,
		Recompute: step.Recompute()})
	if err != nil {
		return nil, err
	}
	t.session, err = engine.Load(t.plan, engine.Options{Device: on.Device, Pool: on.Pool,
		PackPool: on.Pool, Context: ctx, State: t.state})
	if err != nil {
		return nil, err
	}
	if t.instance, err = t.session.Take(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, p := range t.step.Params {
		if s.file != "" {
			copy(t.variable(p.Name), tensor.As[float32](p.Start))
		} else {
			copy(t.variable(p.Name), draw(p, rng))
		}
	}
	return t, nil
}

func (t *training) close() error {
	if t.instance != nil {
		t.instance.Put()
	}
	if t.session != nil {
		t.session.Close()
	}
	if t.state != nil {
		t.state.Free()
	}
	return t.done()
}

// variable is a variable of the state, nil where there is none of the name.
func (t *training) variable(name string) []float32 {
	i := slices.IndexFunc(t.step.State.Variables(), func(v plan.Variable) bool {
		return v.Name == name
	})
	if i < 0 {
		return nil
	}
	return tensor.As[float32](t.state.Values()[i])
}

// weights are those of now, in copies.
func (t *training) weights() map[string]values {
	out := map[string]values{}
	for _, p := range t.step.Params {
		out[p.Name] = values{p.Start.Shape, slices.Clone(t.variable(p.Name))}
	}
	return out
}

// next makes an update, and returns its loss.
func (t *training) next(ctx context.Context) (float64, error) {
	t.fill()
	if err := t.instance.Run(ctx, device.Open); err != nil {
		return 0, err
	}
	return float64(tensor.As[float32](t.instance.Outputs()[0])[0]), nil
}

// fill writes the inputs of the next update.
func (t *training) fill() {
	at := int(t.update) % len(t.y)
	t.update++
	scalars := t.optimizer.Scalars(t.optimizer.Rate, t.update)
	for i, v := range t.plan.Graph.Inputs {
		to := t.instance.Inputs()[i]
		n, known := scalars[v.Name]
		switch {
		case known:
			tensor.As[float32](to)[0] = n
		case v.Name == t.step.Labels.Name:
			copy(tensor.As[int64](to), t.y[at])
		case isData(v) && t.ids != nil:
			copy(tensor.As[int64](to), t.ids[at])
		case isData(v):
			copy(tensor.As[float32](to), t.x[at])
		}
	}
}

// isData reports whether an input takes a batch.
func isData(v *graph.Value) bool { return v.Name == "x" || v.Name == "image" }

// begin makes the updates that are compared, and returns their losses. With momentum it returns the
// gradients of the first, which are what momentum is after it.
func (t *training) begin(ctx context.Context) (losses []float64, ds map[string][]float32,
	err error) {
	ds = map[string][]float32{}
	for i := range updates {
		loss, err := t.next(ctx)
		if err != nil {
			return nil, nil, err
		}
		losses = append(losses, loss)
		for _, p := range t.step.Params {
			if d := t.variable(p.Name + "/momentum"); i == 0 && d != nil {
				ds[p.Name] = slices.Clone(d)
			}
		}
	}
	return losses, ds, nil
}

// time makes n updates more, and returns the milliseconds of each.
func (t *training) time(ctx context.Context, n int) (took []float64, err error) {
	for range n {
		begin := time.Now()
		if _, err := t.next(ctx); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(begin))/float64(time.Millisecond))
	}
	return took, nil
}
