package weir

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// pictures are n empty ones.
func pictures(n int) Inputs {
	return Inputs{"image": tensor.From(make([]float32, n*digits.Side*digits.Side), n, 1,
		digits.Side, digits.Side)}
}

// warnings is a log of which only the messages count.
type warnings chan string

func (w warnings) Enabled(context.Context, slog.Level) bool { return true }
func (w warnings) Handle(_ context.Context, r slog.Record) error {
	w <- r.Message
	return nil
}
func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w warnings) WithGroup(string) slog.Handler      { return w }

// collect finds what is lost, and returns when that was said.
func collect() {
	done := make(chan struct{})
	runtime.AddCleanup(new([64]byte), func(c chan struct{}) { close(c) }, done)
	runtime.GC()
	<-done
}

// heard makes what is logged by default come from a channel until the test ends, but for what other
// tests have lost.
func heard(t *testing.T) warnings {
	collect()
	w := make(warnings, 100)
	before := slog.Default()
	slog.SetDefault(slog.New(w))
	t.Cleanup(func() { slog.SetDefault(before) })
	return w
}

// TestLostResults loses results, and then the model: both are freed, with one warning each, and
// results that somebody has are left alone.
func TestLostResults(t *testing.T) {
	own, err := cpu.Open("cpu:0", cpu.Options{}) // on which no other test holds anything
	if err != nil {
		t.Fatal(err)
	}
	log := heard(t)
	lose := func() (kept Result, one int64) {
		m, err := Load(digits.Model)
		if err != nil {
			t.Fatal(err)
		}
		m.device = own
		for i := range 10 {
			if kept, err = m.Run(t.Context(), pictures(4)); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				one = own.Held()
			}
		}
		runtime.GC()
		<-log
		for m.arenas.Load() > 1 {
			runtime.GC()
			runtime.Gosched()
		}
		runtime.KeepAlive(m)
		return kept, one
	}
	kept, one := lose()
	if p, err := Output[float32](kept, "probabilities"); err != nil || p[0] <= 0 {
		t.Errorf("of the result that was kept: %v, %v", p, err)
	}
	if held := own.Held(); held != one {
		t.Errorf("%d bytes are held for one result, want %d", held, one)
	}
	runtime.GC()
	<-log // of the model
	kept.Close()
	for own.Held() != 0 {
		runtime.Gosched()
	}
	if n := len(log); n > 0 {
		t.Errorf("%d more warnings, of which the first is %q", n, <-log)
	}
}

// TestLostAgain loses the result of a Run that had the memory of one before, which was closed.
func TestLostAgain(t *testing.T) {
	log := heard(t)
	m, err := Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i := range 2 {
		r, err := m.Run(t.Context(), pictures(4))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			r.Close()
		}
	}
	for range 2000 {
		if runtime.GC(); m.arenas.Load() == 0 {
			<-log
			return
		}
		runtime.Gosched()
	}
	t.Error("the memory is not freed")
}

// bubble has f use the digits classifier in virtual time, with a closed model at the end.
func bubble(t *testing.T, f func(t *testing.T, m *Model)) {
	if _, err := shared(); err != nil { // whose workers outlive the test
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		m, err := Load(digits.Model, WithThreads(1)) // workers would be outside of the bubble
		if err != nil {
			t.Fatal(err)
		}
		f(t, m)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}

// atOnce returns so many results that are open at the same time.
func atOnce(t *testing.T, m *Model, n int) (open []Result) {
	t.Helper()
	for range n {
		r, err := m.Run(t.Context(), pictures(1))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	return open
}

// TestArenasInUse holds that arenas are not idle that were in use since they were last looked at.
func TestArenasInUse(t *testing.T) {
	bubble(t, func(t *testing.T, m *Model) {
		for range 4 {
			open := atOnce(t, m, 5)
			for _, r := range open {
				r.Close()
			}
			time.Sleep(idleFor * 2 / 3)
			if n := m.arenas.Load(); n != 5 {
				t.Errorf("%d of 5 arenas are left", n)
			}
		}
	})
}

// TestNothingIsLostThatWasClosed holds that models and results which are closed give no warning.
func TestNothingIsLostThatWasClosed(t *testing.T) {
	log := heard(t)
	func() {
		m, err := Load(digits.Model, WithMaxShapes(1))
		if err != nil {
			t.Fatal(err)
		}
		for n := range 4 {
			r, err := m.Run(t.Context(), pictures(1+n%2))
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	if collect(); len(log) > 0 {
		t.Error(<-log)
	}
}

// TestConcurrency lets many ask at once: as many compute as the option says, others wait in their
// order and leave when their context is done, and no more arenas are made than compute.
func TestConcurrency(t *testing.T) {
	m, err := Load(digits.Model, WithMaxConcurrency(2))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r, err := m.Run(t.Context(), pictures(1))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	for range 2 { // of Runs that compute
		m.turns <- struct{}{}
	}
	late := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	for what, in := range map[string]Inputs{"known": pictures(1), "new": pictures(2)} {
		if _, err := m.Run(ctx, in); !errors.Is(err, context.Canceled) || !errors.Is(err, late) {
			t.Errorf("%s shapes while two compute: %v", what, err)
		}
	}
	m.compiling <- struct{}{} // another's shapes
	<-m.turns
	if _, err := m.Run(ctx, pictures(2)); !errors.Is(err, late) {
		t.Errorf("while others compile: %v", err)
	}
	<-m.compiling
	<-m.turns
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 5 {
				r, err := m.Run(t.Context(), pictures(1))
				if err != nil {
					t.Error(err)
				}
				if n := len(m.turns); n > 2 {
					t.Errorf("%d compute at once", n)
				}
				r.Close()
			}
		})
	}
	all.Wait()
	if n := cap(m.turns); n != 2 {
		t.Errorf("%d may compute at once, want 2", n)
	}
	if m, err := Load(digits.Model); err != nil || cap(m.turns) != max(2, cpu.Cores()) {
		t.Errorf("by default %d may compute at once; %v", cap(m.turns), err)
	} else {
		m.Close()
	}
}

// TestIdleArenas holds that arenas which were needed once are given back when they have been idle
// for a while, but for one.
func TestIdleArenas(t *testing.T) {
	bubble(t, func(t *testing.T, m *Model) {
		for range 2 {
			open := atOnce(t, m, 12)
			time.Sleep(2 * idleFor)
			if n := m.arenas.Load(); n != 12 {
				t.Errorf("%d arenas for 12 open results", n)
			}
			for _, r := range open {
				r.Close()
			}
			time.Sleep(idleFor / 2)
			if n := m.arenas.Load(); n != 12 {
				t.Errorf("%d of 12 arenas are left too soon", n)
			}
			time.Sleep(2 * idleFor)
			if n := m.arenas.Load(); n != 1 {
				t.Errorf("%d arenas are left, want 1", n)
			}
		}
	})
}

// TestInputsCount holds that a model is not compiled for inputs beside which it has no memory: on a
// CPU both are in the same.
func TestInputsCount(t *testing.T) {
	in := pictures(64)
	open := func(limit int64) *Model {
		t.Helper()
		m, err := Load(digits.Model)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		if m.device, err = cpu.Open("cpu:0", cpu.Options{MemoryBytes: limit}); err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open(0)
	r, err := m.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	need := m.variants[0].session.Plan().PeakBytes(1) + in["image"].Size()
	for limit, kind := range map[int64]error{need: nil, need - 1: ErrMemory} {
		m := open(limit)
		r, err := m.Run(t.Context(), in)
		if r.Close(); !errors.Is(err, kind) {
			t.Errorf("with %d bytes of %d: %v", limit, need, err)
		}
	}
}

// TestProcs holds that goroutines which wait for timers and the network have a processor of the
// scheduler while all cores compute.
func TestProcs(t *testing.T) {
	if os.Getenv("GOMAXPROCS") != "" {
		t.Skip("GOMAXPROCS is set")
	}
	if _, err := shared(); err != nil {
		t.Fatal(err)
	}
	if n := runtime.GOMAXPROCS(0); n < cpu.Cores()+2 {
		t.Errorf("GOMAXPROCS is %d with %d cores", n, cpu.Cores())
	}
}

// closing is a context that closes a model as soon as a Run asks whether it is done.
type closing struct {
	context.Context
	close func() error
}

func (c closing) Err() error {
	_ = c.close()
	return c.Context.Err()
}

func (c closing) Done() <-chan struct{} {
	_ = c.close()
	return c.Context.Done()
}

// TestClosedWhileDataAreWrong closes a model while a Run is under way that fails of its data: whose
// fault that is, is looked for in the model, but no longer than a context lets it.
func TestClosedWhileDataAreWrong(t *testing.T) {
	g, err := graph.Parse(`graph "words" {
  opset "" 17
  input %tokens: int64[n]
  const %words: float32[3,2] = {1, 2, 3, 4, 5, 6}
  %y = Gather@13 (%words, %tokens) {axis=0}
  output %y
}`)
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
	run := func(ctx context.Context, token int64) error {
		r, err := m.Run(ctx, Inputs{"tokens": tensor.From([]int64{token}, 1)})
		r.Close()
		return err
	}
	if err := run(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.broken(late); !errors.Is(err, context.Canceled) || m.searched {
		t.Errorf("too late: %v", err)
	}
	m.searching <- struct{}{} // by another Run
	if _, err := m.broken(late); !errors.Is(err, context.Canceled) {
		t.Errorf("too late, while another looks: %v", err)
	}
	<-m.searching
	if err := run(closing{t.Context(), m.Close}, 3); !errors.Is(err, ErrInput) {
		t.Error(err)
	}
	if err := run(t.Context(), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
}

// TestWaitingForShapes lets many ask for the same new shapes at once: those who wait for them, and
// then for their turn, have no arenas meanwhile.
func TestWaitingForShapes(t *testing.T) {
	if _, err := shared(); err != nil { // whose workers outlive the test
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		// workers would be outside of the bubble
		m, err := Load(digits.Model, WithMaxConcurrency(2), WithThreads(1))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		m.compiling <- struct{}{}
		for range 10 {
			all.Go(func() {
				r, err := m.Run(t.Context(), pictures(1))
				if err != nil {
					t.Error(err)
				}
				r.Close()
			})
		}
		synctest.Wait()
		for range 2 { // of Runs that compute
			m.turns <- struct{}{}
		}
		<-m.compiling
		synctest.Wait()
		if n := m.arenas.Load(); n > 1 {
			t.Errorf("%d arenas while none may compute", n)
		}
		for range 2 {
			<-m.turns
		}
		all.Wait()
		made := m.arenas.Load() // as many as there were that computed, or had not closed yet
		for range 2 {
			r, err := m.Run(t.Context(), pictures(1))
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
		}
		if n := m.arenas.Load(); n > made {
			t.Errorf("%d arenas, where %d were free", n, made)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestSharedWeightsCountOnce holds that weights which a plan shares are not asked for again.
func TestSharedWeightsCountOnce(t *testing.T) {
	open := func(limit int64) *Model {
		m, err := Load(digits.Model)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		if m.device, err = cpu.Open("cpu:0", cpu.Options{MemoryBytes: limit}); err != nil {
			t.Fatal(err)
		}
		return m
	}
	run := func(m *Model, n int) error {
		r, err := m.Run(t.Context(), pictures(n))
		r.Close()
		return err
	}
	m := open(0)
	for _, n := range []int{4, 6, 8} {
		if err := run(m, n); err != nil {
			t.Fatal(err)
		}
	}
	need := m.device.Held() + pictures(8)["image"].Size()
	for limit, kind := range map[int64]error{need: nil, need - 1: ErrMemory} {
		m := open(limit)
		for _, n := range []int{4, 6} {
			if err := run(m, n); err != nil {
				t.Fatal(err)
			}
		}
		if err := run(m, 8); !errors.Is(err, kind) {
			t.Errorf("with %d bytes of %d: %v", limit, need, err)
		}
	}
}

// late is a context that lets no Run compute once a model begins to compile, and is done once that
// has compiled.
type late struct {
	context.Context
	m    *Model
	done chan struct{}
}

func (l late) Done() <-chan struct{} {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if len(l.m.variants) > 0 {
		return l.done
	}
	for len(l.m.compiling) > 0 && len(l.m.turns) < cap(l.m.turns) {
		l.m.turns <- struct{}{}
	}
	return nil
}

func (l late) Err() error {
	if l.Done() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// TestLateAfterCompiling holds that a Run which has compiled its shapes, and whose turn then does
// not come in time, keeps no memory.
func TestLateAfterCompiling(t *testing.T) {
	m, err := Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	close(done)
	if _, err := m.Run(late{t.Context(), m, done}, pictures(1)); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Error(err)
	}
	m.compiling <- struct{}{} // which the Run may have left behind
	if free := len(m.variants[0].free); m.running != 0 || free != 1 {
		t.Errorf("%d are running, %d arenas are free", m.running, free)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
