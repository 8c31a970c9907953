package train

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/device"
)

// diverged says where the loss of an update that is no number comes from. The update has written
// over the weights; runs are deterministic, so it goes back to the newest checkpoint, or to the
// start, makes the updates since then again, and looks at every value of the next.
func (r *Run) diverged(ctx context.Context, e Event) error {
	err := fmt.Errorf("%w: the loss of update %d is %v", ErrDiverged, e.Update, e.Loss)
	node, from := r.blame(ctx, e)
	if from != nil {
		return fmt.Errorf("%w; where it comes from is not known: %w", err, from)
	}
	return fmt.Errorf("%w: the first value that is not finite is of %s; lower the rate, or clip "+
		"the gradients", err, node)
}

// blame returns the first node of an update that gives what is not finite. The run gives its memory
// back for that, and computes nothing afterwards.
func (r *Run) blame(ctx context.Context, e Event) (string, error) {
	history := r.history
	defer func() { r.history = history }()
	if r.shards != nil { // weights are as they were before the update
		return r.suspectShard(ctx, e)
	}
	if err := r.goBack(); err != nil {
		return "", err
	}
	for r.done < e.Update-1 {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		again := r.event()
		if err := r.compute(ctx, &again); err != nil {
			return "", err
		}
		r.done++
	}
	r.clearSums()
	for i := range e.Wrong {
		p := r.part(i)
		if err := r.fillBatch(p, i, &e); err != nil {
			return "", err
		}
		if err := r.run(ctx, p); err != nil {
			return "", err
		}
	}
	p := r.part(e.Wrong)
	if err := r.fillBatch(p, e.Wrong, &e); err != nil {
		return "", err
	}
	return r.look(ctx, p)
}

// look returns the first node of a program that gives, for what its inputs hold, what is not
// finite. The run gives its memory back for that.
func (r *Run) look(ctx context.Context, p *program) (string, error) {
	s := suspect{graph: p.plan.Graph, quota: r.opts.Quota}
	for _, t := range p.instance.Inputs() {
		s.in = append(s.in, t.Clone())
	}
	r.unload()
	var node string
	err := r.opts.Device(ctx, func(g device.Gate) (err error) {
		s.gate = g
		node, err = s.find(ctx)
		return err
	})
	return node, err
}

// goBack takes the newest state that is kept, or else that of the start.
func (r *Run) goBack() error {
	if r.recipe.Checkpoint.To == "" {
		return r.start()
	}
	meta, _, err := r.folder().Newest(r.vars)
	if err != nil {
		return r.start()
	}
	return r.restore(meta)
}
