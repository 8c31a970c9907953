package train

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/trace"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/checkpoint"
	"github.com/weirgpu/weir/train/dist"
	"github.com/weirgpu/weir/train/recipe"
)

// ErrDiverged is the kind of error about a loss that is not a finite number.
var ErrDiverged = errors.New("training diverged")

// ErrInterrupted is the kind of error about a run that would write over what an interrupted one has
// kept.
var ErrInterrupted = errors.New("a run was interrupted")

// Options say where a recipe is followed.
type Options struct {
	Machine *machine.Machine
	// Pool computes in place of the machine's; nil stands for that.
	Pool *cpu.Pool
	// Quota grants all memory of the run on the device; nil grants everything.
	Quota device.Quota
	// Memory, when above 0, is what the run may hold: of [Open] alone, which plans smaller for it
	// ([Prepared.Within]). Quota grants it.
	Memory int64
	// Device has a graph computed while the run has the device, under the gate that asks it back;
	// nil has it to itself. What else the run does, such as to read samples and to write
	// checkpoints, it does without the device, for which others need not wait meanwhile.
	Device func(ctx context.Context, compute func(device.Gate) error) error
	// Late, once it is done, has nothing computed any more, also of an update or an evaluation that
	// has begun: the error is its cause, and what was computed since the newest checkpoint is lost.
	// nil is never done.
	Late context.Context
	// Steps, when above 0, ends the run after so many updates, as if it were interrupted there.
	Steps int64
	// Anew has a run begin that writes over what an interrupted one has kept.
	Anew bool
	// Room, when set, is called when the last checkpoint of the run cannot be written, such as on a
	// full disk, and may wait; it reports whether to try again. Without it what was computed since
	// the checkpoint before is lost. Checkpoints on the way are tried again in any case.
	Room func(error) bool
	// Team, when set, are the processes that share the shards of this run's batches. The run closes
	// it.
	Team *dist.Team
	// Trace, when set, records what the processes of a team do.
	Trace *trace.Recorder
	// Progress, when set, is called after each update and each evaluation.
	Progress func(Event)
	// Log is told of what a person may want to know; nil is silent.
	Log *slog.Logger
}

// Run is a training run.
type Run struct {
	*Prepared
	owned bool // Close closes what is prepared, too
	opts  Options
	state *engine.State
	vars  []checkpoint.Value // the variables that outlive an update, in their order
	rest  []checkpoint.Value // and those that do not

	train, add, eval, apply *program
	shards                  *sharded // nil where batches are computed at once

	done    int64    // updates
	orders  [2]order // of epochs
	ahead   *ahead   // nil where no batch is made in the background
	used    int      // how often one of these was
	history History
	resumed bool
	lock    *os.File  // of the folder of checkpoints; nil before there is one
	kept    int64     // the update of the newest checkpoint
	keptAt  time.Time // when it was written, or the run opened
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
	ranks := 1
	if o.Team != nil {
		ranks = o.Team.Ranks
	}
	p, err := prepare(ctx, r, o.Machine, ranks)
	if err != nil {
		return nil, errors.Join(err, o.leave())
	}
	if o.Memory > 0 {
		if err := p.Within(ctx, o.Memory); err != nil {
			return nil, errors.Join(err, o.leave(), p.Close())
		}
	}
	run, err := p.Open(ctx, o)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	run.owned = true
	return run, nil
}

// Open takes the memory of a run, which the caller closes, before what is prepared. Its machine is
// that of Prepare.
func (p *Prepared) Open(ctx context.Context, o Options) (*Run, error) {
	if o.Device == nil {
		o.Device = func(_ context.Context, compute func(device.Gate) error) error {
			return compute(device.Open)
		}
	}
	if o.Pool == nil {
		o.Pool = p.on.Pool
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if n := p.data.train.cut + p.data.eval.cut; n > 0 {
		o.Log.Warn("texts are longer than the model's rows: what is behind is cut", "texts", n)
	}
	run := &Run{Prepared: p, opts: o, keptAt: time.Now()}
	if err := run.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.recipe.Model, err), run.Close())
	}
	return run, nil
}

func (r *Run) open(ctx context.Context) (err error) {
	areas, err := r.takeState()
	if err != nil {
		return err
	}
	for i, t := range r.state.Values() {
		r.rest = append(r.rest, checkpoint.Value{Name: r.step.State.Variables()[i].Name, Tensor: t})
	}
	r.vars, r.rest = r.rest[:r.step.Kept:r.step.Kept], r.rest[r.step.Kept:]
	if r.step.Shards != nil {
		r.openShards(areas)
	}
	for i, to := range []**program{&r.train, &r.add, &r.eval, &r.apply} {
		if p := r.plans[i]; p != nil && (to != &r.eval || r.leads()) {
			if *to, err = r.load(ctx, p); err != nil {
				return err
			}
		}
	}
	return r.start()
}

// takeState takes the memory of the state, which a team shares, and returns that of each of its
// processes.
func (r *Run) takeState() (areas [][]byte, err error) {
	team := r.opts.Team
	if team == nil {
		r.state, err = engine.NewState(r.on.Device, r.opts.Quota, r.step.State)
		if err != nil {
			return nil, err
		}
		return [][]byte{r.state.Bytes()}, nil
	}
	if areas, err = r.join(); err != nil {
		return nil, err
	}
	r.state, err = engine.NewStateIn(areas[team.Rank], r.opts.Quota, r.step.State)
	return areas, err
}

// load takes the memory of a plan.
func (r *Run) load(ctx context.Context, p *plan.Plan) (*program, error) {
	s, err := engine.Load(p, engine.Options{Device: r.on.Device, Pool: r.opts.Pool,
		PackPool: r.opts.Pool, Quota: r.opts.Quota, Context: ctx, State: r.state})
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
	r.disband()
	r.settle()
	r.unload()
	if r.lock != nil {
		err = r.lock.Close()
	}
	if r.state != nil {
		r.state.Free()
	}
	err = errors.Join(err, r.opts.leave())
	if r.owned {
		err = errors.Join(err, r.Prepared.Close())
	}
	r.lock, r.state, r.owned = nil, nil, false
	return err
}

// run computes a program once with the device, unless it is too late.
func (r *Run) run(ctx context.Context, p *program) error {
	late := r.opts.Late
	if late != nil {
		if late.Err() != nil {
			return context.Cause(late)
		}
		var cut context.CancelCauseFunc
		ctx, cut = context.WithCancelCause(ctx)
		defer cut(nil)
		defer context.AfterFunc(late, func() { cut(context.Cause(late)) })()
	}
	err := r.opts.Device(ctx, func(g device.Gate) error { return p.instance.Run(ctx, g) })
	if late != nil && late.Err() != nil && errors.Is(err, context.Canceled) {
		return context.Cause(late) // a plan says no more than that it was cancelled
	}
	return err
}

// unload gives back the memory of the programs.
func (r *Run) unload() {
	for _, p := range []**program{&r.train, &r.add, &r.eval, &r.apply} {
		if *p != nil {
			(*p).instance.Put()
			(*p).session.Close()
			*p = nil
		}
	}
}

// variable returns a variable by its name, nil where the run has none.
func (r *Run) variable(name string) *tensor.Tensor {
	for _, of := range [][]checkpoint.Value{r.vars, r.rest} {
		for _, v := range of {
			if v.Name == name {
				return v.Tensor
			}
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
