package server

import (
	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// desk is where the inputs of requests are put together. One batch at a time uses it: a Run has
// copied its inputs once it returns.
type desk map[string]*tensor.Tensor

// gather puts the rows of requests below each other, and repeats the last one up to size, which is
// no less than they have. The requests' inputs are their parts of it from then on, so that what
// they were is read no more.
func (d *desk) gather(inputs []oip.TensorFields, batch []*task, size int) (weir.Inputs, int) {
	if *d == nil {
		*d = desk{}
	}
	in := make(weir.Inputs, len(inputs))
	for _, f := range inputs {
		to := (*d)[f.Name]
		if to == nil {
			to = &tensor.Tensor{}
			(*d)[f.Name] = to
		}
		first := batch[0].in[f.Name]
		to.DType, to.Shape = first.DType, append(append(to.Shape[:0], size), first.Shape[1:]...)
		if first.DType == tensor.String {
			to.Strings = stack(to.Strings[:0], f.Name, batch, size,
				func(t *tensor.Tensor) []string { return t.Strings })
		} else {
			to.Data = stack(to.Data[:0], f.Name, batch, size,
				func(t *tensor.Tensor) []byte { return t.Data })
		}
		from := 0
		for _, t := range batch {
			t.in[f.Name] = part(to, from, t.rows)
			from += t.rows
		}
		in[f.Name] = to
	}
	return in, size
}

// stack appends the elements of all requests, and then of the last row as often as it takes.
func stack[T any](to []T, name string, batch []*task, size int,
	elements func(*tensor.Tensor) []T) []T {
	rows := 0
	var row []T
	for _, t := range batch {
		all := elements(t.in[name])
		to = append(to, all...)
		row = all[len(all)-len(all)/t.rows:]
		rows += t.rows
	}
	for ; rows < size; rows++ {
		to = append(to, row...)
	}
	return to
}
