package kernels

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// activation adds a fused activation to a call of weir's domain.
func (r source) activation(s *sample) {
	if s.call.Domain == "" {
		return
	}
	if r.one(3) && len(s.in) > 0 && s.in[0].DType == tensor.Float32 {
		s.call.Attrs = append(s.call.Attrs, op.StringAttr("precision", "bf16"))
	}
	if r.one(4) {
		return
	}
	name := op.FusedActivations[r.IntN(len(op.FusedActivations))]
	s.call.Attrs = append(s.call.Attrs, op.StringAttr("activation", name))
	if name == "Grid" { // of steps so small that to round to the next one is within the tolerance
		s.call.Attrs = append(s.call.Attrs, op.FloatAttr("activation_alpha", 1e-6),
			op.FloatAttr("activation_beta", -float32(r.IntN(1<<20))),
			op.FloatAttr("activation_gamma", float32(r.IntN(1<<20))))
		return
	}
	if r.one(3) {
		return
	}
	alpha := r.Float32() - 0.5
	s.call.Attrs = append(s.call.Attrs, op.FloatAttr("activation_alpha", alpha))
	if r.one(3) {
		return
	}
	s.call.Attrs = append(s.call.Attrs, op.FloatAttr("activation_beta", alpha+r.Float32()))
}

// images is a random geometry of a windowed operator.
type images struct {
	rank               int // spatial axes
	image, kernel      []int
	strides, dilations []int64
}

// windowed makes a geometry and the attributes that tell it.
func (r source) windowed(dilate bool) (g images, attrs op.Attrs) {
	g.rank = 1 + r.IntN(3)
	most := []int{40, 18, 8}[g.rank-1]
	var pads []int64
	for range g.rank {
		k := 1 + r.IntN(min(5, most))
		g.kernel = append(g.kernel, k)
		g.image = append(g.image, 1+r.IntN(most))
		g.strides = append(g.strides, int64(1+r.IntN(3)))
		g.dilations = append(g.dilations, int64(1+r.IntN(2)))
		pads = append(pads, int64(r.IntN(k+1)))
	}
	for i := range g.rank {
		pads = append(pads, pads[i])
		if r.one(3) {
			pads[i+g.rank] = int64(r.IntN(g.kernel[i] + 1))
		}
	}
	if r.one(2) {
		attrs = append(attrs, op.IntsAttr("strides", g.strides...))
	}
	if dilate && r.one(3) {
		attrs = append(attrs, op.IntsAttr("dilations", g.dilations...))
	}
	switch r.IntN(6) {
	case 0:
		attrs = append(attrs,
			op.StringAttr("auto_pad", r.pick("SAME_UPPER", "SAME_LOWER", "VALID")))
	case 1:
		attrs = append(attrs, op.StringAttr("auto_pad", "NOTSET"))
	}
	if r.one(2) {
		attrs = append(attrs, op.IntsAttr("pads", pads...))
	}
	return g, attrs
}

// channels are the channels of an image: groups, and channels a group in and out.
func (r source) channels() (group, in, out int) {
	switch r.IntN(5) {
	case 0:
		return 1 + r.IntN(40), 1, 1 + r.IntN(2) // depthwise
	case 1:
		return 1 + r.IntN(4), 1 + r.IntN(6), 1 + r.IntN(6)
	case 2:
		return 1, 1 + r.IntN(40), 1 + r.IntN(70)
	}
	return 1, 1 + r.IntN(8), 1 + r.IntN(12)
}

func genConv(r source, key opKey) *sample {
	g, attrs := r.windowed(true)
	group, in, out := r.channels()
	x := append([]int{1 + r.IntN(2), group * in}, g.image...)
	w := append([]int{group * out, in}, g.kernel...)
	if r.one(30) {
		x[r.IntN(len(x))] = 0
	}
	if group > 1 || r.one(2) {
		attrs = append(attrs, op.IntAttr("group", int64(group)))
	}
	if r.one(2) {
		attrs = append(attrs, op.IntsAttr("kernel_shape", ints64(g.kernel)...))
	}
	turned := key.domain != "" && group == 1 && r.one(4)
	if turned {
		w[0], w[1] = w[1], w[0]
		attrs = append(attrs, op.IntAttr("turned", 1))
	}
	s := r.call(key, attrs, r.floats(x...), r.floats(w...))
	s.atol = sumError(in * count(g.kernel))
	if r.one(2) {
		s.in, s.constant = append(s.in, r.floats(group*out)), append(s.constant, r.one(2))
	}
	s.call.NumIn = len(s.in)
	if !turned && !r.one(4) {
		s.fix(1)
	}
	if key.domain != "" && r.one(2) {
		if len(s.in) == 2 {
			s.in, s.constant = append(s.in, nil), append(s.constant, false)
		}
		if _, q, ok := s.request(); ok {
			sum := r.floats((&request{q}).outShape()...)
			s.in, s.constant = append(s.in, sum), append(s.constant, false)
		}
	}
	if key.domain != "" && !turned && r.one(3) {
		for len(s.in) < convScale {
			s.in, s.constant = append(s.in, nil), append(s.constant, false)
		}
		s.in, s.constant = append(s.in, r.floats(group*out)), append(s.constant, s.constant[1])
	}
	s.call.NumIn = len(s.in)
	r.activation(s)
	return s
}

func genConvTranspose(r source, key opKey) *sample {
	g, attrs := r.windowed(true)
	group, in, out := r.channels()
	x := append([]int{1 + r.IntN(2), group * in}, g.image...)
	w := append([]int{group * in, out}, g.kernel...)
	for i := range x[2:] {
		x[2+i] = min(x[2+i], 12)
	}
	if r.one(30) {
		x[0] = 0
	}
	attrs = append(attrs, op.IntAttr("group", int64(group)))
	if r.one(3) {
		pad := make([]int64, g.rank)
		for i := range pad {
			pad[i] = int64(r.IntN(2))
		}
		attrs = append(attrs, op.IntsAttr("output_padding", pad...))
	}
	s := r.call(key, attrs, r.floats(x...), r.floats(w...))
	s.atol = sumError(in * count(g.kernel))
	if key.domain != "" && r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.StringAttr("precision", "bf16"))
	}
	if r.one(2) {
		s.in, s.constant, s.call.NumIn = append(s.in, r.floats(group*out)), append(s.constant,
			r.one(2)), 3
	}
	if !r.one(6) {
		s.fix(1)
	}
	return s
}

func genPool(r source, key opKey) *sample {
	g, attrs := r.windowed(false)
	x := append([]int{1 + r.IntN(2), 1 + r.IntN(8)}, g.image...)
	if r.one(30) {
		x[0] = 0
	}
	s := r.call(key, append(attrs, op.IntsAttr("kernel_shape", ints64(g.kernel)...)),
		r.floats(x...))
	if s.call.Version >= 10 && r.one(3) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("ceil_mode", int64(r.IntN(2))))
	}
	since := 10
	if key.name == "AveragePool" {
		since = 19
	}
	if s.call.Version >= since && r.one(3) {
		s.call.Attrs = append(s.call.Attrs, op.IntsAttr("dilations", g.dilations...))
	}
	if key.name == "AveragePool" && r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("count_include_pad", int64(r.IntN(2))))
	}
	if key.name == "MaxPool" && s.call.Version >= 8 && r.one(10) {
		s.call.NumOut = 2
		s.absent = []bool{false, r.one(2)}
	}
	return s
}

// extents are the sizes of a product.
func (r source) extents() (m, k, n int) {
	size := func() int {
		if r.one(4) {
			return 1
		}
		if r.one(3) {
			return 1 + r.IntN(150)
		}
		return 1 + r.IntN(20)
	}
	if r.one(40) {
		return r.IntN(2), r.IntN(2), r.IntN(2)
	}
	m, k, n = size(), size(), size()
	if r.one(20) {
		k = 600 + r.IntN(1500) // beyond one block of a product's depth
	}
	return m, k, n
}

func genMatMul(r source, key opKey) *sample {
	m, k, n := r.extents()
	var batch []int
	for range r.IntN(3) {
		batch = append(batch, 1+r.IntN(3))
	}
	if r.one(40) && len(batch) > 0 {
		batch[0] = 0
	}
	a := append(slices.Clone(batch), m, k)
	b := append(slices.Clone(batch), k, n)
	switch r.IntN(5) {
	case 0:
		b = []int{k, n}
	case 1:
		a = []int{m, k}
	case 2:
		a = append(r.broadcastTo(batch), m, k)
		b = append(r.broadcastTo(batch), k, n)
	}
	if r.one(8) {
		a = []int{k}
	}
	if r.one(8) {
		b = []int{k}
	}
	s := r.call(key, nil, r.floats(a...), r.floats(b...))
	s.atol = sumError(k)
	if r.one(2) {
		s.fix(1)
	}
	if r.one(8) {
		s.fix(0)
	}
	if key.domain != "" && r.one(2) {
		s.in, s.constant, s.call.NumIn = append(s.in, r.floats(n)), append(s.constant, r.one(2)), 3
	}
	if b := s.in[1]; key.domain != "" && b.Rank() == 2 && r.one(2) {
		s.in[1] = tensor.From(tensor.As[float32](b), b.Shape[1], b.Shape[0])
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("transB", 1))
	}
	r.activation(s)
	return s
}

func genGemm(r source, key opKey) *sample {
	m, k, n := r.extents()
	a, b := []int{m, k}, []int{k, n}
	s := r.call(key, nil)
	s.atol = sumError(k)
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("transA", 1))
		slices.Reverse(a)
	}
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("transB", 1))
		slices.Reverse(b)
	}
	for _, name := range []string{"alpha", "beta"} {
		if r.one(3) {
			s.call.Attrs = append(s.call.Attrs,
				op.FloatAttr(name, []float32{0, 1, 0.5, -2}[r.IntN(4)]))
		}
	}
	s.in, s.constant = []*tensor.Tensor{r.floats(a...), r.floats(b...)}, make([]bool, 2)
	if !r.one(4) {
		c := [][]int{{m, n}, {n}, {1, n}, {m, 1}, {1, 1}, {1}, {}}[r.IntN(7)]
		s.in, s.constant = append(s.in, r.floats(c...)), append(s.constant, r.one(2))
	}
	s.call.NumIn = len(s.in)
	if r.one(2) {
		s.fix(1)
	}
	r.activation(s)
	return s
}

func genLSTM(r source, key opKey) *sample {
	seq, batch, in, hidden := 1+r.IntN(6), 1+r.IntN(3), 1+r.IntN(20), 1+r.IntN(20)
	if r.one(30) {
		seq = 0
	}
	if r.one(40) {
		hidden = 513 + r.IntN(100) // beyond one block of a product's depth
	}
	return r.lstm(key, seq, batch, in, hidden)
}

// lstm makes a call of LSTM of these sizes.
func (r source) lstm(key opKey, seq, batch, in, hidden int) *sample {
	direction := r.pick("forward", "reverse", "bidirectional")
	dirs := 1
	if direction == "bidirectional" {
		dirs = 2
	}
	layout := r.one(10)
	x, state := []int{seq, batch, in}, []int{dirs, batch, hidden}
	s := r.call(key,
		op.Attrs{op.StringAttr("direction", direction), op.IntAttr("hidden_size", int64(hidden))})
	if layout {
		s.call.Version = max(14, s.call.Version)
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("layout", 1))
		x, state = []int{batch, seq, in}, []int{batch, dirs, hidden}
	}
	optional := func(v *tensor.Tensor, n int) *tensor.Tensor {
		if r.one(n) {
			return nil
		}
		return v
	}
	lens := make([]int32, batch)
	for i := range lens {
		lens[i] = int32(r.IntN(seq + 1))
	}
	recurrent := r.floats(dirs, 4*hidden, hidden)
	if hidden > 512 { // or rounding errors of one step grow a hundred times in the next
		w := tensor.As[float32](recurrent)
		for i := range w {
			w[i] /= float32(math.Sqrt(float64(hidden)))
		}
	}
	s.in = []*tensor.Tensor{
		r.floats(x...),
		r.floats(dirs, 4*hidden, in),
		recurrent,
		optional(r.floats(dirs, 8*hidden), 3),
		nil,
		optional(r.floats(state...), 2),
		optional(r.floats(state...), 2),
		nil,
	}
	if r.one(10) {
		s.in[op.RNNLens] = tensor.From(lens, batch)
	}
	if r.one(10) {
		s.in[op.RNNPeepholes] = r.floats(dirs, 3*hidden)
	}
	s.in = s.in[:3+r.IntN(6)]
	s.call.NumIn, s.constant = len(s.in), make([]bool, len(s.in))
	s.fixWeights(r)
	s.call.NumOut = 1 + r.IntN(3)
	s.absent = []bool{r.one(4), r.one(4), r.one(4)}[:s.call.NumOut]
	switch r.IntN(12) {
	case 0:
		s.call.Attrs = append(s.call.Attrs, op.FloatAttr("clip", 0.5))
	case 1:
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("input_forget", int64(r.IntN(2))))
	case 2:
		s.call.Attrs = append(
			s.call.Attrs,
			op.StringsAttr(
				"activations",
				slices.Repeat([]string{"Sigmoid", "Tanh", "Tanh"}, dirs)...),
		)
	}
	return s
}
