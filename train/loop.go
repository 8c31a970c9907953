package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirgpu/weir/internal/wholefile"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/data"
	"github.com/weirgpu/weir/train/dist"
	"github.com/weirgpu/weir/train/scale"
	"github.com/weirgpu/weir/train/step"
)

// Event is what a run has come to.
type Event struct {
	Update, Updates int64
	Epoch, Epochs   int // Epoch counts from 1
	Loss            float64
	Rate            float64
	Scale           float64       // of the loss
	Took            time.Duration // the update, with its data
	Waited          time.Duration // part of it: for data, with the device idle
	Idle            float64       // the part of all updates until now for which it was so
	Peers           time.Duration // and for other processes of a team
	Eval            *Evaluation   // nil but after an evaluation
	Wrong           int           // the first batch of the update whose loss is not finite
}

// Updates is how many updates the whole run makes.
func (r *Run) Updates() int64 {
	n := int64(r.recipe.Epochs) * r.perEpoch()
	if s := int64(r.recipe.Steps); s > 0 && (n == 0 || s < n) {
		n = s
	}
	return n
}

// perEpoch is how many updates an epoch has; samples that make no whole update are left out of it.
func (r *Run) perEpoch() int64 { return int64(len(r.data.train.rows) / r.data.update) }

// Train trains from where the run is to its end, and writes what the recipe asks for. When ctx is
// done, it ends after the update that is under way, and keeps a checkpoint, if the recipe has any:
// the error is then ctx's.
func (r *Run) Train(ctx context.Context) (*Result, error) {
	if err := r.mayBegin(); err != nil {
		return nil, err
	}
	if err := r.meet(ctx); err != nil {
		return nil, err
	}
	begin, from := time.Now(), r.done
	err := r.updates(ctx)
	res := r.result(time.Since(begin), r.done-from)
	if err != nil {
		return res, err
	}
	if path := r.recipe.Output; path != "" && r.Ended() {
		if err := r.sound(ctx); err != nil {
			return res, err
		}
		if err := r.Write(path); err != nil {
			return res, err
		}
		res.Model = path
	}
	return res, nil
}

// mayBegin refuses to train a model that could not be written, and to write over the checkpoints of
// a run that was interrupted. Those of one that ended go.
func (r *Run) mayBegin() error {
	if path := r.recipe.Output; path != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := wholefile.Check(path); err != nil {
			return err
		}
	}
	if r.train == nil {
		return fmt.Errorf("%w: the run has ended", ErrDiverged)
	}
	if r.recipe.Checkpoint.To == "" || r.resumed {
		return nil
	}
	if err := r.claim(); err != nil {
		return err
	}
	last, err := r.folder().Last()
	if err != nil {
		return err
	}
	if last != nil && last[keyEnded] != "true" && !r.opts.Anew {
		return fmt.Errorf("%s: %w after update %s: go on from it with --resume, or begin again "+
			"with --anew", r.recipe.Checkpoint.To, ErrInterrupted, last[keyUpdate])
	}
	return r.folder().Clear()
}

// updates makes updates until the run ends or is ended.
func (r *Run) updates(ctx context.Context) error {
	for !r.Ended() && (r.opts.Steps == 0 || r.done < r.opts.Steps) {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, r.Keep(ctx))
		}
		err := r.Next(ctx)
		if errors.Is(err, dist.ErrPeer) || errors.Is(err, data.ErrData) {
			return errors.Join(err, r.Keep(ctx)) // of the updates that are made
		}
		if err != nil {
			return err
		}
	}
	return r.Keep(ctx)
}

// Next makes one update and, where they are due, the evaluation and the checkpoint after it. An
// update that has begun is made to its end, also when ctx is done.
func (r *Run) Next(ctx context.Context) error {
	if err := r.update(ctx); err != nil {
		return err
	}
	whole := r.done%r.perEpoch() == 0
	if whole || r.Ended() {
		if err := r.endEpoch(ctx, int((r.done-1)/r.perEpoch())); err != nil {
			return err
		}
	}
	if r.due(whole) {
		if err := r.onTheWay(ctx); err != nil {
			return err
		}
		r.keptAt = time.Now()
	}
	return nil
}

// Done is how many updates are made.
func (r *Run) Done() int64 { return r.done }

// Ended reports whether there is nothing left to do.
func (r *Run) Ended() bool { return r.done >= r.Updates() || r.history.Stopped }

// event is the update that comes next.
func (r *Run) event() Event {
	e := Event{Update: r.done + 1, Updates: r.Updates(), Epoch: int(r.done/r.perEpoch()) + 1,
		Epochs: r.recipe.Epochs}
	e.Rate = r.recipe.Rate * r.recipe.Schedule.At(e.Update, e.Updates)
	return e
}

// update makes one update.
func (r *Run) update(ctx context.Context) error {
	begin := time.Now()
	e := r.event()
	if err := r.compute(ctx, &e); err != nil {
		return err
	}
	if unbounded(e.Loss) {
		return r.diverged(ctx, e)
	}
	r.done++
	r.history.add(e.Loss)
	e.Took, e.Scale = time.Since(begin), r.scale()
	r.history.took(e)
	e.Idle = r.history.idle()
	if r.opts.Progress != nil {
		r.opts.Progress(e)
	}
	return nil
}

// part is the program of batch i of an update: the last replaces the weights.
func (r *Run) part(i int) *program {
	if i == r.recipe.Accumulate-1 {
		return r.train
	}
	return r.add
}

// fillBatch writes the inputs of batch i of the update that comes next.
func (r *Run) fillBatch(p *program, i int, e *Event) error {
	r.fillDraw(p, i, e)
	r.fillScalars(p, e)
	return r.fillTrain(p, place{done: r.done, batch: i})
}

// fillDraw writes what dropout draws by: the seed, and the number of a batch among those of all
// updates, each of which has as many as it has batches in all shards.
func (r *Run) fillDraw(p *program, i int, e *Event) {
	if to := p.input(step.InputDraw); to != nil {
		each := r.recipe.Accumulate * max(r.recipe.Shards, 1)
		at := (e.Update-1)*int64(each) + int64(i)
		copy(tensor.As[int64](to), []int64{int64(r.recipe.Seed), at})
	}
}

// fillScalars writes the numbers of the optimizer.
func (r *Run) fillScalars(p *program, e *Event) {
	// moments of updates that were skipped as they overflowed were not added up
	for name, v := range r.recipe.Optimizer.Scalars(e.Rate, e.Update-r.skipped()) {
		if to := p.input(name); to != nil {
			tensor.As[float32](to)[0] = v
		}
	}
}

// skipped is how many updates have overflowed.
func (r *Run) skipped() int64 {
	if t := r.variable(scale.VarSkipped); t != nil {
		return tensor.As[int64](t)[0]
	}
	return 0
}

// compute makes an update from its batches. It says nothing of what the loss comes to.
func (r *Run) compute(ctx context.Context, e *Event) error {
	if r.shards != nil {
		return r.computeShards(ctx, e)
	}
	r.clearSums()
	for i := range r.recipe.Accumulate {
		p := r.part(i)
		filling := time.Now()
		if err := r.fillBatch(p, i, e); err != nil {
			return fmt.Errorf("update %d: %w", e.Update, err)
		}
		e.Waited += time.Since(filling)
		// an update that is cut short would leave some weights changed and others not
		if err := r.run(context.WithoutCancel(ctx), p); err != nil {
			return fmt.Errorf("update %d: %w", e.Update, err)
		}
		loss := tensor.As[float32](p.instance.Outputs()[0])[0]
		if !unbounded(e.Loss) {
			e.Wrong = i
		}
		e.Loss += float64(loss) / float64(r.recipe.Accumulate)
	}
	return nil
}

// clearSums begins an update.
func (r *Run) clearSums() {
	for _, name := range r.step.Sums {
		clear(r.variable(name).Data)
	}
}

// endEpoch tries the model and decides whether to go on.
func (r *Run) endEpoch(ctx context.Context, epoch int) error {
	p := Point{Epoch: epoch + 1, Update: r.done, Loss: r.history.mean()}
	if len(r.data.eval.rows) > 0 {
		// without what it comes to, the update under way could not be kept
		e, err := r.Evaluate(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		p.Eval = e
	}
	r.history.end(p, r.recipe.Patience)
	if r.opts.Progress != nil && p.Eval != nil {
		r.opts.Progress(Event{Update: r.done, Updates: r.Updates(), Epoch: epoch + 1,
			Epochs: r.recipe.Epochs, Loss: p.Loss, Eval: p.Eval})
	}
	return nil
}

// due reports whether a checkpoint is to be kept now.
func (r *Run) due(epochEnded bool) bool {
	c := &r.recipe.Checkpoint
	switch {
	case c.Steps > 0:
		return r.done%int64(c.Steps) == 0
	case c.Every > 0:
		return time.Since(r.keptAt) >= c.Every
	}
	return epochEnded
}
