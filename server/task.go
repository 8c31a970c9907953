package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/queue"
	"github.com/weirgpu/weir/server/telemetry"
	"github.com/weirgpu/weir/tensor"
)

// task is a request on its way through a version's queue.
type task struct {
	in   weir.Inputs
	rows int
	own  bool // of the server, which counts for nobody
	took time.Duration
	// out are the outputs in the model's order, valid until free.
	out    []*tensor.Tensor
	held   *shared
	whole  shared  // that is held where no other request has a part
	parts  []*task // whose outputs are among out
	back   func()  // gives back what the server holds for out; nil for nothing
	err    error   // of this request alone
	follow *telemetry.Request
	waits  *waiters // where it counts as one that waits; nil where it does not
	by     string   // its account, there
	bytes  int64    // and what it counts for
	// account, weight and signed are those of its request in the queue
	account string
	weight  float64
	signed  string
	// owes is what it has used of the device beyond its part of a batch
	owes time.Duration
	// pads says how its inputs are padded, from a length to a size; they are not where size is 0
	pads         *padding
	length, size int
}

// shared is a result that several requests have a part of.
type shared struct {
	weir.Result
	left atomic.Int32
}

// free gives the outputs back. A second call does nothing.
func (t *task) free() {
	for _, part := range t.parts {
		part.free()
	}
	t.parts = nil
	if t.back != nil {
		t.back()
		t.back = nil
	}
	if h := t.held; h != nil {
		t.held, t.out = nil, nil
		if h.left.Add(-1) == 0 {
			h.Close()
		}
	}
}

// copy gives the outputs back and keeps copies: the next request of a batch that is computed one by
// one may wait for the memory, and the answers to all are sent after the last.
func (t *task) copy() {
	out := make([]*tensor.Tensor, len(t.out))
	for i, o := range t.out {
		out[i] = o.Clone()
	}
	t.free()
	t.out = out
}

// fits reports whether inputs are what the model declares, as weir.Model.Run holds it.
func (v *version) fits(in weir.Inputs) bool {
	if len(in) != len(v.inputs) {
		return false
	}
	for name, t := range in {
		x, ok := v.inputs[name]
		if !ok || x.Type.DType != t.DType || !shaped(x.Type.Shape, t.Shape) {
			return false
		}
	}
	return true
}

// shaped reports whether a shape has the rank and the known sizes that are declared.
func shaped(declared []weir.Dim, shape []int) bool {
	if declared == nil {
		return true
	}
	if len(declared) == 0 { // a scalar is one element of any rank
		n, err := tensor.Count(shape)
		return err == nil && n == 1
	}
	if len(declared) != len(shape) {
		return false
	}
	for i, d := range declared {
		if d.Size >= 0 && d.Size != shape[i] {
			return false
		}
	}
	return true
}

// place says with which requests a task may share a batch, and how much of one it takes.
func (v *version) place(t *task, q *queue.Request) {
	b := v.batches.Load()
	t.rows = v.rows(t.in)
	from := 1
	if b.most == 1 || t.rows < 1 || t.rows > b.most {
		from = 0 // it runs alone
		q.Rows = math.MaxInt
	} else {
		q.Rows = t.rows
	}
	q.Fit = true
	if b.pads != nil && from == 1 {
		t.pads = b.pads
		t.length, t.size = b.pads.of(t.in)
	}
	var text [64]byte
	to := text[:0]
	for i := range v.types {
		to = t.signature(to, &v.types[i], from)
	}
	q.Signature = string(to)
	t.rows = max(t.rows, 1)
}

// rows is how many rows inputs have: their first dimension, where all have one and the same and
// there are elements; else 0.
func (v *version) rows(in weir.Inputs) int {
	rows := -1
	for _, t := range in {
		if len(t.Shape) == 0 || rows >= 0 && t.Shape[0] != rows {
			return 0
		}
		if n, err := tensor.Count(t.Shape); err != nil || n == 0 {
			return 0 // any number costs a client nothing
		}
		rows = t.Shape[0]
	}
	return max(rows, 0)
}

// run computes what requests ask for, together where there are several.
func (v *version) run(ctx context.Context, batch []*task, copied func()) error {
	if batch[0].own {
		began := time.Now()
		err := v.alone(ctx, batch[0])
		batch[0].took = time.Since(began)
		return err
	}
	follow, rows := make([]*telemetry.Request, 0, 1), 0
	for _, t := range batch {
		rows += t.rows
	}
	leave, err := v.enter(ctx, batch, rows)
	if err != nil {
		return err
	}
	defer leave()
	for _, t := range batch {
		t.begin()
		follow = append(follow, t.follow)
	}
	e := v.counts.Execute(rows, follow...).Through(v.members)
	ctx = weir.WithRunObserver(ctx, e.Observer())
	if len(batch) == 1 && batch[0].size == batch[0].length {
		err := v.alone(ctx, batch[0])
		e.End(err)
		return err
	}
	d, ok := v.desks.Get().(desk)
	if !ok {
		d = desk{}
	}
	defer v.desks.Put(d)
	before := v.used(batch)
	b := v.batches.Load()
	err = v.together(ctx, d, b, batch, rows, copied)
	if v.most.Load() > 0 && rows > 1 && errors.Is(err, weir.ErrMemory) {
		v.narrow(b, rows)
	}
	if err != nil && ctx.Err() == nil {
		v.server.o.Log.Debug("a batch is computed one by one", "model", v.name, "error", err)
		v.oneByOne(ctx, batch, before)
		err = nil
	}
	e.End(err)
	return err
}

// oneByOne computes a batch again that has failed: one of its requests may be why, and the others
// have their answers. Who fails pays for what was computed in vain, since the version had used
// before of the device; each pays for its own.
func (v *version) oneByOne(ctx context.Context, batch []*task, before time.Duration) {
	used, failed := v.used(batch), 0
	vain := used - before
	for _, t := range batch {
		t.unpad()
		if t.err = v.alone(ctx, t); t.err != nil {
			v.suspects.add(t.account)
			failed++
		} else {
			t.copy()
		}
		now := v.used(batch)
		t.owes, used = now-used, now
	}
	for _, t := range batch {
		if t.err != nil {
			t.owes += vain / time.Duration(failed)
		}
	}
}

// alone computes what one request asks for.
func (v *version) alone(ctx context.Context, t *task) error {
	r, err := v.compute(ctx, t.in)
	if err != nil {
		return err
	}
	t.whole.Result = r
	t.held, t.out = &t.whole, r.Outputs()
	t.held.left.Store(1)
	return nil
}

// errRows is an output of which requests have no rows.
var errRows = errors.New("the outputs have not the rows of the inputs")

// together computes what several requests ask for as one, and gives each its rows. b is how they
// are put together.
func (v *version) together(ctx context.Context, d desk, b *batching, batch []*task, rows int,
	copied func()) error {
	size := b.size(rows)
	in := d.gather(v.types, batch, size)
	copied()
	if rows > b.most {
		return fmt.Errorf("%d rows, and batches are of %d", rows, b.most)
	}
	r, err := v.compute(ctx, in)
	if err != nil {
		return err
	}
	all := r.Outputs()
	for _, o := range all {
		if len(o.Shape) == 0 || o.Shape[0] != size {
			r.Close()
			return errRows
		}
	}
	from := 0
	for _, t := range batch {
		t.out = make([]*tensor.Tensor, len(all))
		for i, o := range all {
			t.out[i] = part(o, from, t.rows)
		}
		if err := t.cutBack(); err != nil {
			r.Close()
			return err
		}
		from += t.rows
	}
	h := &shared{Result: r}
	h.left.Store(int32(len(batch)))
	for _, t := range batch {
		t.held = h
	}
	return nil
}

// part is n rows of a tensor, which share its memory.
func part(t *tensor.Tensor, from, n int) *tensor.Tensor {
	p := &tensor.Tensor{DType: t.DType, Shape: append([]int{n}, t.Shape[1:]...)}
	if t.DType == tensor.String {
		row := len(t.Strings) / t.Shape[0]
		p.Strings = t.Strings[from*row : (from+n)*row]
		return p
	}
	row := len(t.Data) / t.Shape[0]
	p.Data = t.Data[from*row : (from+n)*row]
	return p
}
