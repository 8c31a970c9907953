package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/weirgpu/weir/internal/filelock"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/checkpoint"
	"github.com/weirgpu/weir/train/data"
	"github.com/weirgpu/weir/train/dist"
)

// folder is where the run keeps checkpoints.
func (r *Run) folder() checkpoint.Folder {
	return checkpoint.Folder{Path: r.recipe.Checkpoint.To, Keep: r.recipe.Checkpoint.Keep}
}

// claim takes the folder of checkpoints for this run until it is closed.
func (r *Run) claim() (err error) {
	if r.lock != nil {
		return nil
	}
	r.lock, err = r.folder().Lock()
	if errors.Is(err, filelock.ErrTaken) {
		return fmt.Errorf("%s: %w: a run keeps its checkpoints there: end it, or give this one "+
			"another folder", r.recipe.Checkpoint.To, err)
	}
	return err
}

// keep writes a checkpoint, if the recipe has any.
func (r *Run) keep(ctx context.Context) error {
	if r.recipe.Checkpoint.To == "" {
		return nil
	}
	if err := r.sound(ctx); err != nil {
		return err
	}
	meta, err := r.meta()
	if err != nil {
		return err
	}
	if err := r.agree(); err != nil {
		return err
	}
	if err := r.folder().Write(r.done, meta, r.vars); err != nil {
		return fmt.Errorf("no checkpoint of update %d: %w", r.done, err)
	}
	r.kept = r.done
	return nil
}

// onTheWay writes a checkpoint of a run that goes on. One that cannot be written, such as on a full
// disk, ends nothing: what was computed is still in memory, and the next may be.
func (r *Run) onTheWay(ctx context.Context) error {
	err := r.keep(ctx)
	if err == nil || final(err) {
		return err
	}
	r.opts.Log.Warn("the run goes on without a checkpoint", "update", r.done, "newest", r.kept,
		"error", err)
	return nil
}

// final reports whether a checkpoint that is not written will not be later.
func final(err error) bool { return errors.Is(err, ErrDiverged) || errors.Is(err, dist.ErrPeer) }

// Keep writes a checkpoint of the updates that are made, as [Run.Train] does at the end of a run,
// and tries again as [Options].Room says.
func (r *Run) Keep(ctx context.Context) error {
	for {
		err := r.keep(ctx)
		if err == nil || final(err) {
			return err
		}
		if r.opts.Room == nil || !r.opts.Room(err) {
			return fmt.Errorf("%w; updates %d to %d are lost", err, r.kept+1, r.done)
		}
	}
}

// most bounds weights that can be trained: their squares are float32 numbers.
const most = 1 << 63

// sound refuses weights and statistics from which no run recovers: those that are not finite or too
// large for sums of their squares, and those with which the batch that comes next has no finite
// loss. The loss of an update, of the weights before it, does not show what it has made of them.
func (r *Run) sound(ctx context.Context) error {
	const nothing = "after update %d; nothing is kept of it: lower the rate, or clip the gradients"
	for i := range r.step.Params {
		if v := r.vars[i]; !within(v.Tensor, most) {
			return fmt.Errorf("%w: weight %q is not finite, or too large to go on, "+nothing,
				ErrDiverged, v.Name, r.done)
		}
	}
	loss, err := r.next(ctx)
	if err != nil {
		return err
	}
	if unbounded(loss) {
		return fmt.Errorf("%w: the loss of the batch that comes next is %v "+nothing, ErrDiverged,
			loss, r.done)
	}
	return nil
}

// next is the loss of the batch that comes next, by the graph of evaluations.
func (r *Run) next(ctx context.Context) (float64, error) {
	e := r.event()
	at := int(r.done%r.perEpoch()) * r.data.update
	rows := r.orderOf(e.Epoch - 1)[at : at+r.data.batch]
	err := r.fill(r.eval, &r.data.train, rows, e.Epoch)
	if errors.Is(err, data.ErrData) {
		return 0, nil // it ends the run, and says nothing of the weights
	}
	if err != nil {
		return 0, err
	}
	// without what it comes to, the state could not be kept
	if err := r.run(context.WithoutCancel(ctx), r.eval); err != nil {
		return 0, err
	}
	sum := 0.0
	for _, v := range tensor.As[float32](r.eval.instance.Outputs()[0]) {
		sum += float64(v)
	}
	return sum, nil
}

func unbounded(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// within reports whether all real numbers of a tensor are finite and at most so far from zero.
func within(t *tensor.Tensor, most float64) bool {
	if t.DType != tensor.Float32 {
		return true
	}
	for _, v := range tensor.As[float32](t) {
		if !(math.Abs(float64(v)) <= most) {
			return false
		}
	}
	return true
}

func finite(t *tensor.Tensor) bool { return within(t, math.MaxFloat32) }

// Resume goes on from the newest checkpoint that is whole. Without any the run begins anew, and the
// error is nil.
func (r *Run) Resume() error {
	if r.recipe.Checkpoint.To == "" {
		return fmt.Errorf("the recipe keeps no checkpoints: give it checkpoint: {to: FOLDER}")
	}
	if err := r.claim(); err != nil {
		return err
	}
	r.resumed = true
	meta, damaged, err := r.folder().Newest(r.vars)
	for _, d := range damaged {
		r.opts.Log.Warn("passed over a damaged checkpoint", "error", d)
	}
	if len(damaged) == 0 && errors.Is(err, fs.ErrNotExist) {
		r.opts.Log.Info("no checkpoint: the run begins anew",
			"folder", filepath.Clean(r.recipe.Checkpoint.To))
		return nil
	}
	if err != nil {
		return err
	}
	return r.restore(meta)
}
