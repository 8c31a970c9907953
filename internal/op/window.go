package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// Window is the sliding window of a convolution or a pooling, as the attributes of a call give it:
// one value a spatial axis. [Call.Window], [Call.PoolWindow] and [Call.TransposedWindow] read it;
// shape rules, evaluations, gradients, kernels and passes alike go by what they say.
type Window struct {
	Kernel, Stride, Dilation []int  // sizes, steps, and distances of the kernel's elements
	Begin, End               []int  // padding; where Auto is a SAME mode, Place sets it
	Auto                     string // auto_pad: NOTSET, VALID, SAME_UPPER or SAME_LOWER
	Ceil                     bool   // a pooling's ceil_mode: the number of positions is rounded up
}

// Window reads the attributes strides, dilations, pads and auto_pad of a call whose kernel has the
// given sizes. The window keeps the slice kernel and does not copy it. An attribute that is not
// given has ONNX's default. The error is of kind [ErrAttr] for a list of another length than the
// kernel's, sizes outside [1, 2³¹), pads outside [0, 2³¹), and an unknown auto_pad.
func (c *Call) Window(kernel []int) (w Window, err error) {
	rank := len(kernel)
	w = Window{Kernel: kernel, Auto: c.Attrs.String("auto_pad", "NOTSET")}
	if err := c.checkSizes("kernel_shape", kernel, 1); err != nil {
		return w, err
	}
	if w.Stride, err = c.sizesAttr("strides", rank, 1, 1); err != nil {
		return w, err
	}
	if w.Dilation, err = c.sizesAttr("dilations", rank, 1, 1); err != nil {
		return w, err
	}
	pads, err := c.sizesAttr("pads", 2*rank, 0, 0)
	if err != nil {
		return w, err
	}
	w.Begin, w.End = pads[:rank], pads[rank:]
	return w, w.autoPad(c)
}

// autoPad replaces the pads where attribute auto_pad says so.
func (w *Window) autoPad(c *Call) error {
	switch w.Auto {
	case "NOTSET", "":
		w.Auto = "NOTSET"
	case "VALID", "SAME_UPPER", "SAME_LOWER":
		w.Begin, w.End = make([]int, len(w.Kernel)), make([]int, len(w.Kernel))
	default:
		return c.Errorf(ErrAttr, "auto_pad is %q, must be NOTSET, VALID, SAME_UPPER or SAME_LOWER",
			w.Auto)
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
//
//go:noinline
func (w *Window) extent(i int) int { return (w.Kernel[i]-1)*w.Dilation[i] + 1 }

// Same reports whether padding is chosen so that the output is the input over the stride, rounded
// up: then it is known only once [Window.Place] has seen the input.
func (w *Window) Same() bool { return w.Auto == "SAME_UPPER" || w.Auto == "SAME_LOWER" }

// outDim returns how many positions the window takes along axis i of size in.
func (w *Window) outDim(c *Call, i int, in Dim) (Dim, error) {
	if n, ok := in.Int(); ok {
		out, err := w.outSize(c, i, n)
		return Known(out), err
	}
	if w.Same() {
		return in.CeilDiv(w.Stride[i]), nil
	}
	free := in.AddInt(w.Begin[i] + w.End[i] - w.extent(i))
	if !w.Ceil {
		return free.FloorDiv(w.Stride[i]).AddInt(1), nil
	}
	if w.End[i]+w.Stride[i]-1 < w.extent(i) {
		return free.CeilDiv(w.Stride[i]).AddInt(1), nil
	}
	return Unknown(), nil // the last window may start in the padding and be dropped
}

func (w *Window) outSize(c *Call, i, in int) (int, error) {
	if in < 0 || in > math.MaxInt/2 {
		return 0, fmt.Errorf("%s: %w: spatial size %d", c.Name(), tensor.ErrShape, in)
	}
	if w.Same() {
		return in/w.Stride[i] + min(in%w.Stride[i], 1), nil
	}
	free := in + w.Begin[i] + w.End[i] - w.extent(i)
	if free < 0 {
		return 0, c.Errorf(ErrInput, "window of %d (dilated) is larger than %d with pads %d and "+
			"%d on spatial axis %d",
			w.extent(i), in, w.Begin[i], w.End[i], i)
	}
	out := free/w.Stride[i] + 1
	if w.Ceil && free%w.Stride[i] != 0 && out*w.Stride[i] < in+w.Begin[i] {
		out++ // only if the extra window starts inside the input or the padding before it
	}
	return out, nil
}

// Place returns the spatial output shape for a spatial input shape, and fixes the padding of the
// SAME modes. A window that is larger than the padded input is an error of kind [ErrInput] about
// call c.
func (w *Window) Place(c *Call, in []int) ([]int, error) {
	out := make([]int, len(in))
	for i, n := range in {
		o, err := w.outSize(c, i, n)
		if err != nil {
			return nil, err
		}
		out[i] = o
		if w.Same() {
			total := max((o-1)*w.Stride[i]+w.extent(i)-n, 0)
			w.Begin[i], w.End[i] = splitPad(total, w.Auto == "SAME_UPPER")
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
func (w *Window) outDims(c *Call, x []Dim) ([]Dim, error) {
	out := slices.Clone(x)
	for i := range w.Kernel {
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
func (w *Window) taps(idx []int, in, out []int, at, n int) {
	kernel := count(w.Kernel)
	place, tap := make([]int, len(out)), make([]int, len(out))
	unravel(place, out, at)
	for p := range n {
		clear(tap)
		for t := range kernel {
			idx[t*n+p] = w.source(place, tap, in)
			increment(tap, w.Kernel)
		}
		increment(place, out)
	}
}

// source returns the spatial input offset that one tap reads at one place, -1 in the padding.
func (w *Window) source(place, tap, in []int) int {
	at := 0
	for i, n := range in {
		x := place[i]*w.Stride[i] + tap[i]*w.Dilation[i] - w.Begin[i]
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
func (w *Window) inside(place, in []int, f func(tap, offset int)) {
	w.insideFrom(0, 0, 0, place, in, f)
}

func (w *Window) insideFrom(axis, tap, offset int, place, in []int, f func(tap, offset int)) {
	if axis == len(in) {
		f(tap, offset)
		return
	}
	start := place[axis]*w.Stride[axis] - w.Begin[axis]
	d := w.Dilation[axis]
	t := max(0, (d-1-start)/d) // the first tap at or after 0
	for ; t < w.Kernel[axis] && start+t*d < in[axis]; t++ {
		w.insideFrom(axis+1, tap*w.Kernel[axis]+t, offset*in[axis]+start+t*d, place, in, f)
	}
}

// padded returns how many taps at one place read the input or its padding: with ceil_mode the last
// window may reach beyond both.
func (w *Window) padded(place, in []int) int {
	n := 1
	for i, k := range w.Kernel {
		room := in[i] + w.Begin[i] + w.End[i] - place[i]*w.Stride[i]
		n *= max(0, min(k, (room+w.Dilation[i]-1)/w.Dilation[i]))
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
