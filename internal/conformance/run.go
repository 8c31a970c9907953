package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// Runner computes the outputs of a model, one an output of its graph, from inputs in the order of
// its graph. The inputs are only valid until it returns, the outputs may alias them and the model.
// An error of kind op.ErrUnsupported means that this way of running has no such operator or type.
type Runner func(ctx context.Context, m *onnx.Model, inputs []*tensor.Tensor) ([]*tensor.Tensor,
	error)

// Reference runs a model by the definitions of its operators (graph.Graph.Eval).
func Reference(ctx context.Context, m *onnx.Model, inputs []*tensor.Tensor) ([]*tensor.Tensor,
	error) {
	return m.Graph.Eval(ctx, inputs)
}

// Status is how a case ended.
type Status string

// The statuses of a case.
const (
	Passed      Status = "passed"
	Failed      Status = "failed"
	Unsupported Status = "unsupported"
)

// Result is what became of one case.
type Result struct {
	Name     string `json:"name"`
	Status   Status `json:"status"`
	Detail   string `json:"detail"` // why it did not pass
	Set      string `json:"set"`
	Operator string `json:"operator"` // see [Case.Operator]
}

// RunAll runs the cases on the given number of goroutines (at least one) and reports in the order
// of cases. When ctx ends, the cases that have not run fail.
func RunAll(ctx context.Context, cases []*Case, run Runner, workers int) *Report {
	r := &Report{Cases: make([]Result, len(cases))}
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(1, workers) {
		wg.Go(func() {
			for i := range next {
				r.Cases[i] = Run(ctx, cases[i], run)
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	wg.Wait()
	r.count()
	return r
}

// Run runs all data sets of one case and compares the outputs.
func Run(ctx context.Context, c *Case, run Runner) Result {
	r := Result{Name: c.Name, Status: Passed, Set: c.Set}
	var err error
	if r.Operator, err = c.Operator(); err == nil {
		err = c.run(ctx, run)
	}
	if err != nil {
		r.Status, r.Detail = Failed, err.Error()
	}
	if errors.Is(err, op.ErrUnsupported) {
		r.Status = Unsupported
	}
	return r
}

func (c *Case) run(ctx context.Context, run Runner) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m, err := onnx.Open(c.Model, onnx.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	if n := drawing(m.Graph); n != nil {
		return fmt.Errorf(
			"%v: %w: draws random numbers, and ONNX names no generator that would give the "+
				"expected ones",
			n,
			op.ErrUnsupported,
		)
	}
	for i, s := range c.Sets {
		if err := c.set(ctx, m, s, run); err != nil {
			return fmt.Errorf("data set %d: %w", i, err)
		}
	}
	return nil
}

// drawing returns a node whose result is not a function of its inputs, nil when the graph and those
// inside it have none.
func drawing(g *graph.Graph) (found *graph.Node) {
	g.Walk(func(g *graph.Graph) {
		for _, n := range g.Nodes {
			if o, err := n.Op(); err == nil && !o.Pure(n.Call()) {
				found = n
			}
		}
	})
	return found
}

func (c *Case) set(ctx context.Context, m *onnx.Model, s Set, run Runner) error {
	in, err := inputs(m, s)
	if err != nil {
		return err
	}
	want, err := readAll(s.Outputs, m.Graph.Outputs)
	if err != nil {
		return err
	}
	got, err := guarded(ctx, m, in, run)
	if err != nil {
		return err
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d outputs are expected, there are %d", len(want), len(got))
	}
	for i, w := range want {
		if err := c.compare(got[i], w); err != nil {
			return fmt.Errorf("output %d (%s): %w", i, m.Graph.Outputs[i].Name, err)
		}
	}
	return nil
}

// compare applies the tolerances; bfloat16 has too few digits for the usual ones
// (onnx/backend/test/runner).
func (c *Case) compare(got, want *tensor.Tensor) error {
	if got == nil {
		return errors.New("was not computed")
	}
	if err := got.Check(); err != nil {
		return err
	}
	rtol := c.RTol
	if want.DType == tensor.BFloat16 {
		rtol = max(rtol, 1.0/64)
	}
	return tensor.Close(got, want, rtol, c.ATol)
}

// guarded runs a Runner and turns its panic into an error, so that one case's trouble is not the
// others'.
func guarded(ctx context.Context, m *onnx.Model, in []*tensor.Tensor,
	run Runner) (out []*tensor.Tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return run(ctx, m, in)
}

func inputs(m *onnx.Model, s Set) ([]*tensor.Tensor, error) {
	if !s.Ramp && len(s.Inputs) != len(m.Graph.Inputs) {
		return nil, fmt.Errorf("has %d inputs, the model takes %d", len(s.Inputs),
			len(m.Graph.Inputs))
	}
	if !s.Ramp {
		return readAll(s.Inputs, m.Graph.Inputs)
	}
	var in []*tensor.Tensor
	for _, v := range m.Graph.Inputs {
		t, err := ramp(v.Type)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		in = append(in, t)
	}
	return in, nil
}

// ramp makes the input of a light case (generate_dummy_data of onnx/backend/test/runner): sizes
// that are not known are 1.
func ramp(t op.Type) (*tensor.Tensor, error) {
	if t.DType != tensor.Float32 || !t.Ranked {
		return nil, fmt.Errorf("%w: made-up inputs are float32 of known rank, this one is %v",
			op.ErrUnsupported, t)
	}
	shape := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = 1
		if n, ok := d.Int(); ok {
			shape[i] = n
		}
	}
	out, err := tensor.New(t.DType, shape...)
	if err != nil {
		return nil, err
	}
	data := tensor.As[float32](out)
	for i := range data {
		data[i] = float32(float64(i) / float64(len(data)))
	}
	return out, nil
}

// readAll reads files with the values of vs, whose types tell which message each holds.
func readAll(files []string, vs []*graph.Value) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(files))
	for i, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var t op.Type
		if i < len(vs) {
			t = vs[i].Type
		}
		if out[i], err = onnx.DecodeValue(b, t); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
	}
	return out, nil
}
