package op

import "math"

// Rules of convolutions and of pooling, which slide a window.

// spatial are the sizes of v after batch and channels, as a vector.
func (x *Expander) spatial(v Var) Var {
	return x.Ops("", "Shape", max(x.Opset, 15), 1, Attrs{IntAttr("start", 2)}, v)[0]
}

// resized reshapes v to the concatenation of parts, vectors of sizes.
func (x *Expander) resized(v Var, parts ...Var) Var {
	return x.Op("Reshape", nil, v, x.Op("Concat", axisAttr(0), parts...))
}

// cropped cuts the end of each spatial axis of v so that it has the size of that of like.
func (x *Expander) cropped(v, like Var) Var {
	have, want := x.Shape(v), x.Shape(like)
	same := true
	for k := 2; k < len(want) && k < len(have); k++ {
		same = same && have[k].Equal(want[k])
	}
	if x.Err != nil || same {
		return v
	}
	axes := axesBetween(2, len(want))
	return x.Op("Slice", nil, v, x.Ints(make([]int64, len(axes))...), x.spatial(like),
		x.Ints(axes...))
}

// convWindow is the window of a convolution by weights, which slides over large; its padding is
// fixed.
func (x *gradient) convWindow(weights, large Var) Window {
	kernel, ok := knownInts(x.Shape(weights)[min(2, len(x.Shape(weights))):])
	if !ok {
		x.Later()
		return Window{}
	}
	w, err := x.Window(kernel)
	x.Err = firstError(x.Err, err)
	x.pad(&w, large)
	return w
}

// pad fixes the padding of a window that slides over large where attribute auto_pad leaves it to
// the sizes.
func (x *gradient) pad(w *Window, large Var) {
	if x.Err != nil || !w.Same() {
		return
	}
	sizes, ok := knownInts(x.Shape(large)[2:])
	if !ok {
		x.Fail(ErrNoGradient, "auto_pad %s pads by the sizes of %v, which are not known; give the "+
			"model's inputs shapes, or write pads", w.Auto, x.types[large])
		return
	}
	_, err := w.Place(x.Call, sizes)
	x.Err = firstError(x.Err, err)
}

// attrs are the attributes of a convolution with the window.
func (w *Window) attrs(group int) Attrs {
	return Attrs{IntAttr("group", int64(group)), IntsAttr("strides", wideInts(w.Stride)...),
		IntsAttr("dilations", wideInts(w.Dilation)...),
		IntsAttr("pads", append(wideInts(w.Begin), wideInts(w.End)...)...)}
}

func wideInts(v []int) []int64 {
	out := make([]int64, len(v))
	for i, n := range v {
		out[i] = int64(n)
	}
	return out
}

// spread returns the gradient of like, over which a window slid, from g, the gradient of the
// products at the window's places: each place adds its gradient times the weights to the elements
// that it covered.
func (x *gradient) spread(g, weights, like Var, w Window, group int) Var {
	large, small := x.Shape(like), x.Shape(g)
	if x.Err != nil {
		return Absent
	}
	if w.turns() && (group == 1 || x.eachChannel(weights, group)) {
		return x.turned(g, weights, w, group)
	}
	extra := make([]int64, len(w.Kernel))
	for i := range extra {
		// elements after the last place's window that no place covers; at most stride - 1
		extra[i] = int64(w.Stride[i] - 1)
		n, ok := large[i+2].Int()
		m, ok2 := small[i+2].Int()
		rest := n - ((m-1)*w.Stride[i] + w.extent(i) - w.Begin[i] - w.End[i])
		if ok && ok2 && rest < w.Stride[i] {
			extra[i] = int64(max(rest, 0))
		}
	}
	attrs := append(w.attrs(group), IntsAttr("output_padding", extra...))
	return x.cropped(x.Op("ConvTranspose", attrs, g, weights), like)
}

// turns reports whether a window's gradient is a convolution with its weights turned around: it
// moves by one, and pads by less than its extent.
func (w *Window) turns() bool {
	for i, stride := range w.Stride {
		if stride != 1 || max(w.Begin[i], w.End[i]) >= w.extent(i) {
			return false
		}
	}
	return true
}

// eachChannel reports whether every channel is a group of its own, with one filter.
func (x *gradient) eachChannel(weights Var, group int) bool {
	shape := x.Shape(weights)
	if len(shape) < 2 {
		return false
	}
	filters, ok := shape[0].Int()
	depth, ok2 := shape[1].Int()
	return ok && ok2 && filters == group && depth == 1
}

// turned is spread for a window that turns. Devices have faster kernels for convolutions by weights
// that are computed than for transposed ones.
func (x *gradient) turned(g, weights Var, w Window, group int) Var {
	rank := x.Rank(g)
	axes := axesBetween(2, rank)
	last, before := make([]int64, len(axes)), make([]int64, len(axes))
	begin, end := make([]int, len(axes)), make([]int, len(axes))
	for i := range axes {
		last[i], before[i] = -1, math.MinInt64
		begin[i], end[i] = w.extent(i)-1-w.Begin[i], w.extent(i)-1-w.End[i]
	}
	w.Begin, w.End = begin, end
	around := x.Op("Slice", nil, weights, x.Ints(last...), x.Ints(before...), x.Ints(axes...),
		x.Ints(last...))
	if group == 1 {
		around = x.Transpose(around, append([]int64{1, 0}, axes...)...)
	}
	return x.Op("Conv", w.attrs(group), g, around)
}

// correlated returns the gradient of the weights of a window that slides over large, from small,
// the gradient of the products.
func (x *gradient) correlated(large, small Var, w Window, group int) Var {
	attrs := append(w.attrs(group), IntsAttr("kernel_shape", wideInts(w.Kernel)...))
	return x.Ops(FusedDomain, ConvWeightsGradient, 1, 1, attrs, large, small)[0]
}

// channelSums sums over all axes but that of channels.
func (x *Expander) channelSums(v Var) Var {
	return x.sumOver(v, false, append([]int64{0}, axesBetween(2, x.Rank(v))...)...)
}

func (x *gradient) convGroup() int {
	group, err := x.Group()
	x.Err = firstError(x.Err, err)
	return group
}

// convOperands sets the gradient of a convolution's bias and returns the operand, the weights and
// the gradient of the result; more says that a gradient of the first two is wanted.
func (x *gradient) convOperands() (v, weights, g Var, more bool) {
	v, weights, g = x.Input(0), x.Input(1), x.d(0)
	if x.needs(2) {
		x.set(2, x.channelSums(g))
	}
	return v, weights, g, x.needs(0) || x.needs(1)
}

func gradConv(x *gradient) {
	v, weights, g, more := x.convOperands()
	if !more {
		return
	}
	group, w := x.convGroup(), x.convWindow(weights, v)
	if x.needs(0) {
		x.set(0, x.spread(g, weights, v, w, group))
	}
	if x.needs(1) {
		x.set(1, x.correlated(v, g, w, group))
	}
}

// gradConvTranspose is gradConv with the parts of operand and result exchanged.
func gradConvTranspose(x *gradient) {
	v, weights, g, more := x.convOperands()
	if !more {
		return
	}
	group, w := x.convGroup(), x.transposedWindow(weights, v)
	if x.needs(0) && x.Err == nil {
		x.set(0, x.cropped(x.Op("Conv", w.attrs(group), g, weights), v))
	}
	if x.needs(1) && x.Err == nil {
		x.set(1, x.correlated(g, v, w, group))
	}
}

// transposedWindow is the window of ConvTranspose with its padding fixed.
func (x *gradient) transposedWindow(weights, small Var) Window {
	kernel, ok := knownInts(x.Shape(weights)[min(2, len(x.Shape(weights))):])
	if !ok {
		x.Later()
		return Window{}
	}
	t, err := x.TransposedWindow(kernel)
	if x.Err = firstError(x.Err, err); x.Err != nil || t.Output == nil && !t.Same() {
		return t.Window
	}
	sizes, ok := knownInts(x.Shape(small)[2:])
	if !ok {
		x.Later()
		return Window{}
	}
	_, err = t.place(sizes)
	x.Err = firstError(x.Err, err)
	return t.Window
}

// gradAveragePool spreads the gradient of each place over the elements under its window. The
// divisor of a place, which depends on whether padding counts, is found by the same pooling of a
// plane of ones: it is the number of elements under the window divided by their pooled average.
func gradAveragePool(x *gradient) {
	if !x.needs(0) {
		return
	}
	v, g := x.Input(0), x.d(0)
	w := x.poolingWindow(v)
	if x.Err != nil {
		return
	}
	plane := x.filled(x.Op("Concat", axisAttr(0), x.Ints(1, 1), x.spatial(v)), g, 1)
	kernel := x.filled(x.Ints(append([]int64{1, 1}, wideInts(w.Kernel)...)...), g, 1)
	average := x.Ops("", x.Type, x.Version, 1, x.Attrs, plane)[0]
	under := x.Op("Conv", w.attrs(1), plane, kernel)
	share := x.div(average, x.Op("Max", nil, under, x.Scalar(under, 1)))
	single := x.Ints(-1, 1)
	each := x.mul(x.resized(g, single, x.spatial(g)), share)
	x.set(0, x.as(x.spread(each, kernel, x.resized(v, single, x.spatial(v)), w, 1), v))
}

// poolingWindow is the window of a pooling with padding that lets every place lie inside.
func (x *gradient) poolingWindow(v Var) Window {
	w, err := x.PoolWindow(max(x.Rank(v)-2, 0))
	if x.Err = firstError(x.Err, err); x.Err != nil {
		return w
	}
	x.pad(&w, v)
	if x.Err != nil || !w.Ceil {
		return w
	}
	sizes, ok := knownInts(x.Shape(v)[2:])
	if !ok {
		x.Later()
		return w
	}
	places, err := w.Place(x.Call, sizes)
	if x.Err = firstError(x.Err, err); x.Err != nil {
		return w
	}
	for i, n := range places {
		w.End[i] = max(w.End[i], (n-1)*w.Stride[i]+w.extent(i)-sizes[i]-w.Begin[i])
	}
	return w
}
