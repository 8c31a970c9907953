package server

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// digitsNeed is what digits is promised that says nothing of its memory.
func digitsNeed(t *testing.T) weir.Bytes {
	t.Helper()
	s := begin(t, Options{}, digitsSource())
	need := s.Status().Promised
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return need
}

// TestBesideBesideAside: work beside the models computes while there is what a rollback would
// serve, of which it takes the memory for more shapes.
func TestBesideBesideAside(t *testing.T) {
	need := digitsNeed(t)
	var opens atomic.Int64
	one, two := digitsSource(), digitsSource()
	two.Version = 4
	s := twoVersions(t, Options{Host: weir.HostOptions{Memory: 7 * need / 2}},
		opened(one, &opens), opened(two, &opens))
	b, err := s.Beside(t.Context(), "digits", "", "(batch)")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if len(s.models["digits"].left) != 1 {
		t.Fatal("nothing is kept")
	}
	in := weir.Inputs{"image": tensor.From(make([]float32, 2*64), 2, 1, 8, 8)}
	out, err := b.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
}

// TestNoRequestWaitsForAside: a request that is computed does not wait for what a rollback would
// serve to leave, which has requests itself.
func TestNoRequestWaitsForAside(t *testing.T) {
	need := digitsNeed(t)
	synctest.Test(t, func(t *testing.T) {
		var opens atomic.Int64
		one, two := digitsSource(), digitsSource()
		two.Version = 4
		from := &shelf{}
		from.put("digits", opened(two, &opens))
		s := begin(t, Options{Catalogue: from, Host: weir.HostOptions{Memory: 5 * need / 2}},
			opened(one, &opens))
		v, err := s.enter(t.Context(), "digits", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.LoadModel(t.Context(), "digits", nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := pictures(t, s, 2); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took >= linger {
			t.Errorf("it took %v", took)
		}
		if d := v.going; d == nil || !d.cut {
			t.Error("its memory is not wanted")
		}
		s.leave(v)
		s.answered()
	})
}

// pictures asks digits about so many.
func pictures(t *testing.T, s *Server, n int) error {
	t.Helper()
	a, err := s.Infer(t.Context(), "digits", "", &oip.Request{Inputs: []oip.Input{{Name: "image",
		Tensor: tensor.From(make([]float32, n*64), n, 1, 8, 8)}}})
	if err == nil {
		a.Close()
	}
	return err
}

// TestCapLeavesOthersAside: a request for which the cap of its model has no room takes nothing of
// others, which it would not help.
func TestCapLeavesOthersAside(t *testing.T) {
	need := digitsNeed(t)
	for _, lend := range []bool{false, true} {
		var opens atomic.Int64
		o := Options{Lend: lend, Host: weir.HostOptions{Memory: 100 * need},
			Terms: func(model string) (s weir.Share) {
				if model == "digits" {
					s.Memory = need
				}
				return s
			}}
		from := &shelf{}
		from.put("m", opened(times("m", 2), &opens))
		o.Catalogue = from
		s := begin(t, o, opened(times("m", 1), &opens), digitsSource())
		if err := s.LoadModel(t.Context(), "m", nil); err != nil {
			t.Fatal(err)
		}
		if err := pictures(t, s, 1000); oip.KindOf(err) != oip.Unavailable {
			t.Errorf("lend %v: a request beyond the cap: %v", lend, err)
		}
		s.background.Wait()
		if n := len(s.models["m"].left); n != 1 {
			t.Errorf("lend %v: %d versions of another model are kept", lend, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAsideTakesNoPlace: where a policy has places for so many jobs, or parts for such as have no
// work, nothing is kept for a rollback; and another that it does not have changes nothing.
func TestAsideTakesNoPlace(t *testing.T) {
	for policy, kept := range map[string]int{"": 1, "fair:slice=10ms": 1, "priority": 1, "fgpu": 0,
		"mps": 0, "vgpu": 1, "vgpu:mode=equal-share": 0, "vgpu:mode=fixed-share,max=2": 0} {
		var opens atomic.Int64
		s := twoVersions(t, Options{Host: weir.HostOptions{Policy: policy, Threads: 2}},
			opened(times("m", 1), &opens), opened(times("m", 2), &opens))
		if n := len(s.Status().Jobs) - 1; n != kept {
			t.Errorf("%q: %d are kept", policy, n)
		}
		if err := s.SetPolicy("no"); !errors.Is(err, weir.ErrOption) {
			t.Error(err)
		}
		if err := s.SetPolicy("vgpu:mode=fixed-share,max=1"); err != nil {
			t.Errorf("%q: then another policy: %v", policy, err)
		}
		if n := len(s.Status().Jobs); n != 1 {
			t.Errorf("%q: then %d jobs", policy, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLeavesForAPolicy: what a rollback would serve leaves once a policy is there under which
// nothing is kept, though that had let it in.
func TestLeavesForAPolicy(t *testing.T) {
	var opens atomic.Int64
	s := twoVersions(t, Options{}, opened(times("m", 1), &opens), opened(times("m", 2), &opens))
	if err := s.SetPolicy("mps"); err != nil || len(s.Status().Jobs) != 1 {
		t.Errorf("%d jobs (%v)", len(s.Status().Jobs), err)
	}
}

// TestLeavesForItsNumber: what a rollback would serve leaves for other content of its number, which
// jobs are told by, also where the newest version stays.
func TestLeavesForItsNumber(t *testing.T) {
	var opens atomic.Int64
	one, two := opened(times("m", 1), &opens), opened(times("m", 2), &opens)
	s := twoVersions(t, Options{}, one, two)
	one.Mark = "other content"
	from := &shelf{}
	from.put("m", one, two)
	s.o.Catalogue = from
	if err := s.LoadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	s.background.Wait()
	if m := s.models["m"]; len(m.served) != 2 || len(m.left) != 0 {
		t.Errorf("%d versions are served, %d kept", len(m.served), len(m.left))
	}
}

// TestTakenBackKeeps: what a rollback serves keeps as much as its model is to keep by then, for
// which what others would roll back to makes room.
func TestTakenBackKeeps(t *testing.T) {
	const memory = 4 * weir.MiB
	var opens atomic.Int64
	from := &shelf{}
	s := begin(t, Options{Catalogue: from, Lend: true, Host: weir.HostOptions{Memory: memory},
		Terms: func(string) weir.Share { return weir.Share{Memory: weir.MiB} }},
		opened(times("m", 1), &opens), opened(times("n", 1), &opens), times("lent", 1))
	for _, name := range []string{"m", "n"} {
		from.put(name, opened(times(name, 2), &opens))
		if name == "n" {
			if _, err := s.SetShare(name, weir.Share{Keep: weir.MiB}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.LoadModel(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.background.Wait()
	if _, err := s.SetShare("m", weir.Share{Keep: weir.MiB}); err != nil {
		t.Fatal(err)
	}
	if n := len(s.models["n"].left); n != 1 {
		t.Fatalf("%d versions of n are kept", n)
	}
	if err := s.Rollback(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	if got := s.models["m"].newest(); got.number != "1" || got.job.Usage().Share.Keep != weir.MiB {
		t.Errorf("version %s keeps %v", got.number, got.job.Usage().Share.Keep)
	}
}

// TestShareWhileSwapped: a share that a model is given while another version takes over is that of
// the one that is served then, and of no other.
func TestShareWhileSwapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opens atomic.Int64
		s := twoVersions(t, Options{}, opened(times("m", 1), &opens),
			opened(times("m", 2), &opens))
		two := s.models["m"].newest()
		done := make(chan error, 2)
		s.promising <- struct{}{}
		go func() {
			_, err := s.SetShare("m", weir.Share{Compute: 0.5})
			done <- err
		}()
		synctest.Wait()
		go func() { done <- s.Rollback(t.Context(), "m") }()
		synctest.Wait()
		<-s.promising
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatal(err)
		}
		now := s.models["m"].newest().job.Usage()
		if was := two.job.Usage(); now.Name != "m/1" || now.Share.Compute != 0.5 ||
			was.Share.Compute != 0 {
			t.Errorf("%+v, and the one before %+v", now, was)
		}
	})
}
