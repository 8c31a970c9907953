package engine

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// TestState: what an iteration of one session leaves is what one of another session reads, and the
// quota is asked for the state's bytes once.
func TestState(t *testing.T) {
	b := newBench(t)
	layout, err := plan.NewState([]plan.Variable{
		{Name: "w", DType: tensor.Float32, Shape: []int{3}}})
	if err != nil {
		t.Fatal(err)
	}
	state, err := NewState(b.device, b.quota, layout)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Free()
	if held := b.quota.sum(); held != layout.Bytes() {
		t.Errorf("the quota granted %d bytes, the state has %d", held, layout.Bytes())
	}
	w := tensor.As[float32](state.Values()[0])
	if w[0] != 0 || w[2] != 0 {
		t.Errorf("a new state is %v", w)
	}
	compile := func(text string, updates ...plan.Update) *plan.Plan {
		g, err := graph.Parse("graph \"g\" {\n opset \"\" 17\n input %w: float32[3]\n " +
			"const %c: float32[] = {2}\n" + text + "}")
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Compile(t.Context(), g, plan.Options{Target: kernels.Target(b.device.Info()),
			Threads: 3, State: layout, Updates: updates})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	o := b.options()
	o.State = state
	run := func(p *plan.Plan) []float32 {
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		i := take(t, s)
		defer i.Put()
		if err := i.Run(t.Context(), device.Open); err != nil {
			t.Fatal(err)
		}
		return tensor.As[float32](i.Outputs()[0].Clone())
	}
	add := compile("%y = Add@14 (%w, %c)\n output %y\n", plan.Update{Output: 0, Variable: "w"})
	times := compile("%y = Mul@14 (%w, %c)\n output %y\n")
	run(add)
	w[1] = 5
	run(add)
	if got := run(times); got[0] != 8 || got[1] != 14 || got[2] != 8 {
		t.Errorf("after 0+2+2 and 5+2, twice that is %v", got)
	}
	other, err := NewState(b.device, b.quota, &plan.State{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Free()
	o.State = other
	s, err := Load(add, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Take(); !errors.Is(err, plan.ErrState) {
		t.Errorf("a session with another state: %v", err)
	}
}

// TestStateRefused: a quota that does not grant a state is asked for nothing that it keeps.
func TestStateRefused(t *testing.T) {
	b := newBench(t)
	b.quota.cap = 10
	layout, err := plan.NewState([]plan.Variable{
		{Name: "w", DType: tensor.Float32, Shape: []int{3}}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := NewState(b.device, b.quota, layout); err == nil {
		s.Free()
		t.Error("a state beyond the quota is granted")
	}
}

// TestStateIn: a state lies in memory that is given, which is counted, and kept by who gave it.
func TestStateIn(t *testing.T) {
	b := newBench(t)
	layout, err := plan.NewState([]plan.Variable{
		{Name: "w", DType: tensor.Float32, Shape: []int{3}}})
	if err != nil {
		t.Fatal(err)
	}
	mem := make([]byte, 200)
	s, err := NewStateIn(mem, b.quota, layout)
	if err != nil {
		t.Fatal(err)
	}
	tensor.As[float32](s.Values()[0])[0] = 1
	if mem[3] != 0x3f || int64(len(s.Bytes())) != layout.Bytes() || b.quota.held != layout.Bytes() {
		t.Errorf("%v of %d bytes, %d counted", mem[:8], len(s.Bytes()), b.quota.held)
	}
	if s.Free(); b.quota.held != 0 {
		t.Errorf("%d bytes are counted of a state that is freed", b.quota.held)
	}
	if _, err := NewStateIn(mem[:8], b.quota, layout); !errors.Is(err, plan.ErrState) {
		t.Errorf("a state in too little memory: %v", err)
	}
	b.quota.cap = 10
	if _, err := NewStateIn(mem, b.quota, layout); err == nil || b.quota.held != 0 {
		t.Errorf("a state beyond the quota is granted, %d counted", b.quota.held)
	}
}
