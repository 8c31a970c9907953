package kernels

import (
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// genGRU makes calls of GRU and RNN.
func genGRU(r source, key opKey) *sample {
	seq, batch, in, hidden := 1+r.IntN(6), 1+r.IntN(3), 1+r.IntN(20), 1+r.IntN(20)
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
