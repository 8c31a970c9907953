package train

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/train/step"
)

// Within has plans take less memory, the largest first, so that a run holds at most so many bytes.
// The error is of kind [plan.ErrArena] where that cannot be.
func (p *Prepared) Within(ctx context.Context, most int64) error {
	for over := p.Bytes() - most; over > 0; over = p.Bytes() - most {
		largest := 0
		for i, q := range p.plans {
			if q != nil && q.ArenaBytes > p.plans[largest].ArenaBytes {
				largest = i
			}
		}
		bound := p.plans[largest].ArenaBytes - over
		if bound < 1 {
			return fmt.Errorf("%s: %w: a run takes %d bytes, %d of them state, and %d are "+
				"allowed: allow more, or lower the batch", p.recipe.Model, plan.ErrArena,
				p.Bytes(), p.step.State.Bytes(), most)
		}
		q, err := p.compile(ctx, p.graphs()[largest], bound)
		if err != nil {
			return fmt.Errorf("%s: %d bytes are allowed for all of a run: %w", p.recipe.Model, most,
				err)
		}
		p.plans[largest] = q
	}
	return nil
}

// graphs are those of plans.
func (p *Prepared) graphs() [3]step.Graph {
	return [3]step.Graph{p.step.Train, p.step.Add, p.step.Eval}
}

// trades are ways to take less memory than the plan of an update does.
func (p *Prepared) trades(ctx context.Context) ([]plan.Trade, error) {
	o, err := p.planOptions(p.step.Train)
	if err != nil {
		return nil, err
	}
	return plan.Trades(ctx, p.step.Train.Graph, o, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
}
