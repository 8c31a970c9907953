package op

import (
	"math"

	"github.com/weirgpu/weir/tensor"
)

// attended writes one call of Attention. Queries are batch × heads × length × size; keys and values
// batch × their heads × total × size, the cache included.
type attended struct {
	*Expander
	q, k, v Var
	flat    bool // Q has rank 3, and so has Y
	heads   int64
	shared  int64 // queries' heads for each of the keys'
	mode    int64 // what output 3 is
}

func partsOfAttention(x *Expander) {
	a := &attended{Expander: x, flat: x.Rank(x.Input(AttentionQ)) == 3,
		mode: x.Attrs.Int("qk_matmul_output_mode", 0)}
	a.q = x.headed(AttentionQ, "q_num_heads")
	a.k = a.cached(AttentionK, AttentionPastK)
	a.v = a.cached(AttentionV, AttentionPastV)
	heads, ok := x.Known(a.q, 1)
	keyHeads, ok2 := x.Known(a.k, 1)
	size, ok3 := x.Known(a.k, 3)
	if !ok || !ok2 || !ok3 || heads == 0 || keyHeads == 0 || size == 0 {
		x.Later()
	}
	if x.Err != nil {
		return
	}
	a.heads, a.shared = int64(heads), int64(heads/keyHeads)
	scale := x.attr("scale", 0)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(size))
	}
	s := a.product(x.Scale(a.q, scale), x.flipped(a.k))
	weights := a.weights(s)
	a.give(a.product(weights, a.v))
	for i, v := range []Var{a.k, a.v} {
		if x.Wants(i + 1) {
			x.Give(i+1, x.Cast(v, x.DType(x.Input(AttentionK+i))))
		}
	}
}

// headed is an operand as batch × heads × length × size.
func (x *Expander) headed(i int, count string) Var {
	v := x.wide(x.Input(i))
	if x.Rank(v) != 3 {
		return v
	}
	return x.Transpose(x.Reshape(v, 0, 0, x.Attrs.Int(count, 0), -1), 0, 2, 1, 3)
}

// unheaded is headed taken back.
func (x *Expander) unheaded(v Var) Var {
	return x.Reshape(x.Transpose(v, 0, 2, 1, 3), 0, 0, -1)
}

// cached is an operand behind what its cache holds.
func (a *attended) cached(i, past int) Var {
	v := a.headed(i, "kv_num_heads")
	if a.Input(past) == Absent {
		return v
	}
	return a.Op("Concat", axisAttr(2), a.wide(a.Input(past)), v)
}

// product multiplies each head of left with that of right, which several heads share.
func (a *attended) product(left, right Var) Var {
	right = a.Cast(right, a.DType(left))
	if a.shared == 1 {
		return a.Op("MatMul", nil, left, right)
	}
	rows, columns := a.Dim(left, 2), a.Dim(right, 3)
	left = a.resized(left, a.Ints(0, a.heads/a.shared, a.shared), rows, a.Dim(left, 3))
	y := a.Op("MatMul", nil, left, a.Unsqueeze(right, 2))
	return a.resized(y, a.Ints(0, a.heads), rows, columns)
}

// give is output 0.
func (a *attended) give(y Var) {
	if a.flat {
		y = a.unheaded(y)
	}
	a.Give(0, a.Cast(y, a.DType(a.Input(AttentionQ))))
}

// keep gives the scores as output 3 when it is asked for in this mode.
func (a *attended) keep(mode int64, s Var) {
	if a.Wants(3) && a.mode == mode {
		a.Give(3, a.Cast(s, a.DType(a.Input(AttentionQ))))
	}
}

// weights is [attending.weigh] of all scores.
func (a *attended) weights(s Var) Var {
	a.keep(0, s)
	if limit := a.attr("softcap", 0); limit > 0 {
		s = a.Scale(a.Op("Tanh", nil, a.Scale(s, 1/limit)), limit)
	}
	a.keep(1, s)
	mask := a.mask(s)
	if mask == Absent {
		a.keep(2, s)
		w := a.Op("Softmax", axisAttr(-1), s)
		a.keep(3, w)
		return w
	}
	s = a.Add(s, mask)
	a.keep(2, s)
	lowest := a.Scalar(s, math.Inf(-1))
	open := a.Cast(a.Op("Greater", nil, mask, lowest), a.DType(s))
	// rows of which everything is masked are zero
	none := a.below(a.sumOver(open, true, int64(a.Rank(open))-1), 0.5)
	w := a.Op("Softmax", axisAttr(-1), a.where(none, a.Scalar(s, 0), s))
	w = a.where(none, a.Scalar(w, 0), w)
	a.keep(3, w)
	return w
}

// mask is what is added to the scores, Absent without any: see [attending.biasAt].
func (a *attended) mask(s Var) Var {
	mask, hidden := a.given(s), a.hidden()
	if hidden == Absent {
		return mask
	}
	lowest := a.Scalar(s, math.Inf(-1))
	if mask == Absent {
		return a.where(hidden, lowest, a.Scalar(s, 0))
	}
	return a.where(hidden, lowest, mask)
}

// given is operand attn_mask; its last axis may be shorter than the keys, the rest of which is
// masked.
func (a *attended) given(s Var) Var {
	mask := a.Input(AttentionMask)
	if mask == Absent {
		return Absent
	}
	lowest := a.Scalar(s, math.Inf(-1))
	if a.DType(mask) == tensor.Bool {
		mask = a.where(mask, a.Scalar(s, 0), lowest)
	} else {
		mask = a.Cast(mask, a.DType(s))
	}
	last := int64(a.Rank(mask)) - 1
	have, total := a.Shape(mask), a.Shape(a.k)
	if a.Err != nil || last < 0 || have[last].Equal(total[2]) {
		return mask
	}
	missing := a.sub(a.Dim(a.k, 2), a.Dim(mask, last))
	pads := a.Op("Concat", axisAttr(0), a.Ints(make([]int64, 2*last+1)...), missing)
	return a.Ops("", "Pad", max(a.Opset, 13), 1, nil, mask, pads, lowest)[0]
}

// hidden are the keys that a query may not see: padding, those beyond the window and, when causal,
// those that come later. Absent when there are none.
func (a *attended) hidden() Var {
	lens := a.Input(AttentionLens)
	causal := a.Attrs.Bool("is_causal", false)
	left, right := windowSize(a.Call, "left_window_size"), windowSize(a.Call, "right_window_size")
	if lens == Absent && !causal && left < 0 && right < 0 {
		return Absent
	}
	length, total := a.Dim(a.q, 2), a.Dim(a.k, 2)
	at, query := a.Count(total), a.Unsqueeze(a.Count(length), 1)
	all := Absent
	hide := func(v Var) {
		if all != Absent {
			v = a.Op("Or", nil, all, v)
		}
		all = v
	}
	if lens != Absent {
		lens = a.Unsqueeze(lens, 1, 2, 3)
		hide(a.Op("GreaterOrEqual", nil, at, lens))
	}
	last := a.keyOf(query, length, lens)
	offset := func(n int) Var { return a.Add(last, a.Constant(tensor.Scalar(int64(n)))) }
	if causal {
		hide(a.Op("Greater", nil, at, last))
	}
	if left >= 0 {
		hide(a.Op("Less", nil, at, offset(-left)))
	}
	if right >= 0 {
		hide(a.Op("Greater", nil, at, offset(right)))
	}
	return all
}

// keyOf is the key that lies where the query does: behind the cache, or so that the last of length
// queries lies at the last of lens keys, where those are given.
func (a *attended) keyOf(query, length, lens Var) Var {
	switch past := a.Input(AttentionPastK); {
	case lens != Absent:
		return a.Add(query, a.sub(lens, length))
	case past != Absent:
		return a.Add(query, a.Dim(past, 2))
	}
	return query
}

// partsOfRotary is [evalRotary].
func partsOfRotary(x *Expander) {
	v := x.headed(0, "num_heads")
	size, ok := x.Known(v, 3)
	if !ok {
		x.Later()
		return
	}
	rotated, err := x.rotaryDim(size)
	x.Err = firstError(x.Err, err)
	angles := func(i int) Var {
		c := x.wide(x.Input(i))
		if ids := x.Input(3); ids != Absent {
			c = x.Op("Gather", nil, c, ids)
		}
		return x.Unsqueeze(x.Cast(c, x.DType(v)), 1) // batch × 1 × length × pairs
	}
	cos, sin := angles(1), angles(2)
	n := int64(rotated)
	y := x.rotated(v, n, cos, sin)
	if rotated < size {
		y = x.Op("Concat", axisAttr(3), y, x.cut(v, 3, n, int64(size), 1))
	}
	if x.Rank(x.Input(0)) == 3 {
		y = x.unheaded(y)
	}
	x.Give(0, x.Cast(y, x.DType(x.Input(0))))
}

// rotated turns the first n elements of the last axis of v, of rank 4, in pairs by the angles: each
// element with the next one where attribute interleaved is set, else with the one half of n behind.
func (x *Expander) rotated(v Var, n int64, cos, sin Var) Var {
	first, second := [3]int64{0, n / 2, 1}, [3]int64{n / 2, n, 1}
	interleaved := x.Attrs.Bool("interleaved", false)
	if interleaved {
		first, second = [3]int64{0, n, 2}, [3]int64{1, n, 2}
	}
	a := x.cut(v, 3, first[0], first[1], first[2])
	b := x.cut(v, 3, second[0], second[1], second[2])
	turned := []Var{x.sub(x.mul(cos, a), x.mul(sin, b)), x.Add(x.mul(sin, a), x.mul(cos, b))}
	if interleaved {
		return x.Reshape(x.stacked(4, turned), 0, 0, 0, -1)
	}
	return x.Op("Concat", axisAttr(3), turned...)
}
