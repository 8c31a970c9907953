package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/train/dist"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/step"
)

// Prepared is a recipe whose model and data are read and whose step is planned for a machine: all
// that a run needs but its memory, and so what is known of a run before there is one. Several runs
// may be opened from it, one at a time.
type Prepared struct {
	recipe  *recipe.Recipe
	on      *machine.Machine
	model   *onnx.Model
	teacher *onnx.Model    // nil where a recipe has none
	inputs  []*graph.Value // the model's, for a batch
	data    *samples
	step    *step.Step
	plans   plans             // what is run
	whole   plans             // the same, as they are without a bound
	ranks   int               // processes that a run has
	prints  map[string]string // of what the run is made from
}

// plans are those of an update or a shard of it, of a batch before its last, of an evaluation, and
// of what replaces the weights once all shards are there. Those that a step does not have are nil.
type plans [4]*plan.Plan

// Prepare reads the model and the data of a recipe and plans the step for a machine. The caller
// closes what it returns.
func Prepare(ctx context.Context, r *recipe.Recipe, on *machine.Machine) (*Prepared, error) {
	return prepare(ctx, r, on, 1)
}

// prepare is Prepare for a run of several processes.
func prepare(ctx context.Context, r *recipe.Recipe, on *machine.Machine, ranks int) (*Prepared,
	error) {
	if most := max(r.Shards, 1); ranks > most {
		return nil, fmt.Errorf("%w: shards: the recipe has %d, too few for %d processes: give it "+
			"shards: %[3]d, or a multiple", recipe.ErrRecipe, most, ranks)
	}
	p := &Prepared{recipe: r, on: on, ranks: ranks}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (r *Prepared) prepare(ctx context.Context) (err error) {
	if r.model, err = onnx.Open(r.recipe.Model, onnx.Options{}); err != nil {
		return err
	}
	r.model.Graph = step.Apart(r.model.Graph)
	if d := r.recipe.Distil; d != nil {
		if r.teacher, err = onnx.Open(d.Teacher, onnx.Options{}); err != nil {
			return err
		}
	}
	shapes, err := r.shapes()
	if err != nil {
		return err
	}
	r.inputs = inputsOf(r.model.Graph, shapes)
	if r.step, err = step.Build(r.model.Graph, r.stepOptions(shapes)); err != nil {
		return fmt.Errorf("%s: %w", r.recipe.Model, err)
	}
	if r.data, err = readSamples(r.recipe, r.inputs, r.step); err != nil {
		return err
	}
	for i, g := range r.graphs() {
		if g.Graph == nil {
			continue
		}
		if r.plans[i], err = r.compile(ctx, g, 0); err != nil {
			return fmt.Errorf("%s: %w", r.recipe.Model, err)
		}
	}
	r.whole = r.plans
	return r.fingerprint()
}

// Close closes the model.
func (r *Prepared) Close() error {
	var err error
	for _, m := range []*onnx.Model{r.model, r.teacher} {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}

// Bytes is the memory that a run holds on the device: arenas, packed weights and state.
func (r *Prepared) Bytes() int64 { return r.bytes(r.plans) }

// Whole is the memory that a run holds where nothing bounds it.
func (r *Prepared) Whole() int64 { return r.bytes(r.whole) }

func (r *Prepared) bytes(plans plans) int64 { return arenas(plans) + r.step.State.Bytes() }

// Update is the plan of an update, from which what one takes can be forecast.
func (r *Prepared) Update() *plan.Plan { return r.plans[0] }

// Recipe is what is followed.
func (r *Prepared) Recipe() *recipe.Recipe { return r.recipe }

// arenas are the bytes of all arenas and packed weights of plans.
func arenas(plans plans) (n int64) {
	for _, p := range plans {
		if p != nil {
			n += p.PeakBytes(1)
		}
	}
	return n
}

// compile plans a graph, in an arena of at most so many bytes unless that is 0.
func (r *Prepared) compile(ctx context.Context, g step.Graph, most int64) (*plan.Plan, error) {
	o, err := r.planOptions(g)
	if err != nil {
		return nil, err
	}
	o.MostArena = most
	return plan.Compile(ctx, g.Graph, o)
}

func (r *Prepared) planOptions(g step.Graph) (plan.Options, error) {
	precision, err := r.recipe.Precision.On(r.on.Target)
	return plan.Options{Target: r.on.Target, Threads: r.on.Pool.Threads(), State: r.step.State,
		Updates: g.Updates, Recompute: step.Recompute(),
		Passes: pass.Options{Precision: precision}}, err
}

// stepOptions is what a recipe says of its step.
func (r *Prepared) stepOptions(shapes map[string][]int) step.Options {
	f := r.recipe
	o := step.Options{Shapes: shapes, Loss: f.Loss, Others: f.Others, Train: f.Train,
		Freeze:    f.Freeze,
		Optimizer: f.Optimizer, Clip: f.Clip, Accumulate: f.Accumulate, Average: f.Average,
		Scale: f.Scale, Dropout: f.Dropout, Shards: f.Shards,
		Slots: dist.Slots(max(f.Shards, 1), max(r.ranks, 1))}
	if f.Distil != nil && r.teacher != nil {
		d := f.Distil.Distil
		d.Teacher, o.Distil = r.teacher.Graph, &d
	}
	return o
}

// fed reports whether an input of the model has a source, or is part of what one gives.
func (r *Prepared) fed(name string) bool {
	for input, s := range r.recipe.Data.Inputs {
		if name == input || name == s.Mask || name == s.Types {
			return true
		}
	}
	return false
}
