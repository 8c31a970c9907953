package main

import (
	"context"
	"errors"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// preempted follows a recipe as an opportunistic job beside one of the latency class, which takes
// the device from it again and again.
func (b *bench) preempted(path string) (_ row, err error) {
	r, err := recipe.Load(path)
	if err != nil {
		return row{}, err
	}
	r.Checkpoint.To = ""
	host, err := weir.NewHost(weir.HostOptions{Policy: "priority", Threads: 2})
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	shop := seat.Of(host)
	p, err := train.Prepare(context.Background(), r, shop.Machine)
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	job := func(name string, class share.Class, need int64) (*seat.Workplace, error) {
		return seat.NewWorkplace(shop, share.Job{Name: name, Share: share.Share{Class: class}},
			share.Bytes(need))
	}
	trains, err := job("training", share.Opportunistic, p.Bytes())
	if err != nil {
		return row{}, err
	}
	defer trains.Close()
	takes, err := job("neighbour", share.Latency, 1)
	if err != nil {
		return row{}, err
	}
	defer takes.Close()

	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- interrupt(ctx, takes) }()
	res, err := under(p, trains)
	end()
	if err = errors.Join(err, <-ended); err != nil {
		return row{}, err
	}
	n := trains.Job().Status().Counts.Revocations
	b.Claims.Check("preemptions of a training", float64(n), float64(b.preemptions), false)
	return row{What: "preempted by another job", Times: n, Updates: res.Steps,
		Digest: res.Digest}, nil
}

// interrupt wants the device for a moment, often.
func interrupt(ctx context.Context, w *seat.Workplace) error {
	for ctx.Err() == nil {
		err := w.Do(ctx, func(device.Gate) error { return nil })
		if err != nil && ctx.Err() == nil {
			return err
		}
		time.Sleep(20 * time.Microsecond)
	}
	return nil
}

// under follows a recipe by the device time of a job.
func under(p *train.Prepared, w *seat.Workplace) (_ *train.Result, err error) {
	ctx := context.Background()
	t, err := p.Open(ctx, train.Options{Quota: w.Quota(), Device: w.Do})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return t.Train(ctx)
}
