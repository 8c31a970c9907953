// Command classify says which digit a picture shows: an image in, labels out.
//
//	go run ./examples/classify [PICTURE.png ...]
//
// Meet first: classify, which is all that a program needs to run a model. Without a picture it
// takes one that comes with the model.
//
// Concurrency: none of its own.
//
// What it refuses: files that are no PNG, JPEG or GIF.
package main

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"os"
	"os/signal"
	"slices"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "classify:", err)
		os.Exit(1)
	}
}

// run classifies the pictures in files.
func run(ctx context.Context, files []string) error {
	m, err := weir.Load(digits.Model) // or weir.Open("digits.onnx")
	if err != nil {
		return err
	}
	defer m.Close()
	if len(files) == 0 {
		images, err := digits.Images()
		if err != nil {
			return err
		}
		return show(ctx, m, "the first picture", digits.Input(images[0]))
	}
	for _, file := range files {
		pixels, err := read(file)
		if err != nil {
			return err
		}
		if err := show(ctx, m, file, pixels); err != nil {
			return err
		}
	}
	return nil
}

// show prints what a picture shows.
func show(ctx context.Context, m *weir.Model, name string, pixels []float32) error {
	best, err := classify(ctx, m, pixels)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Printf("%s:", name)
	for _, l := range best {
		fmt.Printf("  %d (%.1f %%)", l.digit, 100*l.probability)
	}
	fmt.Println()
	return nil
}

// label is a digit and how likely it is.
type label struct {
	digit       int
	probability float32
}

// classify returns the three likeliest digits, the likeliest first.
func classify(ctx context.Context, m *weir.Model, pixels []float32) ([]label, error) {
	image, err := weir.NewTensor(pixels, 1, 1, digits.Side, digits.Side)
	if err != nil {
		return nil, err
	}
	out, err := m.Run(ctx, weir.Inputs{"image": image})
	if err != nil {
		return nil, err
	}
	defer out.Close()
	probabilities, err := weir.Output[float32](out, "probabilities")
	if err != nil {
		return nil, err
	}
	labels := make([]label, len(probabilities))
	for i, p := range probabilities {
		labels[i] = label{i, p}
	}
	slices.SortFunc(labels,
		func(a, b label) int { return cmp.Compare(b.probability, a.probability) })
	return labels[:3], nil
}

// read returns a picture as the model takes it: scaled to its size, ink 1 and paper 0.
func read(file string) ([]float32, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	picture, _, err := image.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	pixels := make([]float32, digits.Side*digits.Side)
	for i := range pixels {
		pixels[i] = 1 - mean(picture, i%digits.Side, i/digits.Side)
	}
	return pixels, nil
}

// mean is how light one of the model's pixels is, 0 to 1.
func mean(picture image.Image, x, y int) float32 {
	b := picture.Bounds()
	cell := image.Rect(b.Min.X+x*b.Dx()/digits.Side, b.Min.Y+y*b.Dy()/digits.Side,
		b.Min.X+(x+1)*b.Dx()/digits.Side, b.Min.Y+(y+1)*b.Dy()/digits.Side)
	sum := 0.0
	for py := cell.Min.Y; py < cell.Max.Y; py++ {
		for px := cell.Min.X; px < cell.Max.X; px++ {
			sum += float64(color.Gray16Model.Convert(picture.At(px, py)).(color.Gray16).Y) / 0xffff
		}
	}
	return float32(sum / float64(max(1, cell.Dx()*cell.Dy())))
}
