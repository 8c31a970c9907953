package microsoft

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// matMulNBits is a product with weights of 2, 4 or 8 bits, which come in blocks along K that each
// have a scale and a zero point. Attribute accuracy_level, which allows a runtime to round A,
// changes nothing here: weir:MatMulNBits does so.
func matMulNBits() op.Op {
	o := composition(op.Op{Name: "MatMulNBits", MinIn: 3, MaxIn: 6, Flops: nBitsFlops}, allRounded,
		defineMatMulNBits)
	o.Infer = inferMatMulNBits
	return o
}

// Inputs of MatMulNBits (com.microsoft), and of its fused form, in order.
const (
	NBitsA = iota
	NBitsB
	NBitsScales
	NBitsZeros
	NBitsGroups
	NBitsBias
)

// nBits is the layout of the weights: N rows of blocks of K.
type nBits struct{ n, k, bits, block, blocks int }

func nBitsFlops(c *op.Call, _, out []op.Type) int64 {
	return 2 * min(max(c.Attrs.Int("K", 0), 0), math.MaxInt32) * out[0].Elements()
}

// readNBits reads the layout from the attributes.
func readNBits(c *op.Call) (w nBits, err error) {
	for _, name := range []string{"K", "N", "block_size"} {
		if v := c.Attrs.Int(name, 0); v < 1 || v > math.MaxInt32 {
			return w, c.Errorf(op.ErrAttr, "%s is %d, must be positive", name, v)
		}
	}
	w = nBits{n: int(c.Attrs.Int("N", 0)), k: int(c.Attrs.Int("K", 0)),
		bits:  int(c.Attrs.Int("bits", 4)),
		block: int(c.Attrs.Int("block_size", 0))}
	if w.bits != 2 && w.bits != 4 && w.bits != 8 {
		return w, c.Errorf(op.ErrUnsupported, "weights of %d bits; there are 2, 4 and 8", w.bits)
	}
	if w.block < 16 || w.block&(w.block-1) != 0 {
		return w, c.Errorf(op.ErrAttr, "block_size is %d, must be a power of two of 16 or more",
			w.block)
	}
	if c.Attrs.Int("weight_prepacked", 0) != 0 {
		return w, c.Errorf(op.ErrUnsupported, "weights in a layout of another device")
	}
	w.blocks = (w.k + w.block - 1) / w.block
	return w, nil
}

// inferMatMulNBits replaces the last dimension of A, K, by N.
func inferMatMulNBits(c *op.Infer) error {
	w, err := readNBits(c.Call)
	if err != nil {
		return err
	}
	a, ranked, err := c.PropagateDType(floatTypes)
	if err != nil || !ranked {
		return err
	}
	last := len(a.Shape) - 1
	if last < 0 || !a.Shape[last].MayEqual(op.Known(w.k)) {
		return c.Errorf(op.ErrInput, "A is %v, its last dimension must be K = %d", a, w.k)
	}
	shape := slices.Clone(a.Shape)
	shape[last] = op.Known(w.n)
	c.Out[0] = op.Ranked(a.DType, shape...)
	if b := c.In[NBitsB]; b.Ranked {
		if n, ok := b.Count().Int(); ok && n != w.n*w.blocks*w.block*w.bits/8 {
			return c.Errorf(op.ErrInput, "B is %v, must have %d × %d blocks of %d bytes", b, w.n,
				w.blocks, w.block*w.bits/8)
		}
	}
	return nil
}

// defineMatMulNBits is a product with the weights as numbers, which it can only be once they are
// known.
func defineMatMulNBits(x *expander) {
	layout, err := readNBits(x.Call)
	if err != nil {
		x.Err = err
		return
	}
	var in [6]*tensor.Tensor
	for i := NBitsB; i < NBitsBias; i++ {
		v := x.Input(i)
		if in[i] = x.TypeOf(v).Const; in[i] == nil && v != op.Absent {
			x.Later()
			return
		}
	}
	w, err := layout.weights(x.Call, in)
	if err != nil {
		x.Err = err
		return
	}
	a := x.Input(NBitsA)
	y := x.Op("MatMul", nil, a, x.Cast(x.Constant(w), x.DType(a)))
	if b := x.Input(NBitsBias); b != op.Absent {
		y = x.nbitsBiased(y, b, layout.n)
	}
	x.Give(0, y)
}

// nbitsBiased adds a bias of n elements.
func (x *expander) nbitsBiased(y, b op.Var, n int) op.Var {
	if s := x.Ranked(b, "bias", 1); x.Err == nil && !s[0].MayEqual(op.Known(n)) {
		x.Fail(op.ErrInput, "bias is %v, must have %d elements", x.TypeOf(b), n)
	}
	return x.Add(y, b)
}

// weights returns the weights as float32, K × N: element k of row n is (q - zero) · scale of its
// block, or of block g_idx[k].
func (w nBits) weights(c *op.Call, in [6]*tensor.Tensor) (*tensor.Tensor, error) {
	scales, err := w.scales(c, in)
	if err != nil {
		return nil, err
	}
	zeros, err := w.zeros(c, in[NBitsZeros])
	if err != nil {
		return nil, err
	}
	groups, err := w.groups(c, in[NBitsGroups])
	if err != nil {
		return nil, err
	}
	out, err := tensor.New(tensor.Float32, w.k, w.n)
	if err != nil {
		return nil, err
	}
	v, row := tensor.As[float32](out), w.blocks*w.block*w.bits/8
	for n := range w.n {
		for k, g := range groups {
			q := w.field(in[NBitsB].Data[n*row:], k)
			v[k*w.n+n] = float32((float64(q) - zeros[n*w.blocks+g]) * scales[n*w.blocks+g])
		}
	}
	return out, nil
}

// scales checks the shapes of weights and scales and returns the scales.
func (w nBits) scales(c *op.Call, in [6]*tensor.Tensor) ([]float64, error) {
	if b := in[NBitsB]; b.DType != tensor.Uint8 || b.Len() != w.n*w.blocks*w.block*w.bits/8 {
		return nil, c.Errorf(op.ErrInput,
			"B is %v%v, must be uint8 with %d × %d blocks of %d bytes", b.DType, b.Shape, w.n,
			w.blocks, w.block*w.bits/8)
	}
	scales, err := in[NBitsScales].Floats()
	if err != nil || len(scales) != w.n*w.blocks {
		return nil, c.Errorf(op.ErrInput, "scales are %v%v, must be %d × %d", in[NBitsScales].DType,
			in[NBitsScales].Shape, w.n, w.blocks)
	}
	return scales, nil
}

// field is number i of those packed in bytes, the first in the lowest bits.
func (w nBits) field(packed []byte, i int) int {
	per := 8 / w.bits
	return int(packed[i/per]) >> (i % per * w.bits) & (1<<w.bits - 1)
}

// zeros are the zero points of all blocks: given as floats or packed like the weights, row by row;
// else half the range.
func (w nBits) zeros(c *op.Call, t *tensor.Tensor) ([]float64, error) {
	n := w.n * w.blocks
	switch {
	case t == nil:
		return slices.Repeat([]float64{float64(int(1) << (w.bits - 1))}, n), nil
	case t.DType != tensor.Uint8:
		v, err := t.Floats()
		if err != nil || len(v) != n || !floatTypes.Has(t.DType) {
			return nil, c.Errorf(op.ErrInput,
				"zero points are %v%v, must be uint8 or float, %d × %d",
				t.DType, t.Shape, w.n, w.blocks)
		}
		return v, nil
	}
	row := (w.blocks*w.bits + 7) / 8
	if t.Len() != w.n*row {
		return nil, c.Errorf(op.ErrInput,
			"zero points are uint8%v, must be packed as %d × %d bytes", t.Shape, w.n, row)
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(w.field(t.Data[i/w.blocks*row:], i%w.blocks))
	}
	return v, nil
}

// groups tells which block's scale each place along K has.
func (w nBits) groups(c *op.Call, t *tensor.Tensor) ([]int, error) {
	groups := make([]int, w.k)
	if t == nil || t.Len() == 0 {
		for k := range groups {
			groups[k] = k / w.block
		}
		return groups, nil
	}
	v, err := t.Ints()
	if err != nil || len(v) < w.k {
		return nil, c.Errorf(op.ErrInput, "g_idx is %v%v, must have K = %d elements", t.DType,
			t.Shape, w.k)
	}
	for k := range groups {
		if groups[k] = int(v[k]); v[k] < 0 || v[k] >= int64(w.blocks) {
			return nil, c.Errorf(op.ErrInput, "g_idx[%d] is %d, there are %d blocks", k, v[k],
				w.blocks)
		}
	}
	return groups, nil
}
