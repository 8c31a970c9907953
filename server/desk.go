package server

import (
	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// desk is where the inputs of requests are put together. One batch at a time uses it, until its
// requests are computed. A version has desks from a pool, which lets go of those that were not used
// between two collections of garbage.
type desk map[string]*tensor.Tensor

// gather puts the rows of requests below each other, padded where that is what they are to be, and
// repeats the last one up to size, which is no less than they have. The requests' inputs are their
// parts of it from then on, so that what they were is read no more.
func (d desk) gather(inputs []oip.TensorFields, batch []*task, size int) weir.Inputs {
	in := make(weir.Inputs, len(inputs))
	for _, f := range inputs {
		to := d[f.Name]
		if to == nil {
			to = &tensor.Tensor{}
			d[f.Name] = to
		}
		first := batch[0].in[f.Name]
		to.DType, to.Shape = first.DType, append(append(to.Shape[:0], size), first.Shape[1:]...)
		var with tensor.Tensor
		for _, t := range batch {
			if t.size > 0 && t.pads.axes[f.Name] > 0 {
				to.Shape[t.pads.axes[f.Name]], with = t.size, *t.pads.with[f.Name]
				break
			}
		}
		if first.DType == tensor.String {
			to.Strings = stack(to.Strings[:0], f.Name, batch, to.Shape, with.Strings,
				func(t *tensor.Tensor) []string { return t.Strings })
		} else {
			to.Data = stack(to.Data[:0], f.Name, batch, to.Shape, with.Data,
				func(t *tensor.Tensor) []byte { return t.Data })
		}
		from := 0
		for _, t := range batch {
			t.in[f.Name] = part(to, from, t.rows)
			from += t.rows
		}
		in[f.Name] = to
	}
	return in
}

// stack appends the elements of all requests, each row of the shape but for the first dimension,
// which is the rows, and then of the last row as often as it takes.
func stack[T byte | string](to []T, name string, batch []*task, shape []int, with []T,
	elements func(*tensor.Tensor) []T) []T {
	rows := 0
	for _, t := range batch {
		x := t.in[name]
		axis := 0
		for i := 1; i < len(shape); i++ {
			if x.Shape[i] != shape[i] {
				axis = i
			}
		}
		all := elements(x)
		if to == nil {
			to = make([]T, 0, len(all)/t.rows*shape[0])
		}
		if axis == 0 {
			to = append(to, all...)
		} else {
			to = padTo(to, all, with, x.Shape, axis, shape[axis])
		}
		rows += t.rows
	}
	row := len(to) / rows
	for ; rows < shape[0]; rows++ {
		to = append(to, to[len(to)-row:]...)
	}
	return to
}
