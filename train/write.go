package train

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// Write writes the model with the weights that it has now: their running averages, where the recipe
// asks for those. Dropouts are written as they are tried, out of training mode.
func (r *Run) Write(path string) error {
	weights := map[string]*tensor.Tensor{}
	for _, p := range r.step.Params {
		weights[p.Name] = r.variable(cmp.Or(p.Average, p.Name))
	}
	g := r.model.Graph.Clone()
	for _, v := range g.Constants() {
		if t := weights[v.Name]; t != nil {
			v.Type = graph.NewConst(v.Name, t.Clone()).Type
		}
	}
	step.Still(g)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return onnx.WriteFile(path, g, onnx.WriteOptions{})
}
