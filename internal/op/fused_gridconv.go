package op

import "github.com/weirgpu/weir/tensor"

// fusedGridConv is a convolution of numbers that lie on the steps of integers: weir:GridConv(x,
// x_scale, x_zero, w, w_scale, w_zero, bias) is weir:Conv(Grid(x, x_scale, x_zero),
// DequantizeLinear(w, w_scale, w_zero), bias), of the attributes of that, for float32 x of one
// scale, and bytes w of one scale or one an output. The bias is optional.
var fusedGridConv = []Op{{Domain: FusedDomain, Name: "GridConv", Since: []int{1}, MinIn: 6,
	MaxIn: GridBias + 1, Optional: []int{GridBias}, Infer: inferGridConv, Eval: evalGridConv,
	Flops: qlinearFlops(convFlops)}}

// GridBias is the input of weir:GridConv after those that it shares with QLinearConv.
const GridBias = QLinearBZero + 1

// plainConv is the call of weir:Conv.
//
//go:noinline
func (c *Call) plainConv() *Call {
	return &Call{Domain: FusedDomain, Type: "Conv", Version: 1, Attrs: c.Attrs, NumIn: 3, NumOut: 1}
}

func inferGridConv(c *Infer) error {
	for _, i := range []int{QLinearA, QLinearAScale, QLinearBScale} {
		if !mayBeSame(c.In[i].DType, tensor.Float32) {
			return c.Errorf(ErrInput, "input %d is %v, must be float32", i, c.In[i].DType)
		}
	}
	if err := c.byteOperands(QLinearB); err != nil {
		return err
	}
	w := c.In[QLinearB]
	w.DType, w.Const, w.Elems = tensor.Float32, nil, nil
	in, present := []Type{c.In[QLinearA], w, {}}, []bool{true, true, c.Has(GridBias)}
	if present[2] {
		in[2] = c.In[GridBias]
	}
	return fusedConv.infer(&Infer{Call: c.plainConv(), In: in, Present: present, Out: c.Out})
}

func evalGridConv(c *Eval) error {
	grid := &Eval{Call: &Call{Domain: FusedDomain, Type: "Grid", NumIn: 3, NumOut: 1}, Ctx: c.Ctx,
		In: c.In[:QLinearB], Out: make([]*tensor.Tensor, 1)}
	if err := evalGrid(grid); err != nil {
		return err
	}
	back := &Call{Type: "DequantizeLinear", Version: 21, Attrs: Attrs{IntAttr("axis", 0)}, NumIn: 3,
		NumOut: 1}
	w := &Eval{Call: back, Ctx: c.Ctx, In: c.In[QLinearB:GridBias], Out: make([]*tensor.Tensor, 1)}
	if _, err := c.SameDType(byteTypes, c.In[QLinearB].DType); err != nil {
		return err
	}
	if err := evalDequantize(w); err != nil {
		return err
	}
	in := []*tensor.Tensor{grid.Out[0], w.Out[0], nil}
	if c.Has(GridBias) {
		in[2] = c.In[GridBias]
	}
	conv := &Eval{Call: c.plainConv(), Ctx: c.Ctx, In: in, Out: c.Out, Alloc: c.Alloc}
	return InFloat32(fusedConv.eval)(conv)
}

// GridSumsFit reports whether what the sums of weir:GridConv are multiples of fits 32 bits, where
// integers of the type of the zero point of x meet the bytes w around their zero points. Without
// its elements w is one that was asked about before.
func GridSumsFit(xZero, w, wZero *tensor.Tensor) bool {
	if len(w.Data) == 0 {
		return true
	}
	zero, err := xZero.Floats()
	if err != nil || len(zero) != 1 {
		return false
	}
	zeros, err := wZero.Ints()
	if err != nil || len(zeros) == 0 || w.Rank() == 0 ||
		w.DType != tensor.Uint8 && w.DType != tensor.Int8 {
		return false
	}
	lo, hi := integerRange(xZero.DType)
	most, taps := max(zero[0]-lo, hi-zero[0]), len(w.Data)/w.Shape[0]
	for c := range w.Shape[0] {
		sum := spread(w.Data[c*taps:][:taps], w.DType.IsSigned(), int32(zeros[c%len(zeros)]))
		if !(float64(sum)*most < 1<<31) {
			return false
		}
	}
	return true
}

// spread is the sum of how far each byte is from zero.
func spread(x []byte, signed bool, zero int32) (sum int64) {
	flip := int32(0)
	if signed { // as if unsigned, around zero moved as far
		flip, zero = 0x80, zero+0x80
	}
	for len(x) > 0 {
		part, n := int32(0), min(len(x), 1<<20)
		for _, b := range x[:n] {
			d := (int32(b) ^ flip) - zero
			m := d >> 31
			part += (d ^ m) - m
		}
		sum, x = sum+int64(part), x[n:]
	}
	return sum
}
