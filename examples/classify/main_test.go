package main

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
)

// TestClassify draws pictures, reads them back from files of three times their size, and finds the
// digits that people wrote.
func TestClassify(t *testing.T) {
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	labels, err := digits.Labels()
	if err != nil {
		t.Fatal(err)
	}
	m, err := weir.Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	right, dir := 0, t.TempDir()
	const n = 20
	for k := range n {
		file := filepath.Join(dir, "digit.png")
		draw(t, file, &images[k])
		pixels, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		best, err := classify(t.Context(), m, pixels)
		if err != nil || len(best) != 3 || best[0].probability < best[1].probability {
			t.Fatalf("picture %d: %v, %v", k, best, err)
		}
		if best[0].digit == int(labels[k]) {
			right++
		}
	}
	if right < n-1 {
		t.Errorf("%d of %d right", right, n)
	}
	if err := run(t.Context(), []string{filepath.Join(dir, "digit.png")}); err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"main.go"}); err == nil {
		t.Error("a file that is no picture was read")
	}
}

// draw writes a digit as a PNG of 24 by 24 pixels.
func draw(t *testing.T, file string, digit *digits.Image) {
	picture := image.NewGray(image.Rect(0, 0, 3*digits.Side, 3*digits.Side))
	for y := range 3 * digits.Side {
		for x := range 3 * digits.Side {
			ink := int(digit[y/3*digits.Side+x/3])
			picture.SetGray(x, y, color.Gray{Y: uint8(255 - 255*ink/digits.Ink)})
		}
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(f, picture); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
