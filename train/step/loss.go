package step

import (
	"cmp"
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

// The losses. Each is the mean over the labels of a batch that count.
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
	// CTC is that of the labels of a sequence, at whatever steps of the scores they are: see
	// [op.CTC]. Scores are samples, steps and classes, labels rows of Length that are filled up
	// with -1; the loss of a sample is divided by how many it has (torch.nn.CTCLoss).
	CTC LossKind = "ctc"
)

// Losses lists the kinds of losses.
func Losses() []LossKind {
	return []LossKind{CrossEntropy, BinaryCrossEntropy, SquaredError, Huber, Dice, CTC}
}

// Loss says what is made small.
type Loss struct {
	Kind   LossKind
	Scores string  // the output of the model; "" for its only one
	Labels string  // the name that the input for labels gets; "" for "labels"
	Delta  float64 // of Huber; 0 for 1
	// Ignore is the number of labels that do not count, nil where all do.
	Ignore *float64 `json:",omitempty"`
	// Value is what every label is, nil where they are an input.
	Value *float64 `json:",omitempty"`
	// Weight is what the loss counts beside others; 0 for 1.
	Weight float64 `json:",omitempty"`
	// Train are the weights, with * for any text, that are trained by this loss; none for all.
	Train []string `json:",omitempty"`
	// Length is the most labels of a sample, and Blank the class of none, of CTC.
	Length int `json:",omitempty"`
	Blank  int `json:",omitempty"`
}

func (l *Loss) weight() float64 {
	if l.Weight == 0 {
		return 1
	}
	return l.Weight
}

// loss is a loss in a graph.
type loss struct {
	mean   *graph.Value // over the batch
	each   *graph.Value // of each sample
	scores *graph.Value // as the model gives them
	label  Label        // without a name where labels are no input
	others []Label      // of losses beside it
}

// loss adds a loss to the graph.
func (b *builder) loss(l Loss) (*loss, error) {
	out, err := b.scores(l)
	if err != nil {
		return nil, err
	}
	scores := b.before(l.Kind, out)
	done := &loss{scores: out}
	if done.label, err = b.label(l, scores, out); err != nil {
		return nil, err
	}
	var labels *graph.Value
	if l.Value != nil {
		labels, done.label = b.number(*l.Value), Label{}
	} else {
		labels = &graph.Value{Name: done.label.Name, Type: done.label.Type}
		b.g.Inputs = append(b.g.Inputs, labels)
		b.names[labels.Name] = true
	}
	var counts *graph.Value
	if l.Ignore != nil {
		labels, counts = b.thatCount(labels, *l.Ignore)
	}
	each, err := b.each(l, scores, labels)
	if err != nil {
		return nil, err
	}
	b.means(done, each, counts)
	return done, nil
}

// label is the input for labels of scores, which are those of an output.
func (b *builder) label(l Loss, scores, out *graph.Value) (Label, error) {
	label := Label{Name: cmp.Or(l.Labels, "labels"), Type: scores.Type,
		Probabilities: scores != out}
	if l.Value == nil && b.names[label.Name] {
		return label, fmt.Errorf("%w: labels %q: the model, or another loss, has a value of that "+
			"name", ErrLoss, label.Name)
	}
	shape, ok := scores.Type.Ints()
	if !ok || scores.Type.DType != tensor.Float32 {
		return label, fmt.Errorf("%w: scores %q are %v, not float32 of a known shape", ErrLoss,
			out.Name, scores.Type)
	}
	if l.Ignore != nil && (l.Kind == Dice || l.Kind == CTC || l.Value != nil) {
		return label, fmt.Errorf("%w: ignore: %s has no labels that do not count", ErrLoss, l.Kind)
	}
	switch l.Kind {
	case CrossEntropy:
		if len(shape) < 2 {
			return label, fmt.Errorf("%w: scores %q are %v: axis 1 should be that of the classes",
				ErrLoss, out.Name, scores.Type)
		}
		label.Classes = shape[1]
		label.Type = op.Concrete(tensor.Int64, slices.Concat(shape[:1], shape[2:])...)
	case CTC:
		if len(shape) != 3 {
			return label, fmt.Errorf("%w: scores %q are %v: want samples, steps and classes",
				ErrLoss, out.Name, scores.Type)
		}
		if l.Length < 1 || l.Blank < 0 || l.Blank >= shape[2] {
			return label, fmt.Errorf("%w: length %d, blank %d: want the most labels of a sample, "+
				"and one of %d classes", ErrLoss, l.Length, l.Blank, shape[2])
		}
		label.Classes, label.Steps = shape[2], shape[1]
		label.Type = op.Concrete(tensor.Int64, shape[0], l.Length)
	default:
		label.Type = op.Concrete(tensor.Float32, shape...)
	}
	if (l.Kind == CrossEntropy || l.Kind == CTC) && l.Value != nil {
		return label, fmt.Errorf("%w: value: %s has classes for labels", ErrLoss, l.Kind)
	}
	return label, nil
}

// thatCount are labels with 0 for those that do not count, and 1 for those that do, 0 else.
func (b *builder) thatCount(labels *graph.Value, ignore float64) (kept, counts *graph.Value) {
	of := tensor.Scalar(float32(ignore))
	zero := tensor.Scalar(float32(0))
	if labels.Type.DType == tensor.Int64 {
		of, zero = tensor.Scalar(int64(ignore)), tensor.Scalar(int64(0))
	}
	is := b.op("Equal", nil, labels, graph.NewConst(b.fresh("ignored"), of))
	kept = b.op("Where", nil, is, graph.NewConst(b.fresh("zero"), zero), labels)
	counts = b.op("Cast", op.Attrs{op.IntAttr("to", int64(tensor.Float32))}, b.op("Not", nil, is))
	return kept, counts
}

// means are the mean losses of a batch, and of its samples, of those of labels.
func (b *builder) means(l *loss, each, counts *graph.Value) {
	whole := op.Attrs{op.IntAttr("keepdims", 0)}
	several := len(each.Type.Shape) > 1
	if l.each = each; counts == nil {
		l.mean = b.op("ReduceMean", whole, each)
		if several {
			l.each = b.op("ReduceMean", whole, each, b.inside(each))
		}
		return
	}
	each = b.op("Mul", nil, each, counts)
	over := func(axes ...*graph.Value) *graph.Value {
		sum := func(v *graph.Value) *graph.Value {
			return b.op("ReduceSum", whole, append([]*graph.Value{v}, axes...)...)
		}
		return b.op("Div", nil, sum(each), b.op("Max", nil, sum(counts), b.number(1)))
	}
	if l.mean, l.each = over(), each; several {
		l.each = over(b.inside(each))
	}
}

// losses adds all losses to the graph. The mean and what each sample has are those of all, the rest
// is that of the first.
func (b *builder) losses(o Options) (first *loss, all []*loss, err error) {
	for _, l := range slices.Concat([]Loss{o.Loss}, o.Others) {
		one, err := b.loss(l)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, one)
	}
	sum := *all[0]
	for _, l := range all[1:] {
		sum.others = append(sum.others, l.label)
	}
	if o.Loss.weight() != 1 || len(all) > 1 {
		sum.mean, sum.each = nil, nil
		for i, l := range slices.Concat([]Loss{o.Loss}, o.Others) {
			if w := l.weight(); w != 1 {
				all[i].mean = b.op("Mul", nil, all[i].mean, b.number(w))
				all[i].each = b.op("Mul", nil, all[i].each, b.number(w))
			}
			sum.mean, sum.each = b.plus(sum.mean, all[i].mean), b.plus(sum.each, all[i].each)
		}
	}
	return &sum, all, nil
}

// plus is a sum, of which the first may be missing.
func (b *builder) plus(x, y *graph.Value) *graph.Value {
	if x == nil {
		return y
	}
	return b.op("Add", nil, x, y)
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

// ctc is the loss of that name of each sample.
func (b *builder) ctc(l Loss, scores, labels *graph.Value) *graph.Value {
	name := b.fresh("CTC")
	n := graph.NewNode(name, op.CTC, 1, op.Attrs{op.IntAttr(op.CTCBlank, int64(l.Blank))},
		[]*graph.Value{scores, labels}, name)
	n.Domain = op.FusedDomain
	b.g.Nodes = append(b.g.Nodes, n)
	_ = n.InferTypes()
	none := graph.NewConst(b.fresh("none"), tensor.Scalar(int64(-1)))
	there := b.op("Cast", op.Attrs{op.IntAttr("to", int64(tensor.Float32))},
		b.op("Greater", nil, labels, none))
	count := b.op("ReduceSum", op.Attrs{op.IntAttr("keepdims", 0)}, there, b.ints(1))
	return b.op("Div", nil, n.Out[0], b.op("Max", nil, count, b.number(1)))
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
	if (kind == CrossEntropy && overAxis(n, 1) || kind == CTC && overAxis(n, 2)) &&
		(n.Type == "Softmax" || n.Type == "LogSoftmax") ||
		(kind == BinaryCrossEntropy || kind == Dice) && n.Type == "Sigmoid" {
		return n.In[0]
	}
	return v
}

// overAxis reports whether a softmax is over one axis alone. Before version 13 it is over that axis
// and those behind it together.
func overAxis(n *graph.Node, want int64) bool {
	rank, last := int64(len(n.Out[0].Type.Shape)), int64(-1)
	if n.Version < 13 {
		last = 1
		if rank != want+1 {
			return false
		}
	}
	axis := n.Attrs.Int("axis", last)
	return axis == want || axis == want-rank
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
	switch l.Kind {
	case Dice:
		return b.dice(scores, labels)
	case CTC:
		return b.ctc(l, scores, labels), nil
	}
	return nil, fmt.Errorf("%w: %q is not known: want one of %v", ErrLoss, l.Kind, Losses())
}
