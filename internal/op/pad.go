package op

import (
	"slices"

	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// padOps enlarge or cut tensors at their borders: Pad, CenterCropPad.
var padOps = []Op{
	{Name: "Pad", Since: []int{2, 11, 13, 18, 19, 21, 23, 24, 25}, MinIn: 1, MaxIn: 4,
		Infer: inferPad, Eval: evalPad, grad: gradPad},
	{Name: "CenterCropPad", Since: []int{18}, MinIn: 2, MaxIn: 2, Infer: inferCenterCropPad,
		Eval: evalCenterCropPad, grad: gradMoved},
}

// padAxes are the axes that the entries of pads speak of: all, or those of input 3 (opset 18).
func padAxes(c *Call, rank int, as []int64, given bool) ([]int, error) {
	if !given {
		as = AllAxes(rank)
	}
	return c.axes(as, rank)
}

func inferPad(c *Infer) error {
	in := c.In[0]
	c.Out[0] = Unranked(in.DType)
	if c.Version >= 11 && !c.Has(1) {
		return c.Errorf(ErrInput, "input 1, the pads, is required")
	}
	if err := c.checkPadValue(); err != nil {
		return err
	}
	if !in.Ranked {
		return nil
	}
	c.Out[0] = Ranked(in.DType, unknownDims(len(in.Shape))...)
	pads := c.Dims(1)
	if c.Version < 11 {
		pads = exprs(c.Attrs.Ints("pads"))
	}
	as, known := c.Ints(3)
	if pads == nil || c.Has(3) && !known {
		return nil
	}
	axes, err := padAxes(c.Call, len(in.Shape), as, c.Has(3))
	if err != nil {
		return err
	}
	if len(pads) != 2*len(axes) {
		return c.Errorf(ErrInput, "%d pads for %d axes", len(pads), len(axes))
	}
	copy(c.Out[0].Shape, in.Shape)
	for i, k := range axes {
		c.Out[0].Shape[k] = in.Shape[k].Add(pads[i]).Add(pads[i+len(axes)])
	}
	return c.checkDims(c.Out[0].Shape)
}

// checkPadValue checks that the constant to pad with, if there is one, is one element of the
// input's type.
func (c *Infer) checkPadValue() error {
	if !c.Has(2) {
		return nil
	}
	v, d := c.In[2], c.In[0].DType
	n, known := v.Count().Int()
	if known && v.Ranked && n != 1 || !mayBeSame(v.DType, d) {
		return c.Errorf(ErrInput, "constant_value is %v, wants one %v", v, d)
	}
	return nil
}

// border is what one axis gains before and after; negative amounts cut.
type border struct{ before, after int }

// padOperands returns the pads, two an axis, and the axes.
func (c *Eval) padOperands() (pads []int64, axes []int, err error) {
	pads, given, err := c.intsArg("pads", 1, 11)
	if err != nil {
		return nil, nil, err
	}
	if !given {
		return nil, nil, c.Errorf(ErrAttr, "has no pads")
	}
	var as []int64
	if c.Has(3) {
		if as, err = c.Ints(3); err != nil {
			return nil, nil, err
		}
	}
	if axes, err = padAxes(c.Call, c.In[0].Rank(), as, c.Has(3)); err == nil &&
		len(pads) != 2*len(axes) {
		err = c.Errorf(ErrInput, "%d pads for %d axes", len(pads), len(axes))
	}
	return pads, axes, err
}

func (c *Eval) padBorders() ([]border, error) {
	pads, axes, err := c.padOperands()
	if err != nil {
		return nil, err
	}
	out := make([]border, c.In[0].Rank())
	for i, k := range axes {
		n := int64(c.In[0].Shape[k])
		b, a := pads[i], pads[i+len(axes)]
		if most := int64(tensor.MaxHeapBytes); b > most || a > most || b < -n || a < -n ||
			n+b+a < 0 {
			return nil, c.Errorf(ErrInput, "pads %v for %v", pads, c.In[0].Shape)
		}
		out[k] = border{int(b), int(a)}
	}
	return out, nil
}

// padValue is what constant mode fills with: attribute value before opset 11, else input 2, by
// default zero.
func (c *Eval) padValue() (*tensor.Tensor, error) {
	d := c.In[0].DType
	v, err := tensor.New(d)
	if err != nil {
		return nil, err
	}
	if c.Version < 11 {
		if c.Attrs.Float("value", 0) == 0 {
			return v, nil
		}
		return v, castInto(c.Call, v, tensor.Scalar(c.Attrs.Float("value", 0)))
	}
	if c.Has(2) {
		return c.In[2], nil
	}
	return v, nil
}

// padSource maps index i of a padded axis (i counts from the first element of the input) to the
// input's index.
func padSource(mode string, i, n int) int {
	switch mode {
	case "edge":
		return min(max(i, 0), n-1)
	case "wrap":
		return ((i % n) + n) % n
	}
	if n == 1 {
		return 0
	}
	i = ((i % (2*n - 2)) + 2*n - 2) % (2*n - 2) // a reflection repeats with period 2n-2
	return min(i, 2*n-2-i)
}

func (c *Call) padMode() (string, error) {
	mode := c.Attrs.String("mode", "constant")
	if !slices.Contains([]string{"constant", "edge", "reflect", "wrap"}, mode) {
		return "", c.Errorf(ErrAttr, "mode %q", mode)
	}
	return mode, nil
}

func evalPad(c *Eval) error {
	in := c.In[0]
	borders, err := c.padBorders()
	if err != nil {
		return err
	}
	mode, err := c.padMode()
	if err != nil {
		return err
	}
	if c.Has(2) && (c.In[2].DType != in.DType || c.In[2].Len() != 1) {
		return c.Errorf(ErrInput, "constant_value is %v, wants one %v", c.In[2], in.DType)
	}
	shape := make([]int, in.Rank())
	for k, b := range borders {
		shape[k] = in.Shape[k] + b.before + b.after
	}
	out, err := c.Output(0, in.DType, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	if mode != "constant" {
		return c.padFrom(out, in, borders, mode)
	}
	return c.padConstant(out, in, borders)
}

// padConstant fills out with the constant and copies what the borders leave of in into it.
func (c *Eval) padConstant(out, in *tensor.Tensor, borders []border) error {
	v, err := c.padValue()
	if err != nil {
		return err
	}
	if err := fillWith(out, v); err != nil {
		return err
	}
	return padCopy(out, in, borders)
}

// kept is the part of an axis of n elements that negative borders leave: lo … lo+size-1.
func (b border) kept(n int) (lo, size int) {
	lo = -min(b.before, 0)
	return lo, max(0, n-lo+min(b.after, 0))
}

// padCopy copies what is kept of in to its place.
func padCopy(out, in *tensor.Tensor, borders []border) error {
	to, from := strided.RowMajor(out.Shape), strided.RowMajor(in.Shape)
	shape := make([]int, len(borders))
	for k, b := range borders {
		var lo int
		lo, shape[k] = b.kept(in.Shape[k])
		to.Offset += max(b.before, 0) * to.Strides[k]
		from.Offset += lo * from.Strides[k]
	}
	return strided.Copy(out, to, in, from, shape)
}

// padFrom pads with elements of the input, one axis after the other: each index of the padded axis
// takes a whole slice.
func (c *Eval) padFrom(out, in *tensor.Tensor, borders []border, mode string) error {
	t := in
	for k, b := range borders {
		if b == (border{}) {
			continue
		}
		lo, n := b.kept(in.Shape[k])
		if n == 0 {
			return c.Errorf(ErrInput, "mode %q has nothing to take from at axis %d of %v", mode, k,
				in.Shape)
		}
		shape := slices.Clone(t.Shape)
		shape[k] = out.Shape[k]
		next, err := tensor.New(in.DType, shape...)
		if err != nil {
			return err
		}
		for i := range out.Shape[k] {
			if err := copySlice(next, i, t, lo+padSource(mode, i-max(b.before, 0), n),
				k); err != nil {
				return err
			}
		}
		t = next
	}
	copyElems(out, 0, t, 0, out.Len())
	return nil
}

func inferCenterCropPad(c *Infer) error {
	in := c.In[0]
	c.Out[0] = Unranked(in.DType)
	if !in.Ranked {
		return nil
	}
	axes, err := padAxes(c.Call, len(in.Shape), c.Attrs.Ints("axes"), c.Attrs.Has("axes"))
	if err != nil {
		return err
	}
	want := c.Dims(1)
	if want == nil {
		want = unknownDims(len(axes))
	}
	if len(want) != len(axes) {
		return c.Errorf(ErrInput, "%d sizes for %d axes", len(want), len(axes))
	}
	c.Out[0] = Ranked(in.DType, slices.Clone(in.Shape)...)
	for i, k := range axes {
		c.Out[0].Shape[k] = want[i]
	}
	return c.checkDims(want)
}

// evalCenterCropPad cuts or zero-pads each axis evenly at both ends; the odd element goes to the
// end.
func evalCenterCropPad(c *Eval) error {
	in := c.In[0]
	axes, err := padAxes(c.Call, in.Rank(), c.Attrs.Ints("axes"), c.Attrs.Has("axes"))
	if err != nil {
		return err
	}
	want, err := c.sizesInput(1)
	if err != nil {
		return err
	}
	if len(want) != len(axes) {
		return c.Errorf(ErrInput, "%d sizes for %d axes", len(want), len(axes))
	}
	shape, borders := slices.Clone(in.Shape), make([]border, in.Rank())
	for i, k := range axes {
		gain := want[i] - in.Shape[k]
		shape[k], borders[k] = want[i], border{gain / 2, gain - gain/2}
	}
	out, err := c.ZeroOutput(0, in.DType, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	return padCopy(out, in, borders)
}
