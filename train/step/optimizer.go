package step

import (
	"math"

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
		b.become(replaced{w.Name, next})
		if o.Average > 0 {
			was := b.variable(w.Name+averageSuffix, w.Type)
			b.become(replaced{was.Name, b.moved(was, next, o.Average)})
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

// moment keeps a running mean of values as a variable of a weight, and returns the new one.
func (b *builder) moment(w *graph.Value, suffix string, of *graph.Value,
	keeps float64) *graph.Value {
	was := b.variable(w.Name+suffix, w.Type)
	next := b.moved(was, of, keeps)
	b.become(replaced{was.Name, next})
	return next
}

// next is what a weight becomes.
func (b *builder) next(o Optimizer, w, d *graph.Value) *graph.Value {
	if o.Decay != 0 && o.Kind != AdamW && o.Kind != LAMB {
		d = b.op("Add", nil, d, b.op("Mul", nil, w, b.number(o.Decay)))
	}
	switch o.Kind {
	case Momentum:
		return b.momentum(o, w, d)
	case Adam, AdamW:
		root := b.rooted(o, w, d, o.Beta2)
		m := b.moment(w, "/first", d, o.Beta1)
		if o.Kind == AdamW {
			w = b.op("Mul", nil, w, b.scalar(inputDecay))
		}
		return b.down(w, b.op("Div", nil, m, root))
	case Adagrad:
		was := b.variable(w.Name+"/squares", w.Type)
		sum := b.op("Add", nil, was, b.op("Mul", nil, d, d))
		b.become(replaced{was.Name, sum})
		root := b.op("Add", nil, b.op("Sqrt", nil, sum), b.number(o.Epsilon))
		return b.down(w, b.op("Div", nil, d, root))
	case LAMB:
		return b.lamb(o, w, d)
	}
	return b.down(w, d)
}

// down is a weight less a step of the rate's size.
func (b *builder) down(w, step *graph.Value) *graph.Value {
	return b.op("Sub", nil, w, b.op("Mul", nil, step, b.scalar(inputRate)))
}

// momentum is torch.optim.SGD's: what it adds up begins as zero.
func (b *builder) momentum(o Optimizer, w, d *graph.Value) *graph.Value {
	was := b.variable(w.Name+"/momentum", w.Type)
	v := b.op("Add", nil, b.op("Mul", nil, was, b.number(o.Momentum)), d)
	b.become(replaced{was.Name, v})
	if o.Nesterov {
		v = b.op("Add", nil, d, b.op("Mul", nil, v, b.number(o.Momentum)))
	}
	return b.down(w, v)
}

// rooted is the root of the second moment, corrected for its start at zero, and not zero.
func (b *builder) rooted(o Optimizer, w, d *graph.Value, keeps float64) *graph.Value {
	v := b.moment(w, "/second", b.op("Mul", nil, d, d), keeps)
	root := b.op("Mul", nil, b.op("Sqrt", nil, v), b.scalar(inputRoot))
	return b.op("Add", nil, root, b.number(o.Epsilon))
}

// lamb scales the step of Adam to the size of the weight.
func (b *builder) lamb(o Optimizer, w, d *graph.Value) *graph.Value {
	root := b.rooted(o, w, d, o.Beta2)
	m := b.op("Mul", nil, b.moment(w, "/first", d, o.Beta1), b.scalar(inputFirst))
	step := b.op("Div", nil, m, root)
	if o.Decay != 0 {
		step = b.op("Add", nil, step, b.op("Mul", nil, w, b.number(o.Decay)))
	}
	norm := func(v *graph.Value) *graph.Value {
		return b.op("ReduceL2", op.Attrs{op.IntAttr("keepdims", 0)}, v)
	}
	size, length := norm(w), norm(step)
	zero := b.number(0)
	none := b.op("Or", nil, b.op("Equal", nil, size, zero), b.op("Equal", nil, length, zero))
	ratio := b.op("Where", nil, none, b.number(1), b.op("Div", nil, size, length))
	return b.down(w, b.op("Mul", nil, step, ratio))
}
