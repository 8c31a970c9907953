package plan_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weirgpu/weir/conformance"
	"github.com/weirgpu/weir/conformance/archive"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// runner runs models by plans. With constants, every input but the first becomes one, as weights and parameters are in
// models, which is what most fast kernels want.
type runner struct {
	pool      *cpu.Pool
	passes    pass.Options
	constants bool
	kernels   map[string]int // names of kernels that ran
	device    *cpu.Device
	buffers   [2]device.Buffer
}

func (r *runner) run(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	g := m.Graph.Clone()
	if r.constants && len(in) > 1 {
		in = fixed(g, in)
	}
	shapes := map[string][]int{}
	for i, v := range g.Inputs {
		if in[i] == nil {
			return nil, op.ErrUnsupported
		}
		shapes[v.Name] = in[i].Shape
	}
	p, err := plan.Compile(ctx, g, plan.Options{Shapes: shapes, Threads: r.pool.Threads(), Passes: r.passes})
	if err != nil {
		return nil, err
	}
	for i := range p.Steps {
		r.kernels[p.Steps[i].Kernel.Name()]++
	}
	arena, packed := r.memory(0, p.ArenaBytes), r.memory(1, p.PackedBytes)
	if err := p.Pack(packed, nil); err != nil {
		return nil, err
	}
	prog, err := p.Bind(arena, packed)
	if err != nil {
		return nil, err
	}
	for i, v := range in {
		copy(prog.Inputs[i].Data, v.Data)
		prog.Inputs[i].Strings = v.Strings
	}
	err = prog.Run(&cpu.Exec{Ctx: ctx, Gate: device.Open, Pool: r.pool})
	return prog.Outputs, err
}

// fixed makes constants of all inputs but the first and returns what is left of in.
func fixed(g *graph.Graph, in []*tensor.Tensor) []*tensor.Tensor {
	for i, v := range g.Inputs[1:] {
		if in[i+1] != nil {
			v.Type = op.TypeOf(in[i+1])
		}
	}
	g.Inputs = g.Inputs[:1]
	return in[:1]
}

// memory is n bytes of device memory full of NaNs, the same for every case.
func (r *runner) memory(which int, n int64) []byte {
	if b := r.buffers[which]; b == nil || b.Len() < n {
		if b != nil {
			b.Free()
		}
		var err error
		if r.buffers[which], err = r.device.Alloc(max(n, 1<<20)); err != nil {
			panic(err)
		}
	}
	mem := r.buffers[which].Bytes()[:n]
	for i := range mem {
		mem[i] = 0xff
	}
	return mem
}

// TestBackendCases runs ONNX's own backend tests of operators by plans: what passes by the reference evaluation has to pass
// by fast kernels too, with and without passes, with operands computed and constant.
func TestBackendCases(t *testing.T) {
	dir, err := archive.BackendTests()
	if errors.Is(err, archive.ErrNoData) {
		t.Skip(archive.NoData)
	}
	if err != nil {
		t.Fatal(err)
	}
	all, err := conformance.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	var cases []*conformance.Case
	for _, c := range all {
		if !strings.HasPrefix(c.Name, "light/") && conformance.Run(t.Context(), c, conformance.Reference).Status == conformance.Passed {
			cases = append(cases, c)
		}
	}
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 2})
	defer pool.Close()
	d, err := cpu.Open("cpu:0", cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*runner{
		"as they are":       {},
		"constants":         {constants: true},
		"unoptimised":       {passes: pass.Options{Off: pass.Names()}},
		"constants, as set": {constants: true, passes: pass.Options{Off: pass.Names()}},
	} {
		t.Run(name, func(t *testing.T) {
			r.pool, r.device, r.kernels = pool, d, map[string]int{}
			report := conformance.RunAll(t.Context(), cases, r.run, 1)
			for _, c := range report.Cases {
				if c.Status != conformance.Passed {
					t.Errorf("%s: %s: %s", c.Name, c.Status, c.Detail)
				}
			}
			for _, b := range r.buffers {
				if b != nil {
					b.Free()
				}
			}
			steps, fast := 0, 0
			for k, n := range r.kernels {
				if steps += n; k != "reference" {
					fast += n
				}
			}
			t.Logf("%d of %d cases pass; %d of %d steps by fast kernels", report.Passed, len(cases), fast, steps)
		})
	}
}
