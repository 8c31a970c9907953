package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// resize holds the operators that resample along any axes.
var resize = []Op{
	Op{Name: "Resize", Since: []int{10, 11, 13, 18, 19}, MinIn: 1, MaxIn: 4, Infer: inferResize,
		Eval: InFloat32(evalResize)}.derived(gradResize),
	Op{Name: "Upsample", Since: []int{7, 9}, MinIn: 1, MaxIn: 2, Infer: inferResize,
		Eval: InFloat32(evalResize)}.derived(gradResize),
}

// resizing is what the attributes of a call say.
type resizing struct {
	mode, coordinate, nearest, policy string
	cubicA, extrapolation             float64
	excludeOutside, antialias         bool
	// the rules of Upsample and of Resize-10, which have no attributes for them
	first bool
}

func newResizing(c *Call) (r resizing, err error) {
	r = resizing{
		mode:           c.Attrs.String("mode", "nearest"),
		coordinate:     c.Attrs.String("coordinate_transformation_mode", "half_pixel"),
		nearest:        c.Attrs.String("nearest_mode", "round_prefer_floor"),
		policy:         c.Attrs.String("keep_aspect_ratio_policy", "stretch"),
		cubicA:         c.attr("cubic_coeff_a", -0.75),
		extrapolation:  c.attr("extrapolation_value", 0),
		excludeOutside: c.Attrs.Bool("exclude_outside", false),
		antialias:      c.Attrs.Bool("antialias", false),
	}
	if c.Version < 11 || c.Type == "Upsample" { // their texts define x / scale, and floor
		r.coordinate, r.nearest, r.first = "asymmetric", "floor", true
	}
	return r, r.check(c)
}

// check refuses attribute values that the text does not list.
func (r *resizing) check(c *Call) error {
	for _, v := range []struct {
		name, value string
		allowed     []string
	}{
		{"mode", r.mode, []string{"nearest", "linear", "cubic"}},
		{"coordinate_transformation_mode", r.coordinate,
			[]string{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
				"asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"}},
		{"nearest_mode", r.nearest,
			[]string{"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}},
		{"keep_aspect_ratio_policy", r.policy, []string{"stretch", "not_larger", "not_smaller"}},
	} {
		if !slices.Contains(v.allowed, v.value) {
			return c.Errorf(ErrAttr, "%s is %q, must be one of %v", v.name, v.value, v.allowed)
		}
	}
	return nil
}

// resizeInputs returns which inputs hold roi, scales and sizes, -1 where the version has none.
//
//go:noinline
func (c *Call) resizeInputs() (roi, scales, sizes int) {
	switch {
	case c.Type == "Upsample" && c.Version < 9:
		return -1, -1, -1
	case c.Type == "Upsample" || c.Version < 11:
		return -1, 1, -1
	}
	return 1, 2, 3
}

// resizeAxes returns the axes that scales, sizes and roi speak of: all of them, or attribute axes
// since version 18.
func (c *Call) resizeAxes(rank int) ([]int, error) {
	given := c.Attrs.Ints("axes")
	if given == nil || c.Version < 18 {
		given = AllAxes(rank)
	}
	return c.axes(given, rank)
}

// target is the output size and scale of every axis of a resize, and its region of interest: start
// and end in units of the input, 0 and 1 where the coordinate mode does not use it. Shape rules
// know no region.
type target struct {
	size  []int
	scale []float64
	roi   [][2]float64
}

// as reports whether axis a, of n elements, is left as it is.
func (t *target) as(a, n int, r *resizing) bool {
	return t.scale[a] == 1 && t.size[a] == n && r.coordinate != "tf_crop_and_resize"
}

// resizeTo computes the target for a concrete input shape. Exactly one of scales and sizes is not
// empty.
func (c *Call) resizeTo(r resizing, in []int, axes []int, scales []float32,
	sizes []int64) (t target, err error) {
	t = target{size: slices.Clone(in), scale: slices.Repeat([]float64{1}, len(in))}
	if err := c.checkResize(len(axes), len(scales), len(sizes)); err != nil {
		return t, err
	}
	for i, s := range scales {
		a := axes[i]
		n := math.Floor(float64(s * float32(in[a]))) // in float32, as scales are stored
		if !(s > 0) || n > math.MaxInt32 {
			return t, c.Errorf(ErrInput, "scale %v of axis %d with %d elements is out of range", s,
				a, in[a])
		}
		t.size[a], t.scale[a] = int(n), float64(s)
	}
	for i, n := range sizes {
		if n < 1 || n > math.MaxInt32 || in[axes[i]] == 0 {
			return t, c.Errorf(ErrInput, "size %d of axis %d with %d elements is out of range", n,
				axes[i], in[axes[i]])
		}
		t.size[axes[i]], t.scale[axes[i]] = int(n), float64(n)/float64(in[axes[i]])
	}
	if len(sizes) > 0 && r.policy != "stretch" {
		t.keepAspect(in, axes, r.policy == "not_larger")
	}
	return t, nil
}

// checkResize checks that one of scales and sizes is given, with one element for each axis.
func (c *Call) checkResize(axes, scales, sizes int) error {
	if scales > 0 == (sizes > 0) && axes > 0 {
		return c.Errorf(ErrInput, "exactly one of scales and sizes must be given")
	}
	if n := scales + sizes; n != axes {
		return c.Errorf(ErrInput, "%d scales or sizes for %d axes", n, axes)
	}
	return nil
}

// keepAspect gives all resized axes one scale of those that were asked for, as attribute
// keep_aspect_ratio_policy says: the smallest (not_larger, and smaller holds), or the largest
// (not_smaller).
func (t *target) keepAspect(in, axes []int, smaller bool) {
	scale := t.scale[axes[0]]
	for _, a := range axes {
		if smaller {
			scale = min(scale, t.scale[a])
		} else {
			scale = max(scale, t.scale[a])
		}
	}
	for _, a := range axes {
		t.scale[a], t.size[a] = scale, int(math.Floor(scale*float64(in[a])+0.5))
	}
}

// inferResize knows the output where scales or sizes are constant; integral scales and their
// reciprocals also resize symbolic dimensions.
func inferResize(c *Infer) error {
	x := c.In[0]
	c.Out[0] = Unranked(x.DType)
	r, err := newResizing(c.Call)
	if err != nil || !x.Ranked {
		return err
	}
	axes, err := c.resizeAxes(len(x.Shape))
	if err != nil {
		return err
	}
	out := slices.Clone(x.Shape)
	for _, a := range axes {
		out[a] = Unknown()
	}
	c.Out[0] = Ranked(x.DType, out...)
	scales, dims, err := c.resizeConsts()
	if err != nil {
		return err
	}
	if in, ok := x.Ints(); ok {
		return c.resizeStatic(r, in, axes, scales, dims)
	}
	for i, a := range axes {
		switch {
		case len(dims) == len(axes) && r.policy == "stretch":
			out[a] = dims[i]
		case len(scales) == len(axes):
			out[a] = scaleDim(x.Shape[a], scales[i])
		}
	}
	return nil
}

// resizeStatic sets output 0 for a known input shape, when scales or sizes are known too.
func (c *Infer) resizeStatic(r resizing, in, axes []int, scales []float32, dims []Dim) error {
	sizes, known := Type{Elems: dims}.IntElems()
	if len(scales) == 0 && (!known || len(dims) == 0) {
		return nil
	}
	t, err := c.resizeTo(r, in, axes, scales, int64s(sizes))
	if err == nil {
		c.Out[0] = Concrete(c.In[0].DType, t.size...)
	}
	return err
}

func int64s(v []int) []int64 {
	out := make([]int64, len(v))
	for i, n := range v {
		out[i] = int64(n)
	}
	return out
}

// resizeConsts returns the scales when they are constant and the sizes as far as they are known.
func (c *Infer) resizeConsts() (scales []float32, sizes []Dim, err error) {
	_, at, sizeAt := c.resizeInputs()
	if at < 0 {
		return c.Attrs.Floats("scales"), nil, nil
	}
	if t := c.Const(at); t != nil {
		if scales, err = c.scalesOf(t); err != nil {
			return nil, nil, err
		}
	}
	if sizeAt > 0 {
		sizes = c.Dims(sizeAt)
	}
	return scales, sizes, nil
}

// scalesOf returns the elements of the scales operand.
func (c *Call) scalesOf(t *tensor.Tensor) ([]float32, error) {
	if !t.DType.IsFloat() {
		return nil, c.Errorf(ErrInput, "scales are %v, must be float32", t.DType)
	}
	v, err := t.Floats()
	scales := make([]float32, len(v))
	for i, s := range v {
		scales[i] = float32(s)
	}
	return scales, err
}

// scaleDim is floor(d · s) where that is a polynomial in the symbols.
func scaleDim(d Dim, s float32) Dim {
	if n := math.Round(float64(s)); float64(s) == n && n >= 1 && n < 1<<20 {
		return d.MulInt(int(n))
	}
	if n := math.Round(1 / float64(s)); s > 0 && n < 1<<20 && float32(1/n) == s &&
		math.Mod(math.Log2(n), 1) == 0 {
		return d.FloorDiv(int(n))
	}
	return Unknown()
}

func evalResize(c *Eval) error {
	x := c.In[0]
	r, err := newResizing(c.Call)
	if err != nil {
		return err
	}
	axes, err := c.resizeAxes(x.Rank())
	if err != nil {
		return err
	}
	t, err := c.resizeTarget(r, axes)
	if err != nil {
		return err
	}
	out, err := c.Output(0, x.DType, t.size)
	if err != nil || out.Len() == 0 {
		return err
	}
	if r.mode == "nearest" {
		r.takeNearest(out, x, t)
		return nil
	}
	if _, err := c.SameDType(numberTypes, x.DType); err != nil {
		return err
	}
	return r.interpolate(out, x, t)
}

func (c *Eval) resizeTarget(r resizing, axes []int) (target, error) {
	_, scalesAt, sizesAt := c.resizeInputs()
	scales, err := c.Attrs.Floats("scales"), error(nil)
	if scalesAt > 0 {
		scales = nil
		if c.Has(scalesAt) {
			if scales, err = c.scalesOf(c.In[scalesAt]); err != nil {
				return target{}, err
			}
		}
	}
	var sizes []int64
	if sizesAt > 0 && c.Has(sizesAt) {
		if sizes, err = c.Ints(sizesAt); err != nil {
			return target{}, err
		}
	}
	t, err := c.resizeTo(r, c.In[0].Shape, axes, scales, sizes)
	if err == nil {
		t.roi, err = c.resizeROI(r, axes)
	}
	return t, err
}

// resizeROI returns the region of interest as start and end of every axis, in units of the input; 0
// and 1 where the coordinate mode does not use it.
func (c *Eval) resizeROI(r resizing, axes []int) ([][2]float64, error) {
	roi := slices.Repeat([][2]float64{{0, 1}}, c.In[0].Rank())
	at, _, _ := c.resizeInputs()
	if r.coordinate != "tf_crop_and_resize" || at < 0 {
		return roi, nil
	}
	v, err := c.Floats(at)
	if err != nil {
		return nil, err
	}
	if len(v) != 2*len(axes) {
		return nil, c.Errorf(ErrInput, "roi has %d elements, must have %d", len(v), 2*len(axes))
	}
	for i, a := range axes {
		roi[a] = [2]float64{v[i], v[len(axes)+i]}
	}
	return roi, nil
}

// source maps an output coordinate of axis a to the input, by the formulas of
// coordinate_transformation_mode.
func (r *resizing) source(i, in, out int, scale float64, roi [2]float64) float64 {
	x, width := float64(i), scale*float64(in)
	switch r.coordinate {
	case "half_pixel_symmetric":
		centre := float64(in) / 2
		return centre*(1-float64(out)/width) + (x+0.5)/scale - 0.5
	case "pytorch_half_pixel":
		if out == 1 {
			return -0.5
		}
	case "align_corners":
		if out == 1 {
			return 0
		}
		return x * float64(in-1) / (width - 1)
	case "asymmetric":
		return x / scale
	case "tf_half_pixel_for_nn":
		return (x + 0.5) / scale
	case "tf_crop_and_resize":
		return cropped(x, in, out, width, roi)
	}
	return (x+0.5)/scale - 0.5
}

// cropped maps a coordinate into the region of interest: its middle where there is one output.
func cropped(x float64, in, out int, width float64, roi [2]float64) float64 {
	last := float64(in - 1)
	if out == 1 {
		return 0.5 * (roi[0] + roi[1]) * last
	}
	return roi[0]*last + x*(roi[1]-roi[0])*last/(width-1)
}

// outside reports whether the extrapolation value is used at an input coordinate.
func (r *resizing) outside(x float64, in int) bool {
	return r.coordinate == "tf_crop_and_resize" && (x < 0 || x > float64(in-1))
}

// clampIndex bounds a coordinate to [0, n); one that is no number, from a degenerate roi, becomes
// 0.
func clampIndex(x float64, n int) int {
	if math.IsNaN(x) {
		return 0
	}
	return int(max(0, min(float64(n-1), x)))
}

// round picks the input index nearest to a coordinate, by nearest_mode.
func (r *resizing) round(x float64, n int) int {
	switch r.nearest {
	case "floor":
		x = math.Floor(x)
	case "ceil":
		x = math.Ceil(x)
	case "round_prefer_ceil":
		x = math.Floor(x + 0.5)
	default:
		x = math.Ceil(x - 0.5)
	}
	return clampIndex(x, n)
}

// takeNearest copies one input element to each output element; any type will do.
func (r *resizing) takeNearest(out, in *tensor.Tensor, t target) {
	stride := rowMajor(in.Shape)
	nearest := make([][]int, len(t.size)) // to each output index along each axis; -1 is outside
	for a := range nearest {
		nearest[a] = r.nearestOn(a, in.Shape[a], t)
	}
	index, blank := make([]int, len(t.size)), newBlank(out.DType)
	for at := range out.Len() {
		from := nearestTo(index, nearest, stride)
		switch {
		case from >= 0:
			copyElems(out, at, in, from, 1)
		case numberTypes.Has(out.DType):
			setFloat(out, at, r.extrapolation)
		default:
			copyElems(out, at, blank, 0, 1)
		}
		increment(index, t.size)
	}
}

// nearestTo is the offset of the input element next to an output index; -1 is outside.
func nearestTo(index []int, nearest [][]int, stride []int) int {
	from := 0
	for a, i := range index {
		if nearest[a][i] < 0 {
			return -1
		}
		from += nearest[a][i] * stride[a]
	}
	return from
}

// nearestOn returns the input index nearest to each output index of axis a, which has n elements in
// the input; -1 is outside. Resize-10 takes the element after the place where it shrinks, as ONNX's
// cases of that version and its implementations do.
func (r *resizing) nearestOn(a, n int, t target) []int {
	out := make([]int, t.size[a])
	for i := range out {
		if t.as(a, n, r) {
			out[i] = i
			continue
		}
		x := r.source(i, n, len(out), t.scale[a], t.roi[a])
		if r.first && t.scale[a] < 1 {
			x = math.Ceil(x)
		}
		if out[i] = r.round(x, n); r.outside(x, n) {
			out[i] = -1
		}
	}
	return out
}

// newBlank makes one zero element of any type.
func newBlank(d tensor.DType) *tensor.Tensor {
	return &tensor.Tensor{DType: d, Shape: []int{}, Data: make([]byte, (d.Bits()+7)/8),
		Strings: make([]string, 1)}
}

// contribution is the weighted input indices that make one output index along an axis.
type contribution struct {
	index   []int
	weight  []float64
	outside bool
}

// contributions returns the contributions of axis of size in, resized to out.
func (r *resizing) contributions(in, out int, scale float64, roi [2]float64) []contribution {
	cs := make([]contribution, out)
	for i := range cs {
		x := r.source(i, in, out, scale, roi)
		base := math.Ceil(x) - 1 // the neighbour on the left, at a distance in (0, 1]
		first, weights := r.weights(x-base, scale)
		sum := 0.0
		for k := range weights {
			at := base + float64(first+k)
			if r.excludeOutside && (at < 0 || at >= float64(in)) {
				weights[k] = 0
			}
			cs[i].index = append(cs[i].index, clampIndex(at, in))
			sum += weights[k]
		}
		if r.excludeOutside {
			for k := range weights {
				weights[k] /= sum
			}
		}
		cs[i].weight, cs[i].outside = weights, r.outside(x, in)
	}
	return cs
}

// weights returns the filter taps at distance ratio from the left neighbour; tap k belongs to the
// neighbour first + k places from it. Antialiasing stretches the filter by 1/scale when that
// shrinks.
func (r *resizing) weights(ratio, scale float64) (first int, w []float64) {
	filter, reach := r.linear, 1.0
	if r.mode == "cubic" {
		filter, reach = r.cubic, 2.0
	}
	stretch := 1.0
	if r.antialias {
		stretch = min(scale, 1)
	}
	first = int(math.Floor(-reach/stretch)) + 1
	w = make([]float64, 2-2*first)
	sum := 0.0
	for k := range w {
		w[k] = filter((float64(first+k) - ratio) * stretch)
		sum += w[k]
	}
	if r.antialias {
		for k := range w {
			w[k] /= sum
		}
	}
	return first, w
}

func (r *resizing) linear(x float64) float64 { return math.Max(0, 1-math.Abs(x)) }

// cubic is the convolution kernel of Keys 1981, equation 4 generalised by the coefficient a.
func (r *resizing) cubic(x float64) float64 {
	a := r.cubicA
	switch x = math.Abs(x); {
	case x <= 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return ((a*x-5*a)*x+8*a)*x - 4*a
	}
	return 0
}

// interpolate resamples one axis after the other, which equals the product of the axes' filters.
func (r *resizing) interpolate(out, in *tensor.Tensor, t target) error {
	v, err := in.Floats()
	if err != nil {
		return err
	}
	shape := slices.Clone(in.Shape)
	outside := make([][]contribution, len(shape))
	for a, n := range t.size {
		if t.as(a, shape[a], r) {
			continue
		}
		outside[a] = r.contributions(shape[a], n, t.scale[a], t.roi[a])
		if v, err = resample(v, shape, a, outside[a]); err != nil {
			return err
		}
		shape[a] = n
	}
	r.putInside(out, v, outside)
	return nil
}

// putInside sets out to v, and to the extrapolation value where an axis is outside.
func (r *resizing) putInside(out *tensor.Tensor, v []float64, axes [][]contribution) {
	index := make([]int, len(axes))
	for at, x := range v {
		for a, i := range index {
			if axes[a] != nil && axes[a][i].outside {
				x = r.extrapolation
			}
		}
		setFloat(out, at, x)
		increment(index, out.Shape)
	}
}

// resample replaces one axis of v by weighted sums.
func resample(v []float64, shape []int, axis int, cs []contribution) ([]float64, error) {
	outer, n, inner := count(shape[:axis]), shape[axis], count(shape[axis+1:])
	out, err := zeros(outer, len(cs), inner)
	if err != nil {
		return nil, err
	}
	for o := range outer {
		for i, c := range cs {
			dst := out[(o*len(cs)+i)*inner:][:inner]
			for k, w := range c.weight {
				src := v[(o*n+c.index[k])*inner:][:inner]
				for j := range dst {
					dst[j] += w * src[j]
				}
			}
		}
	}
	return out, nil
}
