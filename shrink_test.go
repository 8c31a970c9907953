package weir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
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
