package server

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// opened is a source with a mark that counts how often it is opened.
func opened(src Source, times *atomic.Int64) Source {
	open := src.Open
	src.Mark = fmt.Sprint("content ", src.Version)
	src.Open = func() (*weir.Model, error) {
		times.Add(1)
		return open()
	}
	return src
}

// twoVersions is a server with a model of which version 1 is what a rollback serves, and 2 is
// served.
func twoVersions(t *testing.T, o Options, one, two Source) *Server {
	t.Helper()
	from := &shelf{}
	from.put(two.Name, two)
	o.Catalogue = from
	s := begin(t, o, one)
	if err := s.LoadModel(t.Context(), two.Name, nil); err != nil {
		t.Fatal(err)
	}
	s.background.Wait()
	return s
}

// TestRollbackTakesBack: a rollback serves what was served, with what it had learned and was
// promised, and opens nothing; the index has one version throughout, and an unload leaves nothing.
func TestRollbackTakesBack(t *testing.T) {
	var opens atomic.Int64
	s := twoVersions(t, Options{}, opened(times("m", 1), &opens), opened(times("m", 2), &opens))
	m := s.models["m"]
	two := m.newest()
	if len(m.left) != 1 || len(s.Status().Jobs) != 2 {
		t.Fatalf("%d versions and %d jobs are kept", len(m.left), len(s.Status().Jobs))
	}
	one := m.left[0]
	for i, want := range []*version{one, two, one, two, one} {
		terms := weir.Share{Class: weir.Latency, Compute: 0.25, Limit: 0.5 + float64(i)/100}
		if _, err := s.SetShare("m", terms); err != nil {
			t.Fatal(err)
		}
		if err := s.Rollback(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		s.background.Wait()
		y, by, err := product(t.Context(), s, "m", "")
		if m.newest() != want || err != nil || by != want.number || fmt.Sprint(y) != by {
			t.Errorf("rolled back to %v of %s (%v), want %s", y, by, err, want.number)
		}
		if got := want.job.Usage().Share; got.Class != terms.Class || got.Limit != terms.Limit ||
			got.Compute != terms.Compute || m.left[0].job.Usage().Share.Compute != 0 {
			t.Errorf("it has %+v, and the other %+v", got, m.left[0].job.Usage().Share)
		}
		if got := lines(s); len(got) != 1 || got[0] != "m/"+by+" READY" {
			t.Errorf("the index is %q", got)
		}
	}
	if n := opens.Load(); n != 2 {
		t.Errorf("models were opened %d times", n)
	}
	if err := s.UnloadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	if st := s.Status(); st.Held != 0 || st.Promised != 0 || len(st.Jobs) != 0 || len(m.left) != 0 {
		t.Errorf("once it is unloaded: %+v, %d versions are kept", st, len(m.left))
	}
}

// TestAsideLeaves: what a rollback would serve leaves after a while, and when another version takes
// its place; then a rollback loads it anew.
func TestAsideLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opens atomic.Int64
		s := twoVersions(t, Options{}, opened(times("m", 1), &opens),
			opened(times("m", 2), &opens))
		jobs := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, j := range s.Status().Jobs {
				got = append(got, j.Name)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: jobs %q, want %q", when, got, want)
			}
		}
		back := func() {
			t.Helper()
			if err := s.Rollback(t.Context(), "m"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(retained - time.Second)
		jobs("a moment before", "m/1", "m/2")
		back()
		time.Sleep(2 * time.Second)
		jobs("taken back before", "m/1", "m/2")
		time.Sleep(retained)
		jobs("a moment after", "m/1")
		back()
		jobs("loaded anew", "m/1", "m/2")
		if n := opens.Load(); n != 3 {
			t.Errorf("models were opened %d times", n)
		}
		s.o.Catalogue.(*shelf).put("m", opened(times("m", 3), &opens))
		if err := s.LoadModel(t.Context(), "m", nil); err != nil {
			t.Fatal(err)
		}
		jobs("another is loaded", "m/2", "m/3")
	})
}

// TestTakesBackTheSame: what is another version, has another mark, or is to have another cap of
// memory is not what has left; what has no mark is not kept, and what ends is not taken back.
func TestTakesBackTheSame(t *testing.T) {
	var opens atomic.Int64
	one := opened(times("m", 1), &opens)
	s := twoVersions(t, Options{}, one, opened(times("m", 2), &opens))
	m := s.models["m"]
	changed, other := one, one
	changed.Mark, other.Version = "changed", 3
	if s.takeBack(m, &changed) != nil || s.takeBack(m, &other) != nil {
		t.Error("it is taken back for another")
	}
	before, _ := s.Expect("m", weir.Share{Memory: weir.MiB})
	if s.takeBack(m, &one) != nil {
		t.Error("it is taken back for a cap that it has not")
	}
	s.Expect("m", before)
	v := s.takeBack(m, &one)
	if v == nil || s.takeBack(m, &one) != nil {
		t.Fatal("it is not taken back once")
	}
	s.mu.Lock()
	ends := m.newest()
	m.served = nil
	m.leaves(ends, true)
	ends.cut()
	s.mu.Unlock()
	if two := ends.source; s.takeBack(m, &two) != nil {
		t.Error("a version that ends is taken back")
	}
	for what, change := range map[string]func(v *version){
		"without a mark": func(v *version) { v.source.Mark = "" },
		"of an ensemble": func(v *version) { v.ensemble = &ensemble{} },
		"of sequences":   func(v *version) { v.sequences = newSequences(&sequencing{}) },
		"without a job":  func(v *version) { v.on = nil },
	} {
		other := &version{on: v.on, source: v.source, server: s}
		if !other.keepable() {
			t.Error("it is not kept")
		}
		if change(other); other.keepable() {
			t.Errorf("a version %s is kept", what)
		}
	}
}

// TestTakenBackWhileItLeaves: a version is served again whose last requests are still under way.
func TestTakenBackWhileItLeaves(t *testing.T) {
	var opens atomic.Int64
	from := &shelf{}
	from.put("m", opened(times("m", 2), &opens))
	s := begin(t, Options{Catalogue: from}, opened(times("m", 1), &opens))
	v, err := s.enter(t.Context(), "m", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.LoadModel(t.Context(), "m", nil); err != nil {
			t.Fatal(err)
		}
		if got := lines(s); len(got) != 2 || got[0] != "m/1 UNLOADING" {
			t.Errorf("with a request under way the index is %q", got)
		}
		if err := s.Rollback(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		if s.models["m"].newest() != v || v.going != nil {
			t.Error("another version is served")
		}
		s.background.Wait()
		if got := lines(s); len(got) != 1 || got[0] != "m/1 READY" {
			t.Errorf("the index is %q", got)
		}
	}
	s.leave(v)
	s.answered()
	s.background.Wait()
	if y, _, err := product(t.Context(), s, "m", ""); y != 1 || err != nil {
		t.Errorf("it answers %v (%v)", y, err)
	}
	if n := len(s.Status().Jobs); n != 2 || opens.Load() != 2 {
		t.Errorf("%d jobs, opened %d times", n, opens.Load())
	}
}

// TestLeavingIsNotTakenBack: a version whose memory is wanted is not served again, though it has
// requests still.
func TestLeavingIsNotTakenBack(t *testing.T) {
	var opens atomic.Int64
	one := opened(times("m", 1), &opens)
	from := &shelf{}
	from.put("m", opened(times("m", 2), &opens))
	s := begin(t, Options{Catalogue: from}, one)
	v, err := s.enter(t.Context(), "m", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.LoadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	s.depart(true)
	if s.takeBack(v.model, &one) != nil {
		t.Error("it is taken back")
	}
	s.leave(v)
	s.answered()
	s.background.Wait()
	if n := len(s.Status().Jobs); n != 1 || len(v.model.left) != 0 {
		t.Errorf("%d jobs, and %d versions are left", n, len(v.model.left))
	}
}

// TestAsideLearnsNothing: a version learns nothing while it is kept for a rollback, and what it has
// left to learn once it is served again.
func TestAsideLearnsNothing(t *testing.T) {
	var opens atomic.Int64
	s := twoVersions(t, Options{}, opened(times("m", 1), &opens), opened(times("m", 2), &opens))
	v := s.models["m"].left[0]
	begun := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return v.begun
	}
	s.mu.Lock()
	v.begun = false
	s.mu.Unlock()
	if v.study(); begun() {
		t.Error("it learns beside the one that is served")
	}
	if err := s.Rollback(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	if !begun() {
		t.Error("it does not learn though it is served")
	}
}

// TestAsideMakesRoom: whoever needs memory has it of what a rollback would serve, and no other
// version is the poorer.
func TestAsideMakesRoom(t *testing.T) {
	var need weir.Bytes
	{
		s := begin(t, Options{}, digitsSource())
		need = s.Status().Promised
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	other := digitsSource()
	other.Name = "other"
	for _, c := range []struct {
		what   string
		memory weir.Bytes // for so many versions, in halves
		want   func(t *testing.T, s *Server) error
	}{
		{"a load", 5, func(t *testing.T, s *Server) error {
			s.o.Catalogue.(*shelf).put("other", other)
			return s.LoadModel(t.Context(), "other", nil)
		}},
		{"work beside", 5, func(t *testing.T, s *Server) error {
			b, err := s.Beside(t.Context(), "digits", "", "(batch)")
			if err != nil {
				return err
			}
			return b.Close()
		}},
		{"a workplace", 5, func(t *testing.T, s *Server) error {
			w, err := s.Enter("(training)", need, weir.Share{})
			if err != nil {
				return err
			}
			w.Close()
			return nil
		}},
		{"a share", 5, func(t *testing.T, s *Server) error {
			_, err := s.SetShare("digits", weir.Share{Memory: 2 * need})
			return err
		}},
		{"a request", 5, func(t *testing.T, s *Server) error {
			in := tensor.From(make([]float32, 36*64), 36, 1, 8, 8)
			a, err := s.Infer(t.Context(), "digits", "", &oip.Request{Inputs: []oip.Input{
				{Name: "image", Tensor: in}}})
			if err == nil {
				a.Close()
			}
			return err
		}},
		{"a batch", 7, func(t *testing.T, s *Server) error {
			if v := s.models["digits"].newest(); v.short() {
				return weir.ErrMemory
			}
			return nil
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			var opens atomic.Int64
			one, two := digitsSource(), digitsSource()
			two.Version = 2
			s := twoVersions(t, Options{Host: weir.HostOptions{Memory: c.memory * need / 2}},
				opened(one, &opens), opened(two, &opens))
			m := s.models["digits"]
			if len(m.left) != 1 {
				t.Fatal("nothing is kept")
			}
			if err := c.want(t, s); err != nil {
				t.Error(err)
			}
			s.background.Wait()
			st := s.Status()
			if st.Promised > st.Memory || len(m.left) > 0 {
				t.Errorf("%v of %v are promised, %d versions are kept", st.Promised, st.Memory,
					len(m.left))
			}
			if st.Memory-st.Promised < need {
				return
			}
			if err := s.Rollback(t.Context(), "digits"); err != nil {
				t.Errorf("then a rollback: %v", err)
			}
		})
	}
}

// TestAsideLeavesFirst: where memory is lent, the weights of what a rollback would serve leave
// before those of models that were used longer ago, and stay as others do once it is served again.
func TestAsideLeavesFirst(t *testing.T) {
	for back, want := range []string{"[m3/1 m4/1 m1/2]", "[m1/1 m3/1 m4/1]"} {
		one, two := heavy(t, 1), heavy(t, 2)
		two.Name, two.Version = one.Name, 2
		one.Mark, two.Mark = "one", "two"
		from := &shelf{}
		from.put(two.Name, two)
		s := begin(t, Options{Lend: true, Catalogue: from, Host: weir.HostOptions{
			Memory: 1000 * weir.KiB}}, one, heavy(t, 3), heavy(t, 4))
		sums(t, s, "m3", "m1")
		if err := s.LoadModel(t.Context(), "m1", nil); err != nil {
			t.Fatal(err)
		}
		s.background.Wait()
		sums(t, s, "m1")
		if got := there(s); got != "[m1/1 m3/1 m1/2]" {
			t.Errorf("before: on the device are %s", got)
		}
		for range back {
			if err := s.Rollback(t.Context(), "m1"); err != nil {
				t.Fatal(err)
			}
			s.background.Wait()
		}
		sums(t, s, "m4")
		if got := there(s); got != want {
			t.Errorf("after %d rollbacks: on the device are %s, want %s", back, got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// sums asks heavy models once each.
func sums(t *testing.T, s *Server, names ...string) {
	t.Helper()
	for _, name := range names {
		a, err := s.Infer(t.Context(), name, "", &oip.Request{Inputs: []oip.Input{{Name: "x",
			Tensor: tensor.From(make([]float32, 64), 1, 64)}}})
		if err != nil {
			t.Fatal(err)
		}
		a.Close()
	}
}

// there are the jobs of heavy models whose weights are on the device.
func there(s *Server) string {
	var names []string
	for _, j := range s.Status().Jobs {
		if j.Memory >= 256*weir.KiB {
			names = append(names, j.Name)
		}
	}
	return fmt.Sprint(names)
}

// TestSwapsAtRandom: whatever becomes of versions while requests run, each request is answered by
// the version that it says, and in the end nothing is left.
func TestSwapsAtRandom(t *testing.T) {
	var opens atomic.Int64
	from := &shelf{}
	put := func(n int64) { from.put("m", opened(times("m", n), &opens)) }
	put(1)
	s := begin(t, Options{Catalogue: from}, opened(times("m", 1), &opens))
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				y, by, err := product(t.Context(), s, "m", "")
				if k := oip.KindOf(err); err != nil && k != oip.Unavailable ||
					err == nil && by != fmt.Sprint(y) {
					t.Errorf("%v of version %s: %v", y, by, err)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		switch rng.IntN(8) {
		case 0:
			put(1 + rng.Int64N(3))
			fallthrough
		case 1:
			if err := s.LoadModel(t.Context(), "m", nil); err != nil {
				t.Error(err)
			}
		case 2:
			s.hurry(t.Context(), true)
		case 3:
			if err := s.UnloadModel(t.Context(), "m", nil); err != nil {
				t.Error(err)
			}
		default:
			if err := s.Rollback(t.Context(), "m"); err != nil && oip.KindOf(err) != oip.Invalid {
				t.Error(err)
			}
		}
	}
	close(stop)
	clients.Wait()
	s.background.Wait() // versions end beside
	if n := len(s.Status().Jobs); n > 2 {
		t.Errorf("%d jobs, of one version that is served and one that was", n)
	}
	if err := s.UnloadModel(t.Context(), "m", nil); err != nil {
		t.Error(err)
	}
	s.background.Wait()
	if st := s.Status(); st.Held != 0 || st.Promised != 0 || len(st.Jobs) > 0 {
		t.Errorf("in the end %+v", st)
	}
}

// TestSameNumberGoes: of two versions of one number no more than that which is served is a job,
// since jobs are told apart by it.
func TestSameNumberGoes(t *testing.T) {
	var opens atomic.Int64
	one, other := opened(times("m", 1), &opens), opened(times("m", 1), &opens)
	other.Mark = "changed"
	s := twoVersions(t, Options{}, one, other)
	if n := len(s.Status().Jobs); n != 1 {
		t.Errorf("%d jobs", n)
	}
	if err := s.Rollback(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	s.background.Wait()
	if n := len(s.Status().Jobs); n != 1 || opens.Load() != 3 {
		t.Errorf("after a rollback %d jobs, opened %d times", n, opens.Load())
	}
}
