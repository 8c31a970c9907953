package kernels

import (
	"context"
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// byteLSTMSteps returns what DynamicQuantizeLSTM's definition computes of each step alone: from the
// state that the kernel's Y says it had before the step. That makes the same bytes of it, where the
// definition's own state, which differs in the last place, may fall on the next byte now and then
// and carry that on. Steps, which are independent then, are entries of a batch of one long
// sequence, so that X keeps its one scale; the cell state, of which the kernel shows the last
// alone, goes from one to the next as the definition's.
func byteLSTMSteps(s *sample, got []*tensor.Tensor) ([]*tensor.Tensor, error) {
	o, err := op.Lookup(s.call.Domain, s.call.Type, s.call.Version)
	if err != nil {
		return nil, err
	}
	y, x := got[0], s.in[op.RNNX]
	seq, dirs, n := y.Shape[0], y.Shape[1], y.Shape[2]*y.Shape[3]
	ofY := func(v []float32, d, at int) []float32 { return v[(at*dirs+d)*n:][:n] }
	ofState := func(v []float32, d, at int) []float32 { return v[(d*seq+at)*n:][:n] }
	place := func(d, i int) int { // of step i
		if s.call.Attrs.String("direction", "") == "reverse" || d == 1 {
			return seq - 1 - i
		}
		return i
	}
	call, in := *s.call, slices.Clone(s.in)
	call.NumOut = 3
	in[op.RNNX] = tensor.From(tensor.As[float32](x), 1, seq*y.Shape[2], x.Shape[2])
	h, c := make([]float32, dirs*seq*n), make([]float32, dirs*seq*n)
	in[op.RNNInitialH] = tensor.From(h, dirs, seq*y.Shape[2], y.Shape[3])
	in[op.RNNInitialC] = tensor.From(c, dirs, seq*y.Shape[2], y.Shape[3])
	var out []*tensor.Tensor
	for i := range seq {
		for d := range dirs {
			toH, toC := ofState(h, d, place(d, i)), ofState(c, d, place(d, i))
			if i > 0 {
				copy(toH, ofY(tensor.As[float32](y), d, place(d, i-1)))
				copy(toC, ofState(tensor.As[float32](out[2]), d, place(d, i-1)))
				continue
			}
			start(toH, floatsOf(s.in[op.RNNInitialH]), d*n)
			start(toC, floatsOf(s.in[op.RNNInitialC]), d*n)
		}
		if out, err = op.Run(context.Background(), o, &call, in); err != nil {
			return nil, err
		}
	}
	want := make([]*tensor.Tensor, len(got))
	for k, g := range got {
		want[k] = g.Clone()
		for d := range dirs {
			if k > 0 {
				copy(tensor.As[float32](want[k])[d*n:],
					ofState(tensor.As[float32](out[k]), d, place(d, seq-1)))
				continue
			}
			for at := range seq {
				copy(ofY(tensor.As[float32](want[0]), d, at),
					ofState(tensor.As[float32](out[1]), d, at))
			}
		}
	}
	return want, nil
}

// floatsOf are the elements of a tensor that may be absent.
func floatsOf(t *tensor.Tensor) []float32 {
	if t == nil {
		return nil
	}
	return tensor.As[float32](t)
}

// byteLSTMError bounds the difference of the kernel and byteLSTMSteps. The kernel rounds a gate's
// sum, of whole numbers below 2^24, five times (biases, two products with scales, two sums), and
// the definition rounds both factors to float32: d = 7·2^-24 of the terms' magnitudes together. A
// sigmoid's slope is at most 1/4 and that of tanh 1, so a step, f·c + i·g, adds at most
// d·(|c|/4 + 1/4 + 1) to the error of the cell state, whose magnitude grows by at most 1; the
// output o·tanh(c) adds d/4.
func byteLSTMError(s *sample) float64 {
	bound := func(i int) float64 {
		if s.in[i] == nil {
			return 0
		}
		return largest(s.in[i])
	}
	terms := 2*bound(op.RNNB) + bound(op.RNNX)*s.columnSum(op.RNNW, microsoft.LSTMWScale) +
		max(1, bound(op.RNNInitialH))*s.columnSum(op.RNNR, microsoft.LSTMRScale)
	steps := float64(s.in[op.RNNX].Shape[0])
	d := 7 * 0x1p-24 * terms
	return d * (0.25 + steps*(1.25+(bound(op.RNNInitialC)+steps)/4))
}

// columnSum is the largest sum of magnitudes of a gate's weights, which are input i, with a scale
// and a zero point that follow each other.
func (s *sample) columnSum(i, scale int) (most float64) {
	w, of, zero := s.in[i], tensor.As[float32](s.in[scale]), s.in[scale+1]
	rows, gates := w.Shape[1], w.Shape[2]
	for column := range w.Shape[0] * gates {
		d, g := column/gates, column%gates
		at := func(t *tensor.Tensor) int { return column * t.Len() / w.Shape[0] / gates }
		sum := 0.0
		for row := range rows {
			q := zeroAt(w, (d*rows+row)*gates+g) - zeroAt(zero, at(zero))
			sum += math.Abs(float64(q * of[at(s.in[scale])]))
		}
		most = max(most, sum)
	}
	return most
}
