package dist

import (
	"fmt"
	"sync"
	"time"

	"github.com/weirgpu/weir/internal/kernel/vec"
)

// Bucket is a range of what a shard comes to, in numbers, that is summed at once.
type Bucket struct{ From, To int }

// Span is something that a process did, for a timeline.
type Span struct {
	What       string
	Begin, End time.Time
	Bytes      int64 // of values that were summed
}

// SumOptions say what is summed.
type SumOptions struct {
	Shards  int
	Buckets []Bucket // in the order in which they become whole
	// Room is the memory of each process for what shards come to: where they are computed, and
	// Slots of it. All are of one length.
	Room [][][]float32
	Team *Team // nil where there is one process
	// Done, when set, is told of each bucket that is summed over all processes, and of how long
	// this one waited for others meanwhile. It is called by a goroutine of the Sum.
	Done func(s Span, waited time.Duration)
}

// Sum sums what shards come to. Buckets of a shard are summed in the order in which they are said
// to be whole, which is that of Buckets.
type Sum struct {
	SumOptions
	rank, ranks int
	alone       [][]op   // after each of the own shards
	around      [][][]op // of each piece, for each process

	jobs    chan job
	pending sync.WaitGroup
	mu      sync.Mutex
	err     error
	update  int64
}

// job is a bucket of a shard that is whole.
type job struct {
	shard, bucket int
}

// NewSum begins to sum. The caller closes it.
func NewSum(o SumOptions) *Sum {
	s := &Sum{SumOptions: o, ranks: 1}
	if o.Team != nil {
		s.rank, s.ranks = o.Team.Rank, o.Team.Ranks
	}
	s.alone, _ = alone(o.Shards, s.ranks, s.rank)
	for owner := range s.ranks {
		s.around = append(s.around, around(o.Shards, s.ranks, owner))
	}
	s.jobs = make(chan job, len(o.Buckets)+1)
	go func() {
		for j := range s.jobs {
			s.do(j)
			s.pending.Done()
		}
	}()
	return s
}

// Begin begins an update, whose number goes with tokens.
func (s *Sum) Begin(update int64) { s.update = update }

// Whole says that a bucket is whole of a shard, of the own ones counted from 0. It is summed by a
// goroutine of its own.
func (s *Sum) Whole(shard, bucket int) {
	s.pending.Add(1)
	s.jobs <- job{shard, bucket}
}

// Settle waits until what was said to be whole is summed, after which the next shard may be
// computed; of the last shard, until it is summed over all processes. After an error nothing is
// summed again.
func (s *Sum) Settle() error {
	s.pending.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the goroutine of the sum, when what was said to be whole is summed or has failed.
func (s *Sum) Close() {
	s.pending.Wait()
	close(s.jobs)
}

// do sums a bucket.
func (s *Sum) do(j job) {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return
	}
	begin := time.Now()
	b := s.Buckets[j.bucket]
	s.apply(s.alone[j.shard], b)
	if j.shard < len(s.alone)-1 {
		return
	}
	waited, err := s.ring(j.bucket)
	if err != nil {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		return
	}
	if s.Done != nil {
		s.Done(Span{What: fmt.Sprint("all-reduce ", j.bucket), Begin: begin, End: time.Now(),
			Bytes: int64(b.To-b.From) * 4}, waited)
	}
}

// apply adds and copies in a range.
func (s *Sum) apply(ops []op, b Bucket) {
	for _, o := range ops {
		dst, x := s.at(o.dst, b), s.at(o.x, b)
		if o.y == nowhere {
			copy(dst, x)
		} else {
			vec.Add(dst, x, s.at(o.y, b))
		}
	}
}

func (s *Sum) at(p place, b Bucket) []float32 { return s.Room[p.rank][p.slot][b.From:b.To] }

// grain is what pieces of buckets are whole numbers of: a line of a cache, so that no two processes
// write to one.
const grain = 16

// piece is the part of a bucket that a process is the owner of.
func (s *Sum) piece(b Bucket, owner int) Bucket {
	grains := (b.To - b.From + grain - 1) / grain
	from, to := Share(grains, s.ranks, owner)
	return Bucket{min(b.From+from*grain, b.To), min(b.From+to*grain, b.To)}
}

// ring sums a bucket over all processes: in its first steps a process adds its own to pieces on
// their way, in those that follow it takes over pieces that are summed from its left neighbour. The
// token of a step says that it is done; each step but the first needs that of the neighbour before.
func (s *Sum) ring(bucket int) (waited time.Duration, err error) {
	n := s.ranks
	left := (s.rank + n - 1) % n
	for v := range 2*n - 1 {
		if v > 0 {
			begin := time.Now()
			if err := s.Team.await(token{s.update, bucket, v - 1}); err != nil {
				return 0, err
			}
			waited += time.Since(begin)
		}
		owner := (s.rank - 1 - v + 2*n) % n
		piece := s.piece(s.Buckets[bucket], owner)
		if v < n {
			s.apply(s.around[owner][s.rank], piece)
		} else {
			s.apply([]op{{place{s.rank, 0}, place{left, 0}, nowhere}}, piece)
		}
		if v < 2*n-2 {
			if err := s.Team.pass(token{s.update, bucket, v}); err != nil {
				return 0, err
			}
		}
	}
	return waited, nil
}

// token says that a process has done a step of a bucket.
type token struct {
	update       int64
	bucket, step int
}
