package raster

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"
)

var (
	// ErrFormat is the kind of error about a format that exists and that the package does not
	// decode.
	ErrFormat = errors.New("image format not decoded")
	// ErrImage is the kind of error about bytes that are no image, a damaged one or too large a
	// one.
	ErrImage = errors.New("no image")
)

// MaxPixels bounds an image: a small file may claim to be a huge one.
const MaxPixels = 1 << 28

// Image is width × height pixels of red, green and blue, row after row from the top.
type Image struct {
	Width, Height int
	RGB           []byte
}

// format is one kind of file.
type format struct {
	magic  string // first bytes; '?' stands for any
	config func(data []byte) (width, height int, err error)
	decode func(data []byte) (*Image, error)
}

var formats = []format{
	{"BM", size(bmp.DecodeConfig), plain(bmp.Decode)},
	{"\xff\xd8", size(jpeg.DecodeConfig), decodeJPEG},
	{"\x89PNG\r\n\x1a\n", size(png.DecodeConfig), plain(png.Decode)},
	{"II\x2a\x00", size(tiff.DecodeConfig), plain(tiff.Decode)},
	{"MM\x00\x2a", size(tiff.DecodeConfig), plain(tiff.Decode)},
	{"RIFF????WEBP", size(webp.DecodeConfig), decodeWebP},
	{"P?", netpbmSize, decodeNetpbm},
	{"\x00\x00\x00\x0cjP  ", jpeg2000, nil},
	{"\xff\x4f\xff\x51", jpeg2000, nil},
}

func jpeg2000([]byte) (int, int, error) {
	return 0, 0, fmt.Errorf("%w: JPEG 2000; convert the image to PNG", ErrFormat)
}

// formatOf finds the format by the first bytes.
func formatOf(data []byte) (*format, error) {
	for i := range formats {
		if f := &formats[i]; matches(data, f.magic) {
			return f, nil
		}
	}
	return nil, fmt.Errorf("%w: first bytes %x are of no known format", ErrImage,
		data[:min(len(data), 8)])
}

func matches(data []byte, magic string) bool {
	if len(data) < len(magic) {
		return false
	}
	for i := range len(magic) {
		if magic[i] != '?' && magic[i] != data[i] {
			return false
		}
	}
	return true
}

// Config returns the size of an image, checked against [MaxPixels]. Its errors are of kind
// [ErrFormat] or [ErrImage].
func Config(data []byte) (width, height int, err error) {
	f, err := formatOf(data)
	if err != nil {
		return 0, 0, err
	}
	if width, height, err = f.config(data); err != nil {
		return 0, 0, err
	}
	if width < 1 || height < 1 || width > MaxPixels/height {
		return 0, 0, fmt.Errorf("%w: %d × %d pixels, must be at least one and at most %d", ErrImage,
			width, height, MaxPixels)
	}
	return width, height, nil
}

// Decode decodes an image. Its errors are those of [Config].
func Decode(data []byte) (*Image, error) {
	if _, _, err := Config(data); err != nil {
		return nil, err
	}
	f, err := formatOf(data)
	if err != nil {
		return nil, err
	}
	return f.decode(data)
}

// size adapts a DecodeConfig of package image's kind.
func size(config func(io.Reader) (image.Config, error)) func([]byte) (int, int, error) {
	return func(data []byte) (int, int, error) {
		c, err := config(bytes.NewReader(data))
		if err != nil {
			return 0, 0, fmt.Errorf("%w: %v", ErrImage, err)
		}
		return c.Width, c.Height, nil
	}
}

// plain adapts a Decode of package image's kind whose images need no conversion of chroma.
func plain(decode func(io.Reader) (image.Image, error)) func([]byte) (*Image, error) {
	return func(data []byte) (*Image, error) {
		m, err := decode(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrImage, err)
		}
		return pixels(m), nil
	}
}

// newImage makes a black image.
func newImage(b image.Rectangle) *Image {
	return &Image{b.Dx(), b.Dy(), make([]byte, 3*b.Dx()*b.Dy())}
}

// pixels takes the colours of m as they are, without the alpha that package color would multiply
// them with.
func pixels(m image.Image) *Image {
	b := m.Bounds()
	out := newImage(b)
	for i := range out.Width * out.Height {
		x, y := b.Min.X+i%out.Width, b.Min.Y+i/out.Width
		c := color.NRGBA64Model.Convert(m.At(x, y)).(color.NRGBA64)
		switch c8 := m.At(x, y).(type) {
		case color.NRGBA:
			c = color.NRGBA64{R: uint16(c8.R) << 8, G: uint16(c8.G) << 8, B: uint16(c8.B) << 8}
		case color.NRGBA64:
			c = c8
		}
		out.RGB[3*i], out.RGB[3*i+1], out.RGB[3*i+2] = byte(c.R>>8), byte(c.G>>8), byte(c.B>>8)
	}
	return out
}

func clip(v int) byte { return byte(min(max(v, 0), 255)) }
