package op

import "slices"

// unrolled writes one direction of a recurrent layer as the calls of each of its steps, so that it
// is differentiated by back-propagation through time (Werbos 1990). The number of steps must be
// known.
type unrolled struct {
	*Expander
	cell
	act           []recurrentFunction
	r, bias, peep Var // of this direction: Rᵀ, Rb as a row, and the peepholes as rows
	hidden        int64
	clip          float64
}

// parts writes all directions: see [Op.Parts].
func (k *cell) parts(x *Expander) {
	reverse, err := x.directions()
	x.Err = firstError(x.Err, err)
	act, err := k.activations(x.Call, len(reverse))
	x.Err = firstError(x.Err, err)
	v := x.wide(x.Input(RNNX))
	first := x.Attrs.Int("layout", 0) == 1
	if first && x.Err == nil {
		v = x.Transpose(v, 1, 0, 2)
	}
	steps, ok := x.Known(v, 0)
	hidden, ok2 := x.Known(x.Input(RNNR), 2)
	if !ok || !ok2 {
		x.Later()
	}
	if steps == 0 {
		x.Fail(ErrNoGradient, "X has no steps")
	}
	if x.Err != nil {
		return
	}
	var outs [3][]Var
	for d, back := range reverse {
		u := &unrolled{Expander: x, cell: *k, hidden: int64(hidden), clip: x.attr("clip", 0),
			act: act[d*len(k.functions):][:len(k.functions)]}
		y, h, c := u.run(v, int64(d), steps, back, first)
		for i, of := range []Var{x.stacked(0, y), h, c} {
			outs[i] = append(outs[i], of)
		}
	}
	x.giveSequence(outs, first)
}

// giveSequence stacks the directions of all outputs.
func (x *Expander) giveSequence(outs [3][]Var, batchFirst bool) {
	for i, of := range outs[:min(x.NumOut, 3)] {
		axis := int64(0)
		if i == 0 {
			axis = 1
		}
		all := x.stacked(axis, of)
		switch {
		case batchFirst && i == 0:
			all = x.Transpose(all, 2, 0, 1, 3)
		case batchFirst:
			all = x.Transpose(all, 1, 0, 2)
		}
		x.Give(i, x.Cast(all, x.DType(x.Input(RNNX))))
	}
}

// run writes direction d over the steps of v, step × batch × size: the state after each step, zero
// where a sequence has ended, and the last states.
func (u *unrolled) run(v Var, d int64, steps int, back, batchFirst bool) (y []Var, h, c Var) {
	of := func(i int) Var { return u.pick(u.wide(u.Input(i)), 0, d) }
	rows := int64(u.gates) * u.hidden
	u.r, u.bias, u.peep = u.flipped(of(RNNR)), Absent, Absent
	products := u.Op("MatMul", nil, v, u.flipped(of(RNNW)))
	if u.Input(RNNB) != Absent {
		b := of(RNNB)
		products = u.Add(products, u.cut(b, 0, 0, rows, 1))
		u.bias = u.cut(b, 0, rows, 2*rows, 1)
	}
	if u.Input(RNNPeepholes) != Absent {
		u.peep = of(RNNPeepholes)
	}
	h, c = u.initial(RNNInitialH, v, d, batchFirst), Absent
	if len(u.functions) == 3 {
		c = u.initial(RNNInitialC, v, d, batchFirst)
	}
	for i := range steps {
		t := i
		if back {
			t = steps - 1 - i
		}
		out := Absent
		out, h, c = u.advance(u.pick(products, 0, int64(t)), h, c, t)
		y = append(y, out)
	}
	if back {
		slices.Reverse(y)
	}
	return y, h, c
}

// initial is direction d of initial state i for the sequence v; zeros when it is absent.
func (u *unrolled) initial(i int, v Var, d int64, batchFirst bool) Var {
	if u.Input(i) == Absent {
		size := u.Op("Concat", axisAttr(0), u.Dim(v, 1), u.Ints(u.hidden))
		return u.filled(size, v, 0)
	}
	axis := int64(0)
	if batchFirst {
		axis = 1
	}
	return u.pick(u.wide(u.Input(i)), axis, d)
}

// advance is step t: what it adds to Y, and the states after it, which stay as they were where the
// sequence has ended before.
func (u *unrolled) advance(pre, h, c Var, t int) (y, newH, newC Var) {
	newH, newC = u.written(u, pre, h, c)
	if u.Input(RNNLens) == Absent {
		return newH, newH, newC
	}
	lens := u.Unsqueeze(u.Input(RNNLens), 1)
	goes := u.Op("Greater", nil, lens, u.Cast(u.Ints(int64(t)), u.DType(lens)))
	y = u.masked(goes, newH)
	if c != Absent {
		newC = u.where(goes, newC, c)
	}
	return y, u.where(goes, newH, h), newC
}

// recurrent is h·Rᵀ + Rb for the gates from one up to, not with, another.
func (u *unrolled) recurrent(h Var, from, to int64) Var {
	n := u.hidden
	v := u.Op("MatMul", nil, h, u.cut(u.r, 1, from*n, to*n, 1))
	if u.bias == Absent {
		return v
	}
	return u.Add(v, u.cut(u.bias, 0, from*n, to*n, 1))
}

// gate is one of the gates that lie side by side in v.
func (u *unrolled) gate(v Var, i int64) Var {
	return u.cut(v, 1, i*u.hidden, (i+1)*u.hidden, 1)
}

// f applies activation k to a clipped value.
func (u *unrolled) f(k int, v Var) Var {
	if u.clip > 0 {
		v = u.Op("Clip", nil, v, u.Scalar(v, -u.clip), u.Scalar(v, u.clip))
	}
	return u.plain(k, v)
}

func (u *unrolled) plain(k int, v Var) Var {
	f := u.act[k]
	return f.written(u.Expander, v, f.alpha, f.beta)
}

// stepRNN is [layer.stepRNN].
func (u *unrolled) stepRNN(pre, h, _ Var) (newH, newC Var) {
	return u.f(0, u.Add(pre, u.recurrent(h, 0, 1))), Absent
}

// stepGRU is [layer.stepGRU].
func (u *unrolled) stepGRU(pre, h, _ Var) (newH, newC Var) {
	zr := u.recurrent(h, 0, 2)
	z := u.f(0, u.Add(u.gate(pre, 0), u.gate(zr, 0)))
	r := u.f(0, u.Add(u.gate(pre, 1), u.gate(zr, 1)))
	rec := Absent
	if u.Attrs.Bool("linear_before_reset", false) {
		rec = u.mul(r, u.recurrent(h, 2, 3))
	} else {
		rec = u.recurrent(u.mul(r, h), 2, 3)
	}
	n := u.f(1, u.Add(u.gate(pre, 2), rec))
	return u.Add(u.mul(u.from(1, z), n), u.mul(z, h)), Absent
}

// stepLSTM is [layer.stepLSTM].
func (u *unrolled) stepLSTM(pre, h, c Var) (newH, newC Var) {
	all := u.Add(pre, u.recurrent(h, 0, 4))
	gate := func(i, peep int64, state Var) Var {
		v := u.gate(all, i)
		if u.peep == Absent {
			return v
		}
		return u.Add(v, u.mul(u.cut(u.peep, 0, peep*u.hidden, (peep+1)*u.hidden, 1), state))
	}
	i := u.f(0, gate(0, 0, c))
	f := u.from(1, i)
	if !u.Attrs.Bool("input_forget", false) {
		f = u.f(0, gate(2, 2, c))
	}
	newC = u.Add(u.mul(f, c), u.mul(i, u.f(1, u.gate(all, 3))))
	o := u.f(0, gate(1, 1, newC))
	return u.mul(o, u.plain(2, newC)), newC
}
