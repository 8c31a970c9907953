package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/tensor"
)

// resizeKernels are Resize (ONNX 10 to 19) and Upsample (7, 9) of the last two of four axes, by
// nearest or linear sampling, with constant scales or sizes. Nearest-neighbour sampling by whole
// factors, how detectors and segmenters upsample, repeats elements.
var resizeKernels = map[opKey]builder{{"", "Resize"}: resize, {"", "Upsample"}: resize}

func resize(r *request) (compute.Kernel, error) {
	x, d, _ := r.in(0)
	y := r.outShape()
	if d.Size() != 4 || len(x) != 4 || count(x) == 0 || x[0] != y[0] || x[1] != y[1] {
		return nil, nil
	}
	linear := r.Call.Attrs.String("mode", "nearest") == "linear"
	if !linear && r.Call.Attrs.String("mode", "nearest") != "nearest" ||
		linear && d != tensor.Float32 {
		return nil, nil
	}
	fy, fx := y[2]/x[2], y[3]/x[3]
	if !linear && fy > 0 && fx > 0 && fy*x[2] == y[2] && fx*x[3] == y[3] && floors(r) &&
		r.scaledBy(float32(fy), float32(fx)) {
		return &repeatKernel{planes: x[0] * x[1], h: x[2], w: x[3], fy: fy, fx: fx}, nil
	}
	return sampling(r, x, y, linear), nil
}

// scaledBy reports whether the scales of the sampling are exactly these factors. Scales that the
// call gives may differ from the ratio of the sizes: a scale of 2.25 makes 4 elements of 2, as a
// scale of 2 does, but samples others.
//
//go:noinline
func (r *request) scaledBy(fy, fx float32) bool {
	sy, sx, ok := r.scales()
	return ok && sy == float64(fy) && sx == float64(fx)
}

// scales returns the scales of the last two of four axes. ok is false when they are not constant,
// when the first two axes are scaled, or when the call has attribute axes (opset 18), which the
// reference serves.
//
//go:noinline
func (r *request) scales() (sy, sx float64, ok bool) {
	attrs := r.Call.Attrs
	scales := attrs.Floats("scales")
	input := 2
	switch {
	case attrs.Has("axes"):
		return 0, 0, false
	case r.Call.Type == "Upsample" && r.Call.Version < 9:
		input = -1
	case r.Call.Type == "Upsample" || r.Call.Version < 11:
		input = 1
	}
	if _, _, given := r.in(input); given {
		c := r.constant(input)
		if c == nil || c.DType != tensor.Float32 {
			return 0, 0, false
		}
		scales = tensor.As[float32](c)
	}
	if len(scales) == 0 { // sizes, whose quotients are the scales
		x, _, _ := r.in(0)
		y := r.outShape()
		return float64(y[2]) / float64(x[2]), float64(y[3]) / float64(x[3]),
			input == 2 && attrs.String("keep_aspect_ratio_policy", "stretch") == "stretch"
	}
	ok = len(scales) == 4 && scales[0] == 1 && scales[1] == 1
	if !ok {
		return 0, 0, false
	}
	return float64(scales[2]), float64(scales[3]), true
}

// floors reports whether the sampling rule comes to ⌊i/f⌋ for whole factors f.
func floors(r *request) bool {
	if r.Call.Type == "Upsample" || r.Call.Version < 11 {
		return true
	}
	switch r.Call.Attrs.String("coordinate_transformation_mode", "half_pixel") {
	case "asymmetric":
		return r.Call.Attrs.String("nearest_mode", "round_prefer_floor") == "floor"
	case "half_pixel":
		// (i+½)/f − ½ lies within half a unit of ⌊i/f⌋, strictly for odd f and for even f never at
		// a tie.
		mode := r.Call.Attrs.String("nearest_mode", "round_prefer_floor")
		return mode == "round_prefer_floor" || mode == "round_prefer_ceil"
	}
	return false
}

// repeatKernel repeats each element fx times along a row and each row fy times.
type repeatKernel struct {
	plain
	planes, h, w, fy, fx int
}

// Name implements Kernel.
func (k *repeatKernel) Name() string { return "resize.repeat" }

// Bind implements Kernel.
func (k *repeatKernel) Bind(b compute.Binding) compute.Task {
	return &repeatTask{of: k, per: max(1, moveBlock/(k.h*k.w*k.fy*k.fx)),
		x: tensor.Cast[uint32](b.In[0].Data), y: tensor.Cast[uint32](b.Out[0].Data)}
}

type repeatTask struct {
	of   *repeatKernel
	per  int
	x, y []uint32
}

// Run implements Task.
func (t *repeatTask) Run(x *compute.Exec) error { return x.For((t.of.planes+t.per-1)/t.per, t) }

// Chunk implements Region.
func (t *repeatTask) Chunk(i, _ int) {
	wide := t.of.w * t.of.fx
	for p := i * t.per; p < min((i+1)*t.per, t.of.planes); p++ {
		for r := range t.of.h {
			src := t.x[(p*t.of.h+r)*t.of.w:][:t.of.w]
			dst := t.y[(p*t.of.h+r)*t.of.fy*wide:][:t.of.fy*wide]
			repeat(dst, src, t.of.fx)
			for f := 1; f < t.of.fy; f++ {
				copy(dst[f*wide:(f+1)*wide], dst[:wide])
			}
		}
	}
}

// repeat writes each element of src f times.
func repeat(dst, src []uint32, f int) {
	if f == 2 {
		dst = dst[:2*len(src)]
		for j, v := range src {
			dst[2*j], dst[2*j+1] = v, v
		}
		return
	}
	for _, v := range src {
		run := dst[:f]
		for k := range run {
			run[k] = v
		}
		dst = dst[f:]
	}
}
