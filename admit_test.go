package weir

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// written writes a graph in the form of graph.Print as a model and opens it.
func written(t *testing.T, text string) *Model {
	t.Helper()
	g, err := graph.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := onnx.WriteFile(path, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestRefusedIsAsBefore holds that a model which a host has refused is none of its: it outlives the
// host, and does not keep the device from being closed.
func TestRefusedIsAsBefore(t *testing.T) {
	shapes := map[string][]int{"image": {1, 1, digits.Side, digits.Side}}
	for what, job := range map[string]Job{
		"without shapes": {Name: "x"},
		"too large":      {Name: "x", Shapes: shapes, Share: Share{Memory: 1 << 50}},
	} {
		h := hosting(t, HostOptions{})
		m, err := Load(digits.Model)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := h.Admit(t.Context(), m, job); err == nil {
			t.Fatalf("%s: admitted", what)
		}
		var closed atomic.Int64
		release := h.release
		h.release = func() error { closed.Add(1); return release() }
		if err := h.Close(); err != nil || closed.Load() != 1 {
			t.Errorf("%s: the device was closed %d times, %v", what, closed.Load(), err)
		}
		if _, err := probabilities(t.Context(), m, drawn(1, 1)); err != nil {
			t.Errorf("%s: after the host was closed: %v", what, err)
		}
	}
}

// TestAdmittedTwiceOnOneCore holds that a model is admitted once also where one core lets one Run
// compute at a time.
func TestAdmittedTwiceOnOneCore(t *testing.T) {
	h := hosting(t, HostOptions{})
	m, err := Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.turns = make(chan struct{}, 1)
	job := Job{Name: "a", Share: Share{Memory: MiB}}
	if _, err := h.Admit(t.Context(), m, job); err != nil {
		t.Fatal(err)
	}
	job.Name = "b"
	if _, err := h.Admit(t.Context(), m, job); !errors.Is(err, ErrOption) {
		t.Errorf("admitted twice: %v", err)
	}
}

// TestAdmitDynamic holds that a model whose values depend on data needs a cap: without one there is
// nothing that its memory could be counted by.
func TestAdmitDynamic(t *testing.T) {
	const nonzero = `graph "nonzero" {
  opset "" 17
  input %x: float32[4]
  %k: int64[1,N] = NonZero@13 (%x)
  output %k
}`
	h := hosting(t, HostOptions{})
	m := written(t, nonzero)
	_, err := h.Admit(t.Context(), m, Job{Name: "a"})
	if !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), "depends on data") {
		t.Errorf("without a cap: %v", err)
	}
	if _, err := h.Admit(t.Context(), m, Job{Name: "a", Share: Share{Memory: MiB}}); err != nil {
		t.Errorf("with a cap: %v", err)
	}
}

// watching lends the whole device to whoever waits, and keeps what it was told of the first job.
type watching struct {
	mu   sync.Mutex
	seen []share.Forecast
}

func (*watching) Name() string { return "watching" }

func (p *watching) Decide(s *share.Snapshot) (d share.Decision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Phase == share.Waiting {
			p.seen = append(p.seen, j.Next)
			d.Set = []share.Terms{{Job: j.ID, Units: s.All(), Until: share.Forever}}
		}
	}
	return d
}

// watched is that policy, known once.
var watched = sync.OnceValues(func() (*watching, error) {
	p := &watching{}
	return p, policy.Register(policy.Own{Name: "watching", New: func() share.Policy { return p }})
})

// TestPolicySeesTarget holds that a policy is told of a job's target.
func TestPolicySeesTarget(t *testing.T) {
	p, err := watched()
	if err != nil {
		t.Fatal(err)
	}
	h := hosting(t, HostOptions{Policy: "watching"})
	m, err := Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const target = 70 * time.Millisecond
	if _, err := h.Admit(t.Context(), m, Job{Name: "a", Target: target,
		Shapes: map[string][]int{"image": {1, 1, digits.Side, digits.Side}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := probabilities(t.Context(), m, drawn(1, 1)); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) == 0 || p.seen[0].Target != target {
		t.Errorf("told of %+v, want a target of %v", p.seen, target)
	}
}

// TestOverCapAtOnce holds that shapes which need more than the cap are refused at once, though
// somebody may close a result meanwhile.
func TestOverCapAtOnce(t *testing.T) {
	h := hosting(t, HostOptions{})
	m, _ := guest(t, h, "a", Share{Memory: MiB})
	open, err := m.Run(t.Context(), drawn(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := probabilities(ctx, m, drawn(5000, 1)); !errors.Is(err, ErrMemory) {
		t.Errorf("got %v", err)
	}
}

// keptHold makes the job of a model hold the device for a Run that is to come, as a Run does that
// ends while another waits. The caller has the model's turn.
func keptHold(t *testing.T, m *Model) {
	t.Helper()
	y := m.tenancy.Load()
	if _, err := y.seat.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	y.seat.Keep()
	y.kept.Store(true)
}

// TestKeptHoldGoesBack holds that a hold which is kept for a Run that gives up meanwhile is given
// back, under a policy that asks for none.
func TestKeptHoldGoesBack(t *testing.T) {
	h := hosting(t, HostOptions{Policy: "fifo"})
	a, _ := guest(t, h, "a", Share{})
	b, _ := guest(t, h, "b", Share{})
	a.turns <- struct{}{}
	keptHold(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := probabilities(ctx, a, drawn(1, 1))
		gaveUp <- err
	}()
	for a.tenancy.Load().waiting.Load() == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-a.turns // as by a Run that ends and has seen the other wait
	a.abandoned(a.tenancy.Load())
	late, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := probabilities(late, b, drawn(1, 1)); err != nil {
		t.Errorf("another job: %v", err)
	}
}

// TestNobodyWaitsForResults holds that a job which waits until a result is closed keeps nobody from
// the device, also when more of its Runs wait behind that.
func TestNobodyWaitsForResults(t *testing.T) {
	h := hosting(t, HostOptions{Policy: "fifo"})
	probe, usage := guest(t, h, "probe", Share{})
	need := usage.Usage().Memory // of one Run
	probe.Close()
	a, _ := guest(t, h, "a", Share{Memory: need})
	b, _ := guest(t, h, "b", Share{})
	open, err := a.Run(t.Context(), drawn(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	a.turns <- struct{}{}
	keptHold(t, a)
	var runs sync.WaitGroup
	for range 2 {
		runs.Go(func() {
			if _, err := probabilities(t.Context(), a, drawn(1, 1)); err != nil {
				t.Error(err)
			}
		})
	}
	for a.tenancy.Load().waiting.Load() < 2 {
		runtime.Gosched()
	}
	<-a.turns
	late, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := probabilities(late, b, drawn(1, 1)); err != nil {
		t.Errorf("another job: %v", err)
	}
	open.Close()
	runs.Wait()
}

// TestAdmittedAfterNoRoom holds that a model for which the device has no room when it is loaded can
// be admitted once there is, under the same name.
func TestAdmittedAfterNoRoom(t *testing.T) {
	h := hosting(t, HostOptions{Memory: 8 * MiB})
	all, err := h.machine.Device.Alloc(int64(8 * MiB))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	job := Job{Name: "a", Shapes: map[string][]int{"image": {1, 1, digits.Side, digits.Side}}}
	if _, err := h.Admit(t.Context(), m, job); !errors.Is(err, ErrMemory) {
		t.Fatalf("on a device that is full: %v", err)
	}
	all.Free()
	if _, err := h.Admit(t.Context(), m, job); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}
