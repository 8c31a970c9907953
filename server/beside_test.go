package server

import (
	"context"
	"errors"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// TestBeside: a model that was opened once more computes the same, as an opportunistic job that
// weighs next to nothing, and leaves nothing of it on the host.
func TestBeside(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	b, err := s.Beside(t.Context(), "digits", "", "(batch)")
	if err != nil {
		t.Fatal(err)
	}
	st := s.Status()
	if len(st.Jobs) != 2 || st.Jobs[1].Name != "(batch)" ||
		st.Jobs[1].Share.Class != weir.Opportunistic || st.Jobs[1].Share.Guarantee() != 0 ||
		st.Jobs[1].Share.Weight() > st.Jobs[0].Share.Weight()/50 {
		t.Errorf("the host has %+v", st.Jobs)
	}
	pixels, raw := picture(t, 5)
	in := weir.Inputs{"image": &tensor.Tensor{DType: tensor.Float32, Shape: []int{5, 1, 8, 8},
		Data: raw}}
	out, err := b.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := weir.Output[float32](out, b.Outputs()[0])
	want := expected(t, pixels)
	if err != nil || !tensor.Equal(tensor.From(got, len(got)), tensor.From(want, len(want))) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	out.Close()
	if !b.Served() || b.Rows() != 1 {
		t.Errorf("served %v, %d rows", b.Served(), b.Rows())
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if n := len(s.Status().Jobs); n != 1 {
		t.Errorf("%d jobs are left", n)
	}
	for _, c := range [][2]string{{"no", ""}, {"digits", "9"}} {
		if _, err := s.Beside(t.Context(), c[0], c[1], "x"); oip.KindOf(err) != oip.NotFound {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// TestBesideMemory: where all memory is promised there is none for it, and nothing is left open.
func TestBesideMemory(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	st := s.Status()
	all := st.Jobs[0].Share
	all.Memory = st.Memory
	if _, err := s.SetShare("digits", all); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Beside(t.Context(), "digits", "", "x"); !errors.Is(err, weir.ErrMemory) {
		t.Errorf("got %v", err)
	}
	if n := len(s.Status().Jobs); n != 1 {
		t.Errorf("%d jobs are left", n)
	}
}

// TestRecall: memory that is lent to what runs beside comes back when a model needs it.
func TestRecall(t *testing.T) {
	first := begin(t, Options{}, digitsSource())
	b, err := first.Beside(t.Context(), "digits", "", "(batch)")
	if err != nil {
		t.Fatal(err)
	}
	need := b.v.job.Usage().Share.Memory
	if err := errors.Join(b.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	other := digitsSource()
	other.Name = "other"
	// with nearly room for three: a model that is not used yet holds what its warm-up took
	s := begin(t, Options{Host: weir.HostOptions{Memory: 3*need - 1}}, digitsSource(), other)
	if err := s.UnloadModel(t.Context(), "other", nil); err != nil {
		t.Fatal(err)
	}
	if b, err = s.Beside(t.Context(), "digits", "", "(batch)"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, raw := picture(t, 1)
		in := weir.Inputs{"image": &tensor.Tensor{DType: tensor.Float32,
			Shape: []int{1, 1, 8, 8}, Data: raw}}
		for {
			out, err := b.Run(context.Background(), in)
			if err != nil {
				done <- errors.Join(err, b.Close())
				return
			}
			out.Close()
		}
	}()
	if err := s.LoadModel(t.Context(), "other", nil); err != nil {
		t.Errorf("the model that needs the memory: %v", err)
	}
	if err := <-done; !errors.Is(err, ErrRecalled) {
		t.Errorf("beside: %v", err)
	}
}

// TestRecallOfWhoComesBack: who gives its memory up and has it again before the model that wants it
// looks is asked once more.
func TestRecallOfWhoComesBack(t *testing.T) {
	other := digitsSource()
	other.Name = "other"
	s := begin(t, Options{}, digitsSource(), other)
	if err := s.UnloadModel(t.Context(), "other", nil); err != nil {
		t.Fatal(err)
	}
	st := s.Status()
	enter := func() *Workplace {
		w, err := s.Enter("(work)", st.Memory-st.Promised, weir.Share{})
		if err != nil {
			t.Error(err)
		}
		return w
	}
	w, done := enter(), make(chan struct{})
	go func() {
		defer close(done)
		if w == nil {
			return
		}
		<-w.Recalled().Done()
		w.Workplace.Close()
		again := enter() // before the model hears that there is room
		w.leave()
		if again != nil {
			<-again.Recalled().Done()
			again.Close()
		}
	}()
	if err := s.LoadModel(t.Context(), "other", nil); err != nil {
		t.Errorf("the model that needs the memory: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-done
}
