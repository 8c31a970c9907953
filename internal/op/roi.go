package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// roiOps pool regions of interest of images to one size: RoiAlign (He et al. 2017) and MaxRoiPool
// (Girshick 2015).
var roiOps = []Op{
	{Name: "RoiAlign", Since: []int{10, 16, 22}, MinIn: 3, MaxIn: 3, Infer: inferRoiAlign,
		Eval: InFloat32(evalRoiAlign), parts: partsOfRoiAlign},
	{Name: "MaxRoiPool", Since: []int{1, 22}, MinIn: 2, MaxIn: 2, Infer: inferMaxRoiPool,
		Eval: InFloat32(evalMaxRoiPool)},
}

// roiShape is what both operators give: regions × channels × height × width. columns is how many
// numbers a region has.
func (c *Infer) roiShape(height, width int64, columns int) error {
	x, _, err := c.PropagateDType(floatTypes)
	if err != nil {
		return err
	}
	if _, err := c.SameDType(floatTypes, x.DType, c.In[1].DType); err != nil {
		return err
	}
	h, w, err := c.roiSizes(height, width)
	if err != nil {
		return err
	}
	out := []Dim{Unknown(), Unknown(), Known(h), Known(w)}
	if x.Ranked {
		if len(x.Shape) != 4 {
			return c.Errorf(ErrInput, "X %v must be N × C × H × W", x)
		}
		out[1] = x.Shape[1]
	}
	if r := c.In[1]; r.Ranked {
		if len(r.Shape) != 2 || !r.Shape[1].MayEqual(Known(columns)) {
			return c.Errorf(ErrInput, "rois %v must be regions × %d", r, columns)
		}
		out[0] = r.Shape[0]
	}
	c.Out[0] = Ranked(x.DType, out...)
	return nil
}

// roiSize checks a size of the output.
//
//go:noinline
func (c *Call) roiSize(v int64) (int, error) {
	if v < 1 || v > math.MaxInt32 {
		return 0, c.Errorf(ErrAttr, "output of %d, must be positive", v)
	}
	return int(v), nil
}

// roiSizes checks the two sizes of the output.
func (c *Call) roiSizes(height, width int64) (h, w int, err error) {
	if h, err = c.roiSize(height); err == nil {
		w, err = c.roiSize(width)
	}
	return h, w, err
}

func inferRoiAlign(c *Infer) error {
	return c.roiShape(c.Attrs.Int("output_height", 1), c.Attrs.Int("output_width", 1), 4)
}

// pooledShape is the required attribute pooled_shape of MaxRoiPool.
func (c *Call) pooledShape() (height, width int64, err error) {
	v := c.Attrs.Ints("pooled_shape")
	if len(v) != 2 {
		return 0, 0, c.Errorf(ErrAttr, "pooled_shape is %v, must be height and width", v)
	}
	return v[0], v[1], nil
}

func inferMaxRoiPool(c *Infer) error {
	h, w, err := c.pooledShape()
	if err != nil {
		return err
	}
	return c.roiShape(h, w, 5)
}

// regions is one checked pooling: an image of each region, and its edges.
type regions struct {
	x, rois       []float64
	height, width int
	channels      int
	out           *tensor.Tensor
}

// newRegions checks the operands of regions of the given number of columns, and makes the output.
func newRegions(c *Eval, height, width int64, columns int) (r regions, err error) {
	x, rois := c.In[0], c.In[1]
	if _, err := c.SameDType(floatTypes, x.DType, rois.DType); err != nil {
		return r, err
	}
	if x.Rank() != 4 || rois.Rank() != 2 || rois.Shape[1] != columns {
		return r, c.Errorf(ErrInput, "X %v must be N × C × H × W, rois %v regions × %d", x.Shape,
			rois.Shape, columns)
	}
	h, w, err := c.roiSizes(height, width)
	if err != nil {
		return r, err
	}
	r.channels, r.height, r.width = x.Shape[1], x.Shape[2], x.Shape[3]
	if r.x, r.rois, err = c.FloatsPair(0, 1); err != nil {
		return r, err
	}
	r.out, err = c.Output(0, x.DType, []int{rois.Shape[0], r.channels, h, w})
	return r, err
}

// plane returns a channel of an image.
func (r *regions) plane(image, channel int) []float64 {
	n := r.height * r.width
	return r.x[(image*r.channels+channel)*n:][:n]
}

// image checks the number of an image.
func (c *Eval) image(v float64) (int, error) {
	if n := c.In[0].Shape[0]; !(v >= 0 && v < float64(n)) {
		return 0, c.Errorf(ErrInput, "a region lies in image %v of %d", v, n)
	}
	return int(v), nil
}

// aligning are the attributes of a RoiAlign.
type aligning struct {
	scale float64
	// pixels are squares around their coordinates, and regions may be smaller than one
	halved   bool
	sampling int64
	max      bool
}

func aligningOf(c *Call) (a aligning, err error) {
	a = aligning{scale: c.attr("spatial_scale", 1), sampling: c.Attrs.Int("sampling_ratio", 0)}
	if a.halved, err = halfPixel(c); err != nil {
		return a, err
	}
	switch mode := c.Attrs.String("mode", "avg"); mode {
	case "max":
		a.max = true
	case "avg":
	default:
		return a, c.Errorf(ErrAttr, "mode %q, must be avg or max", mode)
	}
	if a.sampling < 0 || a.sampling > maxSampling {
		return a, c.Errorf(ErrAttr, "sampling_ratio is %d, must be in [0, %d]", a.sampling,
			maxSampling)
	}
	return a, nil
}

// halfPixel reports whether coordinates are those of the middle of a pixel.
func halfPixel(c *Call) (bool, error) {
	how := "half_pixel"
	if c.Version < 16 {
		how = "output_half_pixel"
	}
	how = c.Attrs.String("coordinate_transformation_mode", how)
	if how != "half_pixel" && how != "output_half_pixel" {
		return false, c.Errorf(ErrAttr,
			"coordinate_transformation_mode %q, must be half_pixel or output_half_pixel", how)
	}
	return how == "half_pixel", nil
}

// maxSampling bounds the samples along one axis of one element: regions are data, and larger ones
// than this are no regions of an image.
const maxSampling = 1 << 12

// taps are the pixels between which each sample of each of bins lies along one axis of n pixels,
// and how many samples a bin has. A sample outside the image has none.
func (a *aligning) taps(c *Call, from, to float64, bins, n int) (taps [][2]tap, per int,
	err error) {
	from, to = from*a.scale, to*a.scale
	if a.halved {
		from, to = from-0.5, to-0.5
	}
	size := to - from
	if !a.halved {
		size = max(size, 1)
	}
	step := size / float64(bins)
	if per, err = a.samples(c, from, to, step); err != nil {
		return nil, 0, err
	}
	for b := range bins {
		for s := range per {
			v := from + float64(b)*step + (float64(s)+0.5)*step/float64(per)
			taps = append(taps, alignTaps(v, n))
		}
	}
	return taps, per, nil
}

// samples is how many samples a bin of the given size takes along an axis.
func (a *aligning) samples(c *Call, from, to, bin float64) (int, error) {
	n := float64(a.sampling)
	if n == 0 {
		n = math.Ceil(bin)
	}
	if !(n <= maxSampling) { // also when it is NaN
		return 0, c.Errorf(ErrInput, "region from %v to %v takes %v samples a bin, at most "+
			"%d are allowed: set sampling_ratio", from, to, n, maxSampling)
	}
	return max(int(n), 0), nil
}

// alignTaps are the pixels below and above v on an axis of n. Up to one pixel outside counts as the
// outermost one.
func alignTaps(v float64, n int) [2]tap {
	if !(v >= -1 && v <= float64(n)) {
		return [2]tap{{-1, 0}, {-1, 0}}
	}
	v = max(v, 0)
	low := int(v)
	if low >= n-1 {
		return [2]tap{{n - 1, 1}, {n - 1, 0}}
	}
	t := v - float64(low)
	return [2]tap{{low, 1 - t}, {low + 1, t}}
}

// evalRoiAlign averages samples between pixels. Mode max takes the largest of the weighted pixels
// themselves, as ONNX's implementations do.
func evalRoiAlign(c *Eval) error {
	a, err := aligningOf(c.Call)
	if err != nil {
		return err
	}
	r, err := newRegions(c, c.Attrs.Int("output_height", 1), c.Attrs.Int("output_width", 1), 4)
	if err != nil {
		return err
	}
	images, err := c.Ints(2)
	if err != nil {
		return err
	}
	if n := r.out.Shape[0]; len(images) != n {
		return c.Errorf(ErrInput, "%d batch_indices for %d regions", len(images), n)
	}
	for i, at := range images {
		image, err := c.image(float64(at))
		if err != nil {
			return err
		}
		if err := a.region(c, &r, i, image); err != nil {
			return err
		}
	}
	return nil
}

// region computes all elements of one region.
func (a *aligning) region(c *Eval, r *regions, i, image int) error {
	h, w := r.out.Shape[2], r.out.Shape[3]
	box := r.rois[i*4:][:4]
	rows, perRow, err := a.taps(c.Call, box[1], box[3], h, r.height)
	if err != nil {
		return err
	}
	cols, perCol, err := a.taps(c.Call, box[0], box[2], w, r.width)
	if err != nil {
		return err
	}
	for ch := range r.channels {
		plane := r.plane(image, ch)
		for p := range h * w {
			v := a.bin(plane, r.width, rows[p/w*perRow:][:perRow], cols[p%w*perCol:][:perCol])
			setFloat(r.out, (i*r.channels+ch)*h*w+p, v)
		}
		if err := c.Ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// bin reduces the samples of one element.
func (a *aligning) bin(plane []float64, width int, rows, cols [][2]tap) float64 {
	sum, best, found := 0.0, 0.0, false
	for _, y := range rows {
		for _, x := range cols {
			var corner [4]float64
			if y[0].index >= 0 && x[0].index >= 0 {
				for k := range corner {
					t, u := y[k/2], x[k%2]
					corner[k] = t.weight * u.weight * plane[t.index*width+u.index]
				}
			}
			sum += corner[0] + corner[1] + corner[2] + corner[3]
			if top := slices.Max(corner[:]); !found || top > best {
				best, found = top, true
			}
		}
	}
	if a.max {
		return best
	}
	return sum / float64(max(len(rows)*len(cols), 1))
}

// evalMaxRoiPool takes the largest pixel under each bin of a region, whose edges are rounded to
// pixels; 0 under an empty one.
func evalMaxRoiPool(c *Eval) error {
	height, width, err := c.pooledShape()
	if err != nil {
		return err
	}
	r, err := newRegions(c, height, width, 5)
	if err != nil {
		return err
	}
	scale := c.attr("spatial_scale", 1)
	h, w := r.out.Shape[2], r.out.Shape[3]
	for i := range r.out.Shape[0] {
		box := r.rois[i*5:][:5]
		image, err := c.image(box[0])
		if err != nil {
			return err
		}
		rows, cols := poolBins(box[2]*scale, box[4]*scale, h, r.height),
			poolBins(box[1]*scale, box[3]*scale, w, r.width)
		for p := range r.channels * h * w {
			plane := r.plane(image, p/(h*w))
			setFloat(r.out, i*r.channels*h*w+p, largest(plane, r.width, rows[p/w%h], cols[p%w]))
		}
	}
	return nil
}

// poolBins are the pixels from and up to which each of bins reaches along an axis of n pixels.
func poolBins(from, to float64, bins, n int) [][2]int {
	from, to = math.Round(from), math.Round(to)
	step := max(to-from+1, 1) / float64(bins)
	out := make([][2]int, bins)
	for b := range out {
		out[b] = [2]int{clamped(from+math.Floor(float64(b)*step), n),
			clamped(from+math.Ceil(float64(b+1)*step), n)}
	}
	return out
}

// clamped brings v, which may be no number at all, into [0, n].
func clamped(v float64, n int) int {
	if !(v > 0) {
		return 0
	}
	return int(min(v, float64(n)))
}

// largest is the largest element of a part of a plane, 0 when it is empty.
func largest(plane []float64, width int, rows, cols [2]int) float64 {
	best, found := 0.0, false
	for y := rows[0]; y < rows[1]; y++ {
		for x := cols[0]; x < cols[1]; x++ {
			if v := plane[y*width+x]; !found || v > best {
				best, found = v, true
			}
		}
	}
	return best
}
