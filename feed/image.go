package feed

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/raster"
	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// Images say how pixels become a model's input.
type Images struct {
	// Mean is what is subtracted from samples, which are from 0 to 1, and Std what they are divided
	// by after that: none, one for all, or three for red, green and blue.
	Mean, Std []float64
	// Layout is the order of the axes, nchw or nhwc; "" finds the axis of 1 or 3 channels.
	Layout string
}

// Check refuses options that mean nothing.
func (o *Images) Check() error {
	if o.Layout != "" && o.Layout != "nchw" && o.Layout != "nhwc" {
		return fmt.Errorf("--layout %s: want nchw or nhwc", o.Layout)
	}
	for _, n := range []int{len(o.Mean), len(o.Std)} {
		if n != 0 && n != 1 && n != 3 {
			return fmt.Errorf("--mean and --std: want one number, or three for red, green and " +
				"blue")
		}
	}
	if slices.Contains(o.Std, 0) {
		return errors.New("--std: samples are divided by it, so that it cannot be 0")
	}
	return nil
}

// frame is where the axes of an image are in a model's input, and their sizes; 0 is an open one.
type frame struct {
	rank, c, h, w           int
	channels, height, width int
}

// read makes an input of an image: samples from 0 to 1, less the mean, divided by the standard
// deviation, or from 0 to 255 where the model takes bytes. The picture is scaled to the size that
// the shape asked for or the model has, and keeps its own where that is open.
func (o *Images) read(data []byte, typ op.Type, asked Shape) (*tensor.Tensor,
	error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	f, err := o.frame(typ, asked)
	if err != nil {
		return nil, err
	}
	m, err := raster.Decode(data)
	if err != nil {
		return nil, err
	}
	f.height, f.width = cmp.Or(f.height, m.Height), cmp.Or(f.width, m.Width)
	f.channels = cmp.Or(f.channels, 3)
	samples := m.Scale(f.width, f.height)
	if typ.DType != tensor.Uint8 {
		return o.floats(samples, f, typ.DType)
	}
	if len(o.Mean) > 0 || len(o.Std) > 0 {
		return nil, errors.New("the model takes bytes: leave --mean and --std out")
	}
	t := f.place(samples)
	for i, v := range tensor.As[float64](t) {
		tensor.As[float64](t)[i] = math.Round(min(max(v, 0), 255))
	}
	return Cast(t, typ.DType)
}

// floats normalises samples.
func (o *Images) floats(samples []float64, f *frame, d tensor.DType) (*tensor.Tensor,
	error) {
	if !d.IsFloat() {
		return nil, fmt.Errorf("an image is no %v: the model wants something else", d)
	}
	var mean, std [3]float64
	for c := range mean {
		mean[c], std[c] = raster.OfChannel(o.Mean, c, 0), raster.OfChannel(o.Std, c, 1)
	}
	for i := range samples {
		samples[i] = (samples[i]/255 - mean[i%3]) / std[i%3]
	}
	return Cast(f.place(samples), d)
}

// frame finds the axes of an input for images.
func (o *Images) frame(typ op.Type, asked Shape) (*frame, error) {
	rank := len(typ.Shape)
	if !typ.Ranked || rank != 3 && rank != 4 {
		return nil, fmt.Errorf("an image needs an input of 3 or 4 axes, the model takes %v", typ)
	}
	sizes := sizesAsked(typ, asked)
	f := &frame{rank: rank, c: rank - 3, h: rank - 2, w: rank - 1}
	first, end := sizes[rank-3], sizes[rank-1]
	last := o.Layout == "nhwc" || o.Layout == "" && isChannels(end) &&
		(!isChannels(first) || first < end)
	if last {
		f.h, f.w, f.c = rank-3, rank-2, rank-1
	}
	if rank == 4 && sizes[0] > 1 {
		return nil, fmt.Errorf("one image is given, the model takes %d at a time (%v)", sizes[0],
			typ)
	}
	f.channels, f.height, f.width = sizes[f.c], sizes[f.h], sizes[f.w]
	if f.channels != 0 && !isChannels(f.channels) {
		return nil, fmt.Errorf("axis %d of %v has %d channels, an image has 1 or 3: --layout nchw "+
			"or nhwc says which axis they are", f.c, typ, f.channels)
	}
	return f, nil
}

// sizesAsked are the sizes of a type, those that are asked before its own; 0 where none is known.
func sizesAsked(typ op.Type, asked Shape) []int {
	sizes := make([]int, len(typ.Shape))
	for i, d := range typ.Shape {
		sizes[i], _ = d.Int()
		if i < len(asked) {
			sizes[i] = asked[i]
		}
	}
	return sizes
}

func isChannels(n int) bool { return n == 1 || n == 3 }

// place puts samples, red, green and blue of each pixel, where the axes are. One channel is their
// luma (ITU-R BT.601).
func (f *frame) place(samples []float64) *tensor.Tensor {
	shape := make([]int, f.rank)
	shape[0] = 1
	shape[f.c], shape[f.h], shape[f.w] = f.channels, f.height, f.width
	strides := strided.RowMajor(shape).Strides
	out := make([]float64, f.channels*f.height*f.width)
	for i := range f.height * f.width {
		at := i/f.width*strides[f.h] + i%f.width*strides[f.w]
		pixel := samples[3*i:][:3]
		if f.channels == 1 {
			out[at] = 0.299*pixel[0] + 0.587*pixel[1] + 0.114*pixel[2]
			continue
		}
		for c, v := range pixel {
			out[at+c*strides[f.c]] = v
		}
	}
	return tensor.From(out, shape...)
}
