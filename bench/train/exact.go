package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// mostExact bounds the distance of gradients in float64 from PyTorch's, where both round alike
// little: what is beyond it is an error of a rule. It is that of central differences in issue 15.
const mostExact = 1e-6

// exactly compares the gradients of an architecture in float64, by the definitions of operators, on
// a batch small enough for these. Differences in float32 are then those of rounding.
func (b *bench) exactly(ctx context.Context, s *subject, folder string) error {
	file := filepath.Join(folder, "exact.onnx")
	a, err := b.peer.ask(&request{Model: s.name, Export: file, Exact: true, Folder: folder,
		Shape: s.exact, Tokens: s.tokens})
	if err != nil {
		return err
	}
	m, err := onnx.Open(file, onnx.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	load := func(name string, d tensor.DType, shape ...int) (*tensor.Tensor, error) {
		raw, err := os.ReadFile(filepath.Join(folder, name))
		return &tensor.Tensor{DType: d, Shape: shape, Data: raw}, err
	}
	seed, err := load("seed", tensor.Float64, s.exact[0], 10)
	if err != nil {
		return err
	}
	x, err := load("x", m.Graph.Inputs[0].Type.DType, s.exact...)
	if err != nil {
		return err
	}
	names, ds, err := gradients(ctx, m.Graph, seed, x, a.Files)
	if err != nil {
		return err
	}
	all := make([][2]float64, len(ds)) // norms of the difference and of PyTorch's
	for i, d := range ds {
		want, err := load(a.Files[names[i]], tensor.Float64, d.Shape...)
		if err != nil {
			return err
		}
		all[i] = normsOf(tensor.As[float64](d), tensor.As[float64](want))
	}
	b.Torch = a.Version
	b.Claims.Check(s.name+", gradients in float64 over 1e-6", farthest(all)/mostExact, 1, true)
	return nil
}

// gradients are those of the scores of a graph, each of which counts what seed says, by the weights
// that files name; all of them must be there.
func gradients(ctx context.Context, g *graph.Graph, seed, x *tensor.Tensor,
	files map[string]string) (names []string, ds []*tensor.Tensor, err error) {
	var by []*graph.Value
	for _, v := range g.Constants() {
		if files[v.Name] != "" && !slices.Contains(names, v.Name) {
			by, names = append(by, v), append(names, v.Name)
		}
	}
	if len(by) != len(files) {
		return nil, nil, fmt.Errorf("%d of %d weights are in the model", len(by), len(files))
	}
	g.Outputs, err = grad.Backward(g, grad.Objective{Of: g.Outputs[:1],
		Seeds: []*graph.Value{graph.NewConst("seed", seed)}, By: by})
	if err != nil {
		return nil, nil, err
	}
	if err := g.Sort(); err != nil {
		return nil, nil, err
	}
	ds, err = g.Eval(ctx, []*tensor.Tensor{x})
	return names, ds, err
}

// normsOf are the norms of a difference and of what is wanted.
func normsOf(got, want []float64) (norms [2]float64) {
	for i, w := range want {
		norms[0] += (got[i] - w) * (got[i] - w)
		norms[1] += w * w
	}
	return [2]float64{math.Sqrt(norms[0]), math.Sqrt(norms[1])}
}

// farthest is the greatest of differences, each in parts of what is wanted, or of leastPart of the
// norm of all.
func farthest(all [][2]float64) (most float64) {
	square := 0.0
	for _, n := range all {
		square += n[1] * n[1]
	}
	for _, n := range all {
		most = max(most, n[0]/max(n[1], leastPart*math.Sqrt(square)))
	}
	return most
}
