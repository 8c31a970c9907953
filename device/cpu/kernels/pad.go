package kernels

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// padKernels are Pad (ONNX 2 to 25) with constant pads, in every mode, for any fixed-size type.
var padKernels = map[opKey]builder{{"", "Pad"}: pad}

// stretch is a part of an axis: elements to, to+1, … of the output are elements from, from+step, …
// of the input, n of them; or they are filled.
type stretch struct {
	to, from, step, n int
	fill              bool
}

func pad(r *request) (compute.Kernel, error) {
	shape, d, _ := r.in(0)
	before, after, ok := r.pads(len(shape))
	if !ok || len(shape) == 0 || d.Size() == 0 || count(shape) == 0 {
		return nil, nil
	}
	mode := r.Call.Attrs.String("mode", "constant")
	axes := make([][]stretch, len(shape))
	for i, n := range shape {
		if axes[i] = stretches(mode, n, before[i], after[i]); axes[i] == nil {
			return nil, nil
		}
	}
	moves := placed(axes, shape, r.outShape())
	fill, ok := r.padFill(d)
	if !ok {
		return nil, nil
	}
	for i := range moves {
		if moves[i].in == 1 && fill == nil {
			moves[i].in = 2
		}
	}
	k, err := newMoves(r, moves...)
	if m, ok := k.(*moveKernel); ok {
		m.extra = fill
	}
	return k, err
}

// pads returns what each axis gains before and after; false when that is not constant.
//
//go:noinline
func (r *request) pads(rank int) (before, after []int, ok bool) {
	pads, axes := r.Call.Attrs.Ints("pads"), []int64(nil)
	if r.Call.Version >= 11 {
		var known [2]bool
		pads, known[0] = r.ints(1)
		axes, known[1] = r.ints(3)
		if !known[0] || !known[1] {
			return nil, nil, false
		}
	}
	before, after = make([]int, rank), make([]int, rank)
	half := len(pads) / 2
	for i := range half {
		a := intAt(axes, i, i)
		if a < 0 {
			a += rank
		}
		if a < 0 || a >= rank {
			return nil, nil, false
		}
		before[a], after[a] = int(pads[i]), int(pads[half+i])
	}
	return before, after, true
}

// padFill returns the tensor of one element that constant mode fills with, nil when that is input
// 2.
//
//go:noinline
func (r *request) padFill(d tensor.DType) (*tensor.Tensor, bool) {
	if r.Call.Version < 11 {
		v := r.Call.Attrs.Float("value", 0)
		if d == tensor.Float32 {
			return tensor.Scalar(v), true
		}
		if v != 0 {
			return nil, false
		}
	} else if _, _, ok := r.in(2); ok {
		return nil, true
	}
	zero, err := tensor.New(d)
	return zero, err == nil
}

// stretches cuts a padded axis of n elements, negative pads taking away; nil when padding wraps
// around more than once.
func stretches(mode string, n, before, after int) []stretch {
	lo, hi := max(0, -before), n-max(0, -after) // what is kept
	b, a := max(0, before), max(0, after)
	kept := hi - lo
	if kept <= 0 {
		return nil
	}
	s := []stretch{{to: b, from: lo, step: 1, n: kept}}
	var left, right stretch
	switch mode {
	case "constant":
		left, right = stretch{fill: true}, stretch{fill: true}
	case "edge":
		left, right = stretch{from: lo}, stretch{from: hi - 1}
	case "reflect":
		if max(a, b) >= kept {
			return nil
		}
		left, right = stretch{from: lo + b, step: -1}, stretch{from: hi - 2, step: -1}
	case "wrap":
		if max(a, b) > kept {
			return nil
		}
		left, right = stretch{from: hi - b, step: 1}, stretch{from: lo, step: 1}
	default:
		return nil
	}
	if left.n = b; b > 0 {
		s = append(s, left)
	}
	if right.to, right.n = b+kept, a; a > 0 {
		s = append(s, right)
	}
	return s
}

// placed makes a move of every combination of one stretch an axis; input 1 stands for the element
// that fills.
func placed(axes [][]stretch, in, out []int) []move {
	moves := []move{
		{
			shape: slices.Clone(out),
			from:  strided.Steps{Strides: make([]int, len(in))},
			to:    strided.RowMajor(out),
		},
	}
	strides := strided.RowMajor(in).Strides
	for i, axis := range axes {
		var next []move
		for _, m := range moves {
			for _, s := range axis {
				p := m
				p.shape, p.from.Strides = slices.Clone(m.shape), slices.Clone(m.from.Strides)
				p.shape[i] = s.n
				p.to.Offset += s.to * m.to.Strides[i]
				p.from.Offset += s.from * strides[i]
				p.from.Strides[i] = s.step * strides[i]
				if s.fill {
					p.in = 1
				}
				next = append(next, p)
			}
		}
		moves = next
	}
	for i := range moves {
		if moves[i].in == 1 {
			moves[i].from = strided.Steps{Strides: make([]int, len(in))}
		}
	}
	return moves
}
