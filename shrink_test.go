package weir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestSmallerCap: a cap below what a job holds takes from it what no Run uses, plans among that;
// those that a Run needs are made again, and compute the same bits. What the cap has no room for is
// refused with the numbers, and so is a cap below what open results hold.
func TestSmallerCap(t *testing.T) {
	h := hosting(t, HostOptions{})
	_, probe := guest(t, h, "probe", Share{})
	one := probe.Usage().Memory
	m, tenant := guest(t, h, "a", Share{Memory: 40 * one})
	want := map[int][]float32{}
	for n := 1; n <= 8; n++ {
		p, err := probabilities(t.Context(), m, drawn(n, 5))
		if err != nil {
			t.Fatal(err)
		}
		want[n] = p
	}
	most := tenant.Usage().Memory - 1
	for _, memory := range []Bytes{most, 3 * one / 2, one} {
		if err := tenant.SetShare(Share{Memory: memory}); err != nil {
			t.Fatalf("of %v a cap of %v: %v", tenant.Usage().Memory, memory, err)
		}
		if u := tenant.Usage(); u.Memory > memory || u.Share.Memory != memory {
			t.Errorf("under a cap of %v: %+v", memory, u)
		}
		for n, want := range want {
			got, err := probabilities(t.Context(), m, drawn(n, 5))
			switch {
			case err == nil && !slices.Equal(got, want):
				t.Errorf("%d pictures under %v: other bits", n, memory)
			case err != nil && (n == 1 || !errors.Is(err, ErrMemory) ||
				!strings.Contains(err.Error(), memory.About())):
				t.Errorf("%d pictures under %v: %v", n, memory, err)
			}
		}
	}
	if err := tenant.SetShare(Share{Memory: 40 * one}); err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(t.Context(), drawn(8, 5))
	if err != nil {
		t.Fatal(err)
	}
	if err := tenant.SetShare(Share{Memory: one}); !errors.Is(err, ErrMemory) {
		t.Errorf("a cap below what an open result holds: %v", err)
	}
	if p, err := Output[float32](r, "probabilities"); err != nil || !slices.Equal(p, want[8]) {
		t.Errorf("the open result has changed: %v", err)
	}
	r.Close()
}

// TestCapsBesideRuns: caps that become smaller and larger beside Runs end none that fits them all,
// whether the memory is the job's or lent.
func TestCapsBesideRuns(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		t.Run(fmt.Sprint("elastic ", elastic), func(t *testing.T) { capsBesideRuns(t, elastic) })
	}
}

func capsBesideRuns(t *testing.T, elastic bool) {
	h := hosting(t, HostOptions{})
	_, probe := guest(t, h, "probe", Share{})
	one := probe.Usage().Memory
	m, tenant := guest(t, h, "a", Share{Memory: 8 * one, Elastic: elastic})
	want := map[int][]float32{}
	for n := 1; n <= 2; n++ {
		p, err := probabilities(t.Context(), m, drawn(n, 6))
		if err != nil {
			t.Fatal(err)
		}
		want[n] = p
	}
	least := 2 * one // two pictures, of which the weights are the same
	var runs, caps sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		runs.Go(func() {
			for i := range 60 {
				n := 1 + i%2
				got, err := probabilities(t.Context(), m, drawn(n, 6))
				if err != nil || !slices.Equal(got, want[n]) {
					t.Errorf("elastic %t, %d pictures: %v", elastic, n, err)
				}
			}
		})
	}
	caps.Go(func() {
		r := rand.New(rand.NewPCG(13, 3))
		for {
			select {
			case <-done:
				return
			default:
			}
			s := Share{Memory: least + Bytes(r.Int64N(int64(6*one))), Elastic: elastic}
			if err := tenant.SetShare(s); err != nil && !errors.Is(err, ErrMemory) {
				t.Error(err)
			}
			if u := tenant.Usage(); u.Memory > u.Share.Memory {
				t.Errorf("%v are held under a cap of %v", u.Memory, u.Share.Memory)
			}
		}
	})
	runs.Wait()
	close(done)
	caps.Wait()
}

// TestSmallerPlan: under a cap below what the plan of a model takes, a smaller plan is made, which
// computes a value again that the larger one keeps, and gives the same bits; below what any plan
// takes, a Run is refused with what it needs and the cap.
func TestSmallerPlan(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		t.Run(fmt.Sprint("elastic ", elastic), func(t *testing.T) { smallerPlan(t, elastic) })
	}
}

func smallerPlan(t *testing.T, elastic bool) {
	m := written(t, `graph "wide" {
 opset "" 17
 input %x: float32[1,256]
 const %to: int64[2] = {256, 256}
 %a = Expand@13 (%x, %to)
 %b = Softmax@13 (%a) {axis=0}
 %c = Softmax@13 (%b) {axis=1}
 %d = MatMul@13 (%c, %b)
 %y = Add@14 (%d, %a)
 output %y
}`)
	h := hosting(t, HostOptions{})
	tenant, err := h.Admit(t.Context(), m, Job{Name: "a", Share: Share{Memory: 8 * MiB,
		Elastic: elastic}})
	if err != nil {
		t.Fatal(err)
	}
	run := func() ([]float32, error) {
		row := make([]float32, 256)
		for i := range row {
			row[i] = float32(i) / 99
		}
		r, err := m.Run(t.Context(), Inputs{"x": tensor.From(row, 1, 256)})
		if err != nil {
			return nil, err
		}
		defer r.Close()
		y, err := Output[float32](r, "y")
		return slices.Clone(y), err
	}
	want, err := run()
	if err != nil {
		t.Fatal(err)
	}
	one := tenant.Usage().Memory
	small := one - 200*KiB // of 256 KiB that %a takes
	if err := tenant.SetShare(Share{Memory: small, Elastic: elastic}); err != nil {
		t.Fatal(err)
	}
	got, err := run()
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("under %v of %v: equal %v, %v", small, one, slices.Equal(got, want), err)
	}
	if u := tenant.Usage(); u.Memory > small {
		t.Errorf("it holds %v under a cap of %v", u.Memory, small)
	}
	err = tenant.SetShare(Share{Memory: one / 4, Elastic: elastic})
	if !errors.Is(err, ErrMemory) ||
		!strings.Contains(err.Error(), (one/4).About()) {
		t.Errorf("a quarter: %v", err)
	}
	if err := tenant.SetShare(Share{Memory: one, Elastic: elastic}); err != nil {
		t.Fatal(err)
	}
	got, err = run()
	if err != nil || !slices.Equal(got, want) || tenant.Usage().Memory != one {
		t.Errorf("with the cap of before it holds %v, want %v; %v", tenant.Usage().Memory, one, err)
	}
}
