package train

import (
	"context"
	"fmt"
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/data"
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

// blame returns the first node of an update that gives what is not finite. The state is that before
// the update, afterwards.
func (r *Run) blame(ctx context.Context, e Event) (string, error) {
	history := r.history
	defer func() { r.history = history }()
	if err := r.goBack(); err != nil {
		return "", err
	}
	for r.done < e.Update-1 {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		again := r.event()
		if err := r.compute(ctx, r.order(), &again); err != nil {
			return "", err
		}
		r.done++
	}
	order, k := r.order(), r.recipe.Accumulate
	r.clearSums()
	for i := range k {
		p := r.part(i)
		r.fill(p, order, i, &e)
		node, err := suspect(ctx, p)
		if node != "" || err != nil {
			return node, err
		}
		if i == k-1 {
			break
		}
		if err := p.instance.Run(ctx, r.opts.Gate); err != nil {
			return "", err
		}
	}
	return "no node by the operators' definitions: report it", nil
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

// order is that of the epoch under way.
func (r *Run) order() []int {
	return data.Order(r.data.train.rows, r.recipe.Seed, int(r.done/r.perEpoch()))
}

// suspect evaluates a program's graph on its inputs, by the definitions of the operators, and
// returns the first node with a result that is not finite.
func suspect(ctx context.Context, p *program) (string, error) {
	g := p.plan.Graph.Clone()
	g.Outputs = nil
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v != nil && v.Type.DType == tensor.Float32 {
				g.Outputs = append(g.Outputs, v)
			}
		}
	}
	out, err := g.Eval(ctx, p.instance.Inputs())
	if err != nil {
		return "", err
	}
	for i, v := range g.Inputs {
		if !finite(p.instance.Inputs()[i]) {
			return fmt.Sprintf("input %q, or the weight of that name", v.Name), nil
		}
	}
	for i, t := range out {
		if !finite(t) {
			return producer(g.Outputs[i]), nil
		}
	}
	return "", nil
}

func producer(v *graph.Value) string { return v.Producer.String() }

func finite(t *tensor.Tensor) bool {
	if t.DType != tensor.Float32 {
		return true
	}
	for _, v := range tensor.As[float32](t) {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return false
		}
	}
	return true
}
