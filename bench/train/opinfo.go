package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

//go:embed opinfo.py
var opinfo string

// The bounds of samples of PyTorch's own tests: how many of those that its exporter can write have
// weir's gradients within a distance of PyTorch's.
const (
	leastEqual    = 0.95
	sampleFar     = 1e-5
	samplesOfEach = 2
)

// drawn is a sample of an operator, or says why there is none.
type drawn struct {
	Op      string           `json:"op"`
	File    string           `json:"file"`
	Inputs  [][]int          `json:"inputs"`
	Outputs map[string][]int `json:"outputs"`
	Valid   bool             `json:"valid"` // ONNX's own evaluator computes what PyTorch does
	Skipped string           `json:"skipped"`
}

// tally is what became of samples.
type tally struct {
	Samples int               `json:"samples"`
	Equal   int               `json:"equal"`
	Skipped int               `json:"operators_not_exported"`
	Other   map[string]string `json:"other"`   // by operator: the file computes something else
	Far     map[string]string `json:"far"`     // by operator: how far
	Missing map[string]string `json:"missing"` // by operator: what has no gradient
	Failed  map[string]string `json:"failed"`  // by operator: what else weir refuses
}

// samples compares gradients of the samples of PyTorch's own tests.
func (b *bench) samples(ctx context.Context, python string) (err error) {
	folder, err := os.MkdirTemp("", "weir-opinfo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	c := exec.CommandContext(ctx, python, "-c", opinfo, folder, fmt.Sprint(samplesOfEach))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	t := &tally{Other: map[string]string{}, Far: map[string]string{}, Missing: map[string]string{},
		Failed: map[string]string{}}
	if err := t.all(ctx, folder, out); err != nil {
		return errors.Join(err, c.Wait())
	}
	b.OpInfo = t
	b.Claims.Check("samples of OpInfo that are equal", float64(t.Equal)/float64(t.Samples),
		leastEqual, false)
	return c.Wait()
}

// all tries the samples of a list, a line each.
func (t *tally) all(ctx context.Context, folder string, list io.Reader) error {
	lines := bufio.NewScanner(list)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var d drawn
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return err
		}
		if d.File == "" {
			t.Skipped++
			continue
		}
		far, err := d.distance(ctx, folder)
		if errors.Is(err, errOther) || errors.Is(err, errRefused) && !d.Valid {
			t.Other[d.Op] = err.Error()
			continue
		}
		t.Samples++
		switch {
		case errors.Is(err, op.ErrNoGradient):
			t.Missing[d.Op] = err.Error()
		case err != nil:
			t.Failed[d.Op] = err.Error()
		case !(far <= sampleFar):
			t.Far[d.Op] = fmt.Sprintf("%.2g", far)
		default:
			t.Equal++
		}
	}
	return lines.Err()
}

// errOther is of a file that computes something else than the operator of which it was exported: of
// its gradients PyTorch's say nothing. Random numbers are among that.
var errOther = errors.New("not what PyTorch computes")

// errRefused is of a file that weir does not evaluate. Where ONNX's own evaluator does not either,
// the exporter has written what is no model, and there is nothing to differentiate.
var errRefused = errors.New("refused")

// same refuses a graph whose outputs are not those of the sample.
func (d *drawn) same(ctx context.Context, g *graph.Graph, in []*tensor.Tensor,
	folder string) error {
	out, err := g.Eval(ctx, in)
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	for i, v := range g.Outputs {
		if shape, ok := d.Outputs[v.Name]; ok {
			want, err := d.read(folder, v.Name, shape)
			if err != nil {
				return err
			}
			got, err := out[i].Floats()
			if err != nil {
				return err
			}
			if far := apart(got, tensor.As[float64](want)); !(far <= sampleFar) {
				return fmt.Errorf("%w: output %s is %.2g from it", errOther, v.Name, far)
			}
		}
	}
	return nil
}

// distance is how far weir's gradients of a sample are from PyTorch's, in parts of their norm.
func (d *drawn) distance(ctx context.Context, folder string) (far float64, err error) {
	m, err := onnx.Open(filepath.Join(folder, d.File), onnx.Options{})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errRefused, err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	g := m.Graph
	in, by, err := d.operands(g, folder)
	if err != nil {
		return 0, err
	}
	if err := d.same(ctx, g, in, folder); err != nil {
		return 0, err
	}
	o := grad.Objective{By: by}
	for _, v := range g.Outputs {
		shape, ok := d.Outputs[v.Name]
		if !ok {
			continue
		}
		seed, err := d.read(folder, "s"+v.Name[1:], shape)
		if err != nil {
			return 0, err
		}
		of, err := tensor.New(v.Type.DType, shape...) // float32 of rank 0, by the exporter
		if err != nil {
			return 0, err
		}
		op.SetFloats(of, tensor.As[float64](seed))
		o.Of, o.Seeds = append(o.Of, v), append(o.Seeds, graph.NewConst("seed."+v.Name, of))
	}
	if g.Outputs, err = grad.Backward(g, o); err != nil {
		return 0, err
	}
	if err := g.Sort(); err != nil {
		return 0, err
	}
	got, err := g.Eval(ctx, in)
	if err != nil {
		return 0, err
	}
	for i, v := range by {
		n := strings.TrimPrefix(v.Name, "i")
		want, err := d.read(folder, "g"+n, got[i].Shape)
		if err != nil {
			return 0, err
		}
		far = max(far, apart(tensor.As[float64](got[i]), tensor.As[float64](want)))
	}
	return far, nil
}

// operands are the elements of the inputs that a graph has kept.
func (d *drawn) operands(g *graph.Graph, folder string) (in []*tensor.Tensor, by []*graph.Value,
	err error) {
	for i, shape := range d.Inputs {
		v := g.Input(fmt.Sprint("i", i))
		if v == nil {
			continue
		}
		t, err := d.read(folder, fmt.Sprint("i", i), shape)
		if err != nil {
			return nil, nil, err
		}
		in, by = append(in, t), append(by, v)
	}
	return in, by, nil
}

// read reads a tensor beside the model.
func (d *drawn) read(folder, name string, shape []int) (*tensor.Tensor, error) {
	t, err := tensor.New(tensor.Float64, shape...)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(folder, d.File+"."+name))
	if err == nil && len(raw) != len(t.Data) {
		err = fmt.Errorf("%s.%s has %d bytes, wants %d", d.File, name, len(raw), len(t.Data))
	}
	copy(t.Data, raw)
	return t, err
}

// apart is the norm of a difference in parts of that of what is wanted, of 1e-3 at least; elements
// that both have as NaN, or as one infinity, are equal.
func apart(got, want []float64) float64 {
	var d, n float64
	for i, w := range want {
		if g := got[i]; g == w || g != g && w != w {
			continue
		}
		d += (got[i] - w) * (got[i] - w)
	}
	for _, w := range want {
		if !math.IsInf(w, 0) && w == w {
			n += w * w
		}
	}
	return math.Sqrt(d) / max(math.Sqrt(n), 1e-3)
}

// print lists what is not equal.
func (t *tally) print(w io.Writer) {
	fmt.Fprintf(w, "%d of %d samples equal; of %d operators none could be exported\n", t.Equal,
		t.Samples, t.Skipped)
	for kind, of := range map[string]map[string]string{"far": t.Far, "no gradient": t.Missing,
		"failed": t.Failed, "other": t.Other} {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			fmt.Fprintf(w, "        %s: %s: %.150s\n", kind, name, of[name])
		}
	}
}
