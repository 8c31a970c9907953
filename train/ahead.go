package train

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/data"
)

// ahead is a batch that is made in the background while the device computes the one before it. What
// is in it follows from set, samples and epoch alone, so it does not matter whether it is used.
type ahead struct {
	of     *set
	rows   []int
	epoch  int
	values map[string]*tensor.Tensor
	done   chan struct{} // closed when values and err are there
	err    error
}

// fill writes samples of a set into the inputs of a program; epoch below 0 changes no images. A
// batch that is being made is waited for.
func (r *Run) fill(p *program, of *set, rows []int, epoch int) error {
	to := r.data.values(of, p.input)
	a := r.ahead
	if a == nil || a.of != of || a.epoch != epoch || !slices.Equal(a.rows, rows) {
		return r.data.write(to, of, rows, epoch)
	}
	<-a.done
	if r.used++; a.err != nil {
		return a.err
	}
	for name, t := range to {
		from := a.values[name]
		if from == nil || len(from.Data) != len(t.Data) {
			return r.data.write(to, of, rows, epoch)
		}
		copy(t.Data, from.Data)
	}
	return nil
}

// begins begins to make a batch of a program in the background, unless it is made as fast as it is
// copied.
func (r *Run) begins(p *program, of *set, rows []int, epoch int) {
	if !r.data.slow() {
		return
	}
	before := r.ahead
	if before != nil {
		<-before.done // whose memory is used again
	}
	a := &ahead{of: of, rows: rows, epoch: epoch, values: map[string]*tensor.Tensor{},
		done: make(chan struct{})}
	for name, t := range r.data.values(of, p.input) {
		if before != nil && before.values[name] != nil &&
			slices.Equal(before.values[name].Shape, t.Shape) {
			a.values[name] = before.values[name]
		} else if a.values[name], a.err = tensor.New(t.DType, t.Shape...); a.err != nil {
			r.ahead = nil
			return
		}
	}
	r.ahead = a
	go func() {
		defer close(a.done)
		a.err = r.data.write(a.values, of, rows, epoch)
	}()
}

// settle waits for what is made in the background.
func (r *Run) settle() {
	if r.ahead != nil {
		<-r.ahead.done
		r.ahead = nil
	}
}

// place is that of a batch, or a part of it, among those of a run.
type place struct {
	done  int64 // updates before its own
	shard int
	batch int // of the update
}

// after is the place of what this process computes next.
func (r *Run) after(at place) place {
	last := 1
	if r.shards != nil {
		last = r.shards.to
	}
	switch {
	case at.batch+1 < r.recipe.Accumulate:
		at.batch++
	case at.shard+1 < last:
		at.batch, at.shard = 0, at.shard+1
	default:
		at = place{done: at.done + 1}
		if r.shards != nil {
			at.shard = r.shards.from
		}
	}
	return at
}

// samplesOf are the samples of a place, and their epoch, from 1 on.
func (r *Run) samplesOf(at place) (rows []int, epoch int) {
	n := r.data.batch
	if r.shards != nil {
		n /= r.step.Shards.N
	}
	per := r.perEpoch()
	from := int(at.done%per)*r.data.update + at.batch*r.data.batch + at.shard*n
	epoch = int(at.done / per)
	return r.orderOf(epoch)[from : from+n], epoch + 1
}

// orderOf is the order of an epoch, of which the two that were used last are kept.
func (r *Run) orderOf(epoch int) []int {
	if o := r.orders[epoch%2]; o.of != nil && o.epoch == epoch {
		return o.of
	}
	o := order{epoch, data.Order(r.data.train.rows, r.recipe.Seed, epoch)}
	r.orders[epoch%2] = o
	return o.of
}

// order is that of the samples of an epoch.
type order struct {
	epoch int
	of    []int
}

// fillTrain fills a program with the samples of a place, and has those of the next made.
func (r *Run) fillTrain(p *program, at place) error {
	rows, epoch := r.samplesOf(at)
	if err := r.fill(p, &r.data.train, rows, epoch); err != nil {
		return err
	}
	if next := r.after(at); next.done < r.Updates() {
		rows, epoch = r.samplesOf(next)
		r.begins(p, &r.data.train, rows, epoch)
	}
	return nil
}
