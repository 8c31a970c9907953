package onnx

import (
	"slices"

	"github.com/weirgpu/weir/graph"
)

// Joined makes a model of a graph whose constants are those of other models, as graph.Join makes
// one. They stay open for as long as it is used, and are not closed with it. The errors are those
// of a graph that is read from a file.
func Joined(g *graph.Graph, of ...*Model) (*Model, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	if err := inferTypes(g); err != nil {
		return nil, err
	}
	m := &Model{Graph: g, Metadata: Metadata{Graph: g.Name, Opsets: g.Opsets}.Clone(),
		files: &externalFiles{}, of: slices.Clone(of)}
	for _, o := range of {
		m.Warnings = append(m.Warnings, o.Warnings...)
	}
	return m, nil
}
