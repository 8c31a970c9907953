package kernels

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// bytes makes a random tensor of integers.
func (r source) bytes(d tensor.DType, shape ...int) *tensor.Tensor {
	t, err := tensor.New(d, shape...)
	if err != nil {
		panic(err)
	}
	for i := range t.Data {
		t.Data[i] = byte(r.Uint32())
	}
	return t
}

// scales makes n random scales.
func (r source) scales(shape ...int) *tensor.Tensor {
	t := r.floats(shape...)
	for i, v := range tensor.As[float32](t) {
		tensor.As[float32](t)[i] = float32(math.Abs(float64(v)))/50 + 1e-3
	}
	return t
}

// onTies makes the scales of one sample in three powers of two, with which the kernel and the
// reference compute without an error: the bytes are the reference's, also of sums that lie in the
// middle of two steps, which are as many then as they are few of random scales.
func (r source) onTies(s *sample, scales ...int) *sample {
	if !r.one(3) {
		return s
	}
	s.exact, s.steps = true, nil
	for _, i := range scales {
		powersOfTwo(s.in[i])
	}
	return s
}

// powersOfTwo makes powers of two of scales, no greater than they are.
func powersOfTwo(scales *tensor.Tensor) {
	v := tensor.As[float32](scales)
	for i, x := range v {
		_, e := math.Frexp(float64(x))
		v[i] = float32(math.Copysign(math.Ldexp(1, e-1), float64(x)))
	}
}

// byteShape draws a shape, now and then of one element, where a step is all of the result.
func (r source) byteShape(rank int) []int {
	if r.one(10) {
		return slices.Repeat([]int{1}, rank)
	}
	return r.shape(rank)
}

// byteType draws uint8 or int8.
func (r source) byteType() tensor.DType {
	return []tensor.DType{tensor.Uint8, tensor.Int8}[r.IntN(2)]
}

// genQuantize makes QuantizeLinear, DequantizeLinear and Grid, by one scale or one an index of an
// axis, with a zero point or without.
func genQuantize(r source, key opKey) *sample {
	shape := r.byteShape(1 + r.IntN(4))
	s := r.call(key, nil)
	s.exact = true
	var scale []int
	if r.one(2) {
		axis := r.IntN(len(shape))
		s.call.Attrs = append(s.call.Attrs,
			op.IntAttr("axis", int64(axis)-int64(len(shape)*r.IntN(2))))
		scale = []int{shape[axis]}
	}
	d := scaled[r.IntN(len(scaled))]
	x := r.floats(shape...)
	if key.name == "DequantizeLinear" {
		x = r.bytes(d, shape...)
	}
	s.in = []*tensor.Tensor{x, r.scales(scale...), r.bytes(d, scale...)}
	if d.Bits() == 16 && r.one(2) { // so that some saturate
		for i, v := range tensor.As[float32](s.in[1]) {
			tensor.As[float32](s.in[1])[i] = v / 10000
		}
	}
	if r.one(3) && (key.name == "DequantizeLinear" || d == tensor.Uint8) {
		s.in[2] = nil
	}
	s.constant = []bool{false, r.one(2), s.in[2] != nil && r.one(2)}
	s.call.NumIn = 3
	if key.name != "DequantizeLinear" && r.one(3) { // many numbers are in the middle of two steps
		powersOfTwo(s.in[1])
		for i, v := range tensor.As[float32](x) {
			tensor.As[float32](x)[i] = float32(math.Round(float64(v)*128)) / 128
		}
	}
	return s
}

func genDynamicQuantize(r source, key opKey) *sample {
	x := r.floats(r.shape(1 + r.IntN(3))...)
	s := r.call(key, nil, x)
	s.exact = true
	s.call.NumOut = 3
	if v := tensor.As[float32](x); len(v) > 1 && r.one(3) { // a step is 1, and so halves are ties
		least := -float32(r.IntN(510)) / 2
		for i := range v {
			v[i] = least + float32(r.IntN(511))/2
		}
		v[0], v[len(v)-1] = least, least+255
	}
	return s
}

// byteOperands makes the operands of a product of bytes: any rank on the left, a matrix, constant
// more often than not, on the right.
func (r source) byteOperands() (a, b *tensor.Tensor) {
	k, n := 1+r.IntN(70), 1+r.IntN(90)
	shape := append([][]int{nil, {1}, {3}, {2, 2}}[r.IntN(4)], 1+r.IntN(40), k)
	if r.one(10) { // a result of one byte
		shape, n = []int{1, k}, 1
	}
	return r.bytes(r.byteType(), shape...), r.bytes(r.byteType(), k, n)
}

// perColumn draws the shape of a scale or zero point of b: one for all or one a column.
func (r source) perColumn(b *tensor.Tensor) []int {
	return [][]int{nil, {1}, {b.Shape[1]}}[r.IntN(3)]
}

func genMatMulInteger(r source, key opKey) *sample {
	s := r.call(key, nil)
	s.exact = true
	a, b := r.byteOperands()
	s.in = []*tensor.Tensor{a, b, r.bytes(a.DType), r.bytes(b.DType, r.perColumn(b)...)}
	s.in = s.in[:2+r.IntN(3)]
	if len(s.in) > 2 && r.one(4) {
		s.in[2] = nil
	}
	s.constant = make([]bool, len(s.in))
	s.constant[1] = !r.one(8)
	if len(s.in) > 3 {
		s.constant[3] = r.one(2)
	}
	s.call.NumIn = len(s.in)
	return s
}

// genQLinearMatMul allows for steps of the result: the reference rounds once, the kernel also the
// factor of the sum.
func genQLinearMatMul(r source, key opKey) *sample {
	s := r.call(key, nil)
	s.steps = &steps{}
	a, b := r.byteOperands()
	d := r.byteType()
	s.in = []*tensor.Tensor{
		a,
		r.scales(),
		r.bytes(a.DType),
		b,
		r.scales(r.perColumn(b)...),
		nil,
		r.scales(),
		r.bytes(d),
	}
	s.in[5] = r.bytes(b.DType, s.in[4].Shape...)
	tensor.As[float32](s.in[6])[0] *= 50
	s.constant = make([]bool, len(s.in))
	s.constant[3] = !r.one(8)
	s.constant[5] = r.one(2)
	s.call.NumIn = len(s.in)
	return r.onTies(s, op.QLinearAScale, op.QLinearBScale, op.QLinearYScale)
}

// byteImages makes the operands of a convolution of bytes and its attributes; the weights are
// constant more often than not.
func (r source) byteImages(key opKey) (s *sample, x, w *tensor.Tensor) {
	g, attrs := r.windowed(true)
	group, in, out := r.channels()
	if group > 1 || r.one(2) {
		attrs = append(attrs, op.IntAttr("group", int64(group)))
	}
	x = r.bytes(r.byteType(), append([]int{1 + r.IntN(2), group * in}, g.image...)...)
	w = r.bytes(r.byteType(), append([]int{group * out, in}, g.kernel...)...)
	return r.call(key, attrs), x, w
}

// perChannel draws the shape of a scale or zero point of weights: one for all or one an output
// channel.
func (r source) perChannel(w *tensor.Tensor) []int {
	return [][]int{nil, {1}, {w.Shape[0]}}[r.IntN(3)]
}

func genConvInteger(r source, key opKey) *sample {
	s, x, w := r.byteImages(key)
	s.exact = true
	s.in = []*tensor.Tensor{x, w, r.bytes(x.DType), r.bytes(w.DType, r.perChannel(w)...)}
	s.in = s.in[:2+r.IntN(3)]
	s.constant = make([]bool, len(s.in))
	s.constant[1] = !r.one(8)
	if len(s.in) > 3 {
		s.constant[3] = r.one(2)
	}
	s.call.NumIn = len(s.in)
	return s
}

// genQLinearConv allows for steps of the result, as genQLinearMatMul does.
func genQLinearConv(r source, key opKey) *sample {
	s, x, w := r.byteImages(key)
	s.steps = &steps{}
	s.in = []*tensor.Tensor{
		x,
		r.scales(),
		r.bytes(x.DType),
		w,
		r.scales(r.perChannel(w)...),
		nil,
		r.scales(),
		r.bytes(r.byteType()),
		nil,
	}
	s.in[5] = r.bytes(w.DType, s.in[4].Shape...)
	tensor.As[float32](s.in[6])[0] *= 50
	if r.one(2) {
		bias := make([]int32, w.Shape[0])
		for i := range bias {
			bias[i] = int32(r.IntN(20000) - 10000)
		}
		s.in[8] = tensor.From(bias, w.Shape[0])
	}
	s.constant = make([]bool, len(s.in))
	s.constant[3] = !r.one(8)
	s.constant[5] = r.one(2)
	s.call.NumIn = len(s.in)
	return r.onTies(s, op.QLinearAScale, op.QLinearBScale, op.QLinearYScale)
}

// genByteLSTM compares each step from the kernel's own state: see byteLSTMSteps.
func genByteLSTM(r source, key opKey) *sample {
	seq, batch, in, hidden := 1+r.IntN(5), 1+r.IntN(3), 1+r.IntN(20), 1+r.IntN(30)
	direction, dirs := r.pick("forward", "reverse", "bidirectional"), 1
	if direction == "bidirectional" {
		dirs = 2
	}
	s := r.call(key,
		op.Attrs{op.StringAttr("direction", direction), op.IntAttr("hidden_size", int64(hidden))})
	s.given = byteLSTMSteps
	state, gates := []int{dirs, batch, hidden}, 4*hidden
	s.in = []*tensor.Tensor{
		r.floats(seq, batch, in),
		r.bytes(r.byteType(), dirs, in, gates),
		r.bytes(r.byteType(), dirs, hidden, gates),
		r.floats(dirs, 2*gates),
		nil,
		r.floats(state...),
		r.floats(state...),
		nil,
		nil,
		nil,
		nil,
		nil,
	}
	for i, operand := range s.in[op.RNNW : op.RNNR+1] {
		of := []int{dirs}
		if r.one(2) {
			of = append(of, gates)
		}
		scale := r.scales(of...)
		for k := range tensor.As[float32](scale) {
			tensor.As[float32](scale)[k] /= 10
		}
		zero := r.bytes(operand.DType, of...)
		if r.one(2) {
			clear(zero.Data)
		}
		s.in[microsoft.LSTMWScale+2*i], s.in[microsoft.LSTMWScale+2*i+1] = scale, zero
	}
	for _, i := range []int{op.RNNB, op.RNNInitialH, op.RNNInitialC} {
		if r.one(3) {
			s.in[i] = nil
		}
	}
	s.call.NumIn, s.call.NumOut = len(s.in), 1+r.IntN(3)
	s.constant = make([]bool, len(s.in))
	for _, i := range []int{op.RNNW, op.RNNR, op.RNNB, microsoft.LSTMWScale,
		microsoft.LSTMWScale + 1, microsoft.LSTMRScale,
		microsoft.LSTMRScale + 1} {
		s.constant[i] = true
	}
	s.constant[op.RNNW] = !r.one(10)
	s.atol = byteLSTMError(s)
	return s
}

// rescaling makes the operands of Rescale for n channels: constant scales that keep most results
// off the bounds, and quarters to add.
func (r source) rescaling(n int) []*tensor.Tensor {
	shape := [][]int{{1}, {n}}[r.IntN(2)]
	scale, bias := r.floats(shape...), r.floats(shape...)
	for i, v := range tensor.As[float32](bias) {
		tensor.As[float32](bias)[i] = float32(math.Round(float64(v)*160)) / 4
	}
	return []*tensor.Tensor{scale, bias, r.bytes(r.byteType())}
}

func genRescale(r source, key opKey) *sample {
	x := r.bytes(r.byteType(), r.byteShape(2+r.IntN(3))...)
	s := r.call(key, nil)
	s.steps = &steps{}
	s.in = append([]*tensor.Tensor{x}, r.rescaling(x.Shape[1])...)
	s.constant = []bool{false, !r.one(10), true, true}
	s.call.NumIn = len(s.in)
	return r.onTies(s, 1)
}

// genRescaledConv keeps the second stage from enlarging the step that the first may differ by.
func genRescaledConv(r source, key opKey) *sample {
	s := genQLinearConv(r, key)
	then := r.rescaling(s.in[3].Shape[0])
	for i, v := range tensor.As[float32](then[0]) {
		tensor.As[float32](then[0])[i] = min(max(v, -1), 1)
	}
	if s.exact {
		powersOfTwo(then[0])
	}
	if len(s.in) < 9 {
		s.in = append(s.in, nil)
	}
	s.in = append(s.in, then...)
	s.constant = append(s.constant, make([]bool, len(s.in)-len(s.constant))...)
	for i := 9; i < len(s.in); i++ {
		s.constant[i] = true
	}
	s.call.NumIn = len(s.in)
	return s
}

func genQLinearAdd(r source, key opKey) *sample {
	shape := r.byteShape(1 + r.IntN(4))
	s := r.call(key, nil)
	s.steps = &steps{}
	d := r.byteType()
	s.in = []*tensor.Tensor{
		r.bytes(d, shape...),
		r.scales(),
		r.bytes(d),
		r.bytes(d, shape...),
		r.scales(),
		r.bytes(d),
		r.scales(),
		r.bytes(r.byteType()),
	}
	s.constant = []bool{false, true, true, r.one(8), !r.one(10), true, true, true}
	s.call.NumIn = len(s.in)
	return r.onTies(s, op.QLinearAScale, op.QLinearBScale, op.QLinearYScale)
}

func genTable(r source, key opKey) *sample {
	s := r.call(key, nil, r.bytes(r.byteType(), r.shape(1+r.IntN(4))...),
		r.bytes(r.byteType(), 256))
	s.exact = true
	s.constant = []bool{false, !r.one(8)}
	return s
}

// genChain makes weir:Chain of up to eight links, some of which take other operands, over more
// elements than are computed at a time.
func genChain(r source, key opKey) *sample {
	if r.one(4) {
		return genTabledChain(r, key)
	}
	x := r.floats(1+r.IntN(3), 1+r.IntN(700))
	s := r.call(key, nil, x)
	s.exact = true
	var links []op.Link
	var values []float32
	for range 1 + r.IntN(8) {
		link := op.Link(r.IntN(int(op.LinkBy) + 1))
		v := [op.LinkNumbers]float32{float32(r.IntN(9)-4) / 4, float32(2 + r.IntN(3))}
		switch link {
		case op.LinkDiv:
			v[0] = 1.5
		case op.LinkGrid:
			v = [op.LinkNumbers]float32{0.25, -100, 155}
		case op.LinkSigmoid:
			s.exact = false
		case op.LinkPlus, op.LinkBy:
			if v[0] = float32(len(s.in)); len(s.in) == op.MaxChained {
				v[0] = 1
				break
			}
			s.in = append(s.in, r.floats(r.broadcastTo(x.Shape)...))
			s.constant = append(s.constant, r.one(2))
		}
		links, values = append(links, link), append(values, v[:]...)
	}
	s.exact = s.exact || !slices.Contains(links, op.LinkGrid) // after which a digit is a step
	s.call.Attrs, s.call.NumIn = op.LinksAttrs(links, values), len(s.in)
	if slices.Contains(links, op.LinkSigmoid) {
		s.exact, s.atol = false, 0.3
	}
	return s
}

// genTabledChain makes a chain that is looked up: of links that begin and end with 16 bits, over
// many elements, maybe with an operand before or after them.
func genTabledChain(r source, key opKey) *sample {
	x := r.floats(1+r.IntN(3), leastSaved/6+r.IntN(3000))
	if r.one(6) {
		x.Data[3], x.Data[2] = 0x7f, 0xff // NaN
	}
	var links []op.Link
	var values []float32
	add := func(l op.Link, v ...float32) {
		links = append(links, l)
		values = append(values, append(v, make([]float32, op.LinkNumbers-len(v))...)...)
	}
	grid := func() {
		lo := -float32(r.IntN(1 << 16))
		add(op.LinkGrid, 1e-4*(1+r.Float32()), lo, lo+math.MaxUint16)
	}
	s := r.call(key, nil, x)
	operand := func(one bool) {
		if one {
			add(op.LinkPlus, float32(len(s.in)))
			s.in = append(s.in, r.floats(r.broadcastTo(x.Shape)...))
			s.constant = append(s.constant, false)
		}
	}
	tabled := func(times bool) {
		for i := range 5 {
			if grid(); times && i == 1 && !r.one(8) {
				add(op.LinkKeep)
			}
			add([]op.Link{op.LinkMul, op.LinkAdd, op.LinkDiv}[r.IntN(3)], 1+r.Float32())
		}
		if times {
			add(op.LinkTimes)
		}
		grid()
	}
	operand(r.one(2))
	tabled(true)
	if r.one(3) { // two tables in one chain
		operand(true)
		tabled(false)
	}
	operand(r.one(2))
	s.exact = true
	s.call.Attrs, s.call.NumIn = op.LinksAttrs(links, values), len(s.in)
	return s
}

// genGridConv makes mostly what passes make: one group, constant operands, of 16 bits a pixel that
// is multiplied alone.
func genGridConv(r source, key opKey) *sample {
	of := scaled[r.IntN(len(scaled))]
	s, x, w := r.byteImages(key)
	for x.Shape[1] != w.Shape[1] && !r.one(20) {
		s, x, w = r.byteImages(key)
	}
	if of.Bits() == 16 && !r.one(10) {
		s.call.Attrs = nil
		w = r.bytes(w.DType, append(w.Shape[:2:2], slices.Repeat([]int{1}, len(x.Shape)-2)...)...)
	}
	s.in = []*tensor.Tensor{r.floats(x.Shape...), r.scales(), r.bytes(of), w,
		r.scales(r.perChannel(w)...), nil, nil}
	s.in[5] = r.bytes(w.DType, s.in[4].Shape...)
	if of.Bits() == 16 {
		tensor.As[float32](s.in[1])[0] /= 100
	}
	if s.in = s.in[:6]; r.one(2) {
		s.in = append(s.in, r.floats(w.Shape[0]))
	}
	s.constant = []bool{false, true, true, !r.one(20), !r.one(20), true, r.one(2)}[:len(s.in)]
	r.activation(s)
	s.call.Attrs = slices.DeleteFunc(s.call.Attrs, func(a op.Attr) bool {
		return a.Name == "precision"
	})
	s.atol = 1e-4
	s.call.NumIn = len(s.in)
	return s
}
