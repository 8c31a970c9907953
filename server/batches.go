package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/queue"
	"github.com/weirgpu/weir/tensor"
)

// This file finds out which requests of a version may be computed together: those of models whose
// rows, the parts of inputs and outputs along their first dimension, are independent of each other.
// That is tried: rows of random numbers are computed alone and together, and must be equal. Of
// models whose configuration says nothing, more rows are put together only as far as that is
// quicker.

// batching is how requests of a version are put together.
type batching struct {
	most      int // rows of a batch; 1: requests are computed one by one
	preferred []int
	delay     time.Duration
	sizes     []int    // for which there are plans, ascending: batches are filled up to them
	why       string   // in words, for people; "" before it is known
	pads      *padding // nil: only inputs of the same lengths are put together
	length    int      // of the samples that the model took; 0: none were tried
}

// size is the least number of rows for which there is a plan and that is no less than rows.
func (b *batching) size(rows int) int {
	i, _ := slices.BinarySearch(b.sizes, rows)
	if i == len(b.sizes) {
		return rows
	}
	return b.sizes[i]
}

// gain is how much quicker more rows must be, for each row, to be put together unasked.
const gain = 1.05

// samples is how many different rows are tried.
const samples = 4

// The lengths that open dimensions other than the first are tried with.
var lengths = []int{4, 16, 1}

// learn finds out whether and how requests are to be put together, behind the requests that come
// meanwhile.
func (v *version) learn(ctx context.Context) {
	b := &batching{most: 1}
	if b.why = v.cannot(); b.why == "" && v.padding != nil {
		padded, err := v.tryPadded(ctx)
		if err == nil {
			b = padded
		} else if b = v.try(ctx); ctx.Err() == nil {
			b.why += "; nothing is padded: " + text(err)
			v.server.o.Log.Warn("inputs are not padded", "model", v.name, "error", err)
		}
	} else if b.why == "" {
		b = v.try(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	// the queue first: a request that does not know of it yet takes a whole batch
	if err := v.queue.Set(v.admitting(b)); err != nil {
		v.server.o.Log.Error("requests are not put together", "model", v.name, "error", err)
		return
	}
	v.batches.Store(b)
}

// cannot says why the types of a model keep its requests from being put together, "" if nothing
// does.
func (v *version) cannot() string {
	if c := v.source.Config; c != nil && c.MaxBatchSize == 0 && len(c.Input) > 0 {
		return "off: max_batch_size is 0"
	}
	if v.server.o.Batch < 2 || v.rowsAtMost() < 2 {
		return "off"
	}
	if len(v.results) < len(v.on.Outputs()) {
		return "off: an output is no tensor"
	}
	for _, f := range slices.Concat(v.types, v.results) {
		if len(f.Shape) == 0 || f.Shape[0] >= 0 {
			return fmt.Sprintf("off: the first dimension of %s is not open", f.Name)
		}
	}
	if len(v.types) == 0 {
		return "off: there are no inputs"
	}
	return ""
}

// trial is what is known of a version while it is tried.
type trial struct {
	v      *version
	length int                // of open dimensions
	rows   []weir.Inputs      // samples
	alone  [][]*tensor.Tensor // their outputs; nil: batches are held against nothing
}

// try computes batches of more and more rows.
func (v *version) try(ctx context.Context) *batching {
	if was := v.known(); was != nil {
		return v.again(ctx, &trial{v: v, rows: []weir.Inputs{v.sample(newRand(), was.length)}}, was)
	}
	b := &batching{most: 1}
	t, one, err := v.begin(ctx)
	if err != nil {
		b.why = "off: no values were found that the model takes: " + text(err)
		return b
	}
	if v.dynamic() != nil {
		return v.asked(ctx, t)
	}
	if was := v.source.learned; was != nil && was.pads == nil {
		return v.again(ctx, t, was)
	}
	b.length = t.length
	best, idle := one, 0
	for size := 2; size <= v.rowsAtMost() && idle < 2; size *= 2 {
		took, err := t.batch(ctx, size, repeats)
		if err != nil {
			if errors.Is(err, errDiffer) {
				return &batching{most: 1, why: "off: " + text(err), length: t.length}
			}
			b.why = fmt.Sprintf("up to %d rows: with more, %s", b.most, text(err))
			return b
		}
		b.sizes = append(b.sizes, size)
		if row := took / time.Duration(size); float64(row)*gain < float64(best) {
			best, idle, b.most = row, 0, size
		} else {
			idle++
		}
	}
	b.sizes = slices.DeleteFunc(b.sizes, func(n int) bool { return n > b.most })
	b.why = fmt.Sprintf("up to %d rows, since more are not quicker", b.most)
	return b
}

// asked computes batches up to the size that the configuration asks for.
func (v *version) asked(ctx context.Context, t *trial) *batching {
	b := &batching{most: 1}
	for size := 2; b.most < v.rowsAtMost(); size *= 2 {
		size = min(size, v.rowsAtMost())
		if _, err := t.batch(ctx, size, 1); err != nil {
			if errors.Is(err, errDiffer) {
				return &batching{most: 1, why: "off: " + text(err)}
			}
			b.why = fmt.Sprintf("up to %d rows: with more, %s", b.most, text(err))
			break
		}
		b.most, b.sizes = size, append(b.sizes, size)
	}
	v.queueing(b)
	b.why = cmp.Or(b.why, fmt.Sprintf("up to %d rows, as configured", b.most))
	return b
}

// learned is what was found out about batches; nil where that is not known yet.
func (v *version) learned() *batching {
	if b := v.batches.Load(); b != nil && b.why != "" {
		return b
	}
	return nil
}

// known is what was found out about the very same content when it was served before, and holds of
// it again; nil where that is not sure.
func (v *version) known() *batching {
	src := &v.source
	was := src.learned
	if was == nil || was.pads != nil || was.length == 0 || v.dynamic() != nil || isEnsemble(src) ||
		src.Mark == "" || src.Stale != nil && src.Stale() {
		return nil
	}
	return was
}

// again computes the batches that were as quick as is worth while when the same was served before,
// so that there are plans for them: how long they take is known. That their rows are independent is
// held once more where the trial has samples that were computed alone.
func (v *version) again(ctx context.Context, t *trial, was *batching) *batching {
	b := *was
	for i, size := range b.sizes {
		if _, err := t.batch(ctx, size, 1); errors.Is(err, errDiffer) {
			return &batching{most: 1, why: "off: " + text(err)}
		} else if err != nil {
			b.sizes = b.sizes[:i]
			b.most = 1
			if i > 0 {
				b.most = b.sizes[i-1]
			}
			b.why = fmt.Sprintf("up to %d rows: with more, %s", b.most, text(err))
			break
		}
	}
	return &b
}

// queueing takes over from the configuration how requests wait for each other.
func (v *version) queueing(b *batching) {
	d := v.dynamic()
	if d == nil {
		return
	}
	b.delay = time.Duration(d.MaxQueueDelayMicroseconds) * time.Microsecond
	for _, n := range d.PreferredBatchSize {
		if n <= int64(b.most) {
			b.preferred = append(b.preferred, int(n))
		}
	}
	slices.Sort(b.preferred)
	b.preferred = slices.Compact(b.preferred)
}

// short reports whether there is too little memory to try more.
func (v *version) short() bool {
	if !v.room.open || v.server.o.Lend {
		return false
	}
	want := spare * v.job.Usage().Share.Memory
	if want > v.ceiling() {
		return v.server.Free() < want // nothing leaves for what it may not have
	}
	return v.server.freed(v.life, want) < want
}

// begin finds values that a model takes, and computes them row by row. It returns how long a row
// takes.
func (v *version) begin(ctx context.Context) (t *trial, took time.Duration, err error) {
	for _, n := range lengths {
		t = &trial{v: v, length: n}
		rng := newRand()
		for range samples {
			t.rows = append(t.rows, v.sample(rng, n))
		}
		took, err = time.Hour, nil
		for _, in := range t.rows {
			var out []*tensor.Tensor
			var d time.Duration
			if out, d, err = v.behind(ctx, in); err != nil {
				break
			}
			took = min(took, d)
			t.alone = append(t.alone, out)
		}
		if err == nil || ctx.Err() != nil {
			return t, took, err
		}
	}
	return nil, 0, err
}

// newRand gives the same samples each time.
func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// sample is a row of random values. Whole numbers are small, since they may count, name or choose
// something.
func (v *version) sample(rng *rand.Rand, length int) weir.Inputs {
	in := weir.Inputs{}
	for _, f := range v.types {
		shape := []int{1}
		for _, d := range f.Shape[1:] {
			if d < 0 {
				d = int64(length)
			}
			shape = append(shape, int(d))
		}
		in[f.Name] = v.sampled(rng, f.Name, random(rng, v.inputs[f.Name].Type.DType, shape))
	}
	return in
}

// sampled is a tensor with texts that its input takes, where any would not do.
func (v *version) sampled(rng *rand.Rand, name string, t *tensor.Tensor) *tensor.Tensor {
	if v.source.Sample == nil {
		return t
	}
	for i := range t.Strings {
		t.Strings[i] = cmp.Or(v.source.Sample(name, rng), t.Strings[i])
	}
	return t
}

// random is a tensor of random values.
func random(rng *rand.Rand, d tensor.DType, shape []int) *tensor.Tensor {
	n, _ := tensor.Count(shape)
	t := &tensor.Tensor{DType: d, Shape: shape}
	switch d {
	case tensor.String:
		for range n {
			t.Strings = append(t.Strings, string(rune('a'+rng.IntN(3))))
		}
		return t
	case tensor.Float32:
		return tensor.From(floats[float32](rng, n), shape...)
	case tensor.Float64:
		return tensor.From(floats[float64](rng, n), shape...)
	}
	size := d.Size()
	t.Data = make([]byte, n*size)
	for i := range n {
		switch d {
		case tensor.Float16:
			t.Data[i*size+1] = 0x38 + byte(rng.IntN(8)) // from 0.5 on, IEEE 754 binary16
		case tensor.BFloat16:
			t.Data[i*size], t.Data[i*size+1] = byte(rng.IntN(256)), 0x3f
		default:
			t.Data[i*size] = byte(rng.IntN(2))
		}
	}
	return t
}

func floats[T float32 | float64](rng *rand.Rand, n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = T(rng.NormFloat64())
	}
	return all
}

// behind computes inputs once nobody else waits, and returns the outputs and how long it took.
func (v *version) behind(ctx context.Context, in weir.Inputs) ([]*tensor.Tensor, time.Duration,
	error) {
	t := &task{in: in, rows: 1, own: true}
	defer t.free()
	if err := v.queue.Do(ctx, queue.Request{Rows: 1, Signature: "own", Priority: v.own()},
		t); err != nil {
		return nil, 0, err
	}
	if t.err != nil {
		return nil, 0, t.err
	}
	var out []*tensor.Tensor
	for _, o := range t.out {
		out = append(out, o.Clone())
	}
	return out, t.took, nil
}

// errDiffer is of a model whose rows depend on each other.
var errDiffer = errors.New("rows depend on those beside them")

// repeats is how often a batch is computed to know how long it takes: the least time counts, since
// others have the device too.
const repeats = 3

// batch computes so many rows as often as is said, holds them against those that were computed
// alone, and returns how long it took.
func (t *trial) batch(ctx context.Context, size, times int) (took time.Duration, err error) {
	if t.v.short() {
		return 0, fmt.Errorf("%w for them", weir.ErrMemory)
	}
	var tasks []*task
	for i := range size {
		tasks = append(tasks, &task{in: clone(t.rows[t.at(i)]), rows: 1})
	}
	in := desk{}.gather(t.v.types, tasks, size)
	took = time.Hour
	for range times {
		out, d, err := t.v.behind(ctx, in)
		if err != nil {
			return 0, err
		}
		if t.alone != nil {
			err = t.compare(out, size)
		}
		if err != nil {
			return 0, err
		}
		took = min(took, d)
	}
	return took, nil
}

// clone is a map of its own of the same inputs.
func clone(in weir.Inputs) weir.Inputs {
	c := weir.Inputs{}
	for name, t := range in {
		c[name] = t
	}
	return c
}

// at is the sample in a row of a batch.
func (t *trial) at(row int) int { return (3*row + 1) % len(t.rows) }

// compare holds each row of outputs against that which was computed alone.
func (t *trial) compare(out []*tensor.Tensor, size int) error {
	for i, o := range out {
		if len(o.Shape) == 0 || o.Shape[0] != size {
			return fmt.Errorf("%w: output %s of %d rows is %v", errDiffer, t.v.on.Outputs()[i].Name,
				size, o.Shape)
		}
		for row := range size {
			if !alike(part(o, row, 1), t.alone[t.at(row)][i]) {
				return fmt.Errorf("%w: output %s of a row alone is not that among %d", errDiffer,
					t.v.on.Outputs()[i].Name, size)
			}
		}
	}
	return nil
}

// tolerance is by how much numbers of a row may differ, as a part of the largest of them: sums of
// more rows are added up in another order.
const tolerance = 1.0 / (1 << 13)

// alike reports whether two tensors are equal, numbers with a fraction within the tolerance.
func alike(a, b *tensor.Tensor) bool {
	if !slices.Equal(a.Shape, b.Shape) || a.DType != b.DType {
		return false
	}
	if a.DType == tensor.String {
		return slices.Equal(a.Strings, b.Strings)
	}
	if bytes.Equal(a.Data, b.Data) {
		return true
	}
	x, y := fractions(a), fractions(b)
	if x == nil {
		return false
	}
	n, _ := tensor.Count(a.Shape)
	largest := 0.0
	for i := range n {
		if f := math.Abs(x(i)); !math.IsInf(f, 0) {
			largest = max(largest, f)
		}
	}
	for i := range n {
		p, q := x(i), y(i)
		same := p == q || math.IsNaN(p) && math.IsNaN(q)
		if !same && !(math.Abs(p-q) <= tolerance*largest) {
			return false
		}
	}
	return true
}

// fractions returns the elements of a tensor, nil where its type has no fractions.
func fractions(t *tensor.Tensor) func(i int) float64 {
	switch t.DType {
	case tensor.Float32:
		all := tensor.As[float32](t)
		return func(i int) float64 { return float64(all[i]) }
	case tensor.Float64:
		all := tensor.As[float64](t)
		return func(i int) float64 { return all[i] }
	case tensor.Float16:
		all := tensor.As[tensor.Half](t)
		return func(i int) float64 { return float64(all[i].Float32()) }
	case tensor.BFloat16:
		all := tensor.As[tensor.BHalf](t)
		return func(i int) float64 { return float64(all[i].Float32()) }
	}
	return nil
}
