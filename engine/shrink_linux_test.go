package engine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// largeModel writes a model that packs weights, reads others in place, and has some to fold, beside
// external data or with all of it in one file. It returns the file that has the weights.
func largeModel(t *testing.T, external bool) (path, weights string) {
	t.Helper()
	text := `graph "large" {
  opset "" 17
  input %i: int64[4]
  const %table: float32[1024,64] = at 0
  const %w: float32[64,1024] = at 1
  const %b: float32[1024,64] = at 2
  %x: float32[4,64] = Gather@13 "rows" (%table, %i) {axis=0}
  %y: float32[4,1024] = MatMul@13 "product" (%x, %w)
  %c: float32[1024,64] = Sin@7 "folded" (%b)
  %z: float32[4,64] = MatMul@13 "second" (%y, %c)
  output %z
}
`
	g, err := graph.ParseExternal(text,
		func(d tensor.DType, shape []int, at int64) (*tensor.Tensor, error) {
			x, err := tensor.New(d, shape...)
			if err != nil {
				return nil, err
			}
			v := tensor.As[float32](x)
			for i := range v {
				v[i] = float32(i%(7+int(at))) / 8
			}
			return x, nil
		})
	if err == nil {
		err = g.InferTypes()
	}
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "large.onnx")
	var o onnx.WriteOptions
	weights = path
	if external {
		o.MaxInline, weights = 1, path+".data"
	}
	if err := onnx.WriteFile(path, g, o); err != nil {
		t.Fatal(err)
	}
	return path, weights
}

// TestShrunkModel cuts a model's file short at each stage of its use. The job that reads it ends
// with an error that names the file, on whichever goroutine it does.
func TestShrunkModel(t *testing.T) {
	b := newBench(t)
	compile := func(m *onnx.Model, o plan.Options) (*plan.Plan, error) {
		o.Threads = 2
		return plan.Compile(context.Background(), m.Graph, o)
	}
	run := func(p *plan.Plan, cut func(), step func(i *Instance) error) error {
		s := b.load(t, p)
		i := take(t, s)
		defer i.Put()
		for k := range tensor.As[int64](i.Inputs()[0]) {
			tensor.As[int64](i.Inputs()[0])[k] = 1000 // in what is cut off
		}
		cut()
		return step(i)
	}
	once := func(i *Instance) error { return i.Run(context.Background(), device.Open) }
	profile := func(i *Instance) error {
		return i.Profile(context.Background(), func(*plan.Step, plan.Cost) {})
	}
	must := func(p *plan.Plan, err error) *plan.Plan {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	onCPU := plan.Options{Target: kernels.Target(device.Info{})}
	unfolded := plan.Options{Target: onCPU.Target, Passes: pass.Options{Off: []string{"fold"}}}
	reference := plan.Options{}
	pack := func(m *onnx.Model, cut func(), o plan.PackOptions) error {
		p := must(compile(m, onCPU))
		buffer, err := b.device.Alloc(p.PackedBytes)
		if err != nil {
			t.Fatal(err)
		}
		defer buffer.Free()
		cut()
		return p.Pack(device.HostView(buffer), o)
	}
	for name, job := range map[string]func(m *onnx.Model, cut func()) error{
		"folding": func(m *onnx.Model, cut func()) error {
			cut()
			_, err := compile(m, onCPU)
			return err
		},
		"simplifying": func(m *onnx.Model, cut func()) error {
			cut()
			_, err := plan.Simplify(context.Background(), m.Graph)
			return err
		},
		"packing": func(m *onnx.Model, cut func()) error {
			return pack(m, cut, plan.PackOptions{})
		},
		"packing on a pool": func(m *onnx.Model, cut func()) error {
			return pack(m, cut, plan.PackOptions{Pool: b.pool})
		},
		"a step": func(m *onnx.Model, cut func()) error {
			return run(must(compile(m, onCPU)), cut, once)
		},
		"a reference step": func(m *onnx.Model, cut func()) error {
			return run(must(compile(m, reference)), cut, once)
		},
		"a step that could be folded": func(m *onnx.Model, cut func()) error {
			return run(must(compile(m, unfolded)), cut, once)
		},
		"a profile": func(m *onnx.Model, cut func()) error {
			return run(must(compile(m, reference)), cut, profile)
		},
		"writing back": func(m *onnx.Model, cut func()) error {
			cut()
			return onnx.WriteFile(filepath.Join(t.TempDir(), "out.onnx"), m.Graph,
				onnx.WriteOptions{})
		},
		"writing back apart": func(m *onnx.Model, cut func()) error {
			cut()
			return onnx.WriteFile(filepath.Join(t.TempDir(), "out.onnx"), m.Graph,
				onnx.WriteOptions{MaxInline: 1})
		},
	} {
		for _, external := range []bool{false, true} {
			path, weights := largeModel(t, external)
			m, err := onnx.Open(path, onnx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			err = job(m, func() {
				if err := os.Truncate(weights, 4096); err != nil {
					t.Fatal(err)
				}
			})
			if !errors.Is(err, onnx.ErrChanged) || !strings.Contains(err.Error(), weights) ||
				!strings.Contains(err.Error(), "4096 bytes") {
				t.Errorf("%s, external data: %v: error %v", name, external, err)
			}
			if err := m.Unchanged(); !errors.Is(err, onnx.ErrChanged) {
				t.Errorf("%s: the model says %v", name, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestConstantOutputs cuts a model's file short after a run whose outputs are a constant and views
// of it. The caller, whose goroutine knows nothing of mapped files, reads them all the same.
func TestConstantOutputs(t *testing.T) {
	b := newBench(t)
	for _, o := range []plan.Options{{}, {Target: kernels.Target(device.Info{})},
		{Passes: pass.Options{Off: []string{"fold"}}}} {
		path, _ := largeModel(t, false)
		m, err := onnx.Open(path, onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		table := m.Graph.Constants()[0]
		want := bytes.Clone(table.Const().Data)
		same := graph.NewNode("same", "Identity", 16, nil, []*graph.Value{table}, "same")
		m.Graph.Nodes = append(m.Graph.Nodes, same)
		m.Graph.Outputs = []*graph.Value{table, same.Out[0]}
		if err := m.Graph.InferTypes(); err != nil {
			t.Fatal(err)
		}
		p, err := plan.Compile(context.Background(), m.Graph, o)
		if err != nil {
			t.Fatal(err)
		}
		i := take(t, b.load(t, p))
		if err := i.Run(context.Background(), device.Open); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 4096); err != nil {
			t.Fatal(err)
		}
		for k, out := range i.Outputs() {
			err := fault.Do(func() error { // a caller would end here
				if !bytes.Equal(out.Data, want) {
					t.Errorf("output %d is not the constant", k)
				}
				return nil
			})
			if err != nil {
				t.Errorf("output %d: %v", k, err)
			}
		}
		i.Put()
	}
}
