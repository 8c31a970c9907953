package scenario

import (
	"context"
	"errors"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/plan"
)

// Training is a recipe that a job follows, prepared for a machine: a request is an update.
type Training interface {
	// Plan is that of an update, and Bytes the memory that a run holds on the device.
	Plan() *plan.Plan
	Bytes() int64
	// Open takes the memory of a run, which begins anew, from o's quota, and computes it by o's
	// pool. Its caller closes it.
	Open(ctx context.Context, o engine.Options) (Trained, error)
	Close() error
}

// Trained is a run of a [Training]. It belongs to one goroutine at a time.
type Trained interface {
	// Update makes one update under a gate.
	Update(ctx context.Context, g device.Gate) error
	// Ended reports whether there is nothing left to do.
	Ended() bool
	Close() error
}

// Trainer prepares the recipe of a file for a machine. What it makes keeps no checkpoint and writes
// no model.
type Trainer func(ctx context.Context, recipe string, on *machine.Machine) (Training, error)

// errTrained ends a job whose run has nothing left to do.
var errTrained = errors.New("the training has ended")

// learn prepares a job that follows a recipe.
func (p *prepared) learn(ctx context.Context, by Trainer, on *machine.Machine) (err error) {
	switch {
	case by == nil || on == nil:
		return errors.New("train: nothing here trains: describe its work by iteration and kernel")
	case on.Host != nil:
		return errors.New("train: recipes are followed on a CPU")
	}
	if p.training, err = by(ctx, p.spec.Train, on); err != nil {
		return err
	}
	p.graph, p.plan = &graph.Graph{}, p.training.Plan()
	p.request = p.training.Bytes() - p.plan.PeakBytes(1)
	return nil
}

// trained is resident of a job that follows a recipe.
func (p *prepared) trained(o engine.Options) (iterate, func(), error) {
	if o.ArenaQuota != nil {
		o.Quota = o.ArenaQuota
	}
	run, err := p.training.Open(o.Context, o)
	if err != nil {
		return nil, nil, err
	}
	it := func(ctx context.Context, g device.Gate) error {
		if run.Ended() {
			return errTrained
		}
		return run.Update(ctx, g)
	}
	if p.wrap != nil {
		it = p.wrap(p.spec.Name, it)
	}
	closed := false
	return it, func() {
		if !closed {
			closed = true
			_ = run.Close() // of what it computed nothing is kept
		}
	}, nil
}

// trainFaults are keys that a job that trains cannot have.
func (j *Job) trainFaults(fault func(format string, args ...any)) {
	if j.Train == "" {
		return
	}
	if j.Model != "" || j.Graph != nil || j.Work.Described() {
		fault("train: beside a model or described work: choose one")
	}
	if len(j.Shapes)+len(j.Inputs)+len(j.Given) > 0 || j.Precision != "" {
		fault("train: the recipe has inputs and precision: leave shapes, inputs and precision out")
	}
	if j.Elastic {
		fault("train: memory: keep: a training keeps all that it holds: give a cap alone")
	}
	if j.Arrival.Load > 0 {
		fault("train: arrival: load: the next update is made when the last is: leave it out, or " +
			"give a rate")
	}
}

// held is what of a job's memory is weights that may leave the device, and what is not.
func (p *prepared) held() (weights, rest int64) {
	if p.training != nil {
		return 0, p.need()
	}
	return p.plan.PackedBytes, p.need() - p.plan.PackedBytes
}
