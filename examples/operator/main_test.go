package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir"
)

// TestSnake holds that the kernel and the plain evaluation compute what the paper says, alike.
func TestSnake(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]float32, 2*50)
	for i := range x {
		x[i] = rng.Float32()*4 - 2
	}
	fast, err := run(t.Context(), x, snake)
	if err != nil {
		t.Fatal(err)
	}
	plain := snake
	plain.Kernel = nil
	slow, err := run(t.Context(), x, plain)
	if err != nil || !slices.Equal(fast, slow) {
		t.Errorf("kernel and evaluation differ: %v", err)
	}
	for i, v := range x {
		a := float64(1 + i/50)
		want := float64(v) + (1-math.Cos(2*a*float64(v)))/(2*a)
		if d := float64(fast[i]) - want; math.Abs(d) > 1e-6 {
			t.Errorf("of %v with %v: %v, want %v", v, a, fast[i], want)
		}
	}
}

// TestWithoutSnake holds that the model needs the operator.
func TestWithoutSnake(t *testing.T) {
	_, err := run(t.Context(), []float32{1, 2})
	if !errors.Is(err, weir.ErrUnsupported) || !strings.Contains(err.Error(), "com.example:Snake") {
		t.Errorf("got %v", err)
	}
}
