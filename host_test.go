package weir

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
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

// partial lends the whole device to the job that was admitted first, and to no other.
type partial struct{}

func (partial) Name() string { return "partial" }

func (partial) Decide(s *share.Snapshot) (d share.Decision) {
	if len(s.Jobs) > 0 && s.Jobs[0].ID == 1 && s.Jobs[0].Phase == share.Waiting {
		d.Set = []share.Terms{{Job: 1, Units: s.All(), Until: share.Forever}}
	}
	d.Wake = s.Now + time.Hour
	return d
}

// broken panics when a job waits.
type broken struct{}

func (broken) Name() string { return "broken" }

func (broken) Decide(s *share.Snapshot) share.Decision {
	if len(s.Jobs) > 0 && s.Jobs[0].Phase == share.Waiting {
		panic("no idea")
	}
	return share.Decision{}
}

// register makes both policies known, once.
var register = sync.OnceValue(func() error {
	return errors.Join(
		policy.Register(policy.Own{Name: "partial", New: func() share.Policy { return partial{} }}),
		policy.Register(policy.Own{Name: "broken", New: func() share.Policy { return broken{} }}))
})

// hosting returns a host that is closed after the test, when nothing may be held any more.
func hosting(t testing.TB, o HostOptions) *Host {
	t.Helper()
	h, err := NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if held := h.machine.Device.Held(); held != 0 {
			t.Errorf("%d bytes are held after the host was closed", held)
		}
	})
	return h
}

// guest opens the classifier and admits it; it is closed before the host.
func guest(t testing.TB, h *Host, name string, s Share) (*Model, *Tenant) {
	t.Helper()
	m, err := Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	tenant, err := h.Admit(t.Context(), m, Job{Name: name, Share: s,
		Shapes: map[string][]int{"image": {1, 1, digits.Side, digits.Side}}})
	if err != nil {
		t.Fatal(err)
	}
	return m, tenant
}

// drawn are pictures of noise.
func drawn(n int, seed uint64) Inputs {
	in, rng := pictures(n), rand.New(rand.NewPCG(seed, 1))
	pixels, _ := Data[float32](in["image"])
	for i := range pixels {
		pixels[i] = rng.Float32()
	}
	return in
}

// probabilities runs a model and returns a copy of what it says.
func probabilities(ctx context.Context, m *Model, in Inputs) ([]float32, error) {
	r, err := m.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p, err := Output[float32](r, "probabilities")
	return slices.Clone(p), err
}

// TestHostSameResults: two jobs that share the device, of which each runs what the other does not
// wait for, compute the bits that they compute alone, under each policy that the device can enforce
// and while the policy changes; and the accounts say what was done.
func TestHostSameResults(t *testing.T) {
	alone, err := Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	h := hosting(t, HostOptions{})
	a, ta := guest(t, h, "a", Share{Compute: 0.3, Class: Latency})
	b, tb := guest(t, h, "b", Share{Compute: 0.5, Limit: 0.9, Memory: 4 * MiB})
	const runs = 60
	var wg sync.WaitGroup
	for i, m := range []*Model{a, a, b, b} {
		wg.Go(func() {
			for k := range runs {
				in := drawn(1+k%3, uint64(4*k+i))
				want, err := probabilities(t.Context(), alone, in)
				if err != nil {
					t.Error(err)
				}
				got, err := probabilities(t.Context(), m, in)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("run %d of %d: %v, want %v: %v", k, i, got, want, err)
					return
				}
			}
		})
	}
	policies := []string{"priority", "timeslice", "fifo", "fair:slice=1ms"}
	if runtime.NumCPU() > 1 { // it gives whole units of compute, and both have a guarantee
		policies = append(policies, "steal")
	}
	for _, p := range policies {
		if err := h.SetPolicy(p); err != nil {
			t.Error(err)
		}
		if err := ta.SetShare(Share{Compute: 0.1}); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	s := h.Status()
	if len(s.Jobs) != 2 || s.Policy != policies[len(policies)-1] || s.Faults != 0 ||
		s.Jobs[0].Name != "a" {
		t.Errorf("status %+v", s)
	}
	for _, u := range []Usage{ta.Usage(), tb.Usage()} {
		if u.Runs != 2*runs || u.Used <= 0 || u.Queue != 0 || u.Grants == 0 || u.Memory <= 0 ||
			u.Peak < u.Memory || u.Peak > u.Share.Memory || u.Memory > s.Held {
			t.Errorf("usage %+v", u)
		}
	}
	if got := tb.Usage().Share; got.Memory != 4*MiB || got.Compute != 0.5 {
		t.Errorf("share %+v", got)
	}
}

// TestHostAllocatesNothing holds the promise of a steady state without garbage under a share, also
// beside another job.
func TestHostAllocatesNothing(t *testing.T) {
	h := hosting(t, HostOptions{})
	a, _ := guest(t, h, "a", Share{Compute: 0.5})
	b, _ := guest(t, h, "b", Share{Compute: 0.5})
	in, ctx := drawn(1, 1), t.Context()
	var wg sync.WaitGroup
	var stop atomic.Bool
	run := func(m *Model) {
		r, err := m.Run(ctx, in)
		if err != nil {
			t.Error(err)
		}
		r.Close()
	}
	for _, beside := range []bool{false, true} {
		if beside {
			wg.Go(func() {
				for !stop.Load() {
					run(b)
				}
			})
		}
		for range 20 {
			run(a)
		}
		if n := testing.AllocsPerRun(200, func() { run(a) }); n != 0 {
			t.Errorf("beside another job %v: Run allocates %v objects, want 0", beside, n)
		}
	}
	stop.Store(true)
	wg.Wait()
}

// TestAdmitRefuses says why a model is not admitted, in which kind, and that it can be run and
// admitted otherwise afterwards.
func TestAdmitRefuses(t *testing.T) {
	if err := register(); err != nil {
		t.Fatal(err)
	}
	h := hosting(t, HostOptions{Memory: 8 * MiB})
	shapes := map[string][]int{"image": {1, 1, digits.Side, digits.Side}}
	_, first := guest(t, h, "first", Share{Compute: 0.6, Memory: 4 * MiB})
	need := first.Usage().Memory
	for _, c := range []struct {
		job  Job
		kind error
		text []string
	}{
		{Job{Name: "x", Shapes: shapes, Share: Share{Memory: need - 1}}, ErrMemory,
			[]string{need.About(), (need - 1).About(), "job x"}},
		{Job{Name: "x", Shapes: shapes, Share: Share{Memory: 5 * MiB}}, ErrMemory,
			[]string{"5MiB", "4MiB of 8MiB"}},
		{Job{Name: "x", Shapes: shapes, Share: Share{Compute: 0.5}}, ErrCompute, []string{"0.4"}},
		{Job{Name: "x", Shapes: shapes, Share: Share{Compute: 2}}, ErrOption, []string{"compute"}},
		{Job{Name: "x", Shapes: shapes, Share: Share{Elastic: true, Keep: -1}}, ErrOption,
			[]string{"keep"}},
		{Job{Name: "first", Shapes: shapes}, ErrOption, []string{"name is taken"}},
		{Job{Shapes: shapes}, ErrOption, []string{"name"}},
		{Job{Name: "x"}, ErrOption, []string{"image", "memory"}},
		{Job{Name: "x", Shapes: map[string][]int{"img": {1}}}, ErrInput, []string{"img", "image"}},
		{Job{Name: "x", Shapes: map[string][]int{"image": {1, 2}}}, ErrInput, []string{"image"}},
	} {
		m, err := Load(digits.Model)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		_, err = h.Admit(t.Context(), m, c.job)
		if !errors.Is(err, c.kind) {
			t.Errorf("%+v: error %v, want kind %v", c.job, err, c.kind)
			continue
		}
		for _, text := range c.text {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%+v: error %q does not say %q", c.job, err, text)
			}
		}
		if _, err := h.Admit(t.Context(), m,
			Job{Name: "again", Share: Share{Memory: MiB}}); err != nil {
			t.Errorf("admitted after %+v: %v", c.job, err)
		}
		if _, err := probabilities(t.Context(), m, drawn(2, 1)); err != nil {
			t.Errorf("run after %+v: %v", c.job, err)
		}
		m.Close()
	}
	checkUnfit(t, h)
}

// checkUnfit refuses models that are in use, are opened for a use of their own, or are closed.
func checkUnfit(t *testing.T, h *Host) {
	job := Job{Name: "x", Share: Share{Memory: MiB}}
	for what, opts := range map[string][]Option{"has run": nil, "admitted": nil, "closed": nil,
		"threads": {WithThreads(1)}, "concurrency": {WithMaxConcurrency(3)}} {
		m, err := Load(digits.Model, opts...)
		if err != nil {
			t.Fatal(err)
		}
		kind := ErrOption
		switch what {
		case "has run":
			_, err = probabilities(t.Context(), m, drawn(1, 1))
		case "admitted":
			_, err = h.Admit(t.Context(), m, Job{Name: "before", Share: job.Share})
		case "closed":
			err, kind = m.Close(), ErrClosed
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Admit(t.Context(), m, job); !errors.Is(err, kind) {
			t.Errorf("%s: error %v, want kind %v", what, err, kind)
		}
		m.Close()
	}
	if _, err := h.Admit(t.Context(), nil, job); !errors.Is(err, ErrOption) {
		t.Errorf("no model: %v", err)
	}
	m, err := Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	done, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	job.Shapes = map[string][]int{"image": {1, 1, digits.Side, digits.Side}}
	if _, err := h.Admit(done, m, job); !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Errorf("admitted with a context that is done: %v", err)
	}
	if _, err := h.Admit(t.Context(), m, job); err != nil {
		t.Errorf("admitted afterwards: %v", err)
	}
}

// TestNewHostRefuses: wrong options, and a device that another host has.
func TestNewHostRefuses(t *testing.T) {
	h := hosting(t, HostOptions{})
	for _, o := range []HostOptions{{}, {Device: "cpu:0"}, {Device: "cpu:77"}, {Device: "tpu"},
		{Device: "far:0", Policy: "nonesuch"}, {Device: "far:0", Policy: "fair:slice=x"},
		{Device: "far:0", Policy: "mig"}, {Threads: -1}, {Memory: -1}} {
		if other, err := NewHost(o); !errors.Is(err, ErrOption) {
			t.Errorf("%+v: host %v, error %v, want kind %v", o, other, err, ErrOption)
		}
	}
	_, err := NewHost(HostOptions{Device: "far:0", Threads: share.MaxUnits + 1})
	if !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), "513 threads") {
		t.Errorf("more threads than a device may have units: %v", err)
	}
	for _, p := range []string{"nonesuch", "fair:x=1", "fair:slice=x"} {
		if err := h.SetPolicy(p); !errors.Is(err, ErrOption) {
			t.Errorf("policy %s: %v", p, err)
		}
	}
	h.Close()
	again, err := NewHost(HostOptions{})
	if err != nil {
		t.Fatalf("after the first host was closed: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if err := h.SetPolicy("fifo"); !errors.Is(err, ErrClosed) {
		t.Errorf("a policy for a closed host: %v", err)
	}
	m, err := Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := h.Admit(t.Context(), m,
		Job{Name: "a", Share: Share{Memory: MiB}}); !errors.Is(err, ErrClosed) {
		t.Errorf("admitted to a closed host: %v", err)
	}
}

// TestWaitsEnd: a Run that waits for a lease that never comes ends with its context, and with its
// model or host; and what waits behind it does, too.
func TestWaitsEnd(t *testing.T) {
	if err := register(); err != nil {
		t.Fatal(err)
	}
	h := hosting(t, HostOptions{Policy: "partial"})
	lucky, _ := guest(t, h, "lucky", Share{})
	poor, tenant := guest(t, h, "poor", Share{})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	ended := make(chan error)
	wait := func(ctx context.Context, n int) {
		for range n {
			go func() {
				_, err := probabilities(ctx, poor, drawn(1, 1))
				ended <- err
			}()
		}
		for tenant.Usage().Queue < n {
			runtime.Gosched()
		}
	}
	wait(ctx, 3)
	if _, err := probabilities(t.Context(), lucky, drawn(1, 2)); err != nil {
		t.Errorf("beside jobs that wait: %v", err)
	}
	cancel(why)
	for range 3 {
		if err := <-ended; !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("cancelled while it waited: %v", err)
		}
	}
	wait(t.Context(), 2)
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("while it waited, the host was closed: %v", err)
		}
	}
	if _, err := probabilities(t.Context(), lucky, drawn(1, 2)); !errors.Is(err, ErrClosed) {
		t.Errorf("after the host was closed: %v", err)
	}
}

// TestGivenUp: Runs that give up at any moment leave no hold behind, which under a policy that asks
// nothing back would keep others from the device for ever.
func TestGivenUp(t *testing.T) {
	h := hosting(t, HostOptions{Policy: "fifo"})
	a, _ := guest(t, h, "a", Share{})
	b, _ := guest(t, h, "b", Share{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			for range 200 {
				ctx, cancel := context.WithTimeout(t.Context(),
					time.Duration(rng.IntN(200))*time.Microsecond)
				_, err := probabilities(ctx, a, drawn(1, 1))
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	for range 50 {
		if _, err := probabilities(t.Context(), b, drawn(1, 1)); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	for _, u := range h.Status().Jobs {
		if u.Queue != 0 {
			t.Errorf("usage %+v", u)
		}
	}
	if _, err := probabilities(t.Context(), b, drawn(1, 1)); err != nil {
		t.Error(err)
	}
}

// TestCapHolds: shapes that need more than the cap are refused with both numbers, a Run for which
// open results leave no room waits for one to be closed, and arenas of other shapes give way.
func TestCapHolds(t *testing.T) {
	h := hosting(t, HostOptions{})
	_, probe := guest(t, h, "probe", Share{})
	one := probe.Usage().Memory
	m, tenant := guest(t, h, "a", Share{Memory: one})
	if _, err := m.Run(t.Context(), drawn(64, 1)); !errors.Is(err, ErrMemory) ||
		!strings.Contains(err.Error(), one.About()) {
		t.Errorf("64 pictures in room for one: %v", err)
	}
	r, err := m.Run(t.Context(), drawn(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := Output[float32](r, "probabilities")
	before := slices.Clone(want)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	wait := func(ctx context.Context) {
		go func() {
			_, err := probabilities(ctx, m, drawn(1, 2))
			ended <- err
		}()
	}
	wait(ctx)
	for tenant.Usage().Queue == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "Result") ||
		!strings.Contains(err.Error(), "its cap "+one.About()) {
		t.Errorf("without room: %v", err)
	}
	wait(t.Context())
	if !slices.Equal(want, before) {
		t.Error("an open result has changed")
	}
	r.Close()
	if err := <-ended; err != nil {
		t.Errorf("with room: %v", err)
	}
	if err := tenant.SetShare(Share{Memory: one - 1}); !errors.Is(err, ErrMemory) {
		t.Errorf("a cap below what is held: %v", err)
	}
	if err := tenant.SetShare(Share{Memory: 40 * one}); err != nil {
		t.Error(err)
	}
	for n := range 12 {
		if _, err := probabilities(t.Context(), m, drawn(1+n%6, 1)); err != nil {
			t.Errorf("%d pictures: %v", 1+n%6, err)
		}
	}
	if u := tenant.Usage(); u.Peak > u.Share.Memory {
		t.Errorf("usage %+v", u)
	}
}

// TestCloseEndsWaitForRoom: a Run that waits for an open result to be closed, for shapes that are
// known and for new ones, ends with its host, though nobody closes that result.
func TestCloseEndsWaitForRoom(t *testing.T) {
	for _, pictures := range []int{1, 2} {
		h := hosting(t, HostOptions{})
		_, probe := guest(t, h, "probe", Share{})
		m, tenant := guest(t, h, "a", Share{Memory: probe.Usage().Memory})
		if pictures == 2 {
			if err := tenant.SetShare(Share{Memory: 2*probe.Usage().Memory - 1}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := m.Run(t.Context(), drawn(1, 1))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			_, err := probabilities(t.Context(), m, drawn(pictures, 2))
			ended <- err
		}()
		for tenant.Usage().Queue == 0 {
			runtime.Gosched()
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		select {
		case err := <-ended:
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%d pictures: %v", pictures, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%d pictures: a Run of a closed host waits on", pictures)
		}
		r.Close()
	}
}

// TestShapesGiveWay: a job whose cap has room for one set of shapes at a time runs many.
func TestShapesGiveWay(t *testing.T) {
	h := hosting(t, HostOptions{})
	largest := func() Bytes {
		m, err := Load(digits.Model)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		probe, err := h.Admit(t.Context(), m, Job{Name: "probe",
			Shapes: map[string][]int{"image": {9, 1, digits.Side, digits.Side}}})
		if err != nil {
			t.Fatal(err)
		}
		return probe.Usage().Memory
	}()
	m, tenant := guest(t, h, "a", Share{Memory: largest})
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for n := range 12 {
				if _, err := probabilities(t.Context(), m, drawn(1+(n+i)%9, 1)); err != nil {
					t.Errorf("%d pictures: %v", 1+(n+i)%9, err)
				}
			}
		})
	}
	wg.Wait()
	if u := tenant.Usage(); u.Peak > largest || u.Runs != 36 {
		t.Errorf("of %v: usage %+v", largest, u)
	}
}

// TestFaultsStayApart: a request that a job's model refuses while it computes, and one without
// inputs, leave that job and its neighbour as they were.
func TestFaultsStayApart(t *testing.T) {
	h := hosting(t, HostOptions{})
	good, _ := guest(t, h, "good", Share{})
	g, err := graph.Parse(`graph "lookup" {
  opset "" 17
  input %i: int64[1]
  const %table: float32[4,1] = {1, 2, 3, 4}
  %y: float32[1,1] = Gather@13 "lookup" (%table, %i) {axis=0}
  output %y
}`)
	path := filepath.Join(t.TempDir(), "lookup.onnx")
	if err := errors.Join(err, onnx.WriteFile(path, g, onnx.WriteOptions{})); err != nil {
		t.Fatal(err)
	}
	bad, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	if _, err := h.Admit(t.Context(), bad, Job{Name: "bad"}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []int64{1, 77, 2, -77, 0} {
		index, err := NewTensor([]int64{row}, 1)
		if err != nil {
			t.Fatal(err)
		}
		r, err := bad.Run(t.Context(), Inputs{"i": index})
		if wrong := row > 3 || row < -4; wrong != errors.Is(err, ErrInput) || !wrong && err != nil {
			t.Errorf("row %d: %v", row, err)
		}
		r.Close()
		if _, err := bad.Run(t.Context(), nil); !errors.Is(err, ErrInput) {
			t.Errorf("no inputs: %v", err)
		}
		if _, err := probabilities(t.Context(), good, drawn(1, 1)); err != nil {
			t.Error(err)
		}
	}
}

// TestPolicyPanics: fair takes the place of a policy that panics, and the status says so.
func TestPolicyPanics(t *testing.T) {
	if err := register(); err != nil {
		t.Fatal(err)
	}
	h := hosting(t, HostOptions{Policy: "broken"})
	m, _ := guest(t, h, "a", Share{})
	if _, err := probabilities(t.Context(), m, drawn(1, 1)); err != nil {
		t.Error(err)
	}
	if s := h.Status(); s.Policy != "fair" || s.Faults != 1 || s.Fault == nil ||
		!strings.Contains(s.Fault.Error(), "no idea") {
		t.Errorf("status %+v", s)
	}
}

// TestCloseInAnyOrder closes a host, its models and an open result in each order, and then nothing
// is held and no goroutine is left.
func TestCloseInAnyOrder(t *testing.T) {
	if _, err := shared(); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for order := range 24 {
		h, err := NewHost(HostOptions{})
		if err != nil {
			t.Fatal(err)
		}
		a, _ := guest(t, h, "a", Share{})
		b, tenant := guest(t, h, "b", Share{})
		r, err := a.Run(t.Context(), drawn(1, 1))
		if err != nil {
			t.Fatal(err)
		}
		closes := []func() error{h.Close, a.Close, b.Close, func() error {
			p, err := Output[float32](r, "probabilities")
			if err == nil && p[0] <= 0 {
				err = fmt.Errorf("an open result says %v", p)
			}
			r.Close()
			return err
		}}
		for n, k := 4, order; n > 0; n-- {
			i := k % n
			k /= n
			if err := closes[i](); err != nil {
				t.Errorf("order %d: %v", order, err)
			}
			closes = slices.Delete(closes, i, i+1)
		}
		if held := h.machine.Device.Held(); held != 0 {
			t.Errorf("order %d: %d bytes are held", order, held)
		}
		if u := tenant.Usage(); u.Memory != 0 || u.Name != "b" {
			t.Errorf("order %d: usage %+v", order, u)
		}
	}
	for runtime.NumGoroutine() > before {
		runtime.Gosched() // workers that were told to end
	}
}

// TestFarHost shares a device whose memory the host cannot address.
func TestFarHost(t *testing.T) {
	alone, err := Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	h := hosting(t, HostOptions{Device: "far:0"})
	a, tenant := guest(t, h, "a", Share{})
	b, _ := guest(t, h, "b", Share{})
	want, err := probabilities(t.Context(), alone, drawn(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	near := func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-5 }
	for range 3 {
		for _, m := range []*Model{a, b} {
			got, err := probabilities(t.Context(), m, drawn(1, 3))
			if err != nil || !slices.EqualFunc(got, want, near) {
				t.Errorf("%v, want %v: %v", got, want, err)
			}
		}
	}
	usage := tenant.Usage()
	if err := tenant.SetShare(Share{Memory: 2 * usage.Share.Memory}); err != nil {
		t.Error(err)
	}
	// A cap that the device's memory keeps and the host's does not is refused whole.
	host := tenant.hosted.Held()
	if err := tenant.hosted.Reserve(int64(usage.Memory - host + 4096)); err != nil {
		t.Fatal(err)
	}
	if err := tenant.SetShare(Share{Memory: usage.Memory}); !errors.Is(err, ErrMemory) {
		t.Errorf("a cap below what is held of the host's memory: %v", err)
	}
	if now := tenant.Usage().Share.Memory; now != 2*usage.Share.Memory {
		t.Errorf("a refused cap left %v of %v", now, 2*usage.Share.Memory)
	}
	tenant.hosted.Release(int64(usage.Memory - host + 4096))
	if err := tenant.SetShare(Share{Memory: usage.Memory}); err != nil {
		t.Error(err)
	}
}
