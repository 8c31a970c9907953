package steps

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weirgpu/weir"
	operators "github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/raster"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

// picture is how files of pictures become rows of pixels of one size: one operator, since their
// sizes differ until then.
type picture struct {
	colour        string
	channels      int
	pixels        int64
	changes       []Step // resize and crop
	width, height int
	resize        *operators.Op
}

// newPicture reads the steps that are of pictures, and returns the others.
func newPicture(list []Step) (p *picture, rest []Step, err error) {
	d := list[0].Decode
	p = &picture{colour: d.Colour, channels: 3, pixels: int64(d.Pixels)}
	switch p.colour {
	case "", "rgb", "bgr":
	case "grey":
		p.channels = 1
	default:
		return nil, nil, fmt.Errorf("decode: colour is %.40q: give rgb, bgr or grey", p.colour)
	}
	if p.pixels == 0 {
		p.pixels = DefaultPixels
	}
	if p.pixels < 1 || p.pixels > raster.MaxPixels {
		return nil, nil, fmt.Errorf("decode: pixels is %d: give 1 to %d", p.pixels,
			raster.MaxPixels)
	}
	at := 1
	for at < len(list) && (list[at].Resize != nil || list[at].Crop != nil) {
		if err := p.change(&list[at]); err != nil {
			return nil, nil, err
		}
		at++
	}
	if p.width == 0 {
		return nil, nil, errors.New("the size of pictures is open: add resize with width and " +
			"height, or crop")
	}
	p.resize, err = operators.Lookup("", "Resize", 19)
	return p, list[at:], err
}

// most bounds a side, and mostSize pixels, of what is made of a picture.
const (
	most     = 1 << 14
	mostSize = 1 << 24
)

// change adds a resize or crop.
func (p *picture) change(s *Step) error {
	var w, h int64
	switch {
	case s.Crop != nil:
		w, h = int64(s.Crop.Width), int64(s.Crop.Height)
	case s.Resize.Shorter != 0:
		if n := s.Resize.Shorter; n < 1 || n > most || s.Resize.Width+s.Resize.Height != 0 {
			return fmt.Errorf("resize: shorter is %d: give 1 to %d, without width and height", n,
				most)
		}
		p.width, p.height = 0, 0
	default:
		w, h = int64(s.Resize.Width), int64(s.Resize.Height)
	}
	open := s.Resize != nil && s.Resize.Shorter != 0
	if !open && (w < 1 || h < 1 || w > most || h > most || w*h > mostSize) {
		return fmt.Errorf("%s: %d by %d pixels: give width and height from 1 on, and %d pixels at "+
			"most", s.set()[0], w, h, mostSize)
	}
	if s.Resize != nil {
		switch s.Resize.Mode {
		case "", "nearest", "linear", "cubic":
		default:
			return fmt.Errorf("resize: mode is %.40q: give nearest, linear or cubic",
				s.Resize.Mode)
		}
	}
	if !open {
		p.width, p.height = int(w), int(h)
	}
	p.changes = append(p.changes, *s)
	return nil
}

// operator is the picture as an operator of a model.
func (p *picture) operator() weir.Operator {
	return weir.Operator{Name: "Picture", Infer: func(c *op.Infer) error {
		rows := operators.Unknown()
		if in := c.In[0]; in.Ranked && len(in.Shape) == 1 {
			rows = in.Shape[0]
		}
		c.Out[0] = operators.Ranked(tensor.Uint8, rows, operators.Known(p.height),
			operators.Known(p.width), operators.Known(p.channels))
		return nil
	}, Eval: p.eval}
}

func (p *picture) eval(c *op.Eval) error {
	files := c.In[0].Strings
	out, err := c.Output(0, tensor.Uint8, []int{len(files), p.height, p.width, p.channels})
	if err != nil {
		return err
	}
	size := p.height * p.width * p.channels
	for i, file := range files {
		if c.Ctx != nil && c.Ctx.Err() != nil {
			return c.Ctx.Err()
		}
		m, err := p.decode([]byte(file))
		if err != nil {
			return c.Errorf(op.ErrInput, "picture %d: %v", i, err)
		}
		for k := range p.changes {
			if m, err = p.apply(c.Ctx, m, &p.changes[k]); err != nil {
				return err
			}
		}
		copy(out.Data[i*size:(i+1)*size], m.Data)
	}
	return nil
}

// decode reads a picture of no more pixels than there may be, as its head says.
func (p *picture) decode(file []byte) (*tensor.Tensor, error) {
	w, h, err := raster.Config(file)
	if err != nil {
		return nil, err
	}
	if int64(w)*int64(h) > p.pixels {
		return nil, fmt.Errorf("%d by %d pixels, and %d are taken", w, h, p.pixels)
	}
	m, err := raster.Decode(file)
	if err != nil {
		return nil, err
	}
	t := &tensor.Tensor{DType: tensor.Uint8, Shape: []int{m.Height, m.Width, p.channels},
		Data: m.RGB}
	for i := 0; i+2 < len(m.RGB); i += 3 {
		switch r, g, b := m.RGB[i], m.RGB[i+1], m.RGB[i+2]; p.colour {
		case "grey": // ITU-R 601 in 16 binary places, as Pillow computes it
			m.RGB[i/3] = byte((19595*uint32(r) + 38470*uint32(g) + 7471*uint32(b) + 1<<15) >> 16)
		case "bgr":
			m.RGB[i], m.RGB[i+2] = b, r
		}
	}
	t.Data = m.RGB[:m.Height*m.Width*p.channels]
	return t, nil
}

// apply resizes or crops a picture.
func (p *picture) apply(ctx context.Context, m *tensor.Tensor, s *Step) (*tensor.Tensor, error) {
	if s.Crop != nil {
		return crop(m, int(s.Crop.Width), int(s.Crop.Height)), nil
	}
	h, w := int(s.Resize.Height), int(s.Resize.Width)
	if n := float64(s.Resize.Shorter); n > 0 {
		scale := n / float64(min(m.Shape[0], m.Shape[1]))
		h = int(math.Round(scale * float64(m.Shape[0])))
		w = int(math.Round(scale * float64(m.Shape[1])))
		if int64(h)*int64(w) > mostSize {
			return nil, fmt.Errorf("%w: a picture of %d by %d pixels becomes one of %d by %d",
				op.ErrInput, m.Shape[1], m.Shape[0], w, h)
		}
	}
	if h == m.Shape[0] && w == m.Shape[1] {
		return m, nil
	}
	mode := s.Resize.Mode
	if mode == "" {
		mode = "linear"
	}
	attrs := operators.Attrs{operators.StringAttr("mode", mode)}
	if mode != "nearest" {
		attrs = append(attrs, operators.IntAttr("antialias", 1))
	}
	call := &operators.Call{Type: "Resize", Version: 19, Attrs: attrs, NumIn: 4, NumOut: 1}
	sizes := tensor.From([]int64{int64(h), int64(w), int64(m.Shape[2])}, 3)
	out, err := operators.Run(ctx, p.resize, call, []*tensor.Tensor{m, nil, nil, sizes})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// crop is the middle of a picture, with black around one that is smaller.
func crop(m *tensor.Tensor, width, height int) *tensor.Tensor {
	h, w, c := m.Shape[0], m.Shape[1], m.Shape[2]
	out := &tensor.Tensor{DType: m.DType, Shape: []int{height, width, c},
		Data: make([]byte, height*width*c)}
	y, x := (h-height)/2, (w-width)/2 // of the first pixel; below 0 where there is none
	from, to := max(0, -x), min(width, w-x)
	for row := range height {
		if r := y + row; r >= 0 && r < h && to > from {
			at := (r*w + x + from) * c
			copy(out.Data[(row*width+from)*c:(row*width+to)*c], m.Data[at:])
		}
	}
	return out
}
