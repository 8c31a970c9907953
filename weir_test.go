package weir_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/tensor"
)

// TestDigitsHeldOut runs the trained classifier on every image that it was not trained on.
func TestDigitsHeldOut(t *testing.T) {
	m, err := weir.Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	images, labels, held := digitsData(t)
	right := 0
	for _, i := range held {
		if classify(t, m, images[i]) == int(labels[i]) {
			right++
		}
	}
	if accuracy := float64(right) / float64(len(held)); accuracy <= 0.97 ||
		right != digits.HeldOutCorrect {
		t.Errorf("%d of %d held-out images right (%.1f %%), want %d", right, len(held),
			100*accuracy, digits.HeldOutCorrect)
	}
}

// TestPrecision runs the classifier in bfloat16: it must answer nearly always as in float32 and
// still be right. On processors without it both are the same.
func TestPrecision(t *testing.T) {
	images, labels, held := digitsData(t)
	full, err := weir.Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if _, err := weir.Load(digits.Model,
		weir.WithPrecision("fp8")); !errors.Is(err, weir.ErrOption) {
		t.Errorf("precision fp8: error %v, want ErrOption", err)
	}
	for _, p := range []weir.Precision{weir.BF16, weir.Auto} {
		m, err := weir.Load(digits.Model, weir.WithPrecision(p))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		right, same := 0, 0
		for _, i := range held {
			got := classify(t, m, images[i])
			if got == int(labels[i]) {
				right++
			}
			if got == classify(t, full, images[i]) {
				same++
			}
		}
		if n := float64(len(held)); float64(right) < 0.97*n || float64(same) < 0.99*n {
			t.Errorf("%s: %d of %d right, %d as in float32", p, right, len(held), same)
		}
	}
}

func digitsData(t testing.TB) ([]digits.Image, []uint8, []int) {
	t.Helper()
	images, err := digits.Images()
	if err != nil {
		t.Fatal(err)
	}
	labels, err := digits.Labels()
	if err != nil {
		t.Fatal(err)
	}
	held, err := digits.HeldOut()
	if err != nil {
		t.Fatal(err)
	}
	return images, labels, held
}

func classify(t testing.TB, m *weir.Model, image digits.Image) int {
	t.Helper()
	out, err := m.Run(context.Background(),
		weir.Inputs{"image": tensor.From(digits.Input(image), 1, 1, digits.Side, digits.Side)})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p, err := weir.Data[float32](out.Output("probabilities"))
	if err != nil {
		t.Fatal(err)
	}
	best := 0
	for i, v := range p {
		if v > p[best] {
			best = i
		}
	}
	return best
}

// TestRunAllocatesNothing holds the promise of a steady state without garbage.
func TestRunAllocatesNothing(t *testing.T) {
	m, err := weir.Load(digits.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	images, _, _ := digitsData(t)
	in := weir.Inputs{"image": tensor.From(digits.Input(images[0]), 1, 1, digits.Side,
		digits.Side)}
	ctx := context.Background()
	n := testing.AllocsPerRun(200, func() {
		out, err := m.Run(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := weir.Output[float32](out, m.Outputs()[0].Name); err != nil || len(p) == 0 ||
			len(out.Outputs()) == 0 || len(m.Inputs()) != 1 {
			t.Fatal(err)
		}
		out.Close()
	})
	if n != 0 {
		t.Errorf("Run allocates %v objects, want 0", n)
	}
}

// TestRunOfMappedFile holds it where steps read a mapped file, which is looked at after each Run.
func TestRunOfMappedFile(t *testing.T) {
	m := load(t, positions)
	in := weir.Inputs{"tokens": tensor.From([]int64{0, 1}, 2)}
	n := testing.AllocsPerRun(200, func() {
		out, err := m.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		out.Close()
	})
	if n != 0 {
		t.Errorf("Run allocates %v objects, want 0", n)
	}
}

func Example() {
	m, err := weir.Load(digits.Model)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	images, err := digits.Images()
	if err != nil {
		fmt.Println(err)
		return
	}
	image, err := weir.NewTensor(digits.Input(images[0]), 1, 1, digits.Side, digits.Side)
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := m.Run(context.Background(), weir.Inputs{"image": image})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer out.Close()
	p, err := weir.Output[float32](out, "probabilities")
	if err != nil {
		fmt.Println(err)
		return
	}
	best := 0
	for class, v := range p {
		if v > p[best] {
			best = class
		}
	}
	fmt.Println("the image shows a", best)
	// Output: the image shows a 0
}
