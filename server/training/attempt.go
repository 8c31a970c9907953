package training

import (
	"context"
	"errors"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/train"
)

// What ends an attempt without a failure.
var (
	errStop    = errors.New("it was stopped")
	errStopped = errors.New("the server stopped")
)

// order is what a training is told between two updates.
type order struct {
	what  string                 // pause, continue, stop
	try   func(*train.Run) error // in place of those
	share *weir.Share
	reply chan error
}

// attempt takes memory and trains until the end, or until the memory is to be given back. Without
// an error the training has ended.
func (t *training) attempt(p *train.Prepared) (err error) {
	s := t.of.o.Server
	w, err := s.Enter("(training) "+t.state.Name, weir.Bytes(p.Bytes()), t.terms)
	if err != nil {
		return err
	}
	w.Expect(p.Update())
	t.mu.Lock()
	t.job = w
	t.mu.Unlock()
	defer t.left()
	run, err := p.Open(t.of.stop, train.Options{Quota: w.Quota(), Log: t.of.o.Log,
		Progress: t.progress, Room: t.room})
	if err != nil {
		w.Close()
		return err
	}
	defer func() {
		err = errors.Join(err, run.Close())
		w.Close()
	}()
	if err := run.Resume(); err != nil {
		return err
	}
	t.phase(Running, nil)
	return t.train(run)
}

// left takes over what the job has used in all.
func (t *training) left() {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.job.Job().Status()
	t.state.DeviceS += u.Used.Seconds()
	t.state.Revocations += u.Counts.Revocations
	t.job = nil
}

// room waits where a disk is full, as long as the server may wait.
func (t *training) room(err error) bool {
	t.of.o.Log.Warn("no room for a checkpoint", "training", t.state.Name, "error", err)
	select {
	case <-t.of.late:
		return false
	case <-time.After(lookAgain):
		return true
	}
}

// train makes updates under the device time of the job.
func (t *training) train(run *train.Run) error {
	ctx := context.Background() // an update that has begun is made to its end
	for !run.Ended() {
		if why := t.between(run); why != nil {
			return errors.Join(why, t.do(ctx, run, run.Keep))
		}
		if err := t.do(ctx, run, run.Next); err != nil {
			return err
		}
	}
	var res *train.Result
	err := t.do(ctx, run, func(ctx context.Context) (err error) {
		res, err = run.Train(ctx)
		return err
	})
	if err != nil {
		return err
	}
	t.set(func(s *State) {
		s.Phase, s.Update, s.Updates, s.Loss = Done, res.Steps, res.Steps, res.Loss
		s.Metric, s.MetricName, s.EvalLoss = res.Metric, res.MetricName, res.EvalLoss
		s.Digest, s.Model, s.Scale = res.Digest, res.Model, res.Scale
	})
	return nil
}

// do runs a part of the training once the device is granted.
func (t *training) do(ctx context.Context, run *train.Run,
	part func(context.Context) error) error {
	return t.job.Do(ctx, func(gate device.Gate) error {
		run.Under(gate)
		return part(ctx)
	})
}

// between does what the training was told, and returns why it is to give its memory back.
func (t *training) between(run *train.Run) error {
	paused := false
	for {
		if t.of.stop.Err() != nil {
			return errStopped
		}
		if t.job.Recalled().Err() != nil {
			return errors.Join(t.job.WhyRecalled(), context.Cause(t.job.Recalled()))
		}
		var o order
		if paused {
			select {
			case <-t.of.stop.Done():
				continue
			case <-t.job.Recalled().Done():
				continue
			case o = <-t.orders:
			}
		} else {
			select {
			case o = <-t.orders:
			default:
				return nil
			}
		}
		var why error
		if paused, why = t.obey(run, o, paused); why != nil {
			return why
		}
	}
}

// obey carries out an order, and answers it.
func (t *training) obey(run *train.Run, o order, paused bool) (still bool, stop error) {
	var err error
	switch {
	case o.try != nil:
		err = t.do(context.Background(), run, func(context.Context) error {
			return o.try(run)
		})
	case o.share != nil:
		if err = t.job.SetShare(*o.share); err == nil {
			t.mu.Lock()
			t.terms = *o.share
			t.mu.Unlock()
		}
	case o.what == "pause":
		paused = true
		t.phase(Paused, nil)
	case o.what == "continue":
		paused = false
		t.phase(Running, nil)
	case o.what == "stop":
		stop = errStop
	}
	o.reply <- err
	return paused, stop
}

// rest waits before memory is asked for again, and reports whether the training goes on. One that
// was stopped waits until it is told to.
func (t *training) rest() bool {
	var again <-chan time.Time
	for {
		if t.now().Phase == Waiting {
			again = time.After(lookAgain)
		}
		select {
		case <-t.of.stop.Done():
			return false
		case <-again:
			return true
		case o := <-t.orders:
			switch {
			case o.what == "continue":
				o.reply <- nil
				return true
			case o.what == "stop":
				t.phase(Stopped, nil)
				again = nil
				o.reply <- nil
			case o.share != nil:
				t.mu.Lock()
				t.terms = *o.share
				t.mu.Unlock()
				o.reply <- nil
			default:
				o.reply <- errAway
			}
		}
	}
}
