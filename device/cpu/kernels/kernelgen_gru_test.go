package kernels

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// genGRU makes calls of GRU and RNN.
func genGRU(r source, key opKey) *sample {
	return r.recurrent(key, 1+r.IntN(6), 1+r.IntN(3), 1+r.IntN(20), 1+r.IntN(20))
}

// recurrent makes a call of GRU or RNN of these sizes.
func (r source) recurrent(key opKey, seq, batch, in, hidden int) *sample {
	gates := 3
	if key.name == "RNN" {
		gates = 1
	}
	direction, dirs := r.pick("forward", "reverse", "bidirectional"), 1
	if direction == "bidirectional" {
		dirs = 2
	}
	s := r.call(key,
		op.Attrs{op.StringAttr("direction", direction), op.IntAttr("hidden_size", int64(hidden))})
	lens := make([]int32, batch)
	for i := range lens {
		lens[i] = int32(r.IntN(seq + 1))
		if r.one(40) {
			lens[i] = int32(seq + 1)
		}
	}
	s.in = []*tensor.Tensor{
		r.floats(seq, batch, in),
		r.floats(dirs, gates*hidden, in),
		r.floats(dirs, gates*hidden, hidden),
		r.floats(dirs, 2*gates*hidden),
		tensor.From(lens, batch),
		r.floats(dirs, batch, hidden),
	}
	for i := op.RNNB; i <= op.RNNInitialH; i++ {
		if r.one(2) {
			s.in[i] = nil
		}
	}
	s.in = s.in[:3+r.IntN(4)]
	s.call.NumIn, s.constant = len(s.in), make([]bool, len(s.in))
	s.fixWeights(r)
	s.call.NumOut = 1 + r.IntN(2)
	s.absent = []bool{r.one(4), r.one(4)}[:s.call.NumOut]
	if gates == 3 && r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("linear_before_reset", 1))
	}
	names := []string{"Sigmoid", "Tanh"}
	if gates == 1 {
		names = []string{r.pick("Tanh", "Relu")}
	}
	switch r.IntN(12) {
	case 0:
		s.call.Attrs = append(s.call.Attrs, op.FloatAttr("clip", 0.5))
	case 1, 2, 3:
		s.call.Attrs = append(s.call.Attrs,
			op.StringsAttr("activations", slices.Repeat(names, dirs)...))
	}
	s.atol = 1e-4 // each of the steps enlarges the error of the state by the norm of R, some 7
	return s
}

// fixWeights makes the weights of a recurrent layer constant, now and then only some of them.
func (s *sample) fixWeights(r source) {
	s.fix(op.RNNW, op.RNNR, op.RNNB)
	if r.one(3) {
		s.constant[op.RNNW+r.IntN(min(3, len(s.in)-1))] = false
	}
}

// genRecurrentGradient makes calls of both cells, of any states, without some operands and results.
func genRecurrentGradient(r source, key opKey) *sample {
	seq, batch, in, hidden := 1+r.IntN(6), 1+r.IntN(5), 1+r.IntN(20), 1+r.IntN(40)
	if r.one(20) {
		seq, batch, hidden = 100+r.IntN(60), 3, 5
	}
	return r.recurrentGradient(key, seq, batch, in, hidden)
}

// recurrentGradient makes a call of these sizes.
func (r source) recurrentGradient(key opKey, seq, batch, in, hidden int) *sample {
	cell, gates := "LSTM", 4
	if r.one(2) {
		cell, gates = "GRU", 3
	}
	direction, dirs := r.pick("forward", "reverse", "bidirectional"), 1
	if direction == "bidirectional" {
		dirs = 2
	}
	s := r.call(key, op.Attrs{op.StringAttr("cell", cell), op.StringAttr("direction", direction)})
	y, states := []int{seq, dirs, batch, hidden}, []int{dirs, batch, hidden}
	weights := func(shape ...int) *tensor.Tensor {
		w := r.floats(shape...)
		for i := range tensor.As[float32](w) {
			tensor.As[float32](w)[i] /= float32(math.Sqrt(float64(shape[2])))
		}
		return w
	}
	s.in = []*tensor.Tensor{r.floats(seq, batch, in), weights(dirs, gates*hidden, in),
		weights(dirs, gates*hidden, hidden), r.floats(dirs, 2*gates*hidden), r.floats(states...),
		r.floats(states...), r.floats(y...), r.floats(y...), r.floats(states...),
		r.floats(states...)}
	for _, i := range []int{op.BackB, op.BackInitialH, op.BackInitialC, op.BackDY, op.BackDYH,
		op.BackDYC} {
		if r.one(3) || cell == "GRU" && (i == op.BackInitialC || i == op.BackDYC) {
			s.in[i] = nil
		}
	}
	s.call.NumIn, s.constant = len(s.in), make([]bool, len(s.in))
	s.call.NumOut = 1 + r.IntN(gates+2)
	for range s.call.NumOut {
		s.absent = append(s.absent, r.one(4))
	}
	s.atol = 1e-4
	return s
}
