package scale

import (
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// opset is the version of ONNX's operators in which a scale is written. Graphs of steps are
// planned, never written to files.
const opset = 18

// The names of the variables of a scale.
const (
	VarScale   = "weir.scale"         // float32: what the loss is multiplied by
	VarSkipped = "weir.scale.skipped" // int64: steps that have overflowed
	VarGood    = "weir.scale.good"    // int64, Torch: steps since the scale last changed
	VarPeak    = "weir.scale.peak"    // float32, Auto: the greatest gradient of recent steps
	VarMargin  = "weir.scale.margin"  // float32, Auto: how much room it is left
)

// Variable is a variable of a scale, a number.
type Variable struct {
	Name  string
	Start *tensor.Tensor // what it is before the first step
	Next  *graph.Value   // what it is after a step
}

// Scaler is a scaled loss in a graph.
type Scaler struct {
	g      *graph.Graph
	o      Options
	name   func(base string) string
	vars   []Variable
	scale  *graph.Value
	finite *graph.Value // whether no gradient has overflowed
}

// New adds a scale to a graph: inputs for its variables. The function name makes names that the
// graph does not have out of others. A Scaler of kind None changes nothing. A constant scale of 1
// only marks where gradients end, and has no variable: no gradient of it overflows that does not
// without it, so no step is skipped, and none waits for the gradients of all weights.
func New(g *graph.Graph, o Options, name func(base string) string) (*Scaler, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	s := &Scaler{g: g, o: o, name: name}
	if o.Kind == None {
		return s, nil
	}
	if s.marks() {
		s.scale = s.number(1)
		return s, nil
	}
	s.scale = s.variable(VarScale, tensor.Scalar(float32(o.Init)))
	return s, nil
}

// marks reports whether gradients are marked, and not scaled.
func (s *Scaler) marks() bool { return s.o.Kind == Constant && s.o.Init == 1 }

// Variables lists the variables, once gradients have been unscaled.
func (s *Scaler) Variables() []Variable { return s.vars }

// Scale is the scale of a step, nil for kind None.
func (s *Scaler) Scale() *graph.Value { return s.scale }

// Finite is whether a step counts, a condition, once gradients have been unscaled; nil for kind
// None and for a constant scale of 1, with which every step does.
func (s *Scaler) Finite() *graph.Value { return s.finite }

// Loss is a loss, float32, times the scale: what gradients are taken of.
func (s *Scaler) Loss(loss *graph.Value) *graph.Value {
	if s.scale == nil || s.marks() {
		return loss
	}
	return s.op("Mul", nil, loss, s.scale)
}

// Gradients takes the scale out of the gradients of a scaled loss by weights, float32, and decides
// about the step and the scale of the next. It is called once.
func (s *Scaler) Gradients(ds []*graph.Value) []*graph.Value {
	if s.scale == nil {
		return ds
	}
	out, largest := make([]*graph.Value, len(ds)), make([]*graph.Value, len(ds))
	names := func(d *graph.Value) []string {
		if s.marks() {
			return []string{s.name(d.Name + ".unscaled")}
		}
		return []string{s.name(d.Name + ".unscaled"), s.name(d.Name + ".largest")}
	}
	for i, d := range ds {
		n := graph.NewNode(s.name(op.Unscale), op.Unscale, 1, nil, []*graph.Value{d, s.scale},
			names(d)...)
		n.Domain = op.FusedDomain
		s.add(n)
		out[i] = n.Out[0]
		if !s.marks() {
			largest[i] = n.Out[1]
		}
	}
	if s.g.Opsets[op.FusedDomain] == 0 {
		if s.g.Opsets == nil {
			s.g.Opsets = map[string]int{}
		}
		s.g.Opsets[op.FusedDomain] = 1
	}
	if !s.marks() {
		s.decide(s.op("Max", nil, largest...))
	}
	return out
}

// Keep is what a variable becomes in a step: next, or what it was where gradients have overflowed.
func (s *Scaler) Keep(next, was *graph.Value) *graph.Value {
	if s.finite == nil {
		return next
	}
	return s.where(s.finite, next, was)
}

// decide follows the rule, given the greatest magnitude of scaled gradients.
func (s *Scaler) decide(largest *graph.Value) {
	s.finite = s.op("LessOrEqual", nil, largest, s.number(math.MaxFloat32))
	skipped := s.variable(VarSkipped, tensor.Scalar(int64(0)))
	more := s.op("Add", nil, skipped, s.count(1))
	s.become(VarSkipped, s.where(s.finite, skipped, more))
	switch s.o.Kind {
	case Torch:
		s.growAndBackOff()
	case Auto:
		s.follow(largest)
	default:
		s.become(VarScale, s.scale)
	}
}

// growAndBackOff is what torch._amp_update_scale_ does: a scale that would not be finite does not
// grow.
func (s *Scaler) growAndBackOff() {
	good := s.variable(VarGood, tensor.Scalar(int64(0)))
	good = s.op("Add", nil, good, s.count(1))
	due := s.op("Equal", nil, good, s.count(int64(s.o.Interval)))
	grown := s.times(s.scale, s.o.Growth)
	fits := s.op("LessOrEqual", nil, grown, s.number(math.MaxFloat32))
	up := s.where(s.op("And", nil, due, fits), grown, s.scale)
	s.become(VarScale, s.where(s.finite, up, s.times(s.scale, s.o.Backoff)))
	again := s.op("And", nil, s.finite, s.op("Not", nil, due))
	s.become(VarGood, s.where(again, good, s.count(0)))
}

// times is a product by a factor of float64 that is rounded once, as PyTorch's is.
func (s *Scaler) times(v *graph.Value, by float64) *graph.Value {
	if float64(float32(by)) == by {
		return s.op("Mul", nil, v, s.number(by))
	}
	cast := func(v *graph.Value, d tensor.DType) *graph.Value {
		return s.op("Cast", op.Attrs{op.IntAttr("to", int64(d))}, v)
	}
	wide := graph.NewConst(s.name("factor"), tensor.Scalar(by))
	return cast(s.op("Mul", nil, cast(v, tensor.Float64), wide), tensor.Float32)
}

// follow doubles or halves the scale towards the largest that leaves the margin.
func (s *Scaler) follow(largest *graph.Value) {
	peak := s.variable(VarPeak, tensor.Scalar(float32(0)))
	margin := s.variable(VarMargin, tensor.Scalar(float32(s.o.Margin)))
	seen := s.op("Div", nil, largest, s.scale)
	kept := s.op("Max", nil, seen, s.op("Mul", nil, peak, s.number(s.o.Decay)))
	peak = s.where(s.finite, kept, peak)
	s.become(VarPeak, peak)
	wider := s.op("Min", nil, s.op("Mul", nil, margin, s.number(2)), s.number(mostMargin))
	margin = s.where(s.finite, margin, wider)
	s.become(VarMargin, margin)
	up := s.op("Mul", nil, s.scale, s.number(2))
	down := s.op("Max", nil, s.op("Mul", nil, s.scale, s.number(0.5)), s.number(leastScale))
	room := s.op("Mul", nil, peak, margin)
	grows := s.op("And", nil, s.fits(up, room),
		s.op("LessOrEqual", nil, up, s.number(mostScale)))
	stays := s.op("And", nil, s.finite, s.fits(s.scale, room))
	grows = s.op("And", nil, s.finite, grows)
	s.become(VarScale, s.where(grows, up, s.where(stays, s.scale, down)))
}

// fits is whether a scale leaves room below the largest number.
func (s *Scaler) fits(scale, room *graph.Value) *graph.Value {
	return s.op("LessOrEqual", nil, s.op("Mul", nil, scale, room), s.number(s.o.Largest))
}

// variable adds a variable and returns the input that reads it.
func (s *Scaler) variable(name string, start *tensor.Tensor) *graph.Value {
	v := &graph.Value{Name: name, Type: op.Concrete(start.DType)}
	s.g.Inputs = append(s.g.Inputs, v)
	s.vars = append(s.vars, Variable{Name: name, Start: start})
	return v
}

// become says what a variable is after the step.
func (s *Scaler) become(name string, next *graph.Value) {
	for i := range s.vars {
		if s.vars[i].Name == name {
			s.vars[i].Next = next
		}
	}
}

func (s *Scaler) number(v float64) *graph.Value {
	return graph.NewConst(s.name("number"), tensor.Scalar(float32(v)))
}

func (s *Scaler) count(v int64) *graph.Value {
	return graph.NewConst(s.name("count"), tensor.Scalar(v))
}

func (s *Scaler) where(c, a, b *graph.Value) *graph.Value { return s.op("Where", nil, c, a, b) }

// op adds a node with one result. An error of its types shows when the graph is checked.
func (s *Scaler) op(typ string, attrs op.Attrs, in ...*graph.Value) *graph.Value {
	name := s.name(typ)
	n := graph.NewNode(name, typ, opset, attrs, in, name)
	s.add(n)
	return n.Out[0]
}

func (s *Scaler) add(n *graph.Node) {
	s.g.Nodes = append(s.g.Nodes, n)
	_ = n.InferTypes()
}
