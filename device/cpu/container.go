package cpu

import (
	"github.com/weirgpu/weir/tensor"
)

// keep returns a sequence, optional or map that a step made of in such that it stays what it is until the next run: items that
// lie in the memory of in, which later steps write over, are copied. What is new is asked of the job's memory; items that a
// container among in holds already are shared.
func keep(x *Exec, in []*tensor.Tensor, v *tensor.Tensor) (*tensor.Tensor, error) {
	k := keeper{exec: x, held: map[*tensor.Tensor]bool{}}
	for _, t := range in {
		switch {
		case t == nil:
		case t.DType.IsContainer():
			k.note(t.Items)
		default:
			k.lent = append(k.lent, t)
		}
	}
	return k.keep(v)
}

type keeper struct {
	exec *Exec
	lent []*tensor.Tensor        // operands whose memory is used again
	held map[*tensor.Tensor]bool // values within operands
}

func (k *keeper) note(items []*tensor.Tensor) {
	for _, v := range items {
		k.held[v] = true
		k.note(v.Items)
	}
}

func (k *keeper) keep(v *tensor.Tensor) (*tensor.Tensor, error) {
	if k.held[v] {
		return v, nil
	}
	out := &tensor.Tensor{DType: v.DType, Shape: v.Shape, Data: v.Data, Strings: v.Strings}
	if v.DType.IsContainer() {
		out.Items = make([]*tensor.Tensor, len(v.Items))
		for i, item := range v.Items {
			var err error
			if out.Items[i], err = k.keep(item); err != nil {
				return nil, err
			}
		}
		return out, k.exec.Reserve(headerBytes * int64(1+len(v.Items)))
	}
	if err := k.exec.Reserve(headerBytes + v.Size()); err != nil {
		return nil, err
	}
	for _, t := range k.lent {
		if v == t || v.Shares(t) {
			return v.Clone(), nil
		}
	}
	return out, nil
}

// headerBytes is the size of a value's description with the pointer to it.
const headerBytes = 128
