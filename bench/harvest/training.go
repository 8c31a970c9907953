package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// trained is a training that makes updates while it is let.
type trained struct {
	prepared *train.Prepared
	work     *seat.Workplace
	run      *train.Run
	made     atomic.Int64 // updates

	mu    sync.Mutex
	let   chan struct{} // closed while it is let
	err   error
	end   context.CancelFunc
	ended chan struct{}
}

// open makes the recipe of the example a job of the opportunistic class, which waits at first.
func open(ctx context.Context, host *weir.Host) (_ *trained, err error) {
	r, err := recipe.Load("examples/digits/recipe.yaml")
	if err != nil {
		return nil, err
	}
	r.Checkpoint.To, r.Output, r.Epochs = "", "", 1<<20
	shop := seat.Of(host)
	t := &trained{let: make(chan struct{}), ended: make(chan struct{})}
	if t.prepared, err = train.Prepare(ctx, r, shop.Machine); err != nil {
		return nil, err
	}
	t.work, err = seat.NewWorkplace(shop, share.Job{Name: "training",
		Share: share.Share{Class: share.Opportunistic}}, share.Bytes(t.prepared.Bytes()))
	if err != nil {
		return nil, errors.Join(err, t.prepared.Close())
	}
	t.work.Expect(t.prepared.Update())
	t.run, err = t.prepared.Open(ctx, train.Options{Quota: t.work.Quota(), Device: t.work.Do})
	if err != nil {
		t.work.Close()
		return nil, errors.Join(err, t.prepared.Close())
	}
	ctx, t.end = context.WithCancel(ctx)
	go t.updates(ctx)
	return t, nil
}

// updates makes updates while that is let, until ctx is done.
func (t *trained) updates(ctx context.Context) {
	defer close(t.ended)
	for {
		t.mu.Lock()
		let := t.let
		t.mu.Unlock()
		select {
		case <-let:
		case <-ctx.Done():
			return
		}
		if err := t.run.Next(ctx); err != nil {
			t.mu.Lock()
			t.err = err
			t.mu.Unlock()
			return
		}
		t.made.Add(1)
	}
}

// goes lets the training make updates, or has it wait.
func (t *trained) goes(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if on {
		close(t.let)
	} else {
		t.let = make(chan struct{})
	}
}

func (t *trained) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// used is the device time of all updates up to now.
func (t *trained) used() time.Duration { return t.work.Job().Status().Used }

func (t *trained) close() error {
	t.end()
	<-t.ended
	err := t.run.Close()
	t.work.Close()
	return errors.Join(err, t.prepared.Close())
}
