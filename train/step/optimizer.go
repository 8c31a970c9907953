package step

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// OptimizerKind is a rule by which gradients change weights.
type OptimizerKind string

// The optimizers, each as PyTorch or its paper defines it.
const (
	SGD      OptimizerKind = "sgd"
	Momentum OptimizerKind = "momentum" // torch.optim.SGD with momentum
	Adam     OptimizerKind = "adam"     // Kingma and Ba 2015; Decay is added to the gradient
	AdamW    OptimizerKind = "adamw"    // Loshchilov and Hutter 2019
	Adagrad  OptimizerKind = "adagrad"  // Duchi, Hazan and Singer 2011
	LAMB     OptimizerKind = "lamb"     // You et al. 2020, algorithm 2
)

// Optimizers lists the optimizers.
func Optimizers() []OptimizerKind {
	return []OptimizerKind{SGD, Momentum, Adam, AdamW, Adagrad, LAMB}
}

// Optimizer is a rule with its numbers.
type Optimizer struct {
	Kind     OptimizerKind
	Momentum float64 // of Momentum
	Nesterov bool    // of Momentum
	Beta1    float64 // of Adam, AdamW and LAMB: what the mean of gradients keeps
	Beta2    float64 // and that of their squares
	Epsilon  float64 // keeps divisors from zero
	Decay    float64 // of weights
}

// Defaults are those of PyTorch, and of the paper for LAMB.
func (k OptimizerKind) Defaults() Optimizer {
	o := Optimizer{Kind: k, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	switch k {
	case Momentum:
		o.Momentum = 0.9
	case AdamW:
		o.Decay = 0.01
	case Adagrad:
		o.Epsilon = 1e-10
	case LAMB:
		o.Epsilon = 1e-6
	}
	return o
}

// The inputs of a step that take numbers, which change from update to update.
const (
	inputRate  = prefix + "rate"  // at which weights change
	inputRoot  = prefix + "root"  // what the square root of the second moment is multiplied by
	inputDecay = prefix + "decay" // what AdamW leaves of a weight
	inputFirst = prefix + "first" // what the first moment is multiplied by
)

// Scalars returns the inputs of update number t, from 1 on, at a rate.
func (o Optimizer) Scalars(rate float64, t int64) map[string]float32 {
	first, second := 1/(1-math.Pow(o.Beta1, float64(t))), 1/(1-math.Pow(o.Beta2, float64(t)))
	root := float32(math.Sqrt(second))
	switch o.Kind {
	case Adam:
		return map[string]float32{inputRate: float32(rate * first), inputRoot: root}
	case AdamW:
		return map[string]float32{inputRate: float32(rate * first), inputRoot: root,
			inputDecay: float32(1 - rate*o.Decay)}
	case LAMB:
		return map[string]float32{inputRate: float32(rate), inputFirst: float32(first),
			inputRoot: root}
	}
	return map[string]float32{inputRate: float32(rate)}
}

// optimize adds what weights become, given their gradients.
func (b *builder) optimize(o Options, ds []*graph.Value) {
	if o.Clip > 0 {
		ds = b.clipped(ds, o.Clip)
	}
	for i, w := range b.weights {
		next := b.next(o.Optimizer, w, ds[i])
		b.become(replaced{w.Name, next, true})
		if o.Average > 0 {
			was := b.variable(w.Name+averageSuffix, w.Type)
			b.become(replaced{was.Name, b.moved(was, next, o.Average), false})
		}
	}
}

// clipped are gradients scaled down where their norm together is above most, as
// torch.nn.utils.clip_grad_norm_ does.
func (b *builder) clipped(ds []*graph.Value, most float64) []*graph.Value {
	squares := make([]*graph.Value, len(ds))
	for i, d := range ds {
		squares[i] = b.op("ReduceSumSquare", op.Attrs{op.IntAttr("keepdims", 0)}, d)
	}
	norm := b.op("Sqrt", nil, b.op("Sum", nil, squares...))
	scale := b.op("Div", nil, b.number(most), b.op("Add", nil, norm, b.number(1e-6)))
	scale = b.op("Min", nil, scale, b.number(1))
	out := make([]*graph.Value, len(ds))
	for i, d := range ds {
		out[i] = b.op("Mul", nil, d, scale)
	}
	return out
}

// moved is what keeps so much of itself, and the rest of what it moves to.
func (b *builder) moved(from, to *graph.Value, keeps float64) *graph.Value {
	return b.op("Add", nil, b.op("Mul", nil, from, b.number(keeps)),
		b.op("Mul", nil, to, b.number(1-keeps)))
}

// next adds what a weight, and what its optimizer keeps of it, become: one operator for all. Where
// gradients overflow that leaves them as they are.
func (b *builder) next(o Optimizer, w, d *graph.Value) *graph.Value {
	decay := op.FloatAttr(op.DescentDecay, float32(o.Decay))
	epsilon := op.FloatAttr(op.DescentEpsilon, float32(o.Epsilon))
	momentum := op.FloatAttr(op.DescentMomentum, float32(o.Momentum))
	rate, finite := b.scalar(inputRate), b.scale.Finite()
	switch o.Kind {
	case Momentum:
		as := op.Attrs{decay, momentum}
		if o.Nesterov {
			as = append(as, op.IntAttr(op.DescentNesterov, 1))
		}
		return b.descend(op.Momentum, as, w, d, []string{"/momentum"}, rate, finite)
	case Adagrad:
		return b.descend(op.Adagrad, op.Attrs{decay, epsilon}, w, d, []string{"/squares"}, rate,
			finite)
	case Adam:
		return b.descend(op.Adam, append(o.moments(), decay), w, d, bothMoments, rate,
			b.scalar(inputRoot), nil, finite)
	case AdamW:
		return b.descend(op.Adam, o.moments(), w, d, bothMoments, rate, b.scalar(inputRoot),
			b.scalar(inputDecay), finite)
	case LAMB:
		return b.lamb(o, w, d)
	}
	return b.descend(op.SGD, op.Attrs{decay}, w, d, nil, rate, nil, finite)
}

// bothMoments end the names of the variables that hold the moments of gradients.
var bothMoments = []string{"/first", "/second"}

// moments are the attributes of an optimizer that keeps the moments of gradients. What it takes of
// a gradient is rounded once, which only a number of its own can say.
func (o Optimizer) moments() op.Attrs {
	return op.Attrs{
		op.FloatAttr(op.DescentKeep1, float32(o.Beta1)),
		op.FloatAttr(op.DescentTake1, float32(1-o.Beta1)),
		op.FloatAttr(op.DescentKeep2, float32(o.Beta2)),
		op.FloatAttr(op.DescentTake2, float32(1-o.Beta2)),
		op.FloatAttr(op.DescentEpsilon, float32(o.Epsilon)),
	}
}

// descend adds an optimizer's operator, with variables for its histories, of these suffixes, and
// returns its output 0. Numbers that it is not given are nil.
func (b *builder) descend(typ string, as op.Attrs, w, d *graph.Value, histories []string,
	numbers ...*graph.Value) *graph.Value {
	kept := make([]*graph.Value, len(histories))
	outs := []string{b.fresh(typ)}
	for i, suffix := range slices.Backward(histories) { // the order of states that were kept
		kept[i] = b.variable(w.Name+suffix, w.Type)
		outs = append(outs, b.fresh(typ+suffix))
	}
	in := slices.Concat([]*graph.Value{w, d}, kept, numbers)
	for in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	n := graph.NewNode(outs[0], typ, 1, as, in, outs...)
	n.Domain = op.FusedDomain
	b.weirs()
	b.g.Nodes = append(b.g.Nodes, n)
	_ = n.InferTypes()
	for i, suffix := range histories {
		b.become(replaced{w.Name + suffix, n.Out[1+i], true})
	}
	return n.Out[0]
}

// weirs has the graph take operators of weir's domain.
func (b *builder) weirs() {
	if b.g.Opsets == nil {
		b.g.Opsets = map[string]int{}
	}
	if b.g.Opsets[op.FusedDomain] == 0 {
		b.g.Opsets[op.FusedDomain] = 1
	}
}

// lamb scales the step of Adam to the size of the weight.
func (b *builder) lamb(o Optimizer, w, d *graph.Value) *graph.Value {
	finite := b.scale.Finite()
	step := b.descend(op.LAMB, append(o.moments(), op.FloatAttr(op.DescentDecay,
		float32(o.Decay))), w, d, bothMoments, b.scalar(inputFirst), b.scalar(inputRoot), finite)
	norm := func(v *graph.Value) *graph.Value {
		return b.op("ReduceL2", op.Attrs{op.IntAttr("keepdims", 0)}, v)
	}
	size, length := norm(w), norm(step)
	zero := b.number(0)
	none := b.op("Or", nil, b.op("Equal", nil, size, zero), b.op("Equal", nil, length, zero))
	ratio := b.op("Where", nil, none, b.number(1), b.op("Div", nil, size, length))
	return b.descend(op.SGD, nil, w, step, nil, b.scalar(inputRate), ratio, finite)
}
