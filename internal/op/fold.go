package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// foldOps add up overlapping blocks to an image: Col2Im, the inverse of what convolution gathers. A
// sum of floats is computed in float64: in float32 it is within 2^-23 of the exact one, relative to
// the sum of magnitudes, for up to 2^29 blocks over one element.
var foldOps = []Op{
	{Name: "Col2Im", Since: []int{18}, MinIn: 3, MaxIn: 3, Infer: inferCol2Im,
		Eval: InFloat32(evalCol2Im)},
}

// inferCol2Im shapes N × C × image_shape; each block holds C·|block_shape| elements.
func inferCol2Im(c *Infer) error {
	x, ranked, err := c.PropagateDType(numberTypes)
	if err != nil {
		return err
	}
	if ranked && len(x.Shape) != 3 {
		return c.Errorf(ErrInput, "input %v must be N × C·block × blocks", x)
	}
	image, block := c.Dims(1), c.Dims(2)
	n := max(c.length(1), c.length(2), len(image), len(block))
	if n < 1 || n > MaxElems {
		return nil
	}
	if image != nil && block != nil && len(image) != len(block) {
		return c.Errorf(ErrInput, "image_shape %v and block_shape %v differ in rank", image, block)
	}
	out := unknownDims(n + 2)
	copy(out[2:], image)
	if ranked {
		out[0] = x.Shape[0]
		if block != nil {
			out[1] = x.Shape[1].Quotient(Ranked(x.DType, block...).Count())
		}
	}
	c.Out[0] = Ranked(x.DType, out...)
	return c.checkDims(out)
}

func evalCol2Im(c *Eval) error {
	x := c.In[0]
	if _, err := c.SameDType(numberTypes, x.DType); err != nil {
		return err
	}
	image, err := c.sizesInput(1)
	if err != nil {
		return err
	}
	block, err := c.sizesInput(2)
	if err != nil {
		return err
	}
	w, blocks, err := c.foldWindow(image, block)
	if err != nil {
		return err
	}
	channels := x.Shape[1] / count(block)
	out, err := c.ZeroOutput(0, x.DType, slices.Concat([]int{x.Shape[0], channels}, image))
	if err != nil || x.Len() == 0 {
		return err
	}
	w.addBlocks(out, x, blocks)
	return nil
}

// addBlocks adds up, in each image of out, the blocks that are the columns of x. blocks tells how
// many there are along each axis.
func (w *Window) addBlocks(out, x *tensor.Tensor, blocks []int) {
	image, taps := out.Shape[2:], count(w.Kernel)
	plane, places, place := count(image), count(blocks), make([]int, len(blocks))
	loopsOf[x.DType].addUp(out, x, func(add func(to, from int)) {
		for at := range places {
			w.inside(place, image, func(tap, offset int) {
				for p := range count(out.Shape[:2]) {
					add(p*plane+offset, (p*taps+tap)*places+at)
				}
			})
			increment(place, blocks)
		}
	})
}

// addUp sets each element of out to the sum of those of in that each adds to it. The sums are wide
// and rounded once.
func (*loopsOn[T, W]) addUp(out, in *tensor.Tensor, each func(add func(to, from int))) {
	v, o, sum := tensor.As[T](in), tensor.As[T](out), make([]W, out.Len())
	each(func(to, from int) { sum[to] += W(v[from]) })
	for i, s := range sum {
		o[i] = T(s)
	}
}

// foldWindow is the window of a block over the image, and how many blocks there are along each
// axis.
func (c *Eval) foldWindow(image, block []int) (w Window, blocks []int, err error) {
	x := c.In[0]
	if x.Rank() != 3 || len(image) == 0 || len(image) != len(block) {
		return w, nil, c.Errorf(ErrInput, "input %v, image_shape %v and block_shape %v do not fit",
			x.Shape, image, block)
	}
	if w, err = c.Window(block); err != nil {
		return w, nil, err
	}
	if blocks, err = w.Place(c.Call, image); err != nil {
		return w, nil, err
	}
	taps, err := tensor.Count(block)
	if err != nil || taps == 0 || x.Shape[1]%taps != 0 || product(blocks) != float64(x.Shape[2]) {
		return w, nil, c.Errorf(ErrInput, "input %v must be N × C·%v × %v blocks", x.Shape, block,
			blocks)
	}
	return w, blocks, nil
}

// product multiplies sizes that may overflow an integer.
func product(v []int) float64 {
	p := 1.0
	for _, n := range v {
		p *= float64(n)
	}
	return p
}
