package server

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// studied is a server with a catalogue of models m that count their runs, and has loaded m by
// request.
func studied(t *testing.T) (s *Server, v *version, runs *atomic.Int64) {
	t.Helper()
	runs = &atomic.Int64{}
	from := &shelf{}
	count := weir.Operator{Domain: "test", Name: "Count", Inputs: 1,
		Eval: func(c *op.Eval) error {
			runs.Add(1)
			y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
			if err == nil {
				copy(y.Data, c.In[0].Data)
			}
			return err
		}}
	m := computed("m", 1, count)
	m.Mark = "the same"
	from.put("m", m)
	s = begin(t, Options{Catalogue: from, Batch: 4}, times("other", 1))
	s.unasked = time.Hour
	if err := s.LoadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	s.background.Wait()
	return s, s.models["m"].newest(), runs
}

// TestLearnsOnceAnswered: a model that is loaded for its first request computes nothing before it,
// and learns how requests are put together once the answer is sent, not while it is.
func TestLearnsOnceAnswered(t *testing.T) {
	s, v, runs := studied(t)
	r := &oip.Request{Inputs: []oip.Input{{Name: "x", Tensor: tensor.From([]float32{2}, 1)}}}
	if n := runs.Load(); n != 0 {
		t.Fatalf("%d runs before the first request", n)
	}
	if err := s.LoadModel(t.Context(), "m", nil); err != nil { // nothing has changed
		t.Fatal(err)
	}
	a, err := s.Infer(t.Context(), "m", "", r)
	if err != nil {
		t.Fatal(err)
	}
	s.background.Wait()
	if n := runs.Load(); n != 1 || v.learned() != nil {
		t.Errorf("%d runs before the answer is sent, learned %v", n, v.learned())
	}
	a.Close()
	s.background.Wait()
	n := runs.Load()
	if n <= 1 || v.learned() == nil {
		t.Errorf("%d runs once it was, learned %v", n, v.learned())
	}
	b, err := s.Infer(t.Context(), "m", "", r)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	s.background.Wait()
	if m := runs.Load(); m != n+1 {
		t.Errorf("%d runs with a second request, want %d", m, n+1)
	}
}

// TestLearnsUnasked: so does one that nobody asks, after a while.
func TestLearnsUnasked(t *testing.T) {
	s, v, runs := studied(t)
	if v.later == nil || !v.later.Reset(0) {
		t.Fatal("nothing has it learn where nobody asks")
	}
	for v.learned() == nil {
		runtime.Gosched()
	}
	s.background.Wait()
	if n := runs.Load(); n == 0 {
		t.Error("it learned without a run")
	}
}

// TestLearnsNotUnloaded: one that is gone by then does not.
func TestLearnsNotUnloaded(t *testing.T) {
	s, v, runs := studied(t)
	if err := s.UnloadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	s.background.Wait()
	if v.later.Stop() {
		t.Error("it is still to learn once it is unloaded")
	}
	v.answered() // at the same moment
	s.background.Wait()
	if n := runs.Load(); n != 0 {
		t.Errorf("%d runs of a model that is unloaded", n)
	}
}
