package op

import (
	"errors"

	"github.com/weirgpu/weir/internal/raster"
	"github.com/weirgpu/weir/tensor"
)

// imageOps decode files: ImageDecoder.
var imageOps = []Op{
	{Name: "ImageDecoder", Since: []int{20}, MinIn: 1, MaxIn: 1, Infer: inferImageDecoder,
		Eval: evalImageDecoder},
}

// pixelFormat is attribute pixel_format, and how many channels a pixel of it has.
func pixelFormat(c *Call) (name string, channels int, err error) {
	switch name = c.Attrs.String("pixel_format", "RGB"); name {
	case "RGB", "BGR":
		return name, 3, nil
	case "Grayscale":
		return name, 1, nil
	}
	return name, 0, c.Errorf(ErrAttr, "pixel_format %q, must be RGB, BGR or Grayscale", name)
}

func inferImageDecoder(c *Infer) error {
	_, channels, err := pixelFormat(c.Call)
	if err != nil {
		return err
	}
	if in := c.In[0]; in.DType != tensor.Undefined && in.DType != tensor.Uint8 ||
		in.Ranked && len(in.Shape) != 1 {
		return c.Errorf(ErrInput, "encoded_stream %v must be bytes", in)
	}
	c.Out[0] = Ranked(tensor.Uint8, Unknown(), Unknown(), Known(channels))
	if file := c.Const(0); file != nil {
		m, err := raster.Decode(file.Data)
		switch {
		case err == nil:
			c.Out[0] = Concrete(tensor.Uint8, m.Height, m.Width, channels)
		case errors.Is(err, raster.ErrImage):
			c.Out[0] = Concrete(tensor.Uint8, 0, 0, channels)
		}
	}
	return nil
}

// evalImageDecoder gives height × width × channels, and an image without pixels for bytes that are
// none, as ONNX wants it.
func evalImageDecoder(c *Eval) error {
	in := c.In[0]
	name, channels, err := pixelFormat(c.Call)
	if err != nil {
		return err
	}
	if in.DType != tensor.Uint8 || in.Rank() != 1 {
		return c.Errorf(ErrInput, "encoded_stream is %v%v, must be bytes", in.DType, in.Shape)
	}
	width, height, err := raster.Config(in.Data)
	var m *raster.Image
	if err == nil {
		if _, err := c.Output(0, tensor.Uint8, []int{height, width, channels}); err != nil {
			return err
		}
		m, err = raster.Decode(in.Data)
	}
	switch {
	case errors.Is(err, raster.ErrFormat):
		return c.Errorf(ErrUnsupported, "%v", err)
	case err != nil:
		_, err := c.Output(0, tensor.Uint8, []int{0, 0, channels})
		return err
	}
	arrange(c.Out[0].Data, m.RGB, name)
	return nil
}

// arrange puts pixels in the order of a format. Grey is the luma of ITU-R 601 in 16 binary places,
// as Pillow computes it.
func arrange(out, rgb []byte, format string) {
	for i := 0; i < len(rgb); i += 3 {
		r, g, b := rgb[i], rgb[i+1], rgb[i+2]
		switch format {
		case "Grayscale":
			out[i/3] = byte((19595*uint32(r) + 38470*uint32(g) + 7471*uint32(b) + 1<<15) >> 16)
		case "BGR":
			out[i], out[i+1], out[i+2] = b, g, r
		default:
			copy(out[i:], rgb[i:i+3])
		}
	}
}
