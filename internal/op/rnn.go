package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// rnn holds the recurrent layers. They compute in float64 and round once.
var rnn = []Op{
	recurrentOp("RNN", cell{gates: 1, functions: []string{"Tanh"}, step: (*layer).stepRNN,
		written: (*unrolled).stepRNN}, 6, 2),
	recurrentOp("GRU", cell{gates: 3, functions: []string{"Sigmoid", "Tanh"},
		step: (*layer).stepGRU, written: (*unrolled).stepGRU}, 6, 2),
	recurrentOp("LSTM", cell{gates: 4, functions: []string{"Sigmoid", "Tanh", "Tanh"},
		step: (*layer).stepLSTM, written: (*unrolled).stepLSTM}, 8, 3),
}

// Inputs of RNN, GRU and LSTM (ONNX 14), in order. The last two are LSTM's.
const (
	RNNX = iota
	RNNW
	RNNR
	RNNB
	RNNLens
	RNNInitialH
	RNNInitialC
	RNNPeepholes
)

// cell is what tells the recurrent operators apart.
type cell struct {
	gates     int
	functions []string // default activations of one direction
	// step advances the state h (and c) of one batch entry by one input, in direction d.
	step func(l *layer, d int, x, h, c []float64)
	// written is step as calls of other operators, for a whole batch.
	written func(u *unrolled, pre, h, c Var) (newH, newC Var)
	// roundState, when set, is applied to a copy of the state before its product with R.
	roundState func(h []float64)
}

// RoundedLSTM returns the rule and the evaluation of LSTM (ONNX 14) whose state goes through round,
// which overwrites it, before each product with R: round is given a copy for one batch entry.
func RoundedLSTM(round func(h []float64)) (infer func(*Infer) error, eval func(*Eval) error) {
	k := cell{gates: 4, functions: []string{"Sigmoid", "Tanh", "Tanh"},
		step: (*layer).stepLSTM, roundState: round}
	return k.infer, k.eval
}

func recurrentOp(name string, k cell, maxIn, maxOut int) Op {
	o := Op{Name: name, Since: []int{7, 14, 22}, MinIn: 3, MaxIn: maxIn, MaxOut: maxOut,
		Infer: func(c *Infer) error { return k.infer(c) },
		Eval:  InFloat32(func(c *Eval) error { return k.eval(c) }),
		parts: func(x *Expander) { k.parts(x) },
		Flops: func(c *Call, in, _ []Type) int64 {
			if len(in) < 3 || len(in[RNNX].Shape) != 3 {
				return 0
			}
			steps := Ranked(tensor.Float32, in[RNNX].Shape[:2]...).Elements()
			return 2 * steps * (in[RNNW].Elements() + in[RNNR].Elements())
		}}
	if k.gates > 1 {
		o.grad = k.gradRecurrent
	}
	return o
}

// directions returns which directions run: false is forward, true reverse.
func (c *Call) directions() ([]bool, error) {
	switch d := c.Attrs.String("direction", "forward"); d {
	case "forward":
		return []bool{false}, nil
	case "reverse":
		return []bool{true}, nil
	case "bidirectional":
		return []bool{false, true}, nil
	default:
		return nil, c.Errorf(ErrAttr, "direction is %q, must be forward, reverse or bidirectional",
			d)
	}
}

// hidden is the size of the state, by R and by attribute hidden_size.
func (c *Infer) hidden() (Dim, error) {
	hidden := Unknown()
	if r := c.In[RNNR]; r.Ranked && len(r.Shape) == 3 {
		hidden = r.Shape[2]
	}
	if !c.Attrs.Has("hidden_size") {
		return hidden, nil
	}
	h := c.Attrs.Int("hidden_size", 0)
	if h <= 0 || !hidden.MayEqual(Known(int(h))) {
		return hidden, c.Errorf(ErrAttr, "hidden_size is %d, R is %v", h, c.In[RNNR])
	}
	return Known(int(h)), nil
}

// sequence is the number of steps and of batch entries of X, whose batch may come first.
func (c *Infer) sequence(batchFirst bool) (seq, batch Dim, err error) {
	x := c.In[RNNX]
	switch {
	case !x.Ranked:
		return Unknown(), Unknown(), nil
	case len(x.Shape) != 3:
		return seq, batch, c.Errorf(ErrInput, "X is %v, must have rank 3", x)
	case batchFirst:
		return x.Shape[1], x.Shape[0], nil
	}
	return x.Shape[0], x.Shape[1], nil
}

// infer shapes Y, Y_h and Y_c for both layouts: 0 is Y [seq, dirs, batch, hidden] and states [dirs,
// batch, hidden], 1 puts the batch first.
func (k *cell) infer(c *Infer) error {
	d, err := c.SameDType(floatTypes, c.rnnTypes()...)
	if err != nil {
		return err
	}
	dirs, err := c.directions()
	if err != nil {
		return err
	}
	hidden, err := c.hidden()
	if err != nil {
		return err
	}
	first := c.Attrs.Int("layout", 0) == 1
	seq, batch, err := c.sequence(first)
	if err != nil {
		return err
	}
	n := Known(len(dirs))
	if err := k.operands(c, n, batch, hidden, first); err != nil {
		return err
	}
	y, state := Ranked(d, seq, n, batch, hidden), Ranked(d, n, batch, hidden)
	if first {
		y, state = Ranked(d, batch, seq, n, hidden), Ranked(d, batch, n, hidden)
	}
	for i := range c.Out {
		if c.Out[i] = state; i == 0 {
			c.Out[i] = y
		}
	}
	return nil
}

// rnnTypes are the element types of what must be of one: all operands but the lengths.
func (c *Infer) rnnTypes() []tensor.DType {
	var ds []tensor.DType
	for i, t := range c.In {
		if i != RNNLens && c.Has(i) {
			ds = append(ds, t.DType)
		}
	}
	return ds
}

// operands holds every operand to the sizes, as far as they are known.
func (k *cell) operands(c *Infer, dirs, batch, hidden Dim, first bool) error {
	in, rows := Unknown(), hidden.MulInt(k.gates)
	if x := c.In[RNNX]; x.Ranked {
		in = x.Shape[2]
	}
	states := []Dim{dirs, batch, hidden}
	if first {
		states = []Dim{batch, dirs, hidden}
	}
	want := [...][]Dim{RNNW: {dirs, rows, in}, RNNR: {dirs, rows, hidden},
		RNNB: {dirs, rows.MulInt(2)}, RNNLens: {batch}, RNNInitialH: states,
		RNNInitialC: states, RNNPeepholes: {dirs, hidden.MulInt(3)}}
	for i, shape := range want {
		if shape != nil && c.Has(i) && c.In[i].Ranked &&
			!slices.EqualFunc(c.In[i].Shape, shape, Dim.MayEqual) {
			return c.Errorf(ErrInput, "input %d is %v, must have shape %v", i, c.In[i], shape)
		}
	}
	return nil
}

// layer is one checked evaluation. Matrices are row-major with one row an output; B is split into
// its two halves.
type layer struct {
	*Eval
	cell
	seq, batch, in, hidden int
	reverse                []bool
	first                  bool // layout 1: batch before sequence, and before direction
	w, r, b, p             []float64
	act                    []func(float64) float64 // all directions'
	clip                   float64
	gate, rec              []float64 // scratch: gates·hidden
}

func (k *cell) eval(c *Eval) error {
	l := &layer{Eval: c, cell: *k, first: c.Attrs.Int("layout", 0) == 1}
	if err := l.check(); err != nil {
		return err
	}
	if err := l.read(); err != nil {
		return err
	}
	lens, err := l.lengths()
	if err != nil {
		return err
	}
	h, cs, err := l.states()
	if err != nil {
		return err
	}
	x, err := c.Floats(RNNX)
	if err != nil {
		return err
	}
	y, err := zeros(l.seq, len(l.reverse), l.batch, l.hidden)
	if err != nil {
		return err
	}
	for d, reverse := range l.reverse {
		for b := range l.batch {
			l.sequence(d, b, lens[b], reverse, x, y, h[l.stateAt(d, b):][:l.hidden],
				cs[l.stateAt(d, b):][:l.hidden])
		}
	}
	return l.outputs(y, h, cs)
}

// sequence runs one direction over one batch entry.
func (l *layer) sequence(d, b, n int, reverse bool, x, y, h, c []float64) {
	for i := range n {
		t := i
		if reverse {
			t = n - 1 - i
		}
		at := t*l.batch + b
		if l.first {
			at = b*l.seq + t
		}
		l.step(l, d, x[at*l.in:][:l.in], h, c)
		copy(y[l.outAt(t, d, b):][:l.hidden], h)
	}
}

// outAt and stateAt return the offset of a vector in Y, and in Y_h, Y_c and the initial states.
func (l *layer) outAt(t, d, b int) int {
	if l.first {
		return ((b*l.seq+t)*len(l.reverse) + d) * l.hidden
	}
	return ((t*len(l.reverse)+d)*l.batch + b) * l.hidden
}

func (l *layer) stateAt(d, b int) int {
	if l.first {
		return (b*len(l.reverse) + d) * l.hidden
	}
	return (d*l.batch + b) * l.hidden
}

// check fixes the sizes from X and R and holds every operand to them.
func (l *layer) check() (err error) {
	var ds []tensor.DType
	for i, v := range l.In {
		if i != RNNLens && v != nil {
			ds = append(ds, v.DType)
		}
	}
	if _, err := l.SameDType(floatTypes, ds...); err != nil {
		return err
	}
	if l.reverse, err = l.directions(); err != nil {
		return err
	}
	if err := l.sizes(); err != nil {
		return err
	}
	return l.checkShapes()
}

// sizes reads the sizes that the layer computes with from the shapes of X and R.
func (l *layer) sizes() error {
	x, r := l.In[RNNX], l.In[RNNR]
	if x.Rank() != 3 || r.Rank() != 3 {
		return l.Errorf(ErrInput, "X %v and R %v must have rank 3", x.Shape, r.Shape)
	}
	l.seq, l.batch, l.in, l.hidden = x.Shape[0], x.Shape[1], x.Shape[2], r.Shape[2]
	if l.first {
		l.seq, l.batch = l.batch, l.seq
	}
	if l.in == 0 || l.hidden == 0 {
		return l.Errorf(ErrInput, "X %v and R %v must not be empty", x.Shape, r.Shape)
	}
	if h := l.Attrs.Int("hidden_size", int64(l.hidden)); h != int64(l.hidden) {
		return l.Errorf(ErrAttr, "hidden_size is %d, R has shape %v", h, r.Shape)
	}
	return nil
}

// checkShapes holds every operand to the sizes.
func (l *layer) checkShapes() error {
	dirs, rows := len(l.reverse), l.gates*l.hidden
	states := []int{dirs, l.batch, l.hidden}
	if l.first {
		states = []int{l.batch, dirs, l.hidden}
	}
	want := map[int][]int{RNNW: {dirs, rows, l.in}, RNNR: {dirs, rows, l.hidden},
		RNNB:    {dirs, 2 * rows},
		RNNLens: {l.batch}, RNNInitialH: states, RNNInitialC: states,
		RNNPeepholes: {dirs, 3 * l.hidden}}
	for i, shape := range want {
		if l.Has(i) && !slices.Equal(l.In[i].Shape, shape) {
			return l.Errorf(ErrInput, "input %d has shape %v, must have %v", i, l.In[i].Shape,
				shape)
		}
	}
	return nil
}

// read widens the weights and finds the activations.
func (l *layer) read() (err error) {
	for i, v := range map[int]*[]float64{RNNW: &l.w, RNNR: &l.r, RNNB: &l.b, RNNPeepholes: &l.p} {
		if *v, err = l.Floats(i); err != nil {
			return err
		}
	}
	rows := l.gates * l.hidden
	if l.b == nil {
		l.b = make([]float64, len(l.reverse)*2*rows)
	}
	if l.p == nil {
		l.p = make([]float64, len(l.reverse)*3*l.hidden)
	}
	l.gate, l.rec = make([]float64, rows), make([]float64, rows)
	l.clip = l.attr("clip", 0)
	act, err := l.activations(l.Call, len(l.reverse))
	for _, f := range act {
		l.act = append(l.act, f.of(f.alpha, f.beta))
	}
	return err
}

// lengths returns how many inputs each batch entry has.
func (l *layer) lengths() ([]int, error) {
	lens := make([]int, l.batch)
	for i := range lens {
		lens[i] = l.seq
	}
	if !l.Has(RNNLens) {
		return lens, nil
	}
	v, err := l.Ints(RNNLens)
	if err != nil {
		return nil, err
	}
	for i, n := range v {
		if n < 0 || n > int64(l.seq) {
			return nil, l.Errorf(ErrInput, "sequence_lens[%d] is %d, X has %d steps", i, n, l.seq)
		}
		lens[i] = int(n)
	}
	return lens, nil
}

// states are the initial states of all directions and batch entries.
func (l *layer) states() (h, c []float64, err error) {
	if h, err = l.state(RNNInitialH); err == nil {
		c, err = l.state(RNNInitialC)
	}
	return h, c, err
}

// state returns a copy of an initial state, zeros without one.
func (l *layer) state(i int) ([]float64, error) {
	if l.Has(i) {
		return l.Floats(i)
	}
	return zeros(len(l.reverse), l.batch, l.hidden)
}

// zeros makes float64s for a shape that tensor.New accepts.
func zeros(shape ...int) ([]float64, error) {
	t, err := tensor.New(tensor.Float64, shape...)
	if err != nil {
		return nil, err
	}
	return tensor.As[float64](t), nil
}

func (l *layer) outputs(y, h, c []float64) error {
	d, dirs := l.In[RNNX].DType, len(l.reverse)
	shapes := [][]int{{l.seq, dirs, l.batch, l.hidden}, {dirs, l.batch, l.hidden},
		{dirs, l.batch, l.hidden}}
	if l.first {
		shapes = [][]int{{l.batch, l.seq, dirs, l.hidden}, {l.batch, dirs, l.hidden},
			{l.batch, dirs, l.hidden}}
	}
	for i, v := range [][]float64{y, h, c}[:min(3, l.NumOut)] {
		out, err := l.Output(i, d, shapes[i])
		if err != nil {
			return err
		}
		for k, x := range v {
			setFloat(out, k, x)
		}
	}
	return nil
}

// inputs sets gate to x·Wᵀ + Wb for all gates of direction d, and rec to h·Rᵀ + Rb.
func (l *layer) inputs(d int, x, h []float64) {
	rows := l.gates * l.hidden
	copy(l.gate, l.b[d*2*rows:][:rows])
	copy(l.rec, l.b[(d*2+1)*rows:][:rows])
	addMatVec(l.gate, l.w[d*rows*l.in:], x)
	if l.roundState != nil {
		h = slices.Clone(h)
		l.roundState(h)
	}
	addMatVec(l.rec, l.r[d*rows*l.hidden:], h)
}

// addMatVec adds m·v to out; m is row-major with a row an element of out.
func addMatVec(out, m, v []float64) {
	for i := range out {
		row, s := m[i*len(v):][:len(v)], 0.0
		for k, a := range v {
			s += row[k] * a
		}
		out[i] += s
	}
}

// f applies activation k of direction d to a clipped value.
func (l *layer) f(d, k int, x float64) float64 {
	if l.clip > 0 {
		x = math.Max(-l.clip, math.Min(l.clip, x))
	}
	return l.act[d*len(l.functions)+k](x)
}

// stepRNN: h = f(x·Wᵀ + h·Rᵀ + Wb + Rb).
func (l *layer) stepRNN(d int, x, h, _ []float64) {
	l.inputs(d, x, h)
	for i := range h {
		h[i] = l.f(d, 0, l.gate[i]+l.rec[i])
	}
}

// addReset adds to hx the product of the recurrent weights with r ∘ h, the state that the reset
// gate r lets through. rec is scratch.
func (l *layer) addReset(d int, hx, rec, r, h []float64) {
	n := l.hidden
	reset := make([]float64, n)
	for i := range n {
		reset[i] = r[i] * h[i]
	}
	copy(rec, l.b[(d*2+1)*3*n+2*n:][:n])
	addMatVec(rec, l.r[(d*3+2)*n*n:], reset)
	for i := range n {
		hx[i] += rec[i]
	}
}

// stepGRU is a gated recurrent unit, gates in the order z r h; linear_before_reset applies the
// reset gate after the recurrent product instead of before it.
func (l *layer) stepGRU(d int, x, h, _ []float64) {
	l.inputs(d, x, h)
	n := l.hidden
	z, r, hx := l.gate[:n], l.gate[n:2*n], l.gate[2*n:]
	rec := l.rec[2*n:]
	for i := range n {
		z[i] = l.f(d, 0, z[i]+l.rec[i])
		r[i] = l.f(d, 0, r[i]+l.rec[n+i])
	}
	if l.Attrs.Bool("linear_before_reset", false) {
		for i := range n {
			hx[i] += r[i] * rec[i]
		}
	} else {
		l.addReset(d, hx, rec, r, h)
	}
	for i := range n {
		h[i] = (1-z[i])*l.f(d, 1, hx[i]) + z[i]*h[i]
	}
}

// stepLSTM is a long short-term memory with peepholes, gates in the order i o f c; input_forget
// couples f to 1 - i.
func (l *layer) stepLSTM(d int, x, h, c []float64) {
	l.inputs(d, x, h)
	n := l.hidden
	p := l.p[d*3*n:]
	coupled := l.Attrs.Bool("input_forget", false)
	for k := range n {
		pre := func(gate int) float64 { return l.gate[gate*n+k] + l.rec[gate*n+k] }
		i := l.f(d, 0, pre(0)+p[k]*c[k])
		f := 1 - i
		if !coupled {
			f = l.f(d, 0, pre(2)+p[2*n+k]*c[k])
		}
		c[k] = f*c[k] + i*l.f(d, 1, pre(3))
		o := l.f(d, 0, pre(1)+p[n+k]*c[k])
		h[k] = o * l.act[d*3+2](c[k])
	}
}

// activations returns the functions of the given number of directions that attribute activations
// names, or the defaults, with their parameters. activation_alpha and activation_beta are consumed
// in the order of the functions that take them.
func (k *cell) activations(c *Call, directions int) ([]recurrentFunction, error) {
	names := c.Attrs.Strings("activations")
	if names == nil {
		names = slices.Repeat(k.functions, directions)
	}
	if n := directions * len(k.functions); len(names) != n {
		return nil, c.Errorf(ErrAttr, "activations has %d functions, must have %d", len(names), n)
	}
	alphas, betas := c.Attrs.Floats("activation_alpha"), c.Attrs.Floats("activation_beta")
	out := make([]recurrentFunction, len(names))
	for i, name := range names {
		f, ok := recurrentFunctions[name]
		if !ok {
			return nil, c.Errorf(ErrAttr, "activations names %q, which the operator does not have",
				name)
		}
		if f.takes > 0 {
			f.alpha = takeFirst(&alphas, f.alpha)
		}
		if f.takes > 1 {
			f.beta = takeFirst(&betas, f.beta)
		}
		out[i] = f
	}
	return out, nil
}

// recurrentFunction is an activation of the recurrent operators with how many parameters it takes
// and their defaults; written is a call of it.
type recurrentFunction struct {
	takes       int
	alpha, beta float64
	of          func(alpha, beta float64) func(float64) float64
	written     func(x *Expander, v Var, alpha, beta float64) Var
}

var recurrentFunctions = map[string]recurrentFunction{
	"Relu":     {of: plain(relu), written: writtenAs("Relu")},
	"Tanh":     {of: plain(math.Tanh), written: writtenAs("Tanh")},
	"Sigmoid":  {of: plain(sigmoid), written: writtenAs("Sigmoid")},
	"Softsign": {of: plain(softsign), written: writtenAs("Softsign")},
	"Softplus": {of: plain(softplus), written: writtenAs("Softplus")},
	"Affine": {2, 1, 0, func(a, b float64) func(float64) float64 {
		return func(x float64) float64 { return a*x + b }
	}, func(x *Expander, v Var, a, b float64) Var { return x.plus(x.Scale(v, a), b) }},
	"ScaledTanh": {2, 1, 1, func(a, b float64) func(float64) float64 {
		return func(x float64) float64 { return a * math.Tanh(b*x) }
	}, func(x *Expander, v Var, a, b float64) Var {
		return x.Scale(x.Op("Tanh", nil, x.Scale(v, b)), a)
	}},
	"HardSigmoid": {2, 0.2, 0.5, hardSigmoid, writtenAs("HardSigmoid", "alpha", "beta")},
	"LeakyRelu": {1, 0.01, 0, func(a, _ float64) func(float64) float64 {
		return leakyRelu(a)
	}, writtenAs("LeakyRelu", "alpha")},
	"ThresholdedRelu": {1, 1, 0, func(a, _ float64) func(float64) float64 {
		return thresholdedRelu(a)
	}, writtenAs("ThresholdedRelu", "alpha")},
	"Elu": {1, 1, 0, func(a, _ float64) func(float64) float64 { return elu(a) },
		writtenAs("Elu", "alpha")},
}

// writtenAs is a call of an operator with the parameters as attributes of the given names.
//
//go:noinline
func writtenAs(typ string, names ...string) func(*Expander, Var, float64, float64) Var {
	return func(x *Expander, v Var, alpha, beta float64) Var {
		var attrs Attrs
		for i, name := range names {
			attrs = append(attrs, FloatAttr(name, float32([]float64{alpha, beta}[i])))
		}
		return x.Op(typ, attrs, v)
	}
}

func plain(f func(float64) float64) func(_, _ float64) func(float64) float64 {
	return func(_, _ float64) func(float64) float64 { return f }
}

// takeFirst takes the first element off a list, def when it is empty.
func takeFirst(from *[]float32, def float64) float64 {
	if len(*from) == 0 {
		return def
	}
	v := (*from)[0]
	*from = (*from)[1:]
	return float64(v)
}
