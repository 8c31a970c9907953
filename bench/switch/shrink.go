package main

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// shrink is the group of that name. The opportunistic job runs on the whole device, so what waits
// for memory takes no time from it.
func shrink(ctx context.Context, b *bench) error {
	m, err := b.model(ctx, "resnet50")
	if err != nil {
		return err
	}
	j, err := newOpportunist(ctx, m, b.Threads)
	if err != nil {
		return err
	}
	defer j.close()
	var all sync.WaitGroup
	var failed error
	all.Go(func() { failed = j.work(ctx) })
	took, err := j.ask(ctx, b.Rounds)
	j.stop.Store(true)
	all.Wait()
	if err := cmp.Or(err, failed); err != nil {
		return err
	}
	iteration := b.note("shrink, iteration, ms", j.iterations)
	b.note("shrink, from asking to having, ms", took)
	for _, t := range took {
		b.Claims.Check("shrink by half, from asking to having less one iteration, ms", t-iteration,
			5, true)
	}
	return nil
}

// opportunist is a job that runs whenever its weights are there, beside another that asks for room.
type opportunist struct {
	broker     *broker.Broker
	job, other *broker.Job
	memory     *seat.Elastic
	bytes      int64
	session    *engine.Session
	request    *engine.Instance
	seat       *seat.Seat
	stop       atomic.Bool
	iterations []float64
}

// newOpportunist loads a model for a job, on a device for its weights and no more.
func newOpportunist(ctx context.Context, m *model, threads int) (j *opportunist, err error) {
	p := m.compiled.Plan
	c, err := core.Config{Device: "cpu:0", Units: threads,
		Memory: share.Bytes(p.PeakBytes(1))}.ForPolicy("fair")
	if err != nil {
		return nil, err
	}
	j = &opportunist{bytes: p.PackedBytes}
	if j.broker, err = broker.New(broker.Config{Config: c}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	for _, a := range []struct {
		name       string
		class      share.Class
		keep, size int64
		job        **broker.Job
	}{{"batch", share.Opportunistic, p.ArenaBytes, p.PeakBytes(1), &j.job},
		{"other", share.Standard, 0, p.PackedBytes / 2, &j.other}} {
		spec := share.Job{Name: a.name, Share: share.Share{Memory: share.Bytes(a.size),
			Elastic: true, Keep: share.Bytes(a.keep), Class: a.class}}
		if *a.job, err = j.broker.Admit(spec, share.Bytes(a.size)); err != nil {
			return nil, err
		}
	}
	j.memory, j.seat = seat.NewElastic(j.job), seat.New(j.job, m.machine.Pool)
	if err = j.memory.Reserve(ctx, p.PackedBytes, p.ArenaBytes); err != nil {
		return nil, err
	}
	j.session, err = engine.Load(p, engine.Options{Device: m.machine.Device, Pool: m.machine.Pool,
		Quota: j.memory.Weights(), ArenaQuota: j.memory.Arenas(), Weights: m.compiled.Weights,
		Discard: m.compiled.Discard})
	if err != nil {
		return nil, err
	}
	if j.request, err = j.session.Take(); err != nil {
		return nil, err
	}
	fill(j.request)
	j.memory.Attach(j.session)
	return j, nil
}

func (j *opportunist) close() {
	if j.session != nil {
		j.session.Close()
	}
	if j.request != nil {
		j.request.Free()
	}
	j.broker.Close()
}

// work runs iteration after iteration until told to stop.
func (j *opportunist) work(ctx context.Context) error {
	var gate device.Gate
	for !j.stop.Load() {
		j.job.Arrive()
		for begun := false; !begun; {
			err := j.memory.Resident(ctx)
			if err == nil {
				gate, err = j.seat.Acquire(ctx)
			}
			if err != nil {
				return err
			}
			if begun = j.memory.Begin(); !begun {
				j.seat.Release()
			}
		}
		j.job.BeginIteration()
		begin := time.Now()
		if err := j.request.Run(ctx, gate); err != nil {
			return err
		}
		j.iterations = append(j.iterations, ms(begin))
		j.job.EndIteration()
		j.memory.End()
		j.job.Complete()
		j.seat.Release()
	}
	return nil
}

// ask takes half of the bytes, again and again, at times that have nothing to do with iterations.
func (j *opportunist) ask(ctx context.Context, times int) (took []float64, err error) {
	for i := range times {
		time.Sleep(time.Duration(40+i*7%40) * time.Millisecond)
		j.other.Arrive()
		begin := time.Now()
		err := j.other.ReserveWait(ctx, core.Persistent, share.Bytes(j.bytes/2))
		if err != nil {
			return nil, err
		}
		took = append(took, ms(begin))
		j.other.Complete()
		if err := j.other.Free(core.Persistent, share.Bytes(j.bytes/2)); err != nil {
			return nil, err
		}
	}
	return took, nil
}
