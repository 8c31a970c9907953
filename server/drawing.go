package server

import (
	"maps"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/server/oip"
)

// Drawing is an ensemble's version as a graph for people, whose nodes are its models in the order
// in which they compute; nil for a model of its own. An empty number stands for the newest. The
// error is an *oip.Fault.
func (s *Server) Drawing(name, number string) (*graph.Graph, error) {
	v, err := s.look(name, number)
	if err != nil || v.ensemble == nil {
		return nil, err
	}
	return v.ensemble.drawn(name), nil
}

// drawn is the ensemble as a graph.
func (e *ensemble) drawn(name string) *graph.Graph {
	g := &graph.Graph{Name: name}
	values := map[string]*graph.Value{}
	value := func(f *oip.TensorFields, called string) *graph.Value {
		if values[called] == nil {
			values[called] = &graph.Value{Name: called, Type: drawnType(f)}
		}
		return values[called]
	}
	for i := range e.inputs {
		g.Inputs = append(g.Inputs, value(&e.inputs[i], e.inputs[i].Name))
	}
	for _, st := range e.steps {
		n := &graph.Node{Name: st.name, Type: st.ModelName, Version: int(st.member.n)}
		for _, own := range slices.Sorted(maps.Keys(st.InputMap)) {
			n.In = append(n.In, value(named(st.member.types, own), st.InputMap[own]))
		}
		for i, own := range slices.Sorted(maps.Keys(st.OutputMap)) {
			out := value(named(st.member.results, own), st.OutputMap[own])
			out.Producer, out.Index = n, i
			n.Out = append(n.Out, out)
		}
		g.Nodes = append(g.Nodes, n)
	}
	for i := range e.outputs {
		g.Outputs = append(g.Outputs, value(&e.outputs[i], e.outputs[i].Name))
	}
	return g
}

// drawnType is the type of a value as its model has it.
func drawnType(f *oip.TensorFields) op.Type {
	d, _ := oip.ParseDatatype(f.Datatype) // a model that is served has it
	t := op.Type{DType: d, Ranked: true, Shape: []op.Dim{}}
	for _, n := range f.Shape {
		if n < 0 {
			t.Shape = append(t.Shape, op.Unknown())
		} else {
			t.Shape = append(t.Shape, op.Known(int(n)))
		}
	}
	return t
}
