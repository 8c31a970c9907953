package train

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/dist"
)

// sharded is what a run has whose batches are computed in shards.
type sharded struct {
	sum      *dist.Sum
	ready    []int // the step of a shard's graph after which each bucket is whole
	parts    [2]int64
	from, to int // the shards of this process
	areas    [][]byte

	spans  []dist.Span // of the update under way
	waited time.Duration
	summed []dist.Span // of buckets
	busy   time.Duration
	slow   int // updates in a row in which a process took far longer than others
	loose  bool
}

// openShards prepares to sum what shards come to, in the memory of each process.
func (r *Run) openShards(areas [][]byte) {
	s := &sharded{areas: areas}
	r.shards = s
	rank := 0
	if r.opts.Team != nil {
		rank = r.opts.Team.Rank
	}
	s.from, s.to = dist.Share(r.step.Shards.N, r.ranks, rank)
	var buckets []dist.Bucket
	s.parts, buckets, s.ready = r.buckets()
	room := make([][][]float32, len(areas))
	for i, area := range areas {
		room[i] = append(room[i], floats(area[s.parts[0]:s.parts[1]]))
		for _, name := range r.step.Shards.Slots {
			from, to, _ := r.step.State.Range(name)
			room[i] = append(room[i], floats(area[from:to]))
		}
	}
	s.sum = dist.NewSum(dist.SumOptions{Shards: r.step.Shards.N, Buckets: buckets, Room: room,
		Team: r.opts.Team, Done: func(span dist.Span, waited time.Duration) {
			s.summed = append(s.summed, span)
		}})
}

// buckets cuts what a shard comes to into ranges that are summed at once, in the order in which
// they are whole: after a step of the shard's graph, or after its last.
func (r *Run) buckets() (parts [2]int64, buckets []dist.Bucket, ready []int) {
	names := r.step.Shards.Parts
	parts[0], _, _ = r.step.State.Range(names[0])
	parts[1] = r.step.State.Bytes()
	if s := r.step.Shards.Slots; len(s) > 0 {
		parts[1], _, _ = r.step.State.Range(s[0])
	}
	size := min(max((parts[1]-parts[0])/8, 64<<10), 4<<20)
	type bucket struct {
		dist.Bucket
		ready int
	}
	var all []*bucket // of pointers, as what sorts these the program has already
	begin, whole := parts[0], 0
	for i, name := range names {
		end := parts[1]
		if i+1 < len(names) {
			end, _, _ = r.step.State.Range(names[i+1])
		}
		whole = max(whole, r.plans[0].Replaced(name))
		if end-begin >= size || end == parts[1] {
			all = append(all, &bucket{dist.Bucket{From: int(begin-parts[0]) / 4,
				To: int(end-parts[0]) / 4}, whole})
			begin, whole = end, 0
		}
	}
	slices.SortStableFunc(all, func(a, b *bucket) int { return cmp.Compare(a.ready, b.ready) })
	for _, b := range all {
		buckets, ready = append(buckets, b.Bucket), append(ready, b.ready)
	}
	return parts, buckets, ready
}

// floats are the numbers that memory of a state holds, which is aligned for them.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// computeShards makes an update from its shards, of which other processes may compute some. Of a
// loss that is not finite nothing is made.
func (r *Run) computeShards(ctx context.Context, e *Event) error {
	if err := r.begin(e); err != nil {
		return err
	}
	losses, err := r.ownShards(ctx, e)
	if err != nil {
		return err
	}
	if losses, err = r.allLosses(losses); err != nil {
		return err
	}
	for i, loss := range losses {
		if !unbounded(e.Loss) {
			e.Wrong = i
		}
		e.Loss += float64(loss) / float64(len(losses))
	}
	if unbounded(e.Loss) {
		return nil
	}
	return r.replace(ctx, e)
}

// ownShards computes the shards of this process, and returns their losses, those of a shard's
// batches together. What all shards come to is then summed.
func (r *Run) ownShards(ctx context.Context, e *Event) (losses []float32, err error) {
	s := r.shards
	s.spans, s.summed, s.waited, s.busy = s.spans[:0], s.summed[:0], 0, 0
	s.sum.Begin(e.Update)
	for k := s.from; k < s.to; k++ {
		begin := time.Now()
		r.beginShard()
		for i := range r.recipe.Accumulate {
			loss, err := r.batchOf(ctx, k, i, e)
			if err != nil {
				return nil, fmt.Errorf("update %d: %w", e.Update, err)
			}
			losses = append(losses, loss)
		}
		end := time.Now()
		s.busy += end.Sub(begin)
		s.spans = append(s.spans, dist.Span{What: fmt.Sprint("shard ", k), Begin: begin, End: end})
		if err := s.sum.Settle(); err != nil {
			return nil, fmt.Errorf("update %d: %w", e.Update, err)
		}
		s.waited = time.Since(end)
	}
	r.overlapped(s.spans[len(s.spans)-1].End)
	if r.ranks > 1 {
		e.Peers = s.waited
		s.spans = append(s.spans, s.summed...)
	}
	return losses, nil
}

// overlapped notes how much of the sums over processes was beside what was computed until then.
func (r *Run) overlapped(end time.Time) {
	for _, b := range r.shards.summed {
		until := b.End
		if until.After(end) {
			until = end
		}
		r.history.hidden += max(until.Sub(b.Begin), 0).Seconds()
		r.history.summed += b.End.Sub(b.Begin).Seconds()
	}
}

// beginShard has running statistics begin as they are before the update, and sums as zeros.
func (r *Run) beginShard() {
	r.clearSums()
	for _, of := range r.step.Shards.Stats {
		copy(r.variable(of[1]).Data, r.variable(of[0]).Data)
	}
}

// batchOf computes batch i of a shard of an update, and returns its loss.
func (r *Run) batchOf(ctx context.Context, shard, i int, e *Event) (float32, error) {
	filling := time.Now()
	if err := r.fillShard(shard, i, e); err != nil {
		return 0, err
	}
	e.Waited += time.Since(filling)
	s := r.shards
	follow, next := (func(int))(nil), 0
	if i == r.recipe.Accumulate-1 {
		follow = func(step int) {
			for ; next < len(s.ready) && s.ready[next] <= step; next++ {
				s.sum.Whole(shard-s.from, next)
			}
		}
	}
	r.train.instance.Follow(follow)
	// an update that is cut short would leave some weights changed and others not
	if err := r.run(context.WithoutCancel(ctx), r.train); err != nil {
		return 0, err
	}
	if follow != nil {
		follow(len(r.train.plan.Steps))
	}
	return tensor.As[float32](r.train.instance.Outputs()[0])[0], nil
}

// fillShard writes the samples of a shard of batch i of the update that comes next.
func (r *Run) fillShard(shard, i int, e *Event) error {
	r.fillDraw(r.train, i*r.step.Shards.N+shard, e)
	return r.fillTrain(r.train, place{done: r.done, shard: shard, batch: i})
}

// replace replaces the weights, once what all shards come to is summed.
func (r *Run) replace(ctx context.Context, e *Event) error {
	r.fillScalars(r.apply, e)
	if err := r.run(context.WithoutCancel(ctx), r.apply); err != nil {
		return fmt.Errorf("update %d: %w", e.Update, err)
	}
	return nil
}

// suspectShard is blame for an update in shards, of which nothing was made.
func (r *Run) suspectShard(ctx context.Context, e Event) (string, error) {
	n := r.recipe.Accumulate
	r.beginShard()
	if err := r.fillShard(e.Wrong/n, e.Wrong%n, &e); err != nil {
		return "", err
	}
	return r.look(ctx, r.train)
}
