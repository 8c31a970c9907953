package weir_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// wronged calls an operator of the program's on an input and a constant.
const wronged = `graph "wronged" {
  opset "" 17
  opset "com.example" 1
  input %x: float32[N]
  const %c: float32[4] = {1, 2, 3, 4}
  %y: float32[] = com.example:Double@1 (%x, %c)
  %z = Neg@13 (%y)
  output %z
}`

// doing is a kernel that does something in place of computing.
type doing struct {
	compute.Unpacked
	do func(*compute.Exec) error
}

func (doing) Name() string { return "doing" }

func (k doing) Bind(compute.Binding) compute.Task {
	if k.do == nil {
		return nil
	}
	return doingTask{k.do}
}

type doingTask struct{ do func(*compute.Exec) error }

func (t doingTask) Run(x *compute.Exec) error { return t.do(x) }

// region panics in its last chunk.
type region struct{}

func (region) Chunk(i, _ int) {
	if i == 63 {
		panic("thirteen")
	}
}

// faulty are operators that do what they must not, each in the way that its name says.
func faulty() map[string]weir.Operator {
	all := map[string]weir.Operator{}
	add := func(name string, change func(o *weir.Operator)) {
		o := double(new(atomic.Int64))
		o.Inputs = 2
		change(&o)
		all[name] = o
	}
	eval := func(name string, f func(c *op.Eval) error) {
		add(name, func(o *weir.Operator) { o.Eval = f })
	}
	kernel := func(name string, f func() (compute.Kernel, error)) {
		add(name, func(o *weir.Operator) {
			o.Kernel = func(*compute.Request) (compute.Kernel, error) { return f() }
		})
	}
	task := func(name string, f func(x *compute.Exec) error) {
		kernel(name, func() (compute.Kernel, error) { return doing{do: f}, nil })
	}
	infer := func(name string, f func(c *op.Infer) error) {
		add(name, func(o *weir.Operator) { o.Infer = f })
	}
	says := func(name string, y op.Type) {
		infer(name, func(c *op.Infer) error { c.Out[0] = y; return nil })
	}
	gives := func(name string, y *tensor.Tensor) {
		eval(name, func(c *op.Eval) error { c.Out[0] = y; return nil })
	}
	eval("Eval panics", func(*op.Eval) error { panic("thirteen") })
	eval("Eval exits", func(*op.Eval) error { runtime.Goexit(); return nil })
	eval("Eval makes nothing", func(*op.Eval) error { return nil })
	eval("Eval has no outputs", func(c *op.Eval) error { c.Out = nil; return nil })
	eval("Eval writes a constant", func(c *op.Eval) error {
		tensor.As[float32](c.In[1])[0] = 7
		return nil
	})
	gives("gives short data",
		&tensor.Tensor{DType: tensor.Float32, Shape: []int{3}, Data: []byte{1}})
	gives("gives a negative size", &tensor.Tensor{DType: tensor.Float32, Shape: []int{-3}})
	gives("another type", tensor.From([]int64{1, 2, 3}, 3))
	gives("another size", tensor.From([]float32{1}, 1))
	gives("gives a string without strings", &tensor.Tensor{DType: tensor.String, Shape: []int{3}})
	task("a task panics", func(*compute.Exec) error { panic("thirteen") })
	task("a task exits", func(*compute.Exec) error { runtime.Goexit(); return nil })
	task("a chunk panics", func(x *compute.Exec) error { return x.For(64, region{}) })
	kernel("no task", func() (compute.Kernel, error) { return doing{}, nil })
	kernel("Kernel panics", func() (compute.Kernel, error) { panic("thirteen") })
	kernel("Kernel exits", func() (compute.Kernel, error) {
		runtime.Goexit()
		return nil, nil
	})
	infer("Infer panics", func(*op.Infer) error { panic("thirteen") })
	infer("Infer has no outputs", func(c *op.Infer) error { c.Out = nil; return nil })
	says("says less", op.Concrete(tensor.Float32, 1))
	says("says more", op.Concrete(tensor.Float32, 1<<12))
	says("says a negative size", op.Concrete(tensor.Float32, -3))
	says("says 2^62", op.Concrete(tensor.Float32, 1<<62))
	says("says another type", op.Concrete(tensor.Int64, 3))
	value := op.Concrete(tensor.Float32, 3)
	value.Const = tensor.From([]float32{1}, 1)
	says("says a value", value)
	return all
}

// TestFaultyOperators holds that an operator of the program's which panics, leaves its goroutine or
// does not keep to what it says is an error of its model's, whichever way that model computes, and
// that the models beside it on a host go on.
func TestFaultyOperators(t *testing.T) { aloneAndShared(t, testFaultyOperators) }

func testFaultyOperators(t *testing.T, host *weir.Host) {
	good := load(t, `graph "good" {
		opset "" 17
		input %x: float32[3]
		%y: float32[3] = Neg@13 (%x)
		output %y
	}`)
	if host != nil {
		if _, err := host.Admit(t.Context(), good, weir.Job{Name: "good"}); err != nil {
			t.Fatal(err)
		}
	}
	in := weir.Inputs{"x": tensor.From([]float32{1, 2, 3}, 3)}
	path := modelFile(t, wronged)
	for name, o := range faulty() {
		t.Run(name, func(t *testing.T) {
			m, err := weir.Open(path, weir.WithOperators(o))
			if err != nil {
				holdFault(t, name, err)
				return
			}
			defer func() {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}()
			if host != nil {
				if _, err := host.Admit(t.Context(), m,
					weir.Job{Name: "bad", Share: weir.Share{Memory: weir.MiB}}); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := inGoroutine(t, m, in); err != nil || name != "says a value" {
					holdFault(t, name, err)
				}
				r, err := good.Run(t.Context(), in)
				if err != nil {
					t.Fatalf("the neighbour: %v", err)
				}
				r.Close()
			}
		})
	}
}

// errLeft is the outcome of a Run that never returned.
var errLeft = errors.New("the goroutine was left")

// inGoroutine runs a model in a goroutine that an operator may leave. A result must be right.
func inGoroutine(t *testing.T, m *weir.Model, in weir.Inputs) error {
	ended := make(chan error)
	go func() {
		err := errLeft
		defer func() { ended <- err }()
		var r weir.Result
		if r, err = m.Run(t.Context(), in); err != nil {
			return
		}
		defer r.Close()
		z, e := weir.Output[float32](r, "z")
		if e != nil || !slices.Equal(z, []float32{-2, -4, -6}) {
			t.Errorf("result %v, %v", z, e)
		}
	}()
	return <-ended
}

// holdFault holds that an error says what an operator did.
func holdFault(t *testing.T, name string, err error) {
	t.Helper()
	switch {
	case err == nil:
		t.Error("no error")
	case errors.Is(err, errLeft):
		if !strings.HasSuffix(name, " exits") {
			t.Error(err)
		}
	case !strings.Contains(err.Error(), "wronged"):
		t.Errorf("does not name the model: %v", err)
	case errors.Is(err, context.Canceled), errors.Is(err, weir.ErrClosed),
		errors.Is(err, weir.ErrOption):
		t.Error(err)
	case !errors.Is(err, weir.ErrFault) && (strings.HasSuffix(name, " panics") ||
		strings.HasPrefix(name, "gives")):
		t.Errorf("no fault: %v", err)
	}
}
