package microsoft

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// dynamicLSTM holds DynamicQuantizeLSTM: LSTM (version 14, the batch second) whose weights are
// 8-bit integers, and whose inputs become ones: all of X on one scale, the state of each batch
// entry on a scale of its own at each step.
var dynamicLSTM = []op.Op{
	{Domain: Domain, Name: "DynamicQuantizeLSTM", Since: []int{1}, MinIn: 12, MaxIn: 12,
		MaxOut:   3,
		Optional: []int{op.RNNB, op.RNNLens, op.RNNInitialH, op.RNNInitialC, op.RNNPeepholes},
		Infer:    inferDynamicLSTM, Eval: evalDynamicLSTM,
		Flops: func(_ *op.Call, in, _ []op.Type) int64 {
			if len(in[op.RNNX].Shape) != 3 {
				return 0
			}
			steps := op.Ranked(tensor.Float32, in[op.RNNX].Shape[:2]...).Elements()
			return 2 * steps * (in[op.RNNW].Elements() + in[op.RNNR].Elements())
		}},
}

// Inputs of DynamicQuantizeLSTM that follow those of LSTM, in order: scale and zero point of W,
// then of R. Inputs 3 to 7 may be left out.
const (
	LSTMWScale = op.RNNPeepholes + 1 + 2*iota
	LSTMRScale
)

// quantizedInfer and quantizedEval are LSTM whose state becomes bytes before each product.
var quantizedInfer, quantizedEval = op.RoundedLSTM(roundToBytes)

// lstmCall is the call of LSTM alone.
func lstmCall(c *op.Call) *op.Call {
	return &op.Call{Domain: c.Domain, Type: c.Type, Version: 14,
		Attrs: slices.DeleteFunc(slices.Clone(c.Attrs), func(a op.Attr) bool {
			return a.Name == "layout"
		}), NumIn: op.RNNPeepholes + 1, NumOut: c.NumOut}
}

// inferDynamicLSTM is the rule of LSTM with W and R transposed: directions × inputs × gates.
func inferDynamicLSTM(c *op.Infer) error {
	if _, err := c.SameDType(byteTypes, c.In[op.RNNW].DType); err != nil {
		return err
	}
	if _, err := c.SameDType(byteTypes, c.In[op.RNNR].DType); err != nil {
		return err
	}
	in := slices.Clone(c.In[:op.RNNPeepholes+1])
	for _, i := range []int{op.RNNW, op.RNNR} {
		t := in[i]
		t.DType, t.Const, t.Elems = in[op.RNNX].DType, nil, nil
		if t.Ranked {
			if len(t.Shape) != 3 {
				return c.Errorf(op.ErrInput, "input %d is %v, must have rank 3", i, t)
			}
			t.Shape = []op.Dim{t.Shape[0], t.Shape[2], t.Shape[1]}
		}
		in[i] = t
	}
	return quantizedInfer(&op.Infer{Call: lstmCall(c.Call), In: in,
		Present: c.Present[:op.RNNPeepholes+1],
		Out:     c.Out})
}

// evalDynamicLSTM is LSTM on the numbers that the integers stand for.
func evalDynamicLSTM(c *op.Eval) error {
	if d := c.In[op.RNNX].DType; d != tensor.Float32 {
		return c.Errorf(op.ErrInput, "X is %v, must be float32", d)
	}
	in := slices.Clone(c.In[:op.RNNPeepholes+1])
	var err error
	if in[op.RNNW], err = lstmWeights(c, op.RNNW, LSTMWScale); err != nil {
		return err
	}
	if in[op.RNNR], err = lstmWeights(c, op.RNNR, LSTMRScale); err != nil {
		return err
	}
	if in[op.RNNX], err = roundedX(c); err != nil {
		return err
	}
	e := &op.Eval{Call: lstmCall(c.Call), Ctx: c.Ctx, In: in, Out: make([]*tensor.Tensor, c.NumOut),
		Alloc: c.Alloc}
	if err := quantizedEval(e); err != nil {
		return err
	}
	c.Out = e.Out
	return nil
}

// roundedX is X with the values that its bytes stand for.
func roundedX(c *op.Eval) (*tensor.Tensor, error) {
	x, err := c.Floats(op.RNNX)
	if err != nil {
		return nil, err
	}
	roundToBytes(x)
	t, err := tensor.New(tensor.Float32, c.In[op.RNNX].Shape...)
	if err != nil {
		return nil, err
	}
	op.SetFloats(t, x)
	return t, nil
}

// lstmWeights is operand i, directions × inputs × gates, as directions × gates × inputs of float32;
// scale and zero point have one element a direction, or one for each of its gates.
func lstmWeights(c *op.Eval, i, scale int) (*tensor.Tensor, error) {
	w := c.In[i]
	if _, err := c.SameDType(byteTypes, w.DType); err != nil {
		return nil, err
	}
	if w.Rank() != 3 {
		return nil, c.Errorf(op.ErrInput, "input %d has shape %v, must have rank 3", i, w.Shape)
	}
	q, err := c.Floats(i)
	if err != nil {
		return nil, err
	}
	dirs, inputs, gates := w.Shape[0], w.Shape[1], w.Shape[2]
	scales, err := lstmScales(c, scale, dirs, gates)
	if err != nil {
		return nil, err
	}
	zeros, err := lstmScales(c, scale+1, dirs, gates)
	if err != nil {
		return nil, err
	}
	t, err := tensor.New(tensor.Float32, dirs, gates, inputs)
	if err != nil {
		return nil, err
	}
	out := tensor.As[float32](t)
	for k, v := range q {
		d, in, g := k/gates/inputs, k/gates%inputs, k%gates
		out[(d*gates+g)*inputs+in] = float32((v - zeros[d*gates+g]) * scales[d*gates+g])
	}
	return t, nil
}

// lstmScales returns input i, one a direction or one for each of its gates, as one for each gate.
func lstmScales(c *op.Eval, i, dirs, gates int) ([]float64, error) {
	v, err := c.Floats(i)
	if err != nil {
		return nil, err
	}
	if len(v) == dirs*gates {
		return v, nil
	}
	if len(v) != dirs {
		return nil, c.Errorf(op.ErrInput,
			"input %d has shape %v, must have %d elements, or %d × %d",
			i, c.In[i].Shape, dirs, dirs, gates)
	}
	out := make([]float64, 0, dirs*gates)
	for _, s := range v {
		out = append(out, slices.Repeat([]float64{s}, gates)...)
	}
	return out, nil
}

// roundToBytes replaces numbers by those that uint8 stands for on the scale that just holds them,
// as DynamicQuantizeLinear does.
func roundToBytes(v []float64) {
	x := make([]float32, len(v))
	for i, f := range v {
		x[i] = float32(f)
	}
	scale, zero := op.DynamicGrid(x)
	for i, f := range x {
		q := min(max(math.RoundToEven(float64(f/scale))+zero, 0), math.MaxUint8)
		v[i] = (q - zero) * float64(scale)
	}
}
