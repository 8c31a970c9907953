package kernels

import (
	"math"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// halves fills a bfloat16 tensor with numbers of some units; in every third one some are not
// finite.
func (r source) halves(shape ...int) *tensor.Tensor {
	v := make([]tensor.BHalf, count(shape))
	for i := range v {
		v[i] = tensor.BHalfOf(float32(r.NormFloat64() * 1.5))
	}
	if r.one(3) && len(v) > 0 {
		for range 1 + r.IntN(3) {
			v[r.IntN(len(v))] = tensor.BHalfOf([]float32{float32(math.NaN()),
				float32(math.Inf(1)), float32(math.Inf(-1))}[r.IntN(3)])
		}
	}
	return tensor.From(v, shape...)
}

// odd is floats of which, in every third tensor, some are not finite in bfloat16.
func (r source) odd(shape ...int) *tensor.Tensor {
	v := r.floats(shape...)
	if f := tensor.As[float32](v); r.one(3) && len(f) > 0 {
		for range 1 + r.IntN(3) {
			f[r.IntN(len(f))] = []float32{float32(math.NaN()), float32(math.Inf(1)),
				float32(math.Inf(-1)), math.MaxFloat32}[r.IntN(4)]
		}
	}
	return v
}

// genPixelConv makes mostly what passes make: images of rank 4, constant operands, one group or one
// for each channel.
func genPixelConv(r source, key opKey) *sample {
	g, attrs := r.windowed(true)
	for g.rank != 2 && !r.one(20) {
		g, attrs = r.windowed(true)
	}
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	group, in, out := 1, pick(1, 3, 8, 24, 31, 32, 33, 64), pick(1, 7, 16, 31, 32, 33, 40, 65)
	switch r.IntN(6) {
	case 0, 1:
		group, in, out = pick(1, 7, 16, 31, 32, 33, 64, 70), 1, 1
	case 2:
		group, in, out = r.channels()
	}
	x := append([]int{1 + r.IntN(2), group * in}, g.image...)
	if r.one(30) {
		x[r.IntN(len(x))] = 0
	}
	if group > 1 || r.one(2) {
		attrs = append(attrs, op.IntAttr("group", int64(group)))
	}
	var image *tensor.Tensor
	if r.one(5) {
		in = min(in, 1+r.IntN(5))
		x[1] = min(x[1], group*in)
		attrs, image = append(attrs, op.IntAttr("planar", 1)), r.odd(x...)
	} else {
		image = r.halves(pixelsLast(x)...)
	}
	s := r.call(key, attrs, image, r.floats(append([]int{group * out, in}, g.kernel...)...))
	s.atol = sumError(in * count(g.kernel))
	r.besidePixels(s, group*out)
	r.activation(s)
	return s
}

// besidePixels gives a convolution of pixels its further operands: a bias, a residual and a scale
// of its weights.
func (r source) besidePixels(s *sample, channels int) {
	var more [3]*tensor.Tensor
	for _, i := range []int{0, 2} {
		if r.one(2) {
			more[i] = r.floats(channels)
		}
	}
	if _, q, ok := s.request(); ok && r.one(2) {
		more[1] = r.halves((&request{q}).outShape()...)
	}
	for i, v := range more {
		s.in, s.constant = append(s.in, v), append(s.constant, v != nil && i != 1 && !r.one(50))
	}
	s.constant[1] = !r.one(50)
	s.call.NumIn = len(s.in)
}

func genPixelMean(r source, key opKey) *sample {
	shape := r.shape(4)
	if r.one(10) {
		shape = r.shape(3 + r.IntN(3))
	}
	s := r.call(key, nil, r.halves(shape...))
	s.atol = sumError(count(shape[1 : len(shape)-1]))
	return s
}

// genHalves makes a sum or a product of bfloat16.
func genHalves(r source, key opKey) *sample {
	a, b := r.operands()
	s := r.call(key, nil, r.halves(a...), r.halves(b...))
	s.exact = true
	if r.one(3) {
		s.fix(r.IntN(2))
	}
	return s
}
