package kernels

import (
	"slices"

	"math"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// few fills a tensor with few different numbers, NaN among those of float32.
func (r source) few(d tensor.DType, shape ...int) *tensor.Tensor {
	v := r.bits(d, shape...)
	for i := range v.Len() {
		switch x := r.IntN(5) - 2; d {
		case tensor.Float32:
			tensor.As[float32](v)[i] = []float32{-1.5, 0, 0.5, 3, float32(math.NaN())}[x+2]
		case tensor.Int64:
			tensor.As[int64](v)[i] = int64(x)
		case tensor.Int32:
			tensor.As[int32](v)[i] = int32(x)
		}
	}
	return v
}

// operands makes two shapes that broadcast to one.
func (r source) operands() (a, b []int) {
	shape := r.shape(r.IntN(5))
	a, b = shape, r.broadcastTo(shape)
	switch r.IntN(3) {
	case 0:
		a, b = b, a
	case 1:
		a = r.broadcastTo(shape)
	}
	return a, b
}

func genCompare(r source, key opKey) *sample {
	a, b := r.operands()
	d := []tensor.DType{tensor.Float32, tensor.Int64, tensor.Int32, tensor.Bool,
		tensor.Uint8}[r.IntN(5)]
	if key.name == "And" || key.name == "Or" || key.name == "Xor" {
		d = tensor.Bool
	}
	s := r.call(key, nil, r.few(d, a...), r.few(d, b...))
	s.exact = true
	return s
}

// genIntegers makes a call of an arithmetic operator on integers of all magnitudes.
func genIntegers(r source, key opKey) *sample {
	a, b := r.operands()
	d := []tensor.DType{tensor.Int64, tensor.Int32, tensor.Uint8}[r.IntN(3)]
	s := r.call(key, nil, r.bits(d, a...), r.bits(d, b...))
	s.exact = true
	if r.one(2) {
		s.fix(1)
	}
	return s
}

func genVariadic(r source, key opKey) *sample {
	shape := r.shape(r.IntN(5))
	s := r.call(key, nil)
	for range 1 + r.IntN(10) {
		s.in, s.constant = append(s.in, r.wild(r.broadcastTo(shape)...)), append(s.constant,
			r.one(4))
	}
	s.call.NumIn = len(s.in)
	s.atol = 1e-6
	return s
}

func genPRelu(r source, key opKey) *sample {
	shape := r.shape(r.IntN(5))
	s := r.call(key, nil, r.wild(shape...), r.floats(r.broadcastTo(shape)...))
	if r.one(2) {
		s.fix(1)
	}
	return s
}

func genUnscale(r source, key opKey) *sample {
	s := r.call(key, nil, r.wild(r.shape(r.IntN(5))...), tensor.Scalar(r.Float32()*1000+1))
	if r.one(3) {
		s.in[0] = r.floats(8192*r.IntN(3) + 100)
	}
	s.call.NumOut = 1 + r.IntN(2)
	s.exact = true
	return s
}

func genWhere(r source, key opKey) *sample {
	shape, d := r.shape(r.IntN(5)), r.dtype()
	part := func() []int {
		if r.one(3) {
			return shape
		}
		return r.broadcastTo(shape)
	}
	s := r.call(key, nil, r.bits(tensor.Bool, part()...), r.bits(d, part()...),
		r.bits(d, part()...))
	s.exact = true
	return s
}

func genCast(r source, key opKey) *sample {
	types := []tensor.DType{
		tensor.Float32,
		tensor.Float16,
		tensor.Int64,
		tensor.Int32,
		tensor.Int8,
		tensor.Uint8,
		tensor.Bool,
	}
	from, to := types[r.IntN(len(types))], types[r.IntN(len(types))]
	shape := r.shape(r.IntN(5))
	x := r.bits(from, shape...)
	if from == tensor.Float32 && r.one(2) {
		x = r.wild(shape...)
	}
	s := r.call(key, op.Attrs{op.IntAttr("to", int64(to))}, x)
	if key.name == "Not" {
		s = r.call(key, nil, r.bits(tensor.Bool, shape...))
	}
	s.exact = to.IsInteger() || to == tensor.Bool
	return s
}

func genPad(r source, key opKey) *sample {
	shape := r.shape(r.IntN(5))
	mode := r.pick("constant", "constant", "edge", "reflect", "wrap")
	pads := make([]int64, 2*len(shape))
	axes := r.Perm(len(shape))
	for i := range pads {
		n := min(shape[axes[i%len(shape)]], 4)
		if r.one(2) {
			pads[i] = int64(r.IntN(n+2) - r.IntN(2)*r.IntN(n+1)/2)
		}
	}
	d := r.dtype()
	if d == tensor.Complex128 { // which the operator does not take
		d = tensor.Int64
	}
	s := r.call(key, op.Attrs{op.StringAttr("mode", mode)}, r.bits(d, shape...))
	s.exact = true
	if s.call.Version < 11 {
		s.call.Attrs = append(s.call.Attrs, op.IntsAttr("pads", pads...))
		if r.one(2) {
			s.call.Attrs = append(s.call.Attrs, op.FloatAttr("value", float32(r.IntN(3))))
		}
		return s
	}
	s.in, s.constant = append(s.in, i64(pads...)), append(s.constant, !r.one(10))
	if r.one(2) {
		s.in, s.constant = append(s.in, r.bits(d)), append(s.constant, r.one(2))
	}
	if s.call.Version >= 18 && r.one(2) {
		for len(s.in) < 3 {
			s.in, s.constant = append(s.in, nil), append(s.constant, false)
		}
		named := ints64(axes)
		for i := range named {
			named[i] -= int64(len(shape) * r.IntN(2))
		}
		s.in, s.constant = append(s.in, i64(named...)), append(s.constant, true)
	}
	s.call.NumIn = len(s.in)
	return s
}

// genArithmetic makes calls on floats and, now and then, on integers and on bfloat16.
func genArithmetic(r source, key opKey) *sample {
	if (key.name == "Add" || key.name == "Mul") && r.one(4) {
		return genHalves(r, key)
	}
	if key.name != "Pow" && r.one(3) {
		return genIntegers(r, key)
	}
	return genBinary(r, key)
}

// genSum makes calls of two and of any number of operands.
func genSum(r source, key opKey) *sample {
	if (key.name == "Max" || key.name == "Min") && r.one(2) {
		return genArithmetic(r, key)
	}
	return genVariadic(r, key)
}

// genScatterND has places that recur, and now and then one that is outside.
func genScatterND(r source, key opKey) *sample {
	shape := r.shape(1 + r.IntN(4))
	for i := range shape {
		shape[i] = max(shape[i], 1)
	}
	if r.one(6) {
		shape = []int{1 + r.IntN(3000), 1 + r.IntN(40)}
	}
	depth := 1 + r.IntN(len(shape))
	places := r.shape(r.IntN(3))
	at := make([]int64, count(places)*depth)
	for i := range at {
		size := shape[i%depth]
		if at[i] = int64(r.IntN(2*size) - size); r.one(300) {
			at[i] = int64(size)
		}
	}
	updates := slices.Concat(places, shape[depth:])
	s := r.call(key, op.Attrs{op.StringAttr("reduction", r.pick("add", "add", "add", "mul"))},
		r.floats(shape...), tensor.From(at, append(slices.Clone(places), depth)...),
		r.floats(updates...))
	s.call.Version = []int{16, 18}[r.IntN(2)]
	s.exact = true
	return s
}
