package server

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/tensor"
)

// unfit is something that nothing is to leave for, of a server that has memory for ten versions of
// the model digits: two are there, one of them for a rollback, and what runs beside has seven. is
// is what its error is.
type unfit struct {
	what string
	want func(t *testing.T, s *Server, need weir.Bytes) error
	is   error
}

var unfits = []unfit{
	{"a load", func(t *testing.T, s *Server, _ weir.Bytes) error {
		return s.load(t, large("large", 1))
	}, weir.ErrMemory},
	{"a load of the next version", func(t *testing.T, s *Server, _ weir.Bytes) error {
		return s.load(t, large("digits", 3))
	}, weir.ErrMemory},
	{"a load under a cap", func(t *testing.T, s *Server, _ weir.Bytes) error {
		other := digitsSource()
		other.Name = "capped"
		return s.load(t, other)
	}, weir.ErrMemory},
	{"work beside", func(t *testing.T, s *Server, need weir.Bytes) error {
		_, err := s.Enter("(training)", 10*need+1, weir.Share{})
		return err
	}, weir.ErrMemory},
	{"work beside under a cap", func(t *testing.T, s *Server, need weir.Bytes) error {
		_, err := s.Enter("(training)", need/4, weir.Share{Memory: need / 8})
		return err
	}, weir.ErrMemory},
	{"a share", func(t *testing.T, s *Server, need weir.Bytes) error {
		_, err := s.SetShare("digits", weir.Share{Memory: 10*need + 1})
		return err
	}, weir.ErrMemory},
	{"a share below what it needs", func(t *testing.T, s *Server, need weir.Bytes) error {
		_, err := s.SetShare("digits", weir.Share{Memory: need / 4})
		return err
	}, weir.ErrMemory},
	{"a request", func(t *testing.T, s *Server, _ weir.Bytes) error {
		err := pictures(t, s, 1<<14)
		if after := oip.RetryAfter(err); after > 0 {
			t.Errorf("it is to come again after %v", after)
		}
		return err
	}, weir.ErrMemory},
	{"a request beside its inputs", func(t *testing.T, s *Server, _ weir.Bytes) error {
		return pictures(t, s, 278)
	}, weir.ErrMemory},
	{"a request above a cap", func(t *testing.T, s *Server, need weir.Bytes) error {
		s.models["digits"].newest().bound(3 * need) // of which two are left
		return pictures(t, s, 200)
	}, weir.ErrMemory},
	{"a request above a cap, which its values tell", func(t *testing.T, s *Server,
		_ weir.Bytes) error {
		if err := s.load(t, zeros("capped")); err != nil {
			t.Fatal(err)
		}
		a, err := s.Infer(t.Context(), "capped", "", &oip.Request{Inputs: []oip.Input{
			{Name: "n", Tensor: tensor.From([]int64{1 << 20}, 1)}}})
		if err == nil {
			a.Close()
		}
		return err
	}, weir.ErrMemory},
	{"a request of work beside", func(t *testing.T, s *Server, need weir.Bytes) error {
		b, err := s.Beside(t.Context(), "digits", "", "(batch)")
		if err != nil {
			t.Fatal(err)
		}
		in := weir.Inputs{"image": tensor.From(make([]float32, 64<<14), 1<<14, 1, 8, 8)}
		_, err = b.Run(t.Context(), in)
		return errors.Join(err, b.Close())
	}, weir.ErrMemory},
	{"what no policy is called", func(t *testing.T, s *Server, _ weir.Bytes) error {
		return s.SetPolicy("none")
	}, weir.ErrOption},
	{"a policy that takes another device", func(t *testing.T, s *Server, _ weir.Bytes) error {
		for _, row := range policy.All() {
			if !slices.Contains(s.Policies(), row.Name) {
				return s.SetPolicy(row.Name)
			}
		}
		return nil
	}, weir.ErrOption},
	{"more room under a cap", func(t *testing.T, s *Server, _ weir.Bytes) error {
		v := s.models["digits"].newest()
		v.bound(v.job.Usage().Share.Memory)
		return pictures(t, s, 2)
	}, nil},
	{"more rows under a cap", func(t *testing.T, s *Server, need weir.Bytes) error {
		_, err := s.SetShare("digits", weir.Share{Memory: 2 * need})
		s.models["digits"].newest().short()
		return err
	}, nil},
	{"a load of unknown shapes under a cap", func(t *testing.T, s *Server, _ weir.Bytes) error {
		return s.load(t, four("capped"))
	}, nil},
}

// load has the catalogue offer a source, and loads it. It is compared by the kind of weir.
func (s *Server) load(t *testing.T, src Source) error {
	s.o.Catalogue.(*shelf).put(src.Name, src)
	err := s.LoadModel(t.Context(), src.Name, nil)
	if oip.KindOf(err) == oip.Unavailable {
		err = errors.Join(err, weir.ErrMemory)
	}
	return err
}

// large is a model that takes 8 MiB.
func large(name string, version int64) Source {
	src := written(name, `graph "large" {
		opset "" 17
		input %x: float32[1048576]
		%y: float32[1048576] = Relu@14 (%x)
		output %y
	}`)
	src.Version = version
	return src
}

// zeros is a model that gives as many zeros as it is asked for.
func zeros(name string) Source {
	return written(name, `graph "zeros" {
		opset "" 17
		input %n: int64[K]
		%z: float32[M] = ConstantOfShape@9 (%n)
		%y: float32[M] = Relu@14 (%z)
		output %y
	}`)
}

// four is a model that takes rows of four numbers, which it does not say.
func four(name string) Source {
	return written(name, `graph "four" {
		opset "" 17
		input %x: float32[N,M]
		const %w: float32[4,1] = {1, 2, 3, 4}
		%y: float32[N,1] = MatMul@13 (%x, %w)
		output %y
	}`)
}

// TestNothingLeavesForWhatNeverFits: what needs more than the device has, or than its own cap may
// become, or is no policy that could be, is refused, and nothing leaves for it: no version that a
// rollback would serve, and nothing that runs beside.
func TestNothingLeavesForWhatNeverFits(t *testing.T) {
	need := digitsNeed(t)
	for _, u := range unfits {
		t.Run(u.what, func(t *testing.T) {
			var opens atomic.Int64
			one, two := digitsSource(), digitsSource()
			one.Version, two.Version = 1, 2
			s := twoVersions(t, Options{Host: weir.HostOptions{Memory: 10 * need},
				Terms: func(model string) (s weir.Share) {
					if model == "capped" {
						s.Memory = need / 4
					}
					return s
				}}, opened(one, &opens), opened(two, &opens))
			m := s.models["digits"]
			w, err := s.Enter("(work)", 7*need, weir.Share{})
			if err != nil {
				t.Fatal(err)
			}
			stop := context.AfterFunc(w.Recalled(), w.Close)
			defer func() {
				if stop() {
					w.Close()
				}
			}()
			if err := u.want(t, s, need); !errors.Is(err, u.is) {
				t.Error(err)
			}
			s.background.Wait()
			if len(m.left) != 1 || m.left[0].going.cut {
				t.Error("what a rollback would serve has left")
			}
			if w.Recalled().Err() != nil {
				t.Error("memory was asked back")
			}
		})
	}
}

// TestNarrowIsNotNever: a request that the device has room for by a smaller plan only is computed,
// also where the model is promised less than that takes.
func TestNarrowIsNotNever(t *testing.T) {
	in := make([]float32, 4*256)
	for i := range in {
		in[i] = float32(i) / 999
	}
	ask := func(memory weir.Bytes, rows string) (got []float32, held weir.Bytes) {
		s := begin(t, Options{Host: weir.HostOptions{Memory: memory}}, wide(t, rows))
		held = s.models["wide"].newest().job.Usage().Memory
		a, err := s.Infer(t.Context(), "wide", "", &oip.Request{Inputs: []oip.Input{
			{Name: "x", Tensor: tensor.From(in, 4, 256)}}})
		if err != nil {
			t.Fatal(err)
		}
		got = slices.Clone(tensor.As[float32](a.Outputs[0].Tensor))
		a.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return got, held
	}
	want, whole := ask(64*weir.MiB, "4")
	for _, less := range []weir.Bytes{0, 200 * weir.KiB} { // of 0 the inputs are too much
		if got, held := ask(whole-less, "N"); !slices.Equal(got, want) || held > whole/2 {
			t.Errorf("in %v it differs, or holds %v before", whole-less, held)
		}
	}
}
