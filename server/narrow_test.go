package server

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// TestNarrow: under a cap that is lowered while a model answers, below what its batches take and
// the plans for them hold, all requests have their answers, in batches of fewer rows; and in those
// of before once the cap is raised.
func TestNarrow(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	v := batches(t, s, "digits", 256, 8, 256)
	all, _ := picture(t, 50)
	flood := func() {
		rng := rand.New(rand.NewPCG(5, 6))
		var wait sync.WaitGroup
		for range 150 {
			from := rng.IntN(50) * 64
			pixels := all[from : from+64]
			want := tensor.From(expected(t, pixels), 1, 10)
			wait.Go(func() {
				a, err := s.Infer(t.Context(), "digits", "", &oip.Request{Inputs: []oip.Input{
					{Name: "image", Tensor: tensor.From(pixels, 1, 1, 8, 8)}}})
				if err != nil {
					t.Error(err)
					return
				}
				defer a.Close()
				if got := a.Outputs[0].Tensor; !alike(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
			})
		}
		wait.Wait()
	}
	// one batch of each size has its plan
	for _, rows := range []int{1, 8, 256} {
		in := weir.Inputs{"image": tensor.From(make([]float32, rows*64), rows, 1, 8, 8)}
		r, err := v.compute(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	before, err := s.SetShare("digits", v.job.Usage().Share)
	if err != nil {
		t.Fatal(err)
	}
	least := v.room.least
	small := before
	small.Memory = 2 * least
	if small.Memory >= v.job.Usage().Memory {
		t.Fatalf("plans for batches hold %v, and %v are needed", v.job.Usage().Memory, least)
	}
	if _, err := s.SetShare("digits", small); err != nil {
		t.Fatal(err)
	}
	v.batches.Store(&batching{most: 256, sizes: []int{256}})
	for v.batches.Load().most == 256 {
		batch := []*task{}
		for range 40 {
			batch = append(batch, &task{rows: 1, in: weir.Inputs{
				"image": tensor.From(all[:64], 1, 1, 8, 8)}})
		}
		if err := v.run(t.Context(), batch, func() {}); err != nil {
			t.Fatal(err)
		}
		for _, x := range batch {
			if x.err != nil {
				t.Fatal(x.err)
			}
			x.free()
		}
	}
	if b := v.batches.Load(); b.most != 128 || len(b.sizes) != 0 || v.whole.Load().most != 256 {
		t.Errorf("batches %+v, before %+v", b, v.whole.Load())
	}
	flood()
	if u := v.job.Usage(); u.Memory > small.Memory {
		t.Errorf("%v are held under a cap of %v", u.Memory, small.Memory)
	}
	small.Memory = 1
	if _, err := s.SetShare("digits", small); !errors.Is(err, weir.ErrMemory) {
		t.Errorf("a cap of a byte: %v", err)
	}
	if _, err := s.SetShare("digits", before); err != nil {
		t.Fatal(err)
	}
	if b := v.batches.Load(); b.most != 256 || v.whole.Load() != nil {
		t.Errorf("under a raised cap batches are %+v", b)
	}
	flood()
}
