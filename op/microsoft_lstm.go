package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// dynamicLSTM holds DynamicQuantizeLSTM: LSTM (version 14, the batch second) whose weights are
// 8-bit integers, and whose inputs become ones: all of X on one scale, the state of each batch
// entry on a scale of its own at each step.
var dynamicLSTM = []Op{
	{Domain: MicrosoftDomain, Name: "DynamicQuantizeLSTM", Since: []int{1}, MinIn: 12, MaxIn: 12,
		MaxOut:   3,
		Optional: []int{rnnB, rnnLens, rnnH, rnnC, rnnP},
		Infer:    inferDynamicLSTM, Eval: evalDynamicLSTM,
		Flops: func(_ *Call, in, _ []Type) int64 {
			if len(in[rnnX].Shape) != 3 {
				return 0
			}
			steps := typeCount(Ranked(tensor.Float32, in[rnnX].Shape[:2]...))
			return 2 * steps * (typeCount(in[rnnW]) + typeCount(in[rnnR]))
		}},
}

// The inputs of DynamicQuantizeLSTM that follow those of LSTM, in order: scale and zero point of W,
// then of R. Inputs 3 to 7 may be left out.
const (
	dynWScale = rnnP + 1 + 2*iota
	dynRScale
)

var quantizedLSTM = cell{gates: 4, functions: []string{"Sigmoid", "Tanh", "Tanh"},
	step: (*layer).stepLSTM, roundState: roundToBytes}

// lstmCall is the call of LSTM alone.
func (c *Call) lstmCall() *Call {
	return &Call{Domain: c.Domain, Type: c.Type, Version: 14,
		Attrs: slices.DeleteFunc(slices.Clone(c.Attrs), func(a Attr) bool {
			return a.Name == "layout"
		}), NumIn: rnnP + 1, NumOut: c.NumOut}
}

// inferDynamicLSTM is the rule of LSTM with W and R transposed: directions × inputs × gates.
func inferDynamicLSTM(c *Infer) error {
	if err := c.byteOperands(rnnW, rnnR); err != nil {
		return err
	}
	in := slices.Clone(c.In[:rnnP+1])
	for _, i := range []int{rnnW, rnnR} {
		t := in[i]
		t.DType, t.Const, t.Elems = in[rnnX].DType, nil, nil
		if t.Ranked {
			if len(t.Shape) != 3 {
				return c.Errorf(ErrInput, "input %d is %v, must have rank 3", i, t)
			}
			t.Shape = []Dim{t.Shape[0], t.Shape[2], t.Shape[1]}
		}
		in[i] = t
	}
	return quantizedLSTM.infer(&Infer{Call: c.lstmCall(), In: in, Present: c.Present[:rnnP+1],
		Out: c.Out})
}

// evalDynamicLSTM is LSTM on the numbers that the integers stand for.
func evalDynamicLSTM(c *Eval) error {
	if d := c.In[rnnX].DType; d != tensor.Float32 {
		return c.Errorf(ErrInput, "X is %v, must be float32", d)
	}
	in := slices.Clone(c.In[:rnnP+1])
	var err error
	if in[rnnW], err = c.lstmWeights(rnnW, dynWScale); err != nil {
		return err
	}
	if in[rnnR], err = c.lstmWeights(rnnR, dynRScale); err != nil {
		return err
	}
	x, err := c.floats(rnnX)
	if err != nil {
		return err
	}
	roundToBytes(x)
	t, err := tensor.New(tensor.Float32, c.In[rnnX].Shape...)
	if err != nil {
		return err
	}
	setFloats(t, x)
	in[rnnX] = t
	e := &Eval{Call: c.lstmCall(), Ctx: c.Ctx, In: in, Out: make([]*tensor.Tensor, c.NumOut),
		Alloc: c.Alloc}
	if err := quantizedLSTM.eval(e); err != nil {
		return err
	}
	c.Out = e.Out
	return nil
}

// lstmWeights is operand i, directions × inputs × gates, as directions × gates × inputs of float32;
// scale and zero point have one element a direction, or one for each of its gates.
func (c *Eval) lstmWeights(i, scale int) (*tensor.Tensor, error) {
	w := c.In[i]
	if _, err := c.sameDType(byteTypes, w.DType); err != nil {
		return nil, err
	}
	if w.Rank() != 3 {
		return nil, c.Errorf(ErrInput, "input %d has shape %v, must have rank 3", i, w.Shape)
	}
	q, err := c.floats(i)
	if err != nil {
		return nil, err
	}
	dirs, inputs, gates := w.Shape[0], w.Shape[1], w.Shape[2]
	scales, err := c.lstmScales(scale, dirs, gates)
	if err != nil {
		return nil, err
	}
	zeros, err := c.lstmScales(scale+1, dirs, gates)
	if err != nil {
		return nil, err
	}
	t, err := tensor.New(tensor.Float32, dirs, gates, inputs)
	if err != nil {
		return nil, err
	}
	for k, v := range q {
		d, in, g := k/gates/inputs, k/gates%inputs, k%gates
		setFloat(t, (d*gates+g)*inputs+in, (v-zeros[d*gates+g])*scales[d*gates+g])
	}
	return t, nil
}

// lstmScales returns input i, one a direction or one for each of its gates, as one for each gate.
func (c *Eval) lstmScales(i, dirs, gates int) ([]float64, error) {
	v, err := c.floats(i)
	if err != nil {
		return nil, err
	}
	if len(v) == dirs*gates {
		return v, nil
	}
	if len(v) != dirs {
		return nil, c.Errorf(ErrInput, "input %d has shape %v, must have %d elements, or %d × %d",
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
	scale, zero := DynamicGrid(x)
	for i, f := range x {
		q := min(max(math.RoundToEven(float64(f/scale))+zero, 0), math.MaxUint8)
		v[i] = (q - zero) * float64(scale)
	}
}
