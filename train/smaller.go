package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/train/step"
)

// Within has the plans of runs that are opened from now on take less memory than they would, the
// largest first, so that a run holds at most so many bytes; 0 stands for no bound. The error is of
// kind [plan.ErrArena] where that cannot be, and the plans are then those from before.
func (p *Prepared) Within(ctx context.Context, most int64) error {
	plans := p.whole
	for most > 0 {
		bytes := p.bytes(plans)
		if bytes <= most {
			break
		}
		largest := 0
		for i, q := range plans {
			if q != nil && q.ArenaBytes > plans[largest].ArenaBytes {
				largest = i
			}
		}
		bound := plans[largest].ArenaBytes - (bytes - most)
		if bound < 1 {
			return fmt.Errorf("%s: %w: a run takes %d bytes, %d of them state, and %d are "+
				"allowed: allow more, or lower the batch", p.recipe.Model, plan.ErrArena,
				bytes, p.step.State.Bytes(), most)
		}
		q, err := p.compile(ctx, p.graphs()[largest], bound)
		if err != nil {
			return fmt.Errorf("%s: %d bytes are allowed for all of a run: %w", p.recipe.Model, most,
				err)
		}
		plans[largest] = q
	}
	p.plans = plans
	return nil
}

// graphs are those of plans.
func (p *Prepared) graphs() [4]step.Graph {
	all := [4]step.Graph{p.step.Train, p.step.Add, p.step.Eval}
	if s := p.step.Shards; s != nil {
		all[3] = s.Apply
	}
	return all
}

// trades are ways to take less memory than the plan of an update does, which may compute again.
func (p *Prepared) trades(ctx context.Context) ([]plan.Trade, error) {
	o, err := p.planOptions(p.step.Train)
	if err != nil {
		return nil, err
	}
	o.Recompute = step.Recompute()
	all, err := plan.Trades(ctx, p.step.Train.Graph, o, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
	return slices.DeleteFunc(all, func(t plan.Trade) bool {
		return t.ArenaBytes >= p.plans[0].ArenaBytes
	}), err
}
