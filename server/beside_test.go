package server

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
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
	entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
	s := begin(t, Options{}, digitsSource(), held("hold", entered, leave, nil))
	b, err := s.Beside(t.Context(), "hold", "", "(batch)")
	if err != nil {
		t.Fatal(err)
	}
	st := s.Status()
	lent := st.Jobs[len(st.Jobs)-1]
	rest := st.Jobs[0].Share
	rest.Memory += st.Memory - st.Promised // all that is not promised
	if _, err := s.SetShare(st.Jobs[0].Name, rest); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var errs []error
		for range 2 {
			_, err := b.Run(t.Context(), weir.Inputs{"x": tensor.From([]float32{1}, 1)})
			errs = append(errs, err)
		}
		done <- errors.Join(append(errs, b.Close())...)
	}()
	<-entered
	loaded := make(chan error, 1)
	go func() {
		m, err := weir.Load(digits.Model)
		if err == nil {
			err = s.Load(t.Context(), m, 1, weir.Job{Name: "late",
				Share: weir.Share{Memory: lent.Share.Memory}})
		}
		loaded <- err
	}()
	<-b.life.Done()
	leave <- struct{}{}
	if err := <-done; !errors.Is(err, ErrRecalled) {
		t.Errorf("beside: %v", err)
	}
	if err := <-loaded; err != nil {
		t.Errorf("the model: %v", err)
	}
}
