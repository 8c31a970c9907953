package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// window is the sliding window of convolution and pooling: kernel, stride, dilation and padding of
// each spatial axis.
type window struct {
	kernel, stride, dilation []int
	begin, end               []int  // padding; set by place when auto is a SAME mode
	auto                     string // auto_pad: NOTSET, VALID, SAME_UPPER or SAME_LOWER
	ceil                     bool   // round the number of positions up
}

// newWindow reads the attributes kernel_shape (def when absent), strides, dilations, pads, auto_pad
// and ceil_mode for rank spatial axes. Every size is checked to lie in [1, 2³¹), pads in [0, 2³¹).
func newWindow(c *Call, kernel []int) (w window, err error) {
	rank := len(kernel)
	w = window{kernel: kernel, auto: c.Attrs.String("auto_pad", "NOTSET"),
		ceil: c.Attrs.Bool("ceil_mode", false)}
	if err := c.checkSizes("kernel_shape", kernel, 1); err != nil {
		return w, err
	}
	if w.stride, err = c.sizesAttr("strides", rank, 1, 1); err != nil {
		return w, err
	}
	if w.dilation, err = c.sizesAttr("dilations", rank, 1, 1); err != nil {
		return w, err
	}
	pads, err := c.sizesAttr("pads", 2*rank, 0, 0)
	if err != nil {
		return w, err
	}
	w.begin, w.end = pads[:rank], pads[rank:]
	return w, w.autoPad(c)
}

// autoPad replaces the pads where attribute auto_pad says so.
func (w *window) autoPad(c *Call) error {
	switch w.auto {
	case "NOTSET", "":
		w.auto = "NOTSET"
	case "VALID", "SAME_UPPER", "SAME_LOWER":
		w.ceil = false // VALID keeps whole windows only, SAME rounds up anyway
		w.begin, w.end = make([]int, len(w.kernel)), make([]int, len(w.kernel))
	default:
		return c.Errorf(ErrAttr, "auto_pad is %q, must be NOTSET, VALID, SAME_UPPER or SAME_LOWER",
			w.auto)
	}
	return nil
}

// sizesAttr returns an integer list attribute of n elements, each def when it is absent and at
// least low.
func (c *Call) sizesAttr(name string, n, def, low int) ([]int, error) {
	v := c.Attrs.Ints(name)
	if v == nil {
		return slices.Repeat([]int{def}, n), nil
	}
	if len(v) != n {
		return nil, c.Errorf(ErrAttr, "%s has %d elements, must have %d", name, len(v), n)
	}
	out := make([]int, n)
	for i, s := range v {
		out[i] = int(s)
	}
	return out, c.checkSizes(name, out, low)
}

func (c *Call) checkSizes(name string, v []int, low int) error {
	for _, s := range v {
		if s < low || s > math.MaxInt32 {
			return c.Errorf(ErrAttr, "%s %v has an element outside [%d, 2³¹)", name, v, low)
		}
	}
	return nil
}

// extent is how far the dilated kernel reaches along axis i.
func (w *window) extent(i int) int { return (w.kernel[i]-1)*w.dilation[i] + 1 }

// same reports whether padding is chosen so that the output is the input over the stride, rounded
// up.
func (w *window) same() bool { return w.auto == "SAME_UPPER" || w.auto == "SAME_LOWER" }

// outDim returns how many positions the window takes along axis i of size in.
func (w *window) outDim(c *Call, i int, in Dim) (Dim, error) {
	if n, ok := in.Int(); ok {
		out, err := w.outSize(c, i, n)
		return Known(out), err
	}
	if w.same() {
		return in.CeilDiv(w.stride[i]), nil
	}
	free := in.AddInt(w.begin[i] + w.end[i] - w.extent(i))
	if !w.ceil {
		return free.FloorDiv(w.stride[i]).AddInt(1), nil
	}
	if w.end[i]+w.stride[i]-1 < w.extent(i) {
		return free.CeilDiv(w.stride[i]).AddInt(1), nil
	}
	return Unknown(), nil // the last window may start in the padding and be dropped
}

func (w *window) outSize(c *Call, i, in int) (int, error) {
	if in < 0 || in > math.MaxInt/2 {
		return 0, fmt.Errorf("%s: %w: spatial size %d", c.Name(), tensor.ErrShape, in)
	}
	if w.same() {
		return in/w.stride[i] + min(in%w.stride[i], 1), nil
	}
	free := in + w.begin[i] + w.end[i] - w.extent(i)
	if free < 0 {
		return 0, c.Errorf(ErrInput, "window of %d (dilated) is larger than %d with pads %d and "+
			"%d on spatial axis %d",
			w.extent(i), in, w.begin[i], w.end[i], i)
	}
	out := free/w.stride[i] + 1
	if w.ceil && free%w.stride[i] != 0 && out*w.stride[i] < in+w.begin[i] {
		out++ // only if the extra window starts inside the input or the padding before it
	}
	return out, nil
}

// outShape returns the spatial output shape for a spatial input shape, and fixes the padding of the
// SAME modes.
func (w *window) outShape(c *Call, in []int) ([]int, error) {
	out := make([]int, len(in))
	for i, n := range in {
		o, err := w.outSize(c, i, n)
		if err != nil {
			return nil, err
		}
		out[i] = o
		if w.same() {
			total := max((o-1)*w.stride[i]+w.extent(i)-n, 0)
			w.begin[i], w.end[i] = splitPad(total, w.auto == "SAME_UPPER")
		}
	}
	return out, nil
}

// splitPad halves a padding; an odd one is larger at the end when upper, else at the beginning.
func splitPad(total int, upper bool) (begin, end int) {
	if upper {
		return total / 2, total - total/2
	}
	return total - total/2, total / 2
}

// outDims returns the output type's dimensions N × C × spatial for an input of dimensions x, C
// unchanged.
func (w *window) outDims(c *Call, x []Dim) ([]Dim, error) {
	out := slices.Clone(x)
	for i := range w.kernel {
		d, err := w.outDim(c, i, x[i+2])
		if err != nil {
			return nil, err
		}
		out[i+2] = d
	}
	return out, nil
}

// taps tabulates which input element each tap of the window reads, for a block of consecutive
// output positions: idx[t*n+p] is the offset in the spatial input for tap t at position at+p, or -1
// in the padding.
func (w *window) taps(idx []int, in, out []int, at, n int) {
	kernel := count(w.kernel)
	place, tap := make([]int, len(out)), make([]int, len(out))
	unravel(place, out, at)
	for p := range n {
		clear(tap)
		for t := range kernel {
			idx[t*n+p] = w.source(place, tap, in)
			increment(tap, w.kernel)
		}
		increment(place, out)
	}
}

// source returns the spatial input offset that one tap reads at one place, -1 in the padding.
func (w *window) source(place, tap, in []int) int {
	at := 0
	for i, n := range in {
		x := place[i]*w.stride[i] + tap[i]*w.dilation[i] - w.begin[i]
		if x < 0 || x >= n {
			return -1
		}
		at = at*n + x
	}
	return at
}

// inside calls f with the number and input offset of each tap that reads the input, not the
// padding, at one place. It looks at no more taps than the input has elements, however large the
// kernel.
func (w *window) inside(place, in []int, f func(tap, offset int)) {
	w.insideFrom(0, 0, 0, place, in, f)
}

func (w *window) insideFrom(axis, tap, offset int, place, in []int, f func(tap, offset int)) {
	if axis == len(in) {
		f(tap, offset)
		return
	}
	start := place[axis]*w.stride[axis] - w.begin[axis]
	d := w.dilation[axis]
	t := max(0, (d-1-start)/d) // the first tap at or after 0
	for ; t < w.kernel[axis] && start+t*d < in[axis]; t++ {
		w.insideFrom(axis+1, tap*w.kernel[axis]+t, offset*in[axis]+start+t*d, place, in, f)
	}
}

// padded returns how many taps at one place read the input or its padding: with ceil_mode the last
// window may reach beyond both.
func (w *window) padded(place, in []int) int {
	n := 1
	for i, k := range w.kernel {
		room := in[i] + w.begin[i] + w.end[i] - place[i]*w.stride[i]
		n *= max(0, min(k, (room+w.dilation[i]-1)/w.dilation[i]))
	}
	return n
}

// unravel sets index to the coordinates of row-major position at.
func unravel(index, shape []int, at int) {
	for i := len(shape) - 1; i >= 0; i-- {
		index[i] = at % shape[i]
		at /= shape[i]
	}
}

// increment advances coordinates by one in row-major order.
func increment(index, shape []int) {
	for i := len(shape) - 1; i >= 0; i-- {
		if index[i]++; index[i] < shape[i] {
			return
		}
		index[i] = 0
	}
}

// blockSize is how many positions are tabulated at once, so that a table of taps·channels elements
// stays in cache.
func blockSize(rows, positions int) int {
	const elements = 1 << 16
	return max(1, min(positions, max(32, elements/max(rows, 1))))
}
