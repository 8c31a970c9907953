package main

import (
	"cmp"
	"context"
	"slices"
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
	asked, err := j.ask(ctx, b.Rounds)
	j.stop.Store(true)
	all.Wait()
	if err := cmp.Or(err, failed); err != nil {
		return err
	}
	j.judge(b, asked)
	return nil
}

// judge compares how long each took that asked with the iteration that was under way.
func (j *opportunist) judge(b *bench, asked []span) {
	var took, less, iterations []float64
	for _, a := range asked {
		took = append(took, a.ms())
		less = append(less, a.ms()-j.during(a.from).ms())
	}
	for _, i := range j.iterations {
		iterations = append(iterations, i.ms())
	}
	b.note("shrink, iteration, ms", iterations)
	b.note("shrink, from asking to having, ms", took)
	b.note("shrink, from asking to having less that iteration, ms", less)
	slices.Sort(less)
	b.Figures["shrink, from asking to having less that iteration, worst, ms"] = less[len(less)-1]
	b.Claims.Check("shrink by half, from asking to having less that iteration, 95 of 100, ms",
		less[(95*len(less)+99)/100-1], 5, true)
}

// span is a time that something took.
type span struct{ from, to time.Time }

func (s span) ms() float64 { return float64(s.to.Sub(s.from)) / float64(time.Millisecond) }

// during is the iteration that was under way at a time, and takes no time if none was.
func (j *opportunist) during(at time.Time) span {
	for _, i := range j.iterations {
		if !at.Before(i.from) && at.Before(i.to) {
			return i
		}
	}
	return span{}
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
	iterations []span // belongs to work until that has ended
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
	var begin time.Time
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
			begin = time.Now()
			if begun = j.memory.Begin(); !begun {
				j.seat.Release()
			}
		}
		j.job.BeginIteration()
		if err := j.request.Run(ctx, gate); err != nil {
			return err
		}
		j.iterations = append(j.iterations, span{begin, time.Now()})
		j.job.EndIteration()
		j.memory.End()
		j.job.Complete()
		j.seat.Release()
	}
	return nil
}

// ask takes half of the bytes, again and again, at times that have nothing to do with iterations.
func (j *opportunist) ask(ctx context.Context, times int) (asked []span, err error) {
	for i := range times {
		time.Sleep(time.Duration(40+i*7%40) * time.Millisecond)
		j.other.Arrive()
		begin := time.Now()
		err := j.other.ReserveWait(ctx, core.Persistent, share.Bytes(j.bytes/2))
		if err != nil {
			return nil, err
		}
		asked = append(asked, span{begin, time.Now()})
		j.other.Complete()
		if err := j.other.Free(core.Persistent, share.Bytes(j.bytes/2)); err != nil {
			return nil, err
		}
	}
	return asked, nil
}
