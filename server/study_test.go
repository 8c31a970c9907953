package server

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// tallied is a version of a model that counts its runs, and whose rows are independent.
func tallied(version int64, runs *atomic.Int64) Source {
	src := computed("m", version, weir.Operator{Domain: "test", Name: "Count", Inputs: 1,
		Eval: func(c *op.Eval) error {
			runs.Add(1)
			y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
			if err == nil {
				copy(y.Data, c.In[0].Data)
			}
			return err
		}})
	src.Mark = fmt.Sprint("content ", version)
	return src
}

// studied is a server that has loaded a model by request, which counts its runs.
func studied(t *testing.T) (s *Server, v *version, runs *atomic.Int64) {
	t.Helper()
	runs = &atomic.Int64{}
	from := &shelf{}
	from.put("m", tallied(1, runs))
	s = begin(t, Options{Catalogue: from, Batch: 4}, times("other", 1))
	s.unasked = time.Hour
	if err := s.LoadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	s.background.Wait()
	return s, s.models["m"].newest(), runs
}

// TestLearnsOnceAnswered: a model that is loaded for its first request computes nothing before it,
// and learns how requests are put together a little after the answer is sent, not while it is.
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
	s.calm = time.Hour
	a.Close()
	s.background.Wait()
	if n := runs.Load(); n != 1 || v.learned() != nil {
		t.Errorf("%d runs as the answer is on its way, learned %v", n, v.learned())
	}
	v.hasty.Store(true)
	s.calm = 0
	v.answered()
	for v.learned() == nil {
		runtime.Gosched()
	}
	s.background.Wait()
	n := runs.Load()
	if b := v.learned(); n <= 1 || b == nil || b.length == 0 {
		t.Errorf("%d runs once it was, learned %+v", n, b)
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
	if !v.begun {
		t.Error("it may begin to learn once it is unloaded")
	}
	v.answered() // at the same moment
	s.background.Wait()
	if n := runs.Load(); n != 0 {
		t.Errorf("%d runs of a model that is unloaded", n)
	}
}

// TestKnownIsNotTried: what is rolled back to and loaded anew computes once for each number of rows
// that it is put together in, so that there are plans for these, and no samples: that its rows are
// independent was held when the very same was served before. It is held once more where that is not
// sure.
func TestKnownIsNotTried(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*Source)
		more   int64 // runs
	}{
		{"the same", func(*Source) {}, 0},
		{"of a folder", func(src *Source) { src.Stale = func() bool { return false } }, 0},
		{"unlike all others", func(src *Source) { src.Mark = "" }, samples},
	} {
		t.Run(c.what, func(t *testing.T) {
			var runs atomic.Int64
			first, second := tallied(1, &runs), tallied(2, &runs)
			c.change(&first)
			from := &shelf{}
			from.put("m", second)
			s := begin(t, Options{Catalogue: from, Batch: 8}, first)
			s.background.Wait()
			v := s.models["m"].newest()
			v.batches.Store(&batching{most: 4, sizes: []int{2, 4}, why: "known",
				length: 4})
			if err := s.LoadModel(t.Context(), "m", nil); err != nil {
				t.Fatal(err)
			}
			s.background.Wait()
			s.hurry(t.Context(), true) // else it were as it was
			before := runs.Load()
			if err := s.Rollback(t.Context(), "m"); err != nil {
				t.Fatal(err)
			}
			s.background.Wait()
			b := s.models["m"].newest().learned()
			if b == nil || b.most != 4 || b.why != "known" {
				t.Errorf("requests are put together as %+v", b)
			}
			if n, want := runs.Load()-before, 1+2+c.more; n != want {
				t.Errorf("%d runs, want %d", n, want)
			}
		})
	}
}

// TestKnown: what was found out holds of the very same content alone.
func TestKnown(t *testing.T) {
	is := func(change func(*version)) bool {
		v := &version{source: Source{Mark: "a", learned: &batching{most: 1, length: 4}}}
		change(v)
		return v.known() != nil
	}
	if !is(func(*version) {}) {
		t.Error("of the same content nothing is known")
	}
	for what, change := range map[string]func(*version){
		"was not served": func(v *version) { v.source.learned = nil },
		"had no samples": func(v *version) { v.source.learned.length = 0 },
		"was padded":     func(v *version) { v.source.learned.pads = &padding{} },
		"has no mark":    func(v *version) { v.source.Mark = "" },
		"has changed":    func(v *version) { v.source.Stale = func() bool { return true } },
		"is an ensemble": func(v *version) {
			v.source.Config = &oip.Config{EnsembleScheduling: &oip.EnsembleScheduling{}}
		},
		"is configured anew": func(v *version) {
			v.source.Config = &oip.Config{DynamicBatching: &oip.DynamicBatching{}}
		},
	} {
		if is(change) {
			t.Errorf("what %s is known", what)
		}
	}
}
