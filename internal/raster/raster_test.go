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
	"math"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
)

// sample is an image without symmetry, some pixels of which are transparent.
func sample() *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, 5, 3))
	for i := range 15 {
		m.Set(i%5, i/5, color.NRGBA{uint8(17 * i), uint8(255 - 3*i), uint8(i * i), 255})
	}
	return m
}

func encoded(t testing.TB, m image.Image, encode func(io.Writer, image.Image) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tiffEncode(w io.Writer, m image.Image) error { return tiff.Encode(w, m, nil) }

func TestLosslessFormats(t *testing.T) {
	m := sample()
	var want []byte
	for i := range 15 {
		c := m.NRGBAAt(i%5, i/5)
		want = append(want, c.R, c.G, c.B)
	}
	m.SetNRGBA(1, 1, color.NRGBA{102, 237, 36, 7}) // alpha is dropped, not multiplied with
	ppm := append([]byte("P6 # a comment\n5\n3 255\n"), want...)
	for name, file := range map[string][]byte{"png": encoded(t, m, png.Encode),
		"tiff": encoded(t, m, tiffEncode), "bmp": encoded(t, m, bmp.Encode), "ppm": ppm} {
		got, err := Decode(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Width != 5 || got.Height != 3 || !bytes.Equal(got.RGB, want) {
			t.Errorf("%s: %d × %d of %v, want %v", name, got.Width, got.Height, got.RGB, want)
		}
	}
}

func TestPortableFormats(t *testing.T) {
	for _, c := range []struct {
		file string
		want []byte // one channel
	}{
		{"P1 3 1 101", []byte{0, 255, 0}},
		{"P1\n3 1\n1 0 1\n", []byte{0, 255, 0}},
		{"P2 3 1 4 0 2 4", []byte{0, 128, 255}},
		{"P4 9 2\n\x80\x80\x00\x00",
			[]byte{0, 255, 255, 255, 255, 255, 255, 255, 0, 255, 255, 255, 255, 255, 255, 255, 255,
				255}},
		{"P5 2 1 255 \x07\x09", []byte{7, 9}},
		{"P5 1 1 65535 \x80\x00", []byte{128}},
		{"P7\nWIDTH 2\nHEIGHT 1\nDEPTH 2\nMAXVAL 255\nTUPLTYPE " +
			"GRAYSCALE_ALPHA\nENDHDR\n\x05\xff\x06\x00", []byte{5, 6}},
	} {
		got, err := Decode([]byte(c.file))
		if err != nil {
			t.Errorf("%q: %v", c.file, err)
			continue
		}
		for i, v := range c.want {
			if !bytes.Equal(got.RGB[3*i:3*i+3], []byte{v, v, v}) {
				t.Errorf("%q: %v, want %v three times", c.file, got.RGB, c.want)
				break
			}
		}
	}
}

func TestRefused(t *testing.T) {
	huge := []byte("P5 2000000 2000000 255 ")
	for name, c := range map[string]struct {
		file []byte
		err  error
	}{
		"nothing":    {nil, ErrImage},
		"text":       {[]byte("hello"), ErrImage},
		"short":      {[]byte("P5 2 2 255 abc"), ErrImage},
		"header":     {[]byte("P6 2"), ErrImage},
		"no sizes":   {[]byte("P6 0 0 255 "), ErrImage},
		"huge":       {huge, ErrImage},
		"cut png":    {encoded(t, sample(), png.Encode)[:60], ErrImage},
		"cut jpeg":   {[]byte("\xff\xd8\xff"), ErrImage},
		"jpeg 2000":  {[]byte("\x00\x00\x00\x0cjP  \r\n"), ErrFormat},
		"codestream": {[]byte("\xff\x4f\xff\x51"), ErrFormat},
	} {
		if _, err := Decode(c.file); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
}

// TestChroma compares with values computed by hand from the formulas of libjpeg and libwebp.
func TestChroma(t *testing.T) {
	c := &chroma{[]byte{10, 50, 90, 10, 90, 130}, 3, 3, 2}
	for _, k := range []struct {
		y, across, down int
		want            []byte
	}{
		{0, 2, 1, []byte{10, 20, 40, 60, 80, 90}},
		{0, 2, 2, []byte{10, 20, 40, 60, 80, 90}},
		{1, 2, 2, []byte{10, 22, 48, 70, 90, 100}},
		{1, 1, 2, []byte{10, 60, 100}},
		{2, 1, 2, []byte{10, 80, 120}},
		{0, 4, 1, []byte{10, 10, 10, 10, 50, 50, 50, 50, 90}},
	} {
		got := make([]byte, len(k.want))
		c.row(got, k.y, k.across, k.down)
		if !bytes.Equal(got, k.want) {
			t.Errorf("row %d, %d × %d: %v, want %v", k.y, k.across, k.down, got, k.want)
		}
	}
	if got := c.quincunx(1, 1); got != (((10+50+10+90+8+2*(50+10))>>3)+10)>>1 {
		t.Errorf("quincunx: %d", got)
	}
}

// TestGreyJPEG has no chroma: all channels are the luma.
func TestGreyJPEG(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 9, 7))
	for i := range m.Pix {
		m.Pix[i] = byte(40 + i)
	}
	got, err := Decode(
		encoded(
			t,
			m,
			func(w io.Writer, m image.Image) error {
				return jpeg.Encode(w, m, &jpeg.Options{Quality: 100})
			},
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range m.Pix {
		if d := int(got.RGB[3*i]) - int(want); d < -2 || d > 2 || got.RGB[3*i] != got.RGB[3*i+2] {
			t.Fatalf("pixel %d: %v, want %d", i, got.RGB[3*i:3*i+3], want)
		}
	}
}

// TestInverseDCT compares with the sum of cosines: never more than one level off.
func TestInverseDCT(t *testing.T) {
	var b, c [64]int32
	for i := range b {
		b[i] = int32(i*i*37%401-200) / int32(1+i/4)
	}
	c = b
	inverseDCT(&c)
	scale := func(k int) float64 {
		if k == 0 {
			return math.Sqrt(0.125)
		}
		return 0.5
	}
	for at, got := range c {
		want := 0.0
		for k, v := range b {
			u, w := k%8, k/8
			want += float64(v) * scale(u) * scale(w) * math.Cos(
				float64((2*(at%8)+1)*u)*math.Pi/16) * math.Cos(float64((2*(at/8)+1)*w)*math.Pi/16)
		}
		if math.Abs(float64(got)-want) > 0.75 {
			t.Errorf("element %d: %d, want %v", at, got, want)
		}
	}
}

// TestBaselineJPEG compares the two decoders of baseline files, which may differ by a level.
func TestBaselineJPEG(t *testing.T) {
	m := image.NewYCbCr(image.Rect(0, 0, 37, 21), image.YCbCrSubsampleRatio420)
	for i := range m.Y {
		m.Y[i] = byte(i * i)
	}
	for i := range m.Cb {
		m.Cb[i], m.Cr[i] = byte(100+i), byte(3*i)
	}
	file := encoded(t, m, func(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, nil) })
	std, err := jpeg.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	exact := exactPlanes(file, std.(*image.YCbCr))
	if exact == nil {
		t.Fatal("a baseline file is not decoded")
	}
	for y := range 21 {
		for x := range 37 {
			a, b := exact.YCbCrAt(x, y), std.(*image.YCbCr).YCbCrAt(x, y)
			if max(a.Y, b.Y)-min(a.Y, b.Y) > 1 || max(a.Cb, b.Cb)-min(a.Cb, b.Cb) > 1 ||
				max(a.Cr, b.Cr)-min(a.Cr, b.Cr) > 1 {
				t.Fatalf("pixel %d, %d: %v and %v", x, y, a, b)
			}
		}
	}
	if exactPlanes(file[:40], std.(*image.YCbCr)) != nil {
		t.Error("half a header is decoded")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, sample(), png.Encode))
	f.Add(encoded(f, sample(), bmp.Encode))
	f.Add(encoded(f, sample(), tiffEncode))
	f.Add(
		encoded(f, sample(),
			func(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, nil) }),
	)
	f.Add([]byte("P3 2 1 255 1 2 3 4 5 6"))
	f.Add([]byte("P7\nWIDTH 2\nHEIGHT 1\nDEPTH 2\nMAXVAL 255\nENDHDR\n1234"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if w, h, err := Config(file); err == nil && w*h > 1<<20 {
			t.Skip("large")
		}
		m, err := Decode(file)
		if err == nil && len(m.RGB) != 3*m.Width*m.Height {
			t.Error(fmt.Sprint(len(m.RGB), " bytes for ", m.Width, " × ", m.Height))
		}
	})
}
