package main

import (
	"context"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// trainer prepares the recipes of jobs of scenarios.
func trainer(ctx context.Context, path string, on *machine.Machine) (scenario.Training, error) {
	r, err := recipe.Load(path)
	if err != nil {
		return nil, err
	}
	r.Checkpoint, r.Output, r.Report = recipe.Checkpoint{Keep: r.Checkpoint.Keep}, "", ""
	p, err := train.Prepare(ctx, r, on)
	if err != nil {
		return nil, err
	}
	return followed{p}, nil
}

// followed is a recipe that a job of a scenario follows.
type followed struct{ *train.Prepared }

func (t followed) Plan() *plan.Plan { return t.Update() }

func (t followed) Open(ctx context.Context, o engine.Options) (scenario.Trained, error) {
	r := &trained{gate: device.Open}
	pool, _ := o.Pool.(*cpu.Pool) // recipes are followed on a CPU; nil stands for the machine's
	var err error
	r.Run, err = t.Prepared.Open(ctx, train.Options{Pool: pool, Quota: o.Quota,
		Device: func(_ context.Context, compute func(device.Gate) error) error {
			return compute(r.gate)
		}})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// trained is a run of it; gate is that of the update under way.
type trained struct {
	*train.Run
	gate device.Gate
}

func (r *trained) Update(ctx context.Context, g device.Gate) error {
	r.gate = g
	return r.Next(ctx)
}
