package train

import (
	"context"
	"errors"
	"time"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/step"
)

// Forecast is what a run takes. Its JSON fields are those of weir train plan.
type Forecast struct {
	// ArenaBytes are those of all graphs of the step, with their packed weights; StateBytes those
	// of weights, statistics, moments and averages.
	ArenaBytes int64          `json:"arena_bytes"`
	StateBytes int64          `json:"state_bytes"`
	StepMS     float64        `json:"step_ms"` // of an update, measured
	Updates    int64          `json:"steps"`
	Parameters int64          `json:"parameters"` // numbers that are trained
	Missing    []step.Missing `json:"missing"`    // operators without a gradient
	// Recompute are ways to take less memory for an update, and more time: what its plan does not
	// compute again anyway.
	Recompute []plan.Trade `json:"recompute"`
}

// Plan says what a recipe takes. It makes some updates, of which nothing is kept. Of a model with
// operators without gradients it only says which those are.
func Plan(ctx context.Context, r *recipe.Recipe, o Options) (*Forecast, error) {
	f := &Forecast{Missing: []step.Missing{}, Recompute: []plan.Trade{}}
	run, err := Open(ctx, r, o)
	if errors.Is(err, op.ErrNoGradient) {
		lacks, e := lacking(r, o)
		if e != nil || len(lacks) == 0 {
			return nil, errors.Join(err, e)
		}
		f.Missing = lacks
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	f.ArenaBytes, f.StateBytes, f.Updates = arenas(run.plans), run.step.State.Bytes(), run.Updates()
	for _, p := range run.step.Params {
		if p.Role != step.Mean && p.Role != step.Variance {
			f.Parameters += int64(p.Start.Len())
		}
	}
	if f.StepMS, err = run.tried(ctx); err == nil {
		f.Recompute, err = run.trades(ctx)
	}
	return f, errors.Join(err, run.Close())
}

// tried is the shortest of some updates, in milliseconds.
func (r *Run) tried(ctx context.Context) (float64, error) {
	const tries = 4
	best := time.Duration(0)
	for i := range tries {
		begin := time.Now()
		e := r.event()
		if err := r.compute(ctx, &e); err != nil {
			return 0, err
		}
		if took := time.Since(begin); i == 0 || took < best {
			best = took
		}
	}
	return float64(best) / float64(time.Millisecond), nil
}

// lacking lists the operators of a recipe's model that have no gradient.
func lacking(r *recipe.Recipe, o Options) ([]step.Missing, error) {
	m, err := onnx.Open(r.Model, onnx.Options{})
	if err != nil {
		return nil, err
	}
	m.Graph = step.Apart(m.Graph)
	run := &Prepared{recipe: r, on: o.Machine, model: m}
	shapes, err := run.shapes()
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	out, err := step.Lacks(m.Graph, run.stepOptions(shapes))
	return out, errors.Join(err, m.Close())
}
