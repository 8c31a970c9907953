package step

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/train/scale"
)

// ErrNothing is the kind of error about a model in which nothing can be trained.
var ErrNothing = errors.New("nothing to train")

// ErrName is the kind of error about a name to train or to freeze that no weight has.
var ErrName = errors.New("no weight of that name")

// Options say what one step does.
type Options struct {
	// Shapes are those of the model's inputs for one batch; the first axis of each is that of the
	// samples.
	Shapes map[string][]int
	Loss   Loss
	// Others are losses beside it, which are added up.
	Others []Loss
	// Distil has the model learn from another one, too.
	Distil *Distil
	// Train and Freeze choose weights by name, with * for any text: a weight is trained if one of
	// Train matches and none of Freeze does. Without Train all that look like weights are.
	Train, Freeze []string
	Dropout       Dropout
	Optimizer     Optimizer
	// Clip is the norm of all gradients together above which they are scaled down to it; 0 for
	// none.
	Clip float64
	// Accumulate is the number of batches whose gradients are added up for one update; 0 and 1 for
	// one.
	Accumulate int
	// Shards is the number of parts of a batch that are computed one by one, or by several
	// processes; 0 and 1 for a batch that is computed at once. Slots are spare variables for sums
	// of them.
	Shards, Slots int
	// Average, when above 0, keeps a running average of the weights, which keeps so much of itself
	// at each update. Evaluation uses it.
	Average float64
	// Scale is the rule of what the loss is multiplied by before it is differentiated. Mixed
	// precision wants one that is not none, if only a constant of 1: where gradients are unscaled
	// it ends.
	Scale scale.Options
}

// Graph is one graph of a step, and what its iterations replace of the state.
type Graph struct {
	*graph.Graph
	Updates []plan.Update
}

// Step is one step of training as graphs on one state. Their inputs are those of the model under
// their names, the labels, the optimizer's scalars, and variables.
type Step struct {
	// Train computes the mean loss of a batch, output 0, and replaces variables; of a shard of it,
	// and what that comes to, where there are Shards.
	Train Graph
	// Add only adds the gradients of a batch to those of the batches before it; its graph is nil
	// where none are accumulated. The variables of Sums begin an update as zeros.
	Add  Graph
	Sums []string
	// Eval computes, of a batch, the loss of each sample, output 0, and the scores, output 1.
	Eval Graph

	State  *plan.State
	Kept   int     // how many variables, which begin the state, outlive an update
	Params []Param // in the order of the variables, which they begin
	Labels Label
	// Others are the labels of other losses; those without a name are no input.
	Others []Label
	Shards *Shards // nil where batches are computed at once
	// Scale are the variables of the scale of the loss, none where it has none.
	Scale []scale.Variable
}

// Recompute is what a plan of a step spends on a smaller arena: what the backward half reads again
// is most of it, and much of that costs little to compute twice. Arenas that fit caches stay as
// they are.
func Recompute() plan.Recompute {
	return plan.Recompute{MostTime: 1.1, LeastArena: 32 << 20}
}

// Label is the input for what a model should have given.
type Label struct {
	Name    string
	Type    op.Type // for one batch
	Classes int     // labels are whole numbers from 0 to before it; 0 where they are any numbers
	Steps   int     // of the scores, of CTC; 0 of other losses
	// Probabilities is set where the scores of the model are those of the loss after a sigmoid or
	// softmax.
	Probabilities bool
}

// Build makes the step of a model, which is not changed.
func Build(model *graph.Graph, o Options) (*Step, error) {
	if o.Shards > 1 {
		return buildShards(model, o)
	}
	b, err := newBuilder(model, o)
	if err != nil {
		return nil, err
	}
	s := &Step{Params: b.params}
	loss, ds, err := b.backward(o)
	if err != nil {
		return nil, err
	}
	s.Labels, s.Others = loss.label, loss.others
	if o.Accumulate > 1 {
		if err := s.accumulate(model, o); err != nil {
			return nil, err
		}
		ds = b.summed(ds, o.Accumulate)
		s.Sums = b.sums
	}
	b.scaled(o, ds)
	s.Scale = b.scale.Variables()
	s.Kept = len(b.vars)
	if s.State, err = plan.NewState(b.vars); err != nil {
		return nil, err
	}
	if s.Train, err = b.finish(loss.mean); err != nil {
		return nil, err
	}
	return s, s.evaluation(model, o)
}

// backward adds the loss of the graph, and its gradients by the weights.
func (b *builder) backward(o Options) (*loss, []*graph.Value, error) {
	return b.backwardFrom(o, func() {})
}

// backwardFrom is backward, where named is called when weights and statistics are inputs, and may
// name them anew.
func (b *builder) backwardFrom(o Options, named func()) (*loss, []*graph.Value, error) {
	b.train()
	named()
	if err := b.drop(o.Dropout); err != nil {
		return nil, nil, err
	}
	b.become(b.normalise()...)
	values := b.values()
	l, all, err := b.losses(o)
	if err != nil {
		return nil, nil, err
	}
	if err := b.distil(o, l, len(all), values); err != nil {
		return nil, nil, err
	}
	if err := b.wholeAttention(append(all, l)...); err != nil {
		return nil, nil, err
	}
	if b.scale, err = scale.New(b.g, o.Scale, b.fresh); err != nil {
		return nil, nil, err
	}
	ds, err := b.gradients(o, l, all)
	return l, ds, err
}

// gradients are those of the weights: of all losses together, or each of those by which it is to be
// trained.
func (b *builder) gradients(o Options, l *loss, all []*loss) ([]*graph.Value, error) {
	losses := slices.Concat([]Loss{o.Loss}, o.Others)
	if !slices.ContainsFunc(losses, func(l Loss) bool { return len(l.Train) > 0 }) {
		return grad.Backward(b.g, grad.Objective{Of: []*graph.Value{b.scale.Loss(l.mean)},
			By: b.weights})
	}
	sums := map[*graph.Value]*graph.Value{}
	for i, one := range losses {
		by, err := b.trainedBy(one)
		if err != nil {
			return nil, err
		}
		ds, err := grad.Backward(b.g, grad.Objective{Of: []*graph.Value{
			b.scale.Loss(all[i].mean)}, By: by})
		if err != nil {
			return nil, err
		}
		for k, w := range by {
			sums[w] = b.plus(sums[w], ds[k])
		}
	}
	ds := make([]*graph.Value, len(b.weights))
	for i, w := range b.weights {
		if ds[i] = sums[w]; ds[i] == nil {
			return nil, fmt.Errorf("%w: train: no loss trains weight %q: name it, or freeze it",
				ErrLoss, w.Name)
		}
	}
	return ds, nil
}

// trainedBy are the weights that a loss trains.
func (b *builder) trainedBy(l Loss) (by []*graph.Value, err error) {
	used := make([]bool, len(l.Train))
	for _, w := range b.weights {
		if len(l.Train) == 0 || matchesOne(l.Train, w.Name, used) {
			by = append(by, w)
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return nil, fmt.Errorf("%w: loss: train: %w: %q", ErrLoss, ErrName, l.Train[i])
	}
	return by, nil
}

// scaled adds what weights become, given the gradients of the scaled loss: where these overflow,
// all that the optimizer replaces stays as it was.
func (b *builder) scaled(o Options, ds []*graph.Value) {
	ds = b.scale.Gradients(ds)
	first := len(b.updates)
	b.optimize(o, ds)
	for i := range b.updates[first:] {
		if r := &b.updates[first+i]; !r.finite {
			r.by = b.scale.Keep(r.by, b.g.Input(r.variable))
		}
	}
	for _, v := range b.scale.Variables() {
		b.vars = append(b.vars, plan.Variable{Name: v.Name, DType: v.Start.DType})
		b.become(replaced{v.Name, v.Next, false})
	}
}

// accumulate makes the graph that adds gradients up.
func (s *Step) accumulate(model *graph.Graph, o Options) error {
	b, err := newBuilder(model, o)
	if err != nil {
		return err
	}
	loss, ds, err := b.backward(o)
	if err != nil {
		return err
	}
	for i, w := range b.weights {
		sum := b.variable(w.Name+"/sum", w.Type)
		b.become(replaced{sum.Name, b.op("Add", nil, sum, ds[i]), false})
	}
	s.Add, err = b.finish(loss.mean)
	return err
}

// summed are the means of the gradients of several batches.
func (b *builder) summed(ds []*graph.Value, n int) (means []*graph.Value) {
	for i, w := range b.weights {
		sum := b.variable(w.Name+"/sum", w.Type)
		b.sums = append(b.sums, sum.Name)
		all := b.op("Add", nil, sum, ds[i])
		means = append(means, b.op("Mul", nil, all, b.number(1/float64(n))))
	}
	return means
}

// evaluation makes the graph that tries the model.
func (s *Step) evaluation(model *graph.Graph, o Options) error {
	b, err := newBuilder(model, o)
	if err != nil {
		return err
	}
	b.train()
	Still(b.g)
	if o.Average > 0 {
		for _, w := range b.weights {
			w.Name += averageSuffix
		}
	}
	l, _, err := b.losses(o)
	if err != nil {
		return err
	}
	b.updates = nil
	s.Eval, err = b.finish(l.each, l.scores)
	if err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	return nil
}
