package step

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// ErrLoss is the kind of error about a loss that a model has no output for.
var ErrLoss = errors.New("loss does not fit the model")

// LossKind is a function of scores and labels.
type LossKind string

// The losses. Each is the mean over the labels of a batch.
const (
	// CrossEntropy is the negative logarithm of what the softmax over axis 1 of the scores gives
	// the class that a label names (torch.nn.CrossEntropyLoss).
	CrossEntropy LossKind = "softmax-cross-entropy"
	// BinaryCrossEntropy compares the sigmoids of scores with labels from 0 to 1
	// (torch.nn.BCEWithLogitsLoss).
	BinaryCrossEntropy LossKind = "binary-cross-entropy"
	// SquaredError is that of scores as numbers (torch.nn.MSELoss).
	SquaredError LossKind = "mean-squared-error"
	// Huber is half the square of small errors, and grows as the errors do from Delta on
	// (torch.nn.HuberLoss).
	Huber LossKind = "huber"
	// Dice is 1 less twice the overlap of the sigmoids of a sample's scores with its labels, from 0
	// to 1, over their sum, 1 added to both so that no labels are no division by zero (Milletari et
	// al. 2016; monai.losses.DiceLoss with sigmoid, over all of a sample).
	Dice LossKind = "dice"
)

// Losses lists the kinds of losses.
func Losses() []LossKind {
	return []LossKind{CrossEntropy, BinaryCrossEntropy, SquaredError, Huber, Dice}
}

// Loss says what is made small.
type Loss struct {
	Kind   LossKind
	Scores string  // the output of the model; "" for its only one
	Labels string  // the name that the input for labels gets; "" for "labels"
	Delta  float64 // of Huber; 0 for 1
}

// loss is a loss in a graph.
type loss struct {
	mean   *graph.Value // over the batch
	each   *graph.Value // of each sample
	scores *graph.Value // as the model gives them
	label  Label
}

// loss adds a loss to the graph.
func (b *builder) loss(l Loss) (*loss, error) {
	out, err := b.scores(l)
	if err != nil {
		return nil, err
	}
	scores := b.before(l.Kind, out)
	if l.Labels == "" {
		l.Labels = "labels"
	}
	if b.names[l.Labels] {
		return nil, fmt.Errorf("%w: labels %q: the model has a value of that name", ErrLoss,
			l.Labels)
	}
	label := Label{Name: l.Labels, Type: scores.Type, Probabilities: scores != out}
	shape, ok := scores.Type.Ints()
	if !ok || scores.Type.DType != tensor.Float32 {
		return nil, fmt.Errorf("%w: scores %q are %v, not float32 of a known shape", ErrLoss,
			out.Name, scores.Type)
	}
	if l.Kind == CrossEntropy {
		if len(shape) < 2 {
			return nil, fmt.Errorf("%w: scores %q are %v: axis 1 should be that of the classes",
				ErrLoss, out.Name, scores.Type)
		}
		label.Classes = shape[1]
		label.Type = op.Concrete(tensor.Int64, slices.Concat(shape[:1], shape[2:])...)
	} else {
		label.Type = op.Concrete(tensor.Float32, shape...)
	}
	labels := &graph.Value{Name: label.Name, Type: label.Type}
	b.g.Inputs = append(b.g.Inputs, labels)
	each, err := b.each(l, scores, labels)
	if err != nil {
		return nil, err
	}
	whole := op.Attrs{op.IntAttr("keepdims", 0)}
	done := &loss{scores: out, label: label, mean: b.op("ReduceMean", whole, each), each: each}
	if len(each.Type.Shape) > 1 {
		done.each = b.op("ReduceMean", whole, each, b.inside(each))
	}
	return done, nil
}

// inside are the axes of a value within a sample.
func (b *builder) inside(v *graph.Value) *graph.Value {
	axes := make([]int64, len(v.Type.Shape)-1)
	for i := range axes {
		axes[i] = int64(i + 1)
	}
	return b.ints(axes...)
}

// dice is the loss of that name of each sample.
func (b *builder) dice(scores, labels *graph.Value) (*graph.Value, error) {
	if len(scores.Type.Shape) < 2 {
		return nil, fmt.Errorf("%w: scores %q are %v: want several for a sample", ErrLoss,
			scores.Name, scores.Type)
	}
	sum := func(v *graph.Value) *graph.Value {
		return b.op("ReduceSum", op.Attrs{op.IntAttr("keepdims", 0)}, v, b.inside(v))
	}
	p, one := b.op("Sigmoid", nil, scores), b.number(1)
	both := b.op("Mul", nil, b.number(2), sum(b.op("Mul", nil, p, labels)))
	all := b.op("Add", nil, sum(p), sum(labels))
	part := b.op("Div", nil, b.op("Add", nil, both, one), b.op("Add", nil, all, one))
	return b.op("Sub", nil, one, part), nil
}

// scores is the output of the model that a loss is of.
func (b *builder) scores(l Loss) (*graph.Value, error) {
	if l.Scores != "" {
		if v := b.g.Output(l.Scores); v != nil {
			return v, nil
		}
	} else if len(b.g.Outputs) == 1 {
		return b.g.Outputs[0], nil
	}
	var names []string
	for _, v := range b.g.Outputs {
		names = append(names, v.Name)
	}
	return nil, fmt.Errorf("%w: scores %q: want one of the model's outputs: %s", ErrLoss, l.Scores,
		strings.Join(names, ", "))
}

// before is what a model's last operator is given where that makes probabilities, of which a loss
// on scores must not make some again.
func (b *builder) before(kind LossKind, v *graph.Value) *graph.Value {
	n := v.Producer
	if n == nil || n.Domain != "" {
		return v
	}
	if kind == CrossEntropy && (n.Type == "Softmax" || n.Type == "LogSoftmax") && overClasses(n) ||
		(kind == BinaryCrossEntropy || kind == Dice) && n.Type == "Sigmoid" {
		return n.In[0]
	}
	return v
}

// overClasses reports whether a softmax is over axis 1 alone. Before version 13 it is over that
// axis and those behind it together.
func overClasses(n *graph.Node) bool {
	rank, last := int64(len(n.Out[0].Type.Shape)), int64(-1)
	if n.Version < 13 {
		last = 1
		if rank != 2 {
			return false
		}
	}
	axis := n.Attrs.Int("axis", last)
	return axis == 1 || axis == 1-rank
}

// each is the loss of each label, or of each sample.
func (b *builder) each(l Loss, scores, labels *graph.Value) (*graph.Value, error) {
	switch l.Kind {
	case CrossEntropy:
		axis := op.Attrs{op.IntAttr("axis", 1)}
		logs := b.op("LogSoftmax", axis, scores)
		one := b.ints(1)
		picked := b.op("GatherElements", axis, logs, b.op("Unsqueeze", nil, labels, one))
		return b.op("Neg", nil, b.op("Squeeze", nil, picked, one)), nil
	case BinaryCrossEntropy:
		return b.op("Sub", nil, b.op("Softplus", nil, scores),
			b.op("Mul", nil, scores, labels)), nil
	case SquaredError:
		d := b.op("Sub", nil, scores, labels)
		return b.op("Mul", nil, d, d), nil
	case Huber:
		delta := l.Delta
		if delta == 0 {
			delta = 1
		}
		d := b.op("Abs", nil, b.op("Sub", nil, scores, labels))
		q := b.op("Min", nil, d, b.number(delta))
		half := b.op("Mul", nil, q, b.number(0.5))
		return b.op("Mul", nil, q, b.op("Sub", nil, d, half)), nil
	}
	if l.Kind == Dice {
		return b.dice(scores, labels)
	}
	return nil, fmt.Errorf("%w: %q is not known: want one of %v", ErrLoss, l.Kind, Losses())
}
