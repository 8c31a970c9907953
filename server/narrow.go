package server

import (
	"fmt"
	"slices"
)

// This file is batches under a cap that has no room for all that were learned to be quicker: they
// are of fewer rows, whose plans are smaller, until the cap is raised. Nobody is refused for it.

// narrow has batches be of fewer rows than so many, for which there is no room. b is how they were
// put together.
func (v *version) narrow(b *batching, rows int) {
	size := b.size(rows)
	n := *b
	n.sizes = slices.DeleteFunc(slices.Clone(b.sizes), func(s int) bool { return s >= size })
	n.most = min(b.most, size/2)
	if len(n.sizes) > 0 {
		n.most = min(b.most, n.sizes[len(n.sizes)-1])
	}
	n.most = max(1, n.most)
	n.preferred = slices.DeleteFunc(slices.Clone(b.preferred),
		func(s int) bool { return s > n.most })
	n.why = fmt.Sprintf("up to %d rows, since more have no room under the memory cap", n.most)
	if v.batches.CompareAndSwap(b, &n) {
		v.whole.CompareAndSwap(nil, b)
		v.requeue()
	}
}

// widen has batches be as they were before narrow.
func (v *version) widen() {
	if b := v.whole.Swap(nil); b != nil {
		v.batches.Store(b)
		v.requeue()
	}
}

// requeue tells the queue how requests are put together now.
func (v *version) requeue() {
	if err := v.queue.Set(v.admission()); err != nil {
		v.server.o.Log.Error("requests are put together as before", "model", v.name, "error", err)
	}
}
