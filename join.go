package weir

import (
	"errors"
	"fmt"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan/cache"
)

// Part is a model of a [Join].
type Part struct {
	// Name is what errors call it; each part has another.
	Name string
	// Model has not been run, nor admitted to a [Host].
	Model *Model
	// Inputs and Outputs give, by the model's own names, what its inputs and outputs are called in
	// the whole. Every input is named; outputs that are not are left out.
	Inputs, Outputs map[string]string
}

// Join makes one model of several, whose values of one name are one value: what one part computes
// and another reads stays on the device, and all of them are compiled as one plan. Values that no
// part computes are the inputs, in the order in which parts first read them; outputs are the names
// of the outputs, in their order. Parts may come in any order. Each computes what it computes
// alone, bit for bit.
//
// The parts are the whole's from then on: Close closes them, and so does a Join that fails. Options
// are those of [Open], and hold in place of those that the parts were opened with, but for what
// says how a file is read; operators that have kernels of their own ([WithOperators]) are given
// again. Plans are kept where those of all parts are ([WithCache]). The errors are of kind
// [ErrModel], where names, types or shapes do not fit or parts wait for each other, or those of
// Open.
func Join(name string, parts []Part, outputs []string, opts ...Option) (*Model, error) {
	m, err := join(name, parts, outputs, opts)
	if err != nil {
		return nil, errors.Join(err, closeParts(parts))
	}
	m.parts = append([]Part(nil), parts...)
	return m, nil
}

func join(name string, parts []Part, outputs []string, opts []Option) (*Model, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	graphs, sources, err := graphsOf(parts)
	if err != nil {
		return nil, err
	}
	g, err := graph.Join(name, graphs, outputs)
	if err != nil {
		return nil, classify(err, ErrModel)
	}
	src, err := onnx.Joined(g, sources...)
	if err != nil {
		return nil, classify(err, ErrModel)
	}
	how := fmt.Sprintf("%q %q", name, outputs)
	var of []*cache.Model
	for _, p := range parts {
		how += fmt.Sprintf(" %q %q %q", p.Name, p.Inputs, p.Outputs)
		of = append(of, p.Model.source)
	}
	return open(cache.Joined(src, how, of...), c)
}

// graphsOf are the graphs of parts, and what they were read from.
func graphsOf(parts []Part) (graphs []graph.Part, sources []*onnx.Model, err error) {
	names := map[string]bool{}
	for _, p := range parts {
		if p.Model == nil || names[p.Name] {
			return nil, nil, fmt.Errorf("%w: Join: part %q is given twice, or has no model",
				ErrModel, p.Name)
		}
		names[p.Name] = true
		src, err := p.Model.whole()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		sources = append(sources, src)
		graphs = append(graphs, graph.Part{Name: p.Name, Graph: src.Graph, Inputs: p.Inputs,
			Outputs: p.Outputs})
	}
	return graphs, sources, nil
}

// whole is the model as it is read from its file, which is read for it where it was not.
func (m *model) whole() (*onnx.Model, error) {
	if err := m.hold(); err != nil {
		return nil, err
	}
	defer m.end()
	src, err := m.source.Source()
	return src, classify(err, ErrModel)
}

// closeParts closes the models of parts.
func closeParts(parts []Part) error {
	var errs []error
	for _, p := range parts {
		if p.Model != nil {
			errs = append(errs, p.Model.Close())
		}
	}
	return errors.Join(errs...)
}
