package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/tensor"
)

// modeller runs cases as programs run models, through [weir.Model]: from a file that declares
// symbolic shapes, on inputs of several shapes, and from the case's own file with a folder of
// compiled plans that is empty at first.
type modeller struct {
	dir string
	on  *machine.Machine

	ran, shapes, kept atomic.Int64 // data sets, other shapes of theirs, plans found again
	settled           bool         // the cases' files are old enough for their plans to be kept
}

// TestModelsOfSeveralShapes holds that what a model computes depends on nothing that it computed
// before: whatever shapes come first and whether a plan is new or from the folder of an earlier
// program, results of one shape are the definition's within what the operators allow, and of one
// order of shapes have the same bits.
func TestModelsOfSeveralShapes(t *testing.T) {
	on, err := machine.Open("cpu:0", machine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := on.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &modeller{dir: t.TempDir(), on: on}
	failing := map[string]bool{}
	for _, e := range readExpectations(t) {
		failing[e.Name] = true
	}
	cases := found(t, false)
	info, err := os.Stat(cases[len(cases)-1].Model)
	if err != nil {
		t.Fatal(err)
	}
	s.settled = time.Since(info.ModTime()) > cache.Settled
	next := make(chan *Case)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for c := range next {
				if err := s.run(t.Context(), c); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
		})
	}
	for _, c := range cases {
		if !failing[c.Name] && drawn(c) {
			next <- c
		}
	}
	close(next)
	wg.Wait()
	ran, shapes, kept := s.ran.Load(), s.shapes.Load(), s.kept.Load()
	t.Logf("%d data sets, %d other shapes, %d plans found again", ran, shapes, kept)
	if shapes < ran {
		t.Errorf("only %d other shapes of %d data sets", shapes, ran)
	}
	if kept < ran*9/10 && s.settled {
		t.Errorf("only %d plans of %d data sets were found again", kept, ran)
	}
}

// drawn chooses the cases of a seed: one in four, all of them with several rounds.
func drawn(c *Case) bool { return *rounds > 1 || source(c).IntN(4) == 0 }

// source is the randomness of a case.
func source(c *Case) *rand.Rand {
	h := fnv.New64()
	h.Write([]byte(c.Name))
	return rand.New(rand.NewPCG(h.Sum64(), *seed))
}

func (s *modeller) run(ctx context.Context, c *Case) error {
	r := source(c)
	got := Run(ctx, c, func(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) (
		[]*tensor.Tensor, error,
	) {
		f := &modelFile{threads: 1 + r.IntN(mostThreads)}
		if err := f.define(ctx, m, in); err != nil {
			return nil, err
		}
		if err := s.reshape(ctx, f, m, apart+symbols(r.IntN(3))); err != nil {
			return nil, err
		}
		return s.restart(ctx, f, c.Model)
	})
	if got.Status != Passed {
		return fmt.Errorf("%s: %s", got.Status, got.Detail)
	}
	return nil
}

// folder makes a folder that lasts until it is removed.
func (s *modeller) folder() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(s.dir, "")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// reshape runs a model on inputs of several shapes, in two orders.
func (s *modeller) reshape(ctx context.Context, f *modelFile, m *onnx.Model, as symbols) error {
	dir, remove, err := s.folder()
	if err != nil {
		return err
	}
	defer remove()
	g := m.Graph.Clone()
	as.declare(g)
	f.path = filepath.Join(dir, "model.onnx")
	if err := onnx.WriteFile(f.path, g, onnx.WriteOptions{}); err != nil {
		return err
	}
	s.shapes.Add(int64(len(f.of)) - 1)
	for first := range min(2, len(f.of)) {
		if _, err := f.run(ctx, f.order(first)...); err != nil {
			return fmt.Errorf("from shapes %d on: %w", first, err)
		}
	}
	return nil
}

// restart runs the case's own file without and with the plans of the time before.
func (s *modeller) restart(ctx context.Context, f *modelFile, path string) ([]*tensor.Tensor,
	error) {
	dir, remove, err := s.folder()
	if err != nil {
		return nil, err
	}
	defer remove()
	f.path, f.plans = path, filepath.Join(dir, "plans")
	cold, err := f.run(ctx, f.of[0])
	if err != nil {
		return nil, err
	}
	if s.ran.Add(1); f.found(s.on) {
		s.kept.Add(1)
	}
	warm, err := f.run(ctx, f.of[0])
	if err != nil {
		return nil, fmt.Errorf("with the plan of before: %w", err)
	}
	if !slices.EqualFunc(cold[0], warm[0], tensor.Equal) {
		return nil, errors.New("other bits with the plan of before")
	}
	return cold[0], nil
}

// modelFile is a model with inputs of several shapes.
type modelFile struct {
	path, plans string // plans is the folder of compiled plans, "" for none
	threads     int
	of          []*definition
}

// define evaluates the inputs, and those of other shapes for which the definition has a result.
func (f *modelFile) define(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) error {
	d, err := define(ctx, m.Graph, in)
	if err != nil {
		return err
	}
	f.of = []*definition{d}
	free := m.Graph.Clone()
	apart.declare(free)
	for _, grow := range []func(int) int{func(n int) int { return n + 1 },
		func(n int) int { return 2 * n }} {
		if other := stretched(in, grow); other != nil {
			if d, err := define(ctx, free, other); err == nil {
				f.of = append(f.of, d)
			}
		}
	}
	return nil
}

// stretched are inputs of another shape: the first size above 1 grows wherever it occurs, and what
// there is is repeated to fill it. It is nil when there is no such size.
func stretched(in []*tensor.Tensor, grow func(int) int) []*tensor.Tensor {
	size := 1
	for _, t := range in {
		for _, n := range t.Shape {
			if size == 1 && n > 1 {
				size = n
			}
		}
	}
	if size == 1 {
		return nil
	}
	out := make([]*tensor.Tensor, len(in))
	for i, t := range in {
		if out[i] = t; t.DType.IsContainer() || t.DType == tensor.String || t.DType.Packed() {
			continue
		}
		shape := slices.Clone(t.Shape)
		for k, n := range shape {
			if n == size {
				shape[k] = grow(n)
			}
		}
		v, err := tensor.New(t.DType, shape...)
		if err != nil {
			return nil
		}
		for at := 0; at < len(v.Data) && len(t.Data) > 0; {
			at += copy(v.Data[at:], t.Data)
		}
		out[i] = v
	}
	return out
}

// order is the inputs from the given one on, and that one again.
func (f *modelFile) order(first int) []*definition {
	return append(append(slices.Clone(f.of[first:]), f.of[:first]...), f.of[first])
}

// run opens the model and runs it on inputs one after another, each of which must give what the
// definition does, and equal ones the same bits.
func (f *modelFile) run(ctx context.Context, of ...*definition) (all [][]*tensor.Tensor,
	err error) {
	options := []weir.Option{weir.WithThreads(f.threads)}
	if f.plans != "" {
		options = append(options, weir.WithCache(f.plans))
	}
	m, err := weir.Open(f.path, options...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for i, d := range of {
		out, err := outputs(ctx, m, d.in)
		if err == nil {
			err = d.hold(ctx, out, false)
		}
		if err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", i, len(of), err)
		}
		all = append(all, out)
	}
	if !slices.EqualFunc(all[0], all[len(all)-1], tensor.Equal) {
		return nil, errors.New("the first run again has other bits")
	}
	return all, nil
}

// outputs runs a model.
func outputs(ctx context.Context, m *weir.Model, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	given := weir.Inputs{}
	for i, v := range m.Inputs() {
		given[v.Name] = in[i]
	}
	r, err := m.Run(ctx, given)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []*tensor.Tensor
	for _, v := range m.Outputs() {
		out = append(out, r.Output(v.Name).Clone())
	}
	return out, nil
}

// found reports whether the plan of the first inputs is in the folder.
func (f *modelFile) found(on *machine.Machine) bool {
	c, err := cache.Open(cache.Options{Dir: f.plans})
	if err != nil {
		return false
	}
	m, err := c.Model(f.path)
	if err != nil {
		return false
	}
	defer m.Close()
	o := plan.Options{Target: on.Target, Threads: f.threads, Shapes: map[string][]int{}}
	for i, v := range m.Graph.Inputs {
		o.Shapes[v.Name] = f.of[0].in[i].Shape
	}
	return m.Find(context.Background(), o).Cached()
}
