package op

import "slices"

// RecurrentGradient is the operator that gives the gradients of the operands of LSTM or, with
// linear_before_reset, GRU, by its result Y and the gradients of its results:
//
//	dX, dW, dR, dB, dinitial_h, dinitial_c =
//		weir:RecurrentGradient(X, W, R, B, initial_h, initial_c, Y, dY, dY_h, dY_c)
//
// Attribute cell is LSTM or GRU, which has no initial_c, dY_c and dinitial_c; direction is that of
// the layer. Activations are the default ones, and there are neither peepholes, lengths nor
// clipping. B, initial states and gradients of results may be absent, which stands for zeros. It is
// back-propagation through time (Werbos 1990): the states are in Y, and gates and cells are
// computed again.
const RecurrentGradient = "RecurrentGradient"

// Operands of [RecurrentGradient], in order.
const (
	BackX = iota
	BackW
	BackR
	BackB
	BackInitialH
	BackInitialC
	BackY
	BackDY
	BackDYH
	BackDYC
)

func init() { Register(Extension{Rows: recurrentGradientOps}) }

func recurrentGradientOps() []Op {
	return []Op{{Domain: FusedDomain, Name: RecurrentGradient, Since: []int{1}, MinIn: 3,
		MaxIn: 10, MinOut: 1, MaxOut: 6, Infer: inferRecurrentGradient,
		Eval: InFloat32(func(c *Eval) error {
			return c.evalExpanded(partsOfRecurrentGradient)
		}),
		Flops: recurrentGradientFlops, parts: partsOfRecurrentGradient}}
}

// BackCell is the cell of a call of [RecurrentGradient]: how many gates it has.
func BackCell(c *Call) (gates int, err error) {
	switch cell := c.Attrs.String("cell", ""); {
	case cell == "LSTM":
		return 4, nil
	case cell != "GRU":
		return 0, c.Errorf(ErrAttr, "cell is %q, must be LSTM or GRU", cell)
	case c.NumOut > 5:
		return 0, c.Errorf(ErrInput, "has %d outputs, those of a GRU are 5", c.NumOut)
	}
	return 3, nil
}

func inferRecurrentGradient(c *Infer) error {
	gates, err := BackCell(c.Call)
	if err != nil {
		return err
	}
	dirs, err := c.directions()
	if err != nil {
		return err
	}
	for i := range c.In {
		if i != BackX && c.Has(i) {
			if _, err := c.SameDType(floatTypes, c.In[BackX].DType, c.In[i].DType); err != nil {
				return err
			}
		}
	}
	if !c.Has(BackY) {
		return c.Errorf(ErrInput, "input %d, Y, is required", BackY)
	}
	want := c.backShapes(gates, len(dirs))
	for i, t := range c.In {
		if c.Has(i) && t.Ranked && !slices.EqualFunc(t.Shape, want[i], Dim.MayEqual) {
			return c.Errorf(ErrInput, "input %d is %v, must have shape %v", i, t, want[i])
		}
	}
	for i := range c.Out {
		c.Out[i] = Ranked(c.In[BackX].DType, want[i]...)
	}
	return nil
}

// backShapes are the shapes of all operands, as far as those of X and R say. Results have those of
// the first ones.
func (c *Infer) backShapes(gates, dirs int) [][]Dim {
	x, r := unknownDims(3), unknownDims(3)
	for i, to := range map[int]*[]Dim{BackX: &x, BackR: &r} {
		if t := c.In[i]; t.Ranked && len(t.Shape) == 3 {
			*to = t.Shape
		}
	}
	n, hidden := Known(dirs), r[2]
	rows := hidden.MulInt(gates)
	states, y := []Dim{n, x[1], hidden}, []Dim{x[0], n, x[1], hidden}
	return [][]Dim{x, {n, rows, x[2]}, {n, rows, hidden}, {n, rows.MulInt(2)}, states, states, y,
		y, states, states}
}

// recurrentGradientFlops: three products of each matrix, one of which computes the gates again.
func recurrentGradientFlops(_ *Call, in, _ []Type) int64 {
	if len(in[BackX].Shape) != 3 {
		return 0
	}
	steps := Ranked(in[BackX].DType, in[BackX].Shape[:2]...).Elements()
	return 6 * steps * (in[BackW].Elements() + in[BackR].Elements())
}

// backThrough writes one direction of a [RecurrentGradient].
type backThrough struct {
	*Expander
	d                  int64
	w, r, wBias, rBias Var
	hidden             int64
	steps              []backStep // by the place in X
}

// backStep is a step of a layer: what comes in, what its gates are, and the gradients of what they
// are the activations of. Those by way of W and of R differ for GRU.
type backStep struct {
	x, h, c, next Var // X, and the states before; the cell after, or GRU's R·h of its last gate
	gates         []Var
	byW, byR      Var
}

// partsOfRecurrentGradient is the definition.
func partsOfRecurrentGradient(x *Expander) {
	reverse, err := x.directions()
	_, err2 := BackCell(x.Call)
	x.Err = firstError(x.Err, err, err2)
	steps, ok := x.Known(x.Input(BackX), 0)
	hidden, ok2 := x.Known(x.Input(BackR), 2)
	if !ok || !ok2 {
		x.Later()
	}
	if x.Err != nil {
		return
	}
	if steps == 0 {
		noStepsBack(x)
		return
	}
	var outs [6][]Var
	for d, back := range reverse {
		b := &backThrough{Expander: x, d: int64(d), hidden: int64(hidden),
			steps: make([]backStep, steps)}
		for i, v := range b.run(back) {
			outs[i] = append(outs[i], v)
		}
	}
	x.Give(0, x.Add(outs[0][0], append(outs[0], Absent)[1]))
	for i := 1; i < x.NumOut; i++ {
		x.Give(i, x.stacked(0, outs[i]))
	}
}

// noStepsBack is a [RecurrentGradient] of no steps: the states that it ends with are those that it
// begins with, and nothing else has any part in them.
func noStepsBack(x *Expander) {
	zeros := func(i int) Var { return x.full(x.Input(i), x.Input(BackX), 0) }
	w, states := zeros(BackW), x.sumOver(x.Input(BackY), false, 0)
	bias := x.sumOver(w, false, 2)
	for i, v := range []Var{zeros(BackX), w, zeros(BackR), x.Op("Concat", axisAttr(1), bias, bias),
		x.Add(states, x.Input(BackDYH)), x.Add(states, x.Input(BackDYC))}[:x.NumOut] {
		x.Give(i, v)
	}
}

// of is direction d of an operand, of whose axes the first is that of directions.
func (b *backThrough) of(i int) Var {
	if b.Input(i) == Absent {
		return Absent
	}
	return b.pick(b.Input(i), 0, b.d)
}

// state is direction d of a state, zeros when it is absent.
func (b *backThrough) state(i int) Var {
	if b.Input(i) != Absent {
		return b.of(i)
	}
	return b.full(b.at(BackY, 0), b.Input(BackX), 0)
}

// at is place t of a sequence with directions.
func (b *backThrough) at(i, t int) Var {
	if b.Input(i) == Absent {
		return Absent
	}
	return b.pick(b.pick(b.Input(i), 0, int64(t)), 0, b.d)
}

// run writes the gradients of all operands.
func (b *backThrough) run(back bool) [6]Var {
	b.w, b.r, b.wBias, b.rBias = b.of(BackW), b.of(BackR), Absent, Absent
	if bias := b.of(BackB); bias != Absent {
		half, _ := b.Known(b.r, 0)
		b.wBias, b.rBias = b.cut(bias, 0, 0, int64(half), 1), b.cut(bias, 0, int64(half),
			2*int64(half), 1)
	}
	order := make([]int, len(b.steps))
	for i := range order {
		order[i] = i
	}
	if back {
		slices.Reverse(order)
	}
	h, c := b.state(BackInitialH), b.state(BackInitialC)
	for _, t := range order {
		c = b.forward(t, h, c)
		h = b.at(BackY, t)
	}
	slices.Reverse(order)
	h, c = b.state(BackDYH), b.state(BackDYC)
	for _, t := range order {
		h, c = b.backward(&b.steps[t], b.Add(h, b.at(BackDY, t)), c)
	}
	return b.sums(h, c)
}

// product is v·mᵀ and a bias.
func (b *backThrough) product(v, m, bias Var) Var {
	return b.Add(b.Op("MatMul", nil, v, b.flipped(m)), bias)
}

// forward computes the gates of place t again, and returns the cell after it.
func (b *backThrough) forward(t int, h, c Var) Var {
	s := &b.steps[t]
	s.x, s.h, s.c = b.pick(b.Input(BackX), 0, int64(t)), h, c
	pre, rec := b.product(s.x, b.w, b.wBias), b.product(h, b.r, b.rBias)
	gate := func(v Var, i int64) Var { return b.cut(v, 1, i*b.hidden, (i+1)*b.hidden, 1) }
	f := func(name string, v Var) { s.gates = append(s.gates, b.Op(name, nil, v)) }
	if gates, _ := BackCell(b.Call); gates == 3 {
		both := b.Add(pre, rec)
		f("Sigmoid", gate(both, 0))
		f("Sigmoid", gate(both, 1))
		s.next = gate(rec, 2)
		f("Tanh", b.Add(gate(pre, 2), b.mul(s.gates[1], s.next)))
		return c
	}
	all := b.Add(pre, rec)
	for i, name := range []string{"Sigmoid", "Sigmoid", "Sigmoid", "Tanh"} {
		f(name, gate(all, int64(i)))
	}
	s.next = b.Add(b.mul(s.gates[2], c), b.mul(s.gates[0], s.gates[3]))
	return s.next
}

// sigmoidSlope and tanhSlope are the slopes where the result is y.
func (x *Expander) sigmoidSlope(y Var) Var { return x.mul(y, x.from(1, y)) }
func (x *Expander) tanhSlope(y Var) Var    { return x.from(1, x.square(y)) }

// backward is a step back: of the gradients of the states after it, those of the states before.
func (b *backThrough) backward(s *backStep, dh, dc Var) (h, c Var) {
	if len(s.gates) == 3 {
		z, r, n := s.gates[0], s.gates[1], s.gates[2]
		dn := b.mul(b.mul(dh, b.from(1, z)), b.tanhSlope(n))
		dz := b.mul(b.mul(dh, b.sub(s.h, n)), b.sigmoidSlope(z))
		dr := b.mul(b.mul(dn, s.next), b.sigmoidSlope(r))
		s.byW = b.Op("Concat", axisAttr(1), dz, dr, dn)
		s.byR = b.Op("Concat", axisAttr(1), dz, dr, b.mul(dn, r))
		return b.Add(b.mul(dh, z), b.Op("MatMul", nil, s.byR, b.r)), dc
	}
	i, o, f, u := s.gates[0], s.gates[1], s.gates[2], s.gates[3]
	t := b.Op("Tanh", nil, s.next)
	dc = b.Add(dc, b.mul(b.mul(dh, o), b.tanhSlope(t)))
	s.byW = b.Op("Concat", axisAttr(1), b.mul(b.mul(dc, u), b.sigmoidSlope(i)),
		b.mul(b.mul(dh, t), b.sigmoidSlope(o)), b.mul(b.mul(dc, s.c), b.sigmoidSlope(f)),
		b.mul(b.mul(dc, i), b.tanhSlope(u)))
	s.byR = s.byW
	return b.Op("MatMul", nil, s.byR, b.r), b.mul(dc, f)
}

// sums writes the gradients of the operands by those of all steps, and of the initial states.
func (b *backThrough) sums(h, c Var) [6]Var {
	var dx, x, hs, byW, byR []Var
	for i := range b.steps {
		s := &b.steps[i]
		dx = append(dx, b.Op("MatMul", nil, s.byW, b.w))
		x, hs = append(x, s.x), append(hs, s.h)
		byW, byR = append(byW, s.byW), append(byR, s.byR)
	}
	w, r := b.joined(byW), b.joined(byR)
	return [6]Var{b.stacked(0, dx), b.product(b.flipped(w), b.flipped(b.joined(x)), Absent),
		b.product(b.flipped(r), b.flipped(b.joined(hs)), Absent),
		b.joined([]Var{b.sumOver(w, false, 0), b.sumOver(r, false, 0)}), h, c}
}

// joined has the rows of all values.
func (b *backThrough) joined(of []Var) Var { return b.Op("Concat", axisAttr(0), of...) }

// gradRecurrent is [RecurrentGradient] for layers of its kind. Others are differentiated step by
// step: see [cell.parts].
func (k *cell) gradRecurrent(x *gradient) {
	if !k.backAtOnce(x) {
		x.byParts()
		return
	}
	in := make([]Var, BackDYC+1)
	for i, of := range []int{RNNX, RNNW, RNNR, RNNB, RNNInitialH, RNNInitialC} {
		in[i] = x.Input(of)
	}
	in[BackY] = x.out(0)
	for i := range 3 {
		if in[BackDY+i] = Absent; i < len(x.b.Given) && x.b.Given[i] {
			in[BackDY+i] = x.d(i)
		}
	}
	attrs, outs := Attrs{StringAttr("cell", x.Type)}, 5
	if x.Attrs.Has("direction") {
		attrs = append(attrs, StringAttr("direction", x.Attrs.String("direction", "")))
	}
	if k.gates == 4 {
		outs = 6
	}
	ds := x.Ops(FusedDomain, RecurrentGradient, 1, outs, attrs, in...)
	for i, of := range []int{RNNX, RNNW, RNNR, RNNB, RNNInitialH, RNNInitialC}[:outs] {
		if x.needs(of) {
			x.set(of, ds[i])
		}
	}
}

// backAtOnce reports whether a call is of the kind that [RecurrentGradient] takes.
func (k *cell) backAtOnce(x *gradient) bool {
	a := x.Attrs
	names := a.Strings("activations")
	dirs, err := x.directions()
	if err != nil || !wideFloats.Has(x.TypeOf(x.Input(RNNX)).DType) || a.Has("clip") ||
		a.Int("layout", 0) != 0 || a.Bool("input_forget", false) ||
		k.gates == 3 && !a.Bool("linear_before_reset", false) ||
		names != nil && !slices.Equal(names, slices.Repeat(k.functions, len(dirs))) {
		return false
	}
	return x.Input(RNNLens) == Absent && x.Input(RNNPeepholes) == Absent
}
