package raster

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
)

// decodeJPEG converts chroma as libjpeg-turbo does by default ("fancy upsampling", jdsample.c and
// jdcolor.c), which the text of ONNX ImageDecoder-20 prescribes.
func decodeJPEG(data []byte) (*Image, error) {
	m, err := jpeg.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrImage, err)
	}
	if grey, ok := m.(*image.Gray); ok {
		if exact := exactGray(data, grey); exact != nil {
			m = exact
		}
	}
	y, ok := m.(*image.YCbCr)
	if !ok {
		return pixels(m), nil
	}
	if exact := exactPlanes(data, y); exact != nil {
		y = exact
	}
	out := newImage(y.Rect)
	cb, cr := upsampled(y, y.Cb), upsampled(y, y.Cr)
	for i := range out.Width * out.Height {
		luma := int(y.Y[i/out.Width*y.YStride+i%out.Width])
		copy(out.RGB[3*i:], rgbOfJPEG(luma, int(cb[i])-128, int(cr[i])-128))
	}
	return out, nil
}

// rgbOfJPEG is the conversion of JFIF in 16 binary places.
func rgbOfJPEG(y, cb, cr int) []byte {
	const half = 1 << 15
	r := y + (91881*cr+half)>>16
	g := y + (-22554*cb-46802*cr+half)>>16
	b := y + (116130*cb+half)>>16
	return []byte{clip(r), clip(g), clip(b)}
}

// upsampled brings one chroma plane to the size of the image.
func upsampled(m *image.YCbCr, plane []byte) []byte {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	across, down := 1, 1
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		across = 2
	case image.YCbCrSubsampleRatio420:
		across, down = 2, 2
	case image.YCbCrSubsampleRatio440:
		down = 2
	case image.YCbCrSubsampleRatio411:
		across = 4
	case image.YCbCrSubsampleRatio410:
		across, down = 4, 2
	}
	small := chroma{plane, m.CStride, (w + across - 1) / across, (h + down - 1) / down}
	out := make([]byte, w*h)
	for y := range h {
		small.row(out[y*w:][:w], y, across, down)
	}
	return out
}

// chroma is a plane of fewer samples than the image has pixels.
type chroma struct {
	data                  []byte
	stride, width, height int
}

func (c *chroma) at(x, y int) int {
	y = min(max(y, 0), c.height-1)
	return int(c.data[y*c.stride+min(max(x, 0), c.width-1)])
}

// row computes one row of the image. Halved axes are interpolated with weights 3/4 and 1/4; columns
// only when the plane has more than two of them, as in libjpeg. Other ratios repeat samples.
func (c *chroma) row(out []byte, y, across, down int) {
	smooth := across <= 2 && down <= 2 && (across == 1 || c.width > 2)
	near, other := y/down, y/down
	if smooth && down == 2 {
		other = near - 1 + y%2*2
	}
	for x := range out {
		k := x / across
		if !smooth || across == 1 && down == 1 {
			out[x] = byte(c.at(k, near))
			continue
		}
		out[x] = c.between(k, x%across, near, other, across, down)
	}
}

// between interpolates right (side 1) or left of sample k, between rows near and other. Roundings
// alternate, so that no direction is preferred.
func (c *chroma) between(k, side, near, other, across, down int) byte {
	column := func(k int) int { return 3*c.at(k, near) + c.at(k, other) }
	next := k - 1 + 2*side
	switch {
	case across == 1: // rows only: 1 above, 2 below
		return byte((column(k) + 1 + boolInt(other > near)) >> 2)
	case down == 1 && (next < 0 || next >= c.width):
		return byte(c.at(k, near))
	case down == 1:
		return byte((3*c.at(k, near) + c.at(next, near) + 1 + side) >> 2)
	}
	return byte((3*column(k) + column(next) + 8 - side) >> 4)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
