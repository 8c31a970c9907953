package kernels

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// clips adds an activation that clips, or none.
func (r source) clips(s *sample) {
	switch r.IntN(3) {
	case 0:
		s.call.Attrs = append(s.call.Attrs, op.StringAttr("activation", "Relu"))
	case 1:
		s.call.Attrs = append(s.call.Attrs, op.StringAttr("activation", "Clip"),
			op.FloatAttr("activation_alpha", -0.5), op.FloatAttr("activation_beta", 1))
	}
}

// channelShape is a shape with channels, now and then of planes that are not gathered.
func (r source) channelShape() []int {
	shape := r.shape(2 + r.IntN(3))
	shape[0], shape[1] = max(shape[0], 1), max(shape[1], 1)
	if r.one(6) {
		shape = []int{1 + r.IntN(3), 1 + r.IntN(3), gatheredPlane + r.IntN(200)}
	}
	return shape
}

func genTrainedBatchNorm(r source, key opKey) *sample {
	shape := r.channelShape()
	c := shape[1]
	s := r.call(key, nil, r.floats(shape...), r.floats(c), r.floats(c), r.floats(c), r.floats(c))
	// deviations much smaller than epsilon allows would enlarge the rounding of the mean
	s.call.Attrs = append(s.call.Attrs, op.FloatAttr("epsilon", 0.1))
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.FloatAttr("momentum", 0.7))
	}
	s.call.NumOut = 1 + r.IntN(5)
	s.absent = []bool{false, r.one(2), r.one(2), r.one(2), r.one(2)}[:s.call.NumOut]
	s.atol = 1e-5
	r.clips(s)
	return s
}

func genBatchNormGradient(r source, key opKey) *sample {
	shape := r.channelShape()
	c := shape[1]
	s := r.call(key, nil, r.floats(shape...), r.floats(shape...), r.floats(c), r.floats(c),
		r.floats(c), r.floats(c))
	r.clips(s)
	s.call.NumOut = 1 + r.IntN(3)
	s.absent = []bool{false, r.one(2), r.one(2)}[:s.call.NumOut]
	n := len(s.in[1].Data) / 4
	s.atol = sumError(n / c)
	// near a bound, the rounding of what the activation takes decides
	of := func(i int) []float32 { return tensor.As[float32](s.in[i]) }
	inner, saved := count(shape[2:]), r.one(2)
	if saved {
		defer s.narrow(1)
	}
	for i := range of(1) {
		at, half := i/inner%c, [1]uint16{}
		for range 4 {
			if saved {
				vec.Float32ToBFloat16(half[:], of(1)[i:i+1])
				vec.BFloat16ToFloat32(of(1)[i:i+1], half[:])
			}
			v := float64(of(1)[i]-of(4)[at])*float64(of(5)[at])*float64(of(2)[at]) +
				float64(of(3)[at])
			if math.Abs(v) > 1e-3 && math.Abs(v-1) > 1e-3 && math.Abs(v+0.5) > 1e-3 {
				break
			}
			of(1)[i] += 0.1
		}
	}
	return s
}

// narrow makes bfloat16 of an operand.
func (s *sample) narrow(i int) {
	x := tensor.As[float32](s.in[i])
	half := make([]tensor.BHalf, len(x))
	vec.Float32ToBFloat16(half, x)
	s.in[i] = tensor.From(half, s.in[i].Shape...)
}

func genMaxPoolGradient(r source, key opKey) *sample {
	p := genPool(r, opKey{"", "MaxPool"})
	p.call.Version, p.call.NumOut, p.absent = 22, 1, nil
	_, q, ok := p.request()
	if !ok {
		return p
	}
	for i, v := range tensor.As[float32](p.in[0]) {
		tensor.As[float32](p.in[0])[i] = float32(int(2 * v)) // with equals
		if r.one(40) {
			tensor.As[float32](p.in[0])[i] = float32(math.NaN())
		}
	}
	s := r.call(key, p.call.Attrs, r.floats((&request{q}).outShape()...), p.in[0])
	s.atol = 1e-5
	return s
}

func genReluGradient(r source, key opKey) *sample {
	shape := r.shape(r.IntN(5))
	if r.one(6) {
		shape = []int{2000 + r.IntN(2000)}
	}
	s := r.call(key, nil, r.wild(shape...), r.wild(shape...))
	if s.exact = true; r.one(2) {
		s.narrow(1)
	}
	return s
}

// genConvWeights takes the places of a convolution, now and then fewer.
func genConvWeights(r source, key opKey) *sample {
	g, attrs := r.windowed(true)
	attrs = slices.DeleteFunc(attrs, func(a op.Attr) bool { return a.Name == "auto_pad" })
	attrs = append(attrs, op.IntsAttr("kernel_shape", ints64(g.kernel)...))
	group, in, out := r.channels()
	attrs = append(attrs, op.IntAttr("group", int64(group)))
	x := append([]int{1 + r.IntN(3), group * in}, g.image...)
	if r.one(8) { // long sums, which other kernels add up
		x[0] = 100 + r.IntN(100)
	}
	w := append([]int{group * out, in}, g.kernel...)
	c := r.call(opKey{"", "Conv"}, attrs, r.floats(x...), r.floats(w...))
	c.call.Version = 22
	_, q, ok := c.request()
	if !ok {
		return c
	}
	places := slices.Clone((&request{q}).outShape())
	for i := range places[2:] {
		if r.one(6) {
			places[i+2] = max(1, places[i+2]-r.IntN(3))
		}
	}
	if r.one(3) {
		attrs = append(attrs, op.StringAttr("precision", "bf16"))
	}
	s := r.call(key, attrs, c.in[0], r.floats(places...))
	if r.one(3) {
		s.narrow(0)
	}
	s.atol = sumError(places[0] * count(places[2:]))
	return s
}

// genGeluGradient has elements where the slope is 0, 1 and between.
func genGeluGradient(r source, key opKey) *sample {
	shape := r.shape(r.IntN(5))
	s := r.call(key, nil, r.floats(shape...), r.floats(shape...))
	for i, v := range tensor.As[float32](s.in[1]) {
		if r.one(20) {
			tensor.As[float32](s.in[1])[i] = v * float32(math.Pow(10, float64(r.IntN(39))))
		}
	}
	if s.atol = 2e-6; r.one(2) {
		s.narrow(1)
	}
	return s
}

// genCountedDropout drops some, none and nearly all, now and then of more than one block.
func genCountedDropout(r source, key opKey) *sample {
	shape := r.shape(r.IntN(5))
	if r.one(6) {
		shape = []int{mapBlock + r.IntN(2*mapBlock)}
	}
	ratio := []float32{0, 0.5, 0.1, 0.999, r.Float32()}[r.IntN(5)]
	at := tensor.From([]int64{int64(r.Uint64()), int64(r.Uint64())}, 2)
	return r.call(key, op.Attrs{op.FloatAttr(op.DropRatio, ratio),
		op.IntAttr(op.DropNode, int64(r.IntN(1<<31)))}, r.wild(shape...), at)
}

// genDescent has results that nobody asks for, numbers that are left out, and conditions.
func genDescent(r source, key opKey) *sample {
	shape := r.shape(r.IntN(4))
	if r.one(6) {
		shape = []int{mapBlock + r.IntN(mapBlock)}
	}
	histories := map[string]int{op.Momentum: 1, op.Adagrad: 1, op.Adam: 2, op.LAMB: 2}[key.name]
	numbers := map[string]int{op.Adam: 2, op.LAMB: 2}[key.name]
	s := r.call(key, nil)
	for i := range 2 + histories {
		v := r.wild(shape...)
		for k, x := range tensor.As[float32](v) {
			if x != x { // of two, that which is given depends on their order
				tensor.As[float32](v)[k] = 1
			}
		}
		if i >= 2 && key.name != op.Momentum && r.one(2) {
			for k, x := range tensor.As[float32](v) {
				tensor.As[float32](v)[k] = float32(math.Abs(float64(x)))
			}
		}
		s.in = append(s.in, v)
	}
	for range max(numbers, 1) {
		s.in = append(s.in, tensor.Scalar(r.Float32()))
	}
	if key.name == op.SGD || key.name == op.Adam {
		s.in = append(s.in, tensor.Scalar(r.Float32()))
		if r.one(2) {
			s.in[len(s.in)-1] = nil
		}
	}
	if s.in = append(s.in, tensor.Scalar(r.one(2))); r.one(2) {
		s.in = s.in[:len(s.in)-1]
	}
	for _, name := range []string{op.DescentKeep1, op.DescentTake1, op.DescentKeep2,
		op.DescentTake2, op.DescentDecay, op.DescentEpsilon, op.DescentMomentum} {
		if !r.one(3) {
			s.call.Attrs = append(s.call.Attrs, op.FloatAttr(name, r.Float32()))
		}
	}
	s.call.Attrs = append(s.call.Attrs, op.IntAttr(op.DescentNesterov, int64(r.IntN(2))))
	s.constant = make([]bool, len(s.in))
	s.call.NumIn, s.call.NumOut = len(s.in), 1+r.IntN(1+histories)
	s.absent = []bool{r.one(4), r.one(3), r.one(3)}[:s.call.NumOut]
	s.exact = true
	return s
}

// genLayerNormGradient has rows of several parts now and then, and sums that nobody asks for.
func genLayerNormGradient(r source, key opKey) *sample {
	rank := 1 + r.IntN(4)
	shape := r.shape(rank)
	axis := r.IntN(rank)
	if r.one(4) {
		shape, axis = []int{1 + r.IntN(200), 1 + r.IntN(70)}, 1
		rank = 2
	}
	rows := append(slices.Clone(shape[:axis]), slices.Repeat([]int{1}, rank-axis)...)
	s := r.call(key, nil, r.floats(shape...), r.floats(shape...), r.floats(shape[axis:]...),
		r.floats(rows...), r.floats(rows...))
	if axis != rank-1 || r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("axis", int64(axis-rank*r.IntN(2))))
	}
	s.call.NumOut = 1 + r.IntN(3)
	s.absent = []bool{false, r.one(2), r.one(2)}[:s.call.NumOut]
	s.atol = 10 * sumError(max(count(shape[:axis]), count(shape[axis:])))
	if r.one(2) {
		s.narrow(1)
	}
	return s
}

func genSoftmaxGradient(r source, key opKey) *sample {
	shape := r.shape(1 + r.IntN(4))
	axis := r.IntN(len(shape))
	if r.one(4) {
		shape, axis = []int{1 + r.IntN(4), 500 + r.IntN(2000)}, 1
	}
	s := r.call(key, nil, r.floats(shape...), r.floats(shape...))
	if axis != len(shape)-1 || r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("axis",
			int64(axis-len(shape)*r.IntN(2))))
	}
	s.atol = 10 * sumError(count(shape[axis:]))
	if r.one(2) {
		s.narrow(1)
	}
	return s
}
