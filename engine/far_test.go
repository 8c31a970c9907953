package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/far"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// openFar opens a device whose memory the host cannot address, with nothing held in the end.
func openFar(t *testing.T, limit int64) *far.Device {
	t.Helper()
	d, err := far.Open("far:0", far.Options{MemoryBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func compiledFar(t *testing.T, d *far.Device, g *graph.Graph, s map[string][]int) *plan.Plan {
	t.Helper()
	p, err := plan.Compile(t.Context(), g, plan.Options{Target: d.Target(), Shapes: s})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// parsed has steps on the device (Add, Mul, Gather of planned shape) and, for their operands of
// unknown shape, on the host.
func parsed(t *testing.T) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(`graph "both sides" {
		opset "" 17
		input %x: float32[8]
		input %i: int64[2]
		%y: float32[8] = Add@17 "twice" (%x, %x)
		%c: int64[1,?] = NonZero@17 "find" (%y)
		%v: float32[1,?] = Gather@17 (%y, %c)
		%n: float32[] = ReduceSum@17 (%v) {keepdims=0}
		%w: float32[2] = Gather@17 "look up" (%y, %i)
		%z: float32[2] = Mul@17 (%w, %n)
		output %z
		output %v
	}`)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestFarComputesTheSame runs a network on a device whose memory the host cannot address, of just
// the bytes that the plan says, and holds its bits against plain evaluation on the host.
func TestFarComputesTheSame(t *testing.T) {
	g, err := zoo.New("mobilenetv2",
		zoo.Options{Layers: 1, Width: 0.25, Resolution: 32, Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	shapes := map[string][]int{"input": {1, 3, 32, 32}}
	b := newBench(t)
	plain, err := plan.Compile(t.Context(), g, plan.Options{Shapes: shapes})
	if err != nil {
		t.Fatal(err)
	}
	i := take(t, b.load(t, plain))
	defer i.Put()
	picture(i, 1)
	if err := i.Run(t.Context(), device.Open); err != nil {
		t.Fatal(err)
	}
	peak := compiledFar(t, openFar(t, 0), g, shapes).PeakBytes(1)
	d := openFar(t, peak)
	p := compiledFar(t, d, g, shapes)
	s, err := Load(p,
		Options{Device: d, Pool: b.pool, Quota: b.quota, HostQuota: Unlimited})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := take(t, s)
	defer f.Put()
	if d.Held() != peak || s.Held() != peak || b.quota.sum() != peak+b.device.Held() {
		t.Errorf("%d bytes held, %d by the session, planned %d", d.Held(), s.Held(), peak)
	}
	if _, err := s.Take(); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("a second arena: error %v", err)
	}
	for range 2 {
		picture(f, 1)
		if err := f.Run(t.Context(), device.Open); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(result(f).Data, result(i).Data) {
			t.Error("results differ from plain evaluation")
		}
	}
	small := openFar(t, 100_000)
	if _, err := Load(compiledFar(t, small, g, shapes), Options{Device: small,
		Pool: b.pool}); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("weights of %d bytes on a device of 100,000: error %v", p.PackedBytes, err)
	}
}

// revoking asks the lease back at every turn.
type revoking struct{ renewed int }

func (g *revoking) Revoked() bool { return true }

func (g *revoking) Renew(ctx context.Context) error {
	g.renewed++
	return ctx.Err()
}

// TestFarBothSides runs a graph whose values go from the device to the host and back, under a lease
// that is asked back at each step, and has a step fail on the device: the error names it, whenever
// it comes, and the instance runs again. Of one million bytes, none stays.
func TestFarBothSides(t *testing.T) {
	d := openFar(t, 1_000_000)
	b := newBench(t)
	s, err := Load(compiledFar(t, d, parsed(t), nil),
		Options{Device: d, Pool: b.pool, Quota: b.quota})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i := take(t, s)
	defer i.Put()
	run := func(ctx context.Context, g device.Gate, index int64) error {
		x := tensor.From([]float32{0, 1, 0, 2, 0, 3, 0, 4}, 8)
		if err := errors.Join(i.Inputs()[0].Set(x),
			i.Inputs()[1].Set(tensor.From([]int64{1, index}, 2))); err != nil {
			t.Fatal(err)
		}
		return i.Run(ctx, g)
	}
	still := b.quota.sum()
	for range 2 {
		gate := &revoking{}
		if err := run(t.Context(), gate, 7); err != nil {
			t.Fatal(err)
		}
		if got := tensor.As[float32](i.Outputs()[0]); got[0] != 40 || got[1] != 160 {
			t.Errorf("got %v, want [40 160]", got)
		}
		if got := tensor.As[float32](i.Outputs()[1]); len(got) != 4 || got[3] != 8 {
			t.Errorf("got %v, want [2 4 6 8]", got)
		}
		if gate.renewed != len(i.Plan().Steps) || b.quota.sum() != still {
			t.Errorf("renewed %d times, %d bytes left", gate.renewed, b.quota.sum()-still)
		}
		err := run(t.Context(), device.Open, 8)
		if err == nil || strings.Count(err.Error(), `"look up"`) != 1 ||
			strings.Count(err.Error(), "both sides") != 1 {
			t.Errorf("an index beyond the end: error %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := run(ended, device.Open, 7); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: error %v", err)
		}
	}
}

// panicking is a target whose kernels panic.
type panicking struct{ compute.Target }

func (f panicking) Prepare(r *compute.Request) (compute.Kernel, error) {
	k, err := f.Target.Prepare(r)
	if k == nil || err != nil {
		return k, err
	}
	return panickingKernel{k}, nil
}

type panickingKernel struct{ compute.Kernel }

func (panickingKernel) Bind(compute.Binding) compute.Task { return panickingTask{} }

type panickingTask struct{}

func (panickingTask) Run(*compute.Exec) error { panic("bad kernel") }

// TestFarFault has a kernel panic on a goroutine of the device: the iteration ends with an error of
// that kind that names the node, and nothing else does.
func TestFarFault(t *testing.T) {
	d := openFar(t, 1_000_000)
	p, err := plan.Compile(t.Context(), parsed(t), plan.Options{Target: panicking{d.Target()}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(p, Options{Device: d, Pool: newBench(t).pool})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i := take(t, s)
	defer i.Put()
	for range 2 {
		err := i.Run(t.Context(), device.Open)
		if !errors.Is(err, ErrFault) || !strings.Contains(err.Error(), `"twice"`) {
			t.Errorf("a kernel panicked: error %v", err)
		}
	}
}

// stepping is a target whose tasks count themselves. It is also a gate whose lease is asked back
// once so many have begun.
type stepping struct {
	compute.Target
	begun, ended atomic.Int64
	asked        atomic.Int64 // when the lease is asked back, in tasks that have begun
	late         []int64      // tasks that began after that and before the lease was given back
	under        bool         // a task was under way then
}

func (s *stepping) Prepare(r *compute.Request) (compute.Kernel, error) {
	k, err := s.Target.Prepare(r)
	if k == nil || err != nil {
		return k, err
	}
	return steppingKernel{k, s}, nil
}

type steppingKernel struct {
	compute.Kernel
	of *stepping
}

func (k steppingKernel) Bind(b compute.Binding) compute.Task {
	return steppingTask{k.Kernel.Bind(b), k.of}
}

type steppingTask struct {
	compute.Task
	of *stepping
}

func (t steppingTask) Run(x *compute.Exec) error {
	t.of.begun.Add(1)
	defer t.of.ended.Add(1)
	for range 20 { // so that the host gives what it may meanwhile
		runtime.Gosched()
	}
	return t.Task.Run(x)
}

func (s *stepping) Revoked() bool { return s.begun.Load() >= s.asked.Load() }

func (s *stepping) Renew(ctx context.Context) error {
	s.late = append(s.late, s.begun.Load()-s.asked.Load())
	s.under = s.under || s.begun.Load() != s.ended.Load()
	s.asked.Add(10)
	return ctx.Err()
}

// TestFarGivesBack holds what a lease that is asked back waits for on a device with a queue: the
// pieces of work that the queue may hold, and no step more, all of which have ended by then.
func TestFarGivesBack(t *testing.T) {
	const steps = 60
	text := "graph \"chain\" {\n opset \"\" 17\n input %x0: float32[8]\n input %k: float32[8]\n"
	for i := range steps {
		text += fmt.Sprintf(" %%x%d: float32[8] = Mul@17 (%%x%d, %%k)\n", i+1, i)
	}
	d := openFar(t, 0)
	gate := &stepping{Target: d.Target()}
	p, err := plan.Compile(t.Context(), parseGraph(t, text+fmt.Sprintf(" output %%x%d\n}", steps)),
		plan.Options{Target: gate})
	if err != nil || len(p.Steps) != steps {
		t.Fatalf("%d steps, want %d; error %v", len(p.Steps), steps, err)
	}
	s, err := Load(p, Options{Device: d, Pool: newBench(t).pool})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i := take(t, s)
	defer i.Put()
	gate.asked.Store(10)
	if err := i.Run(t.Context(), gate); err != nil {
		t.Fatal(err)
	}
	if len(gate.late) < 2 || slices.Max(gate.late) > compute.MaxInFlight || gate.under {
		t.Errorf("%v steps began after the lease was asked back, want at most %d; one was under "+
			"way: %v", gate.late, compute.MaxInFlight, gate.under)
	}
}
