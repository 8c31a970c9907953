package dist

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// sumOf is the sum of a node by the definition of the tree.
func sumOf(shards [][]float32, n node, i int) float32 {
	if n.to-n.from == 1 {
		return shards[n.from][i]
	}
	m := middle(n)
	return sumOf(shards, node{n.from, m}, i) + sumOf(shards, node{m, n.to}, i)
}

// tryAll sums random shards by so many teams of processes in goroutines, several updates.
func tryAll(t *testing.T, shards, ranks int) {
	const length, updates = 211, 3
	links, err := Pipe(ranks)
	if err != nil {
		t.Fatal(err)
	}
	room := make([][][]float32, ranks)
	for r := range room {
		for range 1 + Slots(shards, ranks) {
			room[r] = append(room[r], make([]float32, length))
		}
	}
	rng := rand.New(rand.NewPCG(uint64(shards), uint64(ranks)))
	all := make([][][]float32, updates)
	for u := range all {
		for range shards {
			v := make([]float32, length)
			for i := range v {
				v[i] = float32(rng.NormFloat64()) * 1e3
			}
			all[u] = append(all[u], v)
		}
	}
	buckets := []Bucket{{100, 211}, {0, 90}, {90, 100}}
	errs := make(chan error, ranks)
	barrier := newBarrier(ranks)
	for r := range ranks {
		go func() {
			errs <- func() error {
				team, err := newTeam(links[r])
				if err != nil {
					return err
				}
				defer team.Close()
				s := NewSum(SumOptions{Shards: shards, Buckets: buckets, Room: room, Team: team})
				defer s.Close()
				from, to := Share(shards, ranks, r)
				for u := range all {
					s.Begin(int64(u))
					for k := from; k < to; k++ {
						copy(room[r][0], all[u][k])
						for b := range buckets {
							s.Whole(k-from, b)
						}
						if err := s.Settle(); err != nil {
							return err
						}
					}
					for i := range length {
						got, want := room[r][0][i], sumOf(all[u], node{0, shards}, i)
						if got != want {
							return fmt.Errorf("rank %d, update %d, %d: %v, want %v", r, u, i, got,
								want)
						}
					}
					barrier() // as the leader's word to begin the next update is
				}
				return nil
			}()
		}()
	}
	for range ranks {
		if err := <-errs; err != nil {
			t.Errorf("%d shards, %d processes: %v", shards, ranks, err)
		}
	}
}

// newBarrier returns a function that returns when so many goroutines have called it.
func newBarrier(n int) func() {
	in, out := make(chan int), make(chan int)
	go func() {
		for {
			for range n {
				<-in
			}
			for range n {
				out <- 1
			}
		}
	}()
	return func() { in <- 1; <-out }
}

// TestSums: each number of processes comes to the bits of the tree's sum, in all of them, update
// after update.
func TestSums(t *testing.T) {
	for shards := 1; shards <= 13; shards++ {
		for ranks := 1; ranks <= min(shards, 6); ranks++ {
			tryAll(t, shards, ranks)
		}
	}
}
