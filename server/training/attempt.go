package training

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/internal/filelock"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/checkpoint"
)

// What ends an attempt without a failure.
var (
	errStop    = errors.New("it was stopped")
	errStopped = errors.New("the server stopped")
	errAnew    = errors.New("its memory is taken anew, under another cap")
	errLate    = errors.New("the server ends and waits no longer")
)

// order is what a training is told between two updates.
type order struct {
	what  string                 // pause, continue, stop
	try   func(*train.Run) error // in place of those
	cap   *weir.Bytes            // of memory, in place of those; 0: none
	reply chan error
}

// attempt takes memory and trains until the end, or until the memory is to be given back. Without
// an error the training has ended.
func (t *training) attempt(p *train.Prepared) (err error) {
	if err := t.unclaimed(); err != nil {
		return err
	}
	s := t.of.o.Server
	w, err := s.Enter("(training) "+t.state.Name, weir.Bytes(p.Bytes()), t.terms)
	if err != nil {
		return err
	}
	w.Expect(p.Update())
	t.waits = 0
	t.mu.Lock()
	t.job = w
	t.mu.Unlock()
	defer t.left()
	defer context.AfterFunc(w.Recalled(), t.hurry)()
	defer context.AfterFunc(t.of.stop, t.hurry)()
	run, err := p.Open(t.of.stop, train.Options{Quota: w.Quota(), Device: w.Do, Late: t.of.late,
		Log: t.of.o.Log, Progress: t.progress, Room: t.room})
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
	t.phase(t.held.or(Running), nil)
	return t.train(run)
}

// unclaimed looks whether another run keeps its checkpoints in the training's folder, before memory
// is taken.
func (t *training) unclaimed() error {
	c := &t.recipe.Checkpoint
	lock, err := checkpoint.Folder{Path: c.To, Keep: c.Keep}.Lock()
	if errors.Is(err, filelock.ErrTaken) {
		return fmt.Errorf("%s: %w: another run keeps its checkpoints there", c.To, err)
	}
	if err != nil {
		return nil // the run says more
	}
	return lock.Close()
}

// hurry lets an update under way come to its end soon, for which a model, or the end of the server,
// waits: neither a limit nor the requests that come hold it back.
func (t *training) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.job != nil {
		s := t.job.Job().Spec().Share
		s.Class, s.Compute, s.Limit = weir.Standard, 0, 0
		_ = t.job.SetShare(s) // else it waits its time
	}
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

// mostWaits is how often a training whose memory a model needs looks for room for a checkpoint
// before it gives up what it has computed since the last: the model is not kept waiting for ever.
const mostWaits = 5

// room waits where a disk is full, as long as the server and its models may wait.
func (t *training) room(err error) bool {
	t.of.o.Log.Warn("no room for a checkpoint", "training", t.state.Name, "error", err)
	t.set(func(s *State) { s.Reason, _, _ = strings.Cut(err.Error(), "\n") })
	select {
	case <-t.of.late.Done():
		return false
	case <-time.After(lookAgain):
	}
	if t.job.WhyRecalled() != nil {
		t.waits++
	}
	return t.waits < mostWaits
}

// train makes updates under the device time of the job.
func (t *training) train(run *train.Run) error {
	ctx := context.Background() // an update that has begun is made to its end
	for !run.Ended() {
		if why := t.between(run); why != nil {
			if err := run.Keep(ctx); err != nil {
				why = fmt.Errorf("%w: %w", why, err)
			}
			return why
		}
		if err := run.Next(ctx); err != nil {
			return err
		}
	}
	res, err := run.Train(ctx)
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

// between does what the training was told, and returns why it is to give its memory back.
func (t *training) between(run *train.Run) error {
	for {
		if t.of.stop.Err() != nil {
			return errStopped
		}
		if t.job.Recalled().Err() != nil {
			why := context.Cause(t.job.Recalled())
			if t.held == Paused { // nobody has it go on but who paused it
				why = fmt.Errorf("%w: %w", errStop, why)
			}
			return why
		}
		var o order
		if t.held == Paused {
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
		if why := t.obey(run, o); why != nil {
			return why
		}
	}
}

// obey carries out an order, and answers it.
func (t *training) obey(run *train.Run, o order) (stop error) {
	var err error
	switch {
	case o.try != nil:
		err = o.try(run)
	case o.cap != nil:
		var anew bool
		if anew, err = t.within(run.Prepared, *o.cap); anew {
			stop = errAnew
		}
	case o.what == "pause":
		t.hold(Paused)
		t.phase(Paused, nil)
	case o.what == "continue":
		t.hold("")
		t.phase(Running, nil)
	case o.what == "stop":
		t.hold(Stopped)
		stop = errStop
	}
	o.reply <- err
	return stop
}

// rest waits before memory is asked for again, and reports whether the training goes on. One that
// was stopped waits until it is told to.
func (t *training) rest(p *train.Prepared) bool {
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
				t.hold("")
				o.reply <- nil
				return true
			case o.cap != nil:
				_, err := t.within(p, *o.cap)
				o.reply <- err
			case o.what == "stop":
				t.hold(Stopped)
				t.phase(Stopped, errStop)
				again = nil
				o.reply <- nil
			default:
				o.reply <- errAway
			}
		}
	}
}
