package step

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Distil says how a model learns from another one, its teacher, whose weights stay as they are.
type Distil struct {
	Teacher *graph.Graph `json:"-"` // its inputs are some of the model's, by name
	// Weight, from 0 to 1, is what the teacher's scores count beside the labels, which count the
	// rest: the Kullback-Leibler divergence of what the softmax over axis 1 makes of the teacher's
	// scores and the model's, both divided by Temperature, times its square (Hinton et al. 2015;
	// torch.nn.KLDivLoss with reduction batchmean).
	Weight      float64
	Temperature float64
	Scores      string // the teacher's output; "" for its only one
	// Attention pairs float32 values of the model with values of the teacher of the same shape, by
	// name: the mean squares of their differences are added, times AttentionWeight (Jiao et al.
	// 2020, "TinyBERT", equation 7).
	Attention       map[string]string `json:",omitempty"`
	AttentionWeight float64
}

// distil adds what is learned from a teacher to the loss of a batch, one of so many, of a model
// with these values.
func (b *builder) distil(o Options, l *loss, losses int, values map[string]*graph.Value) error {
	d := o.Distil
	if d == nil {
		return nil
	}
	if losses > 1 || len(o.Loss.Train) > 0 {
		return fmt.Errorf("%w: a model with a teacher has one loss, of all weights", ErrLoss)
	}
	teacher, out, err := b.teacher(o, d)
	if err != nil {
		return err
	}
	if d.Weight > 0 {
		student := b.before(CrossEntropy, l.scores)
		soft, err := b.divergence(b.before(CrossEntropy, out), student, d.Temperature)
		if err != nil {
			return err
		}
		l.mean = b.op("Add", nil, b.op("Mul", nil, l.mean, b.number(1-d.Weight)),
			b.op("Mul", nil, soft, b.number(d.Weight)))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attention)) {
		same, err := b.likeness(values, teacher, name, d.Attention[name])
		if err != nil {
			return err
		}
		l.mean = b.op("Add", nil, l.mean, b.op("Mul", nil, same, b.number(d.AttentionWeight)))
	}
	return nil
}

// values are those that nodes of the graph give, by name.
func (b *builder) values() map[string]*graph.Value {
	all := map[string]*graph.Value{}
	for _, n := range b.g.Nodes {
		for _, v := range n.Out {
			if v != nil {
				all[v.Name] = v
			}
		}
	}
	return all
}

// teacher adds the nodes of a teacher to the graph, and returns its values by the names that they
// have in it, and its output.
func (b *builder) teacher(o Options, d *Distil) (values map[string]*graph.Value, out *graph.Value,
	err error) {
	shapes := map[string][]int{}
	for _, v := range d.Teacher.Inputs {
		if o.Shapes[v.Name] == nil {
			return nil, nil, fmt.Errorf("%w: the teacher's input %q is none of the model's",
				ErrLoss, v.Name)
		}
		shapes[v.Name] = o.Shapes[v.Name]
	}
	g, err := d.Teacher.Specialize(shapes)
	if err != nil {
		return nil, nil, fmt.Errorf("teacher: %w", err)
	}
	Still(g)
	inputs := map[*graph.Value]*graph.Value{}
	for _, v := range g.Inputs {
		if own := b.g.Input(v.Name); own == nil || own.Type.DType != v.Type.DType {
			return nil, nil, fmt.Errorf("%w: the teacher's input %q is %v, which the model's is "+
				"not", ErrLoss, v.Name, v.Type)
		}
		inputs[v] = b.g.Input(v.Name)
	}
	scores := &builder{g: g}
	if out, err = scores.scores(Loss{Scores: d.Scores}); err != nil {
		return nil, nil, fmt.Errorf("teacher: %w", err)
	}
	values = (&builder{g: g}).values()
	for _, v := range g.Constants() {
		v.Name = b.fresh("teacher." + v.Name)
	}
	for _, n := range g.Nodes {
		n.Name = b.fresh("teacher." + n.Name)
		for i, v := range n.In {
			if own := inputs[v]; own != nil {
				n.In[i] = own
			}
		}
		for _, v := range n.Out {
			if v != nil {
				v.Name = b.fresh("teacher." + v.Name)
			}
		}
		b.g.Nodes = append(b.g.Nodes, n)
	}
	if own := inputs[out]; own != nil {
		out = own
	}
	return values, out, nil
}

// divergence is that of two outputs of scores at a temperature.
func (b *builder) divergence(teacher, student *graph.Value, t float64) (*graph.Value, error) {
	want, _ := student.Type.Ints()
	if got, ok := teacher.Type.Ints(); !ok || !slices.Equal(got, want) || len(got) < 2 {
		return nil, fmt.Errorf("%w: the teacher's scores are %v, the model's %v", ErrLoss,
			teacher.Type, student.Type)
	}
	axis := op.Attrs{op.IntAttr("axis", 1)}
	of := func(v *graph.Value, what string) *graph.Value {
		return b.op(what, axis, b.op("Mul", nil, v, b.number(1/t)))
	}
	d := b.op("Mul", nil, of(teacher, "Softmax"),
		b.op("Sub", nil, of(teacher, "LogSoftmax"), of(student, "LogSoftmax")))
	whole := op.Attrs{op.IntAttr("keepdims", 0)}
	mean := b.op("ReduceMean", whole, b.op("ReduceSum", whole, d, b.ints(1)))
	return b.op("Mul", nil, mean, b.number(t*t)), nil
}

// likeness is the mean square of the differences of a value of the model and one of the teacher.
func (b *builder) likeness(own, of map[string]*graph.Value, name, as string) (*graph.Value, error) {
	x, y := own[name], of[as]
	for _, v := range []struct {
		who, name string
		is        *graph.Value
		all       map[string]*graph.Value
	}{{"model", name, x, own}, {"teacher", as, y, of}} {
		if v.is == nil {
			some := slices.Sorted(maps.Keys(v.all))
			return nil, fmt.Errorf("%w: attention: the %s has no value %q: some are %s", ErrLoss,
				v.who, v.name, strings.Join(some[:min(5, len(some))], ", "))
		}
	}
	a, ok := x.Type.Ints()
	c, also := y.Type.Ints()
	if !ok || !also || !slices.Equal(a, c) || x.Type.DType != tensor.Float32 ||
		y.Type.DType != tensor.Float32 {
		return nil, fmt.Errorf("%w: attention: %q is %v and the teacher's %q %v", ErrLoss, name,
			x.Type, as, y.Type)
	}
	d := b.op("Sub", nil, x, y)
	return b.op("ReduceMean", op.Attrs{op.IntAttr("keepdims", 0)}, b.op("Mul", nil, d, d)), nil
}
