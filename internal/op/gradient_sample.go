package op

import "github.com/weirgpu/weir/tensor"

// Operators that read images at computed places, written as the arithmetic of the places and
// gathers of pixels, so that both image and places have gradients.

// sampling writes one call of GridSample: pixels are images × channels × pixels, and whatever there
// is of each place is images × 1 × places.
type sampling struct {
	*Expander
	*sampler
	pixels   Var
	channels Var
}

// axisTap is one pixel along an axis that places read: its index, its weight, and where it is
// inside of the image (Absent: everywhere).
type axisTap struct{ index, weight, inside Var }

func partsOfGridSample(x *Expander) {
	image, grid := x.wide(x.Input(0)), x.Input(1)
	how, err := samplerOf(x.Call)
	x.Err = firstError(x.Err, err)
	rank := x.Rank(image) - 2
	if x.Err == nil && rank < 1 {
		x.Fail(ErrInput, "X is %v, must have places after images and channels", x.TypeOf(image))
	}
	if x.Err != nil {
		return
	}
	grid = x.Cast(grid, x.DType(image))
	s := &sampling{Expander: x, sampler: how, pixels: x.Reshape(image, 0, 0, -1),
		channels: x.Dim(image, 1)}
	axes, strides := make([][]axisTap, rank), make([]Var, rank)
	stride := x.Ints(1)
	for k := rank - 1; k >= 0; k-- {
		n := x.Dim(image, int64(2+k))
		// the grid names the last axis first
		at := x.Op("Gather", axisAttr(-1), grid, x.Ints(int64(rank-1-k)))
		axes[k] = s.along(x.Reshape(at, 0, 1, -1), n)
		strides[k], stride = stride, x.mul(stride, n)
	}
	sum := s.gathered(axes, strides, axisTap{index: Absent, weight: Absent, inside: Absent})
	to := x.Ops("", "Shape", max(x.Opset, 15), 1,
		Attrs{IntAttr("start", 1), IntAttr("end", int64(rank+1))}, grid)[0]
	y := x.resized(sum, x.Dim(image, 0), s.channels, to)
	x.Give(0, x.Cast(y, x.DType(x.Input(0))))
}

// along are the taps of an axis of n pixels at normalised coordinates g: see [sampler.taps].
func (s *sampling) along(g, n Var) []axisTap {
	size := s.Cast(n, s.DType(g))
	v := s.Scale(s.plus(s.mul(s.plus(g, 1), size), -1), 0.5)
	if s.corners {
		v = s.mul(s.Scale(s.plus(g, 1), 0.5), s.plus(size, -1))
	}
	if s.mode == "nearest" {
		at := s.Op("Round", nil, s.placed(v, size))
		return []axisTap{s.pixelAt(s.placed(at, size), size, s.full(v, v, 1))}
	}
	v = s.placed(v, size)
	base := s.Op("Floor", nil, v)
	t := s.sub(v, base)
	if s.mode == "linear" {
		return []axisTap{s.pixelAt(base, size, s.from(1, t)), s.pixelAt(s.plus(base, 1), size, t)}
	}
	var taps []axisTap
	for k, w := range s.cubicTaps(t) {
		taps = append(taps, s.pixelAt(s.plus(base, float64(k-1)), size, w))
	}
	return taps
}

// placed is [sampler.place] of v on an axis of size.
func (s *sampling) placed(v, size Var) Var {
	last := s.plus(size, -1)
	lo, span := -0.5, size
	if s.corners {
		lo, span = 0, s.Op("Max", nil, last, s.Scalar(last, 1))
	}
	switch s.padding {
	case "zeros":
		return v
	case "border": // up to half a pixel outside stays as it is
		out := s.Op("Or", nil, s.below(v, lo), s.Op("Greater", nil, v, s.plus(span, lo)))
		return s.where(out, s.clamped(v, last), v)
	}
	turn := s.Scale(span, 2)
	d := s.Op("Mod", Attrs{IntAttr("fmod", 1)}, s.plus(v, -lo), turn)
	d = s.where(s.below(d, 0), s.Add(d, turn), d)
	d = s.where(s.Op("Greater", nil, d, span), s.sub(turn, d), d)
	return s.plus(d, lo)
}

// clamped is v between 0 and last.
func (s *sampling) clamped(v, last Var) Var {
	return s.Op("Min", nil, s.Op("Max", nil, v, s.Scalar(v, 0)), last)
}

// pixelAt is [sampler.pixel] of whole coordinates.
func (s *sampling) pixelAt(i, size, weight Var) axisTap {
	last := s.plus(size, -1)
	i = s.placed(i, size)
	tap := axisTap{weight: weight, inside: Absent}
	if s.padding == "zeros" {
		tap.inside = s.Op("And", nil, s.above(i, -0.5), s.Op("Less", nil, i, s.plus(size, -0.5)))
	}
	tap.index = s.Cast(s.clamped(i, last), tensor.Int64)
	return tap
}

// cubicTaps is [cubicWeights] of t.
func (s *sampling) cubicTaps(t Var) []Var {
	const a = -0.75
	near := func(v Var) Var {
		return s.plus(s.mul(s.plus(s.Scale(v, a+2), -(a+3)), s.square(v)), 1)
	}
	far := func(v Var) Var {
		w := s.plus(s.mul(s.plus(s.Scale(v, a), -5*a), v), 8*a)
		return s.plus(s.mul(w, v), -4*a)
	}
	return []Var{far(s.plus(t, 1)), near(t), near(s.from(1, t)), far(s.from(2, t))}
}

// gathered is the sum of the pixels that all combinations of taps name, each times its weights.
func (s *sampling) gathered(axes [][]axisTap, strides []Var, at axisTap) Var {
	if len(axes) == 0 {
		return s.pixel(at)
	}
	sum := Absent
	for _, t := range axes[0] {
		next := axisTap{index: s.Add(at.index, s.mul(t.index, strides[0])), weight: t.weight,
			inside: t.inside}
		if at.weight != Absent {
			next.weight = s.mul(at.weight, t.weight)
		}
		if at.inside != Absent {
			next.inside = s.Op("And", nil, at.inside, t.inside)
		}
		sum = s.Add(sum, s.gathered(axes[1:], strides[1:], next))
	}
	return sum
}

// pixel is what one combination of taps reads of every channel, times its weight.
func (s *sampling) pixel(at axisTap) Var {
	of := s.Op("Concat", axisAttr(0), s.Dim(s.pixels, 0), s.channels, s.Dim(at.index, 2))
	v := s.Op("GatherElements", axisAttr(2), s.pixels, s.Op("Expand", nil, at.index, of))
	if at.inside != Absent {
		at.weight = s.masked(at.inside, at.weight)
	}
	return s.mul(v, at.weight)
}

// partsOfRoiAlign: the samples of a region are at the crossings of rows and columns, so that their
// averages are the product of a matrix of weights with the image, and with another from the right.
func partsOfRoiAlign(x *Expander) {
	a, err := aligningOf(x.Call)
	x.Err = firstError(x.Err, err)
	switch {
	case a.max:
		x.Fail(ErrNoGradient, "mode max; use avg")
	case a.sampling == 0:
		x.Fail(ErrNoGradient, "sampling_ratio 0 takes as many samples as each region is large; "+
			"set it to a number, 2 as Mask R-CNN does")
	}
	image, rois := x.wide(x.Input(0)), x.wide(x.Input(1))
	if x.Err != nil {
		return
	}
	rows := x.roiWeights(&a, rois, 1, x.Attrs.Int("output_height", 1), x.Dim(image, 2))
	cols := x.roiWeights(&a, rois, 0, x.Attrs.Int("output_width", 1), x.Dim(image, 3))
	image = x.Op("Gather", axisAttr(0), image, x.Input(2))
	y := x.Op("MatMul", nil, x.Unsqueeze(rows, 1), image)
	y = x.Op("MatMul", nil, y, x.Unsqueeze(x.Transpose(cols, 0, 2, 1), 1))
	x.Give(0, x.Cast(y, x.DType(x.Input(0))))
}

// roiWeights is how much of each of n pixels along an axis the average of each bin of each region
// has: regions × bins × n. The region reaches from column first of rois to column first + 2. See
// [aligning.taps] and [alignTaps].
func (x *Expander) roiWeights(a *aligning, rois Var, first, bins int64, n Var) Var {
	column := func(i int64) Var {
		v := x.Scale(x.Op("Gather", axisAttr(1), rois, x.Ints(i)), a.scale)
		if a.halved {
			v = x.plus(v, -0.5)
		}
		return v
	}
	from, size := column(first), x.sub(column(first+2), column(first))
	if !a.halved {
		size = x.Op("Max", nil, size, x.Scalar(size, 1))
	}
	places := make([]float64, bins*a.sampling)
	for i := range places {
		places[i] = (float64(i) + 0.5) / float64(len(places))
	}
	at := x.Cast(x.Constant(tensor.From(places, 1, len(places))), x.DType(rois))
	v := x.Add(from, x.mul(size, at))
	limit := x.Cast(n, x.DType(v))
	last := x.plus(limit, -1)
	outside := x.Op("Or", nil, x.below(v, -1), x.Op("Greater", nil, v, limit))
	v = x.Op("Max", nil, v, x.Scalar(v, 0))
	low := x.Op("Min", nil, x.Op("Floor", nil, v), last)
	t := x.where(x.Op("Equal", nil, low, last), x.Scalar(v, 0), x.sub(v, low))
	pixels := x.Cast(x.Count(n), x.DType(v))
	tap := func(index, weight Var) Var {
		weight = x.where(outside, x.Scalar(weight, 0), weight)
		is := x.Op("Equal", nil, x.Unsqueeze(index, 2), pixels)
		return x.masked(is, x.Unsqueeze(weight, 2))
	}
	all := x.Add(tap(low, x.from(1, t)), tap(x.plus(low, 1), t))
	sum := x.sumOver(x.resized(all, x.Ints(0, bins, a.sampling), n), false, 2)
	return x.Scale(sum, 1/float64(a.sampling))
}
