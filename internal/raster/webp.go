package raster

import (
	"bytes"
	"fmt"
	"image"

	"golang.org/x/image/webp"
)

// decodeWebP converts the chroma of lossy images as libwebp does by default (src/dsp/upsampling.c
// and yuv.h).
func decodeWebP(data []byte) (*Image, error) {
	m, err := webp.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrImage, err)
	}
	var y *image.YCbCr
	switch m := m.(type) {
	case *image.YCbCr:
		y = m
	case *image.NYCbCrA:
		y = &m.YCbCr
	default:
		return pixels(m), nil
	}
	out := newImage(y.Rect)
	u := &chroma{y.Cb, y.CStride, (out.Width + 1) / 2, (out.Height + 1) / 2}
	v := &chroma{y.Cr, y.CStride, u.width, u.height}
	for i := range out.Width * out.Height {
		px, py := i%out.Width, i/out.Width
		copy(out.RGB[3*i:],
			rgbOfWebP(int(y.Y[py*y.YStride+px]), u.quincunx(px, py), v.quincunx(px, py)))
	}
	return out, nil
}

// quincunx interpolates with weights 9, 3, 3 and 1 in two steps that round down, as libwebp's
// arithmetic does; at the left and right edges with 3 and 1.
func (c *chroma) quincunx(x, y int) int {
	kx, ky := x/2, y/2
	nx, ny := kx-1+x%2*2, ky-1+y%2*2
	near, below := c.at(kx, ky), c.at(kx, ny)
	if nx < 0 || nx >= c.width {
		return (3*near + below + 2) >> 2
	}
	beside, across := c.at(nx, ky), c.at(nx, ny)
	diagonal := (near + beside + below + across + 8 + 2*(beside+below)) >> 3
	return (diagonal + near) >> 1
}

// rgbOfWebP is the conversion of BT.601 with limited range in 14 binary places, eight of which are
// dropped at once.
func rgbOfWebP(y, u, v int) []byte {
	luma := y * 19077 >> 8
	r := luma + v*26149>>8 - 14234
	g := luma - u*6419>>8 - v*13320>>8 + 8708
	b := luma + u*33050>>8 - 17685
	return []byte{clip(r >> 6), clip(g >> 6), clip(b >> 6)}
}
