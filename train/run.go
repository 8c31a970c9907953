package train

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/checkpoint"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/step"
)

// ErrDiverged is the kind of error about a loss that is not a finite number.
var ErrDiverged = errors.New("training diverged")

// ErrInterrupted is the kind of error about a run that would write over what an interrupted one has
// kept.
var ErrInterrupted = errors.New("a run was interrupted")

// Options say where a recipe is followed.
type Options struct {
	Machine *machine.Machine
	// Quota grants all memory of the run on the device; nil grants everything.
	Quota device.Quota
	// Gate is asked for device time; nil has the device to itself.
	Gate device.Gate
	// Steps, when above 0, ends the run after so many updates, as if it were interrupted there.
	Steps int64
	// Anew has a run begin that writes over what an interrupted one has kept.
	Anew bool
	// Room, when set, is called when the last checkpoint of the run cannot be written, such as on a
	// full disk, and may wait; it reports whether to try again. Without it what was computed since
	// the checkpoint before is lost. Checkpoints on the way are tried again in any case.
	Room func(error) bool
	// Progress, when set, is called after each update and each evaluation.
	Progress func(Event)
	// Log is told of what a person may want to know; nil is silent.
	Log *slog.Logger
}

// Run is a training run.
type Run struct {
	recipe *recipe.Recipe
	opts   Options
	model  *onnx.Model
	data   *samples
	step   *step.Step
	state  *engine.State
	vars   []checkpoint.Value // the variables in memory, in their order

	train, add, eval *program

	done    int64 // updates
	history History
	resumed bool
	lock    *os.File          // of the folder of checkpoints; nil before there is one
	prints  map[string]string // of what the run is made from
	kept    int64             // the update of the newest checkpoint
}

// program is a graph of a step, ready to run.
type program struct {
	plan     *plan.Plan
	session  *engine.Session
	instance *engine.Instance
}

// Open reads the model and the data of a recipe, plans the step, and takes its memory. The caller
// closes the run. Weights are what the recipe starts with.
func Open(ctx context.Context, r *recipe.Recipe, o Options) (*Run, error) {
	if o.Gate == nil {
		o.Gate = device.Open
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	run := &Run{recipe: r, opts: o}
	if err := run.open(ctx); err != nil {
		return nil, errors.Join(err, run.Close())
	}
	return run, nil
}

func (r *Run) open(ctx context.Context) (err error) {
	if r.model, err = onnx.Open(r.recipe.Model, onnx.Options{}); err != nil {
		return err
	}
	r.model.Graph = step.Apart(r.model.Graph)
	shapes, err := r.shapes()
	if err != nil {
		return err
	}
	if r.step, err = step.Build(r.model.Graph, r.stepOptions(shapes)); err != nil {
		return fmt.Errorf("%s: %w", r.recipe.Model, err)
	}
	if r.data, err = readSamples(r.recipe, r.model.Graph, r.step.Labels); err != nil {
		return err
	}
	r.state, err = engine.NewState(r.opts.Machine.Device, r.opts.Quota, r.step.State)
	if err != nil {
		return err
	}
	for i, t := range r.state.Values() {
		r.vars = append(r.vars, checkpoint.Value{Name: r.step.State.Variables()[i].Name, Tensor: t})
	}
	for _, p := range []struct {
		to   **program
		from step.Graph
	}{{&r.train, r.step.Train}, {&r.add, r.step.Add}, {&r.eval, r.step.Eval}} {
		if p.from.Graph == nil {
			continue
		}
		if *p.to, err = r.load(ctx, p.from); err != nil {
			return fmt.Errorf("%s: %w", r.recipe.Model, err)
		}
	}
	if err = r.fingerprint(); err != nil {
		return err
	}
	return r.start()
}

// stepOptions is what a recipe says of its step.
func (r *Run) stepOptions(shapes map[string][]int) step.Options {
	f := r.recipe
	return step.Options{Shapes: shapes, Loss: f.Loss, Train: f.Train, Freeze: f.Freeze,
		Optimizer: f.Optimizer, Clip: f.Clip, Accumulate: f.Accumulate, Average: f.Average,
		Scale: f.Scale}
}

// shapes are those of the model's inputs for a batch.
func (r *Run) shapes() (map[string][]int, error) {
	shapes := map[string][]int{}
	for _, v := range r.model.Graph.Inputs {
		if r.recipe.Data.Inputs[v.Name] == "" {
			return nil, fmt.Errorf("%w: data: inputs: no file for input %q of the model",
				recipe.ErrRecipe, v.Name)
		}
		shape := make([]int, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			n, known := d.Int()
			switch {
			case i == 0:
				n = r.recipe.Data.Batch
			case !known:
				return nil, fmt.Errorf("%s: input %q is %v: only its first size may be open: "+
					"export the model with the others", r.recipe.Model, v.Name, v.Type)
			}
			shape[i] = n
		}
		if !v.Type.Ranked || len(shape) == 0 {
			return nil, fmt.Errorf("%s: input %q is %v, with no axis for samples", r.recipe.Model,
				v.Name, v.Type)
		}
		shapes[v.Name] = shape
	}
	for name := range r.recipe.Data.Inputs {
		if shapes[name] == nil {
			return nil, fmt.Errorf("%w: data: inputs: the model has no input %q", recipe.ErrRecipe,
				name)
		}
	}
	return shapes, nil
}

// load plans a graph and takes its memory.
func (r *Run) load(ctx context.Context, g step.Graph) (*program, error) {
	on := r.opts.Machine
	precision, err := r.recipe.Precision.On(on.Target)
	if err != nil {
		return nil, err
	}
	p, err := plan.Compile(ctx, g.Graph, plan.Options{Target: on.Target,
		Threads: on.Pool.Threads(), State: r.step.State, Updates: g.Updates,
		Passes: pass.Options{Precision: precision}})
	if err != nil {
		return nil, err
	}
	s, err := engine.Load(p, engine.Options{Device: on.Device, Pool: on.Pool, PackPool: on.Pool,
		Quota: r.opts.Quota, Context: ctx, State: r.state})
	if err != nil {
		return nil, err
	}
	i, err := s.Take()
	if err != nil {
		s.Close()
		return nil, err
	}
	return &program{p, s, i}, nil
}

// Close gives the memory of a run back, and the folder of its checkpoints. A second call does
// nothing.
func (r *Run) Close() (err error) {
	r.unload()
	if r.lock != nil {
		err = r.lock.Close()
	}
	if r.state != nil {
		r.state.Free()
	}
	if r.model != nil {
		err = errors.Join(err, r.model.Close())
	}
	r.lock, r.state, r.model = nil, nil, nil
	return err
}

// unload gives back the memory of the programs.
func (r *Run) unload() {
	for _, p := range []**program{&r.train, &r.add, &r.eval} {
		if *p != nil {
			(*p).instance.Put()
			(*p).session.Close()
			*p = nil
		}
	}
}

// variable returns a variable by its name, nil where the run has none.
func (r *Run) variable(name string) *tensor.Tensor {
	for _, v := range r.vars {
		if v.Name == name {
			return v.Tensor
		}
	}
	return nil
}

// input returns an input of a program by its name, nil where the graph does not read it.
func (p *program) input(name string) *tensor.Tensor {
	i := slices.IndexFunc(p.plan.Graph.Inputs, func(v *graph.Value) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return p.instance.Inputs()[i]
}
