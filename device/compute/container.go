package compute

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// keep returns v, a sequence, optional or map that a step made of in, such that its items stay what
// they are until the next run. Items that lie in the memory of a tensor among in are copied, since
// later steps write over that memory. Items that a container among in holds at the same place, or
// one beside it, are shared. The memory of what is new is asked of the job's quota.
func keep(x *Exec, in []*tensor.Tensor, v *tensor.Tensor) (*tensor.Tensor, error) {
	k := keeper{exec: x}
	for _, t := range in {
		k.note(t)
	}
	if slices.Contains(k.from, v) {
		return v, nil
	}
	return k.keep(v)
}

type keeper struct {
	exec   *Exec
	memory []*tensor.Tensor // operands whose memory is used again
	from   []*tensor.Tensor // operands whose items stay, and what optionals among them hold
}

func (k *keeper) note(t *tensor.Tensor) {
	switch {
	case t == nil:
	case t.DType.IsContainer():
		k.from = append(k.from, t)
		if t.DType == tensor.Optional && len(t.Items) == 1 && t.Items[0].DType.IsContainer() {
			k.note(t.Items[0])
		}
	default:
		k.memory = append(k.memory, t)
	}
}

// holds reports whether a container among the operands has v among its items at place or one beside
// it, which is where operators leave most items. Looking at all items for each one would make a
// loop that grows a list take time in the square of its length.
func (k *keeper) holds(v *tensor.Tensor, place int) bool {
	for _, t := range k.from {
		for i := max(0, place-1); i <= place+1 && i < len(t.Items); i++ {
			if t.Items[i] == v {
				return true
			}
		}
	}
	return false
}

// keep keeps a container, whose list of items is its own.
func (k *keeper) keep(v *tensor.Tensor) (*tensor.Tensor, error) {
	if err := k.exec.Reserve(headerBytes + pointerBytes*int64(len(v.Items))); err != nil {
		return nil, err
	}
	items := v.Items
	for i, item := range v.Items {
		kept, err := k.item(item, i)
		if err != nil {
			return nil, err
		}
		if kept == item {
			continue
		}
		if &items[0] == &v.Items[0] {
			items = slices.Clone(items)
		}
		items[i] = kept
	}
	return &tensor.Tensor{DType: v.DType, Shape: v.Shape, Items: items}, nil
}

// item keeps what stands at a place in a container.
func (k *keeper) item(v *tensor.Tensor, place int) (*tensor.Tensor, error) {
	if k.holds(v, place) {
		return v, nil
	}
	if v.DType.IsContainer() {
		return k.keep(v)
	}
	if err := k.exec.Reserve(headerBytes + v.Size()); err != nil {
		return nil, err
	}
	for _, t := range k.memory {
		if v == t || v.Shares(t) {
			return v.Clone(), nil
		}
	}
	return v, nil
}

// A value's description and a pointer to it.
const (
	headerBytes  = 120
	pointerBytes = 8
)
