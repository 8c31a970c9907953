package data

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// picturesIn writes pictures, of colours that tell them apart, by their paths in a folder.
func picturesIn(t *testing.T, names ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for i, name := range names {
		m := image.NewNRGBA(image.Rect(0, 0, 8, 6))
		for k := range 48 {
			m.SetNRGBA(k%8, k/8, color.NRGBA{uint8(20 * i), uint8(5 * k), uint8(30 * (k % 8)), 255})
		}
		var b bytes.Buffer
		err := png.Encode(&b, m)
		if strings.HasSuffix(name, ".jpg") {
			b.Reset()
			err = jpeg.Encode(&b, m, nil)
		}
		put(t, filepath.Join(folder, name), b.Bytes(), err)
	}
	return folder
}

func put(t *testing.T, path string, b []byte, err error) {
	t.Helper()
	err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// filled are the numbers of samples.
func filled(t *testing.T, s Source, shape []int, rows []int, epoch int) []float32 {
	t.Helper()
	to, err := tensor.New(tensor.Float32, append([]int{len(rows)}, shape...)...)
	if err == nil {
		err = s.Fill(to, rows, epoch)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tensor.As[float32](to)
}

// TestPictures: files are in the order of classes and names, and become what a model takes: less
// the mean of their channel, over its deviation, as luma for one channel, and not stretched where
// they are to cover.
func TestPictures(t *testing.T) {
	folder := picturesIn(t, "b/1.png", "b/0.png", "a/x.JPG", "a/.hidden", "c/2.jpeg")
	p, err := ReadPictures(folder, []int{0, 3, 6, 8}, nil, PictureOptions{
		Mean: []float64{0.5, 0, 0.25}, Std: []float64{1, 2, 4}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(p.Classes(), want) || p.Samples() != 4 {
		t.Errorf("%d samples of %v", p.Samples(), p.Classes())
	}
	labels := p.Labels()
	for i, want := range []int64{0, 1, 1, 2} {
		if labels.Label(i) != want {
			t.Errorf("sample %d is of class %d, want %d", i, labels.Label(i), want)
		}
	}
	// b/0.png is the picture that was written second, b/1.png the first
	v := filled(t, p, []int{3, 6, 8}, []int{2, 1}, -1)
	for i, red := range []float64{0, 20} {
		for k := range 48 {
			for c, want := range []float64{red/255 - 0.5, float64(5*k) / 255 / 2,
				(float64(30*(k%8))/255 - 0.25) / 4} {
				if got := v[i*144+c*48+k]; math.Abs(float64(got)-want) > 1e-6 {
					t.Fatalf("sample %d, channel %d, pixel %d: %v, want %v", i, c, k, got, want)
				}
			}
		}
	}
	luma, err := ReadPictures(folder, []int{0, 1, 6, 6}, nil, PictureOptions{Cover: true})
	if err != nil {
		t.Fatal(err)
	}
	for k, got := range filled(t, luma, []int{1, 6, 6}, []int{2}, 0) {
		x, y := k%6+1, k/6 // the middle six of eight columns
		want := (0.587*float64(5*(8*y+x)) + 0.114*float64(30*x)) / 255
		if math.Abs(float64(got)-want) > 1e-6 {
			t.Fatalf("luma of pixel %d is %v, want %v", k, got, want)
		}
	}
	tall, err := ReadPictures(folder, []int{0, 1, 6, 2}, nil, PictureOptions{Cover: true})
	if err != nil {
		t.Fatal(err)
	}
	for k, got := range filled(t, tall, []int{1, 6, 2}, []int{2}, 0) {
		x, y := k%2+3, k/2
		want := (0.587*float64(5*(8*y+x)) + 0.114*float64(30*x)) / 255
		if math.Abs(float64(got)-want) > 1e-6 {
			t.Fatalf("luma of pixel %d of a narrow part is %v, want %v", k, got, want)
		}
	}
}

// TestPicturesDrawn: the part of a picture that is used follows from seed, epoch and sample, not
// from the batch; each of them matters, and samples that a model is tried on are whole.
func TestPicturesDrawn(t *testing.T) {
	folder := picturesIn(t, "a/0.png", "a/1.png", "a/2.png", "a/3.png", "a/4.png", "a/5.png")
	shape, rows := []int{3, 6, 8}, []int{0, 1, 2, 3, 4, 5}
	read := func(least, most float64, seed uint64) *Pictures {
		p, err := ReadPictures(folder, []int{0, 3, 6, 8}, nil,
			PictureOptions{Least: least, Most: most, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := read(0.2, 0.9, 1)
	want := filled(t, p, shape, rows, 1)
	back := filled(t, p, shape, []int{5, 4, 3, 2, 1, 0}, 1)
	for i := range rows {
		if !slices.Equal(want[i*144:(i+1)*144], back[(5-i)*144:(6-i)*144]) ||
			!slices.Equal(want[i*144:(i+1)*144], filled(t, p, shape, []int{i}, 1)) {
			t.Errorf("sample %d depends on its batch", i)
		}
	}
	whole := filled(t, read(0, 0, 1), shape, rows, 1)
	for name, other := range map[string][]float32{"epoch": filled(t, p, shape, rows, 2),
		"seed": filled(t, read(0.2, 0.9, 2), shape, rows, 1), "parts": whole} {
		if slices.Equal(want, other) {
			t.Errorf("no picture depends on the %s", name)
		}
	}
	if !slices.Equal(filled(t, p, shape, rows, -1), whole) {
		t.Error("parts are drawn of samples that a model is tried on")
	}
	m, err := decoded("a", must(os.ReadFile(filepath.Join(folder, "a", "0.png"))))
	if err != nil {
		t.Fatal(err)
	}
	for row := range 1000 {
		x, y, w, h, ok := read(0.2, 0.9, 3).drawn(m, row, 0)
		if area := float64(w*h) / 48; ok && (x < 0 || y < 0 || x+w > 8 || y+h > 6 || area > 1.2 ||
			area < 0.1) {
			t.Fatalf("part %d %d %d %d", x, y, w, h)
		}
		if row > 20 {
			break
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestPicturesWrong: what is wrong with a folder is said with the file or folder.
func TestPicturesWrong(t *testing.T) {
	o, shape := PictureOptions{}, []int{0, 3, 6, 8}
	for name, tc := range map[string]struct {
		spoil func(folder string)
		shape []int
		o     PictureOptions
		want  []string
	}{
		"damaged": {func(f string) {
			b := must(os.ReadFile(f + "/a/0.png"))
			put(t, f+"/a/1.png", b[:len(b)/2], nil)
			put(t, f+"/b/2.jpg", []byte("\xff\xd8no"), nil)
			b[len(b)-20] ^= 1
			put(t, f+"/b/3.png", b, nil)
		}, shape, o, []string{"a/1.png: unusable data", "b/2.jpg: unusable data", "b/3.png: "}},
		"empty class": {func(f string) { put(t, f+"/c/.keep", nil, nil) }, shape, o,
			[]string{"/c: unusable data: no image of this class"}},
		"beside": {func(f string) { put(t, f+"/x.png", nil, nil) }, shape, o,
			[]string{"/x.png: unusable data: a file beside"}},
		"no picture": {func(f string) { put(t, f+"/a/notes.txt", nil, nil) }, shape, o,
			[]string{"a/notes.txt: unusable data: want .png"}},
		"nested": {func(f string) { put(t, f+"/a/b/0.png", nil, nil) }, shape, o,
			[]string{"/a/b: unusable data: a folder within"}},
		"nothing": {func(f string) {
			if err := errors.Join(os.RemoveAll(f+"/a"), os.RemoveAll(f+"/b")); err != nil {
				t.Fatal(err)
			}
		}, shape, o, []string{"no folder of a class"}},
		"axes":    {func(string) {}, []int{0, 6, 8, 3}, o, []string{"rows, columns"}},
		"vectors": {func(string) {}, []int{0, 64}, o, []string{"rows, columns"}},
		"channels": {func(string) {}, shape, PictureOptions{Std: []float64{1, 2}},
			[]string{"of 2 channels, the"}},
	} {
		folder := picturesIn(t, "a/0.png", "b/0.png")
		tc.spoil(folder)
		_, err := ReadPictures(folder, tc.shape, nil, tc.o)
		for _, want := range tc.want {
			if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), folder) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	folder := picturesIn(t, "a/0.png", "b/0.png")
	if _, err := ReadPictures(folder, shape, []string{"b"}, o); !errors.Is(err, ErrData) ||
		!strings.Contains(err.Error(), `no class "a"`) {
		t.Errorf("a class that is not trained on: %v", err)
	}
	p, err := ReadPictures(folder, shape, []string{"c", "b", "a"}, o)
	if err != nil || p.Labels().Label(0) != 2 || p.Labels().Label(1) != 1 {
		t.Errorf("classes as they are numbered: %v, %v", p, err)
	}
	other := must(os.ReadFile(picturesIn(t, "b/0.png", "a/1.png") + "/a/1.png"))
	put(t, folder+"/a/0.png", other, nil)
	to := tensor.From(make([]float32, 144), 1, 3, 6, 8)
	if err := p.Fill(to, []int{0}, 0); !errors.Is(err, ErrData) ||
		!strings.Contains(err.Error(), "a/0.png: unusable data: the file was changed") {
		t.Errorf("a file that was changed: %v", err)
	}
}

// TestPicturesDigest: names, classes, contents and how pictures are taken count.
func TestPicturesDigest(t *testing.T) {
	digest := func(folder string, o PictureOptions) string {
		p, err := ReadPictures(folder, []int{0, 3, 6, 8}, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		p.Digest(h)
		return string(h.Sum(nil))
	}
	seen := map[string]string{}
	for name, d := range map[string]string{
		"as it is":   digest(picturesIn(t, "a/0.png", "a/1.png"), PictureOptions{}),
		"named else": digest(picturesIn(t, "a/0.png", "a/2.png"), PictureOptions{}),
		"classes":    digest(picturesIn(t, "a/0.png", "b/1.png"), PictureOptions{}),
		"contents":   digest(picturesIn(t, "a/1.png", "a/0.png"), PictureOptions{}),
		"mean": digest(picturesIn(t, "a/0.png", "a/1.png"),
			PictureOptions{Mean: []float64{1}}),
		"cover": digest(picturesIn(t, "a/0.png", "a/1.png"), PictureOptions{Cover: true}),
	} {
		if was, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", name, was)
		}
		seen[d] = name
	}
	if again := digest(picturesIn(t, "a/0.png", "a/1.png"), PictureOptions{}); seen[again] !=
		"as it is" {
		t.Error("the same pictures elsewhere have another digest")
	}
}
