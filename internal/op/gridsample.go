package op

import (
	"math"
	"slices"
)

// sampleOps read images at computed places: GridSample.
var sampleOps = []Op{
	{Name: "GridSample", Since: []int{16, 20, 22}, MinIn: 2, MaxIn: 2, Infer: inferGridSample,
		Eval: evalGridSample, parts: partsOfGridSample},
}

func inferGridSample(c *Infer) error {
	x, grid := c.In[0], c.In[1]
	c.Out[0] = Unranked(x.DType)
	if !x.Ranked || !grid.Ranked {
		return nil
	}
	r := len(x.Shape)
	if r < 3 || len(grid.Shape) != r {
		return c.Errorf(ErrInput, "grid %v for %v", grid, x)
	}
	n, err := c.sameDim(x.Shape[0], grid.Shape[0], 1, 0)
	if err != nil {
		return err
	}
	c.Out[0] = Ranked(x.DType, slices.Concat([]Dim{n, x.Shape[1]}, grid.Shape[1:r-1])...)
	return nil
}

// sampler holds the attributes of a GridSample.
type sampler struct {
	mode    string // nearest, linear, cubic
	padding string // zeros, border, reflection
	corners bool   // -1 and 1 are the centers of the outer pixels, not their outer edges
}

func samplerOf(c *Call) (*sampler, error) {
	s := &sampler{mode: c.Attrs.String("mode", "linear"),
		padding: c.Attrs.String("padding_mode", "zeros"),
		corners: c.Attrs.Bool("align_corners", false)}
	switch s.mode { // the names of opset 16
	case "bilinear":
		s.mode = "linear"
	case "bicubic":
		s.mode = "cubic"
	}
	if !slices.Contains([]string{"nearest", "linear", "cubic"}, s.mode) {
		return nil, c.Errorf(ErrAttr, "mode %q", s.mode)
	}
	if !slices.Contains([]string{"zeros", "border", "reflection"}, s.padding) {
		return nil, c.Errorf(ErrAttr, "padding_mode %q", s.padding)
	}
	return s, nil
}

// tap is one pixel along an axis that a sample reads, and its weight. Index -1 reads as zero.
type tap struct {
	index  int
	weight float64
}

// edges are the coordinates at which an axis of n pixels is reflected.
func (s *sampler) edges(n int) (lo, hi float64) {
	if s.corners {
		return 0, float64(n - 1)
	}
	return -0.5, float64(n) - 0.5
}

// place brings a coordinate that lies outside the image into it, as the padding mode says.
func (s *sampler) place(v float64, n int) float64 {
	lo, hi := s.edges(n)
	switch {
	case v >= lo && v <= hi || s.padding == "zeros":
		return v
	case s.padding == "border":
		return min(max(v, 0), float64(n-1))
	}
	return reflect(v, lo, hi)
}

// reflect folds v into [lo, hi] by mirrors at both ends.
func reflect(v, lo, hi float64) float64 {
	span := hi - lo
	if span <= 0 {
		return lo
	}
	d := math.Mod(v-lo, 2*span)
	if d < 0 {
		d += 2 * span
	}
	if d > span {
		d = 2*span - d
	}
	return lo + d
}

// pixel is a tap on pixel i, which may lie outside the image.
func (s *sampler) pixel(i float64, n int, weight float64) tap {
	if i < 0 || i > float64(n-1) {
		i = s.place(i, n)
		if s.padding == "border" {
			i = min(max(i, 0), float64(n-1))
		}
	}
	if !(i > -1 && i < float64(n)) { // also when i is NaN
		return tap{-1, weight}
	}
	return tap{int(i), weight}
}

// taps are the pixels of an axis of n that a sample at the normalised coordinate g reads.
func (s *sampler) taps(g float64, n int, to []tap) []tap {
	v := ((g+1)*float64(n) - 1) / 2
	if s.corners {
		v = (g + 1) / 2 * float64(n-1)
	}
	if s.mode == "nearest" {
		return append(to, s.pixel(s.place(math.RoundToEven(v), n), n, 1))
	}
	v = s.place(v, n)
	base := math.Floor(v)
	t := v - base
	if s.mode == "linear" {
		return append(to, s.pixel(base, n, 1-t), s.pixel(base+1, n, t))
	}
	for k, w := range cubicWeights(t) {
		to = append(to, s.pixel(base+float64(k-1), n, w))
	}
	return to
}

// cubicWeights are Keys' cubic convolution weights with a = -0.75 of the pixels at -1, 0, 1 and 2
// for a point at t.
func cubicWeights(t float64) [4]float64 {
	const a = -0.75
	near := func(x float64) float64 { return ((a+2)*x-(a+3))*x*x + 1 }
	far := func(x float64) float64 { return ((a*x-5*a)*x+8*a)*x - 4*a }
	return [4]float64{far(t + 1), near(t), near(1 - t), far(2 - t)}
}

// sampleSum adds up the pixels that all combinations of taps name, one list an axis.
func sampleSum(x []float64, at int, axes [][]tap, strides []int) float64 {
	if len(axes) == 0 {
		return x[at]
	}
	var sum float64
	for _, t := range axes[0] {
		if t.index >= 0 {
			sum += t.weight * sampleSum(x, at+t.index*strides[0], axes[1:], strides[1:])
		}
	}
	return sum
}

func evalGridSample(c *Eval) error {
	x, grid := c.In[0], c.In[1]
	r := x.Rank() - 2
	if r < 1 || grid.Rank() != r+2 || grid.Shape[r+1] != r || grid.Shape[0] != x.Shape[0] {
		return c.Errorf(ErrInput, "grid %v for %v", grid.Shape, x.Shape)
	}
	s, err := samplerOf(c.Call)
	if err != nil {
		return err
	}
	pixels, err := x.Floats()
	if err != nil {
		return c.Errorf(ErrInput, "%v", err)
	}
	coords, err := grid.Floats()
	if err != nil {
		return c.Errorf(ErrInput, "grid: %v", err)
	}
	out, err := c.Output(0, x.DType, slices.Concat(x.Shape[:2], grid.Shape[1:r+1]))
	if err != nil || out.Len() == 0 {
		return err
	}
	if x.Len() == 0 {
		return c.Errorf(ErrInput, "X of shape %v has nothing to sample", x.Shape)
	}
	v := s.sample(pixels, coords, x.Shape, count(grid.Shape[1:r+1]))
	if !narrowFloats(out, 0, v) {
		return c.Errorf(ErrUnsupported, "samples of %v", x.DType)
	}
	return nil
}

// sample computes points samples for each image and channel of pixels.
func (s *sampler) sample(pixels, coords []float64, shape []int, points int) []float64 {
	images, channels, sizes := shape[0], shape[1], shape[2:]
	r, strides := len(sizes), rowMajor(shape)
	out := make([]float64, images*channels*points)
	axes := make([][]tap, r)
	for i := range images * points {
		for k, n := range sizes {
			// the grid names the last axis first
			axes[k] = s.taps(coords[i*r+r-1-k], n, axes[k][:0])
		}
		image, p := i/points, i%points
		for ch := range channels {
			at := image*strides[0] + ch*strides[1]
			out[(image*channels+ch)*points+p] = sampleSum(pixels, at, axes, strides[2:])
		}
	}
	return out
}
