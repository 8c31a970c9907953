package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/refmath"
)

// deformOps is convolution whose taps are moved by an operand (Dai et al. 2017; the mask is of Zhu
// et al. 2019).
var deformOps = []Op{
	{Name: "DeformConv", Since: []int{19, 22}, MinIn: 3, MaxIn: 5, Infer: inferDeformConv,
		Eval:  InFloat32(evalDeformConv),
		Flops: convFlops},
}

// Inputs of DeformConv, in order.
const (
	deformX = iota
	deformW
	deformOffset
	deformBias
	deformMask
)

func inferDeformConv(c *Infer) error {
	x, ranked, err := c.PropagateDType(floatTypes)
	if err != nil {
		return err
	}
	if _, err := c.SameDType(floatTypes, c.DTypes()...); err != nil {
		return err
	}
	w := c.In[deformW]
	if !ranked || !w.Ranked {
		return nil
	}
	if len(x.Shape) < 3 || len(w.Shape) != len(x.Shape) {
		return c.Errorf(ErrInput, "X %v and W %v must have one rank, 3 or more", x, w)
	}
	out := slices.Concat([]Dim{x.Shape[0], w.Shape[0]}, unknownDims(len(x.Shape)-2))
	c.Out[0] = Ranked(x.DType, out...)
	kernel, ok := knownInts(w.Shape[2:])
	if !ok {
		return nil
	}
	win, err := c.Window(kernel)
	if err != nil {
		return err
	}
	sized, err := win.outDims(c.Call, x.Shape)
	if err == nil {
		copy(out[2:], sized[2:])
	}
	return err
}

// deformation is one checked evaluation on concrete shapes.
type deformation struct {
	Window
	in, out           []int // spatial
	x, w, offset      []float64
	mask              []float64 // nil without the input
	channels, outs    int
	group, offsets    int // attributes group and offset_group
	strides           []int
	images, positions int
	taps              int
}

func evalDeformConv(c *Eval) error {
	d, err := newDeformation(c)
	if err != nil {
		return err
	}
	y, err := c.Output(0, c.In[deformX].DType, slices.Concat([]int{d.images, d.outs}, d.out))
	if err != nil {
		return err
	}
	bias, err := c.floatsOrZeros(deformBias, d.outs)
	if err != nil {
		return err
	}
	column := make([]float64, d.channels*d.taps)
	per, outPer := d.channels/d.group*d.taps, d.outs/d.group
	for image := range d.images {
		for p := range d.positions {
			d.gather(column, image, p)
			for o := range d.outs {
				v := refmath.Dot(d.w[o*per:][:per], column[o/outPer*per:])
				setFloat(y, (image*d.outs+o)*d.positions+p, bias[o]+v)
			}
		}
	}
	return nil
}

func newDeformation(c *Eval) (d deformation, err error) {
	x, w := c.In[deformX], c.In[deformW]
	if _, err := c.SameDType(floatTypes, c.DTypes()...); err != nil {
		return d, err
	}
	if x.Rank() < 3 || w.Rank() != x.Rank() {
		return d, c.Errorf(ErrInput, "X %v and W %v must have one rank, 3 or more", x.Shape,
			w.Shape)
	}
	if d.Window, err = c.windowOfWeights(w.Shape); err != nil {
		return d, err
	}
	d.in, d.strides = x.Shape[2:], rowMajor(x.Shape[2:])
	if d.out, err = d.Place(c.Call, d.in); err != nil {
		return d, err
	}
	d.images, d.channels, d.outs = x.Shape[0], x.Shape[1], w.Shape[0]
	d.positions, d.taps = count(d.out), count(d.Kernel)
	if err := d.groups(c); err != nil {
		return d, err
	}
	return d, d.operands(c)
}

// operands checks the groups and reads the operands.
func (d *deformation) operands(c *Eval) (err error) {
	if d.x, err = c.Floats(deformX); err != nil {
		return err
	}
	if d.w, err = c.FloatsOf(deformW,
		slices.Concat([]int{d.outs, d.channels / d.group}, d.Kernel)...); err != nil {
		return err
	}
	rank := len(d.in)
	if d.offset, err = c.FloatsOf(deformOffset,
		slices.Concat([]int{d.images, d.offsets * d.taps * rank}, d.out)...); err != nil {
		return err
	}
	if c.Has(deformMask) {
		d.mask, err = c.FloatsOf(deformMask,
			slices.Concat([]int{d.images, d.offsets * d.taps}, d.out)...)
	}
	return err
}

// groups reads how the channels are grouped for the weights and for the offsets.
func (d *deformation) groups(c *Eval) (err error) {
	if d.group, err = c.Group(); err != nil {
		return err
	}
	d.offsets = int(c.Attrs.Int("offset_group", 1))
	if d.offsets < 1 || d.channels == 0 || d.channels%d.offsets != 0 || d.channels%d.group != 0 ||
		d.outs%d.group != 0 {
		return c.Errorf(ErrAttr,
			"group %d and offset_group %d do not divide %d channels in and %d out", d.group,
			d.offsets, d.channels, d.outs)
	}
	return nil
}

// gather sets column to what the moved taps of every channel read at one position of an image.
func (d *deformation) gather(column []float64, image, position int) {
	rank := len(d.in)
	place, tap, at := make([]int, rank), make([]int, rank), make([]float64, rank)
	unravel(place, d.out, position)
	perGroup := d.channels / d.offsets
	plane := count(d.in)
	for og := range d.offsets {
		clear(tap)
		for t := range d.taps {
			k := (image*d.offsets+og)*d.taps + t
			d.move(at, place, tap, k, position)
			weight := 1.0
			if d.mask != nil {
				weight = d.mask[k*d.positions+position]
			}
			for ch := og * perGroup; ch < (og+1)*perGroup; ch++ {
				x := d.x[(image*d.channels+ch)*plane:][:plane]
				column[ch*d.taps+t] = weight * interpolate(x, 0, d.in, d.strides, at)
			}
			increment(tap, d.Kernel)
		}
	}
}

// move sets at to where a tap at a place reads, moved by offset k of the position.
func (d *deformation) move(at []float64, place, tap []int, k, position int) {
	for i := range at {
		moved := d.offset[(k*len(at)+i)*d.positions+position]
		at[i] = float64(place[i]*d.Stride[i]+tap[i]*d.Dilation[i]-d.Begin[i]) + moved
	}
}

// interpolate reads x between its elements, linearly along each axis; beyond them it is zero.
func interpolate(x []float64, offset int, shape, strides []int, at []float64) float64 {
	if len(shape) == 0 {
		return x[offset]
	}
	v, n := at[0], shape[0]
	if !(v > -1 && v < float64(n)) { // also when v is NaN
		return 0
	}
	low := int(math.Floor(v))
	sum, t := 0.0, v-float64(low)
	if low >= 0 && t < 1 {
		sum += (1 - t) * interpolate(x, offset+low*strides[0], shape[1:], strides[1:], at[1:])
	}
	if low+1 < n && t > 0 {
		sum += t * interpolate(x, offset+(low+1)*strides[0], shape[1:], strides[1:], at[1:])
	}
	return sum
}
