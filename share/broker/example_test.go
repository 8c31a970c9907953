package broker_test

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
)

// A job's life: admission, memory, iterations of steps, the end.
func Example() {
	p, err := policy.New("fair")
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := broker.New(broker.Config{Config: core.Config{Device: "cpu:0", Units: 2,
		Memory: share.GiB, Policy: p}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()

	if _, err := b.Admit(share.Job{Name: "greedy", Share: share.Share{Memory: share.GiB}},
		2*share.GiB); err != nil {
		fmt.Println(err)
	}
	job, err := b.Admit(share.Job{Name: "train-7",
		Share: share.Share{Memory: 512 * share.MiB, Compute: 0.5}}, 100*share.MiB)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := train(job); err != nil {
		fmt.Println(err)
	}
	s := job.Status()
	fmt.Println(s.Name, "did", s.Iterations, "iterations with", s.Peak)
	// Output:
	// job greedy: needs 2GiB, cap 1GiB: over the job's memory cap: raise memory or lower the batch
	// train-7 did 3 iterations with 96MiB
}

func train(job *broker.Job) (err error) {
	defer func() { job.End(err) }()
	ctx := context.Background()
	if err := job.Reserve(core.Persistent, 96*share.MiB); err != nil {
		return err
	}
	lease, err := job.Acquire(ctx)
	if err != nil {
		return err
	}
	for range 3 {
		job.BeginIteration()
		for range 10 {
			if lease.Revoked() {
				if err := lease.Renew(ctx); err != nil {
					return err
				}
			}
			// One step runs here, on lease.Units units.
		}
		job.EndIteration()
		if err := lease.Renew(ctx); err != nil {
			return err
		}
	}
	return nil
}
